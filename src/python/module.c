/* module.c - the extension module `_C`: its one state struct, and the order in which its parts are set up. */
#include <string.h>

#include "python/face.h"
#include "python/pytree.h"

static bool is_second_interpreter(void)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main())
        return false;
    PyErr_SetString(PyExc_ImportError, "Taper cannot be imported in a subinterpreter");
    return true;
}

/* The first part of the module's own name: whatever the package is loaded as. */
static bool read_package(PyObject *module)
{
    const char *name = PyModule_GetName(module);
    if (!name)
        return false;
    const char *dot = strchr(name, '.');
    PyObject *text = PyUnicode_FromStringAndSize(name, dot ? dot - name : (Py_ssize_t)strlen(name));
    if (!text)
        return false;
    PyUnicode_InternInPlace(&text);     /* our reference is never given back: the name outlives the module */
    face.package = PyUnicode_AsUTF8(text);
    return face.package != NULL;
}

static bool prepare_names(PyObject *module)
{
    char name[96];
    face.module = module;
    face.name_function = PyUnicode_InternFromString("__torch_function__");
    face.name_dispatch = PyUnicode_InternFromString("__torch_dispatch__");
    face.empty_tuple = PyTuple_New(0);
    PyOS_snprintf(name, sizeof name, "%s._C._LinAlgError", face.package);
    face.linalg_error = PyErr_NewException(name, PyExc_RuntimeError, NULL);
    return face.name_function && face.name_dispatch && face.empty_tuple && face.linalg_error &&
           PyModule_AddObjectRef(module, "_LinAlgError", face.linalg_error) == 0;
}

static bool prepare_runtime(PyObject *module)
{
    PyObject *capsule = PyCapsule_New(&tp_the_runtime, "taper.runtime", NULL);
    bool ok = capsule && PyModule_AddObjectRef(module, "_runtime", capsule) == 0;
    Py_XDECREF(capsule);
    face_wrap_init();
    if (tp_the_runtime.default_dtype == 0)
        tp_the_runtime.default_dtype = TP_f32;
    return ok;
}

/* The parts of the extension, each after those it needs. */
static bool (*const parts[])(PyObject *module) = {
    face_dtypes_init,
    face_device_init,
    face_size_init,
    face_sym_init,
    face_fake_init,
    face_tensor_type_init,
    face_functions_init,
    face_storage_init,
    face_generator_init,
    face_calls_init,
    face_autograd_init,
    face_function_init,
    face_saved_init,
    face_numpy_init,
    face_dlpack_init,
    face_functions_of_module_init,
    face_print_init,
    face_ops_init,
    face_op_table_init,
    face_module_call_init,
    face_module_members_init,
    face_module_tree_init,
    face_module_swap_init,
    face_dispatch_init,
    face_library_init,
    face_fx_init,
    face_capture_init,
    face_optimizer_init,
    face_autocast_init,
    face_pytree_init,
    face_make_fx_init,
    face_export_init,
    face_export_program_init,
    face_transforms_init,
    face_vmap_init,
    face_functorch_init,
    face_forward_mode_init,
    face_functional_init,
    face_gradcheck_init,
    face_archive_init, face_output_init,
    face_pickle_init,
    face_jit_init,
    face_aot_init,
    face_program_write_init,
};

static int module_exec(PyObject *module)
{
    if (is_second_interpreter())
        return -1;
    if (tp_the_runtime.python_face) {
        PyErr_SetString(PyExc_ImportError, "the extension of Taper is already loaded, under the name of another package");
        return -1;
    }
    if (!(tp_the_runtime.python_face = PyMem_Calloc(1, sizeof face))) {
        PyErr_NoMemory();
        return -1;
    }
    bool ok = read_package(module) && prepare_names(module) && prepare_runtime(module);
    for (size_t i = 0; ok && i < TP_COUNT(parts); i++)
        ok = parts[i](module);
    if (ok)
        face_index_init();
    return ok ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, module_exec },
    { 0, NULL },
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_C",
    .m_doc = "The face of Taper's engine.",
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__C(void)
{
    return PyModuleDef_Init(&definition);
}
