/* jit_infer.c - the type of an example: nests of tensors in tuples, lists and dicts, and PyTorch's words for what is none. */
#include "python/jit.h"

static tp_jit_type *infer(PyObject *o, const char **problem, PyObject **detail);

static bool misfit(PyObject **detail, const char *what, tp_jit_type *a, tp_jit_type *b)
{
    tp_text text = { 0 };
    tp_text_add(&text, "%s must have consistent %s. Found ", what, strncmp(what, "List", 4) == 0 ? "element type" : "type");
    tp_jit_type_print_python(a, &text);
    tp_text_add(&text, " and ");
    tp_jit_type_print_python(b, &text);
    Py_XSETREF(*detail, face_jit_text(&text));
    return false;
}

/* `*into` becomes the common type; takes `fresh`. */
static bool join(tp_jit_type **into, tp_jit_type *fresh, const char *what, PyObject **detail)
{
    tp_jit_type *both = *into ? tp_jit_type_unify(*into, fresh) : tp_jit_type_ref(fresh);
    bool ok = both || misfit(detail, what, *into, fresh);
    tp_jit_type_unref(fresh);
    tp_jit_type_unref(*into);
    *into = both;
    return ok;
}

static tp_jit_type *infer_tuple(PyObject *o, const char **problem, PyObject **detail)
{
    Py_ssize_t count = PyTuple_GET_SIZE(o), done = 0;
    tp_jit_type **item = PyMem_Calloc((size_t)count + 1, sizeof *item), *made = NULL;
    while (item && done < count && (item[done] = infer(PyTuple_GET_ITEM(o, done), problem, detail)))
        done++;
    if (item && done == count)
        made = tp_jit_tuple_new(item, (uint32_t)count);
    for (Py_ssize_t i = 0; i < done; i++)
        tp_jit_type_unref(item[i]);
    PyMem_Free(item);
    return made;
}

static tp_jit_type *infer_list(PyObject *o, const char **problem, PyObject **detail)
{
    tp_jit_type *item = NULL;
    if (PyList_GET_SIZE(o) == 0)
        *problem = "List trace inputs must have elements";
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); i++) {
        tp_jit_type *one = infer(PyList_GET_ITEM(o, i), problem, detail);
        tp_jit_type *plain = one ? tp_jit_type_erase(one) : NULL;
        tp_jit_type_unref(one);
        if (!plain || !join(&item, plain, "List inputs to traced functions", detail)) {
            tp_jit_type_unref(item);
            return NULL;
        }
    }
    return item ? tp_jit_list_new(item) : NULL;
}

static tp_jit_type *infer_dict(PyObject *o, const char **problem, PyObject **detail)
{
    tp_jit_type *key = NULL, *item = NULL;
    PyObject *k, *v;
    Py_ssize_t at = 0;
    if (PyDict_GET_SIZE(o) == 0)
        *problem = "Dictionary inputs must have entries";
    while (PyDict_Next(o, &at, &k, &v)) {
        tp_jit_type *one = infer(v, problem, detail), *of_key = one ? infer(k, problem, detail) : NULL;
        tp_jit_type *plain = one ? tp_jit_type_erase(one) : NULL;
        tp_jit_type_unref(one);
        tp_jit_type *plain_key = of_key ? tp_jit_type_erase(of_key) : NULL;
        tp_jit_type_unref(of_key);
        bool ok = plain && plain_key;
        if (!ok) {
            tp_jit_type_unref(plain);
            tp_jit_type_unref(plain_key);
        } else {
            ok = join(&key, plain_key, "Dictionary inputs to traced functions", detail);
            ok = join(&item, plain, "Dictionary inputs to traced functions", detail) && ok;
        }
        if (!ok) {
            tp_jit_type_unref(key);
            tp_jit_type_unref(item);
            return NULL;
        }
    }
    return key ? tp_jit_dict_new(key, item) : NULL;
}

/* The type of an example; NULL: no memory, or *problem / *detail say why there is none. */
static tp_jit_type *infer(PyObject *o, const char **problem, PyObject **detail)
{
    if (face_is_tensor(o))
        return tp_jit_tensor_new(face_tensor(o));
    if (PyTuple_Check(o))
        return infer_tuple(o, problem, detail);
    if (PyList_Check(o))
        return infer_list(o, problem, detail);
    if (PyDict_Check(o))
        return infer_dict(o, problem, detail);
    return tp_jit_simple(PyBool_Check(o) ? TP_JIT_BOOL : PyLong_Check(o) ? TP_JIT_INT : PyFloat_Check(o) ? TP_JIT_FLOAT
                       : PyUnicode_Check(o) ? TP_JIT_STR : o == Py_None ? TP_JIT_NONE : TP_JIT_ANY);
}

static bool traceable(const tp_jit_type *t)
{
    if (tp_jit_is_tensor(t))
        return true;
    if (t->kind == TP_JIT_DICT)
        return traceable(t->part[1].type);
    if (t->kind != TP_JIT_TUPLE && t->kind != TP_JIT_LIST)
        return false;
    for (uint32_t i = 0; i < t->count; i++)
        if (!traceable(t->part[i].type))
            return false;
    return true;
}

tp_jit_type *face_jit_infer(PyObject *o)
{
    const char *problem = NULL;
    PyObject *detail = NULL;
    PyObject *empty = PyUnicode_New(0, 0);
    tp_jit_type *t = empty ? infer(o, &problem, &detail) : NULL;
    if (!t && (problem || detail))
        PyErr_Format(PyExc_RuntimeError, "Tracer cannot infer type of %R\n:%s%S", o, problem ? problem : "", detail && !problem ? detail : empty);
    else if (!t)
        face_raise();
    Py_XDECREF(detail);
    Py_XDECREF(empty);
    return t;
}

bool face_jit_traceable(PyObject *args)
{
    tp_jit_type *t = face_jit_infer(args);
    if (!t)
        return false;
    bool ok = traceable(t);
    if (!ok) {
        tp_text text = { 0 };
        tp_jit_type_print_python(t, &text);
        PyErr_Format(PyExc_RuntimeError, "Type '%s' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors "
                     "can be traced", tp_text_read(&text));
        tp_text_fini(&text);
    }
    tp_jit_type_unref(t);
    return ok;
}
