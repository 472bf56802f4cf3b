/* tensor.h - a view of a storage: element type, sizes, strides, offset.
 *
 * Open struct: reading is free, writing belongs to tensor.c (and, for the fields named there, to grad/ and python/).
 * Always: sizes are >= 0, numel is their product, strides and offset count elements; while `symbolic` is set the integer
 * sizes and strides are the hints of the symbolic ones.
 *
 * Two owners: a tensor that has a Python object (`wrapper`) is owned once by it. While the count is above one the tensor
 * also holds a reference to that object, so that identity, subclass and attributes survive as long as C keeps the tensor.
 * The two steps 1 -> 2 and 2 -> 1 are made by the hooks of the runtime, under the GIL; a thread without it puts a last
 * reference on the runtime's list of orphans instead. */
#ifndef TP_TENSOR_TENSOR_H
#define TP_TENSOR_TENSOR_H

#include "base/runtime.h"
#include "tensor/dtype.h"
#include "tensor/storage.h"

enum { TP_INLINE_DIMS = 5, TP_MAX_DIMS = 64 };

typedef enum tp_device_type { TP_CPU, TP_META, TP_CUDA, TP_MPS, TP_XPU, TP_DEVICE_TYPES } tp_device_type;
typedef struct tp_device {
    int8_t type;                /* tp_device_type; everything but CPU and META exists on fake tensors only */
    int8_t index;               /* -1: none given */
} tp_device;

typedef enum tp_format {        /* torch.memory_format */
    TP_FORMAT_CONTIGUOUS, TP_FORMAT_PRESERVE, TP_FORMAT_CHANNELS_LAST, TP_FORMAT_CHANNELS_LAST_3D
} tp_format;

/* `keys`: the layers of the dispatcher this tensor concerns (bits of ops/dispatch.h), and facts about it. */
enum {
    TP_KEY_INFERENCE = 1u << 16,        /* made in inference mode: no version, no gradient, ever */
    TP_KEY_SYMBOLIC = 1u << 17,         /* some size or stride is an expression */
    TP_KEY_CONTIGUOUS = 1u << 18,       /* row-major without gaps; kept by tensor.c */
    TP_KEY_NUMBER = 1u << 19,           /* a 0-d tensor that stands for a Python number: promotes as one */
    TP_KEY_CONJ = 1u << 20,             /* its elements are the conjugates of what stands in memory, ... */
    TP_KEY_NEG = 1u << 21,              /* ... the negatives; then it concerns the layer of signs, which ops/signs.h tells of */
    TP_KEY_ASKS_SIZES = 1u << 22,       /* its Python class answers when the program asks for its sizes, ... */
    TP_KEY_ASKS_STRIDES = 1u << 23,
    TP_KEY_ASKS_DEVICE = 1u << 24,
    TP_KEY_ASKS_LAYOUT = 1u << 25,
};

typedef struct tp_tensor {
    tp_count    refs;
    uint8_t     dtype;          /* tp_dtype */
    uint8_t     ndim;
    tp_device   device;
    uint32_t    keys;
    tp_storage *storage;        /* counted, never NULL */
    int64_t     offset;
    int64_t     numel;
    int64_t    *size, *stride;  /* owned: point into `dims`, or to the heap beyond TP_INLINE_DIMS */
    struct tp_autograd *autograd;   /* owned, may be NULL; grad/ looks inside */
    struct tp_symbolic *symbolic;   /* owned, may be NULL: sym/ expressions of sizes, strides and offset */
    void       *wrapper;        /* the Python object, may be NULL; see above */
    void       *extra;          /* owned by the layer that wrapped the tensor (trace/), may be NULL; first field frees it */
    int64_t     dims[2 * TP_INLINE_DIMS];
} tp_tensor;

/* What stands behind `autograd`, `symbolic` and `extra` begins with how to free it, and how an alias gets its own. */
typedef struct tp_attached {
    void (*free)(void *self);
    void *(*copy)(const void *self);    /* owned by the caller, NULL: no memory. May be NULL: an alias goes without */
} tp_attached;

/* Layers whose key an alias has from its base: fake, tracer, transforms (bits of ops/dispatch.h, which checks them); and what
 * every view has from it. */
enum { TP_KEYS_OF_ALIAS = 1u << 2 | 1u << 3 | 1u << 8, TP_KEYS_OF_SIGNS = 1u << 1 | TP_KEY_CONJ | TP_KEY_NEG };

/* Where a result stands: its type, sizes and layout. Filled by shape rules, used to make the tensor. */
typedef struct tp_geometry {
    uint8_t dtype, ndim;
    bool    unknown;            /* sizes depend on data: the kernel makes the tensor */
    bool    absent;             /* not asked for by this call: the result is none */
    tp_device device;
    int64_t offset;             /* views only */
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
} tp_geometry;

/* ---- making ---- */
TP_API TP_CHECK tp_tensor *tp_tensor_new(tp_dtype d, int ndim, const int64_t *size);    /* row-major, CPU, undefined contents */
TP_API TP_CHECK tp_tensor *tp_tensor_new_on(tp_device device, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride);
TP_API TP_CHECK tp_tensor *tp_tensor_new_as(const tp_geometry *g);
/* Of the type and sizes of a row-major CPU tensor: nothing is computed twice. Contents undefined. */
TP_API TP_CHECK tp_tensor *tp_tensor_new_alike(const tp_tensor *x);
TP_API TP_CHECK tp_tensor *tp_tensor_new_scalar(tp_dtype d, tp_scalar value);           /* 0-d */
/* Shares the storage of `base`. Checks that it stays inside the storage. */
TP_API TP_CHECK tp_tensor *tp_tensor_view(const tp_tensor *base, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
TP_API TP_CHECK tp_tensor *tp_tensor_view_as(const tp_tensor *base, const tp_geometry *g);     /* in the type of the geometry */
TP_API TP_CHECK tp_tensor *tp_tensor_alias(const tp_tensor *base);      /* same geometry, same storage, expressions and extra; no gradient data */
TP_API TP_CHECK tp_tensor *tp_tensor_take_storage(tp_storage *s, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);

/* ---- owners ---- */
TP_API void tp_tensor_hold_wrapper(tp_tensor *t);   /* slow halves of ref and unref */
TP_API void tp_tensor_release(tp_tensor *t);
TP_API void tp_tensor_free(tp_tensor *t);           /* the count has reached zero */
TP_API void tp_tensor_adopt_orphans(void);          /* by a thread with the GIL: finish what others dropped */

static inline tp_tensor *tp_tensor_ref(const tp_tensor *borrowed)
{
    tp_tensor *t = (tp_tensor *)borrowed;
    if (TP_UNLIKELY(t->wrapper != NULL))
        tp_tensor_hold_wrapper(t);
    else
        tp_count_up(&t->refs);
    return t;
}

static inline void tp_tensor_unref(tp_tensor *t)
{
    if (!t)
        return;
    if (TP_UNLIKELY(t->wrapper != NULL))
        tp_tensor_release(t);
    else if (tp_count_down(&t->refs))
        tp_tensor_free(t);
}

/* ---- changing what a tensor sees (set_, resize_, .data =, lazy parameters) ---- */
TP_API TP_CHECK bool tp_tensor_set_geometry(tp_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset);
TP_API void tp_tensor_set_storage(tp_tensor *t, tp_storage *counted);   /* takes the count */
TP_API TP_CHECK bool tp_tensor_swap(tp_tensor *a, tp_tensor *b);        /* everything but owners, wrapper and autograd */
TP_API TP_CHECK bool tp_tensor_resize(tp_tensor *t, int ndim, const int64_t *size);     /* row-major, unless it has the sizes; grows the storage */

/* ---- asking ---- */
static inline void *tp_tensor_data(const tp_tensor *t)
{
    return (char *)t->storage->data + t->offset * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
}
static inline uint32_t tp_signs(const tp_tensor *t) { return t->keys & (TP_KEY_CONJ | TP_KEY_NEG); }
void tp_set_signs(tp_tensor *t, uint32_t signs);
TP_API tp_scalar tp_tensor_element(const tp_tensor *t, const void *element);      /* one of its elements, found in its memory */
static inline bool tp_tensor_is_contiguous(const tp_tensor *t) { return t->keys & TP_KEY_CONTIGUOUS; }
TP_API bool tp_tensor_is_channels_last(const tp_tensor *t);             /* would a result like it be NHWC (NDHWC)? gaps allowed */
TP_API bool tp_tensor_has_format(const tp_tensor *t, tp_format format); /* is_contiguous(memory_format): no gaps, in that order */
TP_API bool tp_tensor_is_dense(const tp_tensor *t);                     /* no gaps, no overlap, any order of dims */
TP_API bool tp_tensor_overlaps(const tp_tensor *a, const tp_tensor *b); /* may some byte belong to both? exact for dense ones */
TP_API bool tp_tensor_same_place(const tp_tensor *a, const tp_tensor *b);   /* the same elements in the same order */
TP_API const char *tp_device_name(tp_device d, char out[16]);           /* "cpu", "cuda:0" */

/* ---- strides ---- */
TP_API int64_t tp_sizes_numel(int ndim, const int64_t *size);           /* -1: overflow */
TP_API void tp_strides_row_major(int ndim, const int64_t *size, int64_t *stride);
TP_API void tp_strides_channels_last(int ndim, const int64_t *size, int64_t *stride);
/* The strides of a fresh result that keeps the order of x's dims (dense permuted or channels_last kept, else row-major). */
TP_API void tp_strides_like(const tp_tensor *x, int ndim, const int64_t *size, int64_t *stride);
/* The order in memory, innermost first, in which operands of one shape have these dims: of two dims the first operand decides that
 * can tell them apart. A stride of 0 tells nothing; of equal strides a larger size stands outside. */
TP_API void tp_strides_order(int ndim, const int64_t *size, int count, const int64_t *const *stride, int *order);
/* Can (size, stride) be seen as `want` without copying? Fills `out` when so. */
TP_API bool tp_strides_view(int ndim, const int64_t *size, const int64_t *stride, int want_ndim, const int64_t *want, int64_t *out);

#endif
