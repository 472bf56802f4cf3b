/* check.c - inputs of a program against what export promised of them.
 *
 * For each size, in PyTorch's order: the symbol unifies with values already seen; a size that is an expression of one unseen
 * symbol is solved for it; then bounds. A lower bound up to 2 is not enforced, so that sizes 0 and 1 pass an ordinary Dim. */
#include <string.h>

#include "base/array.h"
#include "export/constraints.h"
#include "export/signature.h"
#include "ops/symbolic.h"
#include "sym/env.h"

typedef struct checking {
    tp_array(tp_binding) seen;
    const char *path;           /* of the input at hand; borrowed */
    int dim;
} checking;

static bool expect_equal(const checking *c, int64_t want, int64_t got)
{
    if (want == got)
        return true;
    return tp_fail(TP_ERR_RUNTIME, "Expected input at %s.shape[%d] to be equal to %lld, but got %lld", c->path, c->dim, LL(want), LL(got));
}

static bool check_bounds(const checking *c, tp_sym x, tp_sym symbol, int64_t got)
{
    tp_range r = tp_sym_range(x);
    if (tp_symbol_of(symbol)->range.low > TP_LEAST_CHECKED_SIZE && got < r.low)
        return tp_fail(TP_ERR_RUNTIME, "Expected input at %s.shape[%d] to be >= %lld, but got %lld", c->path, c->dim, LL(r.low), LL(got));
    if (got > r.high)
        return tp_fail(TP_ERR_RUNTIME, "Expected input at %s.shape[%d] to be <= %lld, but got %lld", c->path, c->dim, LL(r.high), LL(got));
    return true;
}

static const tp_binding *find(const checking *c, tp_sym symbol)
{
    for (size_t i = 0; i < c->seen.count; i++)
        if (tp_sym_same(c->seen.item[i].symbol, symbol))
            return &c->seen.item[i];
    return NULL;
}

static bool fail_form(const checking *c, tp_sym x, tp_sym symbol, int64_t got)
{
    tp_text form = { 0 }, root = { 0 };
    tp_sym_print(x, &form);
    tp_sym_print(symbol, &root);
    (void)tp_fail(TP_ERR_RUNTIME, "Expected input %s.shape[%d] = %lld to be of the form %s, where %s is an integer", c->path, c->dim,
                  LL(got), tp_text_read(&form), tp_text_read(&root));
    tp_text_fini(&form);
    tp_text_fini(&root);
    return false;
}

/* want = factor * symbol + offset, by its values at 0 and 1, solved for the symbol. False: there is no such integer. */
static bool solve(tp_sym want, tp_sym symbol, int64_t got, int64_t *root)
{
    int64_t at[2], value;
    for (int i = 0; i < 2; i++)
        if (!tp_sym_eval(want, &(tp_binding){ symbol, tp_sym_int(i) }, 1, &at[i]))
            return false;
    int64_t factor, rest;
    if (__builtin_sub_overflow(at[1], at[0], &factor) || __builtin_sub_overflow(got, at[0], &rest) || factor <= 0 || rest % factor)
        return false;
    *root = rest / factor;
    return tp_sym_eval(want, &(tp_binding){ symbol, tp_sym_int(*root) }, 1, &value) && value == got;
}

static bool check_size(checking *c, tp_sym want, int64_t got)
{
    tp_sym symbol[2];
    if (tp_sym_is_int(want))
        return expect_equal(c, tp_sym_as_int(want), got);
    if (tp_sym_free_symbols(want, symbol, 2) != 1)
        return true;            /* several symbols: not checked here, as in PyTorch */
    const tp_binding *known = find(c, symbol[0]);
    int64_t value;
    if (known)
        return tp_sym_eval(want, known, 1, &value) && expect_equal(c, value, got) && check_bounds(c, want, symbol[0], got);
    if (!solve(want, symbol[0], got, &value)) {
        tp_error_clear();
        return fail_form(c, want, symbol[0], got);
    }
    tp_binding b = { symbol[0], tp_sym_int(value) };
    return tp_array_push(&c->seen, b) && check_bounds(c, want, symbol[0], got);
}

/* ---- symbolic inputs: the call is being traced ---- */
static bool fail_bound(const checking *c, const char *text, int64_t bound, tp_sym got)
{
    tp_text shown = { 0 };
    tp_sym_print(got, &shown);
    (void)tp_fail(TP_ERR_RUNTIME, "Expected input at %s.shape[%d] to be %s %lld, but got %s", c->path, c->dim, text, LL(bound),
                  tp_text_read(&shown));
    tp_text_fini(&shown);
    return false;
}

static bool ask(const checking *c, tp_compare how, tp_sym got, int64_t bound)
{
    static const char *const texts[] = { [TP_EQ] = "equal to", [TP_GE] = ">=", [TP_LE] = "<=" };
    bool answer;
    return tp_sym_guard(tp_sym_compare(how, got, tp_sym_int(bound)), &answer) && (answer || fail_bound(c, texts[how], bound, got));
}

static bool ask_size(checking *c, tp_sym want, tp_sym got)
{
    tp_sym symbol[2];
    int64_t factor, offset;
    if (tp_sym_is_int(want))
        return ask(c, TP_EQ, got, tp_sym_as_int(want));
    if (tp_sym_free_symbols(want, symbol, 2) != 1 || !tp_size_is_linear(want, symbol[0], &factor, &offset))
        return true;
    const tp_binding *known = find(c, symbol[0]);
    tp_sym rest = tp_sym_sub(got, tp_sym_int(offset)), root = tp_sym_floordiv(rest, tp_sym_int(factor));
    bool answer, form = factor == 1 || (tp_sym_guard(tp_sym_eq(tp_sym_mod(rest, tp_sym_int(factor)), tp_sym_int(0)), &answer) && answer);
    if (!form || (known && !(tp_sym_guard(tp_sym_eq(root, known->value), &answer) && answer)))
        return tp_error_kind() != TP_ERR_NONE ? false : fail_bound(c, "another multiple of size", factor, got);
    tp_binding b = { symbol[0], root };
    tp_range r = tp_sym_range(want);
    return (known || tp_array_push(&c->seen, b)) &&
           (tp_symbol_of(symbol[0])->range.low <= TP_LEAST_CHECKED_SIZE || ask(c, TP_GE, got, r.low)) &&
           (r.high == INT64_MAX || r.high >= INT64_MAX - factor || ask(c, TP_LE, got, r.high));
}

static bool check_tensor(checking *c, const tp_tensor *want, tp_value got)
{
    if (got.tag != TP_TENSOR)
        return tp_fail(TP_ERR_RUNTIME, "Expected input at %s to be a tensor", c->path);
    const tp_tensor *t = got.tensor;
    if (t->ndim != want->ndim)
        return tp_fail(TP_ERR_RUNTIME, "Unexpected number of dimensions in input at %s.shape, expected %d, got %d", c->path, want->ndim,
                       t->ndim);
    for (c->dim = 0; c->dim < want->ndim; c->dim++)
        if (tp_tensor_is_symbolic(t) ? !ask_size(c, tp_tensor_sym_size(want, c->dim), tp_tensor_sym_size(t, c->dim))
                                     : !check_size(c, tp_tensor_sym_size(want, c->dim), t->size[c->dim]))
            return false;
    return true;
}

/* Texts without quotes, as str() shows them. */
static void print_plain(tp_value v, tp_text *out)
{
    if (v.tag == TP_STRING)
        tp_text_put(out, v.string->text, v.string->length);
    else
        tp_value_print(v, out);
}

static bool check_constant(const checking *c, tp_value want, tp_value got)
{
    if (want.tag == TP_NONE || (want.tag == got.tag && tp_value_equal(want, got)))
        return true;
    tp_text w = { 0 }, g = { 0 };
    print_plain(want, &w);
    print_plain(got, &g);
    (void)tp_fail(TP_ERR_RUNTIME, "Expected input at %s to be equal to %s, but got %s", c->path, tp_text_read(&w), tp_text_read(&g));
    tp_text_fini(&w);
    tp_text_fini(&g);
    return false;
}

/* What a program writes to an input is its own: tensors that share memory with it were separate ones when it was traced. */
static bool check_written(const tp_signature *s, const tp_value *input, size_t count)
{
    for (size_t o = 0; o < s->output_count; o++) {
        const tp_tensor *written = NULL;
        size_t i = 0, at = 0;
        for (size_t row = 0; s->output[o].kind == TP_OUTPUT_INPUT && row < s->input_count; row++)
            if (s->input[row].kind == TP_INPUT_USER && i++ < count && strcmp(s->input[row].name, s->output[o].target) == 0)
                written = tp_as_tensor(input[at = i - 1]);
        for (i = 0; written && i < count; i++) {
            const tp_tensor *t = tp_as_tensor(input[i]);
            if (i != at && t && !tp_tensor_is_symbolic(t) && tp_tensor_overlaps(t, written))
                return tp_fail(TP_ERR_UNIMPLEMENTED, "the program writes to its input '%s', which shares memory with another input: that is not "
                               "implemented in Taper yet", s->output[o].target);
        }
    }
    return true;
}

bool tp_inputs_check(const tp_graph *g, const tp_signature *s, const tp_value *input, size_t count, tp_input_path *path, void *data)
{
    checking c = { 0 };
    size_t row = 0, i = 0;
    bool ok = true;
    for (tp_node *n = tp_graph_first(g); ok && !tp_node_is_root(n); n = n->next) {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        if (row >= s->input_count || s->input[row++].kind != TP_INPUT_USER)
            continue;
        if (i >= count)
            break;
        c.path = path(data, i);
        if (n->fact.tag == TP_TENSOR)
            ok = check_tensor(&c, n->fact.tensor, input[i]);
        else if (n->fact.tag != TP_SYM)
            ok = check_constant(&c, n->fact, input[i]);
        i++;
    }
    tp_array_fini(&c.seen);
    return ok && check_written(s, input, count);
}
