/* parse.h - TorchScript's text back into graphs: the straight-line part of the language, which is all that traces print.
 *
 * The text comes from a file and is not trusted: depth is bounded, everything unknown is an error that names it and its line.
 * Control flow and what else only the script compiler makes is TP_ERR_UNIMPLEMENTED. */
#ifndef TP_JIT_PARSE_H
#define TP_JIT_PARSE_H

#include "jit/module.h"

/* What the text refers to. */
typedef struct tp_jit_reader {
    const tp_value *constant;           /* borrowed: CONSTANTS.c0 … */
    uint32_t constant_count;
    void *user;
    tp_jit_module *(*class_of)(void *user, const char *name);       /* some module of that class, borrowed; NULL: none */
    tp_jit_function *(*function)(void *user, const char *name);     /* "__torch__.f", borrowed; NULL: an error is set */
} tp_jit_reader;

/* Where `class NAME(` or `def NAME(` begins at the start of a line; NULL: nowhere. */
TP_API const char *tp_jit_find_class(const char *text, const char *name);
TP_API const char *tp_jit_find_def(const char *text, const char *name);
/* Is `name` in the list `__parameters__` or `__buffers__` of the class? */
TP_API bool tp_jit_class_lists(const char *class_text, const char *list, const char *name);
/* Defines every method of the class on `m`, which has its slots already. */
TP_API TP_CHECK bool tp_jit_parse_methods(const tp_jit_reader *r, const char *class_text, tp_jit_module *m);
TP_API TP_CHECK tp_jit_function *tp_jit_parse_function(const tp_jit_reader *r, const char *def_text);

#endif
