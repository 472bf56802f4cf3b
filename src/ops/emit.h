/* emit.h - what generated code stands on: the words of the op language in C.
 *
 * Shape rules are written once and emitted twice, on int64_t and on tp_sym, so most functions here are twins:
 * tp_ints_X for integers, tp_syms_X for words. Lists are plain structs, those of integers written where they belong: a view takes
 * hardly longer than to return one. A list that would grow beyond TP_MAX_DIMS keeps counting without storing, and
 * tp_geometry_start refuses it.
 *
 * Failures are sticky. A function that can fail takes `bad`: on failure it sets the error of the thread (the first one
 * stays), *bad, and gives a harmless value, so that an expression of the language stays an expression in C. */
#ifndef TP_OPS_EMIT_H
#define TP_OPS_EMIT_H

#include <math.h>

#include "ops/batch.h"
#include "ops/dispatch.h"
#include "ops/hooks.h"
#include "ops/promote.h"
#include "ops/scope.h"
#include "ops/symbolic.h"
#include "ops/try.h"

typedef struct tp_ints {
    int     count;
    int64_t item[TP_MAX_DIMS];
} tp_ints;

/* ---- reading boxed arguments; none gives 0, an empty list, f32 or NULL: whether it is there is asked of the tag ---- */
static inline int64_t tp_int_read(tp_value v) { return v.tag == TP_NONE ? 0 : tp_as_int(v); }
static inline double tp_float_read(tp_value v) { return v.tag == TP_NONE ? 0 : tp_as_double(v); }
static inline const char *tp_str_read(tp_value v) { return v.tag == TP_STRING ? v.string->text : NULL; }
static inline tp_dtype tp_dtype_read(tp_value v) { return v.tag == TP_DTYPE_VALUE ? (tp_dtype)v.i : TP_f32; }
static inline tp_format tp_format_read(tp_value v) { return v.tag == TP_FORMAT_VALUE ? (tp_format)v.i : TP_FORMAT_PRESERVE; }
static inline tp_device tp_device_read(tp_value v, tp_device otherwise) { return v.tag == TP_DEVICE ? v.device : otherwise; }
void tp_ints_read(tp_ints *to, tp_value v, int want, bool *bad);
tp_syms tp_syms_read(tp_value v, int want, bool *bad);
tp_value tp_item(tp_value list, int64_t i, bool *bad);          /* borrowed */
/* Owned values for messages and calls; none when memory is short. */
tp_value tp_value_text(const char *text);
tp_value tp_value_of_ints(const tp_ints *l);
tp_value tp_value_of_syms(const tp_syms *l);
tp_value tp_value_joined_ints(const tp_ints *l, const char *between);   /* "2, 3" */
tp_value tp_value_joined_syms(const tp_syms *l, const char *between);

tp_value tp_scope_ints(tp_scope *s, const tp_ints *l);          /* owned by the scope */
tp_value tp_scope_syms(tp_scope *s, const tp_syms *l);

/* ---- numbers ---- */
static inline int64_t tp_int_place(int64_t index, int64_t n) { return index < -n || index >= n ? -1 : index < 0 ? index + n : index; }
static inline int64_t tp_int_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tp_int_max(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t tp_int_quotient(int64_t a, int64_t b, bool *bad);       /* rounds down */
int64_t tp_int_remainder(int64_t a, int64_t b, bool *bad);
bool tp_guard(tp_sym condition, bool *bad);                     /* decides, and records the guard where that is needed */
int64_t tp_sym_fixed(tp_sym x, bool *bad);                      /* specialises */
/* How often a formula repeats a step; more pieces than could be held are an error, and none are made after one. */
int64_t tp_few_checked(int64_t count, bool *bad);
static inline int64_t tp_few(int64_t count, bool *bad) { return TP_LIKELY(count <= TP_MAX_DIMS && !*bad) ? count : tp_few_checked(count, bad); }
tp_sym tp_sym_fresh(tp_sym low, tp_sym high, bool *bad);        /* a size that depends on data */
bool tp_text_same(const char *a, const char *b);                /* NULL: absent, unlike any text */
bool tp_number_equal_slow(tp_value a, tp_value b);
static inline bool tp_number_equal(tp_value a, tp_value b)
{
    return a.tag == TP_INT && b.tag == TP_INT ? a.i == b.i : tp_number_equal_slow(a, b);
}
int  tp_number_compare(tp_value a, tp_value b);                 /* of real numbers */
bool tp_number_fits(tp_value number, tp_dtype d);               /* its kind is not above that of d */
static inline bool tp_number_is_integral(tp_value v) { return v.tag == TP_BOOL || v.tag == TP_INT || v.tag == TP_SYM; }
tp_value tp_number_negated(tp_value v);                         /* of real numbers; complex ones give none */
tp_value tp_number_sum(tp_value a, tp_value b);
tp_value tp_number_difference(tp_value a, tp_value b);
tp_value tp_number_product(tp_value a, tp_value b);
tp_value tp_number_quotient(tp_value a, tp_value b);
tp_value tp_number_log(tp_value v);                             /* of real numbers */
int64_t tp_wrap(int64_t dim, int64_t ndim, bool *bad);          /* negative dims; IndexError */
/* Dims as tp_wrap gives them, in their places, and as a set; a dim twice is an error. */
uint64_t tp_wrap_all(int64_t *dim, int count, int64_t ndim, bool *bad);
tp_sym tp_sym_place(tp_sym index, tp_sym n, bool *bad);         /* built-in place */

/* ---- tensors; NULL, the value after a failure, is as good as an empty one ---- */
static inline int64_t tp_dim(const tp_tensor *t) { return t ? t->ndim : 0; }
static inline tp_dtype tp_dtype_of(const tp_tensor *t) { return t ? (tp_dtype)t->dtype : TP_f32; }
static inline tp_device tp_device_of(const tp_tensor *t) { return t ? t->device : (tp_device){ TP_CPU, -1 }; }
tp_device tp_device_of_list(tp_value tensors);
void tp_common_add_list(tp_common *c, tp_value tensors);
/* The common type of the arguments in `mask`; integers become the default float type when asked. */
tp_dtype tp_promoted(const tp_value *arg, uint32_t mask, bool to_float);

/* ---- lists of sizes ---- */
static inline void tp_ints_add(tp_ints *l, int64_t x)
{
    if (l->count < TP_MAX_DIMS)
        l->item[l->count] = x;
    l->count += l->count <= TP_MAX_DIMS;
}
static inline void tp_syms_add(tp_syms *l, tp_sym x)
{
    if (l->count < TP_MAX_DIMS)
        l->item[l->count] = x;
    l->count += l->count <= TP_MAX_DIMS;
}
void tp_ints_join(tp_ints *l, const tp_ints *more);
void tp_syms_join(tp_syms *l, const tp_syms *more);
void tp_syms_join_ints(tp_syms *l, const tp_ints *more);
tp_syms tp_syms_of(const tp_ints *l);
void tp_ints_of(tp_ints *to, const tp_syms *l, bool *bad);      /* specialises */
int64_t tp_ints_at(const tp_ints *l, int64_t i, bool *bad);     /* negative from the end */
tp_sym  tp_syms_at(const tp_syms *l, int64_t i, bool *bad);
void tp_ints_slice(tp_ints *to, const tp_ints *l, int64_t low, int64_t high);
tp_syms tp_syms_slice(const tp_syms *l, int64_t low, int64_t high);
bool tp_ints_equal(const tp_ints *a, const tp_ints *b, bool *bad);
bool tp_syms_equal(const tp_syms *a, const tp_syms *b, bool *bad);
int64_t tp_ints_product(const tp_ints *l);
tp_sym  tp_syms_product(const tp_syms *l);
void tp_ints_sizes(tp_ints *to, const tp_tensor *t);
tp_syms tp_syms_sizes(const tp_tensor *t);
void tp_ints_strides(tp_ints *to, const tp_tensor *t);
tp_syms tp_syms_strides(const tp_tensor *t);
int64_t tp_ints_size(const tp_tensor *t, int64_t dim, bool *bad);
tp_sym  tp_syms_size(const tp_tensor *t, int64_t dim, bool *bad);
int64_t tp_ints_stride(const tp_tensor *t, int64_t dim, bool *bad);
tp_sym  tp_syms_stride(const tp_tensor *t, int64_t dim, bool *bad);
static inline int64_t tp_ints_numel(const tp_tensor *t) { return t ? t->numel : 0; }
tp_sym tp_syms_numel(const tp_tensor *t);
static inline int64_t tp_ints_offset(const tp_tensor *t) { return t ? t->offset : 0; }
tp_sym tp_syms_offset(const tp_tensor *t);

/* ---- the built-ins over sizes ---- */
/* Sizes without the reduced dims, or with 1 there; no dims: all. */
void tp_ints_reduced(tp_ints *to, const tp_ints *sizes, const tp_ints *dims, bool keepdim, bool *bad);
tp_syms tp_syms_reduced(const tp_syms *sizes, const tp_ints *dims, bool keepdim, bool *bad);
void tp_ints_broadcast(tp_ints *to, const tp_ints *a, const tp_ints *b, bool *bad);
tp_syms tp_syms_broadcast(const tp_syms *a, const tp_syms *b, bool *bad);
/* One -1 becomes what is missing to `numel`. */
void tp_ints_infer(tp_ints *to, const tp_ints *sizes, int64_t numel, bool *bad);
tp_syms tp_syms_infer(const tp_syms *sizes, tp_sym numel, bool *bad);
/* The sizes of expand: -1 keeps a dim. */
void tp_ints_expanded(tp_ints *to, const tp_ints *have, const tp_ints *want, bool *bad);
tp_syms tp_syms_expanded(const tp_syms *have, const tp_syms *want, bool *bad);
/* Can t be seen with these sizes? Fills `strides` when so. */
bool tp_ints_view(tp_ints *strides, const tp_tensor *t, const tp_ints *sizes, bool *bad);
bool tp_syms_view(tp_syms *strides, const tp_tensor *t, const tp_syms *sizes, bool *bad);

/* Orders of dims. */
bool tp_ints_distinct(const tp_ints *l);
void tp_ints_sorted(tp_ints *to, const tp_ints *dims, int64_t ndim, bool *bad);   /* wrapped, rising */
void tp_ints_inverse(tp_ints *to, const tp_ints *order);
void tp_ints_moved(tp_ints *order, int64_t ndim, const tp_ints *from, const tp_ints *to, bool *bad);    /* movedim */

/* ---- results ---- */
void tp_geometry_start(tp_geometry *g, tp_dtype d, const tp_ints *sizes, tp_device device, bool *bad);     /* row-major */
void tp_geometry_like(tp_geometry *g, const tp_tensor *t);
void tp_geometry_like_list(tp_geometry *g, tp_value tensors);
void tp_geometry_order(tp_geometry *g, const tp_ints *order);   /* dims from outermost to innermost */
void tp_geometry_channels_last(tp_geometry *g);
void tp_geometry_format(tp_geometry *g, tp_value format, const tp_tensor *like, bool *bad);    /* none: preserve */
void tp_geometry_strides(tp_geometry *g, const tp_ints *strides, bool *bad);
void tp_sym_geometry_start(tp_sym_geometry *g, tp_dtype d, const tp_syms *sizes, tp_device device, bool *bad);
void tp_sym_geometry_like(tp_sym_geometry *g, const tp_tensor *t);
void tp_sym_geometry_like_list(tp_sym_geometry *g, tp_value tensors);
void tp_sym_geometry_order(tp_sym_geometry *g, const tp_ints *order);
void tp_sym_geometry_channels_last(tp_sym_geometry *g);
void tp_sym_geometry_format(tp_sym_geometry *g, tp_value format, const tp_tensor *like, bool *bad);
void tp_sym_geometry_strides(tp_sym_geometry *g, const tp_syms *strides, bool *bad);

/* ---- messages ---- */
/* Replaces each {} by a value: texts bare, dtypes by their title. Releases the values. */
void *tp_fail_with(tp_err kind, const char *text, int count, tp_value *values);
void tp_not_same(bool *bad);
enum {
    TP_ANY_HALF = 1 << TP_f16 | 1 << TP_bf16,
    TP_ANY_FLOAT = TP_ANY_HALF | 1 << TP_f32 | 1 << TP_f64,
    TP_ANY_COMPLEX = 1 << TP_c64 | 1 << TP_c128,
    TP_ANY_INTEGRAL = 1 << TP_u8 | 1 << TP_i8 | 1 << TP_i16 | 1 << TP_i32 | 1 << TP_i64,
    TP_ANY_BOOL = 1 << TP_b8,
};
static inline bool tp_dtype_among(tp_dtype d, int group) { return group >> d & 1; }
void *tp_fail_dtype(const char *name, tp_dtype d);              /* "NAME" not implemented for 'Half' */

#endif
