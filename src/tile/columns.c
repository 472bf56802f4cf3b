/* columns.c - reductions over neighbouring outputs at once: the reduced dim is not the dense one.
 *
 *     row 0   x x x x x x x x ──► lane 0          row i of a strip goes to lane i mod 16 of its run of 256; after
 *     row 1   x x x x x x x x ──► lane 1          1024 rows the lanes are folded. A strip is up to 4 KB wide where
 *       …                                         rows are folded as they lie (the wider, the better they are
 *     row 16  x x x x x x x x ──► lane 0          fetched), else 1 KB, so that 16 lanes fit the first cache
 *
 * Very tall and narrow jobs are also cut along the rows: a part is a power of two of blocks, so that its result is a
 * node of the same binary tree. */
#include <string.h>

#include "base/pool.h"
#include "tile/job.h"

enum { LEVELS = 44, MOST_PARTS = 16, FEW_STRIPS = 4, NARROW = 1024 };
enum { LEAST_ROWS_SAVED = 64, WORTH_SPLITTING = 32768, CHUNK = 16384 };

typedef struct strips {
    const tp_job *job;
    int64_t width;                      /* columns of a strip */
    int64_t along, count;               /* strips along the innermost kept dim, and in all */
    int64_t strips_per_chunk;
    int64_t parts, blocks_per_part;
    char   *partial;                    /* [strip][part] rows of TP_STRIP, when there is more than one part */
} strips;

/* Strips combined as a binary counter: level l holds the fold of 2^l blocks. */
typedef struct cascade {
    uint64_t count;
    char     level[LEVELS][TP_STRIP];
} cascade;

static void cascade_push(cascade *c, tp_tile_fn *step, int64_t n, const char *strip, size_t bytes)
{
    int level = 0;
    for (uint64_t bit = c->count++; bit & 1; bit >>= 1, level++) {
        step(n, c->level[level], c->level[level], strip, NULL);
        strip = c->level[level];
    }
    memcpy(c->level[level], strip, bytes);
}

static char *cascade_finish(cascade *c, tp_tile_fn *step, int64_t n)
{
    char *result = NULL;
    for (int level = 0; level < LEVELS; level++) {
        if (!(c->count >> level & 1))
            continue;
        if (result)
            step(n, c->level[level], c->level[level], result, NULL);
        result = c->level[level];
    }
    return result;
}

bool tp_columns_suit(const tp_job *job)
{
    int inner = job->kept->ndim - 1, inner_over = job->over->ndim - 1;
    if (job->shape != TP_JOB_VALUE || job->kind == TP_REDUCE_logsumexp || job->count < 2 || job->kept->size[inner] < 8)
        return false;
    if (job->count <= LEAST_ROWS_SAVED)
        return true;
    for (int k = job->outputs; k < job->kept->operands; k++) {
        int64_t size = (int64_t)tp_dtype_bytes((tp_dtype)job->kept->dtype[k]);
        if (job->kept->stride[k][inner] == size && job->over->stride[k][inner_over] != size)
            return true;
    }
    return false;
}

static int64_t columns_of(const strips *s, int64_t strip)
{
    int64_t left = s->job->kept->size[s->job->kept->ndim - 1] - strip % s->along * s->width;
    return left < s->width ? left : s->width;
}

/* Lanes of a block to its first one: runs together, then a tree. A lane that no row reached is neutral: left out. */
static void fold_lanes(tp_tile_fn *step, int64_t n, int64_t rows, char (*lane)[TP_LANES][NARROW])
{
    int reached[TP_RUNS];
    for (int r = 0; r < TP_RUNS; r++) {
        int64_t left = rows - r * TP_RUN;
        reached[r] = left < 0 ? 0 : left < TP_LANES ? (int)left : TP_LANES;
    }
    for (int apart = 1; apart < TP_RUNS; apart *= 2)
        for (int r = 0; r < TP_RUNS; r += 2 * apart)
            for (int l = 0; l < reached[r + apart]; l++)
                step(n, lane[r][l], lane[r][l], lane[r + apart][l], NULL);
    for (int half = TP_LANES / 2; half; half /= 2)
        for (int l = 0; l < half && l + half < reached[0]; l++)
            step(n, lane[0][l], lane[0][l], lane[0][l + half], NULL);
}

/* The program's result for the row at `at`, which moves on to the next one. */
static const char *load_row(const tp_job *job, tp_tile_state *t, char **at, int64_t n)
{
    const tp_tile_program *p = job->frame->program;
    for (int k = 0; k < p->input_count; k++) {
        int operand = job->outputs + k;
        tp_patch patch = { 1, n, 0, job->kept->stride[operand][job->kept->ndim - 1] };
        tp_state_load(t, k, at[operand], &patch);
        at[operand] += job->over->stride[operand][job->over->ndim - 1];
    }
    tp_state_run(t, n, NULL);
    return tp_state_read(t, p->output[0], n);
}

/* One block of up to TP_BLOCK rows from position `first`, folded into lane[0][0]. */
static void fold_block(const strips *s, tp_tile_state *t, char *const *base, int64_t first, int64_t rows, int64_t n,
                       char (*lane)[TP_LANES][NARROW])
{
    const tp_job *job = s->job;
    const tp_plan *over = job->over;
    tp_tile_fn *step = tp_job_step(job);
    _Alignas(64) char buffer[NARROW * 4];
    int inner = over->ndim - 1;
    _Alignas(16) char one[16];
    char *at[TP_TILE_OPERANDS];
    job->frame->set->fold[job->compute][job->fold](0, one, one);
    for (int64_t i = 0; i < rows; i += i % TP_RUN == TP_LANES - 1 ? TP_RUN - TP_LANES + 1 : 1)
        job->frame->set->move[__builtin_ctz((unsigned)job->bytes)](1, n, lane[i / TP_RUN][i % TP_RUN], 0, job->bytes, one, 0, 0);
    for (int64_t i = 0; i < rows; i++) {
        int64_t position = first + i;
        if (i == 0 || position % over->size[inner] == 0) {
            memcpy(at, base, (size_t)over->operands * sizeof *at);
            tp_plan_seek(over, 0, over->ndim, position, at);
        }
        const char *row = at[job->outputs];
        if (job->rows_in_place)
            at[job->outputs] += over->stride[job->outputs][inner];
        else
            row = load_row(job, t, at, n);
        row = tp_job_prepare(job, n, row, buffer);
        char *to = lane[i / TP_RUN][i % TP_LANES];
        step(n, to, to, row, NULL);
    }
    fold_lanes(step, n, rows, lane);
}

static void seek_strip(const strips *s, int64_t strip, char **at)
{
    const tp_plan *kept = s->job->kept;
    int inner = kept->ndim - 1;
    for (int k = 0; k < kept->operands; k++)
        at[k] = kept->data[k] + strip % s->along * s->width * kept->stride[k][inner];
    tp_plan_seek(kept, 0, inner, strip / s->along, at);
}

/* Blocks [first, last) of a strip into the cascade: rows are loaded and prepared, */
static void fold_loaded(const strips *s, char *const *base, int64_t first, int64_t last, int64_t n, cascade *c)
{
    const tp_job *job = s->job;
    _Alignas(64) char scratch[TP_SCRATCH];
    _Alignas(64) char lane[TP_RUNS][TP_LANES][NARROW];
    tp_tile_state t;
    tp_state_init(&t, job->frame, scratch);
    for (int64_t block = first; block < last; block++) {
        int64_t rows = job->count - block * TP_BLOCK;
        fold_block(s, &t, base, block * TP_BLOCK, rows < TP_BLOCK ? rows : TP_BLOCK, n, lane);
        cascade_push(c, tp_job_step(job), n, lane[0][0], (size_t)(n * job->bytes));
    }
}

/* or folded where they lie. */
static void fold_in_place(const strips *s, char *const *base, int64_t first, int64_t last, int64_t n, cascade *c)
{
    const tp_job *job = s->job;
    tp_fold_rows_fn *fold = job->frame->set->fold_rows[job->compute][job->fold];
    int64_t stride = job->over->stride[job->outputs][0];
    _Alignas(64) char folded[TP_STRIP];
    for (int64_t block = first; block < last; block++) {
        int64_t rows = job->count - block * TP_BLOCK;
        fold(rows < TP_BLOCK ? rows : TP_BLOCK, n, folded, base[job->outputs] + block * TP_BLOCK * stride, stride);
        cascade_push(c, tp_job_step(job), n, folded, (size_t)(n * job->bytes));
    }
}

/* Folds blocks [first, last) of one strip; the result is in the cascade. */
static char *fold_part(const strips *s, int64_t strip, int64_t first, int64_t last, cascade *c)
{
    char *base[TP_TILE_OPERANDS];
    seek_strip(s, strip, base);
    c->count = 0;
    (s->job->rows_whole ? fold_in_place : fold_loaded)(s, base, first, last, columns_of(s, strip), c);
    return cascade_finish(c, tp_job_step(s->job), columns_of(s, strip));
}

static void write_strip(const strips *s, int64_t strip, char *values)
{
    const tp_job *job = s->job;
    const tp_tile_set *set = job->frame->set;
    int inner = job->kept->ndim - 1;
    int64_t n = columns_of(s, strip);
    char *to[TP_TILE_OPERANDS];
    seek_strip(s, strip, to);
    tp_job_finish(job, n, values);
    tp_dtype dtype = (tp_dtype)job->kept->dtype[0];
    int64_t size = (int64_t)tp_dtype_bytes(dtype);
    _Alignas(64) char converted[TP_STRIP * 4];
    set->store[job->compute][dtype](n, converted, values);
    tp_patch patch = { 1, n, 0, job->kept->stride[0][inner] };
    tp_patch_move(set, (size_t)size, to[0], &patch, converted, 0, size);
}

static void run_strips(void *work, int64_t index, int64_t count)
{
    (void)count;
    const strips *s = work;
    cascade c;
    int64_t blocks = (s->job->count + TP_BLOCK - 1) / TP_BLOCK;
    int64_t end = (index + 1) * s->strips_per_chunk;
    for (int64_t strip = index * s->strips_per_chunk; strip < end && strip < s->count; strip++)
        write_strip(s, strip, fold_part(s, strip, 0, blocks, &c));
}

static void run_part(void *work, int64_t index, int64_t count)
{
    (void)count;
    const strips *s = work;
    cascade c;
    int64_t blocks = (s->job->count + TP_BLOCK - 1) / TP_BLOCK;
    int64_t first = index % s->parts * s->blocks_per_part, last = first + s->blocks_per_part;
    char *result = fold_part(s, index / s->parts, first, last < blocks ? last : blocks, &c);
    memcpy(s->partial + index * TP_STRIP, result, (size_t)(columns_of(s, index / s->parts) * s->job->bytes));
}

static void run_parts(strips *s)
{
    _Alignas(64) char partial[FEW_STRIPS * MOST_PARTS * TP_STRIP];
    cascade c;
    s->partial = partial;
    tp_pool_run(s->count * s->parts, run_part, s);
    for (int64_t strip = 0; strip < s->count; strip++) {
        int64_t n = columns_of(s, strip);
        c.count = 0;
        for (int64_t part = 0; part < s->parts; part++)
            cascade_push(&c, tp_job_step(s->job), n, partial + (strip * s->parts + part) * TP_STRIP,
                         (size_t)(n * s->job->bytes));
        write_strip(s, strip, cascade_finish(&c, tp_job_step(s->job), n));
    }
}

/* Where rows lie as they are folded strips are wide, but every thread should have two or so. */
static void choose_strips(strips *s, int64_t elements)
{
    const tp_job *job = s->job;
    int64_t inner = job->kept->size[job->kept->ndim - 1], blocks = (job->count + TP_BLOCK - 1) / TP_BLOCK;
    for (s->blocks_per_part = 1; (blocks + s->blocks_per_part - 1) / s->blocks_per_part > MOST_PARTS;)
        s->blocks_per_part *= 2;
    s->parts = (blocks + s->blocks_per_part - 1) / s->blocks_per_part;
    s->width = (job->rows_whole ? TP_STRIP : NARROW) / job->bytes;
    if (!job->rows_whole && s->width > job->frame->tile)
        s->width = job->frame->tile;
    int64_t wanted = elements < WORTH_SPLITTING || tp_pool_threads() == 1 ? 1 : 2 * tp_pool_threads();
    for (;; s->width /= 2) {
        s->along = (inner + s->width - 1) / s->width;
        s->count = s->along * (job->kept->elements / inner);
        if (s->count * s->parts >= wanted || s->width * job->bytes <= NARROW)
            return;
    }
}

void tp_columns_run(const tp_job *job)
{
    int64_t elements = job->kept->elements * job->count;
    strips s = { .job = job };
    choose_strips(&s, elements);
    if (s.count <= FEW_STRIPS && s.parts > 1 && elements >= WORTH_SPLITTING) {
        run_parts(&s);
        return;
    }
    int64_t chunks = elements < WORTH_SPLITTING ? 1 : elements / CHUNK;
    chunks = chunks > s.count ? s.count : chunks;
    s.strips_per_chunk = (s.count + chunks - 1) / chunks;
    tp_pool_run((s.count + s.strips_per_chunk - 1) / s.strips_per_chunk, run_strips, &s);
}
