/* graph.h - how a tp_graph says what TorchScript's IR says.
 *
 *     %3 : Float(2, strides=[1], …) = aten::add(%x, %y, %2)       call_function, target the op, every argument positional
 *     %2 : int = prim::Constant[value=1]()                        call_function, target "prim::Constant", keyword value=1
 *     %a : Tensor, %b : Tensor = prim::TupleUnpack(%t)            such a node with `results` 2, then two "prim::Result" nodes
 *                                                                 (node, 0) and (node, 1): the values others read
 *
 * What FX has no field for (type, name, number) is in a note that hangs at the node as its annotation. Arguments of calls
 * are nodes; attributes (between brackets in the text) are keywords. Placeholders are the inputs, the output node holds
 * one node or a tuple of them.
 *
 * Owners: a note belongs to its node and lives in the graph's arena, so copies of jit graphs come from tp_jit_copy. Fails: no memory, through the graph's sticky error where a builder gives NULL. */
#ifndef TP_JIT_GRAPH_H
#define TP_JIT_GRAPH_H

#include "ir/graph.h"
#include "jit/type.h"

typedef struct tp_jit_note {
    tp_handle    handle;            /* first: the node counts it as its type */
    tp_jit_type *type;              /* counted */
    char        *name;              /* owned, may be NULL: a number is printed instead */
    uint32_t     number;            /* in the order values were made, as PyTorch counts */
    uint32_t     results;           /* of a node with several values, else 0 */
    tp_string   *scope;             /* counted, may be NULL: "__module.seq/__module.seq.0" */
} tp_jit_note;

/* Numbers of values and names that are taken; one for each graph under construction, or shared by those of one trace. */
typedef struct tp_jit_names {
    tp_text_map holder;             /* name -> tp_jit_note that has it now */
    tp_text_map counter;            /* stem -> last number given */
    uint32_t    next;               /* number of the next value */
} tp_jit_names;
void tp_jit_names_fini(tp_jit_names *names);

static inline tp_jit_note *tp_jit_note_of(const tp_node *n) { return (tp_jit_note *)(void *)n->type; }
static inline tp_jit_type *tp_jit_type_of(const tp_node *n) { return tp_jit_note_of(n)->type; }
static inline bool tp_jit_is(const tp_node *n, const char *prim);
TP_API const char *tp_jit_attr_text(const tp_node *n, const char *name);    /* a string attribute; NULL: absent */
/* "aten::add", "prim::Constant"; Python functions "^Name". The buffer is the caller's. */
TP_API const char *tp_jit_kind_name(const tp_node *n, char out[160]);

/* Builders; each takes the type, and gives NULL when the graph has failed or the type is NULL. */
TP_API tp_node *tp_jit_input(tp_graph *g, tp_jit_names *names, const char *name, tp_jit_type *type);
TP_API tp_node *tp_jit_call(tp_graph *g, tp_jit_names *names, const tp_op *op, const tp_value *arg, uint32_t count, tp_jit_type *type);
TP_API tp_node *tp_jit_prim(tp_graph *g, tp_jit_names *names, const char *kind, const tp_value *arg, uint32_t count,
                            uint32_t keywords, tp_jit_type *type);
TP_API tp_node *tp_jit_constant(tp_graph *g, tp_jit_names *names, tp_value v, tp_jit_type *type);  /* type NULL: from the value */
TP_API tp_node *tp_jit_result(tp_graph *g, tp_jit_names *names, tp_node *of, uint32_t index, tp_jit_type *type);
TP_API tp_node *tp_jit_get_attr(tp_graph *g, tp_jit_names *names, tp_node *self, const char *name, tp_jit_type *type);
TP_API tp_node *tp_jit_output(tp_graph *g, const tp_node *result);          /* NULL: also when there is no result */
/* Gives a value its name; the one that had it gets a number behind it. */
TP_API TP_CHECK bool tp_jit_rename(tp_jit_names *names, tp_node *n, const char *name);
TP_API TP_CHECK bool tp_jit_retype(tp_node *n, tp_jit_type *type);          /* takes */
/* PyTorch's number of an element type, which is what texts and archives have, and back; TP_DTYPE_NONE: unknown. */
TP_API int64_t tp_jit_dtype_number(int64_t dtype);
TP_API tp_dtype tp_jit_dtype_numbered(int64_t number);
/* An attribute for `keywords`: two values, owned by the caller. */
TP_API TP_CHECK bool tp_jit_attr(tp_value pair[2], const char *name, tp_value v);   /* takes v */
TP_API TP_CHECK tp_jit_type *tp_jit_type_of_value(tp_value v);              /* of a constant */

/* The text of a graph or of one node, as PyTorch prints them (print.c). */
TP_API void tp_jit_print(const tp_graph *g, tp_text *out);
TP_API void tp_jit_print_node(const tp_node *n, tp_text *out);
TP_API void tp_jit_print_number(double v, tp_text *out);                    /* "2.", "0.5", "inf" */

/* Passes (pass.c). */
TP_API TP_CHECK bool tp_jit_eliminate_dead(tp_graph *g);
TP_API TP_CHECK bool tp_jit_erase_shapes(tp_graph *g);
TP_API TP_CHECK bool tp_jit_canonicalize(tp_graph *g);                      /* numbers in order, names gone */
/* Numbers that stood in tensors' places become plain numbers, equal constants one, at the front. */
TP_API TP_CHECK bool tp_jit_pool_constants(tp_graph *g);
TP_API bool tp_jit_is_random(const tp_node *n);                             /* draws random numbers, as its constants stand */
TP_API bool tp_jit_has_effect(const tp_node *n);
/* A copy with fresh notes; map (may be NULL) has room for from->node_count. */
TP_API TP_CHECK tp_graph *tp_jit_copy(const tp_graph *from);

#include <string.h>
static inline bool tp_jit_is(const tp_node *n, const char *prim)
{
    return n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_NAME && strcmp(n->target.name, prim) == 0;
}

#endif
