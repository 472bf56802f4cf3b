/* pytree.c - specs of nested containers: what nests, taking apart, putting together, printing. */
#include "python/pytree.h"

#include <structmember.h>

#define tree (*face.pytree)

bool face_is_spec(PyObject *o)
{
    return PyObject_TypeCheck(o, tree.spec);
}

bool face_spec_is_leaf(PyObject *spec)
{
    return ((spec_object *)spec)->kind == TREE_LEAF;
}

Py_ssize_t face_tree_leaf_count(PyObject *spec)
{
    return ((spec_object *)spec)->leaves;
}

/* ---- what nests ---- */
static bool has_attribute(PyTypeObject *type, const char *name)
{
    PyObject *key = PyUnicode_InternFromString(name);
    bool found = key && _PyType_Lookup(type, key) != NULL;
    Py_XDECREF(key);
    return found;
}

static bool is_named_tuple(PyTypeObject *type)
{
    return PyType_IsSubtype(type, &PyTuple_Type) && has_attribute(type, "_fields") && has_attribute(type, "_make");
}

/* torch.Size, and the named results of ops. */
static bool is_tuple_like(PyTypeObject *type)
{
    return type == face.size || (PyType_IsSubtype(type, &PyTuple_Type) && has_attribute(type, "n_sequence_fields") &&
                                 strstr(type->tp_name, "return_types."));
}

/* By the object that a spec names as its type. */
static tree_kind kind_of_type(PyObject *type)
{
    if (type == (PyObject *)&PyList_Type)
        return TREE_LIST;
    if (type == (PyObject *)&PyTuple_Type)
        return TREE_TUPLE;
    if (type == (PyObject *)&PyDict_Type)
        return TREE_DICT;
    if (type == Py_None)
        return TREE_LEAF;
    if (type == tree.ordered_dict)
        return TREE_ORDERED_DICT;
    if (type == tree.default_dict)
        return TREE_DEFAULT_DICT;
    if (type == tree.deque)
        return TREE_DEQUE;
    if (type == tree.namedtuple)
        return TREE_NAMED_TUPLE;
    if (PyType_Check(type) && !PyDict_Contains(tree.nodes, type) && is_tuple_like((PyTypeObject *)type))
        return TREE_SEQUENCE;
    return TREE_CUSTOM;
}

tree_kind face_tree_classify(PyObject *o, PyObject **definition)
{
    PyTypeObject *type = Py_TYPE(o);
    *definition = NULL;
    if (face_is_fast(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || o == Py_None || PyUnicode_CheckExact(o))
        return TREE_LEAF;
    tree_kind kind = kind_of_type((PyObject *)type);
    if (kind != TREE_CUSTOM)
        return kind;
    if ((*definition = PyDict_GetItemWithError(tree.nodes, (PyObject *)type)))
        return TREE_CUSTOM;
    PyErr_Clear();
    return is_named_tuple(type) ? TREE_NAMED_TUPLE : TREE_LEAF;
}

/* ---- taking apart ---- */
static bool open_mapping(PyObject *o, tree_parts *p)
{
    bool exact = PyDict_CheckExact(o);
    p->children = exact ? PyDict_Values(o) : PyMapping_Values(o);
    p->context = exact ? PyDict_Keys(o) : PyMapping_Keys(o);
    if (p->context && p->kind == TREE_DEFAULT_DICT) {
        PyObject *factory = PyObject_GetAttrString(o, "default_factory"), *both = factory ? PyList_New(2) : NULL;
        if (!both) {
            Py_XDECREF(factory);
            Py_CLEAR(p->context);
            return false;
        }
        PyList_SET_ITEM(both, 0, factory);
        PyList_SET_ITEM(both, 1, p->context);
        p->context = both;
    }
    return p->children && p->context;
}

static bool open_custom(PyObject *o, tree_parts *p)
{
    PyObject *pair = PyObject_CallOneArg(PyTuple_GET_ITEM(p->definition, 1), o);
    PyObject *items = pair ? face_items(pair, "a flatten function gives (children, context)") : NULL;
    if (items && PySequence_Fast_GET_SIZE(items) == 2) {
        p->children = PySequence_List(PySequence_Fast_ITEMS(items)[0]);
        p->context = Py_NewRef(PySequence_Fast_ITEMS(items)[1]);
    } else if (items) {
        PyErr_SetString(PyExc_ValueError, "a flatten function gives (children, context)");
    }
    Py_XDECREF(pair);
    Py_XDECREF(items);
    return p->children != NULL;
}

void face_tree_parts_fini(tree_parts *p)
{
    Py_CLEAR(p->children);
    Py_CLEAR(p->context);
}

bool face_tree_open(PyObject *o, tree_parts *p)
{
    bool ok = true;
    p->children = p->context = NULL;
    p->kind = face_tree_classify(o, &p->definition);
    p->type = (PyObject *)Py_TYPE(o);
    switch (p->kind) {
    case TREE_LIST:
    case TREE_TUPLE:
    case TREE_SEQUENCE:
        p->children = p->kind == TREE_LIST ? PySequence_Tuple(o) : Py_NewRef(o);
        p->context = Py_NewRef(Py_None);
        break;
    case TREE_NAMED_TUPLE:
        p->children = Py_NewRef(o);
        p->context = Py_NewRef((PyObject *)Py_TYPE(o));
        p->type = tree.namedtuple;
        break;
    case TREE_DEQUE:
        p->children = PySequence_List(o);
        p->context = PyObject_GetAttrString(o, "maxlen");
        break;
    case TREE_DICT:
    case TREE_ORDERED_DICT:
    case TREE_DEFAULT_DICT: ok = open_mapping(o, p); break;
    case TREE_CUSTOM: ok = open_custom(o, p); break;
    case TREE_LEAF: PyErr_SetString(PyExc_ValueError, "a leaf has no children"); break;
    }
    if (ok && p->children && p->context)
        return true;
    face_tree_parts_fini(p);
    return false;
}

/* ---- putting together ---- */
static PyObject *close_mapping(const spec_object *s, PyObject *children)
{
    PyObject *keys = s->context, *made = NULL;
    if (s->kind == TREE_DEFAULT_DICT) {
        made = PyObject_CallOneArg(tree.default_dict, PyList_GET_ITEM(s->context, 0));
        keys = PyList_GET_ITEM(s->context, 1);
    } else {
        made = s->kind == TREE_DICT ? PyDict_New() : PyObject_CallNoArgs(tree.ordered_dict);
    }
    PyObject *items = face_items(keys, "the context of a dict is its keys");
    if (!items)
        Py_CLEAR(made);
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(children); i++) {
        bool there = i < PySequence_Fast_GET_SIZE(items);
        if (!there || PyObject_SetItem(made, PySequence_Fast_ITEMS(items)[i], PyList_GET_ITEM(children, i)) < 0)
            Py_CLEAR(made);
    }
    Py_XDECREF(items);
    return made;
}

static PyObject *close_custom(const spec_object *s, PyObject *children)
{
    PyObject *definition = PyDict_GetItemWithError(tree.nodes, s->type);
    if (!definition) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "%R is not registered as a pytree node", s->type);
        return NULL;
    }
    return PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(definition, 2), children, s->context, NULL);
}

static PyObject *close_by_call(PyObject *callable, PyObject *children, bool spread)
{
    PyObject *tuple = PyList_AsTuple(children);
    PyObject *made = !tuple ? NULL : spread ? PyObject_Call(callable, tuple, NULL) : PyObject_CallOneArg(callable, tuple);
    Py_XDECREF(tuple);
    return made;
}

PyObject *face_tree_close(const spec_object *s, PyObject *children)
{
    switch ((tree_kind)s->kind) {
    case TREE_LIST: return Py_NewRef(children);
    case TREE_TUPLE: return PyList_AsTuple(children);
    case TREE_DICT:
    case TREE_ORDERED_DICT:
    case TREE_DEFAULT_DICT: return close_mapping(s, children);
    case TREE_DEQUE: return PyObject_CallFunctionObjArgs(tree.deque, children, s->context, NULL);
    case TREE_NAMED_TUPLE: return close_by_call(s->context, children, true);
    case TREE_SEQUENCE: return close_by_call(s->type, children, false);
    case TREE_CUSTOM: return close_custom(s, children);
    case TREE_LEAF: break;
    }
    return Py_NewRef(PyList_GET_ITEM(children, 0));
}

/* ---- flattening ---- */
static PyObject *leaf(PyObject *o, PyObject *leaves)
{
    return PyList_Append(leaves, o) == 0 ? Py_NewRef(tree.leaf_spec) : NULL;
}

static int asked_leaf(PyObject *is_leaf, PyObject *o)
{
    PyObject *answer = PyObject_CallOneArg(is_leaf, o);
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return yes;
}

PyObject *face_tree_flatten(PyObject *o, PyObject *is_leaf, PyObject *leaves)
{
    tree_parts p;
    PyObject *definition, *made = NULL;
    if (is_leaf) {
        int yes = asked_leaf(is_leaf, o);
        if (yes)
            return yes > 0 ? leaf(o, leaves) : NULL;
    }
    if (face_tree_classify(o, &definition) == TREE_LEAF)
        return leaf(o, leaves);
    if (Py_EnterRecursiveCall(" while flattening a tree"))
        return NULL;
    if (face_tree_open(o, &p)) {
        Py_ssize_t count = PySequence_Fast_GET_SIZE(p.children);
        PyObject *specs = PyTuple_New(count);
        for (Py_ssize_t i = 0; specs && i < count; i++) {
            PyObject *child = face_tree_flatten(PySequence_Fast_ITEMS(p.children)[i], is_leaf, leaves);
            if (!child)
                Py_CLEAR(specs);
            else
                PyTuple_SET_ITEM(specs, i, child);
        }
        made = specs ? face_spec_new(p.type, p.context, specs) : NULL;
        face_tree_parts_fini(&p);
    }
    Py_LeaveRecursiveCall();
    return made;
}

static PyObject *rebuild(const spec_object *s, PyObject *const *leaves, Py_ssize_t *at)
{
    if (s->kind == TREE_LEAF)
        return Py_NewRef(leaves[(*at)++]);
    if (Py_EnterRecursiveCall(" while unflattening a tree"))
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(s->children);
    PyObject *children = PyList_New(count), *made = NULL;
    for (Py_ssize_t i = 0; children && i < count; i++) {
        PyObject *child = rebuild((spec_object *)PyTuple_GET_ITEM(s->children, i), leaves, at);
        if (!child)
            Py_CLEAR(children);
        else
            PyList_SET_ITEM(children, i, child);
    }
    if (children)
        made = face_tree_close(s, children);
    Py_XDECREF(children);
    Py_LeaveRecursiveCall();
    return made;
}

PyObject *face_tree_unflatten(PyObject *spec, PyObject *leaves)
{
    const spec_object *s = (spec_object *)spec;
    Py_ssize_t at = 0, given = PySequence_Fast_GET_SIZE(leaves);
    if (given != s->leaves)
        return PyErr_Format(PyExc_ValueError, "treespec.unflatten(leaves): `leaves` has length %zd but the spec refers to a pytree that holds %zd items (%R).",
                            given, s->leaves, spec);
    PyObject *held = face_items(leaves, ""), *made = held ? rebuild(s, PySequence_Fast_ITEMS(held), &at) : NULL;
    Py_XDECREF(held);
    return made;
}

/* ---- the spec itself ---- */
static PyObject *spec_make(PyTypeObject *class, PyObject *type, PyObject *context, PyObject *children_taken)
{
    spec_object *s = children_taken ? (spec_object *)class->tp_alloc(class, 0) : NULL;
    if (!s) {
        Py_XDECREF(children_taken);
        return NULL;
    }
    s->type = Py_NewRef(type);
    s->context = Py_NewRef(context);
    s->children = children_taken;
    s->kind = (uint8_t)kind_of_type(type);
    s->nodes = 1;
    s->leaves = s->kind == TREE_LEAF;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children_taken); i++) {
        const spec_object *child = (spec_object *)PyTuple_GET_ITEM(children_taken, i);
        s->nodes += child->nodes;
        s->leaves += child->leaves;
    }
    return (PyObject *)s;
}

PyObject *face_spec_new(PyObject *type, PyObject *context, PyObject *children_taken)
{
    return spec_make(tree.spec, type, context, children_taken);
}

static PyObject *spec_create(PyTypeObject *class, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "type", "context", "children_specs", NULL };
    PyObject *type, *context, *children;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO:TreeSpec", names, &type, &context, &children))
        return NULL;
    PyObject *specs = PySequence_Tuple(children);
    for (Py_ssize_t i = 0; specs && i < PyTuple_GET_SIZE(specs); i++)
        if (!face_is_spec(PyTuple_GET_ITEM(specs, i))) {
            PyErr_Format(PyExc_TypeError, "children_specs must be TreeSpecs, not %s", Py_TYPE(PyTuple_GET_ITEM(specs, i))->tp_name);
            Py_CLEAR(specs);
        }
    return spec_make(class, type, context, specs);
}

static PyObject *leaf_create(PyTypeObject *class, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { NULL };
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":LeafSpec", names))
        return NULL;
    return spec_make(class, Py_None, Py_None, PyTuple_New(0));
}

static void spec_dealloc(PyObject *self)
{
    spec_object *s = (spec_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(s->type);
    Py_XDECREF(s->context);
    Py_XDECREF(s->children);
    type->tp_free(self);
    Py_DECREF(type);
}

static int spec_traverse(PyObject *self, visitproc visit, void *arg)
{
    spec_object *s = (spec_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(s->type);
    Py_VISIT(s->context);
    Py_VISIT(s->children);
    return 0;
}

static PyObject *new_line(int indent)
{
    char *line = PyMem_Malloc((size_t)indent + 2);
    if (!line)
        return PyErr_NoMemory();
    memset(line, ' ', (size_t)indent + 2);
    memcpy(line, ",\n", 2);
    PyObject *text = PyUnicode_FromStringAndSize(line, indent + 2);
    PyMem_Free(line);
    return text;
}

/* Children from the second on stand on lines of their own, two columns in. */
static PyObject *spec_text(const spec_object *s, int indent)
{
    if (s->kind == TREE_LEAF)
        return PyUnicode_FromString("*");
    PyObject *name = PyObject_GetAttrString(s->type, "__name__");
    PyObject *text = name ? PyUnicode_FromFormat("TreeSpec(%S, %S, [", name, s->context) : NULL;
    Py_XDECREF(name);
    for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(s->children); i++) {
        if (i)
            PyUnicode_AppendAndDel(&text, new_line(indent + 2));
        if (text)
            PyUnicode_AppendAndDel(&text, spec_text((spec_object *)PyTuple_GET_ITEM(s->children, i), indent + 2));
    }
    if (text)
        PyUnicode_AppendAndDel(&text, PyUnicode_FromString("])"));
    return text;
}

static PyObject *spec_repr(PyObject *self)
{
    return spec_text((spec_object *)self, 0);
}

static int same_specs(const spec_object *a, const spec_object *b)
{
    if (a == b)
        return 1;
    if (a->type != b->type || PyTuple_GET_SIZE(a->children) != PyTuple_GET_SIZE(b->children) || a->nodes != b->nodes)
        return 0;
    int same = PyObject_RichCompareBool(a->context, b->context, Py_EQ);
    for (Py_ssize_t i = 0; same > 0 && i < PyTuple_GET_SIZE(a->children); i++)
        same = same_specs((spec_object *)PyTuple_GET_ITEM(a->children, i), (spec_object *)PyTuple_GET_ITEM(b->children, i));
    return same;
}

static PyObject *spec_compare(PyObject *a, PyObject *b, int how)
{
    if (!face_is_spec(b) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    int same = same_specs((spec_object *)a, (spec_object *)b);
    return same < 0 ? NULL : PyBool_FromLong((same > 0) == (how == Py_EQ));
}

/* Contexts are often lists, which have no hash: the shape must do. */
static Py_hash_t spec_hash(PyObject *self)
{
    const spec_object *s = (spec_object *)self;
    Py_hash_t type = PyObject_Hash(s->type);
    if (type == -1)
        return -1;
    Py_uhash_t hash = (Py_uhash_t)type * 31 + (Py_uhash_t)s->nodes * 1000003 + (Py_uhash_t)s->leaves;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(s->children); i++)
        hash = hash * 1000003 ^ (Py_uhash_t)spec_hash(PyTuple_GET_ITEM(s->children, i));
    return hash == (Py_uhash_t)-1 ? -2 : (Py_hash_t)hash;
}

static PyObject *spec_is_leaf(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(face_spec_is_leaf(self));
}

static PyObject *spec_children(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PySequence_List(((spec_object *)self)->children);
}

static PyObject *get_children(PyObject *self, void *unused)
{
    (void)unused;
    return spec_children(self, NULL);
}

static PyObject *get_child_count(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(PyTuple_GET_SIZE(((spec_object *)self)->children));
}

static PyObject *spec_child(PyObject *self, PyObject *index)
{
    Py_ssize_t i = PyNumber_AsSsize_t(index, PyExc_IndexError);
    return i == -1 && PyErr_Occurred() ? NULL : PySequence_GetItem(((spec_object *)self)->children, i);
}

static PyObject *spec_unflatten(PyObject *self, PyObject *leaves)
{
    PyObject *list = PySequence_List(leaves), *made = list ? face_tree_unflatten(self, list) : NULL;
    Py_XDECREF(list);
    return made;
}

static PyObject *spec_reduce(PyObject *self, PyObject *unused)
{
    const spec_object *s = (spec_object *)self;
    (void)unused;
    if (s->kind == TREE_LEAF)
        return Py_BuildValue("(O())", (PyObject *)Py_TYPE(self));
    return Py_BuildValue("(O(OON))", (PyObject *)Py_TYPE(self), s->type, s->context, PySequence_List(s->children));
}

static PyMethodDef spec_methods[] = {
    { "is_leaf", spec_is_leaf, METH_NOARGS, NULL },
    { "children", spec_children, METH_NOARGS, NULL },
    { "child", spec_child, METH_O, NULL },
    { "unflatten", spec_unflatten, METH_O, NULL },
    { "flatten_up_to", face_tree_flatten_up_to, METH_O, NULL },
    { "__reduce__", spec_reduce, METH_NOARGS, NULL },
    { 0 },
};
static PyMemberDef spec_members[] = {
    { "type", T_OBJECT_EX, offsetof(spec_object, type), READONLY, NULL },
    { "context", T_OBJECT_EX, offsetof(spec_object, context), READONLY, NULL },
    { "num_nodes", T_PYSSIZET, offsetof(spec_object, nodes), READONLY, NULL },
    { "num_leaves", T_PYSSIZET, offsetof(spec_object, leaves), READONLY, NULL },
    { 0 },
};
static PyGetSetDef spec_attributes[] = {
    { "children_specs", get_children, NULL, NULL, NULL },
    { "num_children", get_child_count, NULL, NULL, NULL },
    { 0 },
};
static PyType_Slot spec_slots[] = {
    { Py_tp_new, spec_create }, { Py_tp_dealloc, spec_dealloc }, { Py_tp_traverse, spec_traverse }, { Py_tp_repr, spec_repr },
    { Py_tp_richcompare, spec_compare }, { Py_tp_hash, spec_hash }, { Py_tp_methods, spec_methods }, { Py_tp_members, spec_members },
    { Py_tp_getset, spec_attributes }, { 0, NULL },
};
static PyType_Spec spec_spec = {
    .name = "utils._pytree.TreeSpec", .basicsize = sizeof(spec_object), .slots = spec_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
};
static PyType_Slot leaf_slots[] = { { Py_tp_new, leaf_create }, { Py_tp_traverse, spec_traverse }, { Py_tp_dealloc, spec_dealloc }, { 0, NULL } };
static PyType_Spec leaf_spec = {
    .name = "utils._pytree.LeafSpec", .basicsize = sizeof(spec_object), .slots = leaf_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
};

static bool find_collections(void)
{
    PyObject *collections = PyImport_ImportModule("collections");
    if (!collections)
        return false;
    tree.namedtuple = PyObject_GetAttrString(collections, "namedtuple");
    tree.ordered_dict = PyObject_GetAttrString(collections, "OrderedDict");
    tree.default_dict = PyObject_GetAttrString(collections, "defaultdict");
    tree.deque = PyObject_GetAttrString(collections, "deque");
    Py_DECREF(collections);
    return tree.namedtuple && tree.ordered_dict && tree.default_dict && tree.deque;
}

bool face_pytree_init(PyObject *module)
{
    if (!(face.pytree = PyMem_Calloc(1, sizeof *face.pytree))) {
        PyErr_NoMemory();
        return false;
    }
    return find_collections() && (tree.nodes = PyDict_New()) && (tree.spec = face_make_type(module, &spec_spec, NULL)) &&
           (tree.leaf = face_make_type(module, &leaf_spec, tree.spec)) &&
           (tree.leaf_spec = PyObject_CallNoArgs((PyObject *)tree.leaf)) &&
           PyModule_AddObjectRef(module, "_pytree_nodes", tree.nodes) == 0 && face_tree_walk_init(module);
}
