/* faces.c - inputs of a program as views of the inputs of its graph, when they overlap and one of them is written. */
#include "aot/facts.h"

#include "base/alloc.h"
#include "base/map.h"
#include "gen/ops.h"

void tp_aot_faces_fini(tp_aot_faces *f)
{
    for (uint32_t i = 0; f->item && i < f->count; i++) {
        tp_value_unref(f->item[i].size);
        tp_value_unref(f->item[i].stride);
    }
    tp_free(f->item);
    *f = (tp_aot_faces){ 0 };
}

static bool show(const tp_aot_face *f, tp_value in, tp_value *out)
{
    if (!f->view) {
        *out = tp_value_ref(in);
        return out->tag == in.tag;
    }
    tp_value arg[4] = { in, f->size, f->stride, tp_int(f->offset) };
    return tp_call(&tp_op_as_strided, arg, out);
}

bool tp_aot_faces_show(const tp_aot_faces *f, const tp_value *in, tp_value *out)
{
    for (uint32_t i = 0; i < f->count; i++) {
        bool ok = f->item ? show(&f->item[i], in[f->item[i].input], &out[i]) : show(&(tp_aot_face){ 0 }, in[i], &out[i]);
        if (!ok) {
            tp_values_unref(out, i);
            for (uint32_t k = 0; k < f->count; k++)
                out[k] = tp_none();
            return false;
        }
    }
    return true;
}

/* ---- inputs that overlap ---- */
static bool overlap(const tp_tensor *a, const tp_tensor *b)
{
    if (a->storage != b->storage || !tp_tensor_overlaps(a, b))
        return false;
    bool rows = a->ndim == 2 && b->ndim == 2 && a->stride[1] == 1 && b->stride[1] == 1 && a->stride[0] == b->stride[0] && a->stride[0] > 0;
    if (!rows || a->dtype != b->dtype)
        return true;
    /* Columns of one table: their windows in a row may be apart though the rows interleave. */
    int64_t row = a->stride[0], from = ((b->offset - a->offset) % row + row) % row;
    return from < a->size[1] || from + b->size[1] > row;
}

/* One input among those it overlaps. Only inputs of one storage are compared: a model has thousands that share nothing. */
typedef struct kin {
    uint32_t before;            /* the input before it in the same storage; NONE: it is the first */
    uint32_t first;             /* of its group: the lowest of those that overlap, also through others */
    uint32_t members;           /* of the group, where the group begins */
    bool     written;           /* one of them is; where the group begins */
} kin;
enum { NONE = UINT32_MAX };

static bool chain_storages(const tp_value *given, uint32_t count, kin *of)
{
    tp_map last = { 0 };
    bool ok = true;
    for (uint32_t i = 0; ok && i < count; i++) {
        uint64_t before = NONE, key = given[i].tag == TP_TENSOR ? (uintptr_t)given[i].tensor->storage : 0;
        if (key)
            (void)tp_map_get(&last, key, &before);
        of[i] = (kin){ .before = (uint32_t)before, .first = i };
        ok = !key || tp_map_put(&last, key, i);
    }
    tp_map_fini(&last);
    return ok;
}

/* `i` and `k` overlap: their groups are one. All that either has is in the chain that ends at `i`. */
static void unite(kin *of, uint32_t i, uint32_t k)
{
    uint32_t a = of[i].first, b = of[k].first, first = a < b ? a : b;
    for (uint32_t m = i; a != b && m != NONE; m = of[m].before)
        if (of[m].first == a || of[m].first == b)
            of[m].first = first;
}

/* Groups of inputs that overlap; each stands alone unless one of its group is written. False: all stand alone. */
static bool group_inputs(const tp_value *given, uint32_t count, const tp_aot_facts *f, kin *of)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = of[i].before; k != NONE; k = of[k].before)
            if (overlap(given[i].tensor, given[k].tensor))
                unite(of, i, k);
    for (uint32_t i = 0; i < count; i++) {
        of[of[i].first].members++;
        of[of[i].first].written |= f->input[i].data;
    }
    for (uint32_t i = count; i-- > 0;) {
        const kin *group = &of[of[i].first];
        if (group->written && group->members > 1)
            any = true;
        else
            of[i].first = i, of[i].members = 1;
    }
    return any;
}

static bool set_face(tp_aot_face *f, uint32_t input, const tp_tensor *t)
{
    *f = (tp_aot_face){ .input = input, .view = t, .size = tp_none(), .stride = tp_none() };
    if (!t)
        return true;
    f->size = tp_value_ints(t->size, t->ndim);
    f->stride = tp_value_ints(t->stride, t->ndim);
    f->offset = t->offset;
    return f->size.tag == TP_LIST && f->stride.tag == TP_LIST;
}

/* Inputs of the graph: a base for each group, then the others in order. */
static bool list_faces(const tp_value *given, uint32_t count, const kin *of, tp_aot_faces *faces)
{
    uint32_t next = 0;
    if (!(faces->item = tp_alloc_zero((count + 1) * sizeof *faces->item)))
        return false;
    faces->count = count;
    for (uint32_t i = 0; i < count; i++)
        faces->item[i].size = faces->item[i].stride = tp_none();
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < count; i++) {
            bool many = of[of[i].first].members > 1;
            if (many != (pass == 0))
                continue;
            uint32_t input = of[i].first == i ? next++ : faces->item[of[i].first].input;
            if (!set_face(&faces->item[i], input, many ? given[i].tensor : NULL))
                return false;
        }
    return true;
}

bool tp_aot_faces_find(const tp_value *given, uint32_t count, const tp_aot_facts *facts, tp_aot_faces *out)
{
    kin *of = tp_alloc_array(count + 1, sizeof *of);
    *out = (tp_aot_faces){ 0 };
    bool ok = of && chain_storages(given, count, of) && (!group_inputs(given, count, facts, of) || list_faces(given, count, of, out));
    tp_free(of);
    if (!ok)
        tp_aot_faces_fini(out);
    return ok;
}
