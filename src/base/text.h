/* text.h - a growing string.
 *
 * Sticky like an arena: after a failed append it keeps what it has, `failed` is set, and the user looks once. */
#ifndef TP_BASE_TEXT_H
#define TP_BASE_TEXT_H

#include "base/api.h"

typedef struct tp_text {
    char  *at;              /* owned; NULL while empty, otherwise terminated */
    size_t length, room;
    bool   failed;
} tp_text;

TP_API void tp_text_fini(tp_text *t);                   /* a zeroed struct is an empty text */
TP_API void tp_text_add(tp_text *t, const char *format, ...) TP_PRINTF(2, 3);
TP_API void tp_text_put(tp_text *t, const char *bytes, size_t count);
TP_API void tp_text_add_sizes(tp_text *t, int count, const int64_t *size);     /* [2, 3] */
/* Python's repr of a float: the shortest digits that read back; `point`: always with a point or an exponent. */
TP_API void tp_text_add_double(tp_text *t, double f, bool point);
/* Writes the decimal digits of a number, terminated; how many. Where names are made, the format machinery is a third of it. */
TP_API size_t tp_text_digits(char out[21], uint64_t number);
TP_API const char *tp_text_read(const tp_text *t);      /* borrowed; "" while empty */

#endif
