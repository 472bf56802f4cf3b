/* error.c - the error of a thread: its kind, and a text that grows as needed. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/runtime.h"

/* Texts come from malloc itself, not from base/alloc.c: a failure must be reportable while allocations are made to fail.
 * When even that is refused the kind stands with a static text. */
static const char no_memory[] = "out of memory";

static bool room_for(tp_thread *t, size_t bytes)
{
    if (bytes <= t->error_room)
        return true;
    char *grown = realloc(t->error_room ? t->error_text : NULL, bytes);
    if (!grown)
        return false;
    tp_thread_note_end();
    t->error_text = grown;
    t->error_room = (uint32_t)bytes;
    return true;
}

void *tp_fail(tp_err kind, const char *format, ...)
{
    tp_thread *t = &tp_self;
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    t->error = kind;
    if (length >= 0 && room_for(t, (size_t)length + 1))
        vsnprintf(t->error_text, (size_t)length + 1, format, again);
    else if (!t->error_room)
        t->error_text = (char *)no_memory;
    va_end(again);
    va_end(args);
    return NULL;
}

void *tp_fail_memory(void)
{
    return tp_fail(TP_ERR_MEMORY, "%s", no_memory);
}

tp_err tp_error_kind(void)
{
    return tp_self.error;
}

const char *tp_error_text(void)
{
    return tp_self.error && tp_self.error_text ? tp_self.error_text : "";
}

void tp_error_clear(void)
{
    tp_self.error = TP_ERR_NONE;
}
