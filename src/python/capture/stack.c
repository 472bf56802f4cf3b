/* stack.c - the height of the stack at each instruction, and which values wait there to be called.
 *
 * A walk over all paths. Where two meet they must agree on the number of values and on where the marks are; then each
 * instruction has one state, and decoder and encoder can translate positions on CPython's stack, which has a second
 * word under each value with a mark, to positions on ours:
 *
 *     CPython    x  NULL f  NULL NULL g  y          positions 0 … 6
 *     ours       x       f            g  y          positions 0 … 3, marks at 1, 2, 2
 *
 * A mark is made before or with its value; it is used up by the call that has TP_CALLED. Between, the value may be
 * popped and another pushed in its place (the mark is under the place), unless it came from LOAD_ATTR: then both words
 * are one thing, and only a call may take it. Code that does anything else with these words is refused. */
#include "base/error.h"
#include "python/capture/code.h"

enum { MOST_VALUES = 1 << 24, MOST_ARGUMENT = 1 << 24, MOST_MARKS = 4096 };

typedef struct walk {
    tp_arena      *arena;
    const tp_code *code;
    tp_stack      *stack;
    tp_array(int32_t) work;
} walk;

void tp_instruction_effect(const tp_instruction *i, bool jumps, int32_t *pops, int32_t *pushes)
{
    int32_t a = i->arg;
    switch ((tp_opcode)i->op) {
#define TP_INSTRUCTION(name, argument, p, q, j, edges) \
    case TP_I_##name:                                  \
        *pops = p;                                     \
        *pushes = jumps ? j : q;                       \
        return;
#include "python/capture/instruction.def"
#undef TP_INSTRUCTION
    case TP_OPCODE_COUNT: break;
    }
    *pops = *pushes = 0;
}

/* Values that the effect counts as popped and pushed although they stay where they are. */
static int32_t kept(const tp_instruction *i)
{
    tp_argument kind = tp_instructions[i->op].argument;
    return kind == TP_A_DEPTH || kind == TP_A_BELOW ? i->arg : 0;
}

/* ---- one instruction alone ---- */
static bool is_name(PyObject *o)
{
    return o && PyUnicode_CheckExact(o);
}

static bool names_fit(const tp_instruction *i)
{
    if (!i->object)
        return true;
    if (!PyTuple_CheckExact(i->object) || PyTuple_GET_SIZE(i->object) > i->arg)
        return false;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(i->object); k++)
        if (!is_name(PyTuple_GET_ITEM(i->object, k)))
            return false;
    return true;
}

static bool local_fits(const tp_code *code, const tp_instruction *i)
{
    if ((size_t)i->arg >= code->local_count)
        return false;
    int kind = code->local[i->arg].kind;
    switch ((tp_opcode)i->op) {
    case TP_I_LOAD_FAST:
    case TP_I_STORE_FAST:
    case TP_I_DELETE_FAST: return kind & TP_LOCAL_PLAIN;
    case TP_I_MAKE_CELL: return kind & TP_LOCAL_CELL;
    default: return kind & (TP_LOCAL_CELL | TP_LOCAL_FREE);
    }
}

static bool number_fits(const tp_code *code, const tp_instruction *i)
{
    int32_t a = i->arg, most = MOST_ARGUMENT, least = 0, free = 0;
    switch ((tp_opcode)i->op) {
    case TP_I_COPY:
    case TP_I_SWAP:
    case TP_I_LIST_APPEND:
    case TP_I_SET_ADD:
    case TP_I_MAP_ADD:
    case TP_I_LIST_EXTEND:
    case TP_I_SET_UPDATE:
    case TP_I_DICT_UPDATE:
    case TP_I_DICT_MERGE: least = 1; break;
    case TP_I_BINARY_OP: most = TP_OPERATOR_COUNT - 1; break;
    case TP_I_COMPARE_OP: most = Py_GE; break;
    case TP_I_IS_OP:
    case TP_I_CONTAINS_OP:
    case TP_I_CALL_FUNCTION_EX: most = 1; break;
    case TP_I_BUILD_SLICE: least = 2, most = 3; break;
    case TP_I_FORMAT_VALUE: most = 7; break;
    case TP_I_MAKE_FUNCTION: most = 15; break;
    case TP_I_RAISE_VARARGS: most = 2; break;
    case TP_I_COPY_FREE_VARS:
        for (size_t k = 0; k < code->local_count; k++)
            free += code->local[k].kind == TP_LOCAL_FREE;
        least = most = free;
        break;
    default: break;
    }
    return a >= least && a <= most;
}

static bool check(const tp_code *code, int32_t index)
{
    const tp_instruction *i = &code->item[index];
    int32_t count = (int32_t)code->count;
    if (i->op >= TP_OPCODE_COUNT)
        return tp_fail(TP_ERR_VALUE, "instruction %d: no operation %d", index, i->op);
    bool fits = i->arg >= 0 && i->handler.target < count && (i->handler.target < 0 || i->handler.depth >= 0);
    switch (tp_instructions[i->op].argument) {
    case TP_A_NONE: break;
    case TP_A_CONSTANT: fits = fits && i->object; break;
    case TP_A_NAME: fits = fits && is_name(i->object); break;
    case TP_A_LOCAL: fits = fits && local_fits(code, i); break;
    case TP_A_TARGET: fits = fits && i->target >= 0 && i->target < count; break;
    case TP_A_CALL: fits = fits && number_fits(code, i) && names_fit(i); break;
    default: fits = fits && number_fits(code, i); break;
    }
    return fits || tp_fail(TP_ERR_VALUE, "instruction %d: %s has an argument out of range", index,
                           tp_instructions[i->op].name);
}

/* ---- states ---- */
static bool queue(walk *w, int32_t index)
{
    return tp_array_push(&w->work, index);
}

static const tp_stack_mark *new_mark(walk *w, int32_t position, bool method, const tp_stack_mark *below)
{
    int32_t level = below ? below->level + 1 : 0;
    if (level >= MOST_MARKS)        /* far beyond what nested calls need; merging recurses as deep */
        return tp_fail(TP_ERR_VALUE, "more than %d values wait to be called", MOST_MARKS);
    tp_stack_mark *m = tp_arena_take(w->arena, sizeof *m);
    if (m)
        *m = (tp_stack_mark){ position, level, method, below };
    return m;
}

/* 0: equal, 1: at the same places but `theirs` has more from LOAD_ATTR, -1: elsewhere. */
static int compare_marks(const tp_stack_mark *ours, const tp_stack_mark *theirs)
{
    int result = 0;
    for (; ours && theirs && ours != theirs; ours = ours->below, theirs = theirs->below) {
        if (ours->position != theirs->position)
            return -1;
        if (theirs->method && !ours->method)
            result = 1;
    }
    return ours == theirs ? result : -1;
}

static bool merge_marks(walk *w, const tp_stack_mark *ours, const tp_stack_mark *theirs, const tp_stack_mark **out)
{
    *out = ours;
    if (!ours)
        return true;
    const tp_stack_mark *below;
    return merge_marks(w, ours->below, theirs->below, &below) &&
           (*out = new_mark(w, ours->position, ours->method || theirs->method, below));
}

static bool reach(walk *w, int32_t from, int32_t index, int32_t depth, const tp_stack_mark *mark)
{
    if (index >= (int32_t)w->code->count)
        return tp_fail(TP_ERR_VALUE, "instruction %d: control falls off the end of the code", from);
    tp_stack *s = &w->stack[index];
    if (s->depth < 0) {
        *s = (tp_stack){ depth, mark };
        return queue(w, index);
    }
    int order = s->depth == depth ? compare_marks(s->mark, mark) : -1;
    if (order < 0)
        return tp_fail(TP_ERR_VALUE, "instruction %d: the stack differs from that of another way to %d", from, index);
    return order == 0 || (merge_marks(w, s->mark, mark, &s->mark) && queue(w, index));
}

static bool misused(int32_t index)
{
    return tp_fail(TP_ERR_VALUE, "instruction %d: a value that waits to be called is used otherwise", index);
}

/* May the instruction look at the value at this position? A method's second word is not its value. */
static bool is_whole(const tp_stack_mark *m, int32_t position)
{
    for (; m && m->position >= position; m = m->below)
        if (m->position == position && m->method)
            return false;
    return true;
}

/* The marks after the instruction, when it goes to the next. `low` is the lowest position whose value it takes. */
static bool next_marks(walk *w, int32_t index, int32_t low, const tp_stack *before, const tp_stack_mark **out)
{
    const tp_instruction *i = &w->code->item[index];
    const tp_stack_mark *m = before->mark;
    int32_t depth = before->depth;
    tp_argument kind = tp_instructions[i->op].argument;
    bool call = i->op == TP_I_CALL || i->op == TP_I_CALL_FUNCTION_EX;

    *out = m;
    if (call && (i->flags & TP_CALLED)) {
        if (!m || m->position != low || (i->op == TP_I_CALL_FUNCTION_EX && m->method))
            return tp_fail(TP_ERR_VALUE, "instruction %d: the value called has no mark", index);
        *out = m->below;
        return true;
    }
    if (low < depth && m && (m->position > low || (m->position == low && m->method)))
        return misused(index);
    if ((kind == TP_A_DEPTH || kind == TP_A_BELOW) && i->arg > 0 && !is_whole(m, low - i->arg))
        return misused(index);
    if (i->op == TP_I_SWAP && (!is_whole(m, depth - 1) || (m && m->position == depth)))
        return misused(index);
    if (i->op == TP_I_CALLEE) {
        if (m && m->position > depth - i->arg)
            return misused(index);
        return (*out = new_mark(w, depth - i->arg, false, m)) != NULL;
    }
    if (i->op == TP_I_LOAD_ATTR && (i->flags & TP_CALLED))
        return (*out = new_mark(w, depth - 1, true, m)) != NULL;
    if (i->op == TP_I_LOAD_GLOBAL && (i->flags & TP_CALLED))
        return (*out = new_mark(w, depth, false, m)) != NULL;
    return true;
}

static bool step(walk *w, int32_t index)
{
    const tp_instruction *i = &w->code->item[index];
    tp_stack before = w->stack[index];
    tp_edges edges = tp_instructions[i->op].edges;
    const tp_stack_mark *after, *cut = before.mark;
    int32_t pops, pushes, jump_pushes;

    tp_instruction_effect(i, true, &pops, &jump_pushes);
    tp_instruction_effect(i, false, &pops, &pushes);
    if (pops > before.depth || before.depth - pops + pushes > MOST_VALUES)
        return tp_fail(TP_ERR_VALUE, "instruction %d: %s does not find its operands on the stack", index,
                       tp_instructions[i->op].name);
    int32_t rest = before.depth - pops, low = rest + kept(i);
    if (!next_marks(w, index, low, &before, &after))
        return false;
    if (i->handler.target >= 0) {
        if (i->handler.depth > before.depth)
            return tp_fail(TP_ERR_VALUE, "instruction %d: its handler wants a higher stack", index);
        while (cut && cut->position >= i->handler.depth)
            cut = cut->below;
        if (!reach(w, index, i->handler.target, i->handler.depth + i->handler.lasti + 1, cut))
            return false;
    }
    if ((edges == TP_E_JUMP || edges == TP_E_GOTO) && !reach(w, index, i->target, rest + jump_pushes, after))
        return false;
    return !(edges == TP_E_NEXT || edges == TP_E_JUMP) || reach(w, index, index + 1, rest + pushes, after);
}

/* ---- the walk ---- */
static bool run(walk *w, tp_stack_visit visit, void *self, bool *seen)
{
    if (!reach(w, 0, 0, 0, NULL))
        return false;
    while (w->work.count) {
        int32_t index = tp_array_pop(&w->work);
        if (!seen[index]) {
            seen[index] = true;
            if (visit && !visit(self, index, &w->stack[index]))
                return false;
            if (!check(w->code, index))
                return false;
        }
        if (!step(w, index))
            return false;
    }
    for (int32_t i = 0; i < (int32_t)w->code->count; i++)       /* what no path reaches must still be sound to encode */
        if (!seen[i] && !check(w->code, i))
            return false;
    return true;
}

tp_stack *tp_code_walk_in(tp_arena *arena, const tp_code *code, tp_stack_visit visit, void *self)
{
    walk w = { .arena = arena, .code = code };
    bool *seen = tp_arena_take_array(arena, code->count + 1, sizeof *seen);
    w.stack = tp_arena_take_array(arena, code->count + 1, sizeof *w.stack);
    if (!seen || !w.stack)
        return NULL;
    for (size_t i = 0; i < code->count; i++) {
        seen[i] = false;
        w.stack[i] = (tp_stack){ .depth = -1 };
    }
    bool ok = run(&w, visit, self, seen);
    tp_array_fini(&w.work);
    return ok ? w.stack : NULL;
}

tp_stack *tp_code_stacks_in(tp_arena *arena, const tp_code *code)
{
    return tp_code_walk_in(arena, code, NULL, NULL);
}
