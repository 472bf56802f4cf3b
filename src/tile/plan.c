/* plan.c - dims dropped, sorted and merged. */
#include "tile/plan.h"

void tp_plan_init(tp_plan *plan, const tp_tile_loop *loop, int operands, uint64_t dims)
{
    plan->ndim = 0;
    plan->operands = operands;
    plan->elements = 1;
    for (int k = 0; k < operands; k++) {
        plan->data[k] = loop->operand[k].data;
        plan->dtype[k] = loop->operand[k].dtype;
    }
    for (int d = 0; d < loop->ndim; d++) {
        if (!(dims >> d & 1) || loop->size[d] == 1)
            continue;
        plan->size[plan->ndim] = loop->size[d];
        plan->elements *= loop->size[d];
        for (int k = 0; k < operands; k++)
            plan->stride[k][plan->ndim] = loop->operand[k].stride[d];
        plan->ndim++;
    }
    if (plan->ndim == 0) {
        plan->size[0] = 1;
        for (int k = 0; k < operands; k++)
            plan->stride[k][0] = (int64_t)tp_dtype_bytes(plan->dtype[k]);
        plan->ndim = 1;
    }
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* Does dim a belong outside dim b? The first operand that moves in both decides, outputs before inputs. */
static bool is_outside(const tp_plan *plan, int a, int b)
{
    for (int k = 0; k < plan->operands; k++) {
        int64_t sa = magnitude(plan->stride[k][a]), sb = magnitude(plan->stride[k][b]);
        if (sa && sb && sa != sb)
            return sa > sb;
    }
    return true;
}

void tp_plan_swap(tp_plan *plan, int a, int b)
{
    int64_t size = plan->size[a];
    plan->size[a] = plan->size[b];
    plan->size[b] = size;
    for (int k = 0; k < plan->operands; k++) {
        int64_t stride = plan->stride[k][a];
        plan->stride[k][a] = plan->stride[k][b];
        plan->stride[k][b] = stride;
    }
}

void tp_plan_sort(tp_plan *plan)
{
    for (int i = 1; i < plan->ndim; i++)
        for (int j = i; j > 0 && !is_outside(plan, j - 1, j); j--)
            tp_plan_swap(plan, j - 1, j);
}

static bool walk_as_one(const tp_plan *plan, int outer, int inner)
{
    for (int k = 0; k < plan->operands; k++)
        if (plan->stride[k][outer] != plan->size[inner] * plan->stride[k][inner])
            return false;
    return true;
}

void tp_plan_coalesce(tp_plan *plan)
{
    int last = 0;
    for (int d = 1; d < plan->ndim; d++) {
        bool one = walk_as_one(plan, last, d);
        int64_t size = one ? plan->size[last] * plan->size[d] : plan->size[d];
        last += !one;
        plan->size[last] = size;
        for (int k = 0; k < plan->operands; k++)
            plan->stride[k][last] = plan->stride[k][d];
    }
    plan->ndim = last + 1;
}

void tp_plan_seek(const tp_plan *plan, int first, int last, int64_t index, char **at)
{
    for (int d = last - 1; d >= first && index; d--) {
        int64_t i = d == first ? index : index % plan->size[d];
        index = d == first ? 0 : index / plan->size[d];
        for (int k = 0; k < plan->operands; k++)
            at[k] += i * plan->stride[k][d];
    }
}
