/* pytree.h - nested containers as a list of leaves and a spec of how they nest.
 *
 * A spec is a Python object (TreeSpec) made here; lists, tuples, dicts, ordered and default dicts, deques, named tuples,
 * sizes and the results of ops nest, other types when Python registered them (`_pytree_nodes`, type -> NodeDef). Anything
 * else, None too, is a leaf. */
#ifndef TP_PYTHON_PYTREE_H
#define TP_PYTHON_PYTREE_H

#include "python/face.h"

bool face_pytree_init(PyObject *module);
/* Appends the leaves of `o` to the list; gives the spec. is_leaf may be NULL. */
PyObject *face_tree_flatten(PyObject *o, PyObject *is_leaf, PyObject *leaves);
/* `leaves` is a list or tuple of as many items as the spec has leaves. */
PyObject *face_tree_unflatten(PyObject *spec, PyObject *leaves);
Py_ssize_t face_tree_leaf_count(PyObject *spec);
/* The list of what `tree` says of each leaf of the spec, its own leaves standing for whole subtrees; None: it does not fit. */
PyObject *face_tree_broadcast(PyObject *spec, PyObject *tree, PyObject *is_leaf);
bool face_is_spec(PyObject *o);
bool face_spec_is_leaf(PyObject *spec);

/* ---- between pytree.c and pytree_walk.c ---- */
typedef enum tree_kind {
    TREE_LEAF, TREE_LIST, TREE_TUPLE, TREE_DICT, TREE_ORDERED_DICT, TREE_DEFAULT_DICT, TREE_DEQUE, TREE_NAMED_TUPLE,
    TREE_SEQUENCE,              /* torch.Size, return types: a tuple of another class */
    TREE_CUSTOM,
} tree_kind;

typedef struct spec_object {
    PyObject_HEAD
    PyObject  *type, *context;  /* counted; type None: a leaf; of named tuples: collections.namedtuple, the class is the context */
    PyObject  *children;        /* counted tuple of specs */
    Py_ssize_t nodes, leaves;
    uint8_t    kind;            /* tree_kind */
} spec_object;

/* A node taken apart. */
typedef struct tree_parts {
    tree_kind kind;
    PyObject *definition;       /* borrowed NodeDef of TREE_CUSTOM */
    PyObject *type;             /* borrowed: what the spec says */
    PyObject *context;          /* counted */
    PyObject *children;         /* counted list or tuple */
} tree_parts;

struct face_tree {
    PyTypeObject *spec, *leaf;
    PyObject *leaf_spec;        /* the one LeafSpec that flattening gives */
    PyObject *nodes;            /* dict: type -> NodeDef */
    PyObject *namedtuple, *ordered_dict, *default_dict, *deque;
    PyObject *sequence_key, *mapping_key, *attribute_key;   /* classes, handed over by the package; NULL before */
};
extern const char *const face_tree_kind_names[];

tree_kind face_tree_classify(PyObject *o, PyObject **definition);      /* definition: borrowed */
bool face_tree_open(PyObject *o, tree_parts *out);                     /* false: exception set; not for leaves */
void face_tree_parts_fini(tree_parts *p);
PyObject *face_tree_close(const spec_object *s, PyObject *children);   /* the node again, of a list of children */
PyObject *face_spec_new(PyObject *type, PyObject *context, PyObject *children_taken);
bool face_tree_walk_init(PyObject *module);                            /* pytree_walk.c */
PyObject *face_tree_flatten_up_to(PyObject *spec, PyObject *tree);     /* pytree_walk.c: a list */

#endif
