/* module.h - functions and modules that run a recorded graph.
 *
 * A function is a name and a graph, and the plan made from it at the first call. A module is a named class with slots in
 * order (parameters, buffers, submodules, plain attributes) and methods; it is what `%self` is while a method runs, so it
 * is a handle that values carry.
 *
 * Owners: both are counted. A module counts its submodules and methods, a function its graph. Slots are written by module.c
 * only; tensors in them are shared with whoever made the module, so that training one trains the other. */
#ifndef TP_JIT_MODULE_H
#define TP_JIT_MODULE_H

#include "base/array.h"
#include "jit/graph.h"

typedef struct tp_jit_plan tp_jit_plan;

typedef struct tp_jit_function {
    tp_handle    handle;            /* first */
    char        *name;              /* owned: "f", "forward" */
    tp_graph    *graph;             /* counted */
    tp_jit_plan *plan;              /* owned, may be NULL until it first runs; dropped when the graph changes */
    bool         method;            /* the first input is the module */
} tp_jit_function;

TP_API TP_CHECK tp_jit_function *tp_jit_function_new(const char *name, tp_graph *g, bool method);   /* counts g */
TP_API tp_jit_function *tp_jit_function_ref(tp_jit_function *f);
TP_API void tp_jit_function_unref(tp_jit_function *f);                      /* NULL is fine */
TP_API void tp_jit_function_changed(tp_jit_function *f);                    /* its graph was edited */

typedef enum tp_jit_role { TP_JIT_PARAMETER, TP_JIT_BUFFER, TP_JIT_MODULE, TP_JIT_ATTRIBUTE } tp_jit_role;

typedef struct tp_jit_slot {
    char    *name;                  /* owned */
    uint8_t  role;                  /* tp_jit_role */
    tp_value value;                 /* owned */
} tp_jit_slot;

typedef struct tp_jit_module {
    tp_handle handle;               /* first */
    tp_jit_type *type;              /* counted: the class "__torch__.torch.nn.modules.linear.Linear" */
    tp_array(tp_jit_slot) slot;
    tp_text_map index;              /* name -> place in `slot`, empty while there are few; slots are never removed */
    tp_array(tp_jit_function *) method;     /* each counted */
} tp_jit_module;

TP_API TP_CHECK tp_jit_module *tp_jit_module_new(const char *type_name);
TP_API void tp_jit_module_unref(tp_jit_module *m);                          /* NULL is fine */
TP_API tp_jit_slot *tp_jit_module_slot(const tp_jit_module *m, const char *name);       /* borrowed, NULL: none */
TP_API TP_CHECK bool tp_jit_module_set(tp_jit_module *m, const char *name, tp_jit_role role, tp_value v);   /* counts v; replaces */
TP_API tp_jit_function *tp_jit_module_method(const tp_jit_module *m, const char *name); /* borrowed, NULL: none */
TP_API TP_CHECK bool tp_jit_module_define(tp_jit_module *m, tp_jit_function *f);        /* counts f; replaces one of its name */
/* The module or value behind a dotted path; NULL: none. Borrowed. */
TP_API const tp_value *tp_jit_module_find(const tp_jit_module *m, const char *path);
/* The type of a slot's value. */
TP_API TP_CHECK tp_jit_type *tp_jit_type_of_member(tp_value v);
/* The type of what a path leads to, "": of the module itself. NULL: an error is set. */
TP_API TP_CHECK tp_jit_type *tp_jit_module_type(const tp_jit_module *m, const char *path);
TP_API tp_jit_module *tp_jit_as_module(tp_value v);                         /* NULL: not a module */
TP_API tp_jit_function *tp_jit_as_function(tp_value v);
static inline tp_value tp_jit_of_module(tp_jit_module *m) { return (tp_value){ .tag = TP_HANDLE, .handle = &m->handle }; }
static inline tp_value tp_jit_of_function(tp_jit_function *f) { return (tp_value){ .tag = TP_HANDLE, .handle = &f->handle }; }

/* A copy of the graph in which every call of a method or function is replaced by what it calls (inline.c). `self` may be
 * NULL: then calls of methods stay. */
TP_API TP_CHECK tp_graph *tp_jit_inline(const tp_graph *g, const tp_jit_module *self);

#endif
