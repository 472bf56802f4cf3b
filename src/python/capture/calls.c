/* calls.c - calls: Python functions are followed, torch's become nodes, modules one or the other, C functions that are known
 * to be harmless are simply called. */
#include <string.h>

#include "python/capture/capture.h"
#include "python/capture/thread_state.h"
#include "trace/fake.h"

/* ---- binding ---- */
int capture_slot_count(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + !!(code->co_flags & CO_VARARGS) + !!(code->co_flags & CO_VARKEYWORDS);
}

static int release(PyObject **slot, int count, int answer)
{
    for (int i = 0; i < count; i++)
        Py_CLEAR(slot[i]);
    return answer;
}

/* The slot of a parameter that may be given by name; -1: none. */
static int slot_of(PyCodeObject *code, PyObject *name)
{
    PyObject *names = code->co_localsplusnames;
    if (!PyUnicode_Check(name))
        return -1;
    for (int i = code->co_posonlyargcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        PyObject *own = PyTuple_GET_ITEM(names, i);
        if (own == name || PyUnicode_Compare(own, name) == 0)
            return i;
    }
    return -1;
}

int capture_bind(PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *kwargs, PyObject **slot)
{
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    int named = code->co_argcount + code->co_kwonlyargcount, slots = capture_slot_count(code), rest = named;
    if (slots > MOST_SLOTS)
        return 0;
    for (int i = 0; i < slots; i++)
        slot[i] = NULL;
    Py_ssize_t plain = count < code->co_argcount ? count : code->co_argcount;
    for (Py_ssize_t i = 0; i < plain; i++)
        slot[i] = Py_NewRef(args[i]);
    if (code->co_flags & CO_VARARGS) {
        PyObject *more = PyTuple_New(count - plain);
        if (!more)
            return release(slot, slots, -1);
        for (Py_ssize_t i = plain; i < count; i++)
            PyTuple_SET_ITEM(more, i - plain, Py_NewRef(args[i]));
        slot[rest++] = more;
    } else if (count > plain) {
        return release(slot, slots, 0);
    }
    PyObject *extra = code->co_flags & CO_VARKEYWORDS ? PyDict_New() : NULL, *name, *value;
    if (code->co_flags & CO_VARKEYWORDS && !(slot[rest] = extra))
        return release(slot, slots, -1);
    Py_ssize_t at = 0;
    while (kwargs && PyDict_Next(kwargs, &at, &name, &value)) {
        int i = slot_of(code, name);
        if (i >= 0 && !slot[i])
            slot[i] = Py_NewRef(value);
        else if (i >= 0 || !extra || !PyUnicode_Check(name))
            return release(slot, slots, 0);
        else if (PyDict_SetItem(extra, name, value) < 0)
            return release(slot, slots, -1);
    }
    return 1;
}

static PyObject *default_value(capture *c, PyObject *function, PyObject *value, source_kind kind, int number, PyObject *key)
{
    const record *r = c ? capture_record(c, function) : NULL;
    if (c && !r && !capture_is_constant(value) && !capture_trusts(PyFunction_GET_GLOBALS(function)))
        return capture_unsupported("a default of %U, a function of which it is not known where it came from",
                                   ((PyFunctionObject *)function)->func_qualname);
    if (!r || r->source == NO_SOURCE || capture_trusts(PyFunction_GET_GLOBALS(function)))
        return Py_NewRef(value);
    return capture_wrap(c, value, tp_source_in(c->sources, kind, r->source, number, key));
}

int capture_fill_defaults(capture *c, PyObject *function, PyObject **slot)
{
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *defaults = PyFunction_GET_DEFAULTS(function), *named = PyFunction_GET_KW_DEFAULTS(function);
    int slots = capture_slot_count(code), first = code->co_argcount - (defaults ? (int)PyTuple_GET_SIZE(defaults) : 0);
    for (int i = 0; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (slot[i])
            continue;
        PyObject *name = PyTuple_GET_ITEM(code->co_localsplusnames, i), *value = NULL;
        if (i < code->co_argcount && i >= first)
            value = default_value(c, function, PyTuple_GET_ITEM(defaults, i - first), SOURCE_DEFAULT, i - first, NULL);
        else if (i >= code->co_argcount && named && PyDict_GetItemWithError(named, name))
            value = default_value(c, function, PyDict_GetItemWithError(named, name), SOURCE_KEYWORD_DEFAULT, 0, name);
        if (!value)
            return release(slot, slots, PyErr_Occurred() ? -1 : 0);
        slot[i] = value;
    }
    return 1;
}

/* ---- helpers ---- */
static PyObject *with_first(PyObject *first, PyObject *args)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *all = PyTuple_New(count + 1);
    if (!all)
        return NULL;
    PyTuple_SET_ITEM(all, 0, Py_NewRef(first));
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    return all;
}

PyObject *capture_call_one(capture *c, PyObject *callable, PyObject *arg)
{
    PyObject *args = PyTuple_Pack(1, arg), *result = args ? capture_call(c, callable, args, NULL) : NULL;
    Py_XDECREF(args);
    return result;
}

static PyObject *call_with_first(capture *c, PyObject *callable, PyObject *first, PyObject *args, PyObject *kwargs)
{
    PyObject *all = with_first(first, args), *result = all ? capture_call(c, callable, all, kwargs) : NULL;
    Py_XDECREF(all);
    return result;
}

/* ---- functions ---- */
static bool guard_code(capture *c, PyObject *function, int32_t source)
{
    PyObject *defaults = PyFunction_GET_DEFAULTS(function);
    return tp_guard_add(c->sources, GUARD_CODE, source, PyFunction_GET_CODE(function), defaults ? PyTuple_GET_SIZE(defaults) : 0);
}

static PyObject *call_python(capture *c, PyObject *function, PyObject *args, PyObject *kwargs)
{
    capture_words *w = capture_the_words();
    int recorded = PySet_Contains(w->recorded, function), breaks = recorded == 0 ? PySet_Contains(w->breaks, function) : recorded;
    if (recorded < 0 || breaks < 0)
        return NULL;
    if (recorded)
        return capture_call_function(c, function, args, kwargs);
    int affirmed = capture_is_listed(w->affirmed, function), asked = affirmed ? 0 : capture_is_listed(w->asked, function);
    if (affirmed)
        return affirmed < 0 ? NULL : Py_NewRef(Py_True);
    if (asked)
        return asked < 0 ? NULL : capture_ask(c, function, args, kwargs);
    if (breaks || PyObject_HasAttrString(function, "_torchdynamo_disable"))
        return capture_unsupported("a call of %U, which is not to be captured", ((PyFunctionObject *)function)->func_qualname);
    if (capture_slot_count((PyCodeObject *)PyFunction_GET_CODE(function)) > MOST_SLOTS)
        return capture_unsupported("a call of %U, which has more than %d parameters", ((PyFunctionObject *)function)->func_qualname, MOST_SLOTS);
    PyObject *slot[MOST_SLOTS + 1];
    int bound = capture_bind(function, ((PyTupleObject *)args)->ob_item, PyTuple_GET_SIZE(args), kwargs, slot);
    if (bound == 1)
        bound = capture_fill_defaults(c, function, slot);
    const record *r = capture_record(c, function);
    if (r && r->source != NO_SOURCE && !capture_trusts(PyFunction_GET_GLOBALS(function)) && !guard_code(c, function, r->source))
        bound = bound == 1 ? release(slot, capture_slot_count((PyCodeObject *)PyFunction_GET_CODE(function)), -1) : -1;
    if (bound == 0)
        return PyObject_Call(function, args, kwargs);       /* it does not get as far as its body: the error is Python's own */
    return bound == 1 ? capture_inline(c, function, slot) : NULL;
}

/* A method of a class whose effect is on the thread: no_grad and its like. */
static PyObject *call_context(capture *c, PyObject *method, PyObject *args, PyObject *kwargs)
{
    bool before = tp_self.grad_mode;
    PyObject *result = PyObject_Call(method, args, kwargs);
    if (result && !capture_note_grad_mode(c, before))
        Py_CLEAR(result);
    return result;
}

static PyObject *call_method(capture *c, PyObject *method, PyObject *args, PyObject *kwargs)
{
    PyObject *self = PyMethod_GET_SELF(method), *function = PyMethod_GET_FUNCTION(method);
    int context = PyObject_IsInstance(self, capture_the_words()->contexts);
    if (context < 0)
        return NULL;
    if (context)
        return call_context(c, method, args, kwargs);
    if (face_is_tensor(self)) {
        PyObject *all = with_first(self, args), *name = PyObject_GetAttrString(function, "__name__");
        PyObject *result = all && name ? capture_call_method(c, PyUnicode_AsUTF8(name), all, kwargs) : NULL;
        Py_XDECREF(all);
        Py_XDECREF(name);
        return result;
    }
    return call_with_first(c, function, self, args, kwargs);
}

/* ---- modules ---- */
static bool is_leaf(PyObject *module)
{
    PyObject *own = PyObject_GenericGetDict(module, NULL);
    bool patched = own && PyDict_Contains(own, face.name_forward) != 0;
    Py_XDECREF(own);
    if (patched)
        return false;
    capture_words *w = capture_the_words();
    PyObject *where = PyObject_GetAttrString((PyObject *)Py_TYPE(module), "__module__");
    const char *text = where && PyUnicode_Check(where) ? PyUnicode_AsUTF8(where) : NULL;
    size_t length = strlen(face.package);
    bool ours = text && strncmp(text, face.package, length) == 0 && strncmp(text + length, ".nn.", 4) == 0;
    Py_XDECREF(where);
    return ours && PyObject_IsInstance(module, w->opened) == 0;
}

/* What a leaf computes depends on its mode, on what it was made with, on its tensors and on its children. */
static bool guard_leaf(capture *c, PyObject *module, int32_t source)
{
    static const char *const dicts[] = { "_parameters", "_buffers", "_modules" };
    bool ok = tp_guard_settings(c->sources, source, module);
    for (size_t i = 0; ok && i < TP_COUNT(dicts); i++) {
        PyObject *name = PyUnicode_InternFromString(dicts[i]), *dict = name ? PyObject_GetAttr(module, name) : NULL, *key, *value;
        int32_t of = dict ? tp_source_in(c->sources, SOURCE_ATTRIBUTE, source, 0, name) : -1;
        ok = of >= 0;
        Py_ssize_t next = 0;
        while (ok && PyDict_Check(dict) && PyDict_Next(dict, &next, &key, &value)) {
            int32_t item = tp_source_in(c->sources, SOURCE_ITEM, of, 0, key);
            bool child = i == 2 && value != Py_None;
            ok = item >= 0 && tp_guard_add(c->sources, GUARD_ID, item, value, 0) &&
                 (!child || (tp_guard_add(c->sources, GUARD_NO_HOOKS, item, NULL, 0) && guard_leaf(c, value, item)));
        }
        Py_XDECREF(name);
        Py_XDECREF(dict);
    }
    return ok;
}

/* Stand-ins with memory: what a lazy module may look at. */
static PyObject *real_inputs(PyObject *o)
{
    if (face_is_tensor(o)) {
        const tp_tensor *t = face_tensor(o);
        return face_wrap_or_raise(tp_tensor_new((tp_dtype)t->dtype, t->ndim, t->size));
    }
    if (PyTuple_Check(o) || PyList_Check(o)) {
        PyObject *items = PySequence_List(o), *made = NULL;
        for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items); i++) {
            PyObject *item = real_inputs(PyList_GET_ITEM(items, i));
            if (!item || PyList_SetItem(items, i, item) < 0)
                Py_CLEAR(items);
        }
        if (items)
            made = PyList_CheckExact(o)                   ? Py_NewRef(items)
                   : PyTuple_CheckExact(o)                ? PyList_AsTuple(items)
                   : PyObject_HasAttrString(o, "_make") ? PyObject_CallMethod((PyObject *)Py_TYPE(o), "_make", "(O)", items)
                                                          : PyObject_CallOneArg((PyObject *)Py_TYPE(o), items);
        Py_XDECREF(items);
        return made;
    }
    if (PyDict_CheckExact(o)) {
        PyObject *made = PyDict_New(), *key, *value;
        Py_ssize_t at = 0;
        while (made && PyDict_Next(o, &at, &key, &value)) {
            PyObject *item = real_inputs(value);
            if (!item || PyDict_SetItem(made, key, item) < 0)
                Py_CLEAR(made);
            Py_XDECREF(item);
        }
        return made;
    }
    return Py_NewRef(o);
}

/* A module whose parameters have no shape yet gets them now, as its first real call would give them: the capture goes on
 * with the module it has become. */
static bool materialize(capture *c, PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *inside = capture_inside(c, args), *own = inside && kwargs ? capture_inside(c, kwargs) : NULL;
    PyObject *real = inside && (!kwargs || own) ? real_inputs(inside) : NULL, *named = real ? own ? real_inputs(own) : PyDict_New() : NULL;
    tp_fake_mode *mode = tp_self.fake;
    tp_fake_leave(mode);
    PyObject *done = named ? PyObject_CallMethod(module, "_infer_parameters", "OOO", module, real, named) : NULL;
    tp_fake_enter(mode);
    thread_state_keep_generator(c->start);      /* its parameters were drawn for good */
    Py_XDECREF(inside);
    Py_XDECREF(own);
    Py_XDECREF(real);
    Py_XDECREF(named);
    Py_XDECREF(done);
    return done;
}

static PyObject *call_module(capture *c, PyObject *module, PyObject *args, PyObject *kwargs)
{
    PyObject *lazy = PyObject_GenericGetDict(module, NULL);
    bool waits = lazy && PyDict_GetItemString(lazy, "_initialize_hook");
    Py_XDECREF(lazy);
    if (waits && !materialize(c, module, args, kwargs))
        return NULL;
    const record *r = capture_record(c, module);
    int32_t source = r ? r->source : NO_SOURCE;
    PyObject *own = capture_special(c, module, "__call__");
    if (PyErr_Occurred())
        return NULL;
    if (own)
        return call_with_first(c, own, module, args, kwargs);
    if (!face_module_is_plain(module))
        return call_with_first(c, face.module_slow, module, args, kwargs);
    if (source != NO_SOURCE && !tp_guard_add(c->sources, GUARD_NO_HOOKS, source, NULL, 0))
        return NULL;
    if (source != NO_SOURCE && is_leaf(module))
        return guard_leaf(c, module, source) ? capture_call_module(c, module, args, kwargs) : NULL;
    PyObject *forward = capture_load_attribute(c, module, face.name_forward);
    PyObject *result = forward ? capture_call(c, forward, args, kwargs) : NULL;
    Py_XDECREF(forward);
    return result;
}

/* ---- classes ---- */

/* What C code of a class that the program derives from is given. */
static bool show(capture *c, PyTypeObject *type, PyObject *args, PyObject *kwargs, PyObject **shown, PyObject **named)
{
    *named = Py_XNewRef(kwargs);
    *shown = capture_keeps_arguments(type) ? Py_NewRef(args) : capture_all_for_c(c, args, PyType_IsSubtype(type, &PyDict_Type));
    if (!*shown)
        Py_CLEAR(*named);
    return *shown;
}

static PyObject *make_for_real(capture *c, PyObject *class, PyObject *args, PyObject *kwargs)
{
    PyObject *shown, *named, *made = NULL;
    if (show(c, (PyTypeObject *)class, args, kwargs, &shown, &named))
        made = PyObject_Call(class, shown, named);
    Py_XDECREF(shown);
    Py_XDECREF(named);
    return made;
}

static PyObject *member_of(PyTypeObject *type, const char *name)
{
    PyObject *word = PyUnicode_InternFromString(name), *member = word ? _PyType_Lookup(type, word) : NULL;
    Py_XDECREF(word);
    return member;
}

/* Guards that the class has it; needs an instance or the class itself only to say where it is. */
static bool keep_special(capture *c, PyObject *class, const char *name)
{
    PyObject *word = PyUnicode_InternFromString(name), *value = word ? capture_load_attribute(c, class, word) : NULL;
    Py_XDECREF(word);
    Py_XDECREF(value);
    return value;
}

/* cls.__new__(cls, …): a function of the program's is followed, one of C makes an object if it is known to do no more. */
static PyObject *make_new(capture *c, PyTypeObject *type, PyObject *args, PyObject *kwargs, bool own_init)
{
    PyObject *class = (PyObject *)type, *new = member_of(type, "__new__");
    if (new && Py_IS_TYPE(new, &PyStaticMethod_Type) && !capture_is_named_tuple(type)) {
        PyObject *word = PyUnicode_InternFromString("__new__"), *function = word ? capture_load_attribute(c, class, word) : NULL;
        PyObject *made = function ? call_with_first(c, function, class, args, kwargs) : NULL;
        Py_XDECREF(word);
        Py_XDECREF(function);
        return made;
    }
    if (capture_is_named_tuple(type))
        return make_for_real(c, class, args, kwargs);
    if (!capture_makes(type))
        return capture_unsupported("a call of the class %s", type->tp_name);
    if (type->tp_new == PyBaseObject_Type.tp_new && own_init)
        return type->tp_alloc(type, 0);
    PyObject *shown, *named, *made = NULL;
    if (show(c, type, args, kwargs, &shown, &named))
        made = type->tp_new(type, shown, named);
    Py_XDECREF(shown);
    Py_XDECREF(named);
    return made;
}

/* A class of the program's, as type.__call__ does it. */
static PyObject *make_instance(capture *c, PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *init = member_of(type, "__init__");
    if (member_of(type, "__del__"))
        return capture_unsupported("a call of the class %s, which has __del__", type->tp_name);
    if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT || !init)
        return capture_unsupported("a call of the abstract class %s", type->tp_name);
    bool own = PyFunction_Check(init);
    if (own && !keep_special(c, (PyObject *)type, "__init__"))
        return NULL;
    PyObject *made = make_new(c, type, args, kwargs, own), *done = NULL;
    if (!made || !PyType_IsSubtype(Py_TYPE(made), type) || capture_is_outside(c, made))
        return made;
    if (own) {
        done = call_with_first(c, init, made, args, kwargs);
    } else if (type->tp_init == PyBaseObject_Type.tp_init) {
        return made;
    } else {
        PyObject *shown, *named;
        if (show(c, type, args, kwargs, &shown, &named))
            done = type->tp_init(made, shown, named) == 0 ? Py_NewRef(Py_None) : NULL;
        Py_XDECREF(shown);
        Py_XDECREF(named);
    }
    if (!done)
        Py_CLEAR(made);
    Py_XDECREF(done);
    return made;
}

/* Color(1): the member of that value. */
static PyObject *call_enum(capture *c, PyObject *class, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 1 || kwargs || !capture_is_constant(PyTuple_GET_ITEM(args, 0)))
        return capture_unsupported("a call of the enumeration %s", ((PyTypeObject *)class)->tp_name);
    PyObject *made = PyObject_Call(class, args, NULL);
    int32_t held = made ? tp_source_in(c->sources, SOURCE_HELD, NO_SOURCE, 0, made) : -1;
    if (made && (held < 0 || !(capture_record(c, made) || capture_note(c, made, held, true))))
        Py_CLEAR(made);
    return made;
}

static PyObject *call_class(capture *c, PyObject *class, PyObject *args, PyObject *kwargs)
{
    PyTypeObject *type = (PyTypeObject *)class;
    capture_words *w = capture_the_words();
    int context = PyObject_IsSubclass(class, w->contexts), module = PyObject_IsSubclass(class, w->module);
    if (context < 0 || module < 0)
        return NULL;
    for (Py_ssize_t i = 0; module && i < PyTuple_GET_SIZE(w->opened); i++)
        if (PyTuple_GET_ITEM(w->opened, i) == class)        /* a slice of a ModuleList: a new list of the same modules */
            module = 0;
    if (module || PyType_IsSubtype(type, face.tensor_base))
        return capture_unsupported("a call of the class %s", type->tp_name);
    if (context)
        return call_context(c, class, args, kwargs);
    if (PyObject_IsSubclass(class, w->module) == 1)
        return make_for_real(c, class, args, kwargs);
    if (capture_is_enum(type))
        return call_enum(c, class, args, kwargs);
    if (Py_TYPE(type)->tp_call != PyType_Type.tp_call)
        return capture_unsupported("a call of the class %s, whose metaclass has a way of its own", type->tp_name);
    if (capture_is_python_class(type) && !capture_trusts_class(type))
        return make_instance(c, type, args, kwargs);
    PyObject *init = member_of(type, "__init__");
    if (!capture_is_python_class(type) || type->tp_new != PyBaseObject_Type.tp_new || !init || !PyFunction_Check(init))
        return capture_makes(type) ? make_for_real(c, class, args, kwargs) : capture_unsupported("a call of the class %s", type->tp_name);
    PyObject *made = type->tp_alloc(type, 0), *done = made ? call_with_first(c, init, made, args, kwargs) : NULL;
    if (!done)
        Py_CLEAR(made);
    Py_XDECREF(done);
    return made;
}

/* ---- everything ---- */
static PyObject *call_partial(capture *c, PyObject *partial, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "func", "args", "keywords" };
    PyObject *part[3] = { 0 }, *all = NULL, *named = NULL, *result = NULL;
    for (int i = 0; i < 3; i++) {
        PyObject *name = PyUnicode_InternFromString(names[i]), *value = name ? PyObject_GetAttr(partial, name) : NULL;
        const record *r = capture_record(c, partial);
        if (value && r && r->source != NO_SOURCE) {
            PyObject *raw = value, *inside = capture_wrap(c, raw, tp_source_in(c->sources, SOURCE_ATTRIBUTE, r->source, 0, name));
            value = inside ? capture_shadow(c, inside, false) : NULL;
            Py_XDECREF(inside);
            Py_DECREF(raw);
        }
        Py_XDECREF(name);
        part[i] = value;
    }
    if (part[0] && part[1] && part[2] && (named = PyDict_Copy(part[2])) && (!kwargs || PyDict_Update(named, kwargs) == 0) &&
        (all = PySequence_Concat(part[1], args)))
        result = capture_call(c, part[0], all, named);
    for (int i = 0; i < 3; i++)
        Py_XDECREF(part[i]);
    Py_XDECREF(all);
    Py_XDECREF(named);
    return result;
}

static PyObject *call_object(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    capture_words *w = capture_the_words();
    int yes = PyObject_IsInstance(callable, w->module);
    if (yes > 0)
        return call_module(c, callable, args, kwargs);
    if (yes == 0 && (yes = PyObject_IsInstance(callable, w->partial)) > 0)
        return call_partial(c, callable, args, kwargs);
    if (yes < 0)
        return NULL;
    if (Py_IS_TYPE(callable, face.op_function) || Py_IS_TYPE(callable, face.overload) || PyObject_IsInstance(callable, face.overload_class) == 1)
        return capture_call_function(c, callable, args, kwargs);
    PyObject *method = capture_special(c, callable, "__call__");
    if (method)
        return call_with_first(c, method, callable, args, kwargs);
    return PyErr_Occurred() ? NULL : capture_unsupported("a call of an object of %s", Py_TYPE(callable)->tp_name);
}

PyObject *capture_call(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    bool done = false;
    if (kwargs && !PyDict_GET_SIZE(kwargs))
        kwargs = NULL;
    PyObject *result = capture_call_special(c, callable, args, kwargs, &done);
    if (done)
        return result;
    if (PyFunction_Check(callable))
        return call_python(c, callable, args, kwargs);
    if (PyMethod_Check(callable))
        return call_method(c, callable, args, kwargs);
    if (PyType_Check(callable))
        return call_class(c, callable, args, kwargs);
    return call_object(c, callable, args, kwargs);
}
