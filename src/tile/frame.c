/* frame.c - registers of a tile program: where they live, how they are filled, run and stored. */
#include "tile/frame.h"

#include <string.h>

/* Registers share slots when their lives do not meet. An operand's slot may become the result's: steps work in place. */
static void assign_slots(tp_frame *f)
{
    const tp_tile_program *p = f->program;
    int fixed = p->input_count + p->scalar_count;
    uint8_t last_use[TP_TILE_REGISTERS] = { 0 }, free_slot[TP_TILE_REGISTERS];
    int free_count = 0;
    for (int i = 0; i < p->step_count; i++) {
        const tp_tile_step *s = &p->step[i];
        int operands = tp_tile_operands(s->prim);
        last_use[s->a] = (uint8_t)i;
        if (operands > 1)
            last_use[s->b] = (uint8_t)i;
        if (operands > 2)
            last_use[s->c] = (uint8_t)i;
    }
    for (int k = 0; k < p->output_count; k++)
        last_use[p->output[k]] = 255;
    for (int r = 0; r < fixed; r++)
        f->slot[r] = (uint8_t)r;
    f->slots = fixed;
    for (int i = 0; i < p->step_count; i++) {
        const tp_tile_step *s = &p->step[i];
        int operands = tp_tile_operands(s->prim);
        const uint8_t in[3] = { s->a, s->b, s->c };
        for (int k = 0; k < operands; k++)
            if (in[k] >= fixed && last_use[in[k]] == i && !(k > 0 && in[k] == in[0]) && !(k > 1 && in[k] == in[1]))
                free_slot[free_count++] = f->slot[in[k]];
        f->slot[s->to] = free_count ? free_slot[--free_count] : (uint8_t)f->slots++;
    }
}

void tp_frame_init(tp_frame *f, const tp_tile_program *p, int compute, const tp_scalar *scalar, const uint8_t *input_dtype)
{
    f->program = p;
    f->compute = compute;
    f->bytes = tp_compute_bytes(compute);
    memcpy(f->input_dtype, input_dtype, p->input_count);
    for (int i = 0; i < p->scalar_count; i++)
        tp_scalar_write(scalar[i], f->constant[i], tp_compute_dtype(compute));
    assign_slots(f);
    /* One slot more holds elements gathered in their storage type, of up to 16 bytes. */
    f->tile = TP_TILE;
    while (f->tile * (f->slots * f->bytes + 16) > TP_SCRATCH)
        f->tile /= 2;
}

void tp_state_init(tp_tile_state *t, const tp_frame *f, char *scratch)
{
    t->frame = f;
    t->scratch = scratch;
    for (int i = 0; i < f->program->scalar_count; i++) {
        int r = f->program->input_count + i;
        t->at[r] = f->constant[i];
        t->one[r] = true;
        t->spread[r] = 0;
    }
}

static char *slot_of(const tp_tile_state *t, int reg)
{
    return t->scratch + t->frame->slot[reg] * t->frame->tile * t->frame->bytes;
}

static char *raw_slot(const tp_tile_state *t)
{
    return t->scratch + t->frame->slots * t->frame->tile * t->frame->bytes;
}

void tp_state_load(tp_tile_state *t, int input, const char *at, const tp_patch *p)
{
    const tp_frame *f = t->frame;
    tp_dtype dtype = (tp_dtype)f->input_dtype[input];
    int64_t size = (int64_t)tp_dtype_bytes(dtype), n = p->rows * p->columns;
    bool converted = dtype != tp_compute_dtype(f->compute);
    t->one[input] = n > 1 && tp_patch_is_still(p);
    t->spread[input] = 0;
    if (t->one[input] || tp_patch_is_dense(p, size)) {
        t->at[input] = at;
        if (converted) {
            char *to = t->one[input] ? t->cell[input] : slot_of(t, input);
            f->set->load[dtype][f->compute](t->one[input] ? 1 : n, to, at);
            t->at[input] = to;
        }
        return;
    }
    char *to = slot_of(t, input), *gathered = converted ? raw_slot(t) : to;
    tp_patch dense = { p->rows, p->columns, p->columns * size, size };
    tp_patch_move(f->set, (size_t)size, gathered, &dense, at, p->row_stride, p->column_stride);
    if (converted)
        f->set->load[dtype][f->compute](n, to, gathered);
    t->at[input] = to;
}

const char *tp_state_read(tp_tile_state *t, int reg, int64_t n)
{
    if (!t->one[reg])
        return t->at[reg];
    char *to = slot_of(t, reg);
    if (t->spread[reg] < n) {
        tp_patch dense = { 1, n, 0, t->frame->bytes };
        tp_patch_move(t->frame->set, (size_t)t->frame->bytes, to, &dense, t->at[reg], 0, 0);
        t->spread[reg] = n;
    }
    return to;
}

static void run_step(tp_tile_state *t, const tp_tile_step *s, int64_t n, void *to)
{
    tp_tile_fn *const *form = t->frame->set->step[t->frame->compute][s->prim];
    int operands = tp_tile_operands(s->prim);
    const char *a, *b = NULL, *c = NULL;
    tp_tile_fn *step = form[TP_FORM_VECTORS];
    if (operands == 2 && t->one[s->b] && form[TP_FORM_RIGHT_ONE]) {
        step = form[TP_FORM_RIGHT_ONE];
        a = tp_state_read(t, s->a, n);
        b = t->at[s->b];
    } else if (operands == 2 && t->one[s->a] && form[TP_FORM_LEFT_ONE]) {
        step = form[TP_FORM_LEFT_ONE];
        a = t->at[s->a];
        b = t->at[s->b];
    } else {
        a = tp_state_read(t, s->a, n);
        b = operands > 1 ? tp_state_read(t, s->b, n) : NULL;
        c = operands > 2 ? tp_state_read(t, s->c, n) : NULL;
    }
    step(n, to, a, b, c);
    t->at[s->to] = to;
    t->one[s->to] = false;
}

void tp_state_run(tp_tile_state *t, int64_t n, char *const *target)
{
    const tp_tile_program *p = t->frame->program;
    for (int i = 0; i < p->step_count; i++) {
        int r = p->step[i].to;
        run_step(t, &p->step[i], n, target && target[r] ? target[r] : slot_of(t, r));
    }
}

void tp_state_store(tp_tile_state *t, int reg, char *to, tp_dtype dtype, const tp_patch *p)
{
    const tp_frame *f = t->frame;
    int64_t size = (int64_t)tp_dtype_bytes(dtype), n = p->rows * p->columns;
    const char *from = tp_state_read(t, reg, n);
    if (dtype != tp_compute_dtype(f->compute)) {
        bool dense = tp_patch_is_dense(p, size);
        char *converted = dense ? to : raw_slot(t);
        f->set->store[f->compute][dtype](n, converted, from);
        if (dense)
            return;
        from = converted;
    }
    if (from != to)
        tp_patch_move(f->set, (size_t)size, to, p, from, p->columns * size, size);
}
