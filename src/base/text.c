/* text.c - appending to a growing string. */
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

void tp_text_fini(tp_text *t)
{
    tp_free(t->at);
    *t = (tp_text){ 0 };
}

static bool reserve(tp_text *t, size_t more)
{
    if (t->failed)
        return false;
    if (t->length + more + 1 > t->room)
        t->failed = !tp_array_grow((void **)&t->at, &t->room, t->length + more + 1, 1);
    return !t->failed;
}

void tp_text_put(tp_text *t, const char *bytes, size_t count)
{
    if (!reserve(t, count))
        return;
    memcpy(t->at + t->length, bytes, count);
    t->length += count;
    t->at[t->length] = 0;
}

void tp_text_add(tp_text *t, const char *format, ...)
{
    va_list args, again;
    if (!reserve(t, 0))
        return;
    va_start(args, format);
    va_copy(again, args);
    /* Mostly it fits into what is there; measuring first would be to write it twice. */
    size_t room = t->room - t->length;
    int length = vsnprintf(t->at + t->length, room, format, args);
    bool fits = length >= 0 && (size_t)length < room;
    if (length >= 0 && !fits && reserve(t, (size_t)length)) {
        vsnprintf(t->at + t->length, (size_t)length + 1, format, again);
        fits = true;
    }
    if (fits)
        t->length += (size_t)length;
    else
        t->at[t->length] = 0;
    va_end(again);
    va_end(args);
}

size_t tp_text_digits(char out[21], uint64_t number)
{
    char digit[20];
    size_t count = 0;
    do
        digit[count++] = (char)('0' + number % 10);
    while (number /= 10);
    for (size_t i = 0; i < count; i++)
        out[i] = digit[count - 1 - i];
    out[count] = 0;
    return count;
}

const char *tp_text_read(const tp_text *t)
{
    return t->at ? t->at : "";
}

void tp_text_add_sizes(tp_text *out, int count, const int64_t *size)
{
    tp_text_add(out, "[");
    for (int i = 0; i < count; i++)
        tp_text_add(out, i ? ", %" PRId64 : "%" PRId64, size[i]);
    tp_text_add(out, "]");
}

void tp_text_add_double(tp_text *out, double f, bool point)
{
    char digits[40];
    if (isnan(f) || isinf(f)) {
        tp_text_add(out, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, f);
        double back;
        if (sscanf(digits, "%lf", &back) == 1 && back == f)
            break;
    }
    double size = fabs(f);
    if (size != 0 && (size < 1e-4 || size >= 1e16)) {       /* "%g" may have chosen the other form */
        for (int precision = 0; precision <= 16; precision++) {
            double back;
            snprintf(digits, sizeof digits, "%.*e", precision, f);
            if (sscanf(digits, "%lf", &back) == 1 && back == f)
                break;
        }
        tp_text_add(out, "%s", digits);
        return;
    }
    if (strchr(digits, 'e'))
        snprintf(digits, sizeof digits, point ? "%.1f" : "%.0f", f);
    tp_text_add(out, strpbrk(digits, ".e") || !point ? "%s" : "%s.0", digits);
}
