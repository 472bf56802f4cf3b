/* tensor_test.c - strides, views and storages against PyTorch's; the two owners of a wrapped tensor. */
#include "base/alloc.h"
#include "base/test.h"
#include "tensor/tensor.h"

static bool same(int count, const int64_t *a, const int64_t *b)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

/* ---- strides ---- */

TP_TEST(strides_row_major_and_channels_last)
{
    static const struct { int ndim; int64_t size[5], row[5], last[5]; } row[] = {
        { 4, { 2, 3, 4, 5 }, { 60, 20, 5, 1 }, { 60, 1, 15, 3 } },
        { 4, { 2, 0, 4, 5 }, { 20, 20, 5, 1 }, { 20, 1, 5, 1 } },
        { 4, { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 1, 1, 1 } },
        { 5, { 2, 3, 4, 5, 2 }, { 120, 40, 10, 2, 1 }, { 120, 1, 30, 6, 3 } },
    };
    int64_t got[5], zero[3] = { 0, INT64_MAX, 7 }, wide[2] = { INT64_MAX, 2 };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        tp_strides_row_major(row[r].ndim, row[r].size, got);
        TP_EXPECT(same(row[r].ndim, got, row[r].row));
        tp_strides_channels_last(row[r].ndim, row[r].size, got);
        TP_EXPECT(same(row[r].ndim, got, row[r].last));
    }
    TP_EXPECT(tp_sizes_numel(0, NULL) == 1);
    TP_EXPECT(tp_sizes_numel(3, zero) == 0);
    TP_EXPECT(tp_sizes_numel(2, wide) == -1);
}

/* What empty_like, is_contiguous and is_non_overlapping_and_dense say of (size, stride). */
TP_TEST(layouts_are_recognised_and_kept)
{
    static const struct { int ndim; int64_t size[5], stride[5], like[5]; bool row_major, last, dense; } row[] = {
        { 4, { 2, 3, 4, 5 }, { 60, 1, 15, 3 }, { 60, 1, 15, 3 }, false, true, true },
        { 4, { 1, 3, 4, 5 }, { 60, 1, 15, 3 }, { 60, 1, 15, 3 }, false, true, true },
        { 4, { 1, 3, 4, 5 }, { 999, 1, 15, 3 }, { 999, 1, 15, 3 }, false, true, true },
        { 4, { 2, 1, 4, 5 }, { 20, 20, 5, 1 }, { 20, 20, 5, 1 }, true, true, true },
        { 4, { 2, 1, 4, 5 }, { 20, 1, 5, 1 }, { 20, 1, 5, 1 }, true, true, true },
        { 4, { 2, 3, 1, 1 }, { 3, 1, 3, 3 }, { 3, 1, 3, 3 }, true, true, true },
        { 4, { 2, 3, 1, 1 }, { 3, 1, 1, 1 }, { 3, 1, 1, 1 }, true, true, true },
        { 4, { 2, 3, 1, 4 }, { 12, 1, 12, 3 }, { 12, 1, 12, 3 }, false, true, true },
        { 3, { 2, 3, 4 }, { 1, 2, 6 }, { 1, 2, 6 }, false, false, true },
        { 3, { 2, 3, 4 }, { 12, 1, 3 }, { 12, 1, 3 }, false, false, true },
        { 3, { 2, 1, 3 }, { 3, 7, 1 }, { 3, 7, 1 }, true, false, true },
        { 3, { 3, 1, 2 }, { 1, 1, 3 }, { 1, 1, 3 }, false, false, true },
        { 2, { 2, 3 }, { 6, 2 }, { 3, 1 }, false, false, false },
        { 2, { 2, 3 }, { 0, 1 }, { 3, 1 }, false, false, false },
        { 2, { 3, 0 }, { 1, 3 }, { 1, 3 }, true, false, true },
        { 5, { 2, 3, 4, 5, 2 }, { 120, 1, 30, 6, 3 }, { 120, 1, 30, 6, 3 }, false, true, true },
    };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        int64_t like[5];
        tp_tensor *t = tp_tensor_new_on((tp_device){ TP_META, -1 }, TP_f32, row[r].ndim, row[r].size, row[r].stride);
        TP_NEED(t);
        TP_EXPECT(tp_tensor_is_contiguous(t) == row[r].row_major);
        TP_EXPECT(tp_tensor_has_format(t, row[r].ndim == 5 ? TP_FORMAT_CHANNELS_LAST_3D : TP_FORMAT_CHANNELS_LAST) == row[r].last);
        TP_EXPECT(tp_tensor_is_dense(t) == row[r].dense);
        tp_strides_like(t, t->ndim, t->size, like);
        TP_EXPECT(same(t->ndim, like, row[r].like));
        tp_tensor_unref(t);
    }
out:;
}

TP_TEST(strides_like_keeps_the_order_for_other_sizes)
{
    static const int64_t size[3] = { 2, 3, 4 }, stride[3] = { 1, 2, 6 }, other[3] = { 5, 6, 7 }, want[3] = { 1, 5, 30 };
    int64_t got[3];
    tp_tensor *t = tp_tensor_new_on((tp_device){ TP_META, -1 }, TP_f32, 3, size, stride);
    TP_NEED(t);
    tp_strides_like(t, 3, other, got);
    TP_EXPECT(same(3, got, want));
    tp_strides_like(t, 2, other, got);
    TP_EXPECT(got[0] == 6 && got[1] == 1);
out:
    tp_tensor_unref(t);
}

TP_TEST(view_strides_are_torchs)
{
    static const struct { int ndim; int64_t size[3], stride[3]; int want_ndim; int64_t want[3]; bool yes; int64_t out[3]; } row[] = {
        { 2, { 2, 3 }, { 3, 1 }, 1, { 6 }, true, { 1 } },
        { 2, { 2, 3 }, { 1, 2 }, 1, { 6 }, false, { 0 } },
        { 2, { 2, 3 }, { 1, 2 }, 3, { 2, 3, 1 }, true, { 1, 2, 2 } },
        { 3, { 2, 3, 4 }, { 12, 4, 1 }, 2, { 6, 4 }, true, { 4, 1 } },
        { 3, { 2, 3, 4 }, { 24, 4, 1 }, 2, { 2, 12 }, true, { 24, 1 } },
        { 3, { 2, 3, 4 }, { 24, 4, 1 }, 2, { 6, 4 }, false, { 0 } },
        { 1, { 4 }, { 2 }, 2, { 2, 2 }, true, { 4, 2 } },
        { 3, { 2, 1, 3 }, { 3, 99, 1 }, 2, { 2, 3 }, true, { 3, 1 } },
        { 3, { 2, 1, 3 }, { 3, 99, 1 }, 1, { 6 }, true, { 1 } },
        { 2, { 0, 3 }, { 3, 1 }, 2, { 3, 0 }, true, { 1, 1 } },
        { 2, { 0, 3 }, { 9, 9 }, 2, { 0, 3 }, true, { 9, 9 } },
        { 1, { 1 }, { 7 }, 2, { 1, 1 }, true, { 7, 7 } },
        { 0, { 0 }, { 0 }, 2, { 1, 1 }, true, { 1, 1 } },
        { 1, { 6 }, { 0 }, 2, { 2, 3 }, true, { 0, 0 } },
        { 2, { 1, 1 }, { 5, 7 }, 0, { 0 }, true, { 0 } },
        { 2, { 2, 2 }, { 1, 1 }, 1, { 4 }, false, { 0 } },
        { 2, { 3, 1 }, { 1, 1 }, 2, { 1, 3 }, true, { 3, 1 } },
        { 2, { 4, 3 }, { 3, 1 }, 3, { 2, 2, 3 }, true, { 6, 3, 1 } },
        { 3, { 2, 4, 1 }, { 4, 1, 4 }, 2, { 1, 8 }, true, { 8, 1 } },
        { 2, { 1, 6 }, { 100, 2 }, 3, { 2, 1, 3 }, true, { 6, 6, 2 } },
    };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        int64_t got[3] = { 0 };
        bool yes = tp_strides_view(row[r].ndim, row[r].size, row[r].stride, row[r].want_ndim, row[r].want, got);
        TP_EXPECT(yes == row[r].yes);
        if (yes && !same(row[r].want_ndim, got, row[r].out)) {
            TP_EXPECT(!"strides of the view");
            printf("# row %zu: %lld %lld %lld\n", r, LL(got[0]), LL(got[1]), LL(got[2]));
        }
    }
}

/* ---- tensors ---- */

TP_TEST(errors_of_making)
{
    static const int64_t negative[2] = { 2, -3 }, huge[2] = { INT64_MAX, 4 }, wide[1] = { INT64_MAX / 2 }, one[1] = { 4 }, step[1] = { 2 };
    int64_t many[TP_MAX_DIMS + 1];
    tp_tensor *base = NULL;
    for (size_t i = 0; i < TP_COUNT(many); i++)
        many[i] = 1;
    TP_EXPECT(!tp_tensor_new(TP_f32, 2, negative));
    TP_EXPECT_TEXT(tp_error_text(), "Trying to create tensor with negative dimension -3");
    TP_EXPECT(!tp_tensor_new(TP_f32, 2, huge) && tp_error_kind() == TP_ERR_RUNTIME);
    TP_EXPECT(!tp_tensor_new(TP_f32, 1, wide) && tp_error_kind() == TP_ERR_RUNTIME);
    TP_EXPECT(!tp_tensor_new(TP_f32, TP_MAX_DIMS + 1, many) && tp_error_kind() == TP_ERR_RUNTIME);
    tp_error_clear();
    TP_NEED(base = tp_tensor_new(TP_f32, 1, one));
    TP_EXPECT(!tp_tensor_view(base, 1, one, step, 0));
    TP_EXPECT(!tp_tensor_view(base, 1, step, one, -1));
    TP_EXPECT(!tp_tensor_view(base, 0, NULL, NULL, INT64_MAX / 2));
    TP_EXPECT(tp_error_kind() == TP_ERR_RUNTIME);
out:
    tp_tensor_unref(base);
}

TP_TEST(geometry_beyond_the_inline_dims)
{
    static const int64_t eight[8] = { 1, 2, 1, 3, 1, 2, 1, 1 }, two[2] = { 3, 4 }, turned[2] = { 1, 3 };
    tp_tensor *t = tp_tensor_new(TP_f32, 8, eight), *other = tp_tensor_new(TP_f64, 2, two);
    TP_NEED(t && other);
    TP_EXPECT(t->size != t->dims && t->numel == 12 && t->stride[1] == 6 && tp_tensor_is_contiguous(t));
    TP_NEED(tp_tensor_set_geometry(t, 2, two, turned, 0));
    TP_EXPECT(t->size == t->dims && t->stride == t->dims + TP_INLINE_DIMS && !tp_tensor_is_contiguous(t) && t->stride[1] == 3);
    bool wide = tp_tensor_set_geometry(t, 8, eight, NULL, 0);
    if (!wide)                                                      /* a failed change leaves the tensor as it was */
        TP_EXPECT(t->ndim == 2 && t->size == t->dims && t->size[1] == 4 && t->stride[1] == 3);
    TP_NEED(wide);
    TP_EXPECT(t->ndim == 8 && t->size != t->dims && t->size[3] == 3);
    TP_NEED(tp_tensor_set_geometry(t, 8, t->size, t->stride, 0));   /* from its own arrays */
    TP_EXPECT(t->ndim == 8 && t->size[3] == 3 && t->stride[1] == 6);

    TP_NEED(tp_tensor_swap(t, other));
    TP_EXPECT(t->ndim == 2 && t->size == t->dims && t->dtype == TP_f64 && t->size[1] == 4 && t->stride[0] == 4);
    TP_EXPECT(other->ndim == 8 && other->size != other->dims && other->dtype == TP_f32 && other->stride[1] == 6);
out:
    tp_tensor_unref(t);
    tp_tensor_unref(other);
}

TP_TEST(resizing)
{
    static const int64_t small[1] = { 3 }, large[2] = { 10, 10 }, negative[1] = { -1 }, none[1] = { 0 };
    tp_tensor *t = tp_tensor_new(TP_f32, 1, small);
    TP_NEED(t);
    memcpy(tp_tensor_data(t), (float[]){ 1, 2, 3 }, 12);
    bool grown = tp_tensor_resize(t, 2, large);
    TP_EXPECT(memcmp(tp_tensor_data(t), (float[]){ 1, 2, 3 }, 12) == 0);
    TP_NEED(grown);
    TP_EXPECT(t->numel == 100 && t->storage->bytes == 400 && t->stride[0] == 10 && (uintptr_t)t->storage->data % 64 == 0);
    TP_NEED(tp_tensor_resize(t, 1, small));
    TP_EXPECT(t->numel == 3 && t->storage->bytes == 400);           /* a smaller tensor keeps its memory */
    TP_EXPECT(!tp_tensor_resize(t, 1, negative));
    TP_NEED(tp_tensor_resize(t, 1, none));
    TP_EXPECT(t->numel == 0);
out:
    tp_tensor_unref(t);
}

TP_TEST(overlap_and_place)
{
    static const int64_t ten[1] = { 10 }, four[1] = { 4 }, step[1] = { 1 }, wide[1] = { 3 }, none[1] = { 0 };
    tp_tensor *t = tp_tensor_new(TP_f32, 1, ten), *a = NULL, *b = NULL, *c = NULL, *d = NULL, *other = NULL;
    TP_NEED(t && (a = tp_tensor_view(t, 1, four, step, 0)) && (b = tp_tensor_view(t, 1, four, step, 4)) &&
            (c = tp_tensor_view(t, 1, four, wide, 0)) && (d = tp_tensor_view(t, 1, none, step, 2)) &&
            (other = tp_tensor_new(TP_f32, 1, ten)));
    TP_EXPECT(!tp_tensor_overlaps(a, b) && tp_tensor_overlaps(a, t) && tp_tensor_overlaps(c, b));
    TP_EXPECT(!tp_tensor_overlaps(a, d) && !tp_tensor_overlaps(t, other));
    TP_EXPECT(tp_tensor_same_place(a, a) && !tp_tensor_same_place(a, b) && !tp_tensor_same_place(a, c) && !tp_tensor_same_place(a, t));
    TP_EXPECT(tp_tensor_is_contiguous(a) && !tp_tensor_is_contiguous(c));
out:
    tp_tensor_unref(other);
    tp_tensor_unref(d);
    tp_tensor_unref(c);
    tp_tensor_unref(b);
    tp_tensor_unref(a);
    tp_tensor_unref(t);
}

/* A view in another type: its sizes count its own elements. */
TP_TEST(views_of_another_type_stay_inside)
{
    tp_geometry g = { .dtype = TP_f16, .ndim = 1, .size = { 8 }, .stride = { 1 } };
    tp_tensor *t = tp_tensor_new(TP_f32, 1, (int64_t[]){ 4 }), *half = NULL, *wide = NULL;
    TP_NEED(t && (half = tp_tensor_view_as(t, &g)));
    TP_EXPECT(half->dtype == TP_f16 && half->numel == 8 && half->storage == t->storage);
    g.size[0] = 9;
    TP_EXPECT(!tp_tensor_view_as(t, &g));
    g = (tp_geometry){ .dtype = TP_f64, .ndim = 1, .size = { 1 }, .stride = { 1 }, .offset = 1 };
    TP_NEED(wide = tp_tensor_view_as(t, &g));
    TP_EXPECT((char *)tp_tensor_data(wide) == (char *)tp_tensor_data(t) + 8);
    g.offset = 2;
    TP_EXPECT(!tp_tensor_view_as(t, &g));
out:
    tp_tensor_unref(wide);
    tp_tensor_unref(half);
    tp_tensor_unref(t);
}

/* ---- storages ---- */

static void count_release(void *owner)
{
    ++*(int *)owner;
}

TP_TEST(storages_keep_what_fits)
{
    static const size_t sizes[] = { 64, 65, 4096, 70000, 300000, 100, 64, 0, 8 };
    tp_storage *s = tp_storage_new(8), *bare = tp_storage_new_none(100);
    TP_NEED(s && bare);
    memcpy(s->data, "abcdefg", 8);
    for (size_t i = 0; i < TP_COUNT(sizes); i++) {
        bool ok = tp_storage_resize(s, sizes[i]);
        if (sizes[i] && i < 7)
            TP_EXPECT(memcmp(s->data, "abcdefg", 8) == 0);
        TP_NEED(ok);
        TP_EXPECT(s->bytes == sizes[i] && (s->data == NULL) == (sizes[i] == 0));
        TP_EXPECT(s->kind == (sizes[i] <= TP_SMALL_BYTES ? TP_MEMORY_SMALL : TP_MEMORY_BLOCK));
    }
    TP_NEED(tp_storage_resize(bare, 1 << 20));
    TP_EXPECT(bare->bytes == 1 << 20 && !bare->data);
    tp_storage_bump(s);
    TP_EXPECT(atomic_load(&s->version) == 1);
out:
    tp_storage_unref(bare);
    tp_storage_unref(s);
}

TP_TEST(foreign_memory_is_released_once)
{
    static float data[100];
    static const int64_t size[1] = { 100 }, more[1] = { 200 };
    int released = 0;
    tp_storage *s = tp_storage_take_foreign(data, sizeof data, &released, count_release);
    tp_tensor *t = s ? tp_tensor_take_storage(s, TP_f32, 1, size, NULL, 0) : NULL;
    if (!t) {
        if (released != 1)
            abort();                    /* taken though the call failed: checked inside the sweep too */
        return;
    }
    TP_EXPECT(released == 0 && tp_tensor_data(t) == data);
    TP_EXPECT(!tp_tensor_resize(t, 1, more));
    TP_EXPECT_TEXT(tp_error_text(), "Trying to resize storage that is not resizable");
    tp_error_clear();
    tp_tensor_unref(t);
    TP_EXPECT(released == 1);

    /* Memory of a mapped file may be exchanged for our own: its owner goes then, and only then. */
    if (!(s = tp_storage_take_foreign(data, sizeof data, &released, count_release)))
        return;
    s->kind = TP_MEMORY_MAPPED;
    s->resizable = true;
    bool ok = tp_storage_resize(s, 16);
    TP_EXPECT(released == 2);
    ok = ok && tp_storage_resize(s, 1000);
    tp_storage_unref(s);
    TP_EXPECT(ok && released == 2);
}

/* ---- two owners ---- */

static struct { int held, dropped; bool gil; } owner;       /* what the hooks below saw */

static void hold(tp_tensor *t) { owner.held += t->wrapper != NULL; }
static void drop(tp_tensor *t) { owner.dropped += t->wrapper != NULL; }
static bool may_touch(void) { return owner.gil; }

TP_TEST(a_wrapped_tensor_holds_its_wrapper_while_shared)
{
    int object;
    tp_wrapper_hooks before = tp_the_runtime.python;
    tp_the_runtime.python = (tp_wrapper_hooks){ .hold = hold, .drop = drop, .may_touch = may_touch };
    memset(&owner, 0, sizeof owner);
    owner.gil = true;
    tp_tensor *t = tp_tensor_new(TP_f32, 0, NULL);
    TP_NEED(t);
    tp_tensor_unref(tp_tensor_ref(t));
    TP_EXPECT(owner.held == 0 && owner.dropped == 0);       /* no wrapper, no steps */
    t->wrapper = &object;
    tp_tensor_ref(t);
    TP_EXPECT(owner.held == 1 && owner.dropped == 0);       /* 1 -> 2 */
    tp_tensor_ref(t);
    tp_tensor_unref(t);
    TP_EXPECT(owner.held == 1 && owner.dropped == 0);       /* 2 -> 3 -> 2 */
    tp_tensor_unref(t);
    TP_EXPECT(owner.held == 1 && owner.dropped == 1);       /* 2 -> 1 */
    tp_tensor_unref(tp_tensor_ref(t));
    TP_EXPECT(owner.held == 2 && owner.dropped == 2);

    tp_tensor_ref(t);
    tp_tensor_ref(t);
    owner.gil = false;                                      /* a thread without the GIL */
    tp_tensor_unref(t);
    TP_EXPECT(atomic_load(&tp_the_runtime.orphans) == NULL);        /* 3 -> 2 needs none */
    tp_tensor_unref(t);
    TP_EXPECT(owner.dropped == 2 && atomic_load(&t->refs) == 2 && atomic_load(&tp_the_runtime.orphans) != NULL);
    owner.gil = true;
    tp_tensor_adopt_orphans();
    TP_EXPECT(owner.dropped == 3 && atomic_load(&t->refs) == 1 && atomic_load(&tp_the_runtime.orphans) == NULL);
    t->wrapper = NULL;                                      /* the object dies: the last count is a plain one */
out:
    tp_tensor_unref(t);
    tp_the_runtime.python = before;
}

TP_TEST(device_names)
{
    char out[16];
    TP_EXPECT_TEXT(tp_device_name((tp_device){ TP_CPU, -1 }, out), "cpu");
    TP_EXPECT_TEXT(tp_device_name((tp_device){ TP_CUDA, 0 }, out), "cuda:0");
    TP_EXPECT_TEXT(tp_device_name((tp_device){ TP_XPU, 17 }, out), "xpu:17");
}

TP_TESTS(TP_SWEPT(strides_row_major_and_channels_last), TP_SWEPT(layouts_are_recognised_and_kept),
         TP_SWEPT(strides_like_keeps_the_order_for_other_sizes), TP_SWEPT(view_strides_are_torchs), TP_SWEPT(errors_of_making),
         TP_SWEPT(geometry_beyond_the_inline_dims), TP_SWEPT(resizing), TP_SWEPT(overlap_and_place), TP_SWEPT(views_of_another_type_stay_inside),
         TP_SWEPT(storages_keep_what_fits), TP_SWEPT(foreign_memory_is_released_once),
         TP_SWEPT(a_wrapped_tensor_holds_its_wrapper_while_shared), TP_SWEPT(device_names))
