/* builtin.h - Python's small functions that graphs call: getitem, and arithmetic on sizes.
 *
 * A node whose target is one of these needs no Python to run as long as it works on numbers, lists, tuples and dicts; on
 * tensors the host does it (run.h). Python's own functions are these structs' faces: `operator.getitem` in a graph is
 * always tp_builtin_getitem, never a handle. */
#ifndef TP_IR_BUILTIN_H
#define TP_IR_BUILTIN_H

#include "ops/value.h"

typedef struct tp_builtin {
    const char *module, *name;      /* "_operator", "getitem": where Python finds it and how code prints it */
    uint8_t     arity;
    /* On values of which none is a tensor or a handle; the result is owned by the caller. */
    bool      (*run)(const tp_value *arg, tp_value *out);
    const char *infix;              /* " + "; NULL: called by name */
} tp_builtin;

TP_API extern const tp_builtin tp_builtins[];
TP_API extern const size_t tp_builtin_count;
TP_API extern const tp_builtin *const tp_builtin_getitem;
TP_API const tp_builtin *tp_builtin_find(const char *module, const char *name);     /* NULL: none */

#endif
