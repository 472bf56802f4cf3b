/* choose.c - which instruction set runs tile programs, and what its tables hold.
 *
 * CPUID decides once, when the library is loaded; TAPER_ISA=plain|avx2|avx512 asks for a lesser one. */
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime.h"
#include "tile/set.h"

static tp_isa best_of_machine(void)
{
    __builtin_cpu_init();
    unsigned a, b, c, d;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);       /* gcc 12 knows no name for it */
    bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return TP_ISA_AVX512;
    return avx2 ? TP_ISA_AVX2 : TP_ISA_PLAIN;
}

const tp_tile_set *tp_tile_set_of(tp_isa isa)
{
    static const tp_tile_set *const sets[] = { &tp_tile_set_plain, &tp_tile_set_avx2, &tp_tile_set_avx512 };
    return isa <= best_of_machine() ? sets[isa] : NULL;
}

__attribute__((constructor(102))) static void choose(void)
{
    static const char *const names[] = { "plain", "avx2", "avx512" };
    const char *wish = getenv("TAPER_ISA");
    tp_isa isa = best_of_machine();
    for (tp_isa i = 0; wish && i < isa; i++)
        if (strcmp(wish, names[i]) == 0)
            isa = i;
    tp_the_runtime.instruction_set = isa;
    tp_the_runtime.tile = tp_tile_set_of(isa);
}

bool tp_tile_has(tp_prim prim, tp_compute compute)
{
    return prim < TP_PRIM_COUNT && tp_the_runtime.tile->step[compute][prim][TP_FORM_VECTORS] != NULL;
}

tp_compute tp_tile_compute(tp_dtype d)
{
    switch (d) {
    case TP_i64:  return TP_COMPUTE_i64;
    case TP_f16: case TP_bf16: case TP_f32: return TP_COMPUTE_f32;
    case TP_f64:  return TP_COMPUTE_f64;
    case TP_c64:  return TP_COMPUTE_c64;
    case TP_c128: return TP_COMPUTE_c128;
    default:      return TP_COMPUTE_i32;
    }
}

void tp_tile_run_small(tp_prim prim, tp_compute compute, int64_t n, void *out, const void *const *in)
{
    tp_tile_fn *step = tp_the_runtime.tile->step[compute][prim][TP_FORM_VECTORS];
    int operands = tp_tile_operands(prim);
    step(n, out, in[0], operands > 1 ? in[1] : NULL, operands > 2 ? in[2] : NULL);
}
