/* serialization_pickle.c - pickles of checkpoints: names of the package, storages by persistent id, and loads that run no code.
 *
 * Saving leaves the walk over objects to Python's own pickler, and tells it the persistent ids of storages. Loading with
 * weights_only reads the pickle into a tree first (format/pickle.h): all globals are checked before anything is built, and
 * only what `find` has given is ever called. */
#include <string.h>

#include "format/pickle.h"
#include "python/face.h"

/* ---- names ---- */

/* _rename_pickle(bytes, from, to) */
static PyObject *rename_pickle(PyObject *module, PyObject *args)
{
    Py_buffer view;
    const char *from, *to;
    tp_text out = { 0 };
    (void)module;
    if (!PyArg_ParseTuple(args, "y*ss", &view, &from, &to))
        return NULL;
    bool ok = tp_pickle_rename(view.buf, (size_t)view.len, from, to, &out);
    PyBuffer_Release(&view);
    PyObject *made = ok ? PyBytes_FromStringAndSize(tp_text_read(&out), (Py_ssize_t)out.length) : face_raise();
    tp_text_fini(&out);
    return made;
}

/* ---- storages on the way out ---- */

typedef struct collector_object {
    PyObject_HEAD
    PyObject *typed;            /* counted: the class TypedStorage */
    PyObject *classes;          /* counted dict: dtype -> FloatStorage and its like */
    PyObject *keys;             /* counted dict: address of a storage -> its key, a text */
    PyObject *dtypes;           /* counted dict: address of data -> dtype it was saved as */
    PyObject *storages;         /* counted list: UntypedStorage, in order of their keys */
    PyObject *word;             /* counted: "storage" */
} collector_object;

static PyObject *collector_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *typed, *classes;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "_StorageIds() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &typed, &PyDict_Type, &classes))
        return NULL;
    collector_object *made = (collector_object *)type->tp_alloc(type, 0);
    if (!made)
        return NULL;
    made->typed = Py_NewRef(typed);
    made->classes = Py_NewRef(classes);
    made->keys = PyDict_New();
    made->dtypes = PyDict_New();
    made->storages = PyList_New(0);
    made->word = PyUnicode_InternFromString("storage");
    if (!made->keys || !made->dtypes || !made->storages || !made->word)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static int collector_traverse(PyObject *self, visitproc visit, void *arg)
{
    collector_object *c = (collector_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->typed);
    Py_VISIT(c->classes);
    Py_VISIT(c->keys);
    Py_VISIT(c->dtypes);
    Py_VISIT(c->storages);
    return 0;
}

static int collector_clear(PyObject *self)
{
    collector_object *c = (collector_object *)self;
    Py_CLEAR(c->typed);
    Py_CLEAR(c->classes);
    Py_CLEAR(c->keys);
    Py_CLEAR(c->dtypes);
    Py_CLEAR(c->storages);
    Py_CLEAR(c->word);
    return 0;
}

static void collector_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    collector_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* One block of memory is saved as one type: the file says how to turn its bytes round on other machines. */
static bool check_dtype(collector_object *c, const tp_storage *s, PyObject *dtype)
{
    if (!s->data)
        return true;
    PyObject *address = PyLong_FromVoidPtr(s->data);
    PyObject *known = address ? PyDict_SetDefault(c->dtypes, address, dtype) : NULL;
    Py_XDECREF(address);
    if (known && known != dtype) {
        PyErr_SetString(PyExc_RuntimeError,
                        "Cannot save multiple tensors or storages that view the same data as different types");
        return false;
    }
    return known != NULL;
}

/* The same text for the same storage: the pickler knows it again by identity. Borrowed. */
static PyObject *key_of(collector_object *c, PyObject *storage)
{
    PyObject *address = PyLong_FromVoidPtr(face_storage_of(storage));
    PyObject *key = address ? PyDict_GetItemWithError(c->keys, address) : NULL;
    if (address && !key && !PyErr_Occurred()) {
        /* str(n) is a fresh object even for one digit; a cached one might be met elsewhere, and change the memo. */
        PyObject *number = PyLong_FromSsize_t(PyList_GET_SIZE(c->storages)),
                 *made = number ? PyObject_Str(number) : NULL;
        Py_XDECREF(number);
        if (made && PyList_Append(c->storages, storage) == 0 && PyDict_SetItem(c->keys, address, made) == 0)
            key = made;
        Py_XDECREF(made);       /* the dict keeps it */
    }
    Py_XDECREF(address);
    return key;
}

static PyObject *storage_id(collector_object *c, PyObject *storage, PyObject *dtype, PyObject *class)
{
    tp_storage *s = face_storage_of(storage);
    tp_dtype d;
    if (!s)
        return PyErr_Format(PyExc_TypeError, "a storage is wanted, not %s", Py_TYPE(storage)->tp_name);
    if (!face_dtype_read(dtype, &d) || !check_dtype(c, s, dtype))
        return NULL;
    PyObject *key = key_of(c, storage), *device = key ? PyObject_GetAttrString(storage, "device") : NULL;
    PyObject *place = device ? PyObject_GetAttrString(device, "type") : NULL;
    Py_XDECREF(device);
    if (!place)
        return NULL;
    PyUnicode_InternInPlace(&place);
    return Py_BuildValue("OOONn", c->word, class, key, place, (Py_ssize_t)(s->bytes / tp_dtype_bytes(d)));
}

/* What the pickler calls for every object: the persistent id of a storage, None for all else. */
static PyObject *collector_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    collector_object *c = (collector_object *)self;
    PyObject *o;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O", &o))
        return NULL;
    if (PyObject_TypeCheck(o, face.storage))
        return storage_id(c, o, face.dtypes[TP_u8], (PyObject *)face.storage);
    if (!PyObject_TypeCheck(o, (PyTypeObject *)c->typed))
        Py_RETURN_NONE;
    PyObject *untyped = PyObject_GetAttrString(o, "_untyped_storage"),
             *dtype = untyped ? PyObject_GetAttrString(o, "dtype") : NULL;
    PyObject *class = dtype ? PyDict_GetItemWithError(c->classes, dtype) : NULL, *id = NULL;
    if (class)
        id = storage_id(c, untyped, dtype, class);
    else if (dtype && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, dtype);
    Py_XDECREF(dtype);
    Py_XDECREF(untyped);
    return id;
}

static PyObject *collector_storages(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((collector_object *)self)->storages);
}

static PyGetSetDef collector_attributes[] = {
    { "storages", collector_storages, NULL, NULL, NULL },
    { 0 },
};
static PyType_Slot collector_slots[] = {
    { Py_tp_new, collector_new },
    { Py_tp_dealloc, collector_dealloc },
    { Py_tp_call, collector_call },
    { Py_tp_getset, collector_attributes },
    { Py_tp_traverse, collector_traverse },
    { Py_tp_clear, collector_clear },
    { 0, NULL },
};
static PyType_Spec collector_spec = {
    .name = "_StorageIds",
    .basicsize = sizeof(collector_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = collector_slots,
};

/* ---- objects from a tree ---- */

typedef struct builder {
    PyObject **made;            /* owned array over node ids: counted objects, NULL until built */
    char     *busy;             /* owned: a node is being built; a cycle that Python could not pickle either */
    PyObject *persistent;       /* borrowed: makes a storage of an id */
    PyObject *set_state_of;        /* borrowed: gives an object its state, if its type may have one */
    PyObject *error;            /* counted: pickle.UnpicklingError */
    const char *encoding;       /* borrowed: of Python 2's strings; "bytes" keeps them */
} builder;

static PyObject *build(builder *b, const tp_pickle *v);

static PyObject *unpickling_error(void)
{
    PyObject *module = PyImport_ImportModule("pickle"),
             *error = module ? PyObject_GetAttrString(module, "UnpicklingError") : NULL;
    Py_XDECREF(module);
    return error;
}

static PyObject *build_string(builder *b, const tp_pickle *v)
{
    if (strcmp(b->encoding, "bytes") == 0)
        return PyBytes_FromStringAndSize(v->text, (Py_ssize_t)v->length);
    return PyUnicode_Decode(v->text, (Py_ssize_t)v->length, b->encoding, "strict");
}

static PyObject *build_tuple(builder *b, const tp_pickle *v)
{
    PyObject *tuple = PyTuple_New(v->count);
    for (uint32_t i = 0; tuple && i < v->count; i++) {
        PyObject *item = build(b, v->item[i]);
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* Lists, dicts and sets are known before they are filled: they may hold themselves. */
static bool fill_list(builder *b, const tp_pickle *v, PyObject *list)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < v->count; i++) {
        PyObject *item = build(b, v->item[i]);
        ok = item && (PyList_Check(list) ? PyList_Append(list, item) : PySet_Add(list, item)) == 0;
        Py_XDECREF(item);
    }
    return ok;
}

static bool fill_dict(builder *b, const tp_pickle *v, PyObject *dict)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < v->count; i += 2) {
        PyObject *key = build(b, v->item[i]), *value = key ? build(b, v->item[i + 1]) : NULL;
        ok = value && PyDict_SetItem(dict, key, value) == 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return ok;
}

static PyObject *build_frozen(builder *b, const tp_pickle *v)
{
    PyObject *list = PyList_New(0);
    if (list && !fill_list(b, v, list))
        Py_CLEAR(list);
    PyObject *made = list ? PyFrozenSet_New(list) : NULL;
    Py_XDECREF(list);
    return made;
}

/* Only a global that was found, and nothing that came out of the pickle itself, is called. */
static PyObject *build_call(builder *b, const tp_pickle *v)
{
    if (v->item[0]->kind != TP_PICKLE_GLOBAL) {
        PyObject *what = build(b, v->item[0]);
        if (what)
            PyErr_Format(b->error, "Trying to call reduce for unrecognized function %S", what);
        Py_XDECREF(what);
        return NULL;
    }
    PyObject *function = build(b, v->item[0]), *arguments = function ? build(b, v->item[1]) : NULL;
    PyObject *made = arguments ? PyObject_CallObject(function, arguments) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(function);
    return made;
}

static PyObject *build_new(builder *b, const tp_pickle *v)
{
    PyObject *class = build(b, v->item[0]), *arguments = class ? build(b, v->item[1]) : NULL;
    PyObject *keywords = arguments && v->count > 2 ? build(b, v->item[2]) : NULL, *made = NULL;
    if (arguments && (v->item[0]->kind != TP_PICKLE_GLOBAL || !PyType_Check(class) || !((PyTypeObject *)class)->tp_new))
        PyErr_Format(b->error, "Trying to create new object for unrecognized class %S", class);
    else if (arguments && (v->count < 3 || keywords))
        made = ((PyTypeObject *)class)->tp_new((PyTypeObject *)class, arguments, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(arguments);
    Py_XDECREF(class);
    return made;
}

static PyObject *build_persistent(builder *b, const tp_pickle *v)
{
    const tp_pickle *id = v->item[0], *first = id->kind == TP_PICKLE_TUPLE && id->count ? id->item[0] : id;
    PyObject *object = build(b, id), *made = NULL;
    if (!object)
        return NULL;
    if (id->kind == TP_PICKLE_TUPLE && tp_pickle_is_text(first, "storage")) {
        made = PyObject_CallOneArg(b->persistent, object);
    } else {
        PyObject *what = build(b, first);
        if (what)
            PyErr_Format(b->error, "Only persistent_load of storage is allowed, but got %S", (PyObject *)Py_TYPE(what));
        Py_XDECREF(what);
    }
    Py_DECREF(object);
    return made;
}

static bool set_state(builder *b, PyObject *object, PyObject *state)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(b->set_state_of, object, state, NULL);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* What the pickle does with an object after making it. */
static bool take_step(builder *b, const tp_pickle_step *s, PyObject *object)
{
    PyObject *x = build(b, s->a), *y = x && s->b ? build(b, s->b) : NULL;
    bool ok = x && (y || !s->b);
    if (ok)
        switch (s->act) {
        case TP_PICKLE_BUILD: ok = set_state(b, object, x); break;
        case TP_PICKLE_APPEND:
            ok = PyList_Check(object) ? PyList_Append(object, x) == 0
               : (PyErr_Format(b->error, "Can only append to lists, but got %S", (PyObject *)Py_TYPE(object)), false);
            break;
        case TP_PICKLE_ADD:
            ok = PySet_Check(object) ? PySet_Add(object, x) == 0
               : (PyErr_Format(b->error, "Can only add items to sets, but got %S", (PyObject *)Py_TYPE(object)), false);
            break;
        case TP_PICKLE_SET_ITEM:
            ok = PyDict_Check(object)
                     ? PyObject_SetItem(object, x, y) == 0
                     : (PyErr_Format(b->error, "Can only set items of dicts, but got %S", (PyObject *)Py_TYPE(object)),
                        false);
            break;
        }
    Py_XDECREF(x);
    Py_XDECREF(y);
    return ok;
}

static PyObject *build_object(builder *b, const tp_pickle *v)
{
    switch ((tp_pickle_kind)v->kind) {
    case TP_PICKLE_NONE: return Py_NewRef(Py_None);
    case TP_PICKLE_BOOL: return PyBool_FromLong(v->truth);
    case TP_PICKLE_INT: return PyLong_FromLongLong(v->integer);
    case TP_PICKLE_BIG: return _PyLong_FromByteArray((const unsigned char *)v->text, v->length, 1, 1);
    case TP_PICKLE_FLOAT: return PyFloat_FromDouble(v->number);
    case TP_PICKLE_TEXT: return PyUnicode_DecodeUTF8(v->text, (Py_ssize_t)v->length, "surrogatepass");
    case TP_PICKLE_STRING: return build_string(b, v);
    case TP_PICKLE_BYTES: return PyBytes_FromStringAndSize(v->text, (Py_ssize_t)v->length);
    case TP_PICKLE_BYTEARRAY: return PyByteArray_FromStringAndSize(v->text, (Py_ssize_t)v->length);
    case TP_PICKLE_LIST: return PyList_New(0);
    case TP_PICKLE_DICT: return PyDict_New();
    case TP_PICKLE_SET: return PySet_New(NULL);
    case TP_PICKLE_TUPLE: return build_tuple(b, v);
    case TP_PICKLE_FROZENSET: return build_frozen(b, v);
    case TP_PICKLE_CALL: return build_call(b, v);
    case TP_PICKLE_NEW: return build_new(b, v);
    case TP_PICKLE_PERSISTENT: return build_persistent(b, v);
    case TP_PICKLE_GLOBAL: break;       /* found before anything is built */
    }
    PyErr_SetString(b->error, "a global was not found");
    return NULL;
}

static bool fill(builder *b, const tp_pickle *v, PyObject *made)
{
    if (v->kind == TP_PICKLE_LIST || v->kind == TP_PICKLE_SET)
        return fill_list(b, v, made);
    if (v->kind == TP_PICKLE_DICT)
        return fill_dict(b, v, made);
    for (const tp_pickle_step *s = v->step; s; s = s->next)
        if (!take_step(b, s, made))
            return false;
    return true;
}

/* A new reference. */
static PyObject *build(builder *b, const tp_pickle *v)
{
    if (b->made[v->id])
        return Py_NewRef(b->made[v->id]);
    if (b->busy[v->id]) {
        PyErr_SetString(b->error, "an object is an argument of its own making");
        return NULL;
    }
    if (Py_EnterRecursiveCall(" while unpickling an object"))
        return NULL;
    b->busy[v->id] = 1;
    PyObject *made = build_object(b, v);
    b->busy[v->id] = 0;
    if (made && !b->made[v->id])
        b->made[v->id] = Py_NewRef(made);
    if (made && !fill(b, v, made))
        Py_CLEAR(made);
    Py_LeaveRecursiveCall();
    return made;
}

/* Every global, in the order the pickle names them; steps on a global itself are no pickler's. */
static bool find_globals(builder *b, const tp_pickle_tree *t, PyObject *find)
{
    for (uint32_t i = 0; i < t->global_count; i++) {
        const tp_pickle *v = t->global[i];
        PyObject *found = PyObject_CallFunction(find, "ss", v->text, v->name);
        if (!found)
            return false;
        b->made[v->id] = found;
    }
    return true;
}

static PyObject *build_tree(builder *b, const tp_pickle_tree *t, PyObject *find)
{
    b->made = PyMem_Calloc(t->node_count, sizeof *b->made);
    b->busy = PyMem_Calloc(t->node_count, 1);
    PyObject *root = NULL;
    if (!b->made || !b->busy)
        PyErr_NoMemory();
    else if (find_globals(b, t, find))
        root = build(b, t->root);
    for (uint32_t i = 0; b->made && i < t->node_count; i++)
        Py_XDECREF(b->made[i]);
    PyMem_Free(b->made);
    PyMem_Free(b->busy);
    return root;
}

/* The bytes of a pickle as a tree; false: UnpicklingError. */
static bool read_tree(tp_arena *a, const Py_buffer *view, tp_pickle_tree *tree, PyObject *error)
{
    if (tp_pickle_read_in(a, view->buf, (size_t)view->len, tree))
        return true;
    if (tp_error_kind() == TP_ERR_VALUE)
        PyErr_SetString(error, tp_error_text());
    else
        face_raise();
    tp_error_clear();
    return false;
}

/* _load_pickle(bytes, find, persistent, set_state_of, encoding) -> (object, bytes used, protocol) */
static PyObject *load_pickle(PyObject *module, PyObject *args)
{
    builder b = { 0 };
    Py_buffer view;
    PyObject *find, *result = NULL;
    tp_arena a;
    tp_pickle_tree tree;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*OOOs", &view, &find, &b.persistent, &b.set_state_of, &b.encoding))
        return NULL;
    tp_arena_init(&a);
    b.error = unpickling_error();
    if (b.error && read_tree(&a, &view, &tree, b.error)) {
        PyObject *root = build_tree(&b, &tree, find);
        if (root)
            result = Py_BuildValue("Nni", root, (Py_ssize_t)tree.used, tree.protocol);
    }
    tp_arena_fini(&a);
    Py_XDECREF(b.error);
    PyBuffer_Release(&view);
    return result;
}

/* _pickle_globals(bytes) -> [(module, name), …], each once, in order */
static PyObject *pickle_globals(PyObject *module, PyObject *args)
{
    Py_buffer view;
    tp_arena a;
    tp_pickle_tree tree;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*", &view))
        return NULL;
    tp_arena_init(&a);
    PyObject *error = unpickling_error(), *seen = NULL;
    if (error && read_tree(&a, &view, &tree, error)) {
        seen = PyDict_New();        /* keeps the order */
        for (uint32_t i = 0; seen && i < tree.global_count; i++) {
            PyObject *pair = Py_BuildValue("(ss)", tree.global[i]->text, tree.global[i]->name);
            if (!pair || PyDict_SetItem(seen, pair, Py_None) < 0)
                Py_CLEAR(seen);
            Py_XDECREF(pair);
        }
    }
    PyObject *list = seen ? PyDict_Keys(seen) : NULL;
    Py_XDECREF(seen);
    Py_XDECREF(error);
    tp_arena_fini(&a);
    PyBuffer_Release(&view);
    return list;
}

static PyMethodDef functions[] = {
    { "_rename_pickle", rename_pickle, METH_VARARGS, NULL },
    { "_load_pickle", load_pickle, METH_VARARGS, NULL },
    { "_pickle_globals", pickle_globals, METH_VARARGS, NULL },
    { 0 },
};

bool face_pickle_init(PyObject *module)
{
    PyTypeObject *collector = face_make_type(module, &collector_spec, NULL);
    Py_XDECREF(collector);
    return collector && PyModule_AddFunctions(module, functions) == 0;
}
