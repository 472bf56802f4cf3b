/* value.h - a boxed argument or result: 16 bytes that hold anything an op can take or give.
 *
 * Small things stand inside, others behind a counted pointer. A tp_value is plain data: copying the struct borrows, and
 * tp_value_ref makes it an owner. Arguments of a call are borrowed by it; results are owned by the caller. */
#ifndef TP_OPS_VALUE_H
#define TP_OPS_VALUE_H

#include "base/text.h"
#include "tensor/tensor.h"

typedef enum tp_tag {
    TP_NONE,
    TP_BOOL, TP_INT, TP_SYM, TP_FLOAT, TP_COMPLEX,
    TP_TENSOR,
    TP_DTYPE_VALUE, TP_DEVICE, TP_LAYOUT, TP_FORMAT_VALUE,
    TP_STRING,
    TP_LIST, TP_TUPLE, TP_DICT, TP_SLICE,
    TP_NODE, TP_GENERATOR, TP_HANDLE,
} tp_tag;

/* Any Python object, seen from below through callbacks. The struct is embedded in what python/ allocates. */
typedef struct tp_handle {
    tp_count refs;
    const struct tp_handle_type *type;
    void *object;
} tp_handle;

typedef struct tp_handle_type {
    void (*free)(tp_handle *h);
    bool (*equal)(const tp_handle *a, const tp_handle *b);
    uint64_t (*hash)(const tp_handle *h);
    bool (*repr)(const tp_handle *h, tp_text *out);
    bool (*name)(const tp_handle *h, tp_text *out);     /* __name__; NULL: never a target of a node */
    /* Calls it: the result is owned, a list of what the function gave, flat. NULL: no function. */
    bool (*call)(tp_handle *h, const struct tp_value *arg, uint32_t count, struct tp_value *out);
    bool brief;                 /* lives on the stack of the call that it is an argument of: not to be kept */
    bool probes;                /* wants one call with typical arguments, whatever the data says: it is being traced */
} tp_handle_type;

typedef struct tp_string {
    tp_count refs;
    uint32_t length;
    char     text[];            /* terminated */
} tp_string;

typedef struct tp_value {
    uint8_t tag;                /* tp_tag */
    uint32_t mark;              /* of a number, while jit.trace records: the traced value it was read from, 0: none */
    union {
        bool     b;
        int64_t  i;             /* INT, DTYPE_VALUE, LAYOUT, FORMAT_VALUE */
        uint64_t sym;           /* SYM: a tp_sym word of sym/, counted by its environment */
        double   f;
        tp_c128 *complex;       /* inside a counted cell; see tp_value_complex */
        tp_tensor *tensor;
        tp_device  device;
        tp_string *string;
        struct tp_list *list;   /* LIST, TUPLE; DICT: keys and values alternate; SLICE: three items */
        struct tp_generator *generator;
        tp_handle *handle;
        void      *node;
    };
} tp_value;

/* A counted list. A list on the stack of the caller has a negative count: taking a reference copies it to the heap. */
typedef struct tp_list {
    tp_count refs;
    uint32_t count;
    tp_value item[];
} tp_list;

enum { TP_STACK_LIST = -1000000 };

/* ---- boxing ---- */
static inline tp_value tp_none(void) { return (tp_value){ .tag = TP_NONE, .i = 0 }; }
static inline tp_value tp_bool(bool b) { return (tp_value){ .tag = TP_BOOL, .i = b }; }
static inline tp_value tp_int(int64_t i) { return (tp_value){ .tag = TP_INT, .i = i }; }
static inline tp_value tp_float(double f) { return (tp_value){ .tag = TP_FLOAT, .f = f }; }
static inline tp_value tp_of_dtype(tp_dtype d) { return (tp_value){ .tag = TP_DTYPE_VALUE, .i = d }; }
static inline tp_value tp_of_device(tp_device d) { return (tp_value){ .tag = TP_DEVICE, .device = d }; }
static inline tp_value tp_of_format(tp_format f) { return (tp_value){ .tag = TP_FORMAT_VALUE, .i = f }; }
/* Borrows `t`; NULL becomes none. */
static inline tp_value tp_of_tensor(const tp_tensor *t)
{
    return t ? (tp_value){ .tag = TP_TENSOR, .tensor = (tp_tensor *)t } : tp_none();
}
/* These own what they make; a failed allocation gives none with the error set. */
TP_API TP_CHECK tp_value tp_value_complex(double re, double im);
TP_API TP_CHECK tp_value tp_value_string(const char *text, size_t length);
TP_API TP_CHECK tp_value tp_value_ints(const int64_t *item, size_t count);      /* a list of TP_INT */
TP_API TP_CHECK tp_value tp_value_scalar(tp_scalar s);
TP_API TP_CHECK tp_value tp_value_tensors(tp_tensor *const *item, size_t count);    /* a list; refs each; NULL: none */
TP_API TP_CHECK tp_list *tp_list_new(size_t count);                             /* items are none */
static inline tp_value tp_of_list(tp_list *l) { return (tp_value){ .tag = TP_LIST, .list = l }; }

/* ---- owners ---- */
TP_API tp_value tp_value_ref(tp_value v);       /* none with the error set when a stack list cannot be copied */
TP_API void tp_value_unref_slow(tp_value v);
static inline void tp_value_unref(tp_value v)
{
    if (v.tag == TP_TENSOR)
        tp_tensor_unref(v.tensor);
    else if (v.tag == TP_COMPLEX || v.tag >= TP_STRING)
        tp_value_unref_slow(v);
}
TP_API void tp_values_unref(tp_value *v, size_t count);

/* ---- reading; the tag was checked by the schema ---- */
static inline bool tp_is_none(tp_value v) { return v.tag == TP_NONE; }
static inline bool tp_is_number(tp_value v) { return v.tag >= TP_BOOL && v.tag <= TP_COMPLEX; }
static inline tp_tensor *tp_as_tensor(tp_value v) { return v.tag == TP_TENSOR ? v.tensor : NULL; }   /* NULL for none */
static inline uint32_t tp_length(tp_value v) { return v.tag == TP_LIST || v.tag == TP_TUPLE ? v.list->count : 0; }
TP_API tp_scalar tp_as_scalar(tp_value v);          /* of a number (not SYM) */
TP_API double    tp_as_double(tp_value v);
TP_API int64_t   tp_as_int(tp_value v);             /* of BOOL or INT; a SYM is guarded to be its hint: who reads it keeps the number */
TP_API int64_t   tp_hint_of(tp_value v);            /* the same for checks alone, which keep nothing: no guard */
TP_API bool      tp_as_bool(tp_value v);
/* Reads a list of integers; a single integer is broadcast to `want` items when want > 0. Gives the count, -1: an error. */
TP_API int tp_as_ints(tp_value v, int64_t *out, int room, int want);
TP_API int tp_hints_of(tp_value v, int64_t *out, int room, int want);      /* the same by tp_hint_of */
TP_API bool tp_value_equal(tp_value a, tp_value b); /* the same value; tensors by identity */
TP_API uint64_t tp_value_hash(tp_value v);
TP_API void tp_value_print(tp_value v, tp_text *out);   /* as Python's repr would show it in graph text */

#endif
