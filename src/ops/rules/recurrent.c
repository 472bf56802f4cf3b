/* recurrent.c - recurrent layers as calls of ops.
 *
 *     for each layer, for each direction:     gates = linear(input, w_ih, b_ih), all steps at once
 *         for each step:                      state = cell(gates of the step, state)
 *         outputs joined; directions side by side; dropped out between layers
 *
 * A sequence is a tensor whose first dim is time, or packed: rows of all steps below each other and how many belong to each
 * step, never rising. Sequences that end early leave their state behind; read backwards they join later. A step has a scope of
 * its own, so that what it makes on its way does not live until the sequence ends. */
#include "base/alloc.h"
#include "ops/copy.h"
#include "ops/rules/rules.h"

typedef struct state {
    tp_value h, c;                  /* c: of an LSTM alone */
} state;

typedef struct weights {
    tp_value ih, hh, b_ih, b_hh, hr;
} weights;

/* x: the input's part of the gates when it is `ready`, else the input. */
typedef state cell_fn(tp_scope *scope, tp_value x, bool ready, const weights *w, state st);

typedef struct net {
    cell_fn *cell;
    bool     lstm, biases, train, bidirectional, batch_first;
    int64_t  layers;
    double   dropout;
    tp_value params, h, c;          /* lists of tensors */
    int64_t *batch_size;            /* owned; of a packed sequence, else NULL */
    int64_t  steps;
} net;

/* ---- cells ---- */
static tp_value linear(tp_scope *scope, tp_value x, tp_value weight, tp_value bias)
{
    return RUN(linear, x, weight, bias);
}

static tp_value input_gates(tp_scope *scope, tp_value x, bool ready, const weights *w)
{
    return ready ? x : linear(scope, x, w->ih, w->b_ih);
}

/* The state'scope part and the input'scope, which is computed second. */
static tp_value gates_of(tp_scope *scope, tp_value x, bool ready, const weights *w, state st)
{
    tp_value hidden = linear(scope, st.h, w->hh, w->b_hh);
    return RUN(add__Tensor, hidden, input_gates(scope, x, ready, w));
}

/* n equal parts along the columns */
static tp_value parts(tp_scope *scope, tp_value gates, int64_t n)
{
    if (scope->failed)
        return tp_none();
    if (gates.tensor->ndim < 2) {
        scope->failed = !tp_fail(TP_ERR_INDEX, "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
        return tp_none();
    }
    tp_sym width = tp_tensor_sym_size(gates.tensor, 1);
    return RUN(unsafe_split_Tensor, gates, tp_of_sym(tp_sym_floordiv(width, tp_sym_int(n))), tp_int(1));
}

static tp_value part(tp_scope *scope, tp_value list, uint32_t i)
{
    if (!scope->failed && tp_length(list) > i)
        return list.list->item[i];
    if (!scope->failed)
        scope->failed = !tp_fail(TP_ERR_RUNTIME, "recurrent cell: the rows of a weight do not divide into gates");
    return tp_none();
}

static state lstm_step(tp_scope *scope, tp_value x, bool ready, const weights *w, state st)
{
    tp_value all = parts(scope, gates_of(scope, x, ready, w, st), 4);
    tp_value in = RUN(sigmoid_, part(scope, all, 0)), forget = RUN(sigmoid_, part(scope, all, 1));
    tp_value cell = RUN(tanh_, part(scope, all, 2)), out = RUN(sigmoid_, part(scope, all, 3));
    tp_value kept = RUN(mul_Tensor, forget, st.c);
    tp_value c = RUN(add__Tensor, kept, RUN(mul_Tensor, in, cell));
    tp_value h = RUN(mul_Tensor, out, RUN(tanh, c));
    if (w->hr.tag == TP_TENSOR)
        h = RUN(matmul, h, RUN(t, w->hr));
    return (state){ h, c };
}

static state gru_step(tp_scope *scope, tp_value x, bool ready, const weights *w, state st)
{
    tp_value in = parts(scope, input_gates(scope, x, ready, w), 3), hidden = parts(scope, linear(scope, st.h, w->hh, w->b_hh), 3);
    tp_value reset = RUN(sigmoid_, RUN(add__Tensor, part(scope, hidden, 0), part(scope, in, 0)));
    tp_value keep = RUN(sigmoid_, RUN(add__Tensor, part(scope, hidden, 1), part(scope, in, 1)));
    tp_value fresh = RUN(tanh_, RUN(add_Tensor, part(scope, in, 2), RUN(mul__Tensor, part(scope, hidden, 2), reset)));
    return (state){ .h = RUN(add__Tensor, RUN(mul__Tensor, RUN(sub_Tensor, st.h, fresh), keep), fresh) };
}

static state tanh_step(tp_scope *scope, tp_value x, bool ready, const weights *w, state st)
{
    return (state){ .h = RUN(tanh, gates_of(scope, x, ready, w, st)) };
}

static state relu_step(tp_scope *scope, tp_value x, bool ready, const weights *w, state st)
{
    return (state){ .h = RUN(relu, gates_of(scope, x, ready, w, st)) };
}

/* One step in a scope of its own; the new state belongs to `scope`. */
static state step(tp_scope *scope, const net *n, tp_value gates, const weights *w, state st)
{
    tp_scope inner = { 0 };
    state made = { 0 };
    if (scope->failed)
        return made;
    state next = n->cell(&inner, gates, true, w, st);
    if (!inner.failed) {
        tp_scope_keep(&inner, &made.h, next.h);
        if (n->lstm)
            tp_scope_keep(&inner, &made.c, next.c);
    }
    if (!tp_scope_end(&inner)) {
        scope->failed = true;
        return (state){ 0 };
    }
    made.h = tp_scope_own(scope, made.h);
    if (n->lstm)
        made.c = tp_scope_own(scope, made.c);
    return made;
}

/* ---- layers ---- */
static tp_value whole_layer(tp_scope *scope, const net *n, tp_value input, const weights *w, state *st, bool reverse)
{
    tp_value steps = RUN(unbind_int, linear(scope, input, w->ih, w->b_ih), tp_int(0));
    uint32_t count = scope->failed ? 0 : tp_length(steps);
    tp_value *out = count ? tp_alloc_array(count, sizeof *out) : NULL;
    if (!scope->failed && !count)
        tp_fail(TP_ERR_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    if (!out) {
        scope->failed = true;
        return tp_none();
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t t = reverse ? count - 1 - i : i;
        *st = step(scope, n, steps.list->item[t], w, *st);
        out[t] = st->h;
    }
    tp_value joined = scope->failed ? tp_none() : RUN(stack, tp_scope_list(scope, count, out), tp_int(0));
    tp_free(out);
    return joined;
}

static tp_value rows(tp_scope *scope, tp_value x, int64_t from, int64_t to)
{
    return RUN(slice_Tensor, x, tp_int(0), tp_int(from), tp_int(to));
}

static state rows_of_state(tp_scope *scope, const net *n, state st, int64_t from, int64_t to)
{
    return (state){ rows(scope, st.h, from, to), n->lstm ? rows(scope, st.c, from, to) : tp_none() };
}

/* States below each other, in the order of the array or from its end. */
static state stacked_rows(tp_scope *scope, const net *n, int64_t count, const state *st, bool from_end)
{
    state joined = { 0 };
    tp_value *item = tp_alloc_array((size_t)count + 1, sizeof *item);
    for (int k = 0; item && k < 1 + n->lstm; k++) {
        for (int64_t i = 0; i < count; i++) {
            const state *one = &st[from_end ? count - 1 - i : i];
            item[i] = k ? one->c : one->h;
        }
        tp_value made = scope->failed ? tp_none() : RUN(cat, tp_scope_list(scope, (uint32_t)count, item), tp_int(0));
        *(k ? &joined.c : &joined.h) = made;
    }
    scope->failed |= !item;
    tp_free(item);
    return joined;
}

/* Sequences that end leave their state; at the end states are in the order of sequences again. */
static tp_value packed_forward(tp_scope *scope, const net *n, tp_value gates, const weights *w, state *st, tp_value *out)
{
    state *left = tp_alloc_array((size_t)n->steps + 1, sizeof *left);
    int64_t at = 0, gone = 0, now = n->batch_size[0];
    scope->failed |= !left;
    for (int64_t t = 0; t < n->steps && !scope->failed; t++) {
        int64_t size = n->batch_size[t];
        tp_value in = rows(scope, gates, at, at + size);
        if (size < now) {
            left[gone++] = rows_of_state(scope, n, *st, size, now);
            *st = rows_of_state(scope, n, *st, 0, size);
        }
        *st = step(scope, n, in, w, *st);
        out[t] = st->h;
        at += size;
        now = size;
    }
    if (!scope->failed) {
        left[gone++] = *st;
        tp_value joined = RUN(cat, tp_scope_list(scope, (uint32_t)n->steps, out), tp_int(0));
        *st = stacked_rows(scope, n, gone, left, true);
        tp_free(left);
        return joined;
    }
    tp_free(left);
    return tp_none();
}

static tp_value packed_backward(tp_scope *scope, const net *n, tp_value gates, const weights *w, state *st, tp_value *out)
{
    state first = *st;
    int64_t now = n->batch_size[n->steps - 1], at = 0;
    for (int64_t t = 0; t < n->steps; t++)
        at += n->batch_size[t];
    *st = rows_of_state(scope, n, first, 0, now);
    for (int64_t t = n->steps - 1; t >= 0 && !scope->failed; t--) {
        int64_t size = n->batch_size[t];
        if (size > now)
            *st = stacked_rows(scope, n, 2, (state[]){ *st, rows_of_state(scope, n, first, now, size) }, false);
        *st = step(scope, n, rows(scope, gates, at - size, at), w, *st);
        out[t] = st->h;
        at -= size;
        now = size;
    }
    return scope->failed ? tp_none() : RUN(cat, tp_scope_list(scope, (uint32_t)n->steps, out), tp_int(0));
}

static tp_value packed_layer(tp_scope *scope, const net *n, tp_value input, const weights *w, state *st, bool reverse)
{
    tp_value gates = linear(scope, input, w->ih, w->b_ih), joined = tp_none();
    tp_value *out = tp_alloc_array((size_t)n->steps + 1, sizeof *out);
    scope->failed |= !out;
    if (!scope->failed)
        joined = (reverse ? packed_backward : packed_forward)(scope, n, gates, w, st, out);
    tp_free(out);
    return joined;
}

/* The weights of one direction of one layer. */
static weights weights_at(const net *n, int64_t at, bool projected)
{
    const tp_value *item = n->params.list->item + at * (2 + 2 * n->biases + projected);
    weights w = { item[0], item[1], tp_none(), tp_none(), tp_none() };
    if (n->biases) {
        w.b_ih = item[2];
        w.b_hh = item[3];
    }
    if (projected)
        w.hr = item[2 + 2 * n->biases];
    return w;
}

static bool check_counts(const net *n, bool projected)
{
    int64_t directions = n->layers * (1 + n->bidirectional), each = 2 + 2 * n->biases + projected, given = tp_length(n->params);
    if (given % each)
        return tp_fail(TP_ERR_RUNTIME, "got an incorrect number of RNN parameters");
    if (directions < 1 || tp_length(n->h) != directions || (n->lstm && tp_length(n->c) != directions))
        return tp_fail(TP_ERR_RUNTIME, "Expected more hidden states in stacked_rnn");
    if (given != directions * each)
        return tp_fail(TP_ERR_RUNTIME, "Expected more weights in stacked_rnn");
    return true;
}

/* The final states of all layers and directions, one tensor. */
static tp_value final_states(tp_scope *scope, int64_t count, const state *st, bool cells)
{
    tp_value *item = tp_alloc_array((size_t)count, sizeof *item), made = tp_none();
    for (int64_t i = 0; item && i < count; i++)
        item[i] = cells ? st[i].c : st[i].h;
    if (item && !scope->failed)
        made = RUN(stack, tp_scope_list(scope, (uint32_t)count, item), tp_int(0));
    scope->failed |= !item;
    tp_free(item);
    return made;
}

static bool run(tp_scope *scope, const net *n, tp_value input, bool projected, tp_value *result)
{
    int64_t directions = 1 + n->bidirectional;
    state *st = tp_alloc_array((size_t)(n->layers * directions), sizeof *st);
    if (!st)
        return false;
    for (int64_t layer = 0; layer < n->layers && !scope->failed; layer++) {
        tp_value side[2];
        for (int64_t k = 0; k < directions; k++) {
            int64_t at = layer * directions + k;
            weights w = weights_at(n, at, projected);
            st[at] = (state){ n->h.list->item[at], n->lstm ? n->c.list->item[at] : tp_none() };
            side[k] = (n->batch_size ? packed_layer : whole_layer)(scope, n, input, &w, &st[at], k == 1);
        }
        input = side[0];
        if (n->bidirectional && !scope->failed)
            input = RUN(cat, tp_scope_list(scope, 2, side), tp_int(n->batch_size ? -1 : side[0].tensor->ndim - 1));
        if (n->dropout != 0 && n->train && layer + 1 < n->layers)
            input = RUN(dropout, input, tp_float(n->dropout), tp_bool(true));
    }
    tp_value c = n->lstm ? final_states(scope, n->layers * directions, st, true) : tp_none();
    tp_value h = final_states(scope, n->layers * directions, st, false);
    if (n->batch_first)
        input = RUN(transpose_, input, tp_int(0), tp_int(1));
    if (!scope->failed) {
        tp_scope_keep(scope, &result[0], input);
        tp_scope_keep(scope, &result[1], h);
        if (n->lstm)
            tp_scope_keep(scope, &result[2], c);
    }
    tp_free(st);
    return true;
}

/* How many rows each step of a packed sequence has. */
static bool read_batch_sizes(net *n, const tp_tensor *t)
{
    if (t->dtype != TP_i64)
        return tp_fail(TP_ERR_RUNTIME, "expected scalar type Long but found %scope", tp_dtypes[t->dtype].title);
    if (t->storage->kind == TP_MEMORY_NONE)
        return tp_fail(TP_ERR_RUNTIME, "packed sequences: batch sizes depend on data, which a fake tensor does not have");
    tp_tensor *dense = tp_contiguous(t);
    if (!dense)
        return false;
    n->steps = dense->numel;
    n->batch_size = tp_alloc_array((size_t)n->steps + 1, sizeof *n->batch_size);
    if (n->batch_size && n->steps)
        memcpy(n->batch_size, tp_tensor_data(dense), (size_t)n->steps * sizeof *n->batch_size);
    tp_tensor_unref(dense);
    if (n->batch_size && !n->steps)
        return tp_fail(TP_ERR_RUNTIME, "Expected sequence length to be larger than 0 in RNN");
    for (int64_t t0 = 0; n->batch_size && t0 < n->steps; t0++)
        if (n->batch_size[t0] <= 0 || (t0 && n->batch_size[t0] > n->batch_size[t0 - 1]))
            return tp_fail(TP_ERR_RUNTIME, "batch_sizes must be positive and in decreasing order");
    return n->batch_size != NULL;
}

/* (input, [batch_sizes,] hx, params, has_biases, num_layers, dropout, train, bidirectional[, batch_first]) */
static bool open_net(cell_fn *cell, bool lstm, bool packed, const tp_value *arg, tp_value *result)
{
    tp_scope made = { 0 }, *scope = &made;
    const tp_value *rest = arg + 2 + packed;
    net n = { cell, lstm, tp_as_bool(rest[1]), tp_as_bool(rest[4]), tp_as_bool(rest[5]), !packed && tp_as_bool(rest[6]), tp_as_int(rest[2]), tp_as_double(rest[3]), .params = rest[0] };
    tp_value input = arg[0], hx = arg[1 + packed];
    bool ok = !packed || read_batch_sizes(&n, arg[1].tensor);
    const tp_tensor *h = lstm ? hx.list->item[0].tensor : hx.tensor, *c = lstm ? hx.list->item[1].tensor : NULL;
    bool projected = lstm && h->ndim == 3 && c->ndim == 3 && h->size[2] != c->size[2];
    if (ok && n.batch_first)
        input = RUN(transpose_int, input, tp_int(0), tp_int(1));
    if (ok) {
        n.h = RUN(unbind_int, tp_of_tensor(h), tp_int(0));
        if (lstm)
            n.c = RUN(unbind_int, tp_of_tensor(c), tp_int(0));
        ok = !scope->failed && check_counts(&n, projected) && run(scope, &n, input, projected, result);
    }
    scope->failed |= !ok;
    tp_free(n.batch_size);
    return tp_scope_end(scope);
}

TP_HOOK_D(tp_d_lstm) { (void)op; return open_net(lstm_step, true, false, arg, result); }
TP_HOOK_D(tp_d_lstm_data) { (void)op; return open_net(lstm_step, true, true, arg, result); }
TP_HOOK_D(tp_d_gru) { (void)op; return open_net(gru_step, false, false, arg, result); }
TP_HOOK_D(tp_d_gru_data) { (void)op; return open_net(gru_step, false, true, arg, result); }
TP_HOOK_D(tp_d_rnn_tanh) { (void)op; return open_net(tanh_step, false, false, arg, result); }
TP_HOOK_D(tp_d_rnn_tanh_data) { (void)op; return open_net(tanh_step, false, true, arg, result); }
TP_HOOK_D(tp_d_rnn_relu) { (void)op; return open_net(relu_step, false, false, arg, result); }
TP_HOOK_D(tp_d_rnn_relu_data) { (void)op; return open_net(relu_step, false, true, arg, result); }

/* ---- cells as ops: (input, hx, w_ih, w_hh, b_ih, b_hh) ---- */
static bool open_cell(cell_fn *cell, bool lstm, const tp_value *arg, tp_value *result)
{
    tp_scope s = { 0 };
    weights w = { arg[2], arg[3], arg[4], arg[5], tp_none() };
    state st = { lstm ? arg[1].list->item[0] : arg[1], lstm ? arg[1].list->item[1] : tp_none() };
    st = cell(&s, arg[0], false, &w, st);
    if (!s.failed) {
        tp_scope_keep(&s, &result[0], st.h);
        if (lstm)
            tp_scope_keep(&s, &result[1], st.c);
    }
    return tp_scope_end(&s);
}

TP_HOOK_D(tp_d_lstm_cell) { (void)op; return open_cell(lstm_step, true, arg, result); }
TP_HOOK_D(tp_d_gru_cell) { (void)op; return open_cell(gru_step, false, arg, result); }
TP_HOOK_D(tp_d_rnn_tanh_cell) { (void)op; return open_cell(tanh_step, false, arg, result); }
TP_HOOK_D(tp_d_rnn_relu_cell) { (void)op; return open_cell(relu_step, false, arg, result); }
