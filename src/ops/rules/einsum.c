/* einsum.c - sums of products over named dims.
 *
 *     "bij,bjk->bik"      every operand is brought to the dims  b i k | j : the output's first, then those that are summed,
 *                         with size 1 where it has no such name; operands are then multiplied from left to right, and a dim
 *                         is summed with the last product that has it.
 *
 * A product with a sum is one bmm: dims of both operands are batch, of the left one rows, of the right one columns. */
#include "base/alloc.h"
#include "ops/rules/rules.h"

enum { LETTERS = 52, ELLIPSIS = LETTERS };

/* ---- the equation ---- */
typedef struct names {
    int     count;
    uint8_t item[TP_MAX_DIMS];          /* letters in the order A-Z a-z; ELLIPSIS once */
    bool    open;                       /* has an ellipsis */
} names;

static int letter_of(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static char name_of(int letter)
{
    return (char)(letter < 26 ? 'A' + letter : 'a' + letter - 26);
}

static bool add_name(names *n, int item)
{
    if (n->count >= TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "einsum(): more than %d subscripts for one operand", TP_MAX_DIMS);
    n->item[n->count++] = (uint8_t)item;
    n->open |= item == ELLIPSIS;
    return true;
}

/* Reads names from *at up to a comma, an arrow or the end. operand < 0: the output. */
static bool read_names(const char *equation, size_t *at, int operand, names *n)
{
    *n = (names){ 0 };
    for (; equation[*at]; ++*at) {
        char c = equation[*at];
        if (c == ' ')
            continue;
        if (operand >= 0 && (c == ',' || (c == '-' && equation[*at + 1] == '>')))
            return true;
        if (c == '.') {
            if (n->open && operand >= 0)
                return tp_fail(TP_ERR_RUNTIME, "einsum(): found '.' for operand %d for which an ellipsis was already found", operand);
            if (n->open)
                return tp_fail(TP_ERR_RUNTIME, "einsum(): found '.' for output but an ellipsis (...) was already found");
            if (strncmp(equation + *at, "...", 3)) {
                if (operand >= 0)
                    return tp_fail(TP_ERR_RUNTIME, "einsum(): found '.' for operand %d that is not part of any ellipsis", operand);
                return tp_fail(TP_ERR_RUNTIME, "einsum(): found '.' for output that is not part of any ellipsis (...)");
            }
            *at += 2;
            if (!add_name(n, ELLIPSIS))
                return false;
            continue;
        }
        if (letter_of(c) < 0)
            return tp_fail(TP_ERR_RUNTIME, "einsum(): invalid subscript given at index %zu in the equation string, subscripts must be in [a-zA-Z]", *at);
        if (!add_name(n, letter_of(c)))
            return false;
    }
    return true;
}

typedef struct plan {
    names *operand;                     /* owned */
    uint32_t operands;
    names output;
    int    width;                       /* dims that the ellipsis stands for, at most */
    int    place[LETTERS + 1];          /* of each letter, and of the ellipsis' first dim; -1: not there */
    int    kept, all;                   /* dims of the output, dims in all */
} plan;

static bool check_operand(const names *n, const tp_tensor *t, uint32_t i, int *width)
{
    int named = n->count - n->open;
    if (n->open && named > t->ndim)
        return tp_fail(TP_ERR_RUNTIME, "einsum(): the number of subscripts in the equation (%d) is more than the number of dimensions (%d) for operand %u",
                       named, t->ndim, i);
    if (!n->open && named != t->ndim)
        return tp_fail(TP_ERR_RUNTIME, "einsum(): the number of subscripts in the equation (%d) does not match the number of dimensions (%d) for operand "
                       "%u and no ellipsis was given", named, t->ndim, i);
    if (n->open && t->ndim - named > *width)
        *width = t->ndim - named;
    return true;
}

/* The output that is not written: the ellipsis, then the letters that appear once. */
static void implied_output(plan *p, const int *uses)
{
    p->output = (names){ 0 };
    bool open = false;
    for (uint32_t i = 0; i < p->operands; i++)
        open |= p->operand[i].open;
    if (open)
        (void)add_name(&p->output, ELLIPSIS);
    for (int l = 0; l < LETTERS; l++)
        if (uses[l] == 1)
            (void)add_name(&p->output, l);
}

static bool place_output(plan *p, const int *uses)
{
    for (int i = 0; i < p->output.count; i++) {
        int l = p->output.item[i];
        if (l != ELLIPSIS && p->place[l] >= 0)
            return tp_fail(TP_ERR_RUNTIME, "einsum(): output subscript %c appears more than once in the output", name_of(l));
        if (l != ELLIPSIS && !uses[l])
            return tp_fail(TP_ERR_RUNTIME, "einsum(): output subscript %c does not appear in the equation for any input operand", name_of(l));
        p->place[l] = p->kept;
        p->kept += l == ELLIPSIS ? p->width : 1;
    }
    return true;
}

static bool make_plan(plan *p, const char *equation, const tp_list *operands)
{
    int uses[LETTERS + 1] = { 0 };
    size_t at = 0;
    *p = (plan){ .operands = operands->count };
    memset(p->place, -1, sizeof p->place);
    if (!operands->count)
        return tp_fail(TP_ERR_RUNTIME, "einsum(): must provide at least one operand");
    if (!(p->operand = tp_alloc_array(operands->count, sizeof *p->operand)))
        return false;
    for (uint32_t i = 0;; i++) {
        if (i >= operands->count)
            return tp_fail(TP_ERR_RUNTIME, "einsum(): fewer operands were provided than specified in the equation");
        if (!read_names(equation, &at, (int)i, &p->operand[i]))
            return false;
        if (equation[at] == ',') {
            at++;
            continue;
        }
        if (i + 1 < operands->count)
            return tp_fail(TP_ERR_RUNTIME, "einsum(): more operands were provided than specified in the equation");
        break;
    }
    for (uint32_t i = 0; i < operands->count; i++) {
        if (!check_operand(&p->operand[i], operands->item[i].tensor, i, &p->width))
            return false;
        for (int k = 0; k < p->operand[i].count; k++)
            uses[p->operand[i].item[k]]++;
    }
    if (equation[at] == '-') {
        at += 2;
        if (!read_names(equation, &at, -1, &p->output))
            return false;
    } else {
        implied_output(p, uses);
    }
    if (!place_output(p, uses))
        return false;
    p->all = p->kept;
    if (p->place[ELLIPSIS] < 0) {
        p->place[ELLIPSIS] = p->all;
        p->all += p->width;
    }
    for (int l = 0; l < LETTERS; l++)
        if (uses[l] && p->place[l] < 0)
            p->place[l] = p->all++;
    return p->all <= TP_MAX_DIMS || tp_fail(TP_ERR_RUNTIME, "einsum(): more than %d dimensions", TP_MAX_DIMS);
}

/* ---- operands ---- */

/* Takes the diagonal for a name that is repeated; `dim_of` says which dim of x stands for each place, -1: none. */
static tp_value take_diagonals(tp_scope *scope, const plan *p, uint32_t number, tp_value x, int *dim_of)
{
    const names *n = &p->operand[number];
    int dim = 0;
    for (int k = 0; k < n->count && !scope->failed; k++) {
        int l = n->item[k], place = p->place[l];
        if (l == ELLIPSIS) {
            int own = x.tensor->ndim - dim - (n->count - k - 1);
            for (int j = p->width - own; j < p->width; j++)
                dim_of[place + j] = dim++;
            continue;
        }
        if (dim_of[place] < 0) {
            dim_of[place] = dim++;
            continue;
        }
        int first = dim_of[place];
        tp_sym a = tp_tensor_sym_size(x.tensor, first), b = tp_tensor_sym_size(x.tensor, dim);
        if (!tp_guard(tp_sym_eq(a, b), &scope->failed)) {
            if (!scope->failed)
                scope->failed = !tp_fail(TP_ERR_RUNTIME, "einsum(): subscript %c is repeated for operand %u but the sizes don't match, %lld != %lld",
                                         name_of(l), number, LL(x.tensor->size[dim]), LL(x.tensor->size[first]));
            return x;
        }
        x = tp_rule_call(scope, &tp_op_diagonal, 4, (tp_value[]){ x, tp_int(0), tp_int(first), tp_int(dim) });
        x = tp_rule_call(scope, &tp_op_movedim_int, 3, (tp_value[]){ x, tp_int(-1), tp_int(first) });
    }
    return x;
}

static tp_value permuted(tp_scope *scope, tp_value x, int n, const int *order)
{
    tp_value item[TP_MAX_DIMS];
    for (int i = 0; i < n; i++)
        item[i] = tp_int(order[i]);
    return tp_rule_call(scope, &tp_op_permute, 2, (tp_value[]){ x, tp_scope_list(scope, (uint32_t)n, item) });
}

static tp_value arranged(tp_scope *scope, const plan *p, uint32_t number, tp_value x)
{
    int dim_of[TP_MAX_DIMS];
    for (int i = 0; i < p->all; i++)
        dim_of[i] = -1;
    x = take_diagonals(scope, p, number, x, dim_of);
    for (int i = 0; i < p->all && !scope->failed; i++)
        if (dim_of[i] < 0) {
            dim_of[i] = x.tensor->ndim;
            x = tp_rule_call(scope, &tp_op_unsqueeze, 2, (tp_value[]){ x, tp_int(dim_of[i]) });
        }
    return permuted(scope, x, p->all, dim_of);
}

static bool is_one(tp_value x, int dim, bool *bad)
{
    return tp_guard(tp_sym_eq(tp_tensor_sym_size(x.tensor, dim), tp_sym_int(1)), bad);
}

/* Sizes of a name must agree in all operands, or be 1. */
static bool check_sizes(const plan *p, tp_value *x, bool *bad)
{
    for (int d = 0; d < p->all; d++) {
        tp_sym seen = tp_sym_int(1);
        for (uint32_t i = 0; i < p->operands && !*bad; i++) {
            if (is_one(x[i], d, bad))
                continue;
            tp_sym own = tp_tensor_sym_size(x[i].tensor, d);
            if (tp_sym_same(seen, tp_sym_int(1)))
                seen = own;
            else if (!tp_guard(tp_sym_eq(seen, own), bad) && !*bad) {
                int64_t before = 0;
                char name = '.';
                for (int l = 0; l < LETTERS; l++)
                    if (p->place[l] == d)
                        name = name_of(l);
                tp_sym_hint(seen, &before);
                if (name == '.')
                    return tp_fail(TP_ERR_RUNTIME, "einsum(): operands do not broadcast with remapped shapes [original->remapped]");
                return tp_fail(TP_ERR_RUNTIME, "einsum(): subscript %c has size %lld for operand %u which does not broadcast with previously seen size %lld",
                               name, LL(x[i].tensor->size[d]), i, LL(before));
            }
        }
    }
    return !*bad;
}

/* ---- the product of two ---- */
static tp_sym product_of(tp_value x, int count, const int *dim)
{
    tp_sym n = tp_sym_int(1);
    for (int i = 0; i < count; i++)
        n = tp_sym_mul(n, tp_tensor_sym_size(x.tensor, dim[i]));
    return n;
}

static tp_value summed(tp_scope *scope, tp_value x, int count, const int *dim, bool keep)
{
    tp_value item[TP_MAX_DIMS];
    for (int i = 0; i < count; i++)
        item[i] = tp_int(dim[i]);
    return tp_rule_call(scope, &tp_op_sum_dim_IntList, 3, (tp_value[]){ x, tp_scope_list(scope, (uint32_t)count, item), tp_bool(keep) });
}

static tp_value matrices(tp_scope *scope, tp_value x, int n, const int *order, tp_sym a, tp_sym b, tp_sym c)
{
    tp_value size[3] = { tp_of_sym(a), tp_of_sym(b), tp_of_sym(c) };
    return tp_rule_call(scope, &tp_op_reshape, 2, (tp_value[]){ permuted(scope, x, n, order), tp_scope_list(scope, 3, size) });
}

tp_value tp_rule_sum_product(tp_scope *scope, tp_value a, tp_value b, uint64_t sums, bool keep)
{
    int n = a.tensor->ndim, part[4][TP_MAX_DIMS], count[4] = { 0 };
    enum { BOTH, LEFT, SUM, RIGHT };
    if (!sums)
        return tp_rule_call(scope, &tp_op_mul_Tensor, 2, (tp_value[]){ a, b });
    for (int d = 0; d < n && !scope->failed; d++) {
        bool left = !is_one(a, d, &scope->failed), right = !is_one(b, d, &scope->failed);
        if (sums >> d & 1) {
            if (left && right)
                part[SUM][count[SUM]++] = d;
            else {
                if (left)
                    a = summed(scope, a, 1, &d, true);
                else if (right)
                    b = summed(scope, b, 1, &d, true);
                part[SUM][count[SUM]++] = d;
            }
        } else {
            int kind = left && right ? BOTH : left ? LEFT : RIGHT;
            part[kind][count[kind]++] = d;
        }
    }
    if (scope->failed)
        return tp_none();
    static const int left_order[4] = { BOTH, LEFT, SUM, RIGHT }, right_order[4] = { BOTH, SUM, RIGHT, LEFT };
    int order[2][TP_MAX_DIMS], back[TP_MAX_DIMS], filled[2] = { 0 };
    tp_syms size = { 0 };
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < count[left_order[k]]; i++) {
            int d = part[left_order[k]][i];
            back[d] = filled[0];
            order[0][filled[0]++] = d;
            tp_syms_add(&size, left_order[k] == SUM ? tp_sym_int(1) : tp_tensor_sym_size((left_order[k] == RIGHT ? b : a).tensor, d));
        }
        for (int i = 0; i < count[right_order[k]]; i++)
            order[1][filled[1]++] = part[right_order[k]][i];
    }
    tp_sym batch = product_of(a, count[BOTH], part[BOTH]), rows = product_of(a, count[LEFT], part[LEFT]);
    tp_sym inner = product_of(a, count[SUM], part[SUM]), columns = product_of(b, count[RIGHT], part[RIGHT]);
    tp_value left = matrices(scope, a, n, order[0], batch, rows, inner), right = matrices(scope, b, n, order[1], batch, inner, columns);
    tp_value product = tp_rule_call(scope, &tp_op_bmm, 2, (tp_value[]){ left, right });
    product = tp_rule_call(scope, &tp_op_view, 2, (tp_value[]){ product, tp_scope_syms(scope, &size) });
    product = permuted(scope, product, n, back);
    for (int d = n - 1; d >= 0 && !keep; d--)
        if (sums >> d & 1)
            product = tp_rule_call(scope, &tp_op_squeeze_dim, 2, (tp_value[]){ product, tp_int(d) });
    return product;
}

/* Multiplies two operands; a dim that no later operand has is summed. `uses` counts the operands that have a dim. */
static tp_value contracted(tp_scope *scope, const plan *p, tp_value a, tp_value b, int *uses)
{
    int alone[2][TP_MAX_DIMS], count[2] = { 0 };
    uint64_t sums = 0;
    for (int d = p->kept; d < p->all && !scope->failed; d++) {
        bool left = !is_one(a, d, &scope->failed), right = !is_one(b, d, &scope->failed);
        if (left && right) {
            if (--uses[d] == 1) {
                sums |= (uint64_t)1 << d;
                uses[d] = 0;
            }
        } else if (uses[d] == 1 && (left || right)) {
            alone[right][count[right]++] = d;
            uses[d] = 0;
        }
    }
    if (count[0])
        a = summed(scope, a, count[0], alone[0], true);
    if (count[1])
        b = summed(scope, b, count[1], alone[1], true);
    return scope->failed ? tp_none() : tp_rule_sum_product(scope, a, b, sums, true);
}

/* What is left of the summed dims: a lone operand sums them, products have summed them to size 1. */
static tp_value finished(tp_scope *scope, const plan *p, tp_value x, const int *uses)
{
    if (p->all == p->kept || scope->failed)
        return x;
    if (p->operands == 1) {
        int dim[TP_MAX_DIMS], count = 0;
        for (int d = p->kept; d < p->all; d++)
            dim[count++] = d;
        (void)uses;
        return summed(scope, x, count, dim, false);
    }
    tp_syms size = tp_syms_sizes(x.tensor);
    size.count = p->kept;
    return tp_rule_call(scope, &tp_op_view, 2, (tp_value[]){ x, tp_scope_syms(scope, &size) });
}

/* ---- the order of products ---- */

/* The next pair of `path`: positions in the list of what is left. Without a path the first two. */
static bool next_pair(const tp_value *path, int64_t *at, uint32_t left, int64_t *first, int64_t *second)
{
    *first = 0;
    *second = 1;
    if (path->tag != TP_LIST || tp_length(*path) == 0)
        return true;
    *first = tp_as_int(path->list->item[(*at)++]);
    *second = tp_as_int(path->list->item[(*at)++]);
    if (*first == *second || *first < 0 || *second < 0 || *first >= left || *second >= left)
        return tp_fail(TP_ERR_RUNTIME, "einsum(): invalid contraction path given, must be two distinct operands");
    if (*first > *second) {
        int64_t swap = *first;
        *first = *second;
        *second = swap;
    }
    return true;
}

static tp_value multiplied(tp_scope *scope, const plan *p, tp_value *x, tp_value path)
{
    int uses[TP_MAX_DIMS] = { 0 };
    uint32_t left = p->operands;
    int64_t at = 0, first, second;
    for (int d = p->kept; d < p->all; d++)
        for (uint32_t i = 0; i < left; i++)
            uses[d] += !is_one(x[i], d, &scope->failed);
    if (path.tag == TP_LIST && tp_length(path) && tp_length(path) != 2 * (left - 1)) {
        scope->failed = !tp_fail(TP_ERR_RUNTIME, "einsum(): expected contraction path given in path parameter to have size %u but got %u", 2 * (left - 1),
                                 tp_length(path));
        return tp_none();
    }
    while (left > 1 && !scope->failed) {
        if (!next_pair(&path, &at, left, &first, &second)) {
            scope->failed = true;
            break;
        }
        tp_value made = contracted(scope, p, x[first], x[second], uses);
        bool planned = path.tag == TP_LIST && tp_length(path);
        memmove(x + second, x + second + 1, (left - (uint32_t)second - 1) * sizeof *x);
        memmove(x + first, x + first + 1, (left - (uint32_t)first - 2) * sizeof *x);
        left--;
        if (!planned)
            memmove(x + 1, x, (left - 1) * sizeof *x);
        x[planned ? left - 1 : 0] = made;
    }
    return scope->failed ? tp_none() : finished(scope, p, x[0], uses);
}

/* einsum(equation, tensors, path) */
TP_HOOK_D(tp_d_einsum)
{
    tp_scope s = { 0 };
    plan p;
    const tp_list *l = arg[1].list;
    tp_value *x = NULL;
    (void)op;
    bool ok = make_plan(&p, arg[0].string->text, l) && (x = tp_alloc_array(l->count, sizeof *x));
    for (uint32_t i = 0; ok && i < l->count && !s.failed; i++)
        x[i] = arranged(&s, &p, i, l->item[i]);
    ok = ok && !s.failed && check_sizes(&p, x, &s.failed);
    tp_value made = ok ? multiplied(&s, &p, x, arg[2]) : tp_none();
    s.failed |= !ok;
    tp_free(x);
    tp_free(p.operand);
    return tp_rule_done(&s, made, result);
}
