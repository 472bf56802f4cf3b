/* tensor.c - making, owning and asking tensors. Strides have a file of their own. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum { FREE_SLOT = 0, MOST_FREE = 4096 };

/* ---- the struct itself ---- */
static tp_tensor *fresh(void)
{
    tp_thread *self = &tp_self;
    tp_tensor *t = self->free_list[FREE_SLOT];
    if (t && atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) < 0) {
        self->free_list[FREE_SLOT] = *(void **)t;
        self->free_count[FREE_SLOT]--;
        tp_count_allocation(1);
        return t;
    }
    return tp_alloc(sizeof *t);
}

static void recycle(tp_tensor *t)
{
    tp_thread *self = &tp_self;
    if (TP_WATCHED || self->free_count[FREE_SLOT] >= MOST_FREE) {
        tp_free(t);
        return;
    }
    tp_thread_note_end();
    *(void **)t = self->free_list[FREE_SLOT];
    self->free_list[FREE_SLOT] = t;
    self->free_count[FREE_SLOT]++;
    tp_count_allocation(-1);
}

static bool is_row_major(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t expected = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (size[i] == 0)
            return true;
        if (size[i] != 1 && stride[i] != expected)
            return false;
        expected = (int64_t)((uint64_t)expected * (uint64_t)size[i]);      /* may wrap: views may have any strides */
    }
    return true;
}

/* Fills sizes, strides, numel and the facts that follow from them. `stride` NULL: row-major. */
static bool set_dims(tp_tensor *t, int ndim, const int64_t *size, const int64_t *stride)
{
    if (ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "tensors have at most %d dimensions, got %d", TP_MAX_DIMS, ndim);
    if ((t->numel = tp_sizes_numel(ndim, size)) < 0)
        return tp_fail(TP_ERR_RUNTIME, "numel: integer multiplication overflow");
    t->size = t->dims;
    if (ndim > TP_INLINE_DIMS && !(t->size = tp_alloc_array((size_t)ndim * 2, sizeof *t->size)))
        return false;
    t->stride = t->size + (ndim > TP_INLINE_DIMS ? ndim : TP_INLINE_DIMS);
    t->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++)
        t->size[i] = size[i];
    t->keys &= ~(uint32_t)TP_KEY_CONTIGUOUS;
    if (!stride) {
        tp_strides_row_major(ndim, t->size, t->stride);
        t->keys |= TP_KEY_CONTIGUOUS;
    } else {
        for (int i = 0; i < ndim; i++)
            t->stride[i] = stride[i];
        if (is_row_major(ndim, size, stride))
            t->keys |= TP_KEY_CONTIGUOUS;
    }
    return true;
}

static void drop_dims(tp_tensor *t)
{
    if (t->size != t->dims)
        tp_free(t->size);
}

tp_tensor *tp_tensor_take_storage(tp_storage *s, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    tp_tensor *t = s ? fresh() : NULL;
    if (!t) {
        tp_storage_unref(s);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = (uint8_t)d;
    t->device = (tp_device){ TP_CPU, -1 };
    t->keys = tp_self.inference_mode ? TP_KEY_INFERENCE : 0;
    t->storage = s;
    t->offset = offset;
    t->autograd = NULL;
    t->symbolic = NULL;
    t->wrapper = NULL;
    t->extra = NULL;
    if (!set_dims(t, ndim, size, stride)) {
        tp_storage_unref(s);
        recycle(t);
        return NULL;
    }
    return t;
}

/* ---- making ---- */

/* Bytes that (size, stride) reach from offset 0. SIZE_MAX: overflow, or a stride that leads before it. */
static size_t span(tp_dtype d, int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t last = 0, step, bytes;
    for (int i = 0; i < ndim; i++) {
        if (size[i] == 0)
            return 0;
        if ((stride[i] < 0 && size[i] > 1) || __builtin_mul_overflow(size[i] - 1, stride[i], &step) || __builtin_add_overflow(last, step, &last))
            return SIZE_MAX;
    }
    if (__builtin_mul_overflow(last + 1, (int64_t)tp_dtype_bytes(d), &bytes))
        return SIZE_MAX;
    return (size_t)bytes;
}

tp_tensor *tp_tensor_new_on(tp_device device, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride)
{
    for (int i = 0; i < ndim; i++)
        if (size[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "Trying to create tensor with negative dimension %lld", LL(size[i]));
    int64_t row_major[TP_MAX_DIMS];
    if (ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "tensors have at most %d dimensions, got %d", TP_MAX_DIMS, ndim);
    if (tp_sizes_numel(ndim, size) < 0)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed with sizes whose product exceeds 64 bits");
    if (!stride)
        tp_strides_row_major(ndim, size, row_major);
    size_t bytes = span(d, ndim, size, stride ? stride : row_major);
    if (bytes == SIZE_MAX)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed");
    tp_storage *s = device.type == TP_CPU ? tp_storage_new(bytes) : tp_storage_new_none(bytes);
    tp_tensor *t = tp_tensor_take_storage(s, d, ndim, size, stride, 0);
    if (t)
        t->device = device;
    return t;
}

tp_tensor *tp_tensor_new(tp_dtype d, int ndim, const int64_t *size)
{
    return tp_tensor_new_on((tp_device){ TP_CPU, -1 }, d, ndim, size, NULL);
}

tp_tensor *tp_tensor_new_alike(const tp_tensor *x)
{
    if (x->ndim > TP_INLINE_DIMS)
        return tp_tensor_new((tp_dtype)x->dtype, x->ndim, x->size);
    tp_storage *s = tp_storage_new((size_t)x->numel * tp_dtype_bytes((tp_dtype)x->dtype));
    tp_tensor *t = s ? fresh() : NULL;
    if (!t) {
        tp_storage_unref(s);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = x->dtype;
    t->ndim = x->ndim;
    t->device = (tp_device){ TP_CPU, -1 };
    t->keys = TP_KEY_CONTIGUOUS | (tp_self.inference_mode ? TP_KEY_INFERENCE : 0);
    t->storage = s;
    t->offset = 0;
    t->numel = x->numel;
    t->size = t->dims;
    t->stride = t->dims + TP_INLINE_DIMS;
    tp_strides_row_major(x->ndim, x->size, t->stride);
    for (int i = 0; i < x->ndim; i++)
        t->size[i] = x->size[i];
    t->autograd = NULL;
    t->symbolic = NULL;
    t->wrapper = NULL;
    t->extra = NULL;
    return t;
}

tp_tensor *tp_tensor_new_as(const tp_geometry *g)
{
    return tp_tensor_new_on(g->device, (tp_dtype)g->dtype, g->ndim, g->size, g->stride);
}

tp_tensor *tp_tensor_new_scalar(tp_dtype d, tp_scalar value)
{
    tp_tensor *t = tp_tensor_new(d, 0, NULL);
    if (t)
        tp_scalar_write(value, tp_tensor_data(t), d);
    return t;
}

/* PyTorch's words for a view that looks beyond its storage. */
static void *fail_bounds(const tp_tensor *base, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset, size_t end)
{
    tp_text sizes = { 0 }, strides = { 0 };
    for (int i = 0; i < ndim; i++) {
        tp_text_add(&sizes, i ? ", %lld" : "%lld", LL(size[i]));
        tp_text_add(&strides, i ? ", %lld" : "%lld", LL(stride[i]));
    }
    tp_fail(TP_ERR_RUNTIME, "setStorage: sizes [%s], strides [%s], storage offset %lld, and itemsize %zu requiring a storage size of %zu are "
            "out of bounds for storage of size %zu", tp_text_read(&sizes), tp_text_read(&strides), LL(offset),
            tp_dtype_bytes(d), end, base->storage->bytes);
    tp_text_fini(&sizes);
    tp_text_fini(&strides);
    return NULL;
}

/* The storage of base seen as elements of a type; sizes, strides and offset count these. */
static tp_tensor *view_of_type(const tp_tensor *base, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    if (offset < 0)
        return tp_fail(TP_ERR_RUNTIME, "Tensor: invalid storage offset %lld", LL(offset));
    size_t reach = span(d, ndim, size, stride), start, end = 0;
    bool fits = reach != SIZE_MAX && !__builtin_mul_overflow((size_t)offset, tp_dtype_bytes(d), &start) &&
                !__builtin_add_overflow(start, reach, &end) && (!reach || end <= base->storage->bytes);
    if (!fits)
        return fail_bounds(base, d, ndim, size, stride, offset, end);
    tp_tensor *t = tp_tensor_take_storage(tp_storage_ref(base->storage), d, ndim, size, stride, offset);
    if (t) {
        t->device = base->device;
        t->keys = (t->keys & TP_KEY_CONTIGUOUS) | (base->keys & (TP_KEY_INFERENCE | TP_KEYS_OF_SIGNS));
    }
    return t;
}

tp_tensor *tp_tensor_view(const tp_tensor *base, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    return view_of_type(base, (tp_dtype)base->dtype, ndim, size, stride, offset);
}

tp_tensor *tp_tensor_view_as(const tp_tensor *base, const tp_geometry *g)
{
    return view_of_type(base, (tp_dtype)g->dtype, g->ndim, g->size, g->stride, g->offset);
}

void tp_set_signs(tp_tensor *t, uint32_t signs)
{
    t->keys = (t->keys & ~(uint32_t)TP_KEYS_OF_SIGNS) | (signs ? TP_KEYS_OF_SIGNS & ~(uint32_t)(TP_KEY_CONJ | TP_KEY_NEG) : 0) | signs;
}

tp_scalar tp_tensor_element(const tp_tensor *t, const void *element)
{
    tp_scalar s = tp_scalar_read(element, (tp_dtype)t->dtype);
    return TP_LIKELY(!tp_signs(t)) ? s : tp_scalar_signed(s, t->keys & TP_KEY_CONJ, t->keys & TP_KEY_NEG);
}

/* False: no memory. */
static bool copy_attached(void *from, void *to)
{
    const tp_attached *a = from;
    if (!a || !a->copy)
        return true;
    void *made = a->copy(a);
    memcpy(to, &made, sizeof made);
    return made != NULL;
}

tp_tensor *tp_tensor_alias(const tp_tensor *base)
{
    tp_tensor *t = tp_tensor_view(base, base->ndim, base->size, base->stride, base->offset);
    if (TP_LIKELY(!t || !((base->keys & (TP_KEYS_OF_ALIAS | TP_KEY_SYMBOLIC)) || base->extra)))
        return t;
    t->keys |= base->keys & (TP_KEYS_OF_ALIAS | TP_KEY_SYMBOLIC);
    if (copy_attached(base->symbolic, &t->symbolic) && copy_attached(base->extra, &t->extra))
        return t;
    tp_tensor_unref(t);
    return NULL;
}

/* ---- owners ---- */
void tp_tensor_hold_wrapper(tp_tensor *t)
{
    if (atomic_fetch_add_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        tp_the_runtime.python.hold(t);
}

/* An orphan waits on the list with its last reference; `extra` of a wrapped tensor is not ours to reuse, so the links are
 * cells of their own. If no cell can be had the reference leaks: better than a wrapper touched without the GIL. */
typedef struct orphan {
    struct orphan *next;
    tp_tensor *tensor;
} orphan;

static void leave_orphan(tp_tensor *t)
{
    orphan *cell = malloc(sizeof *cell);
    if (!cell)
        return;
    cell->tensor = t;
    void *head = atomic_load(&tp_the_runtime.orphans);
    do
        cell->next = head;
    while (!atomic_compare_exchange_weak(&tp_the_runtime.orphans, &head, cell));
}

void tp_tensor_adopt_orphans(void)
{
    orphan *cell = atomic_exchange(&tp_the_runtime.orphans, NULL);
    for (orphan *next; cell; cell = next) {
        next = cell->next;
        tp_tensor_unref(cell->tensor);
        free(cell);
    }
}

void tp_tensor_release(tp_tensor *t)
{
    int seen = atomic_load_explicit(&t->refs, memory_order_acquire);
    while (seen > 2)
        if (atomic_compare_exchange_weak_explicit(&t->refs, &seen, seen - 1, memory_order_acq_rel, memory_order_acquire))
            return;
    if (!tp_the_runtime.python.may_touch()) {
        leave_orphan(t);
        return;
    }
    if (atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 2)
        tp_the_runtime.python.drop(t);
}

static void drop_attached(void *attached)
{
    if (attached)
        ((tp_attached *)attached)->free(attached);
}

void tp_tensor_free(tp_tensor *t)
{
    drop_attached(t->autograd);
    drop_attached(t->symbolic);
    drop_attached(t->extra);
    tp_storage_unref(t->storage);
    drop_dims(t);
    recycle(t);
}

/* ---- changing ---- */
bool tp_tensor_set_geometry(tp_tensor *t, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    tp_tensor old = *t;
    bool was_inline = t->size == t->dims;
    if (!set_dims(t, ndim, size, stride)) {
        *t = old;
        if (was_inline) {
            t->size = t->dims;
            t->stride = t->dims + TP_INLINE_DIMS;
        }
        return false;
    }
    if (!was_inline)
        tp_free(old.size);
    t->offset = offset;
    return true;
}

void tp_tensor_set_storage(tp_tensor *t, tp_storage *counted)
{
    tp_storage_unref(t->storage);
    t->storage = counted;
}

/* Sizes live inside the structs, so inline pointers are mended after the exchange. */
static void mend_dims(tp_tensor *t, bool is_inline)
{
    if (is_inline) {
        t->size = t->dims;
        t->stride = t->dims + TP_INLINE_DIMS;
    }
}

bool tp_tensor_swap(tp_tensor *a, tp_tensor *b)
{
    bool a_inline = a->size == a->dims, b_inline = b->size == b->dims;
    tp_tensor x = *a, y = *b;
    *a = y;
    *b = x;
    atomic_init(&a->refs, atomic_load(&x.refs));
    atomic_init(&b->refs, atomic_load(&y.refs));
    a->wrapper = x.wrapper;
    b->wrapper = y.wrapper;
    a->autograd = x.autograd;
    b->autograd = y.autograd;
    mend_dims(a, b_inline);
    mend_dims(b, a_inline);
    return true;
}

bool tp_tensor_resize(tp_tensor *t, int ndim, const int64_t *size)
{
    if (t->ndim == ndim && (!ndim || memcmp(t->size, size, (size_t)ndim * sizeof *size) == 0))
        return true;
    for (int i = 0; i < ndim; i++)
        if (size[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "numel: integer multiplication overflow");
    int64_t row_major[TP_MAX_DIMS];
    if (ndim > TP_MAX_DIMS || tp_sizes_numel(ndim, size) < 0)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed");
    tp_strides_row_major(ndim, size, row_major);
    size_t reach = span((tp_dtype)t->dtype, ndim, size, row_major);
    size_t needed = reach ? reach + (size_t)t->offset * tp_dtype_bytes((tp_dtype)t->dtype) : 0;
    if (reach == SIZE_MAX)
        return tp_fail(TP_ERR_RUNTIME, "Storage size calculation overflowed");
    if (needed > t->storage->bytes && !tp_storage_resize(t->storage, needed))
        return false;
    return tp_tensor_set_geometry(t, ndim, size, NULL, t->offset);
}

/* ---- asking ---- */
/* From the innermost: channel, then space backwards, then batch; strides may not fall. A tensor that is row-major as well
 * (one channel, or one pixel) counts as row-major: its channel stride is not below that of the batch. */
bool tp_tensor_is_channels_last(const tp_tensor *t)
{
    if (t->ndim != 4 && t->ndim != 5)
        return false;
    int64_t least = 0;
    for (int i = 0; i < t->ndim; i++) {
        int d = i == 0 ? 1 : i == t->ndim - 1 ? 0 : t->ndim - i;
        if (t->size[d] == 0 || t->stride[d] < least || (d == 0 && least == t->stride[1]))
            return false;
        least = t->stride[d];
        if (t->size[d] > 1)
            least *= t->size[d];
    }
    return true;
}

bool tp_tensor_has_format(const tp_tensor *t, tp_format format)
{
    int64_t wanted[TP_MAX_DIMS];
    if (format == TP_FORMAT_CONTIGUOUS || format == TP_FORMAT_PRESERVE)
        return tp_tensor_is_contiguous(t);
    if (t->ndim != (format == TP_FORMAT_CHANNELS_LAST ? 4 : 5))
        return false;
    tp_strides_channels_last(t->ndim, t->size, wanted);
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] != 1 && t->stride[i] != wanted[i])
            return false;
    return true;
}

bool tp_tensor_is_dense(const tp_tensor *t)
{
    if (tp_tensor_is_contiguous(t))
        return true;
    int order[TP_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) {
        int j = i;
        for (; j > 0 && t->stride[order[j - 1]] > t->stride[i]; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    int64_t expected = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->size[order[i]] == 1)
            continue;
        if (t->stride[order[i]] != expected)
            return false;
        expected *= t->size[order[i]];
    }
    return true;
}

bool tp_tensor_same_place(const tp_tensor *a, const tp_tensor *b)
{
    if (a->storage != b->storage || a->offset != b->offset || a->ndim != b->ndim || a->dtype != b->dtype)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i] || (a->size[i] != 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

bool tp_tensor_overlaps(const tp_tensor *a, const tp_tensor *b)
{
    if (a->storage != b->storage || !a->numel || !b->numel)
        return false;
    size_t as = tp_dtype_bytes((tp_dtype)a->dtype), bs = tp_dtype_bytes((tp_dtype)b->dtype);
    size_t a0 = (size_t)a->offset * as, a1 = a0 + span((tp_dtype)a->dtype, a->ndim, a->size, a->stride);
    size_t b0 = (size_t)b->offset * bs, b1 = b0 + span((tp_dtype)b->dtype, b->ndim, b->size, b->stride);
    return a0 < b1 && b0 < a1;
}

const char *tp_device_name(tp_device d, char out[16])
{
    static const char *const name[TP_DEVICE_TYPES] = { "cpu", "meta", "cuda", "mps", "xpu" };
    size_t n = strlen(name[d.type]);
    memcpy(out, name[d.type], n + 1);
    if (d.index >= 0 && d.index < 100) {
        out[n++] = ':';
        if (d.index >= 10)
            out[n++] = (char)('0' + d.index / 10);
        out[n++] = (char)('0' + d.index % 10);
        out[n] = 0;
    }
    return out;
}
