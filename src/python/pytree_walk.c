/* pytree_walk.c - going over trees: flatten, map, paths to leaves, one tree along the spec of another. */
#include "python/pytree.h"

#define tree (*face.pytree)

static PyObject *or_null(PyObject *o)
{
    return o == Py_None ? NULL : o;
}

/* ---- along a spec ---- */
static bool is_dict_kind(tree_kind kind)
{
    return kind == TREE_DICT || kind == TREE_ORDERED_DICT || kind == TREE_DEFAULT_DICT;
}

static PyObject *keys_of(tree_kind kind, PyObject *context)
{
    return kind == TREE_DEFAULT_DICT ? PyList_GET_ITEM(context, 1) : context;
}

/* Dicts of any sort fit each other when their keys do; the order is the spec's. */
static PyObject *children_by_keys(const spec_object *s, PyObject *given)
{
    PyObject *keys = keys_of((tree_kind)s->kind, s->context), *wanted = PySet_New(keys), *there = wanted ? PySet_New(given) : NULL, *list = NULL;
    int same = there ? PyObject_RichCompareBool(wanted, there, Py_EQ) : -1;
    if (same == 0) {
        PyObject *missing = PyNumber_Subtract(wanted, there), *extra = missing ? PyNumber_Subtract(there, wanted) : NULL;
        PyObject *text = extra ? PyUnicode_FromString("Node keys mismatch") : NULL;
        if (text && PySet_GET_SIZE(missing))
            PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("; missing key(s): %R", missing));
        if (text && PySet_GET_SIZE(extra))
            PyUnicode_AppendAndDel(&text, PyUnicode_FromFormat("; extra key(s): %R", extra));
        if (text)
            PyErr_Format(PyExc_ValueError, "%U.", text);
        Py_XDECREF(missing);
        Py_XDECREF(extra);
        Py_XDECREF(text);
    } else if (same > 0 && (list = PyList_New(PyList_GET_SIZE(keys)))) {
        for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(keys); i++) {
            PyObject *item = PyObject_GetItem(given, PyList_GET_ITEM(keys, i));
            if (!item)
                Py_CLEAR(list);
            else
                PyList_SET_ITEM(list, i, item);
        }
    }
    Py_XDECREF(wanted);
    Py_XDECREF(there);
    return list;
}

/* The children of `o` as the spec has them; NULL: it does not fit. */
static PyObject *fitting_children(const spec_object *s, PyObject *o)
{
    tree_parts p;
    PyObject *definition, *children = NULL;
    tree_kind kind = face_tree_classify(o, &definition);
    PyObject *type = kind == TREE_NAMED_TUPLE ? tree.namedtuple : (PyObject *)Py_TYPE(o);
    if (is_dict_kind((tree_kind)s->kind) && is_dict_kind(kind))
        return children_by_keys(s, o);
    if (type != s->type)
        return PyErr_Format(PyExc_ValueError, "Node type mismatch; expected %R, but got %R.", s->type, type);
    if (!face_tree_open(o, &p))
        return NULL;
    int same = kind == TREE_DEQUE ? 1 : PyObject_RichCompareBool(p.context, s->context, Py_EQ);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(p.children), wanted = PyTuple_GET_SIZE(s->children);
    if (same > 0 && count == wanted)
        children = Py_NewRef(p.children);
    else if (count != wanted)
        PyErr_Format(PyExc_ValueError, "Node arity mismatch; expected %zd, but got %zd.", wanted, count);
    else if (same == 0)
        PyErr_Format(PyExc_ValueError, "Node context mismatch for custom node type %R.", s->type);
    face_tree_parts_fini(&p);
    return children;
}

static bool collect_up_to(const spec_object *s, PyObject *o, PyObject *out)
{
    if (s->kind == TREE_LEAF)
        return PyList_Append(out, o) == 0;
    if (Py_EnterRecursiveCall(" while flattening a tree"))
        return false;
    PyObject *children = fitting_children(s, o);
    bool ok = children != NULL;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(s->children); i++)
        ok = collect_up_to((spec_object *)PyTuple_GET_ITEM(s->children, i), PySequence_Fast_ITEMS(children)[i], out);
    Py_XDECREF(children);
    Py_LeaveRecursiveCall();
    return ok;
}

PyObject *face_tree_flatten_up_to(PyObject *spec, PyObject *o)
{
    PyObject *out = PyList_New(0);
    if (out && !collect_up_to((spec_object *)spec, o, out))
        Py_CLEAR(out);
    return out;
}

/* A tree whose leaves may stand for whole subtrees of the spec. 1: done, 0: it does not fit, -1: exception. */
static int broadcast(const spec_object *s, PyObject *o, PyObject *is_leaf, PyObject *out)
{
    PyObject *definition, *stop = NULL;
    int leaf = face_tree_classify(o, &definition) == TREE_LEAF;
    if (!leaf && is_leaf) {
        if (!(stop = PyObject_CallOneArg(is_leaf, o)) || (leaf = PyObject_IsTrue(stop)) < 0) {
            Py_XDECREF(stop);
            return -1;
        }
        Py_DECREF(stop);
    }
    if (leaf) {
        for (Py_ssize_t i = 0; i < s->leaves; i++)
            if (PyList_Append(out, o) < 0)
                return -1;
        return 1;
    }
    if (s->kind == TREE_LEAF)
        return 0;
    if (Py_EnterRecursiveCall(" while broadcasting a tree"))
        return -1;
    PyObject *children = fitting_children(s, o);
    int got = children != NULL;
    if (!children && PyErr_ExceptionMatches(PyExc_ValueError))
        PyErr_Clear();
    else if (!children)
        got = -1;
    for (Py_ssize_t i = 0; got > 0 && i < PyTuple_GET_SIZE(s->children); i++)
        got = broadcast((spec_object *)PyTuple_GET_ITEM(s->children, i), PySequence_Fast_ITEMS(children)[i], is_leaf, out);
    Py_XDECREF(children);
    Py_LeaveRecursiveCall();
    return got;
}

PyObject *face_tree_broadcast(PyObject *spec, PyObject *o, PyObject *is_leaf)
{
    PyObject *out = PyList_New(0);
    int got = out ? broadcast((spec_object *)spec, o, is_leaf, out) : -1;
    if (got > 0)
        return out;
    Py_XDECREF(out);
    return got < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *tree_broadcast(PyObject *module, PyObject *args)
{
    PyObject *o, *spec, *is_leaf = Py_None;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!|O", &o, tree.spec, &spec, &is_leaf))
        return NULL;
    return face_tree_broadcast(spec, o, or_null(is_leaf));
}

/* ---- paths ---- */
static PyObject *key_of(const tree_parts *p, PyObject *o, Py_ssize_t i)
{
    PyObject *key, *made = NULL;
    if (is_dict_kind(p->kind))
        return PyObject_CallOneArg(tree.mapping_key, PyList_GET_ITEM(keys_of(p->kind, p->context), i));
    if (p->kind == TREE_NAMED_TUPLE) {
        PyObject *fields = PyObject_GetAttrString(o, "_fields");
        key = fields ? PySequence_GetItem(fields, i) : NULL;
        Py_XDECREF(fields);
        made = key ? PyObject_CallOneArg(tree.attribute_key, key) : NULL;
    } else {
        key = PyLong_FromSsize_t(i);
        made = key ? PyObject_CallOneArg(tree.sequence_key, key) : NULL;
    }
    Py_XDECREF(key);
    return made;
}

/* Of a registered type: its function that gives [(key, child), …] and the context. */
static PyObject *keyed_children(PyObject *definition, PyObject *o)
{
    PyObject *function = PyTuple_GET_SIZE(definition) > 3 ? PyTuple_GET_ITEM(definition, 3) : Py_None;
    if (function == Py_None)
        return PyErr_Format(PyExc_ValueError, "Did not find a flatten_with_keys_fn for type: %R. Please pass a flatten_with_keys_fn argument to "
                            "register_pytree_node.", PyTuple_GET_ITEM(definition, 0));
    PyObject *pair = PyObject_CallOneArg(function, o), *first = pair ? PySequence_GetItem(pair, 0) : NULL;
    PyObject *list = first ? PySequence_List(first) : NULL;
    Py_XDECREF(pair);
    Py_XDECREF(first);
    return list;
}

static bool add_paths(PyObject *o, PyObject *path, PyObject *is_leaf, PyObject *out);

static bool add_child_paths(PyObject *key_taken, PyObject *child, PyObject *path, PyObject *is_leaf, PyObject *out)
{
    PyObject *tail = key_taken ? PyTuple_Pack(1, key_taken) : NULL, *longer = tail ? PySequence_Concat(path, tail) : NULL;
    bool ok = longer && add_paths(child, longer, is_leaf, out);
    Py_XDECREF(key_taken);
    Py_XDECREF(tail);
    Py_XDECREF(longer);
    return ok;
}

static bool add_leaf_path(PyObject *o, PyObject *path, PyObject *out)
{
    PyObject *pair = PyTuple_Pack(2, path, o);
    bool ok = pair && PyList_Append(out, pair) == 0;
    Py_XDECREF(pair);
    return ok;
}

static bool add_paths(PyObject *o, PyObject *path, PyObject *is_leaf, PyObject *out)
{
    tree_parts p;
    PyObject *definition;
    int stop = 0;
    if (is_leaf) {
        PyObject *answer = PyObject_CallOneArg(is_leaf, o);
        stop = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
    }
    if (stop < 0)
        return false;
    if (stop || face_tree_classify(o, &definition) == TREE_LEAF)
        return add_leaf_path(o, path, out);
    if (Py_EnterRecursiveCall(" while walking a tree"))
        return false;
    bool ok = false;
    if (definition) {
        PyObject *list = keyed_children(definition, o);
        ok = list != NULL;
        for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(list); i++) {
            PyObject *key, *child;
            ok = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "OO", &key, &child) && add_child_paths(Py_NewRef(key), child, path, is_leaf, out);
        }
        Py_XDECREF(list);
    } else if (face_tree_open(o, &p)) {
        ok = true;
        for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(p.children); i++)
            ok = add_child_paths(key_of(&p, o, i), PySequence_Fast_ITEMS(p.children)[i], path, is_leaf, out);
        face_tree_parts_fini(&p);
    }
    Py_LeaveRecursiveCall();
    return ok;
}

static bool keys_known(void)
{
    if (tree.sequence_key)
        return true;
    PyErr_SetString(PyExc_RuntimeError, "paths of trees need the package's utils._pytree to be imported");
    return false;
}

static PyObject *leaves_with_path(PyObject *module, PyObject *args)
{
    PyObject *o, *is_leaf = Py_None;
    (void)module;
    if (!PyArg_ParseTuple(args, "O|O", &o, &is_leaf) || !keys_known())
        return NULL;
    PyObject *out = PyList_New(0);
    if (out && !add_paths(o, face.empty_tuple, or_null(is_leaf), out))
        Py_CLEAR(out);
    return out;
}

static PyObject *set_keys(PyObject *module, PyObject *args)
{
    PyObject *sequence, *mapping, *attribute;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &sequence, &mapping, &attribute))
        return NULL;
    Py_XSETREF(tree.sequence_key, Py_NewRef(sequence));
    Py_XSETREF(tree.mapping_key, Py_NewRef(mapping));
    Py_XSETREF(tree.attribute_key, Py_NewRef(attribute));
    Py_RETURN_NONE;
}

/* ---- the functions of the package ---- */
static bool read_tree_args(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **o, PyObject **is_leaf)
{
    *o = *is_leaf = NULL;
    for (Py_ssize_t i = 0; i < count && i < 2; i++)
        *(i ? is_leaf : o) = args[i];
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0)
            *is_leaf = args[count + i];
        else if (PyUnicode_CompareWithASCIIString(name, "tree") == 0)
            *o = args[count + i];
        else
            return PyErr_Format(PyExc_TypeError, "unexpected keyword argument '%U'", name) != NULL;
    }
    if (!*o || count > 2)
        return PyErr_Format(PyExc_TypeError, "expected a tree and is_leaf") != NULL;
    if (*is_leaf == Py_None)
        *is_leaf = NULL;
    return true;
}

static PyObject *tree_flatten(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *o, *is_leaf;
    (void)module;
    if (!read_tree_args(args, count, kwnames, &o, &is_leaf))
        return NULL;
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(o, is_leaf, leaves) : NULL;
    if (spec)
        return Py_BuildValue("(NN)", leaves, spec);
    Py_XDECREF(leaves);
    return NULL;
}

static PyObject *tree_leaves(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *o, *is_leaf;
    (void)module;
    if (!read_tree_args(args, count, kwnames, &o, &is_leaf))
        return NULL;
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(o, is_leaf, leaves) : NULL;
    if (!spec)
        Py_CLEAR(leaves);
    Py_XDECREF(spec);
    return leaves;
}

static PyObject *tree_structure(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *o, *is_leaf;
    (void)module;
    if (!read_tree_args(args, count, kwnames, &o, &is_leaf))
        return NULL;
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(o, is_leaf, leaves) : NULL;
    Py_XDECREF(leaves);
    return spec;
}

static PyObject *tree_unflatten(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *leaves = NULL, *spec = NULL;
    (void)module;
    for (Py_ssize_t i = 0; i < count && i < 2; i++)
        *(i ? &spec : &leaves) = args[i];
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        *(PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "treespec") == 0 ? &spec : &leaves) = args[count + i];
    if (!leaves || !spec || count > 2)
        return PyErr_Format(PyExc_TypeError, "tree_unflatten(leaves, treespec)");
    if (!face_is_spec(spec))
        return PyErr_Format(PyExc_TypeError, "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of PyTreeSpec but got item of type %R.",
                            (PyObject *)Py_TYPE(spec));
    PyObject *list = PySequence_List(leaves), *made = list ? face_tree_unflatten(spec, list) : NULL;
    Py_XDECREF(list);
    return made;
}

/* Maps `function` over the leaves of several trees: the first gives the spec, the others must fit it. */
static PyObject *map_leaves(PyObject *function, PyObject *leaves, PyObject *const *rest, Py_ssize_t rest_count)
{
    PyObject *small[8], **vector = rest_count < 8 ? small : PyMem_Calloc((size_t)rest_count + 1, sizeof *vector);
    PyObject *out = vector ? PyList_New(PyList_GET_SIZE(leaves)) : PyErr_NoMemory();
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(leaves); i++) {
        vector[0] = PyList_GET_ITEM(leaves, i);
        for (Py_ssize_t k = 0; k < rest_count; k++)
            vector[k + 1] = PyList_GET_ITEM(rest[k], i);
        PyObject *item = PyObject_Vectorcall(function, vector, (size_t)rest_count + 1, NULL);
        if (!item)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, i, item);
    }
    if (vector != small)
        PyMem_Free(vector);
    return out;
}

static PyObject *tree_map(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    PyObject *is_leaf = NULL, *made = NULL, *mapped = NULL;
    (void)module;
    if (kwnames && PyTuple_GET_SIZE(kwnames) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "is_leaf") == 0)
        is_leaf = or_null(args[count]);
    else if (kwnames && PyTuple_GET_SIZE(kwnames))
        return PyErr_Format(PyExc_TypeError, "tree_map() got an unexpected keyword argument '%U'", PyTuple_GET_ITEM(kwnames, 0));
    if (count < 2)
        return PyErr_Format(PyExc_TypeError, "tree_map() missing 1 required positional argument: 'tree'");
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(args[1], is_leaf, leaves) : NULL;
    PyObject *rest = spec ? PyTuple_New(count - 2) : NULL;
    bool ok = rest != NULL;
    for (Py_ssize_t i = 0; ok && i < count - 2; i++) {
        PyObject *other = face_tree_flatten_up_to(spec, args[i + 2]);
        ok = other != NULL;
        if (ok)
            PyTuple_SET_ITEM(rest, i, other);
    }
    if (ok && (mapped = map_leaves(args[0], leaves, ((PyTupleObject *)rest)->ob_item, count - 2)))
        made = face_tree_unflatten(spec, mapped);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    Py_XDECREF(rest);
    Py_XDECREF(mapped);
    return made;
}

/* One node, for the table of registered types: (children, context). */
static PyObject *open_node(PyObject *module, PyObject *o)
{
    tree_parts p;
    (void)module;
    if (!face_tree_open(o, &p))
        return NULL;
    PyObject *list = PySequence_List(p.children), *context = Py_NewRef(p.context);
    face_tree_parts_fini(&p);
    return Py_BuildValue("(NN)", list, context);
}

static PyObject *close_node(PyObject *module, PyObject *args)
{
    PyObject *type, *children, *context;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO", &type, &children, &context))
        return NULL;
    PyObject *list = PySequence_List(children), *spec = list ? face_spec_new(type, context, PyTuple_New(0)) : NULL;
    PyObject *made = spec ? face_tree_close((spec_object *)spec, list) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(spec);
    return made;
}

static PyObject *is_leaf_now(PyObject *module, PyObject *o)
{
    PyObject *definition;
    (void)module;
    return PyBool_FromLong(face_tree_classify(o, &definition) == TREE_LEAF);
}

#define FAST(f) (PyCFunction)(void (*)(void))f, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef functions[] = {
    { "_pytree_flatten", FAST(tree_flatten), NULL },
    { "_pytree_leaves", FAST(tree_leaves), NULL },
    { "_pytree_structure", FAST(tree_structure), NULL },
    { "_pytree_unflatten", FAST(tree_unflatten), NULL },
    { "_pytree_map", FAST(tree_map), NULL },
    { "_pytree_broadcast", tree_broadcast, METH_VARARGS, NULL },
    { "_pytree_leaves_with_path", leaves_with_path, METH_VARARGS, NULL },
    { "_pytree_set_keys", set_keys, METH_VARARGS, NULL },
    { "_pytree_open", open_node, METH_O, NULL },
    { "_pytree_close", close_node, METH_VARARGS, NULL },
    { "_pytree_is_leaf", is_leaf_now, METH_O, NULL },
    { 0 },
};

bool face_tree_walk_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
