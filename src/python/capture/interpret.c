/* interpret.c - frames of captured code, and what each instruction does.
 *
 * A frame holds real objects in its locals and on its stack. An exception goes to the handler of the instruction it arose
 * in, as in Python, unless it is Unsupported, which leaves the capture. */
#include "python/capture/capture.h"

#include <frameobject.h>
#include <string.h>

#include "base/alloc.h"
#include "python/capture/frame.h"
#include "python/capture/instructions.h"

/* ---- frames ---- */
static const tp_code *decoded(capture *c, PyObject *function)
{
    PyObject *code = PyFunction_GET_CODE(function);
    uint64_t known;
    if (tp_map_get(&c->decoded, (uint64_t)(uintptr_t)code, &known))
        return (const tp_code *)(uintptr_t)known;
    tp_code *made = tp_code_decode((PyCodeObject *)code);
    if (made && (!tp_map_put(&c->decoded, (uint64_t)(uintptr_t)code, (uint64_t)(uintptr_t)made))) {
        tp_code_free(made);
        made = NULL;
    }
    if (!made)
        face_raise();
    return made;
}

frame *frame_new(capture *c, PyObject *function, PyObject **slot, bool root)
{
    const tp_code *code = decoded(c, function);
    int slots = capture_slot_count((PyCodeObject *)PyFunction_GET_CODE(function));
    size_t room = code ? (size_t)((PyCodeObject *)PyFunction_GET_CODE(function))->co_stacksize + 8 : 0;
    frame *f = code ? tp_alloc_zero(sizeof *f) : NULL;
    if (f) {
        f->local = tp_alloc_zero((code->local_count + 1) * sizeof *f->local);
        f->stack = tp_alloc_zero(room * sizeof *f->stack);
        f->pending = root ? tp_alloc_array(code->local_count + 1, sizeof *f->pending) : NULL;
    }
    if (!f || !f->local || !f->stack || (root && !f->pending)) {
        for (int i = 0; i < slots; i++)
            Py_XDECREF(slot[i]);
        if (code)
            face_raise();
        if (f)
            tp_free(f->local), tp_free(f->stack), tp_free(f->pending);
        tp_free(f);
        return NULL;
    }
    const record *r = capture_record(c, function);
    f->capture = c;
    f->code = code;
    f->function = Py_NewRef(function);
    f->globals = PyFunction_GET_GLOBALS(function);
    f->builtins = ((PyFunctionObject *)function)->func_builtins;
    f->source = r ? r->source : NO_SOURCE;
    f->root = root;
    for (int i = 0; i < slots; i++)
        f->local[i] = slot[i];
    return f;
}

void frame_free(frame *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->code->local_count; i++)
        Py_XDECREF(f->local[i]);
    while (f->depth > 0)
        Py_DECREF(f->stack[--f->depth]);
    Py_XDECREF(f->taken);
    Py_DECREF(f->function);
    tp_free(f->local);
    tp_free(f->stack);
    tp_free(f->pending);
    tp_free(f);
}

void capture_user_stack(capture *c, tp_text *out)
{
    const frame *chain[32];
    int count = 0;
    for (const frame *f = c->frame; f && count < 32; f = f->outer)
        chain[count++] = f;
    while (count-- > 0) {
        const frame *f = chain[count];
        int32_t at = f->at > 0 ? f->at - 1 : 0;
        tp_text_add(out, "\n  File \"%s\", line %d, in %s", PyUnicode_AsUTF8(f->code->file), (int)f->code->item[at].position.line,
                    PyUnicode_AsUTF8(f->code->name));
    }
}

/* ---- the stack ---- */
#define TOP(n) f->stack[f->depth - (n)]

static bool push(frame *f, PyObject *taken)
{
    if (!taken)
        return false;
    f->stack[f->depth++] = taken;
    return true;
}

static PyObject *pop(frame *f)
{
    return f->stack[--f->depth];
}

static void drop(frame *f, int count)
{
    while (count-- > 0)
        Py_DECREF(pop(f));
}

/* Replaces the topmost values by one. */
static bool replace(frame *f, int count, PyObject *taken)
{
    if (!taken)
        return false;
    drop(f, count);
    return push(f, taken);
}

/* ---- variables ---- */
static PyObject *unbound(const frame *f, int32_t i)
{
    return PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value",
                        f->code->local[i].name);
}

/* An argument of the root frame enters when it is first read. */
static bool enter_argument(frame *f, int32_t i)
{
    if (!f->pending || f->pending[i] == NO_SOURCE)
        return true;
    PyObject *inside = capture_wrap(f->capture, f->local[i], f->pending[i]);
    if (!inside)
        return false;
    f->pending[i] = NO_SOURCE;
    Py_SETREF(f->local[i], inside);
    return true;
}

static bool load_fast(frame *f, int32_t i)
{
    if (!f->local[i])
        return unbound(f, i);
    return enter_argument(f, i) && push(f, Py_NewRef(f->local[i]));
}

static bool make_cell(frame *f, int32_t i)
{
    if (f->local[i] && !enter_argument(f, i))
        return false;
    PyObject *cell = PyCell_New(f->local[i]);
    if (cell)
        Py_XSETREF(f->local[i], cell);
    return cell;
}

/* Cells of the closure. Those of a function from outside have outside contents. */
static bool copy_free_variables(frame *f)
{
    capture *c = f->capture;
    PyObject *closure = PyFunction_GET_CLOSURE(f->function);
    size_t next = 0;
    for (size_t i = 0; i < f->code->local_count; i++) {
        if (!(f->code->local[i].kind & TP_LOCAL_FREE))
            continue;
        PyObject *cell = PyTuple_GET_ITEM(closure, (Py_ssize_t)next);
        if (!f->root && f->source == NO_SOURCE && !capture_record(c, f->function) && !capture_trusts(f->globals))
            return capture_unsupported("the closure of %U, a function of which it is not known where it came from",
                                       ((PyFunctionObject *)f->function)->func_qualname);
        Py_XSETREF(f->local[i], Py_NewRef(cell));
        if ((f->root || f->source != NO_SOURCE) && !capture_record(c, cell)) {
            int32_t at = f->root ? tp_source_in(c->sources, SOURCE_CELL, NO_SOURCE, (int32_t)next, f->code->local[i].name)
                                 : tp_source_in(c->sources, SOURCE_CLOSURE, f->source, (int32_t)next, NULL);
            record *r = at < 0 ? NULL : capture_note(c, cell, at, true);
            if (!r)
                return false;
            r->cell = true;
        }
        next++;
    }
    return true;
}

/* ---- exceptions ---- */

/* The pending exception goes to the handler of the last instruction; false: there is none. */
static bool handle(frame *f)
{
    const tp_instruction *i = &f->code->item[f->at - 1];
    if (i->handler.target < 0 || PyErr_ExceptionMatches(capture_the_words()->unsupported) || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) ||
        PyErr_ExceptionMatches(PyExc_MemoryError))
        return false;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace)
        PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    while (f->depth > i->handler.depth)
        Py_DECREF(pop(f));
    if (i->handler.lasti)
        f->stack[f->depth++] = PyLong_FromLong(f->at - 1);
    f->stack[f->depth++] = value;
    f->at = i->handler.target;
    return true;
}

static bool raise_again(PyObject *taken)
{
    PyErr_SetObject((PyObject *)Py_TYPE(taken), taken);
    Py_DECREF(taken);
    return false;
}

static bool raise_varargs(frame *f, int count)
{
    capture *c = f->capture;
    PyObject *cause = count == 2 ? pop(f) : NULL, *what = count ? pop(f) : NULL;
    if ((what && PyExceptionInstance_Check(what) && capture_is_outside(c, what)) || (cause && capture_is_outside(c, cause) && !PyType_Check(cause))) {
        Py_XDECREF(cause);
        Py_XDECREF(what);
        return capture_unsupported("raising an exception from outside");
    }
    if (!what) {
        if (c->handled)
            return raise_again(Py_NewRef(c->handled));
        PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
        return false;
    }
    PyObject *value = PyExceptionClass_Check(what) ? capture_call(c, what, face.empty_tuple, NULL) : Py_NewRef(what);
    Py_DECREF(what);
    if (value && !PyExceptionInstance_Check(value)) {
        Py_DECREF(value);
        PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
        value = NULL;
    }
    if (value && cause && PyExceptionClass_Check(cause))
        Py_SETREF(cause, capture_call(c, cause, face.empty_tuple, NULL));
    else if (value && cause && cause != Py_None && !PyExceptionInstance_Check(cause))
        PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    if (value && PyErr_Occurred())
        Py_CLEAR(value);
    if (value && cause)
        PyException_SetCause(value, cause == Py_None ? NULL : Py_NewRef(cause));
    Py_XDECREF(cause);
    return value ? raise_again(value) : false;
}

static bool is_class_of_exceptions(PyObject *o)
{
    bool yes = PyTuple_Check(o) || PyExceptionClass_Check(o);
    for (Py_ssize_t i = 0; yes && PyTuple_Check(o) && i < PyTuple_GET_SIZE(o); i++)
        yes = PyExceptionClass_Check(PyTuple_GET_ITEM(o, i));
    if (!yes)
        PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return yes;
}

static bool check_match(frame *f)
{
    if (!is_class_of_exceptions(TOP(1)))
        return false;
    int match = PyErr_GivenExceptionMatches(TOP(2), TOP(1));
    return replace(f, 1, PyBool_FromLong(match));
}

/* ---- with ---- */
static bool before_with(frame *f)
{
    capture *c = f->capture;
    PyObject *manager = TOP(1), *enter_name = PyUnicode_InternFromString("__enter__"), *exit_name = PyUnicode_InternFromString("__exit__");
    PyObject *enter = capture_load_attribute(c, manager, enter_name), *leave = enter ? capture_load_attribute(c, manager, exit_name) : NULL;
    PyObject *entered = leave ? capture_call(c, enter, face.empty_tuple, NULL) : NULL;
    Py_XDECREF(enter_name);
    Py_XDECREF(exit_name);
    if (!entered) {
        if (!leave && PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol%s", Py_TYPE(manager)->tp_name,
                         enter ? " (missed __exit__ method)" : "");
        Py_XDECREF(enter);
        Py_XDECREF(leave);
        return false;
    }
    Py_DECREF(enter);
    drop(f, 1);
    return push(f, leave) && push(f, entered);
}

/* exit, lasti, previous, exception: calls exit with the exception. */
static bool with_except_start(frame *f)
{
    PyObject *value = TOP(1), *trace = PyException_GetTraceback(value);
    PyObject *args = PyTuple_Pack(3, (PyObject *)Py_TYPE(value), value, trace ? trace : Py_None);
    Py_XDECREF(trace);
    PyObject *result = args ? capture_call(f->capture, TOP(4), args, NULL) : NULL;
    Py_XDECREF(args);
    return push(f, result);
}

/* ---- building ---- */
static bool build_items(frame *f, int count, PyObject *made, bool tuple)
{
    if (!made)
        return false;
    for (int i = 0; i < count; i++) {
        PyObject *item = TOP(count - i);
        if (tuple)
            PyTuple_SET_ITEM(made, i, item);
        else
            PyList_SET_ITEM(made, i, item);
    }
    f->depth -= count;
    return push(f, made);
}

static bool add_pair(frame *f, PyObject *dict, PyObject *o, PyObject *value)
{
    PyObject *key = capture_key(f->capture, o);
    bool ok = key && PyDict_SetItem(dict, key, value) == 0;
    Py_XDECREF(key);
    return ok;
}

static bool add_key(frame *f, PyObject *set, PyObject *o)
{
    PyObject *key = capture_key(f->capture, o);
    bool ok = key && PySet_Add(set, key) == 0;
    Py_XDECREF(key);
    return ok;
}

static bool build_map(frame *f, int count)
{
    PyObject *made = PyDict_New();
    for (int i = 0; made && i < count; i++)
        if (!add_pair(f, made, TOP(2 * (count - i)), TOP(2 * (count - i) - 1)))
            Py_CLEAR(made);
    return replace(f, 2 * count, made);
}

static bool build_const_key_map(frame *f, int count)
{
    PyObject *made = PyDict_New(), *keys = TOP(1);
    for (int i = 0; made && i < count; i++)
        if (PyDict_SetItem(made, PyTuple_GET_ITEM(keys, i), TOP(count + 1 - i)) < 0)
            Py_CLEAR(made);
    return replace(f, count + 1, made);
}

static bool build_set(frame *f, int count)
{
    PyObject *made = PySet_New(NULL);
    for (int i = 0; made && i < count; i++)
        if (!add_key(f, made, TOP(count - i)))
            Py_CLEAR(made);
    return replace(f, count, made);
}

static bool build_string(frame *f, int count)
{
    PyObject *parts = PyTuple_New(count), *empty = PyUnicode_FromString(""), *made;
    for (int i = 0; parts && i < count; i++)
        PyTuple_SET_ITEM(parts, i, Py_NewRef(TOP(count - i)));
    made = parts && empty ? PyUnicode_Join(empty, parts) : NULL;
    Py_XDECREF(parts);
    Py_XDECREF(empty);
    return replace(f, count, made);
}

static bool format_value(frame *f, int how)
{
    PyObject *spec = how & 4 ? TOP(1) : NULL, *value = how & 4 ? TOP(2) : TOP(1), *text = capture_text(f->capture, value, how & 3, spec);
    return replace(f, how & 4 ? 2 : 1, text);
}

static bool make_function(frame *f, int parts)
{
    PyObject *made = PyFunction_NewWithQualName(TOP(1), f->globals, NULL);
    if (!made)
        return false;
    drop(f, 1);
    PyFunctionObject *fn = (PyFunctionObject *)made;
    if (parts & TP_FN_CLOSURE)
        fn->func_closure = pop(f);
    if (parts & TP_FN_ANNOTATIONS)
        fn->func_annotations = pop(f);
    if (parts & TP_FN_KEYWORD_DEFAULTS)
        fn->func_kwdefaults = pop(f);
    if (parts & TP_FN_DEFAULTS)
        fn->func_defaults = pop(f);
    if (!capture_note(f->capture, made, NO_SOURCE, false)) {
        Py_DECREF(made);
        return false;
    }
    return push(f, made);
}

static bool extend_list(frame *f, int below)
{
    PyObject *over = capture_iterator(f->capture, TOP(1)), *items = over ? PySequence_List(over) : NULL;
    PyObject *list = TOP(1 + below);
    bool ok = items && PyList_SetSlice(list, PyList_GET_SIZE(list), PyList_GET_SIZE(list), items) == 0;
    Py_XDECREF(over);
    Py_XDECREF(items);
    if (ok)
        drop(f, 1);
    return ok;
}

static bool update_dict(frame *f, int below, bool merge)
{
    if (!PyDict_Check(TOP(1)) || capture_method(TOP(1), "keys"))
        return capture_unsupported("the items of a %s", Py_TYPE(TOP(1))->tp_name);
    PyObject *shadow = capture_shadow(f->capture, TOP(1), false);
    bool ok = shadow && (merge ? _PyDict_MergeEx(TOP(1 + below), shadow, 2) : PyDict_Update(TOP(1 + below), shadow)) == 0;
    Py_XDECREF(shadow);
    if (ok)
        drop(f, 1);
    return ok;
}

/* ---- taking apart ---- */
static PyObject *items_of(frame *f, PyObject *o)
{
    PyObject *over = capture_iterator(f->capture, o), *items = over ? PySequence_List(over) : NULL;
    Py_XDECREF(over);
    return items;
}

static bool unpack(frame *f, int before, int after, bool rest)
{
    PyObject *items = items_of(f, TOP(1));
    if (!items)
        return false;
    Py_ssize_t count = PyList_GET_SIZE(items);
    if (rest ? count < before + after : count != before) {
        if (count < before + after)
            PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %s%d, got %zd)", rest ? "at least " : "", before + after, count);
        else
            PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
        Py_DECREF(items);
        return false;
    }
    drop(f, 1);
    for (int i = 0; i < after; i++)
        (void)push(f, Py_NewRef(PyList_GET_ITEM(items, count - 1 - i)));
    bool ok = !rest || push(f, PyList_GetSlice(items, before, count - after));
    for (int i = before; ok && i-- > 0;)
        (void)push(f, Py_NewRef(PyList_GET_ITEM(items, i)));
    Py_DECREF(items);
    return ok;
}

/* ---- calls ---- */
static bool call(frame *f, int count, PyObject *names)
{
    Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0, plain = count - keywords;
    PyObject *args = PyTuple_New(plain), *kwargs = keywords ? PyDict_New() : NULL;
    bool ok = args && (!keywords || kwargs);
    for (Py_ssize_t i = 0; ok && i < plain; i++)
        PyTuple_SET_ITEM(args, i, Py_NewRef(TOP(count - i)));
    for (Py_ssize_t i = 0; ok && i < keywords; i++)
        ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i), TOP(keywords - i)) == 0;
    PyObject *result = ok ? capture_call(f->capture, TOP(count + 1), args, kwargs) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return replace(f, count + 1, result);
}

static PyObject *spread(frame *f, PyObject *called, PyObject *o)
{
    PyObject *items = items_of(f, o);
    if (!items && !Py_TYPE(o)->tp_iter && !PySequence_Check(o) && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyObject *name = _PyObject_FunctionStr(called);
        if (name)
            PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name, Py_TYPE(o)->tp_name);
        Py_XDECREF(name);
    }
    return items;
}

static bool call_ex(frame *f, bool with_names)
{
    PyObject *args = spread(f, TOP(with_names ? 3 : 2), TOP(with_names ? 2 : 1)), *tuple = args ? PyList_AsTuple(args) : NULL;
    if (tuple && with_names && !PyDict_Check(TOP(1))) {
        capture_unsupported("the items of a %s", Py_TYPE(TOP(1))->tp_name);
        Py_CLEAR(tuple);
    }
    PyObject *kwargs = tuple && with_names ? capture_shadow(f->capture, TOP(1), false) : NULL, *copy = NULL;
    if (kwargs && !(copy = PyDict_New()))
        Py_CLEAR(tuple);
    bool ok = tuple && (!with_names || (kwargs && PyDict_Update(copy, kwargs) == 0));
    PyObject *result = ok ? capture_call(f->capture, TOP(with_names ? 3 : 2), tuple, copy) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(tuple);
    Py_XDECREF(kwargs);
    Py_XDECREF(copy);
    return replace(f, with_names ? 3 : 2, result);
}

/* A module that the program imports is sys.modules[its name]; one that is not there yet would be run. */
static PyObject *wrap_imported(capture *c, PyObject *modules, PyObject *module)
{
    PyObject *name = PyModule_GetNameObject(module), *there = name ? PyDict_GetItemWithError(modules, name) : NULL;
    int32_t held = there == module ? tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, modules) : NO_SOURCE;
    PyObject *inside = held == NO_SOURCE ? capture_unsupported("an import of a module that is not in sys.modules under its name")
                                         : capture_wrap(c, module, tp_source_in(c->sources, SOURCE_ITEM, held, 0, name));
    Py_XDECREF(name);
    return inside;
}

static bool import_name(frame *f, PyObject *name)
{
    long level = PyLong_AsLong(TOP(2));
    PyObject *modules = PyImport_GetModuleDict(), *module;
    bool trusted = capture_trusts(f->globals);
    if (!trusted && (level || PyDict_Contains(modules, name) != 1))
        return capture_unsupported(level ? "a relative import, of %U" : "the first import of %U", name);
    module = PyImport_ImportModuleLevelObject(name, f->globals, NULL, TOP(1), (int)level);
    if (module && !trusted && !(PyModule_Check(module) && capture_trusts(PyModule_GetDict(module)))) {
        PyObject *inside = PyModule_Check(module) ? wrap_imported(f->capture, modules, module) : capture_unsupported("an import of what is no module");
        Py_SETREF(module, inside);
    }
    return replace(f, 2, module);
}

static bool import_from(frame *f, PyObject *name)
{
    if (capture_trusts(f->globals))
        return push(f, PyObject_GetAttr(TOP(1), name));
    PyObject *value = capture_load_attribute(f->capture, TOP(1), name);
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return capture_unsupported("an import of '%U', which is not there yet", name);
    }
    return push(f, value);
}

/* ---- control ---- */
static bool jump_on_truth(frame *f, const tp_instruction *i, bool when, bool keep)
{
    int truth = capture_truth(f->capture, TOP(1));
    if (truth < 0)
        return false;
    bool jump = truth == when;
    if (!jump || !keep)
        drop(f, 1);
    if (jump)
        f->at = i->target;
    return true;
}

static bool jump_on_none(frame *f, const tp_instruction *i, bool when)
{
    bool jump = (TOP(1) == Py_None) == when;
    drop(f, 1);
    if (jump)
        f->at = i->target;
    return true;
}

static bool for_iter(frame *f, const tp_instruction *i)
{
    PyObject *next = PyIter_Next(TOP(1));
    if (next)
        return push(f, next);
    if (PyErr_Occurred())
        return false;
    drop(f, 1);
    f->at = i->target;
    return true;
}

/* yield from: the iterator below, what is sent on top. */
static bool send(frame *f, const tp_instruction *i)
{
    PyObject *result = NULL;
    PySendResult how = PyIter_Send(TOP(2), TOP(1), &result);
    if (how == PYGEN_ERROR)
        return false;
    drop(f, 1);
    if (how == PYGEN_NEXT)
        return push(f, result);
    drop(f, 1);
    f->at = i->target;
    return push(f, result);
}

static bool unary(frame *f, int op)
{
    capture *c = f->capture;
    PyObject *o = TOP(1), *made = NULL;
    capture_words *w = capture_the_words();
    if (op == TP_I_UNARY_NOT) {
        int truth = capture_truth(c, o);
        return truth >= 0 && replace(f, 1, PyBool_FromLong(!truth));
    }
    if (face_is_tensor(o)) {
        PyObject *args = PyTuple_Pack(1, o);
        made = args ? capture_call_function(c, op == TP_I_UNARY_NEGATIVE ? w->neg : op == TP_I_UNARY_INVERT ? w->invert : w->pos, args, NULL) : NULL;
        Py_XDECREF(args);
    } else {
        const char *name = op == TP_I_UNARY_NEGATIVE ? "__neg__" : op == TP_I_UNARY_INVERT ? "__invert__" : "__pos__";
        PyObject *method = capture_special(c, o, name);
        if (PyErr_Occurred() || (!method && !capture_may_read(c, o, "an operator on")))
            return false;
        made = method                       ? capture_call_one(c, method, o)
               : op == TP_I_UNARY_NEGATIVE ? PyNumber_Negative(o)
               : op == TP_I_UNARY_INVERT   ? PyNumber_Invert(o)
                                           : PyNumber_Positive(o);
    }
    return replace(f, 1, made);
}

static bool store_fast(frame *f, int32_t i)
{
    if (f->pending)
        f->pending[i] = NO_SOURCE;
    Py_XSETREF(f->local[i], pop(f));
    return true;
}

static bool delete_fast(frame *f, int32_t i)
{
    if (!f->local[i])
        return unbound(f, i);
    if (f->pending)
        f->pending[i] = NO_SOURCE;
    Py_CLEAR(f->local[i]);
    return true;
}

/* A finished frame: what it gives is in `taken`. */
static frame_end finish(frame *f, frame_end how)
{
    Py_XSETREF(f->taken, pop(f));
    return how;
}

/* One instruction that goes on inside the frame; false: it raised. */
static bool step(frame *f, const tp_instruction *i)
{
    capture *c = f->capture;
    PyObject *a, *b;
    int answer;
    switch ((tp_opcode)i->op) {
    case TP_I_NOP: case TP_I_CALLEE: case TP_I_RESUME: return true;
    case TP_I_POP_TOP: drop(f, 1); return true;
    case TP_I_COPY: return push(f, Py_NewRef(TOP(i->arg)));
    case TP_I_SWAP: a = TOP(1); TOP(1) = TOP(i->arg); TOP(i->arg) = a; return true;
    case TP_I_LOAD_CONST: return push(f, Py_NewRef(i->object));
    case TP_I_LOAD_FAST: return load_fast(f, i->arg);
    case TP_I_STORE_FAST: return store_fast(f, i->arg);
    case TP_I_DELETE_FAST: return delete_fast(f, i->arg);
    case TP_I_LOAD_DEREF: return push(f, capture_load_cell(c, f->local[i->arg], f->code->local[i->arg].name));
    case TP_I_STORE_DEREF: if (!capture_store_cell(c, f->local[i->arg], TOP(1))) return false; drop(f, 1); return true;
    case TP_I_DELETE_DEREF: return capture_store_cell(c, f->local[i->arg], NULL);
    case TP_I_LOAD_CLOSURE: return push(f, Py_NewRef(f->local[i->arg]));
    case TP_I_MAKE_CELL: return make_cell(f, i->arg);
    case TP_I_COPY_FREE_VARS: return copy_free_variables(f);
    case TP_I_LOAD_GLOBAL: case TP_I_LOAD_NAME: return push(f, capture_load_global(c, f->globals, f->builtins, i->object));
    case TP_I_STORE_GLOBAL: if (!capture_store_global(c, f->globals, i->object, TOP(1))) return false; drop(f, 1); return true;
    case TP_I_LOAD_ATTR: return replace(f, 1, capture_load_attribute(c, TOP(1), i->object));
    case TP_I_STORE_ATTR: if (!capture_store_attribute(c, TOP(1), i->object, TOP(2))) return false; drop(f, 2); return true;
    case TP_I_DELETE_ATTR: if (!capture_store_attribute(c, TOP(1), i->object, NULL)) return false; drop(f, 1); return true;
    case TP_I_BINARY_SUBSCR: return replace(f, 2, capture_get_item(c, TOP(2), TOP(1)));
    case TP_I_STORE_SUBSCR: if (!capture_set_item(c, TOP(2), TOP(1), TOP(3))) return false; drop(f, 3); return true;
    case TP_I_DELETE_SUBSCR: if (!capture_set_item(c, TOP(2), TOP(1), NULL)) return false; drop(f, 2); return true;
    case TP_I_UNARY_POSITIVE: case TP_I_UNARY_NEGATIVE: case TP_I_UNARY_NOT: case TP_I_UNARY_INVERT: return unary(f, i->op);
    case TP_I_BINARY_OP: return replace(f, 2, capture_binary(c, i->arg, TOP(2), TOP(1)));
    case TP_I_COMPARE_OP: return replace(f, 2, capture_compare(c, i->arg, TOP(2), TOP(1)));
    case TP_I_IS_OP:
        answer = capture_is_same(c, TOP(2), TOP(1));
        return answer >= 0 && replace(f, 2, PyBool_FromLong(answer != i->arg));
    case TP_I_CONTAINS_OP:
        answer = capture_contains(c, TOP(1), TOP(2));
        return answer >= 0 && replace(f, 2, PyBool_FromLong(answer != i->arg));
    case TP_I_BUILD_TUPLE: return build_items(f, i->arg, PyTuple_New(i->arg), true);
    case TP_I_BUILD_LIST: return build_items(f, i->arg, PyList_New(i->arg), false);
    case TP_I_BUILD_SET: return build_set(f, i->arg);
    case TP_I_BUILD_MAP: return build_map(f, i->arg);
    case TP_I_BUILD_CONST_KEY_MAP: return build_const_key_map(f, i->arg);
    case TP_I_BUILD_STRING: return build_string(f, i->arg);
    case TP_I_BUILD_SLICE:
        a = i->arg == 3 ? PySlice_New(TOP(3), TOP(2), TOP(1)) : PySlice_New(TOP(2), TOP(1), NULL);
        return replace(f, i->arg, a);
    case TP_I_LIST_APPEND: if (PyList_Append(TOP(1 + i->arg), TOP(1)) < 0) return false; drop(f, 1); return true;
    case TP_I_SET_ADD: if (!add_key(f, TOP(1 + i->arg), TOP(1))) return false; drop(f, 1); return true;
    case TP_I_MAP_ADD: if (!add_pair(f, TOP(2 + i->arg), TOP(2), TOP(1))) return false; drop(f, 2); return true;
    case TP_I_LIST_EXTEND: return extend_list(f, i->arg);
    case TP_I_SET_UPDATE:
        a = items_of(f, TOP(1));
        answer = a ? _PySet_Update(TOP(1 + i->arg), a) : -1;
        Py_XDECREF(a);
        if (answer < 0)
            return false;
        drop(f, 1);
        return true;
    case TP_I_DICT_UPDATE: return update_dict(f, i->arg, false);
    case TP_I_DICT_MERGE: return update_dict(f, i->arg, true);
    case TP_I_LIST_TO_TUPLE: return replace(f, 1, PyList_AsTuple(TOP(1)));
    case TP_I_UNPACK_SEQUENCE: return unpack(f, i->arg, 0, false);
    case TP_I_UNPACK_EX: return unpack(f, i->arg & 255, i->arg >> 8, true);
    case TP_I_FORMAT_VALUE: return format_value(f, i->arg);
    case TP_I_CALL: return call(f, i->arg, i->object);
    case TP_I_CALL_FUNCTION_EX: return call_ex(f, i->arg);
    case TP_I_MAKE_FUNCTION: return make_function(f, i->arg);
    case TP_I_IMPORT_NAME: return import_name(f, i->object);
    case TP_I_IMPORT_FROM: return import_from(f, i->object);
    case TP_I_JUMP: f->at = i->target; return true;
    case TP_I_POP_JUMP_IF_FALSE: return jump_on_truth(f, i, false, false);
    case TP_I_POP_JUMP_IF_TRUE: return jump_on_truth(f, i, true, false);
    case TP_I_JUMP_IF_FALSE_OR_POP: return jump_on_truth(f, i, false, true);
    case TP_I_JUMP_IF_TRUE_OR_POP: return jump_on_truth(f, i, true, true);
    case TP_I_POP_JUMP_IF_NONE: return jump_on_none(f, i, true);
    case TP_I_POP_JUMP_IF_NOT_NONE: return jump_on_none(f, i, false);
    case TP_I_GET_ITER: return replace(f, 1, capture_iterator(c, TOP(1)));
    case TP_I_FOR_ITER: return for_iter(f, i);
    case TP_I_GET_YIELD_FROM_ITER: return replace(f, 1, capture_iterator(c, TOP(1)));
    case TP_I_SEND: return send(f, i);
    case TP_I_RAISE_VARARGS: return raise_varargs(f, i->arg);
    case TP_I_RERAISE:
        a = pop(f);
        return raise_again(a);
    case TP_I_PUSH_EXC_INFO:
        a = pop(f);
        b = c->handled ? c->handled : Py_NewRef(Py_None);
        c->handled = Py_NewRef(a);
        return push(f, b) && push(f, a);
    case TP_I_CHECK_EXC_MATCH: return check_match(f);
    case TP_I_POP_EXCEPT:
        a = pop(f);
        Py_CLEAR(c->handled);
        c->handled = a == Py_None ? (Py_DECREF(a), NULL) : a;
        return true;
    case TP_I_BEFORE_WITH: return before_with(f);
    case TP_I_WITH_EXCEPT_START: return with_except_start(f);
    case TP_I_LOAD_ASSERTION_ERROR: return push(f, Py_NewRef(PyExc_AssertionError));
    case TP_I_GET_LEN: return push(f, capture_length(c, TOP(1)));
    default: return capture_unsupported("the instruction %s", tp_instructions[i->op].name);
    }
}

/* Other threads run now and then, and Ctrl-C arrives. */
static bool breathe(capture *c)
{
    if ((++c->steps & 1023) == 0) {
        Py_BEGIN_ALLOW_THREADS
        Py_END_ALLOW_THREADS
    }
    return PyErr_CheckSignals() == 0;
}

static frame_end run(frame *f)
{
    for (;;) {
        const tp_instruction *i = &f->code->item[f->at++];
        if (i->op == TP_I_RETURN_VALUE)
            return finish(f, FRAME_RETURNED);
        if (i->op == TP_I_YIELD_VALUE)
            return finish(f, FRAME_YIELDED);
        if (i->op == TP_I_RETURN_GENERATOR) {           /* the generator exists already: here its body begins */
            (void)push(f, Py_NewRef(Py_None));
            continue;
        }
        if (!step(f, i) && !handle(f))
            return FRAME_RAISED;
        if (TP_UNLIKELY(!breathe(f->capture)) && !handle(f))
            return FRAME_RAISED;
    }
}

frame_end frame_run(frame *f)
{
    capture *c = f->capture;
    if (TP_UNLIKELY(tp_capture_stack_ends())) {             /* where the program has set itself a limit beyond the stack */
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
        return FRAME_RAISED;
    }
    if (Py_EnterRecursiveCall(" while capturing"))
        return FRAME_RAISED;
    f->outer = c->frame;
    c->frame = f;
    frame_end end = run(f);
    if (end == FRAME_RAISED && PyErr_ExceptionMatches(capture_the_words()->unsupported))
        capture_note_place(c);
    c->frame = f->outer;
    Py_LeaveRecursiveCall();
    return end;
}
