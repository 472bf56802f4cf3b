/* ops_namespace.c - one overload of an op as a Python object: torch.ops.aten.add.Tensor.
 *
 * The class seen by Python (OpOverload, in the package) derives from the one made here, which holds the op and calls it:
 * arguments are named to the letter of the schema, results come as they are. */
#include <string.h>

#include "ops/derived.h"
#include "python/face.h"

#include <structmember.h>

typedef struct overload_object {
    PyObject_HEAD
    const tp_op *op;            /* borrowed from the registry */
    signature   *signature;     /* owned, made when first called */
    PyObject    *dict, *weakrefs;
    vectorcallfunc call;
} overload_object;

const tp_op *face_overload_op(PyObject *o)
{
    return PyObject_TypeCheck(o, face.overload) ? ((overload_object *)o)->op : NULL;
}

/* ---- errors, in the words of schemas ---- */
PyObject *face_schema(const tp_op *op, const char *after)
{
    return PyUnicode_FromFormat("%s::%s%s%s%s%s", op->space, op->name, *op->overload ? "." : "", op->overload, op->signature, after);
}

/* What is wrong with a call (taken), then the schema. */
static PyObject *declared_error(const tp_op *op, PyObject *what)
{
    PyObject *schema = what ? face_schema(op, "") : NULL;
    if (schema)
        PyErr_Format(PyExc_RuntimeError, "%U%U", what, schema);
    Py_XDECREF(schema);
    Py_XDECREF(what);
    return NULL;
}

static PyObject *missing_error(const tp_op *op, const char *name)
{
    return declared_error(op, PyUnicode_FromFormat("%s::%s() is missing value for argument '%s'. Declaration: ", op->space, op->name, name));
}

/* "Optional[List[int]]": enumerations are ints here. */
static PyObject *annotation(const tp_arg *a)
{
    static const char *const name[] = {
        [TP_TYPE_TENSOR] = "Tensor", [TP_TYPE_SCALAR] = "number", [TP_TYPE_INT] = "int", [TP_TYPE_SYMINT] = "int",
        [TP_TYPE_FLOAT] = "float", [TP_TYPE_BOOL] = "bool", [TP_TYPE_STR] = "str", [TP_TYPE_DTYPE] = "int",
        [TP_TYPE_LAYOUT] = "int", [TP_TYPE_DEVICE] = "Device", [TP_TYPE_FORMAT] = "int", [TP_TYPE_GENERATOR] = "Generator",
        [TP_TYPE_STORAGE] = "Storage", [TP_TYPE_DIMNAME] = "str", [TP_TYPE_STREAM] = "Stream", [TP_TYPE_ANY] = "Any",
    };
    PyObject *item = PyUnicode_FromFormat(a->items_optional ? "Optional[%s]" : "%s", name[a->type]), *text = NULL;
    if (item)
        text = PyUnicode_FromFormat("%s%s%U%s%s", a->optional ? "Optional[" : "", a->list ? "List[" : "", item, a->list ? "]" : "",
                                    a->optional ? "]" : "");
    Py_XDECREF(item);
    return text;
}

static PyObject *cast_details(const tp_arg *a, PyObject *given)
{
    if (!a->list && a->type == TP_TYPE_TENSOR)
        return PyUnicode_FromFormat("Unable to cast %S to Tensor", given);
    if (!a->list && a->type == TP_TYPE_SCALAR)
        return PyUnicode_FromFormat("Cannot cast %S to number", given);
    return PyUnicode_FromFormat("Unable to cast Python instance of type %R to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or "
                                "compile in debug mode for details)", (PyObject *)Py_TYPE(given));
}

static PyObject *type_error(const tp_op *op, int p, const tp_arg *a, PyObject *given)
{
    PyObject *wanted = annotation(a), *details = cast_details(a, given), *schema = face_schema(op, "");
    const char *dot = strrchr(Py_TYPE(given)->tp_name, '.');
    if (wanted && details && schema)
        PyErr_Format(PyExc_RuntimeError, "%s::%s() Expected a value of type '%U' for argument '%s' but instead found type '%s'.\nPosition: %d\nValue: %R\nDeclaration: %U\nCast error details: %U",
                     op->space, op->name, wanted, a->name, dot ? dot + 1 : Py_TYPE(given)->tp_name, p, given, schema, details);
    Py_XDECREF(schema);
    Py_XDECREF(wanted);
    Py_XDECREF(details);
    return NULL;
}

/* What was given for a parameter, borrowed; NULL: nothing. */
static PyObject *given_for(const signature *s, int p, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *given = p < count ? args[p] : NULL;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, k), s->name[p]) == 0)
            given = args[count + k];
    return given;
}

static PyObject *schema_error(const signature *s, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    const tp_op *op = s->op;
    call_frame f;
    if (count > s->positional)
        return declared_error(op, PyUnicode_FromFormat("%s::%s() expected at most %d argument(s) but received %zd argument(s). Declaration: ",
                                                       op->space, op->name, s->positional, count));
    for (int p = 0; p < s->count; p++)
        if (!op->arg[s->order[p]].fallback && !given_for(s, p, args, count, kwnames))
            return missing_error(op, op->arg[s->order[p]].name);
    face_frame_init(&f);
    f.exact = true;
    for (int p = 0; p < s->count && !PyErr_Occurred(); p++) {
        const tp_arg *a = &op->arg[s->order[p]];
        PyObject *given = given_for(s, p, args, count, kwnames);
        tp_value ignored;
        if (given && face_to_value(&f, a, given, &ignored) == 0)
            type_error(op, p, a, given);
    }
    face_frame_fini(&f);
    if (PyErr_Occurred())
        return NULL;
    PyObject *unknown = NULL;
    for (Py_ssize_t k = 0; kwnames && !unknown && k < PyTuple_GET_SIZE(kwnames); k++) {
        unknown = PyTuple_GET_ITEM(kwnames, k);
        for (int p = 0; unknown && p < s->count; p++)
            if (PyUnicode_CompareWithASCIIString(unknown, op->arg[s->order[p]].name) == 0)
                unknown = NULL;
    }
    return declared_error(op, PyUnicode_FromFormat("Unknown keyword argument '%S' for operator '%s::%s'. Schema: ", unknown ? unknown : Py_None, op->space, op->name));
}

/* ---- calling ---- */

/* Here a number may stand in any Tensor slot: the caller knows what it means. */
static bool prepare(overload_object *o)
{
    if (o->signature)
        return true;
    signature *s = PyMem_Calloc(1, sizeof *s);
    if (!s || !face_signature_exact(s, o->op)) {
        PyMem_Free(s);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return false;
    }
    o->signature = s;
    return true;
}

static PyObject *overridden(overload_object *o, call_frame *f, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *tuple = face_args_tuple(NULL, args, count), *keywords = tuple ? face_keywords_dict(args + count, kwnames) : NULL;
    PyObject *result = keywords ? face_call_override((PyObject *)o, f->overloaded, f->overloaded_count, tuple, keywords) : NULL;
    Py_XDECREF(tuple);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *overload_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *kwnames)
{
    overload_object *o = (overload_object *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    op_set named = { .name = o->op->name };
    PyObject *out, *result = NULL;
    bool requires_grad;
    call_frame f;
    if (o->op->rare->graphs)
        return face_call_graphs(o->op, args, count, kwnames);
    if (!prepare(o))
        return NULL;
    face_frame_init(&f);
    f.exact = true;
    int got = face_match(&named, o->signature, NULL, args, count, kwnames, &f, &out, &requires_grad);
    if (got == 0)
        schema_error(o->signature, args, count, kwnames);
    else if (got > 0)
        result = f.overloaded_count || face_function_mode_active() ? overridden(o, &f, args, count, kwnames)
                                                                   : face_call_op(o->op, f.value);
    face_frame_fini(&f);
    return result;
}

/* Do the arguments fit this overload? For the packet, which looks for the first that does. */
static PyObject *overload_fits(PyObject *self, PyObject *args)
{
    overload_object *o = (overload_object *)self;
    PyObject *positional, *keywords;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &positional, &PyDict_Type, &keywords) || !prepare(o))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(positional), named = PyDict_GET_SIZE(keywords), at = 0, k = 0;
    PyObject **all = PyMem_Calloc((size_t)(count + named + 1), sizeof *all), *names = PyTuple_New(named), *key, *value;
    if (!all || !names) {
        PyMem_Free(all);
        Py_XDECREF(names);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++)
        all[i] = PyTuple_GET_ITEM(positional, i);
    while (PyDict_Next(keywords, &at, &key, &value)) {
        PyTuple_SET_ITEM(names, k, Py_NewRef(key));
        all[count + k++] = value;
    }
    call_frame f;
    op_set set = { .name = o->op->name };
    PyObject *out;
    bool requires_grad;
    face_frame_init(&f);
    f.exact = true;
    int got = face_match(&set, o->signature, NULL, all, count, named ? names : NULL, &f, &out, &requires_grad);
    face_frame_fini(&f);
    PyMem_Free(all);
    Py_DECREF(names);
    PyErr_Clear();
    return PyBool_FromLong(got > 0);
}

/* ---- what Python builds the schema object from ---- */
static PyObject *arg_tuple(const tp_arg *a)
{
    PyObject *fallback = face_from_value(tp_value_ref(tp_arg_default(a)));
    return Py_BuildValue("(ziNNNNNNiNi)", a->name, a->type, PyBool_FromLong(a->list), PyBool_FromLong(a->optional),
                         PyBool_FromLong(a->items_optional), PyBool_FromLong(a->keyword_only), PyBool_FromLong(a->written),
                         PyBool_FromLong(a->fallback != NULL), a->alias, fallback, a->length);
}

static PyObject *args_list(const tp_arg *arg, int count)
{
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *item = arg_tuple(&arg[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *overload_parts(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tp_op *op = ((overload_object *)self)->op;
    return Py_BuildValue("(sssNN)", op->space, op->name, op->overload, args_list(op->arg, op->arg_count), args_list(op->result, op->result_count));
}

static PyObject *get_text(PyObject *self, void *field)
{
    const tp_op *op = ((overload_object *)self)->op;
    const char *text = *(const char *const *)((const char *)op + (size_t)field);
    return PyUnicode_FromString(text);
}

static PyObject *get_schema(PyObject *self, void *unused)
{
    (void)unused;
    return face_schema(((overload_object *)self)->op, "");
}

static PyObject *get_flags(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((overload_object *)self)->op->flags);
}

static PyObject *get_kind(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((overload_object *)self)->op->kind);
}

static PyObject *get_has_open(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((overload_object *)self)->op->open != NULL);
}

/* Runs the decomposition of the op on these arguments. */
static PyObject *overload_decompose(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    overload_object *o = (overload_object *)self;
    op_set named = { .name = o->op->name };
    PyObject *out, *result = NULL;
    bool requires_grad;
    call_frame f;
    tp_value values[16];
    if (!o->op->open)
        return Py_NewRef(Py_NotImplemented);
    if (!prepare(o))
        return NULL;
    face_frame_init(&f);
    f.exact = true;
    int got = face_match(&named, o->signature, NULL, args, count, kwnames, &f, &out, &requires_grad);
    if (got == 0)
        schema_error(o->signature, args, count, kwnames);
    else if (got > 0)
        result = tp_call_open(o->op, f.value, values) ? face_results(NULL, o->op, values) : face_raise();
    face_frame_fini(&f);
    return result;
}

static void overload_dealloc(PyObject *self)
{
    overload_object *o = (overload_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->dict);
    for (int p = 0; o->signature && p < o->signature->count; p++)
        Py_XDECREF(o->signature->name[p]);
    PyMem_Free(o->signature);
    type->tp_free(self);
    Py_DECREF(type);
}

static int overload_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((overload_object *)self)->dict);
    return 0;
}

static int overload_clear(PyObject *self)
{
    Py_CLEAR(((overload_object *)self)->dict);
    return 0;
}

static PyMethodDef overload_methods[] = {
    { "_fits", overload_fits, METH_VARARGS, NULL },
    { "_parts", overload_parts, METH_NOARGS, NULL },
    { "decompose", (PyCFunction)(void (*)(void))overload_decompose, METH_FASTCALL | METH_KEYWORDS, NULL },
    { 0 },
};
static PyGetSetDef overload_attributes[] = {
    { "namespace", get_text, NULL, NULL, (void *)offsetof(tp_op, space) },
    { "_name_only", get_text, NULL, NULL, (void *)offsetof(tp_op, name) },
    { "_overload_text", get_text, NULL, NULL, (void *)offsetof(tp_op, overload) },
    { "_schema_text", get_schema, NULL, NULL, NULL },
    { "_flags", get_flags, NULL, NULL, NULL },
    { "_kind", get_kind, NULL, NULL, NULL },
    { "_has_decomposition", get_has_open, NULL, NULL, NULL },
    { 0 },
};
static PyMemberDef overload_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(overload_object, call), READONLY, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(overload_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(overload_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot overload_slots[] = {
    { Py_tp_dealloc, overload_dealloc }, { Py_tp_traverse, overload_traverse }, { Py_tp_clear, overload_clear },
    { Py_tp_call, PyVectorcall_Call }, { Py_tp_methods, overload_methods }, { Py_tp_getset, overload_attributes },
    { Py_tp_members, overload_members }, { Py_tp_new, face_refuse_new }, { 0, NULL },
};
static PyType_Spec overload_spec = {
    .name = "_C._OpOverloadBase", .basicsize = sizeof(overload_object), .slots = overload_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
};

/* ---- finding ---- */
PyObject *face_overload(const tp_op *op)
{
    PyObject *key = PyLong_FromVoidPtr((void *)op);
    PyObject *known = key ? PyDict_GetItemWithError(face.overloads, key) : NULL;
    if (known || PyErr_Occurred()) {
        Py_XDECREF(key);
        return Py_XNewRef(known);
    }
    PyObject *class = op->rare->graphs ? face.higher_class : face.overload_class;
    PyTypeObject *type = (PyTypeObject *)(class ? class : (PyObject *)face.overload);
    overload_object *made = (overload_object *)type->tp_alloc(type, 0);
    if (made) {
        made->op = op;
        made->call = overload_call;
        if (PyDict_SetItem(face.overloads, key, (PyObject *)made) < 0)
            Py_CLEAR(made);
    }
    Py_DECREF(key);
    return (PyObject *)made;
}

void face_forget_overload(const tp_op *op)
{
    PyObject *key = PyLong_FromVoidPtr((void *)op);
    if (!key || PyDict_DelItem(face.overloads, key) < 0)
        PyErr_Clear();
    Py_XDECREF(key);
}

static PyObject *find_overload(PyObject *module, PyObject *args)
{
    const char *space, *name, *overload;
    (void)module;
    if (!PyArg_ParseTuple(args, "sss", &space, &name, &overload))
        return NULL;
    const tp_op *op = tp_op_find(space, name, overload);
    return op ? face_overload(op) : Py_NewRef(Py_None);
}

static PyObject *can_functionalize(PyObject *module, PyObject *overload)
{
    (void)module;
    const tp_op *op = face_overload_op(overload);
    return PyBool_FromLong(op && tp_op_can_functionalize(op));
}

/* _op_derived(name, overload): the op that torch.ops.higher_order.name makes of another, as an overload. */
static PyObject *find_derived(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *overload;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO!", &name, face.overload, &overload))
        return NULL;
    for (int how = 0; how < TP_DERIVATION_COUNT; how++)
        if (strcmp(tp_derivations[how].name, name) == 0) {
            const tp_op *op = tp_op_derive((tp_derivation)how, face_overload_op(overload));
            return op ? face_overload(op) : face_raise();
        }
    return PyErr_Format(PyExc_ValueError, "%s makes no ops of others", name);
}

static PyObject *overload_names(PyObject *module, PyObject *args)
{
    const char *space, *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &space, &name))
        return NULL;
    const tp_op *const *all;
    size_t count = tp_op_overloads(space, name, &all);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyUnicode_FromString(all[i]->overload));
    return list;
}

static bool add_name(const tp_op *op, void *user)
{
    PyObject *text = PyUnicode_FromFormat("%s::%s%s%s", op->space, op->name, op->overload[0] ? "." : "", op->overload);
    bool ok = text && PyList_Append(user, text) == 0;
    Py_XDECREF(text);
    return ok;
}

static PyObject *all_names(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *list = PyList_New(0);
    if (list)
        tp_op_each(add_name, list);
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}

static bool keep_class(PyObject *type, PyObject **at)
{
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, face.overload))
        return PyErr_Format(PyExc_TypeError, "a subclass of _OpOverloadBase is wanted");
    ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;     /* its __call__ is ours */
    Py_XSETREF(*at, Py_NewRef(type));
    return true;
}

/* _set_overload_classes(of overloads, of ops that take functions) */
static PyObject *set_classes(PyObject *module, PyObject *args)
{
    PyObject *plain, *higher;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &plain, &higher) || !keep_class(plain, &face.overload_class) || !keep_class(higher, &face.higher_class))
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_op_overload", find_overload, METH_VARARGS, NULL },
    { "_op_can_functionalize", can_functionalize, METH_O, NULL },
    { "_op_derived", find_derived, METH_VARARGS, NULL },
    { "_op_overload_names", overload_names, METH_VARARGS, NULL },
    { "_dispatch_get_all_op_names", all_names, METH_NOARGS, NULL },
    { "_set_overload_classes", set_classes, METH_VARARGS, NULL },
    { 0 },
};

bool face_ops_init(PyObject *module)
{
    face.overload = face_make_type(module, &overload_spec, NULL);
    face.overloads = PyDict_New();
    return face.overload && face.overloads && PyModule_AddFunctions(module, functions) == 0;
}
