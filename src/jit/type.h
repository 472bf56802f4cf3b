/* type.h - the types of values in jit graphs: what a graph's text says after the colon.
 *
 *     Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)    Tensor    int[]    Dict(str, Tensor)    (Tensor, int)
 *
 * A type is counted and never changes once made. Types without parts are constants of the program: counting them does
 * nothing, so they are free. Functions called `new` give NULL when there is no memory; those that take types take their
 * counts, also when they fail, and give NULL when they are handed NULL. */
#ifndef TP_JIT_TYPE_H
#define TP_JIT_TYPE_H

#include "ops/op.h"

typedef enum tp_jit_kind {
    TP_JIT_NONE, TP_JIT_INT, TP_JIT_FLOAT, TP_JIT_BOOL, TP_JIT_COMPLEX, TP_JIT_NUMBER, TP_JIT_STR, TP_JIT_DEVICE,
    TP_JIT_GENERATOR, TP_JIT_FUNCTION, TP_JIT_ANY, TP_JIT_ANY_TENSOR,   /* up to here: no parts */
    TP_JIT_TENSOR,                  /* dtype and device known, perhaps sizes */
    TP_JIT_LIST, TP_JIT_OPTIONAL, TP_JIT_TUPLE, TP_JIT_DICT,
    TP_JIT_CLASS,                   /* of a module: its qualified name */
} tp_jit_kind;

typedef struct tp_jit_type {
    tp_count refs;
    uint8_t  kind;                  /* tp_jit_kind */
    uint8_t  dtype, ndim;           /* of a tensor */
    int8_t   requires_grad;         /* -1: not said */
    tp_device device;
    uint32_t count;                 /* parts of a list, optional (1), dict (2) or tuple; words of a tensor's sizes and strides */
    char    *name;                  /* owned, of a class */
    union tp_jit_part {
        struct tp_jit_type *type;   /* counted */
        int64_t dim;                /* sizes, then strides */
    } *part;                        /* stands right behind the struct */
} tp_jit_type;

TP_API tp_jit_type *tp_jit_simple(tp_jit_kind kind);                        /* never NULL */
TP_API tp_jit_type *tp_jit_type_ref(tp_jit_type *t);                        /* NULL is fine */
TP_API void tp_jit_type_unref(tp_jit_type *t);
TP_API TP_CHECK tp_jit_type *tp_jit_tensor_new(const tp_tensor *t);         /* everything that is known of it */
TP_API TP_CHECK tp_jit_type *tp_jit_scalar_tensor_new(tp_dtype d, int requires_grad);   /* Long(), of a wrapped number */
TP_API TP_CHECK tp_jit_type *tp_jit_list_new(tp_jit_type *item);            /* takes */
TP_API TP_CHECK tp_jit_type *tp_jit_optional_new(tp_jit_type *item);        /* takes */
TP_API TP_CHECK tp_jit_type *tp_jit_dict_new(tp_jit_type *key, tp_jit_type *value);     /* takes both */
TP_API TP_CHECK tp_jit_type *tp_jit_tuple_new(tp_jit_type *const *item, uint32_t count);    /* counts the items */
TP_API TP_CHECK tp_jit_type *tp_jit_class_new(const char *name);
/* The type of an argument or result as a schema says it. */
TP_API TP_CHECK tp_jit_type *tp_jit_type_of_arg(const tp_arg *a);
/* The same without sizes, dtypes and devices: each tensor is `Tensor`. */
TP_API TP_CHECK tp_jit_type *tp_jit_type_erase(tp_jit_type *t);
/* The narrowest type of both: equal ones stay, tensors become `Tensor`; NULL without an error: there is none. */
TP_API tp_jit_type *tp_jit_type_unify(tp_jit_type *a, tp_jit_type *b);
TP_API bool tp_jit_type_equal(const tp_jit_type *a, const tp_jit_type *b);
TP_API void tp_jit_type_print(const tp_jit_type *t, tp_text *out);          /* as graphs say it: "int[]" */
TP_API void tp_jit_type_print_python(const tp_jit_type *t, tp_text *out);   /* as annotations and messages do: "List[int]" */
static inline bool tp_jit_is_tensor(const tp_jit_type *t) { return t->kind == TP_JIT_TENSOR || t->kind == TP_JIT_ANY_TENSOR; }

#endif
