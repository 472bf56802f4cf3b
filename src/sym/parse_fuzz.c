/* parse_fuzz.c - broken expressions: each is read or refused, and what is read prints and reads again as itself. */
#include "base/fuzz.h"
#include "sym/env.h"

static const char *const seeds[] = {
    "s0 + 3*s1 - 2", "(s0//2)*Mod(s1, 4)", "Max(1, Min(s0, s1)) < 5", "Eq(s0, 3) & (s1 >= 2 | s0 != 7)", "s0**2 + 2*s0*s1 + s1**2",
    "max(L['x'].size()[0], 5) == 5 and not (L['y'][0].k.size()[1] % 2) == 0", "math.trunc(1.5*torch.sym_float(L['x'].size()[0])) // 2 == 12",
    "round(s0 / 7, 1) == 0.4 or (4 if s1 > 6 else s0 & 1) ^ 3 < 5",
};

/* Any source is one of two sizes. */
static tp_sym find(void *env, const char *text, size_t length)
{
    return tp_shape_env_find(env, length % 2 || text[0] != 'L' ? "s0" : "s1");
}

static void one_input(const char *text, size_t length)
{
    tp_shape_env *env = tp_shape_env_new(NULL, NULL);
    (void)length;
    if (!env)
        return;
    (void)tp_shape_env_symbol(env, 5, NULL, TP_RANGE_ALL);
    (void)tp_shape_env_symbol(env, 7, NULL, TP_RANGE_ALL);
    (void)tp_sym_parse_source(env, text, find, env);
    tp_sym x = tp_sym_parse(env, text);
    if (!tp_sym_is_failed(x)) {
        tp_text printed = { 0 };
        tp_sym_print(x, &printed);
        tp_sym again = tp_sym_parse(env, tp_text_read(&printed));
        bool exact = tp_sym_type_of(x) != TP_SYM_FLOAT;         /* sums of floats keep the order they were written in */
        if (exact && !printed.failed && !tp_sym_same(x, again) && !tp_sym_is_failed(again)) {
            fprintf(stderr, "%s printed as %s reads as another expression\n", text, tp_text_read(&printed));
            abort();
        }
        tp_text_fini(&printed);
    }
    tp_shape_env_unref(env);
}

TP_FUZZ_MAIN(seeds, one_input)
