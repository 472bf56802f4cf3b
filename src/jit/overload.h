/* overload.h - arguments of a call in TorchScript's text, and the op they mean.
 *
 * The text names ops without their overloads; the types of the arguments tell which is meant. Everything is borrowed. */
#ifndef TP_JIT_OVERLOAD_H
#define TP_JIT_OVERLOAD_H

#include "jit/module.h"

enum { TP_JIT_MOST_GIVEN = 64 };

/* A value in the text; objects are known by the module they are. */
typedef struct tp_jit_item {
    tp_node *node;
    const tp_jit_module *module;        /* may be NULL */
} tp_jit_item;

typedef struct tp_jit_given {
    tp_jit_item arg[TP_JIT_MOST_GIVEN];
    char     name[TP_JIT_MOST_GIVEN][48];   /* of a keyword argument, "" by position */
    uint32_t count;
} tp_jit_given;

/* NULL: TP_ERR_UNIMPLEMENTED names the op. */
TP_API TP_CHECK const tp_op *tp_jit_overload(const char *space, const char *name, const tp_jit_given *g);
/* Which given argument is the op's i-th, -1: none. */
TP_API int tp_jit_given_for(const tp_op *op, int i, const tp_jit_given *g);

#endif
