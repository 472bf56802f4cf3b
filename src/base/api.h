/* api.h - the words every header of Taper uses.
 *
 * TP_API marks a symbol that leaves the library (everything else is hidden). TP_CHECK makes the compiler object to an
 * ignored result. LL() casts to what "%lld" wants. */
#ifndef TP_BASE_API_H
#define TP_BASE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TP_API __attribute__((visibility("default")))
#define TP_CHECK __attribute__((warn_unused_result))
#define TP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TP_LIKELY(x) __builtin_expect(!!(x), 1)
#define TP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TP_COUNT(a) (sizeof(a) / sizeof(*(a)))
#define LL(x) ((long long)(x))

#endif
