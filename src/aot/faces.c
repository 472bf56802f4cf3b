/* faces.c - inputs of a program as views of the inputs of its graph. */
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
