/* fx_code.c - texts of graphs that need Python: generated code with its globals, listings, tables. */
#include <string.h>

#include "base/array.h"
#include "ir/code.h"
#include "python/fx.h"

/* ---- what the printers ask ---- */
typedef struct host_data {
    PyObject *globals;          /* borrowed, NULL in listings */
    tp_map    known;            /* callable -> index of its names */
    struct known_names { PyObject *code, *magic; } *names;     /* owned; counted, NULL: not asked yet, none */
    size_t    name_count, name_room;
    const tp_code_options *options;
    PyObject *codegen;          /* borrowed, may be NULL: its methods print signature and result */
    PyObject *pytree;           /* borrowed, may be NULL: orig_args, has_kwargs, has_out_spec */
    const char *root;           /* borrowed: "self" */
} host_data;

static bool put_object(PyObject *taken, tp_text *out)
{
    Py_ssize_t length;
    const char *text = taken ? PyUnicode_AsUTF8AndSize(taken, &length) : NULL;
    if (text)
        tp_text_put(out, text, (size_t)length);
    Py_XDECREF(taken);
    return text || face_foreign();
}

static bool host_qualified(void *data, tp_handle *h, tp_text *out)
{
    (void)data;
    PyObject *name = fx_qualified_name(h->object);
    if (!name && PyErr_ExceptionMatches(PyExc_RuntimeError)) {      /* nothing says where it is: its repr will do */
        PyErr_Clear();
        name = PyObject_Repr(h->object);
    }
    const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
    if (text && strncmp(text, "_operator.", 10) == 0)
        tp_text_add(out, "%s", text + 1);
    else if (text)
        tp_text_add(out, "%s", text);
    Py_XDECREF(name);
    return text || face_foreign();
}

/* The names of a callable, found once for each function that is printed. */
static struct known_names *names_of(host_data *d, PyObject *o)
{
    uint64_t index;
    if (tp_map_get(&d->known, (uintptr_t)o, &index))
        return &d->names[index];
    if (d->name_count == d->name_room &&
        !tp_array_grow((void **)&d->names, &d->name_room, d->name_count + 1, sizeof *d->names))
        return NULL;
    if (!tp_map_put(&d->known, (uintptr_t)o, d->name_count))
        return NULL;
    struct known_names *k = &d->names[d->name_count++];
    PyObject *module = PyObject_GetAttrString(o, "__module__"),
             *name = module ? PyObject_GetAttrString(o, "__name__") : NULL;
    *k = (struct known_names){ 0 };
    PyErr_Clear();
    if (name && PyUnicode_Check(module) && PyUnicode_Check(name) &&
        (PyUnicode_CompareWithASCIIString(module, "_operator") == 0 ||
         (PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
          PyUnicode_CompareWithASCIIString(name, "getattr") == 0)))
        k->magic = Py_NewRef(name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return k;
}

static const char *host_magic(void *data, tp_handle *h)
{
    struct known_names *k = names_of(data, h->object);
    return k && k->magic ? PyUnicode_AsUTF8(k->magic) : NULL;
}

static bool put_callable(host_data *d, PyObject *o, tp_text *out)
{
    struct known_names *k = names_of(d, o);
    if (!k)
        return false;
    if (!k->code) {
        PyObject *name = fx_qualified_name(o);
        const char *text = name ? PyUnicode_AsUTF8(name) : NULL;
        PyObject *hint = !text ? NULL : strncmp(text, "builtins.", 9) == 0 ? PyUnicode_FromString(text + 9)
                                                                           : Py_NewRef(name);
        if (hint)
            k->code = fx_add_global(d->globals, hint, o);
        Py_XDECREF(name);
        Py_XDECREF(hint);
        if (!k->code)
            return face_foreign();
    }
    return put_object(Py_NewRef(k->code), out);
}

static bool host_callable(void *data, tp_handle *h, tp_text *out)
{
    return put_callable(data, h->object, out);
}

static bool host_builtin(void *data, const tp_builtin *b, tp_text *out)
{
    PyObject *o = fx_builtin_object(b);
    bool ok = o ? put_callable(data, o, out) : face_foreign() != NULL;
    Py_XDECREF(o);              /* the module of builtins keeps it */
    return ok;
}

/* In code, what repr does not name: classes, ops and enumerations get a global. */
static bool host_constant(void *data, tp_value v, bool plain, tp_text *out)
{
    host_data *d = data;
    PyObject *o = face_from_value(tp_value_ref(v)), *text = NULL;
    if (o && plain) {
        text = PyObject_Str(o);
    } else if (o && d->globals && PyType_Check(o)) {
        text = fx_type_name(o, d->globals);
    } else if (o && d->globals && face_overload_op(o)) {
        text = fx_qualified_name(o);
    } else if (o) {
        PyObject *value = d->globals &&
            PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__members__") ? PyObject_GetAttrString(o, "name") : NULL;
        PyObject *hint = value ? PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__") : NULL;
        PyObject *type = hint ? fx_add_global(d->globals, hint, (PyObject *)Py_TYPE(o)) : NULL;
        PyErr_Clear();
        text = type ? PyUnicode_FromFormat("%U.%U", type, value) : PyObject_Repr(o);
        Py_XDECREF(hint);
        Py_XDECREF(value);
        Py_XDECREF(type);
    }
    Py_XDECREF(o);
    return put_object(text, out);
}

static bool host_annotation(void *data, tp_handle *type, bool plain, tp_text *out)
{
    host_data *d = data;
    return put_object(fx_type_name(type->object, plain ? NULL : d->globals), out);
}

/* meta["val"], then "tensor_meta", then "example_value". */
static bool host_yields(void *data, const tp_node *n, tp_text *out)
{
    static const char *const keys[] = { "val", "tensor_meta", "example_value" };
    host_data *d = data;
    if (!n->meta) {
        tp_code_fact(n->fact, d->options->stride, d->options->device, out);
        return true;
    }
    PyObject *value = NULL;
    for (size_t i = 0; i < TP_COUNT(keys) && !value; i++)
        value = PyDict_GetItemString(n->meta->object, keys[i]);
    if (!value)
        return true;
    if (face_is_tensor(value)) {
        tp_code_fact(tp_of_tensor(face_tensor(value)), d->options->stride, d->options->device, out);
        return true;
    }
    PyObject *shape = PyTuple_Check(value) ? PyObject_GetAttrString(value, "shape") : NULL,
             *dtype = shape ? PyObject_GetAttrString(value, "dtype") : NULL;
    PyObject *list = dtype && Py_IS_TYPE(dtype, face.dtype) ? PySequence_List(shape) : NULL,
             *text = list ? PyObject_Repr(list) : NULL;
    bool ok = true;
    PyErr_Clear();
    if (text)
        tp_text_add(out, "%s", tp_dtypes[((dtype_object *)dtype)->dtype].name), ok = put_object(text, out);
    else if (PyObject_HasAttrString(value, "node") && !fx_is_node(value))       /* a symbolic number */
        ok = put_object(PyUnicode_FromFormat("Sym(%S)", value), out);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_XDECREF(list);
    return ok;
}

static const char *host_trace(void *data, const tp_node *n)
{
    (void)data;
    if (!n->meta)
        return n->origin && n->origin->stack_trace ? n->origin->stack_trace->text : NULL;
    PyObject *trace = PyDict_GetItemString(n->meta->object, "stack_trace");
    const char *text = trace && PyUnicode_Check(trace) ? PyUnicode_AsUTF8(trace) : NULL;
    PyErr_Clear();
    return text;
}

static bool host_wrapped(void *data, const tp_node *n)
{
    (void)data;
    PyObject *flag = n->meta ? PyDict_GetItemString(n->meta->object, "is_wrapped") : NULL;
    return flag && PyObject_IsTrue(flag) == 1;
}

/* ---- signatures of code generators ---- */
static PyObject *list_of(char *const *text, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *item = PyUnicode_FromString(text[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

/* A class of the user's own prints itself. */
static bool own_signature(host_data *d, char *const *parameter, size_t count, const char *returns, tp_text *out)
{
    PyObject *list = list_of(parameter, count);
    PyObject *text = list ? PyObject_CallMethod(d->codegen, "gen_fn_def", "Os", list, returns) : NULL;
    Py_XDECREF(list);
    return put_object(text, out);
}

static void put_names(PyObject *list, Py_ssize_t from, Py_ssize_t to, bool pairs, tp_text *out)
{
    for (Py_ssize_t i = from; i < to; i++) {
        const char *name = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
        if (i > from)
            tp_text_add(out, ", ");
        if (pairs)
            tp_text_add(out, "'%s':", name ? name : "");
        tp_text_add(out, "%s", name ? name : "");
    }
}

/* def forward(self, d):
 *     d_1, d_2, = fx_pytree.tree_flatten_spec(([d], {}), self._in_spec)
 * `pytree` is (names of the arguments, how many of them are positional or -1 where there are no keywords, has
 * out_spec). */
static bool pytree_signature(host_data *d, char *const *parameter, size_t count, const char *returns, tp_text *out)
{
    PyObject *names = PyTuple_GET_ITEM(d->pytree, 0);
    Py_ssize_t positional = PyLong_AsSsize_t(PyTuple_GET_ITEM(d->pytree, 1)), total = PyList_GET_SIZE(names);
    bool self = total && PyUnicode_CompareWithASCIIString(PyList_GET_ITEM(names, 0), "self") == 0;
    tp_text_add(out, "def forward(self%s", total > (self ? 1 : 0) ? ", " : "");
    put_names(names, self, total, false, out);
    tp_text_add(out, ")%s:", returns);
    if (!count)
        return true;
    bool noted = false;
    for (size_t i = 0; i < count; i++)
        if (strchr(parameter[i], ':')) {
            tp_text_add(out, "%s%s; ", noted ? "" : "\n    ", parameter[i]);
            noted = true;
        }
    tp_text_add(out, noted ? "\n\n    " : "\n    ");
    tp_text_add(out, self ? "self, " : "");     /* a leaf of the spec like any other */
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(parameter[i], ":#=");
        while (length && parameter[i][length - 1] == ' ')
            length--;
        tp_text_add(out, "%.*s, ", (int)length, parameter[i]);
    }
    tp_text_add(out, positional < 0 ? "= fx_pytree.tree_flatten_spec([" : "= fx_pytree.tree_flatten_spec(([");
    put_names(names, 0, positional < 0 ? total : positional, false, out);
    if (positional >= 0) {
        tp_text_add(out, "], {");
        put_names(names, positional, total, true, out);
        tp_text_add(out, "})");
    } else {
        tp_text_add(out, "]");
    }
    tp_text_add(out, ", %s._in_spec)", d->root);
    return !PyErr_Occurred() || face_foreign();
}

static bool host_signature(void *data, char *const *parameter, size_t count, const char *returns, tp_text *out)
{
    host_data *d = data;
    return d->pytree ? pytree_signature(d, parameter, count, returns, out)
                     : own_signature(d, parameter, count, returns, out);
}

static bool host_result(void *data, const tp_node *n, const char *printed, tp_text *out)
{
    host_data *d = data;
    if (!d->pytree) {
        PyObject *value = n->arg_count ? fx_from_value(n->arg[0]) : Py_NewRef(Py_None);
        PyObject *text = value ? PyObject_CallMethod(d->codegen, "generate_output", "(O)", value) : NULL;
        Py_XDECREF(value);
        return put_object(text, out);
    }
    if (PyTuple_GET_ITEM(d->pytree, 2) == Py_True)
        tp_text_add(out, "return pytree.tree_unflatten(%s, %s._out_spec)", printed, d->root);
    else
        tp_text_add(out, "return %s", printed);
    return true;
}

static tp_code_host host_for(host_data *d)
{
    return (tp_code_host){
        .data = d, .callable = host_callable, .builtin = host_builtin, .qualified = host_qualified,
            .magic = host_magic, .constant = host_constant,
        .annotation = host_annotation, .yields = host_yields, .trace = host_trace, .wrapped = host_wrapped,
        .signature = d->codegen || d->pytree ? host_signature : NULL,
            .result = d->codegen || d->pytree ? host_result : NULL,
    };
}

static void host_fini(host_data *d)
{
    for (size_t i = 0; i < d->name_count; i++) {
        Py_XDECREF(d->names[i].code);
        Py_XDECREF(d->names[i].magic);
    }
    tp_free(d->names);
    tp_map_fini(&d->known);
}

/* ---- texts ---- */
static PyObject *finish(bool ok, tp_text *text)
{
    PyObject *made = ok && !text->failed ? PyUnicode_FromStringAndSize(tp_text_read(text), (Py_ssize_t)text->length)
                                         : NULL;
    if (!made && !PyErr_Occurred()) {
        if (tp_error_kind() == TP_ERR_NONE)
            (void)tp_fail_memory();
        face_raise();
    }
    tp_error_clear();
    tp_text_fini(text);
    return made;
}

PyObject *fx_graph_str(tp_graph *g)
{
    host_data d = { 0 };
    tp_code_host host = host_for(&d);
    tp_text text = { 0 };
    bool ok = tp_graph_list(g, &host, &text);
    host_fini(&d);
    return finish(ok, &text);
}

PyObject *fx_node_str(tp_node *n)
{
    host_data d = { 0 };
    tp_code_host host = host_for(&d);
    tp_text text = { 0 };
    bool ok = tp_node_list(n, &host, &text);
    host_fini(&d);
    return finish(ok, &text);
}

static PyObject *graph_table(PyObject *module, PyObject *graph)
{
    (void)module;
    if (!fx_is_graph(graph))
        return PyErr_Format(PyExc_TypeError, "a Graph is wanted");
    host_data d = { 0 };
    tp_code_host host = host_for(&d);
    tp_text text = { 0 };
    bool ok = tp_graph_table(fx_graph_of(graph), &host, &text);
    host_fini(&d);
    return finish(ok, &text);
}

/* _fx_code(graph, root, globals, verbose, stride, device, codegen, pytree) -> source; `globals` is added to. */
static PyObject *graph_code(PyObject *module, PyObject *args)
{
    PyObject *graph, *globals, *codegen, *pytree;
    const char *root;
    int verbose, stride, device;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!sO!pppOO", face.fx.graph, &graph, &root, &PyDict_Type, &globals, &verbose, &stride,
                          &device, &codegen, &pytree))
        return NULL;
    if (pytree != Py_None &&
        (!PyTuple_Check(pytree) || PyTuple_GET_SIZE(pytree) != 3 || !PyList_Check(PyTuple_GET_ITEM(pytree, 0))))
        return PyErr_Format(PyExc_TypeError, "_fx_code() needs (names, positional, has_out_spec)");
    tp_code_options options = { .root = root, .verbose = verbose, .stride = stride, .device = device };
    host_data d = { .globals = globals, .options = &options, .root = root };
    d.codegen = codegen == Py_None ? NULL : codegen;
    d.pytree = pytree == Py_None ? NULL : pytree;
    tp_code_host host = host_for(&d);
    tp_text text = { 0 };
    bool ok = tp_graph_code(fx_graph_of(graph), &host, &options, &text);
    host_fini(&d);
    return finish(ok, &text);
}

static PyObject *qualified_name(PyObject *module, PyObject *o)
{
    (void)module;
    return fx_qualified_name(o);
}

static PyObject *type_name(PyObject *module, PyObject *o)
{
    (void)module;
    return fx_type_name(o, NULL);
}

/* "self.a" with parts that are no names reached by getattr. */
static PyObject *path_text(PyObject *module, PyObject *args)
{
    const char *root, *path;
    tp_text text = { 0 };
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &root, &path))
        return NULL;
    tp_code_path(root, path, &text);
    return finish(true, &text);
}

static PyMethodDef functions[] = {
    { "_fx_code", graph_code, METH_VARARGS, NULL },
    { "_fx_table", graph_table, METH_O, NULL },
    { "_fx_qualified_name", qualified_name, METH_O, NULL },
    { "_fx_type_name", type_name, METH_O, NULL },
    { "_fx_path", path_text, METH_VARARGS, NULL },
    { 0 },
};

bool fx_code_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
