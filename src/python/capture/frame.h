/* frame.h - asking what to do with each Python frame before it runs (PEP 523).
 *
 * A tp_capture is entered around the call of a compiled callable and left after it; while one is entered in any thread
 * the interpreter calls our hook for every frame. In a thread that has entered none the hook runs the frame as always.
 * In one that has, the innermost capture's on_frame is asked and answers with what to do. Not asked: frames that resume
 * (a generator's after its first entry), frames entered while on_frame itself runs, and a replacement that it gave.
 *
 * A frame may run another code: the same frame, when that is no generator and the interpreter's stack has room, else
 * that of a function made for it. It has the same arguments in the same order (tp_code_flatten_arguments keeps it) and
 * the same free variables; what does not fit is a RuntimeError (but a class body that finds no room runs as it was:
 * replacements only make it quicker). While captures are entered Python calls recurse in C, which the interpreter's own
 * limit does not count in bytes: the hook raises RecursionError before the C stack ends.
 *
 * At that moment the arguments are bound and nothing has run: cells do not exist yet (an argument that will live in one
 * is still plain) and free variables are in the function's closure only.
 *
 * Owners: the caller of enter owns the tp_capture (usually on its C stack) and leaves it in the same thread, whether
 * the call returned or raised. The GIL is held everywhere. On a Python we have no frame file for, tp_capture_enter
 * fails with TP_ERR_UNIMPLEMENTED. */
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
    TP_FRAME_CODE,                  /* *out is a PyCodeObject to run instead, its arguments in the frame's order */
    TP_FRAME_RESULT,                /* *out is the result: somebody has done the work. NULL: it raised */
} tp_frame_action;

typedef struct tp_capture tp_capture;
struct tp_capture {
    /* *out is NULL; what is put there is a new reference. An error is TP_FRAME_RESULT with an exception set. */
    tp_frame_action (*on_frame)(tp_capture *self, const tp_frame_entry *frame, PyObject **out);
    tp_capture   *outer;            /* borrowed, may be NULL: the one entered before in this thread; written by enter */
    int           outer_off;        /* how often it was suspended then */
    PyCodeObject *passing;          /* borrowed, may be NULL: a replacement on its way in; written by the hook */
};

bool tp_capture_available(void);
TP_CHECK bool tp_capture_enter(tp_capture *capture);
void tp_capture_leave(tp_capture *capture);
int  tp_capture_entered(void);      /* how many are, in all threads: 0 means that the hook is not installed */

/* Frames of this thread are not asked about between the two; pairs nest, also with entering and leaving. */
void tp_capture_suspend(void);
void tp_capture_resume(void);

/* Is this thread's C stack nearly used up? What recurses in C for each call of the program's asks, and raises RecursionError. */
bool tp_capture_stack_ends(void);

/* One thing of ours on each code object: what was compiled for it. Whoever keeps more there begins his struct with this
 * one. `release` is called when the code object dies or gets another. */
typedef struct tp_code_cache tp_code_cache;
struct tp_code_cache {
    void (*release)(tp_code_cache *self);
};
tp_code_cache *tp_code_cache_get(PyCodeObject *code);                       /* borrowed; NULL: none */
TP_CHECK bool tp_code_cache_set(PyCodeObject *code, tp_code_cache *taken);  /* takes it even if it fails; NULL: none */

#endif
