/* loop.c - element-wise loops: a plan cut into patches, patches gathered into chunks for the pool.
 *
 *     rows ┌────┬────┬──     a unit is a patch of rows x columns of the two innermost dims: 1 x many where
 *          │unit│unit│       every operand is dense, a square where one is transposed, several short rows
 *          ├────┼────┼──     packed where the innermost dim is small
 *
 * Units are numbered row-major over the outer dims; a chunk is a run of units of at least CHUNK elements. Chunks are done in
 * ranges, and neighbouring units of a row are one where tiles add nothing. */
#include <string.h>

#include "base/pool.h"
#include "base/runtime.h"
#include "tile/frame.h"
#include "tile/plan.h"

enum { SPLIT_FROM = 32768, CHUNK = 8192, MOST_CHUNKS = 128, SHORT_ROW = 64, COPIED_ROW = 1024, SQUARE = 32 };

typedef struct run {
    tp_plan  plan;
    tp_frame frame;
    int64_t  rows, columns;                 /* of a unit */
    int64_t  row_units, column_units;       /* units along the two innermost dims */
    int64_t  units, units_per_chunk;
    int      row_dim, column_dim;           /* row_dim is -1 in one-dimensional units */
    bool     whole;                         /* units of a row may be joined */
    bool     copies;                        /* no step and no conversion: elements are moved as they are */
    bool     converts;                      /* no step, one input, and the output holds the compute type */
    bool     direct[4];                     /* outputs that a step may write in place */
    tp_tile_fn *step;                       /* the only one, when it is called on memory as it lies; else NULL */
    int      operand[3];                    /* of that step: of the plan, or -1: `fixed` */
    const char *fixed[3];                   /* a scalar, or NULL */
} run;

/* An output may be written by its step unless a later step still reads an input that is the same memory. */
static bool may_write_directly(const run *r, int output)
{
    const tp_tile_program *p = r->frame.program;
    int reg = p->output[output], fixed = p->input_count + p->scalar_count;
    if (reg < fixed || r->plan.dtype[output] != tp_compute_dtype(r->frame.compute))
        return false;
    for (int other = 0; other < output; other++)
        if (p->output[other] == reg)
            return false;
    bool written = false;
    for (int i = 0; i < p->step_count; i++) {
        const uint8_t in[3] = { p->step[i].a, p->step[i].b, p->step[i].c };
        for (int k = 0; written && k < tp_tile_operands(p->step[i].prim); k++)
            if (in[k] < p->input_count && r->plan.data[p->output_count + in[k]] == r->plan.data[output])
                return false;
        written = written || p->step[i].to == reg;
    }
    return true;
}

/* A dim along which an operand is dense although it is not along the innermost one; -1: there is none. */
static int turned_dim(const tp_plan *plan)
{
    int inner = plan->ndim - 1;
    for (int k = 0; k < plan->operands; k++) {
        int64_t size = (int64_t)tp_dtype_bytes((tp_dtype)plan->dtype[k]), stride = plan->stride[k][inner];
        if (stride == 0 || stride == size)
            continue;
        for (int d = inner - 1; d >= 0; d--)
            if (plan->stride[k][d] == size && plan->size[d] > 1)
                return d;
    }
    return -1;
}

static bool all_are(const tp_plan *plan, tp_dtype d)
{
    for (int k = 0; k < plan->operands; k++)
        if (plan->dtype[k] != d)
            return false;
    return true;
}

/* The forms of a program's only step on operands as they lie: all of the compute type, or all b8. NULL: they must be converted. */
static tp_tile_fn *const *forms_as_they_lie(const run *r, int64_t *bytes)
{
    const tp_tile_program *p = r->frame.program;
    if (p->step_count != 1 || p->output_count != 1 || p->output[0] != p->step->to)
        return NULL;
    if (all_are(&r->plan, TP_b8) && !p->scalar_count && r->frame.set->logic[p->step->prim][TP_FORM_VECTORS]) {
        *bytes = 1;
        return r->frame.set->logic[p->step->prim];
    }
    *bytes = r->frame.bytes;
    return all_are(&r->plan, tp_compute_dtype(r->frame.compute)) ? r->frame.set->step[r->frame.compute][p->step->prim] : NULL;
}

/* One step over operands that need neither conversion nor spreading: tiles add nothing, so units are long. */
static bool runs_whole(const run *r)
{
    const tp_tile_step *s = r->frame.program->step;
    int64_t bytes;
    tp_tile_fn *const *forms = forms_as_they_lie(r, &bytes);
    if (!forms)
        return false;
    int inner = r->plan.ndim - 1, ones = r->frame.program->scalar_count;
    for (int k = 0; k < r->plan.operands; k++) {
        bool still = r->plan.stride[k][inner] == 0;
        if (!still && r->plan.stride[k][inner] != bytes)
            return false;
        ones += still;
    }
    return ones == 0 || (ones == 1 && tp_tile_operands(s->prim) == 2 && s->a != s->b && forms[TP_FORM_RIGHT_ONE]);
}

/* The step of a program that runs whole, and what it is called on. */
static void choose_step(run *r)
{
    const tp_tile_program *p = r->frame.program;
    const tp_tile_step *s = p->step;
    int operands = tp_tile_operands(s->prim), inner = r->plan.ndim - 1, form = TP_FORM_VECTORS;
    const uint8_t in[3] = { s->a, s->b, s->c };
    int64_t bytes;
    for (int i = 0; i < 3; i++) {
        bool scalar = i < operands && in[i] >= p->input_count;
        r->operand[i] = i < operands && !scalar ? p->output_count + in[i] : -1;
        r->fixed[i] = scalar ? r->frame.constant[in[i] - p->input_count] : NULL;
        if (scalar || (r->operand[i] >= 0 && r->plan.stride[r->operand[i]][inner] == 0))
            form = i == 1 ? TP_FORM_RIGHT_ONE : TP_FORM_LEFT_ONE;
    }
    r->step = forms_as_they_lie(r, &bytes)[form];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void choose_units(run *r)
{
    tp_plan *plan = &r->plan;
    int inner = plan->ndim - 1;
    int64_t tile = r->frame.tile, chunk = plan->elements / MOST_CHUNKS;
    chunk = chunk < CHUNK ? CHUNK : chunk;
    int turned = turned_dim(plan);
    r->row_dim = -1;
    r->column_dim = inner;
    r->rows = 1;
    r->whole = r->copies || runs_whole(r);
    r->step = NULL;
    r->columns = least(plan->size[inner], r->whole ? chunk : tile);
    if (turned >= 0) {
        for (int d = turned; d < inner - 1; d++)
            tp_plan_swap(plan, d, d + 1);
        r->row_dim = inner - 1;
        r->whole = false;
        int64_t side = tile < SQUARE * SQUARE ? tile / SQUARE : SQUARE;
        r->columns = least(plan->size[inner], SQUARE);
        r->rows = least(plan->size[inner - 1], tile / r->columns);
        if (r->rows < side)
            r->columns = least(plan->size[inner], tile / r->rows);
        if (r->copies) {                    /* nothing is held in a tile: longer pieces of rows are written */
            r->columns = least(plan->size[inner], 8 * SQUARE);
            r->rows = least(plan->size[inner - 1], SQUARE);
        }
    } else if (inner > 0 && plan->size[inner] < (r->copies ? COPIED_ROW : SHORT_ROW)) {
        r->whole = false;
        r->row_dim = inner - 1;
        r->rows = least(plan->size[inner - 1], (r->copies ? chunk : tile) / r->columns);
    }
    if (r->whole && r->frame.program->step_count)
        choose_step(r);
    r->column_units = (plan->size[inner] + r->columns - 1) / r->columns;
    r->row_units = r->row_dim < 0 ? 1 : (plan->size[r->row_dim] + r->rows - 1) / r->rows;
    r->units = r->column_units * r->row_units;
    for (int d = 0; d < (r->row_dim < 0 ? inner : r->row_dim); d++)
        r->units *= plan->size[d];
    r->units_per_chunk = r->units;
    if (plan->elements >= SPLIT_FROM) {
        int64_t chunks = plan->elements / chunk;
        r->units_per_chunk = chunks < 2 ? r->units : (r->units + chunks - 1) / chunks;
    }
}

static tp_patch patch_of(const run *r, int operand, int64_t rows, int64_t columns)
{
    int64_t row_stride = r->row_dim < 0 ? 0 : r->plan.stride[operand][r->row_dim];
    return (tp_patch){ rows, columns, row_stride, r->plan.stride[operand][r->column_dim] };
}

static void copy_unit(const run *r, char *const *at, int64_t rows, int64_t columns)
{
    const tp_tile_program *p = r->frame.program;
    for (int k = 0; k < p->output_count; k++) {
        tp_patch to = patch_of(r, k, rows, columns);
        int source = p->output_count + p->output[k];
        if (p->output[k] >= p->input_count) {           /* a fill: the constant holds the element as it is stored */
            const char *element = r->frame.constant[p->output[k] - p->input_count];
            tp_patch_move(r->frame.set, tp_dtype_bytes((tp_dtype)r->plan.dtype[k]), at[k], &to, element, 0, 0);
            continue;
        }
        tp_patch from = patch_of(r, source, rows, columns);
        if (at[k] != at[source])
            tp_patch_move(r->frame.set, tp_dtype_bytes((tp_dtype)r->plan.dtype[k]), at[k], &to, at[source],
                          from.row_stride, from.column_stride);
    }
}

/* One input, loaded straight into an output that holds the compute type. */
static void convert_unit(const run *r, char *const *at, int64_t rows, int64_t columns, tp_tile_state *t)
{
    tp_patch to = patch_of(r, 0, rows, columns), from = patch_of(r, 1, rows, columns);
    tp_dtype dtype = (tp_dtype)r->plan.dtype[1];
    if (tp_patch_is_dense(&to, r->frame.bytes) && tp_patch_is_dense(&from, (int64_t)tp_dtype_bytes(dtype))) {
        r->frame.set->load[dtype][r->frame.compute](rows * columns, at[0], at[1]);
        return;
    }
    tp_state_load(t, 0, at[1], &from);
    tp_state_store(t, 0, at[0], (tp_dtype)r->plan.dtype[0], &to);
}

static void run_unit(const run *r, tp_tile_state *t, char *const *at, int64_t rows, int64_t columns)
{
    const tp_tile_program *p = r->frame.program;
    if (r->step) {
        const char *in[3];
        for (int i = 0; i < 3; i++)
            in[i] = r->operand[i] < 0 ? r->fixed[i] : at[r->operand[i]];
        r->step(columns, at[0], in[0], in[1], in[2]);
        return;
    }
    if (r->copies) {
        copy_unit(r, at, rows, columns);
        return;
    }
    if (r->converts) {
        convert_unit(r, at, rows, columns, t);
        return;
    }
    char *target[TP_TILE_REGISTERS];
    memset(target, 0, p->register_count * sizeof *target);
    for (int i = 0; i < p->input_count; i++) {
        tp_patch patch = patch_of(r, p->output_count + i, rows, columns);
        tp_state_load(t, i, at[p->output_count + i], &patch);
    }
    for (int k = 0; k < p->output_count; k++) {
        tp_patch patch = patch_of(r, k, rows, columns);
        if (r->direct[k] && tp_patch_is_dense(&patch, r->frame.bytes))
            target[p->output[k]] = at[k];
    }
    tp_state_run(t, rows * columns, target);
    for (int k = 0; k < p->output_count; k++) {
        tp_patch patch = patch_of(r, k, rows, columns);
        if (target[p->output[k]] != at[k])
            tp_state_store(t, p->output[k], at[k], (tp_dtype)r->plan.dtype[k], &patch);
    }
}

static void run_chunks(void *work, int64_t first, int64_t last)
{
    const run *r = work;
    const tp_plan *plan = &r->plan;
    _Alignas(64) char scratch[TP_SCRATCH];
    tp_tile_state state;
    tp_state_init(&state, &r->frame, scratch);
    int64_t u = first * r->units_per_chunk, end = least(last * r->units_per_chunk, r->units), joined;
    int64_t column_unit = u % r->column_units, rest = u / r->column_units;
    for (; u < end; u += joined) {
        int64_t outer = r->row_dim < 0 ? rest : rest / r->row_units, column = column_unit * r->columns;
        int64_t row = (rest - outer * r->row_units) * r->rows, columns, rows = 1;
        char *at[TP_TILE_OPERANDS];
        joined = r->whole ? least(end - u, r->column_units - column_unit) : 1;
        columns = least(joined * r->columns, plan->size[r->column_dim] - column);
        if (r->row_dim >= 0)
            rows = least(r->rows, plan->size[r->row_dim] - row);
        for (int k = 0; k < plan->operands; k++) {
            at[k] = plan->data[k] + column * plan->stride[k][r->column_dim];
            if (r->row_dim >= 0)
                at[k] += row * plan->stride[k][r->row_dim];
        }
        tp_plan_seek(plan, 0, r->row_dim < 0 ? r->column_dim : r->row_dim, outer, at);
        run_unit(r, &state, at, rows, columns);
        column_unit += joined;
        if (column_unit == r->column_units) {
            column_unit = 0;
            rest++;
        }
    }
}

/* Nothing to compute: each output is an input of its own type, or a scalar (then kept in the output's type). */
static bool only_copies(run *r, const tp_scalar *scalar)
{
    const tp_tile_program *p = r->frame.program;
    if (p->step_count)
        return false;
    for (int k = 0; k < p->output_count; k++) {
        int source = p->output[k];
        bool fill = source >= p->input_count;
        if (fill ? p->output_count != 1 : r->plan.dtype[k] != r->plan.dtype[p->output_count + source])
            return false;
        /* Through the compute type first, as every store does. */
        if (fill) {
            char *constant = r->frame.constant[source - p->input_count];
            tp_scalar_write(scalar[source - p->input_count], constant, tp_compute_dtype(r->frame.compute));
            tp_scalar_write(tp_scalar_read(constant, tp_compute_dtype(r->frame.compute)), constant,
                            (tp_dtype)r->plan.dtype[k]);
        }
    }
    return true;
}

void tp_tile_run(const tp_tile_program *p, const tp_tile_loop *loop)
{
    run r;
    for (int d = 0; d < loop->ndim; d++)
        if (loop->size[d] == 0)
            return;
    tp_plan_init(&r.plan, loop, p->output_count + p->input_count, UINT64_MAX);
    if (r.plan.ndim > 1) {
        tp_plan_sort(&r.plan);
        tp_plan_coalesce(&r.plan);
    }
    r.frame.set = tp_the_runtime.tile;
    tp_frame_init(&r.frame, p, loop->compute, loop->scalar, r.plan.dtype + p->output_count);
    for (int k = 0; k < p->output_count; k++)
        r.direct[k] = may_write_directly(&r, k);
    r.copies = only_copies(&r, loop->scalar);
    r.converts = !r.copies && p->step_count == 0 && p->input_count == 1 && p->output_count == 1 && p->output[0] == 0 &&
                 r.plan.dtype[0] == tp_compute_dtype(loop->compute);
    choose_units(&r);
    tp_pool_run_ranges((r.units + r.units_per_chunk - 1) / r.units_per_chunk, run_chunks, &r);
}
