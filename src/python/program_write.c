/* program_write.c - graphs handed to the writers of other formats.
 *
 *     _C._onnx_write(graph, constants, names, output_names) -> bytes
 *     _C._c_write(graph, constants, names, function, with_main) -> str
 *
 * `constants` gives get_attr nodes, and placeholders that hold weights, their tensors; `names` what nodes are called in the
 * file. Both are dicts by the name of the node. */
#include "base/alloc.h"
#include "export/onnx/model.h"
#include "fuse/c_writer.h"
#include "python/fx.h"

/* Arrays by node id, for the time of a call: what they point to is the dicts'. */
typedef struct tables {
    const tp_tensor **constant;     /* owned array */
    const char **name;              /* owned array */
} tables;

static bool tables_read(tables *t, const tp_graph *g, PyObject *constants, PyObject *names)
{
    t->constant = tp_alloc_zero(sizeof *t->constant * (g->node_count + 1));
    t->name = tp_alloc_zero(sizeof *t->name * (g->node_count + 1));
    if (!t->constant || !t->name)
        return face_raise();
    tp_graph_each(g, n) {
        PyObject *o = PyDict_GetItemString(constants, n->name), *name = PyDict_GetItemString(names, n->name);
        if (o && !face_is_tensor(o)) {
            PyErr_Format(PyExc_TypeError, "the constant '%s' is no tensor", n->name);
            return false;
        }
        t->constant[n->id] = o ? face_tensor(o) : NULL;
        if (name && !(t->name[n->id] = PyUnicode_AsUTF8(name)))
            return false;
    }
    return true;
}

static void tables_fini(tables *t)
{
    tp_free(t->constant);
    tp_free(t->name);
}

static PyObject *onnx_write(PyObject *module, PyObject *args)
{
    PyObject *graph, *constants, *names, *outputs, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", face.fx.graph, &graph, &PyDict_Type, &constants, &PyDict_Type, &names, &PyList_Type, &outputs))
        return NULL;
    tables t = { 0 };
    tp_text out = { 0 };
    Py_ssize_t count = PyList_GET_SIZE(outputs);
    const char **output = tp_alloc_array((size_t)count + 1, sizeof *output);
    bool ok = (output || face_raise()) && tables_read(&t, fx_graph_of(graph), constants, names);
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = (output[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(outputs, i))) != NULL;
    if (ok) {
        tp_onnx_source s = { fx_graph_of(graph), t.constant, t.name, output, (uint32_t)count };
        if (tp_onnx_write(&s, &out))
            result = PyBytes_FromStringAndSize(tp_text_read(&out), (Py_ssize_t)out.length);
        else
            (void)face_raise();
    }
    tp_text_fini(&out);
    tables_fini(&t);
    tp_free(output);
    return result;
}

static PyObject *c_write(PyObject *module, PyObject *args)
{
    PyObject *graph, *constants, *names, *result = NULL;
    const char *function;
    int with_main;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!sp", face.fx.graph, &graph, &PyDict_Type, &constants, &PyDict_Type, &names, &function, &with_main))
        return NULL;
    tables t = { 0 };
    tp_text out = { 0 };
    if (tables_read(&t, fx_graph_of(graph), constants, names)) {
        tp_c_source s = { fx_graph_of(graph), t.constant, t.name, function, with_main };
        if (tp_c_write(&s, &out))
            result = PyUnicode_FromStringAndSize(tp_text_read(&out), (Py_ssize_t)out.length);
        else
            (void)face_raise();
    }
    tp_text_fini(&out);
    tables_fini(&t);
    return result;
}

static PyMethodDef functions[] = {
    { "_c_write", c_write, METH_VARARGS, "a graph as the text of a C file" },
    { "_onnx_write", onnx_write, METH_VARARGS, "a graph as the bytes of an ONNX model" },
    { 0 },
};

bool face_program_write_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
