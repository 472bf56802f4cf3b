/* frame311.c - the frame hook of CPython 3.11.
 *
 *     caller ── interpreter makes a frame, binds arguments ── hook ── on_frame ─┬─ run as always
 *                                                                               ├─ run another code in it
 *                                                                               └─ a result
 *
 * The hook replaces the interpreter's frame evaluation only while a capture is entered, because it slows every call.
 * What it needs of a frame (arguments, function, code) is in a private struct; nothing else of CPython's insides is
 * touched, and no other file includes it.
 *
 * Another code runs in the frame itself: at entry a frame holds its arguments and otherwise nothing, so its code can be
 * exchanged when there is room for the locals and stack of the new one. The frame is the topmost thing on the thread's
 * data stack, which is cut back to the frame's start when it ends, so it may grow there. Generators copy their frame
 * into an object sized by the function's code; they, and frames without room, run as a call of a new function. */
#define _GNU_SOURCE 1               /* pthread_getattr_np: where this thread's stack ends */
#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"
#include "python/capture/frame.h"
#include "python/face.h"

/* ---- the C stack ---- */
enum { STACK_MARGIN = 256 * 1024 };

static void find_stack_end(void)
{
    pthread_attr_t attr;
    void *address = NULL;
    size_t size = 0;
    tp_self.stack_end = 1;              /* unknown: never near */
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &address, &size) == 0 && size > 2 * STACK_MARGIN)
        tp_self.stack_end = (uintptr_t)address;
    pthread_attr_destroy(&attr);
}

bool tp_capture_stack_ends(void)
{
    if (TP_UNLIKELY(!tp_self.stack_end))
        find_stack_end();
    /* Above the end and near it; a program that runs on a stack of its own is elsewhere altogether. */
    return (uintptr_t)__builtin_frame_address(0) - tp_self.stack_end < STACK_MARGIN;
}

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE 1             /* the struct of a frame is private; PEP 523 hands out only a pointer to it */
#include <internal/pycore_frame.h>

typedef struct _PyInterpreterFrame interpreter_frame;

enum { GENERATOR = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE };

struct capture_state {
    int entered;                        /* captures, in all threads */
    bool installed;                     /* the interpreter calls our hook, itself or through another tool's above it */
    Py_ssize_t cache_index;             /* of our word in a code object's extra data; -1: not asked for yet */
    _PyFrameEvalFunction previous;      /* what evaluated frames before us, and does it for us */
};

static struct capture_state *state(void)
{
    if (!face.capture) {
        face.capture = tp_alloc_zero(sizeof *face.capture);
        if (face.capture) {
            face.capture->cache_index = -1;
            face.capture->previous = _PyEval_EvalFrameDefault;
        }
    }
    return face.capture;
}

/* ---- running another code ---- */
static int argument_slots(const PyCodeObject *code)
{
    int flags = code->co_flags;
    return code->co_argcount + code->co_kwonlyargcount + !!(flags & CO_VARARGS) + !!(flags & CO_VARKEYWORDS);
}

/* What the interpreter takes for granted of a frame and its code. */
static bool fits(const interpreter_frame *f, PyObject *given)
{
    PyObject *closure = f->f_func->func_closure;
    if (!given || !PyCode_Check(given)) {
        PyErr_SetString(PyExc_RuntimeError, "a frame was to run what is no code object");
        return false;
    }
    const PyCodeObject *code = (PyCodeObject *)given;
    if (argument_slots(code) != argument_slots(f->f_code) ||
        code->co_nfreevars != (closure ? PyTuple_GET_SIZE(closure) : 0) ||
        (code->co_flags & (CO_OPTIMIZED | GENERATOR)) != (f->f_code->co_flags & (CO_OPTIMIZED | GENERATOR))) {
        PyErr_Format(PyExc_RuntimeError,
                     "code of %U does not fit the frame of %U: other arguments, free variables or kind",
                     code->co_qualname, f->f_code->co_qualname);
        return false;
    }
    return true;
}

static Py_ssize_t frame_words(const PyCodeObject *code)
{
    return (Py_ssize_t)FRAME_SPECIALS_SIZE + code->co_nlocalsplus + code->co_stacksize;
}

/* Exchanges the code of a frame that has not begun; false: it cannot be done in this frame. */
static bool exchange_code(PyThreadState *ts, interpreter_frame *f, PyCodeObject *code)
{
    Py_ssize_t has = frame_words(f->f_code), wants = frame_words(code);
    if ((code->co_flags & GENERATOR) || (PyObject **)f + has != ts->datastack_top)
        return false;
    if (wants > has) {
        if (wants - has >= ts->datastack_limit - ts->datastack_top)
            return false;
        ts->datastack_top += wants - has;
    }
    for (int k = argument_slots(code); k < code->co_nlocalsplus; k++)
        f->localsplus[k] = NULL;
    f->stacktop = code->co_nlocalsplus;
    f->prev_instr = _PyCode_CODE(code) - 1;
    Py_SETREF(f->f_code, (PyCodeObject *)Py_NewRef(code));
    return true;
}

/* Arguments of a frame as a call would give them to `code`: f(*positional, **keywords). */
static bool call_arguments(const interpreter_frame *f, const PyCodeObject *code, PyObject **positional,
                           PyObject **keywords)
{
    PyObject *const *slot = f->localsplus;
    int count = code->co_argcount, next = count + code->co_kwonlyargcount;
    PyObject *list = PyList_New(0), *dict = PyDict_New();
    bool ok = list && dict;
    for (int k = 0; ok && k < count; k++)
        ok = PyList_Append(list, slot[k]) == 0;
    for (int k = count; ok && k < next; k++)
        ok = PyDict_SetItem(dict, PyTuple_GET_ITEM(code->co_localsplusnames, k), slot[k]) == 0;
    if (ok && (code->co_flags & CO_VARARGS)) {
        PyObject *rest = slot[next++];
        ok = PyList_SetSlice(list, count, count, rest) == 0;
    }
    if (ok && (code->co_flags & CO_VARKEYWORDS))
        ok = PyDict_Update(dict, slot[next]) == 0;
    *positional = ok ? PyList_AsTuple(list) : NULL;
    *keywords = dict;
    Py_XDECREF(list);
    return *positional != NULL;
}

static PyObject *call_new_function(tp_capture *c, const interpreter_frame *f, PyCodeObject *code)
{
    PyObject *positional = NULL, *keywords = NULL, *result = NULL;
    PyObject *function = PyFunction_NewWithQualName((PyObject *)code, f->f_globals, f->f_func->func_qualname);
    bool ok = function && (!f->f_func->func_closure || PyFunction_SetClosure(function, f->f_func->func_closure) == 0) &&
              call_arguments(f, code, &positional, &keywords);
    if (ok) {
        /* a generator shows its function's name, which need not be its code's */
        Py_SETREF(((PyFunctionObject *)function)->func_name, Py_NewRef(f->f_func->func_name));
        c->passing = code;
        result = PyObject_Call(function, positional, keywords);
        c->passing = NULL;
    }
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    Py_XDECREF(function);
    return result;
}

static PyObject *run_code(PyThreadState *ts, tp_capture *c, interpreter_frame *f, PyObject *taken)
{
    PyObject *result = NULL;
    if (!fits(f, taken))
        ;
    else if (exchange_code(ts, f, (PyCodeObject *)taken))
        result = face.capture->previous(ts, f, 0);
    else if (f->f_locals)               /* a class body needs its own names: with no room it runs as it is */
        result = face.capture->previous(ts, f, 0);
    else
        result = call_new_function(c, f, (PyCodeObject *)taken);
    Py_XDECREF(taken);
    return result;
}

/* ---- the hook ---- */
static tp_frame_action ask(tp_capture *c, const interpreter_frame *f, PyObject **out)
{
    tp_frame_entry entry = {
        .code = f->f_code,
        .function = f->f_func,
        .globals = f->f_globals,
        .builtins = f->f_builtins,
        .locals = f->f_locals,
        .closure = f->f_func->func_closure,
        .argument = f->localsplus,
        .argument_count = argument_slots(f->f_code),
    };
    tp_self.capture_off++;
    tp_frame_action action = c->on_frame(c, &entry, out);
    tp_self.capture_off--;
    return action;
}

static PyObject *hook(PyThreadState *ts, interpreter_frame *f, int throwing)
{
    tp_capture *c = tp_self.capture;
    PyObject *out = NULL, *result;
    if (TP_UNLIKELY(tp_capture_stack_ends())) {
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
        return NULL;
    }
    if (TP_LIKELY(!c) || tp_self.capture_off || throwing || f->owner != FRAME_OWNED_BY_THREAD)
        return face.capture->previous(ts, f, throwing);
    if (c->passing == f->f_code) {
        c->passing = NULL;
        return face.capture->previous(ts, f, throwing);
    }
    switch (ask(c, f, &out)) {
    case TP_FRAME_RUN: break;
    case TP_FRAME_RUN_PLAIN:
        tp_self.capture_off++;
        result = face.capture->previous(ts, f, throwing);
        tp_self.capture_off--;
        return result;
    case TP_FRAME_CODE: return run_code(ts, c, f, out);
    case TP_FRAME_RESULT: return out;
    }
    return face.capture->previous(ts, f, throwing);
}

/* ---- entering and leaving ---- */
bool tp_capture_available(void)
{
    return true;
}

bool tp_capture_enter(tp_capture *capture)
{
    struct capture_state *s = state();
    if (!s)
        return false;
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter);
    if (s->entered++ == 0 && now != hook && (!s->installed || now == _PyEval_EvalFrameDefault)) {
        s->previous = now;              /* another tool's, perhaps: it goes on working below us */
        s->installed = true;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, hook);
    }
    capture->outer = tp_self.capture;
    capture->outer_off = tp_self.capture_off;
    capture->passing = NULL;
    tp_self.capture = capture;
    tp_self.capture_off = 0;
    return true;
}

void tp_capture_leave(tp_capture *capture)
{
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (tp_self.capture == capture) {
        tp_self.capture = capture->outer;
        tp_self.capture_off = capture->outer_off;
    }
    for (tp_capture *c = tp_self.capture; c; c = c->outer)
        if (c->outer == capture) {      /* generators may end `with` blocks in another order than they began */
            c->outer = capture->outer;
            c->outer_off = capture->outer_off;
        }
    /* Whoever hooked in above us keeps calling us; with no capture entered we only pass on. */
    if (--face.capture->entered == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == hook) {
        face.capture->installed = false;
        _PyInterpreterState_SetEvalFrameFunc(interpreter, face.capture->previous);
    }
}

int tp_capture_entered(void)
{
    return face.capture ? face.capture->entered : 0;
}

/* ---- what hangs on a code object ---- */
static void release_word(void *word)
{
    tp_code_cache *cache = word;
    if (cache)
        cache->release(cache);
}

tp_code_cache *tp_code_cache_get(PyCodeObject *code)
{
    void *word = NULL;
    if (!face.capture || face.capture->cache_index < 0)
        return NULL;
    if (_PyCode_GetExtra((PyObject *)code, face.capture->cache_index, &word) < 0)
        PyErr_Clear();                  /* raised only for what is no code object */
    return word;
}

bool tp_code_cache_set(PyCodeObject *code, tp_code_cache *taken)
{
    struct capture_state *s = state();
    if (s && s->cache_index < 0) {
        s->cache_index = _PyEval_RequestCodeExtraIndex(release_word);
        if (s->cache_index < 0)
            (void)tp_fail(TP_ERR_RUNTIME, "no extra data of code objects is left: other tools have taken it all");
    }
    if (s && s->cache_index >= 0) {
        if (_PyCode_SetExtra((PyObject *)code, s->cache_index, taken) == 0)
            return true;
        (void)face_foreign();
    }
    release_word(taken);
    return false;
}

#else

bool tp_capture_available(void)
{
    return false;
}

bool tp_capture_enter(tp_capture *capture)
{
    (void)capture;
    return tp_fail(TP_ERR_UNIMPLEMENTED, "bytecode capture is not available on Python %s", PY_VERSION);
}

void tp_capture_leave(tp_capture *capture)
{
    (void)capture;
}

int tp_capture_entered(void)
{
    return 0;
}

tp_code_cache *tp_code_cache_get(PyCodeObject *code)
{
    (void)code;
    return NULL;
}

bool tp_code_cache_set(PyCodeObject *code, tp_code_cache *taken)
{
    (void)code;
    if (taken)
        taken->release(taken);
    return tp_fail(TP_ERR_UNIMPLEMENTED, "bytecode capture is not available on Python %s", PY_VERSION);
}

#endif

void tp_capture_suspend(void)
{
    tp_self.capture_off++;
}

void tp_capture_resume(void)
{
    tp_self.capture_off--;
}
