/* frame.h - asking what to do with each Python frame before it runs (PEP 523).
 *
 * A tp_capture is entered around the call of a compiled callable and left after it; while one is entered in any thread the
 * interpreter calls our hook for every frame. In a thread that has entered none the hook runs the frame as always. In one
 * that has, the innermost capture's on_frame is asked and answers with what to do. Not asked: frames that resume (a
 * generator's after its first entry), frames entered while on_frame itself runs, and a replacement that it gave.
 *
 * At that moment the arguments are bound and nothing has run: cells do not exist yet (an argument that will live in one is
 * still plain) and free variables are in the function's closure only.
 *
 * Owners: the caller of enter owns the tp_capture (usually on its C stack) and leaves it in the same thread, innermost
 * first, whether the call returned or raised. The GIL is held everywhere. On a Python we have no frame file for,
 * tp_capture_enter fails with TP_ERR_UNIMPLEMENTED. */
#ifndef TP_PYTHON_CAPTURE_FRAME_H
#define TP_PYTHON_CAPTURE_FRAME_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/api.h"

/* A frame about to run; everything is borrowed and valid during on_frame. */
typedef struct tp_frame_entry {
    PyCodeObject *code;
    PyFunctionObject *function;
    PyObject  *globals, *builtins;
    PyObject  *locals;              /* NULL in a function: names of a class body or module */
    PyObject  *closure;             /* tuple of cells, NULL without */
    PyObject *const *argument;      /* argument slots: positional, keyword only, *, ** ; none is NULL */
    int        argument_count;
} tp_frame_entry;

typedef enum tp_frame_action {
    TP_FRAME_RUN,                   /* as always; frames it calls are asked about */
    TP_FRAME_RUN_PLAIN,             /* as always, and so are all frames called from it */
    TP_FRAME_CODE,                  /* *out is a PyCodeObject to run instead, its argument slots in the order of the frame's */
    TP_FRAME_RESULT,                /* *out is the result: somebody has done the work. NULL: it raised */
} tp_frame_action;

typedef struct tp_capture tp_capture;
struct tp_capture {
    /* *out is NULL; what is put there is a new reference. An error is TP_FRAME_RESULT with an exception set. */
    tp_frame_action (*on_frame)(tp_capture *self, const tp_frame_entry *frame, PyObject **out);
    tp_capture   *outer;            /* borrowed: the one entered before in this thread; written by enter */
    PyCodeObject *passing;          /* borrowed, NULL: a replacement on its way in, not asked about; written by the hook */
};

bool tp_capture_available(void);
TP_CHECK bool tp_capture_enter(tp_capture *capture);
void tp_capture_leave(tp_capture *capture);
int  tp_capture_entered(void);      /* how many are, in all threads: 0 means that the hook is not installed */

/* Turn asking off in this thread (for a function that must not be captured) and back on. */
TP_CHECK tp_capture *tp_capture_suspend(void);
void tp_capture_resume(tp_capture *suspended);

/* One word of ours on each code object: the cache of what was compiled for it. `release` is called once for each code
 * object that dies with its word set, and by tp_code_cache_set for the word it replaces. */
TP_CHECK bool tp_code_cache_init(void (*release)(void *word));   /* once, before the others */
void *tp_code_cache_get(PyCodeObject *code);                     /* NULL: none */
TP_CHECK bool tp_code_cache_set(PyCodeObject *code, void *word); /* takes the word even when it fails */

#endif
