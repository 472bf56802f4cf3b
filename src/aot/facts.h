/* facts.h - what a program does to its inputs and what its outputs are, learnt by running it once on fake tensors.
 *
 *     def f(a, b):              input 0: data written; input 1: as it was
 *         a.mul_(2)             output 0: the input 0 itself
 *         c = a * b             output 1: fresh
 *         return a, c, c.t()    output 2: a view of output 1, by aten.t
 *
 * A program is flat: values in, values out; what is no tensor (and no symbol) among them belongs to the caller and goes
 * through untouched. The facts say which kind of graph to trace, what it returns beside the outputs, and what the run-time
 * wrapper does around it.
 *
 * Owners: facts own their arrays, constants and recipes; fake tensors in them are counted. A program is borrowed.
 * Fails: what the program fails with, and writes that no graph could have (tp_aot_analyse says which). */
#ifndef TP_AOT_FACTS_H
#define TP_AOT_FACTS_H

#include "grad/tape.h"
#include "trace/functional.h"

typedef struct tp_aot_program {
    void *context;              /* borrowed */
    /* `in` is borrowed; *out is a list owned by the caller. Values of no tensor in `in` may be anything. */
    bool (*call)(void *context, const tp_value *in, uint32_t count, tp_list **out);
} tp_aot_program;

/* ---- how a view was made (recipe.c) ---- */
typedef struct tp_recipe tp_recipe;

/* The views that lead from one wrapper to another; NULL with *none set when there is no such way by plain values. */
TP_CHECK tp_recipe *tp_recipe_between(const tp_tensor *base, const tp_tensor *view, bool *none);
void tp_recipe_free(tp_recipe *r);                                  /* NULL is fine */
/* The same views of another base, through the dispatcher; counted. */
TP_CHECK tp_tensor *tp_recipe_follow(const tp_recipe *r, tp_tensor *base);

/* ---- inputs ---- */

/* An input as the program sees it. Tensors that overlap and of which one is written are views of one input of the graph. */
typedef struct tp_aot_face {
    uint32_t input;             /* of the graph */
    bool     view;              /* of it, by these: */
    tp_value size, stride;      /* owned lists */
    int64_t  offset;
    bool     metadata;          /* a view that is given other sizes or strides: the graph returns it behind the outputs */
} tp_aot_face;

typedef struct tp_aot_faces {
    tp_aot_face *item;          /* owned, may be NULL: each input is a face of its own */
    uint32_t count;
} tp_aot_faces;
TP_API void tp_aot_faces_fini(tp_aot_faces *f);
/* What the program gets for the inputs of the graph: owned values; through the dispatcher. */
TP_CHECK bool tp_aot_faces_show(const tp_aot_faces *f, const tp_value *in, tp_value *out);

typedef struct tp_aot_input {
    bool tensor;
    bool requires_grad, leaf;   /* as the caller gives it */
    bool data, metadata, storage;   /* what is written: elements; sizes, strides or offset; the memory itself (set_) */
    bool hidden, no_grad;       /* of `data`: all writes hidden from autograd; all of them hidden or under no_grad */
    bool requires_grad_after;
    bool in_graph;              /* the graph writes it itself, at its end */
    bool returned;              /* the graph returns what it becomes, and the wrapper writes it */
} tp_aot_input;

/* ---- outputs ---- */
typedef enum tp_aot_kind {
    TP_AOT_CONSTANT,            /* no tensor: the same in every call */
    TP_AOT_FRESH,               /* what the graph returns */
    TP_AOT_INPUT,               /* the face `base` itself */
    TP_AOT_OF_INPUT,            /* a view of the face `base` */
    TP_AOT_OF_OUTPUT,           /* a view of the output `base` */
    TP_AOT_OF_BASE,             /* a view of the `base`-th intermediate that the graph returns for this */
} tp_aot_kind;

typedef struct tp_aot_output {
    uint8_t  kind;              /* tp_aot_kind */
    bool     requires_grad;
    bool     symbol;            /* a size: an integer at run time */
    bool     of_many;           /* FRESH, but one of the several views that one call made of face `base` */
    uint32_t base;
    tp_recipe *recipe;          /* owned, may be NULL: then by sizes and strides */
    tp_value constant;          /* owned, of CONSTANT */
} tp_aot_output;

typedef struct tp_aot_facts {
    tp_aot_faces   faces;       /* owned */
    tp_aot_input  *input;       /* owned: of the graph */
    tp_aot_output *output;      /* owned */
    uint32_t input_count, output_count;
    uint32_t moved_count;       /* faces returned behind the outputs for their new sizes */
    uint32_t base_count;        /* intermediates returned behind those */
    uint32_t returned_count;    /* inputs returned before them */
    /* What needs a gradient from outside, in the order of the graph's results: their place there, and a fake of the form
     * the gradient has. */
    uint32_t tangent_count;
    uint32_t *tangent;          /* owned: index among the results */
    tp_tensor **tangent_like;   /* owned, each counted */
    bool training;              /* a joint graph is wanted */
} tp_aot_facts;

typedef struct tp_aot_options {
    bool keep_mutations;        /* writes that autograd need not see stay in the graph */
} tp_aot_options;

/* How many values the forward graph returns before what it saves. */
static inline uint32_t tp_aot_result_count(const tp_aot_facts *f)
{
    return f->returned_count + f->output_count + f->moved_count + f->base_count;
}

/* `in`: fakes of the graph's inputs, or values that are no tensors; `given` the caller's own, which says what is a leaf. Takes
 * `faces`, also when it fails. Runs under the thread's grad mode; a fake mode should be on. */
TP_API TP_CHECK bool tp_aot_analyse(const tp_aot_program *p, tp_aot_faces faces, const tp_value *in, const tp_value *given, uint32_t count,
                                    const tp_aot_options *options, tp_aot_facts *out);
TP_API void tp_aot_facts_fini(tp_aot_facts *f);                     /* a zeroed struct is fine */

/* Faces for inputs that overlap, of which the facts say that one is written: bases of such groups are the first inputs of the
 * graph, the others follow in order. *out is empty when there are none. */
TP_API TP_CHECK bool tp_aot_faces_find(const tp_value *given, uint32_t count, const tp_aot_facts *facts, tp_aot_faces *out);

/* ---- between the files of this folder ---- */
/* Gives a wrapper some history, so that it is no leaf. */
TP_CHECK bool tp_aot_stand_in(tp_tensor *t);
/* wrapper.c: all that the storage of a tensor holds, in a row; counted. */
TP_API TP_CHECK tp_tensor *tp_aot_whole_memory(const tp_tensor *t);
/* wrapper.c: what the faces of one input look into; counted. */
TP_API TP_CHECK tp_tensor *tp_aot_common_base(const tp_aot_faces *f, uint32_t input, const tp_value *face);
/* The tensor that autograd says `t` is a view of; NULL: none. Borrowed. */
static inline tp_tensor *tp_aot_view_base(const tp_tensor *t)
{
    return t->autograd ? t->autograd->view_base : NULL;
}

#endif
