/* text.c - appending to a growing string. */
#include "base/text.h"

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
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && reserve(t, (size_t)length)) {
        vsnprintf(t->at + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

const char *tp_text_read(const tp_text *t)
{
    return t->at ? t->at : "";
}
