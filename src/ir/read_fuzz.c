/* read_fuzz.c - broken texts of graphs: each is read or refused, and what is read prints and reads again as itself. */
#include "base/fuzz.h"
#include "ir/code.h"
#include "ir/text.h"

static const char *const seeds[] = {
    "graph(%x: f32[2, 3], %y: f32[3]):\n    %add: f32[2, 3] = aten.add.Tensor(%x, %y, alpha=2)\n    return (%add,)\n",
    "graph(%_args as \"*args\", %y = 3):\n    %w = get_attr fc.0.weight\n    %relu = call_method relu(%w)\n"
    "    %fc = call_module fc(%relu, %y, scale=0.5)\n    %g = _operator.getitem(%fc, (slice(None, 2, None), 0))\n"
    "    return {'a': [%g, %fc], 1: None}\n",
    "graph(%x: (f32[2][1], [i64[], None])):\n    %a = _operator.add(%x, sym(\"2*s0 + 1\"))\n"
    "    return [1.5, 1e-05, nan, (1+2j), -2j, True, 'it\\'s \"a\"\\n', device(type='cuda', index=1), torch.float32]\n",
};

static void complain(const char *what, const char *first, const char *second)
{
    fprintf(stderr, "%s:\n%s\n%s\n", what, first, second);
    abort();
}

static void one_input(const char *text, size_t length)
{
    tp_graph *g = tp_graph_parse(text, length), *again = NULL;
    if (!g)
        return;
    tp_text printed = { 0 }, twice = { 0 }, code = { 0 };
    tp_code_options options = { .root = "self", .verbose = true };
    tp_graph_print(g, &printed);
    if ((again = tp_graph_parse(printed.at, printed.length)))
        tp_graph_print(again, &twice);
    if (!again || strcmp(printed.at, tp_text_read(&twice)) != 0)
        complain("a graph does not survive its text", printed.at, again ? tp_text_read(&twice) : tp_error_text());
    tp_error_clear();
    (void)(tp_graph_verify(g) && tp_graph_code(g, NULL, &options, &code) && tp_graph_list(g, NULL, &code));
    tp_text_fini(&printed);
    tp_text_fini(&twice);
    tp_text_fini(&code);
    tp_graph_unref(g);
    tp_graph_unref(again);
}

TP_FUZZ_MAIN(seeds, one_input)
