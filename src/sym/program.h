/* program.h - the guards of an environment, compiled to a flat list of steps that is checked on every call.
 *
 * What is checked: that each backed symbol lies in the range it was made with, and every guard that is not deferred.
 * Values are given by symbol, in the environment's order; that all sources of one symbol agree is the caller's to check.
 * A value beyond 64 bits or a division by zero on the way counts as a guard that does not hold: it costs a new trace,
 * never a wrong answer.
 *
 * Always: a program is immutable, so threads may share it, and needs the environment no more once it is made. */
#ifndef TP_SYM_PROGRAM_H
#define TP_SYM_PROGRAM_H

#include "sym/env.h"

typedef struct tp_guard_program tp_guard_program;

/* Fails when out of memory, or with TP_ERR_UNIMPLEMENTED on a guard over floats. */
TP_API TP_CHECK tp_guard_program *tp_guard_program_new(const tp_shape_env *env);
TP_API void tp_guard_program_free(tp_guard_program *p);     /* NULL is fine */
/* True when all hold. Otherwise `failed` (may be NULL) is the index of a guard, or the number of guards plus the index
 * of a symbol outside its range. `values` has one number for each symbol of the environment; those of unbacked ones do
 * not matter. Programs of more than a hundred registers need memory: without it the answer is false, an error is set. */
TP_API bool tp_guard_program_check(const tp_guard_program *p, const int64_t *values, size_t *failed);
TP_API size_t tp_guard_program_steps(const tp_guard_program *p);

#endif
