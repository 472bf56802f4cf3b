/* fx.h - what the files of torch.fx's C side share.
 *
 * A Graph object counts a tp_graph; the tp_graph knows its object, borrowed, so there is one. A Node object stands for
 * a tp_node, is made when Python asks, is one while it lives, and counts its Graph object: a node may outlive the
 * variable that held the graph. Attributes that Python adds to a node make its object stay as long as the graph
 * (`kept`).
 *
 * Cycles pass through meta dicts and callables, which the graph owns through handles: the Graph object shows those to
 * the collector while it alone counts the tp_graph. */
#ifndef TP_PYTHON_FX_H
#define TP_PYTHON_FX_H

#include "ir/graph.h"
#include "python/face.h"

typedef struct fx_graph {
    PyObject_HEAD
    tp_graph *graph;            /* counted */
    tp_node  *after;            /* borrowed, may be NULL: new nodes go right behind this one */
    PyObject *kept;             /* counted list, may be NULL: nodes with attributes of their own */
    PyObject *pending;          /* counted, may be NULL: whose write() is called before the graph changes */
    PyObject *dict, *weakrefs;
} fx_graph;

typedef struct fx_node {
    PyObject_HEAD
    tp_node  *node;             /* borrowed from the graph */
    fx_graph *graph;            /* counted */
    PyObject *dict, *weakrefs;
} fx_node;

static inline bool fx_is_node(PyObject *o) { return Py_IS_TYPE(o, face.fx.node); }
static inline bool fx_is_graph(PyObject *o) { return PyObject_TypeCheck(o, face.fx.graph); }
static inline tp_node *fx_node_of(PyObject *o) { return ((fx_node *)o)->node; }         /* borrowed */
static inline tp_graph *fx_graph_of(PyObject *o) { return ((fx_graph *)o)->graph; }     /* borrowed */

/* ---- fx_node.c ---- */
PyObject *fx_wrap_node(tp_node *n);
PyObject *fx_node_meta(tp_node *n);                         /* the dict, made when there is none; borrowed */
tp_origin *fx_origin_of(PyObject *meta);                    /* of nodes made while a node with this meta runs; owned, NULL: none */
bool fx_node_types_init(PyObject *module);
PyTypeObject *fx_make_type(PyObject *module, PyType_Spec *spec, const char *attribute);
int fx_is_impure(tp_node *n, bool random);                  /* -1: exception set */

/* ---- fx_edit.c: methods of nodes that change the graph ---- */
extern PyMethodDef fx_node_methods[];
PyObject *fx_node_compare(PyObject *a, PyObject *b, int how);        /* by their places in the graph */
PyObject *fx_foreign_error(tp_node *arg, const char *reader, tp_graph *g);      /* raises; NULL */

/* ---- fx_graph.c ---- */
PyObject *fx_wrap_graph(tp_graph *g);
fx_node *fx_create(fx_graph *g, tp_node_kind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *name,
                   PyObject *type);
bool fx_target_read(tp_node_kind kind, PyObject *o, tp_target *out);            /* *out counts a handle of its own */
void fx_target_drop(tp_target t);
PyObject *fx_target_object(const tp_node *n);
const tp_builtin *fx_builtin_of(PyObject *o);               /* NULL: none */
PyObject *fx_builtin_object(const tp_builtin *b);
/* Reads arguments given by position or name into `out`, NULL where absent. */
bool fx_read_call(const char *function, const char *const *names, int count, int required, PyObject *const *args,
                  Py_ssize_t given,
                  PyObject *kwnames, PyObject **out);

int fx_kind_of(PyObject *op);                               /* -1: exception set */

/* ---- fx_order.c, fx_check.c: methods of graphs ---- */
PyObject *fx_inserting_before(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *fx_inserting_after(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *fx_graph_nodes(PyObject *self, void *unused);
bool fx_order_init(PyObject *module);
PyObject *fx_graph_erase_node(PyObject *self, PyObject *node);
PyObject *fx_graph_eliminate_dead_code(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *fx_graph_lint(PyObject *self, PyObject *unused);
PyObject *fx_graph_find_nodes(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *fx_graph_output_node(PyObject *self, PyObject *unused);

/* ---- fx_arguments.c ---- */
/* An argument of a node of `g`; owned by the caller. False: exception set. `g` NULL: no node nor symbol is kept as
 * one. */
bool fx_to_value(tp_graph *g, PyObject *o, tp_value *out);
/* The positional and keyword arguments; an owned array of owned values. */
typedef struct fx_arguments {
    tp_value *value;            /* `few`, or owned */
    uint32_t  count, keywords;  /* positional ones; then pairs */
    uint32_t  filled;           /* values owned so far */
    tp_value  few[12];
} fx_arguments;
bool fx_arguments_read(fx_arguments *a, tp_graph *g, PyObject *args, PyObject *kwargs);    /* either may be NULL */
void fx_arguments_fini(fx_arguments *a);
PyObject *fx_from_value(tp_value v);                        /* borrows; lists and dicts become immutable ones */
PyObject *fx_args_tuple(const tp_node *n);
PyObject *fx_kwargs_dict(const tp_node *n);
bool fx_arguments_init(PyObject *module);
PyObject *fx_map(PyObject *o, PyObject *(*leaf)(PyObject *o, void *data), void *data);

/* ---- make_fx.c: between a recorder and Python ---- */
struct tp_recorder;
/* What a traced function gave, tensors and symbols as the nodes they are; owned. False: exception set. */
bool fx_lower(struct tp_recorder *r, PyObject *o, tp_value *out);
bool fx_show_derived(void *context, const tp_op *op, tp_target *target, tp_value *of);     /* for tp_record_host */

/* ---- fx_names.c ---- */
/* Where Python code finds a callable: "torch.relu", "_operator.add", "builtins.len". */
PyObject *fx_qualified_name(PyObject *callable);
bool fx_from_package(PyObject *o);                          /* reached through the global name `torch` */
PyObject *fx_type_name(PyObject *type, PyObject *globals);  /* globals NULL: for listings */
PyObject *fx_add_global(PyObject *globals, PyObject *hint, PyObject *o);

/* ---- fx_run.c ---- */
struct tp_plan;
struct tp_plan *fx_plan_of(PyObject *o);                    /* of an _FxPlan, borrowed; NULL: it is none */

/* ---- fx_code.c ---- */
PyObject *fx_graph_str(tp_graph *g);
PyObject *fx_node_str(tp_node *n);                          /* format_node */
bool fx_code_init(PyObject *module);
bool fx_run_init(PyObject *module);                         /* fx_run.c */
bool fx_passes_init(PyObject *module);                      /* fx_passes.c */

#endif
