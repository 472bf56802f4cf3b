/* tile.h - tile programs: the one executor of element-wise loops and reductions.
 *
 * A program is a short list of steps over registers; a register is a tile of up to TP_TILE elements of one compute type.
 *
 *     r0 r1      inputs, converted from their storage type when loaded (used in place when no conversion is needed)
 *     r2         scalars of the call: the same value in every lane
 *     r3 = mul r1 r2
 *     r4 = add r0 r3      outputs are converted to their storage type when stored
 *
 * Always: one compute type a program run; the same bits from every instruction set and thread count (docs/numerics.md);
 * data need only be aligned to its element; inputs and outputs are the same memory or do not overlap. */
#ifndef TP_TILE_TILE_H
#define TP_TILE_TILE_H

#include "tensor/dtype.h"

enum { TP_TILE = 1024, TP_TILE_OPERANDS = 16, TP_TILE_REGISTERS = 64 };

typedef enum tp_compute {
    TP_COMPUTE_f32, TP_COMPUTE_f64, TP_COMPUTE_i32, TP_COMPUTE_i64, TP_COMPUTE_c64, TP_COMPUTE_c128, TP_COMPUTE_COUNT
} tp_compute;

typedef enum tp_prim {
#define TP_PRIM(name, operands, types) TP_PRIM_##name,
#include "tile/prims.def"
#undef TP_PRIM
    TP_PRIM_COUNT
} tp_prim;

typedef enum tp_isa { TP_ISA_PLAIN, TP_ISA_AVX2, TP_ISA_AVX512, TP_ISA_COUNT } tp_isa;

typedef struct tp_tile_step {
    uint8_t prim;               /* tp_prim */
    uint8_t to, a, b, c;        /* registers; b and c unused by steps of fewer operands */
} tp_tile_step;

/* Registers: inputs first, then scalars, then temporaries in order of their step. No step: the output is an input or a
 * scalar itself (copy, cast, fill). */
typedef struct tp_tile_program {
    const tp_tile_step *step;
    uint8_t step_count, input_count, scalar_count, register_count, output_count;
    uint8_t output[4];          /* registers that are stored */
} tp_tile_program;

/* Memory seen by a loop; strides in bytes, one per dim of the loop, 0 where it does not move. */
typedef struct tp_tile_operand {
    void          *data;
    uint8_t        dtype;       /* tp_dtype */
    const int64_t *stride;
} tp_tile_operand;

/* Operands: outputs first, then inputs. */
typedef struct tp_tile_loop {
    uint8_t          ndim;
    uint8_t          compute;   /* tp_compute */
    const int64_t   *size;      /* outermost first; any may be 0 */
    const tp_scalar *scalar;    /* as many as the program has */
    tp_tile_operand  operand[TP_TILE_OPERANDS];
} tp_tile_loop;

static inline int64_t tp_compute_bytes(int compute)
{
    return (const uint8_t[]){ 4, 8, 4, 8, 8, 16 }[compute];
}
TP_API bool tp_tile_has(tp_prim prim, tp_compute compute);      /* does the type have the step? */
TP_API tp_compute tp_tile_compute(tp_dtype d);                  /* i8 -> i32, f16 -> f32, b8 -> i32 … */
TP_API void tp_tile_run(const tp_tile_program *p, const tp_tile_loop *loop);

/* The shortest way for small contiguous operands of one storage type that is its own compute type (f32, f64, i32, i64,
 * c64, c128) and a program of one step: no loop is built. `in` are element pointers, n at most TP_TILE. */
TP_API void tp_tile_run_small(tp_prim prim, tp_compute compute, int64_t n, void *out, const void *const *in);

/* Reductions: the program computes the element to be reduced (no step: the input itself), then it is combined.
 * Sums run in 16 striped lanes and a fixed tree. */
typedef enum tp_reduction {
    TP_REDUCE_sum, TP_REDUCE_prod, TP_REDUCE_max, TP_REDUCE_min,    /* max and min: NaN wins */
    TP_REDUCE_any, TP_REDUCE_all,
    TP_REDUCE_argmax, TP_REDUCE_argmin,         /* the first of equals; output i64 */
    TP_REDUCE_max_index, TP_REDUCE_min_index,   /* two outputs: value, then index i64 */
    TP_REDUCE_mean,
    TP_REDUCE_var, TP_REDUCE_std,               /* parameter: correction */
    TP_REDUCE_var_mean, TP_REDUCE_std_mean,     /* two outputs */
    TP_REDUCE_norm,                             /* parameter: p (0, 1, 2, inf, -inf, other) of |x| */
    TP_REDUCE_count_nonzero,                    /* output i64 */
    TP_REDUCE_logsumexp,
    TP_REDUCE_COUNT
} tp_reduction;

/* `reduced` has bit d set for each reduced dim of the loop; outputs have stride 0 there. Dims are reduced in row-major
 * order of the loop, and indices count elements in that order. An empty max has no value: callers check before. */
TP_API void tp_tile_reduce(const tp_tile_program *p, tp_reduction r, double parameter, uint64_t reduced,
                           const tp_tile_loop *loop);

/* Scans along one dim of the loop: running sum, prod, max or min, of one input. max_index and min_index have a second
 * output, i64 indices of where the running value was last taken. Sums and products run in f64, i64 or c128. */
TP_API void tp_tile_scan(tp_reduction r, int dim, const tp_tile_loop *loop);

#endif
