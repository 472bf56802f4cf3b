/* leaks311.c - a module for Python under LeakSanitizer (make asan): what hides leaks in CPython 3.11, or dresses them up.
 *
 * The collector's lists: every object that it knows is linked into lists in static memory, and left there when the interpreter
 * ends. A list, dict or function that was leaked would seem to be reachable. As the very last thing of the interpreter these
 * links are cut; what CPython keeps for itself hangs on its static types and states as well.
 *
 * Recycled floats: a float may lie in a block of a float that died, and its stack is that of the first. */
#define Py_BUILD_CORE_MODULE
#include <Python.h>
#include <internal/pycore_floatobject.h>
#include <internal/pycore_gc.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

static void cut(PyGC_Head *head)
{
    for (PyGC_Head *g = head, *next; g; g = next) {
        next = (PyGC_Head *)g->_gc_next;
        g->_gc_next = g->_gc_prev = 0;
    }
}

static void cut_links(void)
{
    struct _gc_runtime_state *gc = &_PyRuntime._main_interpreter.gc;
    for (int i = 0; i < NUM_GENERATIONS; i++)
        cut(&gc->generations[i].head);
    cut(&gc->permanent_generation.head);
}

/* Until the next full collection: a free list that is empty and claims to be full takes and gives nothing. */
static PyObject *recycle_no_floats(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    struct _Py_float_state *floats = &_PyRuntime._main_interpreter.float_state;
    while (floats->free_list) {
        PyFloatObject *f = floats->free_list;
        floats->free_list = (PyFloatObject *)Py_TYPE(f);
        PyObject_Free(f);
    }
    floats->numfree = PyFloat_MAXFREELIST;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = { { "recycle_no_floats", recycle_no_floats, METH_NOARGS, NULL }, { 0 } };
static PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "leaks311", .m_size = -1, .m_methods = methods };

PyMODINIT_FUNC PyInit_leaks311(void)
{
    return Py_AtExit(cut_links) ? NULL : PyModule_Create(&definition);
}
