/* program.c - one register a node, so that what guards share is computed once; steps in order of need, each guard's requirement
 * right after its operands, so that the first guard that fails ends the run. */
#include "sym/program.h"

#include <string.h>

#include "sym/node.h"

enum { OWN_REGISTERS = 128 };       /* on the stack while a check runs */

/* A step's name and what it does to the registers `r`: to, a and b are registers, save that b may be NUMBER. Where that is false there is no
 * result, or what is required does not hold: the run ends, and what failed is `to` of the next requirement. */
#define PUT(value) (r[s->to] = (value), true)
#define STEPS(STEP) \
    STEP(CONSTANT, PUT(s->number)) \
    STEP(ADD, !__builtin_add_overflow(a, b, &r[s->to])) \
    STEP(MUL, !__builtin_mul_overflow(a, b, &r[s->to])) \
    STEP(FLOORDIV, divides(a, b) && PUT(tp_int_floordiv(a, b))) \
    STEP(MOD, divides(a, b) && PUT(tp_int_mod(a, b))) \
    STEP(MAX, PUT(a > b ? a : b)) \
    STEP(MIN, PUT(a < b ? a : b)) \
    STEP(ABS, a != INT64_MIN && PUT(a < 0 ? -a : a)) \
    STEP(POW, power(a, b, &r[s->to])) \
    STEP(BITS_AND, PUT(a & b)) \
    STEP(BITS_OR, PUT(a | b)) \
    STEP(BITS_XOR, PUT(a ^ b)) \
    STEP(AND, PUT(a && b)) \
    STEP(OR, PUT(a || b)) \
    STEP(NOT, PUT(!a)) \
    STEP(SELECT, PUT(r[s->to] ? a : b)) \
    STEP(EQ, PUT(a == b)) \
    STEP(NE, PUT(a != b)) \
    STEP(LT, PUT(a < b)) \
    STEP(LE, PUT(a <= b)) \
    STEP(GT, PUT(a > b)) \
    STEP(GE, PUT(a >= b)) \
    STEP(REQUIRE_EQ, a == b) \
    STEP(REQUIRE_NE, a != b) \
    STEP(REQUIRE_LT, a < b) \
    STEP(REQUIRE_LE, a <= b) \
    STEP(REQUIRE_GT, a > b) \
    STEP(REQUIRE_GE, a >= b)

typedef enum step_op {
#define NAME(name, does) STEP_##name,
    STEPS(NAME)
#undef NAME
    STEP_END,
    STEP_COMPARE = STEP_EQ,             /* the six comparisons stand in the order of tp_compare */
    STEP_REQUIRE = STEP_REQUIRE_EQ,
} step_op;

#define NUMBER UINT32_MAX       /* as operand b: the step's number */

typedef struct step {
    uint32_t op, to, a, b;
    int64_t  number;
} step;

struct tp_guard_program {
    step    *step;              /* owned, STEP_END behind the last */
    size_t   count, registers;
    uint32_t symbols;           /* registers that `values` fills */
};

typedef struct compiler {
    const tp_shape_env *env;
    tp_array(step) steps;
    tp_map   at;                /* word of an expression -> register */
    uint32_t registers;
} compiler;

static bool emit(compiler *c, step s)
{
    return tp_array_push(&c->steps, s);
}

/* The same for a step with a result, which gets a register of its own. */
static bool emit_to(compiler *c, step s, uint32_t *at)
{
    s.to = *at = c->registers++;
    return emit(c, s);
}

static bool compile(compiler *c, tp_sym x, uint32_t *at);

static bool compile_monomial(compiler *c, uint64_t of, uint32_t *at)
{
    const sym_factor *f = NULL;
    sym_factor own;
    uint32_t one;
    size_t count = tp_sym_factors(of, &f, &own);
    for (size_t i = 0; i < count; i++) {
        if (!compile(c, (tp_sym){ f[i].atom }, &one))
            return false;
        step power = { .op = STEP_POW, .a = one, .b = NUMBER, .number = f[i].exponent };
        if (f[i].exponent > 1 && !emit_to(c, power, &one))
            return false;
        if (i == 0)
            *at = one;
        else if (!emit_to(c, (step){ .op = STEP_MUL, .a = *at, .b = one }, at))
            return false;
    }
    return true;
}

static bool compile_poly(compiler *c, tp_sym x, uint32_t *at)
{
    sym_terms t;
    uint32_t one;
    tp_sym_terms(x, &t);
    for (size_t i = 0; i < t.count; i++) {
        int64_t k = t.term[i].coefficient;
        if (t.term[i].of == UNIT)           /* the last term, and never the only one */
            return emit_to(c, (step){ .op = STEP_ADD, .a = *at, .b = NUMBER, .number = k }, at);
        if (!compile(c, (tp_sym){ t.term[i].of }, &one))
            return false;
        if (k != 1 && !emit_to(c, (step){ .op = STEP_MUL, .a = one, .b = NUMBER, .number = k }, &one))
            return false;
        if (i == 0)
            *at = one;
        else if (!emit_to(c, (step){ .op = STEP_ADD, .a = *at, .b = one }, at))
            return false;
    }
    return true;
}

static bool compile_list(compiler *c, tp_sym x, step_op op, uint32_t *at)
{
    size_t count = sym_node(x)->count;
    /* Max and Min keep their number first; here it is wanted last. */
    size_t first = (op == STEP_MAX || op == STEP_MIN) && tp_sym_is_int(sym_arg(x, 0));
    if (!compile(c, sym_arg(x, first), at))
        return false;
    for (size_t i = 1; i < count; i++) {
        tp_sym y = sym_arg(x, (first + i) % count);
        step s = { .op = op, .a = *at, .b = NUMBER };
        if (tp_sym_is_int(y))
            s.number = tp_sym_as_int(y);
        else if (!compile(c, y, &s.b))
            return false;
        if (!emit_to(c, s, at))
            return false;
    }
    return true;
}

static bool compile_one(compiler *c, tp_sym x, step_op op, uint32_t *at)
{
    uint32_t a;
    return compile(c, sym_arg(x, 0), &a) && emit_to(c, (step){ .op = op, .a = a }, at);
}

static bool compile_where(compiler *c, tp_sym x, uint32_t *at)
{
    uint32_t condition, a, b;
    return compile(c, sym_arg(x, 0), &condition) && compile(c, sym_arg(x, 1), &a) && compile(c, sym_arg(x, 2), &b) &&
           emit_to(c, (step){ .op = STEP_ADD, .a = condition, .b = NUMBER }, at) &&
           emit(c, (step){ .op = STEP_SELECT, .to = *at, .a = a, .b = b });
}

static bool compile_node(compiler *c, tp_sym x, uint32_t *at)
{
    tp_compare how;
    if (sym_node(x)->type == TP_SYM_FLOAT)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "guards over symbolic floats are not compiled");
    if (tp_sym_compare_of(x, &how))
        return compile_list(c, x, (step_op)(STEP_COMPARE + how), at);
    switch ((sym_kind)sym_node(x)->kind) {
    case KIND_symbol: *at = (uint32_t)sym_node(x)->word[0]; return true;
    case KIND_monomial: return compile_monomial(c, x.word, at);
    case KIND_poly: return compile_poly(c, x, at);
    case KIND_floordiv: return compile_list(c, x, STEP_FLOORDIV, at);
    case KIND_mod: return compile_list(c, x, STEP_MOD, at);
    case KIND_max: return compile_list(c, x, STEP_MAX, at);
    case KIND_min: return compile_list(c, x, STEP_MIN, at);
    case KIND_pow: return compile_list(c, x, STEP_POW, at);
    case KIND_and: return compile_list(c, x, STEP_AND, at);
    case KIND_or: return compile_list(c, x, STEP_OR, at);
    case KIND_abs: return compile_one(c, x, STEP_ABS, at);
    case KIND_bit_and: return compile_list(c, x, STEP_BITS_AND, at);
    case KIND_bit_or: return compile_list(c, x, STEP_BITS_OR, at);
    case KIND_bit_xor: return compile_list(c, x, STEP_BITS_XOR, at);
    case KIND_not: return compile_one(c, x, STEP_NOT, at);
    case KIND_where: return compile_where(c, x, at);
    default: return compile(c, sym_arg(x, 0), at);      /* TruncToInt and the like: of floats, refused there */
    }
}

static bool compile(compiler *c, tp_sym x, uint32_t *at)
{
    uint64_t known;
    if (tp_map_get(&c->at, x.word, &known)) {
        *at = (uint32_t)known;
        return true;
    }
    if (tp_sym_is_node(x)) {
        if (!compile_node(c, x, at))
            return false;
    } else {
        int64_t n = tp_sym_is_int(x) ? tp_sym_as_int(x) : tp_sym_same(x, TP_SYM_TRUE);
        if (!emit_to(c, (step){ .op = STEP_CONSTANT, .number = n }, at))
            return false;
    }
    return tp_map_put(&c->at, x.word, *at);
}

static bool require(compiler *c, tp_compare how, uint32_t failed, uint32_t a, uint32_t b, int64_t number)
{
    return emit(c, (step){ .op = STEP_REQUIRE + how, .to = failed, .a = a, .b = b, .number = number });
}

static bool compile_ranges(compiler *c)
{
    for (uint32_t i = 0; i < c->env->symbols.count; i++) {
        const tp_symbol *s = c->env->symbols.item[i];
        uint32_t failed = (uint32_t)(c->env->guards.count + i);
        if (s->kind != TP_SYMBOL_BACKED)
            continue;
        if (s->declared.low > INT64_MIN && !require(c, TP_GE, failed, i, NUMBER, s->declared.low))
            return false;
        if (s->declared.high < INT64_MAX && !require(c, TP_LE, failed, i, NUMBER, s->declared.high))
            return false;
    }
    return true;
}

static bool compile_guard(compiler *c, tp_sym condition, uint32_t failed)
{
    uint32_t a, b = NUMBER;
    tp_compare how;
    if (!tp_sym_is_node(condition) || !tp_sym_compare_of(condition, &how))
        return compile(c, condition, &a) && require(c, TP_NE, failed, a, NUMBER, 0);
    tp_sym right = sym_arg(condition, 1);
    bool number = tp_sym_is_int(right);
    return compile(c, sym_arg(condition, 0), &a) && (number || compile(c, right, &b)) &&
           require(c, how, failed, a, b, number ? tp_sym_as_int(right) : 0);
}

static bool compile_guards(compiler *c)
{
    for (uint32_t i = 0; i < c->env->guards.count; i++) {
        const tp_sym_fact *g = c->env->guards.item[i];
        if (!g->deferred && !compile_guard(c, g->condition, i))
            return false;
    }
    return true;
}

tp_guard_program *tp_guard_program_new(const tp_shape_env *env)
{
    compiler c = { .env = env, .registers = (uint32_t)env->symbols.count };
    tp_guard_program *p = NULL;
    if (env->parent)
        tp_fail(TP_ERR_UNIMPLEMENTED, "guards of a child environment are not compiled");
    else if (compile_ranges(&c) && compile_guards(&c) && emit(&c, (step){ .op = STEP_END }) && (p = tp_alloc(sizeof *p))) {
        *p = (tp_guard_program){ c.steps.item, c.steps.count - 1, c.registers, (uint32_t)env->symbols.count };
        c.steps.item = NULL;
    }
    tp_array_fini(&c.steps);
    tp_map_fini(&c.at);
    return p;
}

void tp_guard_program_free(tp_guard_program *p)
{
    if (p)
        tp_free(p->step);
    tp_free(p);
}

size_t tp_guard_program_steps(const tp_guard_program *p)
{
    return p->count;
}

static bool power(int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    if (exponent < 0)
        return false;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(*result, base, result))
            return false;
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return false;
    }
    return true;
}

static bool divides(int64_t a, int64_t b)
{
    return b != 0 && !(a == INT64_MIN && b == -1);
}

/* Runs to the end, or to the step that failed. Every step jumps to the code of the next one itself: processors foresee a jump by where it
 * stands, and with one jump for all steps a run took a third longer. */
static const step *run(const tp_guard_program *p, int64_t *r)
{
#define LABEL(name, does) __extension__ &&do_##name,
    static const void *const code[] = { STEPS(LABEL) __extension__ &&do_END };
#undef LABEL
    const step *s = p->step;
    int64_t a, b;
#define GO_ON() a = r[s->a]; b = s->b == NUMBER ? s->number : r[s->b]; __extension__({ goto *code[s->op]; })
#define CODE(name, does) do_##name: if (!(does)) return s; s++; GO_ON();
    GO_ON();
    STEPS(CODE)
#undef CODE
#undef GO_ON
do_END:
    return NULL;
}

bool tp_guard_program_check(const tp_guard_program *p, const int64_t *values, size_t *failed)
{
    int64_t own[OWN_REGISTERS], *r = own;
    if (p->registers > OWN_REGISTERS && !(r = tp_alloc_array(p->registers, sizeof *r)))
        return false;
    r[0] = 0;                   /* steps without operands name it */
    memcpy(r, values, p->symbols * sizeof *r);
    const step *at = run(p, r);
    if (r != own)
        tp_free(r);
    if (!at)
        return true;
    while (at->op < STEP_REQUIRE)           /* a step that failed belongs to the next requirement */
        at++;
    if (failed)
        *failed = at->to;
    return false;
}
