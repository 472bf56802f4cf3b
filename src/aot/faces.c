/* faces.c - inputs of a program as views of the inputs of its graph, when they overlap and one of them is written. */
#include "aot/facts.h"

#include "base/alloc.h"
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

/* Which face each group of overlapping inputs begins with; a group stands alone unless one of it is written. */
static bool group_inputs(const tp_value *given, uint32_t count, const tp_aot_facts *f, uint32_t *group)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        group[i] = i;
        for (uint32_t k = 0; k < i && given[i].tag == TP_TENSOR; k++)
            if (given[k].tag == TP_TENSOR && overlap(given[i].tensor, given[k].tensor)) {
                for (uint32_t m = 0, from = group[i]; m <= i; m++)      /* one more link: both groups are one */
                    if (group[m] == from)
                        group[m] = group[k];
            }
    }
    for (uint32_t i = 0; i < count; i++) {
        bool written = false, shared = false;
        for (uint32_t k = 0; k < count; k++)
            if (group[k] == group[i]) {
                written |= f->input[k].data;
                shared |= k != i;
            }
        any |= written && shared;
        if (!written || !shared)
            group[i] = i;
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
static bool list_faces(const tp_value *given, uint32_t count, const uint32_t *group, tp_aot_faces *faces)
{
    uint32_t next = 0;
    if (!(faces->item = tp_alloc_zero((count + 1) * sizeof *faces->item)))
        return false;
    faces->count = count;
    for (uint32_t i = 0; i < count; i++)
        faces->item[i].size = faces->item[i].stride = tp_none();
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < count; i++) {
            bool many = false;
            for (uint32_t k = 0; k < count; k++)
                many |= k != i && group[k] == group[i];
            if (many != (pass == 0))
                continue;
            bool first = true;
            for (uint32_t k = 0; k < i && many; k++)
                if (group[k] == group[i]) {
                    first = false;
                    if (!set_face(&faces->item[i], faces->item[k].input, given[i].tensor))
                        return false;
                    break;
                }
            if (first && !set_face(&faces->item[i], next++, many ? given[i].tensor : NULL))
                return false;
        }
    return true;
}

bool tp_aot_faces_find(const tp_value *given, uint32_t count, const tp_aot_facts *facts, tp_aot_faces *out)
{
    uint32_t *group = tp_alloc_array(count + 1, sizeof *group);
    *out = (tp_aot_faces){ 0 };
    bool ok = group && (!group_inputs(given, count, facts, group) || list_faces(given, count, group, out));
    tp_free(group);
    if (!ok)
        tp_aot_faces_fini(out);
    return ok;
}
