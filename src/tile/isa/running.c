/* running.c - running sums along a dense line of f32: added in order in f64, rounded at each output.
 *
 * In order, each sum waits for the one before it: one addition at a time, where the machine could make eight. So a block is
 * guessed in another order first, which waits once for four elements,
 *
 *     e0          e1          e2             e3           four elements
 *     e0          e0+e1       e2             e2+e3
 *     e0          e0+e1       e0+e1+e2       e0+e1+e2+e3
 *     s+…         s+…         s+…            s+…          sums, guessed; s is the last sum of the four before
 *
 * and then asked: is each sum the one before it plus its element, rounded once? Sums of which that holds are the sums in
 * order, by induction. It nearly always holds, since 24 bits added in 53 are seldom rounded. Where it does not, the line is
 * walked in order for a while: the reason is often still there. A zero is negative in either order only if all elements so
 * far were, so comparing values is enough; NaN equals nothing. Conversions are loops of their own because gcc 12 makes
 * slow ones between shuffles. */
#include "tile/isa/isa.h"

enum { LANES = 4, BLOCK = 128, WALK = 8 * BLOCK };

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), may_alias));
typedef double anywhere __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
typedef int64_t marks __attribute__((vector_size(LANES * sizeof(int64_t))));

static double walk(int64_t n, double sum, const float *x, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(sum += (double)x[i]);
    return sum;
}

/* A block after `*sum`; false: a sum is not the one in order, and nothing is written. */
static bool guess(double *sum, const float *x, float *to)
{
    const lanes none = { -0.0, -0.0, -0.0, -0.0 };      /* the neutral element of addition */
    _Alignas(32) double e[BLOCK], room[LANES + BLOCK], *sums = room + LANES;
    EACH(BLOCK)
        e[i] = (double)x[i];
    lanes before = *sum + none;
    for (int i = 0; i < BLOCK; i += LANES) {
        lanes four = *(const lanes *)(e + i);
        four += __builtin_shufflevector(none, four, 0, 4, 2, 6);
        four += __builtin_shufflevector(none, four, 0, 1, 5, 5);
        *(lanes *)(sums + i) = before + four;
        before += __builtin_shufflevector(four, four, 3, 3, 3, 3);
    }
    marks wrong = { 0 };
    sums[-1] = *sum;
    for (int i = 0; i < BLOCK; i += LANES)
        wrong |= *(const anywhere *)(sums + i - 1) + *(const lanes *)(e + i) != *(const lanes *)(sums + i);
    if (wrong[0] | wrong[1] | wrong[2] | wrong[3])
        return false;
    EACH(BLOCK)
        to[i] = (float)sums[i];
    *sum = sums[BLOCK - 1];
    return true;
}

void TP_ISA(tp_tile_running_f32)(int64_t n, const float *x, float *to);
void TP_ISA(tp_tile_running_f32)(int64_t n, const float *x, float *to)
{
    double sum = -0.0;
    int64_t i = 0;
    while (i + BLOCK <= n) {
        if (guess(&sum, x + i, to + i)) {
            i += BLOCK;
            continue;
        }
        int64_t step = n - i < WALK ? n - i : WALK;
        sum = walk(step, sum, x + i, to + i);
        i += step;
    }
    walk(n - i, sum, x + i, to + i);
}
