/* error.h - errors are values: a kind and a text, kept in the thread that met them.
 *
 * A function that can fail returns bool, or a pointer that is NULL on failure, and has called tp_fail once, where the
 * fault was understood. Nobody on the way up rewrites the text. A caller that recovers calls tp_error_clear.
 * Always: a false or NULL result of a TP_CHECK function means that an error is set. */
#ifndef TP_BASE_ERROR_H
#define TP_BASE_ERROR_H

#include "base/api.h"

/* Each kind is one Python exception class; src/python has the table. TP_ERR_FOREIGN: the text lives elsewhere (a
 * pending Python exception), we only carry the fact upwards. */
typedef enum tp_err {
    TP_ERR_NONE,
    TP_ERR_RUNTIME,
    TP_ERR_VALUE,
    TP_ERR_INDEX,
    TP_ERR_TYPE,
    TP_ERR_KEY,
    TP_ERR_ATTRIBUTE,
    TP_ERR_UNIMPLEMENTED, /* NotImplementedError */
    TP_ERR_LINALG,
    TP_ERR_MEMORY,
    TP_ERR_OVERFLOW,
    TP_ERR_ZERO_DIVISION,
    TP_ERR_RECURSION,
    TP_ERR_ASSERTION,
    TP_ERR_INTERRUPT,
    TP_ERR_GUARD,         /* GuardOnDataDependentSymNode */
    TP_ERR_DEVICES,       /* FakeTensorDeviceMismatchError */
    TP_ERR_DATA_OUTPUT,   /* DataDependentOutputException; of this and the next two the text is the full name of an op */
    TP_ERR_DYNAMIC_SHAPE, /* DynamicOutputShapeException */
    TP_ERR_UNSUPPORTED,   /* UnsupportedOperatorException */
    TP_ERR_FOREIGN,
} tp_err;

/* Sets the error of this thread, replacing one that is set, and returns NULL, which is also `false`. */
TP_API void *tp_fail(tp_err kind, const char *format, ...) TP_PRINTF(2, 3);
TP_API void *tp_fail_memory(void);          /* the text is static: works when nothing can be allocated */
TP_API tp_err tp_error_kind(void);          /* TP_ERR_NONE when no error is set */
TP_API const char *tp_error_text(void);     /* borrowed until the next tp_fail or tp_error_clear of this thread */
TP_API void tp_error_clear(void);

#endif
