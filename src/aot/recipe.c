/* recipe.c - how a view was made, kept so that it can be made again of another base. */
#include "aot/facts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct move {
    const tp_op *op;
    int64_t index;              /* of several results; -1: the only one */
    tp_value *arg;              /* owned: op->arg_count, the first is none */
} move;

struct tp_recipe {
    tp_array(move) moves;
};

enum { MOST_ARGS = 64, MOST_RESULTS = 8 };

static void move_fini(move *m)
{
    if (m->arg)
        tp_values_unref(m->arg, m->op->arg_count);
    tp_free(m->arg);
}

void tp_recipe_free(tp_recipe *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->moves.count; i++)
        move_fini(&r->moves.item[i]);
    tp_array_fini(&r->moves);
    tp_free(r);
}

/* ---- reading one from a wrapper ---- */
typedef struct reading {
    tp_recipe *recipe;
    bool failed, symbolic;
} reading;

static bool has_symbol(tp_value v)
{
    for (uint32_t i = 0; i < tp_length(v); i++)
        if (has_symbol(v.list->item[i]))
            return true;
    return v.tag == TP_SYM || v.tag == TP_TENSOR;
}

static bool note_move(const tp_op *op, const tp_value *arg, int64_t index, void *user)
{
    reading *r = user;
    move m = { .op = op, .index = index, .arg = tp_alloc_array(op->arg_count, sizeof *arg) };
    if (!m.arg)
        return !(r->failed = true);
    for (int i = 0; i < op->arg_count; i++) {
        r->symbolic |= has_symbol(arg[i]);
        m.arg[i] = tp_value_ref(arg[i]);
        r->failed |= m.arg[i].tag != arg[i].tag;
    }
    if (r->failed || !tp_array_push(&r->recipe->moves, m)) {
        move_fini(&m);
        return !(r->failed = true);
    }
    return true;
}

static tp_recipe *read_views(const tp_tensor *wrapper, bool *symbolic)
{
    reading r = { .recipe = tp_alloc_zero(sizeof *r.recipe) };
    if (!r.recipe)
        return NULL;
    (void)tp_functional_each_view(wrapper, note_move, &r);
    *symbolic = r.symbolic;
    if (!r.failed)
        return r.recipe;
    tp_recipe_free(r.recipe);
    return NULL;
}

static bool same_move(const move *a, const move *b)
{
    bool same = a->op == b->op && a->index == b->index;
    for (int i = 1; same && i < a->op->arg_count; i++)
        same = tp_value_equal(a->arg[i], b->arg[i]);
    return same;
}

/* Takes the first moves away when they are those of `start`; false: they are others. */
static bool cut_start(tp_recipe *r, const tp_recipe *start)
{
    size_t n = start->moves.count;
    if (n > r->moves.count)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!same_move(&r->moves.item[i], &start->moves.item[i]))
            return false;
    for (size_t i = 0; i < n; i++)
        move_fini(&r->moves.item[i]);
    r->moves.count -= n;
    memmove(r->moves.item, r->moves.item + n, r->moves.count * sizeof *r->moves.item);
    return true;
}

tp_recipe *tp_recipe_between(const tp_tensor *base, const tp_tensor *view, bool *none)
{
    bool symbolic, base_symbolic;
    *none = false;
    tp_recipe *start = read_views(base, &base_symbolic), *whole = start ? read_views(view, &symbolic) : NULL;
    if (whole && (!tp_functional_share(base, view) || symbolic || !cut_start(whole, start))) {
        *none = true;
        tp_recipe_free(whole);
        whole = NULL;
    }
    tp_recipe_free(start);
    return whole;
}

/* ---- following it ---- */
static tp_tensor *make_move(const move *m, tp_tensor *at)
{
    tp_value arg[MOST_ARGS], result[MOST_RESULTS];
    tp_tensor *seen = NULL;
    memcpy(arg, m->arg, m->op->arg_count * sizeof *arg);
    arg[0] = tp_of_tensor(at);
    if (!tp_call(m->op, arg, result))
        return NULL;
    bool list = m->index >= 0 && result[0].tag == TP_LIST;
    tp_value one = !list ? result[0] : m->index < result[0].list->count ? result[0].list->item[m->index] : tp_none();
    if (one.tag == TP_TENSOR)
        seen = tp_tensor_ref(one.tensor);
    else
        (void)tp_fail(TP_ERR_RUNTIME, "%s gives fewer views than it did when the program was traced", m->op->name);
    tp_values_unref(result, m->op->result_count);
    return seen;
}

tp_tensor *tp_recipe_follow(const tp_recipe *r, tp_tensor *base)
{
    tp_tensor *at = tp_tensor_ref(base);
    for (size_t i = 0; at && i < r->moves.count; i++) {
        tp_tensor *next = make_move(&r->moves.item[i], at);
        tp_tensor_unref(at);
        at = next;
    }
    return at;
}
