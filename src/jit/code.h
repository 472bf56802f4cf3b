/* code.h - a jit graph as TorchScript's Python-like text: what `.code` shows and archives hold, and back.
 *
 *     def f(x: Tensor,
 *         y: Tensor) -> Tensor:
 *       _0 = torch.tanh(torch.mul(x, torch.add(x, y)))
 *       return torch.sigmoid(_0)
 *
 * Tensor constants are CONSTANTS.c0, c1 …, given beside the text. Fails: no memory; TP_ERR_RUNTIME for nodes that have no
 * text (functions of Python). */
#ifndef TP_JIT_CODE_H
#define TP_JIT_CODE_H

#include "jit/module.h"

/* Tensors met while printing, each once; equal ones share a place. */
typedef struct tp_jit_constants {
    tp_array(tp_tensor *) item;             /* each counted */
} tp_jit_constants;
TP_API void tp_jit_constants_fini(tp_jit_constants *c);

/* One function; constants are counted from 0. */
TP_API TP_CHECK bool tp_jit_code_function(const tp_jit_function *f, tp_text *out);
/* The same at an indent, adding to `constants`. */
TP_API TP_CHECK bool tp_jit_code_print(const tp_jit_function *f, tp_jit_constants *constants, int indent, tp_text *out);

#endif
