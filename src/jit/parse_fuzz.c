/* parse_fuzz.c - broken TorchScript: each text is read and runs, or is refused. */
#include "base/fuzz.h"
#include "jit/parse.h"

static const char *const seeds[] = {
    "def f(x: Tensor,\n    y: Tensor) -> Tuple[Tensor, Tensor]:\n  _0 = torch.tanh(torch.mul(x, torch.add(x, y, alpha=2)))\n  return (torch.sigmoid(_0), y)\n",
    "def f(x: Tensor) -> Tensor:\n  a, b, = torch.split(x, 1)\n  _0, _1 = torch.topk(a, 2, -1, True, True)\n  return torch.cat([a, _0, torch.view(b, [int(ops.prim.NumToTensor(torch.size(x, 0))), -1])])\n",
    "def f(d: Dict[str, List[Tensor]],\n    t: Tuple[Tensor, int]) -> Dict[str, Tensor]:\n  _0, _1, = t\n  return {\"a\": d[\"x\"][0], \"b\": _0}\n",
    "def f(x: Tensor) -> Tensor:\n  _0 = annotate(List[Optional[Tensor]], [torch.gt(x, 0.5)])\n  _1 = torch.ones([4], dtype=None, layout=None, device=torch.device(\"cpu\"), pin_memory=False)\n  return torch.index(x, _0)\n",
};

static tp_jit_module *no_class(void *user, const char *name) { (void)user, (void)name; return NULL; }
static tp_jit_function *no_function(void *user, const char *name)
{
    (void)user;
    return tp_fail(TP_ERR_RUNTIME, "no function %s", name);
}

static void one_input(const char *text, size_t length)
{
    (void)length;
    tp_jit_reader reader = { .class_of = no_class, .function = no_function };
    tp_jit_function *f = tp_jit_parse_function(&reader, text);
    if (f) {
        tp_text out = { 0 };
        tp_jit_print(f->graph, &out);
        tp_text_fini(&out);
    }
    tp_jit_function_unref(f);
    tp_error_clear();
}

TP_FUZZ_MAIN(seeds, one_input)
