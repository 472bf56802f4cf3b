/* reduce.c - reductions: what each kind means, and the walk over one output at a time. */
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "base/runtime.h"
#include "tile/job.h"

enum { GROUP = 16, WHOLE = 64, LEVELS = 44, FEW_OUTPUTS = 8, MOST_PARTS = 64, WORTH_SPLITTING = 32768, CHUNK = 16384 };

/* The fold of some blocks of one output. */
typedef struct partial {
    _Alignas(16) char value[16];        /* in the folded type */
    int64_t index;                      /* of value, for TP_JOB_INDEX */
    double  count, mean, deviation;     /* for TP_JOB_MOMENTS */
} partial;

typedef struct cascade {
    uint64_t count;
    partial  level[LEVELS];
} cascade;

tp_tile_fn *tp_job_step(const tp_job *job)
{
    static const uint8_t prim[] = { TP_PRIM_add, TP_PRIM_mul, TP_PRIM_maximum, TP_PRIM_minimum };
    return job->frame->set->step[job->compute][prim[job->fold]][TP_FORM_VECTORS];
}

static bool counts_zeros(tp_reduction kind, double p)
{
    return kind == TP_REDUCE_any || kind == TP_REDUCE_all || kind == TP_REDUCE_count_nonzero ||
           (kind == TP_REDUCE_norm && p == 0);
}

static bool is_complex(int compute)
{
    return compute == TP_COMPUTE_c64 || compute == TP_COMPUTE_c128;
}

/* n elements through a one-operand step, with a second operand that is one element where `one` is given. */
static void apply(const tp_job *job, int compute, tp_prim prim, int64_t n, char *to, const char *x, const char *one)
{
    tp_tile_fn *const *form = job->frame->set->step[compute][prim];
    if (one && !form[TP_FORM_RIGHT_ONE]) {
        int64_t bytes = tp_compute_bytes(compute);
        for (int64_t i = 0; i < n; i++)
            form[TP_FORM_VECTORS](1, to + i * bytes, x + i * bytes, one, NULL);
        return;
    }
    form[one ? TP_FORM_RIGHT_ONE : TP_FORM_VECTORS](n, to, x, one, NULL);
}

static const char *prepare_norm(const tp_job *job, int64_t n, const char *x, char *buffer)
{
    if (is_complex(job->frame->compute)) {
        _Alignas(16) char absolute[TP_BLOCK * 16];
        apply(job, job->frame->compute, TP_PRIM_cabs, n, absolute, x, NULL);
        job->frame->set->store[job->frame->compute][tp_compute_dtype(job->compute)](n, buffer, absolute);
        x = buffer;
    }
    if (job->parameter == 2) {
        apply(job, job->compute, TP_PRIM_square, n, buffer, x, NULL);
        return buffer;
    }
    apply(job, job->compute, TP_PRIM_abs, n, buffer, x, NULL);
    if (job->parameter != 1 && !isinf(job->parameter))
        apply(job, job->compute, TP_PRIM_pow, n, buffer, buffer, job->power);
    return buffer;
}

const char *tp_job_prepare(const tp_job *job, int64_t n, const char *x, char *buffer)
{
    const tp_tile_set *set = job->frame->set;
    int compute = job->frame->compute;
    if (counts_zeros(job->kind, job->parameter)) {
        _Alignas(16) char zeros[TP_BLOCK * 16];
        apply(job, compute, TP_PRIM_logical_not, n, zeros, x, NULL);
        set->store[compute][TP_i64](n, buffer, zeros);
        return buffer;
    }
    if (job->kind == TP_REDUCE_norm)
        return prepare_norm(job, n, x, buffer);
    if (job->shift) {
        apply(job, compute, TP_PRIM_sub, n, buffer, x, job->shift);
        apply(job, compute, TP_PRIM_exp, n, buffer, buffer, NULL);
        return buffer;
    }
    if (compute == job->compute)
        return x;
    set->store[compute][tp_compute_dtype(job->compute)](n, buffer, x);
    return buffer;
}

/* A number in the folded type, read and written as double; complex ones never come here. */
static double read_number(const tp_job *job, const char *value)
{
    return tp_scalar_to_double(tp_scalar_read(value, tp_compute_dtype(job->compute)));
}

static void write_number(const tp_job *job, char *value, double number)
{
    tp_scalar_write(tp_scalar_float(number), value, tp_compute_dtype(job->compute));
}

static void finish_counts(const tp_job *job, int64_t n, char *values)
{
    int64_t *zeros = (int64_t *)(void *)values;
    for (int64_t i = 0; i < n; i++)
        zeros[i] = job->kind == TP_REDUCE_any ? zeros[i] < job->count : job->kind == TP_REDUCE_all ? zeros[i] == 0
                                                                                                   : job->count - zeros[i];
}

void tp_job_finish(const tp_job *job, int64_t n, char *values)
{
    _Alignas(16) char one[16];
    if (counts_zeros(job->kind, job->parameter)) {
        finish_counts(job, n, values);
    } else if (job->kind == TP_REDUCE_mean) {
        tp_scalar_write(tp_scalar_float((double)job->count), one, tp_compute_dtype(job->compute));
        apply(job, job->compute, TP_PRIM_div, n, values, values, one);
    } else if (job->kind == TP_REDUCE_norm && job->parameter == 2) {
        apply(job, job->compute, TP_PRIM_sqrt, n, values, values, NULL);
    } else if (job->kind == TP_REDUCE_norm && job->parameter != 1 && !isinf(job->parameter)) {
        tp_scalar_write(tp_scalar_float(1 / job->parameter), one, tp_compute_dtype(job->compute));
        apply(job, job->compute, TP_PRIM_pow, n, values, values, one);
    }
}

/* Is b, which comes later, to replace a? The first of equals stays, and NaN is beyond all. */
static bool goes_beyond(const tp_job *job, const char *a, const char *b)
{
    if (job->compute == TP_COMPUTE_i64) {
        int64_t x = *(const int64_t *)(const void *)a, y = *(const int64_t *)(const void *)b;
        return job->fold == TP_FOLD_MAX ? y > x : y < x;
    }
    double x = read_number(job, a), y = read_number(job, b);
    if (isnan(x) || isnan(y))
        return isnan(y) && !isnan(x);
    return job->fold == TP_FOLD_MAX ? y > x : y < x;
}

static void combine(const tp_job *job, partial *a, const partial *b)
{
    if (job->shape == TP_JOB_VALUE) {
        tp_job_step(job)(1, a->value, a->value, b->value, NULL);
    } else if (job->shape == TP_JOB_INDEX) {
        if (goes_beyond(job, a->value, b->value))
            *a = *b;
    } else {
        double count = a->count + b->count, apart = b->mean - a->mean;
        a->deviation += b->deviation + apart * apart * (a->count * b->count / count);
        a->mean += apart * (b->count / count);
        a->count = count;
    }
}

static void cascade_push(const tp_job *job, cascade *c, partial p)
{
    int level = 0;
    for (uint64_t bit = c->count++; bit & 1; bit >>= 1, level++) {
        combine(job, &c->level[level], &p);
        p = c->level[level];
    }
    c->level[level] = p;
}

static partial cascade_finish(const tp_job *job, cascade *c)
{
    partial *result = NULL;
    for (int level = 0; level < LEVELS; level++) {
        if (!(c->count >> level & 1))
            continue;
        if (result)
            combine(job, &c->level[level], result);
        result = &c->level[level];
    }
    return *result;
}

/* Zeros of a block: ones are added in the program's type, where 1024 of them are exact, and counted as i64. */
static void count_zeros(const tp_job *job, int64_t n, const char *x, char *to)
{
    _Alignas(64) char zeros[TP_BLOCK * 16], sum[16];
    int compute = job->frame->compute;
    if (!job->frame->set->fold[compute][TP_FOLD_SUM]) {
        x = tp_job_prepare(job, n, x, zeros);
        job->frame->set->fold[job->compute][TP_FOLD_SUM](n, to, x);
        return;
    }
    apply(job, compute, TP_PRIM_logical_not, n, zeros, x, NULL);
    job->frame->set->fold[compute][TP_FOLD_SUM](n, sum, zeros);
    job->frame->set->store[compute][TP_i64](1, to, sum);
}

/* One after the other, so that equal elements deviate by nothing at all. */
static void fold_moments_slowly(const tp_job *job, int64_t n, const char *x, partial *p)
{
    bool narrow = job->compute == TP_COMPUTE_f32;
    p->mean = p->deviation = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = narrow ? (double)((const float *)(const void *)x)[i] : ((const double *)(const void *)x)[i];
        double apart = value - p->mean;
        p->mean += apart / (double)(i + 1);
        p->deviation += apart * (value - p->mean);
    }
}

static void fold_moments(const tp_job *job, int64_t n, const char *x, partial *p)
{
    bool narrow = job->compute == TP_COMPUTE_f32;
    p->count = (double)n;
    job->frame->set->fold[job->compute][TP_FOLD_SUM](n, p->value, x);
    double mean = read_number(job, p->value) / (double)n, about, deviation;
    if (narrow) {
        float sum;
        job->frame->set->deviation_f32(n, (float)mean, (const float *)(const void *)x, &sum);
        about = (double)(float)mean, deviation = (double)sum;
    } else {
        job->frame->set->deviation_f64(n, mean, (const double *)(const void *)x, &deviation);
        about = mean;
    }
    p->mean = mean;
    p->deviation = deviation - (double)n * (mean - about) * (mean - about);
    double rounding = mean * (narrow ? 0x1p-18 : 0x1p-47);
    if (p->deviation <= (double)n * rounding * rounding)
        fold_moments_slowly(job, n, x, p);
}

/* The next elements of the sequence from `position`, at most `most`: part of a row, or several whole rows. */
static int64_t load_piece(const tp_job *job, tp_tile_state *t, char *const *base, int64_t position, int64_t most)
{
    const tp_plan *over = job->over;
    int inner = over->ndim - 1;
    int64_t row = over->size[inner], in_row = position % row, rows = 1, columns = row - in_row;
    if (columns > most)
        columns = most;
    if (in_row == 0 && inner > 0 && columns == row) {
        int64_t left = over->size[inner - 1] - position / row % over->size[inner - 1];
        rows = most / row < left ? most / row : left;
    }
    char *at[TP_TILE_OPERANDS];
    memcpy(at, base, (size_t)over->operands * sizeof *at);
    tp_plan_seek(over, 0, over->ndim, position, at);
    for (int k = 0; k < job->frame->program->input_count; k++) {
        const int64_t *stride = over->stride[job->outputs + k];
        tp_patch patch = { rows, columns, inner > 0 ? stride[inner - 1] : 0, stride[inner] };
        tp_state_load(t, k, at[job->outputs + k], &patch);
    }
    tp_state_run(t, rows * columns, NULL);
    return rows * columns;
}

/* The n elements of a block, in the program's type: where they are, or put together in `buffer`. */
static const char *load_block(const tp_job *job, tp_tile_state *t, char *const *base, int64_t position, int64_t n,
                              char *buffer)
{
    int64_t tile = job->frame->tile, done = 0;
    if (job->in_place)
        return base[job->outputs] + position * job->frame->bytes;
    int reg = job->frame->program->output[0];
    while (done < n) {
        int64_t piece = load_piece(job, t, base, position + done, n - done < tile ? n - done : tile);
        const char *x = tp_state_read(t, reg, piece);
        if (piece == n)
            return x;
        memcpy(buffer + done * job->frame->bytes, x, (size_t)(piece * job->frame->bytes));
        done += piece;
    }
    return buffer;
}

static void fold_one(const tp_job *job, int64_t n, const char *x, int64_t position, partial *p, char *buffer)
{
    if (counts_zeros(job->kind, job->parameter)) {
        count_zeros(job, n, x, p->value);
        return;
    }
    x = tp_job_prepare(job, n, x, buffer);
    if (job->shape == TP_JOB_MOMENTS) {
        fold_moments(job, n, x, p);
        return;
    }
    job->frame->set->fold[job->compute][job->fold](n, p->value, x);
    if (job->shape == TP_JOB_INDEX)
        p->index = position + job->frame->set->find[job->compute](n, x, p->value);
}

/* n elements where they lie: the primitive knows the tree over blocks too. */
static void fold_whole(const tp_job *job, int64_t n, const char *x, char *to)
{
    job->frame->set->fold[job->compute][job->fold](n, to, x);
}

/* Folds blocks [first, last) of the output whose operands begin at `base`. */
static partial fold_blocks(const tp_job *job, tp_tile_state *t, char *const *base, int64_t first, int64_t last)
{
    _Alignas(64) char together[TP_BLOCK * 16], prepared[TP_BLOCK * 16];
    cascade c;
    c.count = 0;
    if (job->whole) {
        partial p;
        int64_t position = first * TP_BLOCK, n = (last - first) * TP_BLOCK;
        n = n < job->count - position ? n : job->count - position;
        fold_whole(job, n, base[job->outputs] + position * job->bytes, p.value);
        return p;
    }
    for (int64_t block = first; block < last; block++) {
        int64_t position = block * TP_BLOCK, n = job->count - position;
        n = n < TP_BLOCK ? n : TP_BLOCK;
        partial p;
        fold_one(job, n, load_block(job, t, base, position, n, together), position, &p, prepared);
        if (last - first == 1)
            return p;
        cascade_push(job, &c, p);
    }
    return cascade_finish(job, &c);
}

static int64_t block_count(const tp_job *job)
{
    return (job->count + TP_BLOCK - 1) / TP_BLOCK;
}

static void write_element(const tp_job *job, int output, char *to, tp_scalar value)
{
    tp_scalar_write(value, to, (tp_dtype)job->kept->dtype[output]);
}

static void write_output(const tp_job *job, partial *p, char *const *at)
{
    if (job->shape == TP_JOB_INDEX) {
        bool both = job->outputs == 2;
        if (both)
            job->frame->set->store[job->compute][job->kept->dtype[0]](1, at[0], p->value);
        write_element(job, both, at[both], tp_scalar_int(p->index));
    } else if (job->shape == TP_JOB_MOMENTS) {
        double freedom = p->count - job->parameter;
        double variance = p->deviation / (freedom > 0 ? freedom : 0);
        bool root = job->kind == TP_REDUCE_std || job->kind == TP_REDUCE_std_mean;
        write_element(job, 0, at[0], tp_scalar_float(root ? sqrt(variance) : variance));
        if (job->outputs == 2)
            write_element(job, 1, at[1], tp_scalar_float(p->mean));
    } else {
        tp_job_finish(job, 1, p->value);
        job->frame->set->store[job->compute][job->kept->dtype[0]](1, at[0], p->value);
    }
}

/* Up to GROUP neighbouring outputs whose elements lie side by side: their blocks are loaded together, turned. */
typedef struct group {
    int64_t count;
    cascade sums[GROUP];
    _Alignas(64) char block[GROUP][TP_BLOCK * 8];
} group;

static void load_group(const tp_job *job, tp_tile_state *t, char *const *base, int64_t position, int64_t n, group *g)
{
    int64_t most = job->frame->tile / GROUP, bytes = job->frame->bytes;
    for (int64_t done = 0; done < n; done += most) {
        int64_t columns = n - done < most ? n - done : most;
        for (int k = 0; k < job->frame->program->input_count; k++) {
            int operand = job->outputs + k;
            int64_t step = job->over->stride[operand][0];
            tp_patch patch = { g->count, columns, job->kept->stride[operand][job->kept->ndim - 1], step };
            tp_state_load(t, k, base[operand] + (position + done) * step, &patch);
        }
        tp_state_run(t, g->count * columns, NULL);
        const char *x = tp_state_read(t, job->frame->program->output[0], g->count * columns);
        for (int64_t i = 0; i < g->count; i++)
            memcpy(g->block[i] + done * bytes, x + i * columns * bytes, (size_t)(columns * bytes));
    }
}

/* Folds the sequences of a group into `result`; `shift`, where not NULL, has one for each. */
static void fold_group(const tp_job *job, tp_tile_state *t, char *const *base, group *g, const partial *shift, partial *result)
{
    _Alignas(64) char prepared[TP_BLOCK * 16];
    for (int64_t i = 0; i < g->count; i++)
        g->sums[i].count = 0;
    for (int64_t position = 0; position < job->count; position += TP_BLOCK) {
        int64_t n = job->count - position < TP_BLOCK ? job->count - position : TP_BLOCK;
        load_group(job, t, base, position, n, g);
        for (int64_t i = 0; i < g->count; i++) {
            partial p;
            tp_job one = *job;
            one.shift = shift ? shift[i].value : NULL;
            fold_one(&one, n, g->block[i], position, &p, prepared);
            cascade_push(job, &g->sums[i], p);
        }
    }
    for (int64_t i = 0; i < g->count; i++)
        result[i] = cascade_finish(job, &g->sums[i]);
}

/* log(sum(exp(x))) is the maximum (0 in place of an infinite one) and the log of the sum of exp(x - maximum). */
static tp_job second_pass(const tp_job *job, partial *maximum, int64_t count)
{
    tp_job second = *job;
    second.fold = TP_FOLD_SUM;
    for (int64_t i = 0; i < count; i++)
        if (isinf(read_number(job, maximum[i].value)))
            write_number(job, maximum[i].value, 0);
    return second;
}

static void write_logsumexp(const tp_job *job, partial *sum, const partial *maximum, char *to)
{
    apply(job, job->compute, TP_PRIM_log, 1, sum->value, sum->value, NULL);
    apply(job, job->compute, TP_PRIM_add, 1, sum->value, sum->value, maximum->value);
    job->frame->set->store[job->compute][job->kept->dtype[0]](1, to, sum->value);
}

static void reduce_one(const tp_job *job, tp_tile_state *t, char *const *at)
{
    partial p = fold_blocks(job, t, at, 0, block_count(job)), sum;
    if (job->kind != TP_REDUCE_logsumexp) {
        write_output(job, &p, at);
        return;
    }
    tp_job second = second_pass(job, &p, 1);
    second.shift = p.value;
    sum = fold_blocks(&second, t, at, 0, block_count(job));
    write_logsumexp(job, &sum, &p, at[0]);
}

static void reduce_group(const tp_job *job, tp_tile_state *t, char **at, int64_t count)
{
    group g = { .count = count };
    partial result[GROUP], sum[GROUP];
    bool logsumexp = job->kind == TP_REDUCE_logsumexp;
    fold_group(job, t, at, &g, NULL, result);
    if (logsumexp) {
        tp_job second = second_pass(job, result, count);
        fold_group(&second, t, at, &g, result, sum);
    }
    for (int64_t i = 0; i < count; i++) {
        if (logsumexp)
            write_logsumexp(job, &sum[i], &result[i], at[0]);
        else
            write_output(job, &result[i], at);
        for (int k = 0; k < job->outputs; k++)
            at[k] += job->kept->stride[k][job->kept->ndim - 1];
    }
}

/* `count` neighbouring outputs of sequences that are folded where they lie; they are finished and stored together. */
static void reduce_whole(const tp_job *job, char *const *at, int64_t count)
{
    _Alignas(64) char values[WHOLE * 16], converted[WHOLE * 16];
    int inner = job->kept->ndim - 1;
    int64_t size = (int64_t)tp_dtype_bytes((tp_dtype)job->kept->dtype[0]);
    for (int64_t i = 0; i < count; i++)
        fold_whole(job, job->count, at[1] + i * job->kept->stride[1][inner], values + i * job->bytes);
    tp_job_finish(job, count, values);
    job->frame->set->store[job->compute][job->kept->dtype[0]](count, converted, values);
    tp_patch patch = { 1, count, 0, job->kept->stride[0][inner] };
    tp_patch_move(job->frame->set, (size_t)size, at[0], &patch, converted, 0, size);
}

typedef struct outputs {
    const tp_job *job;
    int64_t per_chunk;                  /* outputs of a chunk, or blocks of a part */
    int64_t parts;
    bool    grouped;                    /* neighbouring outputs are reduced together */
    partial *partial;                   /* [output][part] when outputs are cut into parts */
} outputs;

static void seek_output(const tp_job *job, int64_t index, char **at)
{
    memcpy(at, job->kept->data, (size_t)job->kept->operands * sizeof *at);
    tp_plan_seek(job->kept, 0, job->kept->ndim, index, at);
}

static void run_outputs(void *work, int64_t first, int64_t last)
{
    const outputs *o = work;
    const tp_job *job = o->job;
    _Alignas(64) char scratch[TP_SCRATCH];
    tp_tile_state t;
    char *at[TP_TILE_OPERANDS];
    tp_state_init(&t, job->frame, scratch);
    int64_t end = last * o->per_chunk, row = job->kept->size[job->kept->ndim - 1], together = 1;
    end = end < job->kept->elements ? end : job->kept->elements;
    for (int64_t i = first * o->per_chunk; i < end; i += together) {
        seek_output(job, i, at);
        if (!o->grouped && !job->whole) {
            reduce_one(job, &t, at);
            continue;
        }
        int64_t most = job->whole ? WHOLE : GROUP;
        together = row - i % row < end - i ? row - i % row : end - i;
        together = together < most ? together : most;
        if (job->whole)
            reduce_whole(job, at, together);
        else
            reduce_group(job, &t, at, together);
    }
}

static void run_some_parts(void *work, int64_t from, int64_t to)
{
    const outputs *o = work;
    const tp_job *job = o->job;
    _Alignas(64) char scratch[TP_SCRATCH];
    tp_tile_state t;
    char *at[TP_TILE_OPERANDS];
    tp_state_init(&t, job->frame, scratch);
    for (int64_t index = from; index < to; index++) {
        seek_output(job, index / o->parts, at);
        int64_t first = index % o->parts * o->per_chunk, last = first + o->per_chunk, blocks = block_count(job);
        o->partial[index] = fold_blocks(job, &t, at, first, last < blocks ? last : blocks);
    }
}

/* Few outputs of many elements: cut into parts of a power of two of blocks, nodes of the tree over all blocks. */
static void run_parts(outputs *o)
{
    const tp_job *job = o->job;
    partial partials[FEW_OUTPUTS * MOST_PARTS];
    char *at[TP_TILE_OPERANDS];
    cascade c;
    o->partial = partials;
    tp_pool_run_ranges(job->kept->elements * o->parts, run_some_parts, o);
    for (int64_t i = 0; i < job->kept->elements; i++) {
        c.count = 0;
        for (int64_t part = 0; part < o->parts; part++)
            cascade_push(job, &c, partials[i * o->parts + part]);
        partial p = cascade_finish(job, &c);
        seek_output(job, i, at);
        write_output(job, &p, at);
    }
}

/* Elements of one output are far apart, those of its neighbours close. */
static bool group_suits(const tp_job *job)
{
    int inner = job->kept->ndim - 1, input = job->outputs;
    return job->over->ndim == 1 && job->kept->size[inner] >= GROUP && job->frame->bytes <= 8 &&
           job->frame->tile >= 4 * GROUP && job->frame->program->input_count > 0 &&
           job->kept->stride[input][inner] == (int64_t)tp_dtype_bytes((tp_dtype)job->kept->dtype[input]) &&
           job->over->stride[input][0] != job->kept->stride[input][inner];
}

static void run_job(const tp_job *job)
{
    outputs o = { .job = job, .per_chunk = CHUNK / TP_BLOCK, .grouped = group_suits(job) };
    int64_t elements = job->kept->elements * job->count, blocks = block_count(job);
    if (job->kept->elements < FEW_OUTPUTS && elements >= WORTH_SPLITTING && job->kind != TP_REDUCE_logsumexp) {
        if (job->whole)
            o.per_chunk *= 4;
        while ((blocks + o.per_chunk - 1) / o.per_chunk > MOST_PARTS)
            o.per_chunk *= 2;
        o.parts = (blocks + o.per_chunk - 1) / o.per_chunk;
        run_parts(&o);
        return;
    }
    int64_t chunks = elements < WORTH_SPLITTING ? 1 : elements / CHUNK;
    o.per_chunk = (job->kept->elements + chunks - 1) / chunks;
    if (o.grouped)
        o.per_chunk = (o.per_chunk + GROUP - 1) / GROUP * GROUP;
    tp_pool_run_ranges((job->kept->elements + o.per_chunk - 1) / o.per_chunk, run_outputs, &o);
}

/* Nothing to fold: the neutral element, or NaN where there is none. */
static void write_empty(const tp_job *job)
{
    char *at[TP_TILE_OPERANDS];
    for (int64_t i = 0; i < job->kept->elements; i++) {
        seek_output(job, i, at);
        partial p = { .count = 0, .mean = (double)NAN };
        if (job->shape == TP_JOB_MOMENTS)
            p.deviation = (double)NAN;
        else
            job->frame->set->fold[job->compute][job->fold](0, p.value, p.value);
        if (job->shape != TP_JOB_INDEX)
            write_output(job, &p, at);
    }
}

static void describe(tp_job *job, tp_reduction r, double parameter, int compute)
{
    job->kind = r;
    job->parameter = parameter;
    job->shift = NULL;
    job->shape = r >= TP_REDUCE_argmax && r <= TP_REDUCE_min_index ? TP_JOB_INDEX
                 : r >= TP_REDUCE_var && r <= TP_REDUCE_std_mean   ? TP_JOB_MOMENTS
                                                                   : TP_JOB_VALUE;
    job->outputs = r == TP_REDUCE_max_index || r == TP_REDUCE_min_index || r == TP_REDUCE_var_mean ||
                   r == TP_REDUCE_std_mean ? 2 : 1;
    bool norm_max = r == TP_REDUCE_norm && isinf(parameter) && parameter > 0;
    bool norm_min = r == TP_REDUCE_norm && isinf(parameter) && parameter < 0;
    job->fold = r == TP_REDUCE_prod ? TP_FOLD_PROD : TP_FOLD_SUM;
    if (norm_max || r == TP_REDUCE_max || r == TP_REDUCE_argmax || r == TP_REDUCE_max_index || r == TP_REDUCE_logsumexp)
        job->fold = TP_FOLD_MAX;
    if (norm_min || r == TP_REDUCE_min || r == TP_REDUCE_argmin || r == TP_REDUCE_min_index)
        job->fold = TP_FOLD_MIN;
    job->compute = compute;
    if (compute == TP_COMPUTE_i32 || counts_zeros(r, parameter))
        job->compute = TP_COMPUTE_i64;
    else if (r == TP_REDUCE_norm && is_complex(compute))
        job->compute = compute == TP_COMPUTE_c64 ? TP_COMPUTE_f32 : TP_COMPUTE_f64;
    job->bytes = tp_compute_bytes(job->compute);
    tp_scalar_write(tp_scalar_float(parameter), job->power, tp_compute_dtype(job->compute));
}

void tp_tile_reduce(const tp_tile_program *p, tp_reduction r, double parameter, uint64_t reduced, const tp_tile_loop *loop)
{
    tp_plan kept, over;
    tp_frame frame = { .set = tp_the_runtime.tile };
    tp_job job = { .kept = &kept, .over = &over, .frame = &frame };
    describe(&job, r, parameter, loop->compute);
    int input = job.outputs;
    tp_plan_init(&kept, loop, job.outputs + p->input_count, ~reduced);
    tp_plan_init(&over, loop, job.outputs + p->input_count, reduced);
    if (kept.elements == 0)
        return;
    job.count = over.elements;
    tp_plan_sort(&kept);
    tp_plan_coalesce(&kept);
    tp_frame_init(&frame, p, loop->compute, loop->scalar, kept.dtype + input);
    if (job.count == 0) {
        write_empty(&job);
        return;
    }
    tp_plan_coalesce(&over);
    bool bare = p->step_count == 0 && p->input_count == 1 && p->output[0] == 0 &&
                kept.dtype[input] == tp_compute_dtype(loop->compute);
    job.in_place = bare && over.ndim == 1 && over.stride[input][0] == frame.bytes;
    job.rows_in_place = bare && kept.stride[input][kept.ndim - 1] == frame.bytes;
    bool as_they_are = job.compute == loop->compute && (r <= TP_REDUCE_min || r == TP_REDUCE_mean);
    job.whole = as_they_are && job.in_place;
    job.rows_whole = as_they_are && job.rows_in_place && over.ndim == 1 && frame.set->fold_rows[job.compute][job.fold];
    if (tp_columns_suit(&job))
        tp_columns_run(&job);
    else
        run_job(&job);
}
