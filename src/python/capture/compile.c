/* compile.c - compiled callables: a call finds the entry whose guards hold and runs it, or captures a new one.
 *
 * Entries hang off the code object and are shared by all callables that have the same back end. A call that fits an entry
 * makes no Python frame: arguments are bound to slots, guards checked, graph run and result made, all from here. */
#include "python/capture/capture.h"

#include <structmember.h>
#include <string.h>

#include "base/alloc.h"
#include "python/capture/compile.h"
#include "python/capture/entries.h"
#include "python/capture/instructions.h"
#include "trace/fake.h"

typedef struct compiled {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function;         /* counted: a Python function */
    PyObject *self;             /* counted, may be NULL: bound as its first argument */
    PyObject *backend;          /* counted */
    PyObject *on_fail;          /* counted, may be NULL: guard_fail_fn */
    PyObject *dict, *weakrefs;
    bool fullgraph;
} compiled;

capture_words *capture_the_words(void)
{
    return face.capture_words;
}

/* ---- running an entry ---- */
static PyObject *run_entry(const entry *e, const call_state *call, PyObject **values)
{
    PyObject *few[24], **input = e->input_count <= TP_COUNT(few) ? few : tp_alloc_array(e->input_count, sizeof *few);
    if (!input)
        return face_raise();
    PyObject *outputs = NULL, *result = NULL;
    bool ok = true;
    for (size_t i = 0; ok && i < e->input_count; i++)
        ok = (input[i] = tp_source_value(&e->sources, e->input[i], call, values));
    if (!ok)
        PyErr_SetString(PyExc_RuntimeError, "a captured call lost one of its inputs");
    if (ok && e->run && !(outputs = PyObject_Vectorcall(e->run, input, e->input_count, NULL)))
        ok = false;
    if (outputs && !PyTuple_CheckExact(outputs)) {          /* a list may be another's too, and change */
        PyObject *tuple = face_is_tensor(outputs) ? PyErr_Format(PyExc_TypeError, "the back end's function gave a tensor, not a tuple of outputs")
                                                  : PySequence_Tuple(outputs);
        Py_SETREF(outputs, tuple);
        ok = tuple;
    }
    if (ok && outputs && PyTuple_GET_SIZE(outputs) < (Py_ssize_t)recipe_output_count(e->recipe)) {
        PyErr_Format(PyExc_RuntimeError, "the back end's function gave %zd outputs instead of %zu", PyTuple_GET_SIZE(outputs),
                     recipe_output_count(e->recipe));
        ok = false;
    }
    if (ok && e->only_output >= 0)
        result = Py_NewRef(PyTuple_GET_ITEM(outputs, e->only_output));
    else if (ok)
        result = recipe_run(e->recipe, outputs ? ((PyTupleObject *)outputs)->ob_item : NULL, &e->sources, call, values);
    if (!result && e->state != thread_state_word())         /* it ended inside a region that the graph had entered */
        thread_state_set(e->state);
    Py_XDECREF(outputs);
    if (input != few)
        tp_free(input);
    return result;
}

/* Runs the entry if it fits; else *reason, when it is wanted and not there yet, is the guard that failed, as text. */
static bool try_entry(compiled *f, entry *e, const call_state *call, PyObject **reason, PyObject **result)
{
    if (!entry_is_for(e, f->backend) || e->state != thread_state_word())
        return false;
    PyObject *few[64] = { 0 };
    size_t count = e->sources.path.count;
    PyObject **values = count <= TP_COUNT(few) ? few : tp_alloc_zero(count * sizeof *few);
    const guard *failed = NULL;
    if (!values) {
        *result = face_raise();
        return true;
    }
    bool fits = tp_guards_hold(&e->sources, call, values, &failed);
    if (fits) {
        entry_to_front(e);                      /* what fits now will fit next */
        *result = run_entry(e, call, values);
    } else if (f->on_fail && !*reason) {
        *reason = tp_guard_text(&e->sources, failed);
        fits = PyErr_Occurred();                /* a text that cannot be made: somebody's __repr__ */
    }
    for (size_t i = 0; i < count; i++)
        Py_XDECREF(values[i]);
    if (values != few)
        tp_free(values);
    return fits;
}

/* Tries the entries. NULL without an exception: none fits. */
static PyObject *run_cached(compiled *f, code_entries *all, const call_state *call, PyObject **reason)
{
    PyObject *result = NULL;
    bool found = false;
    for (entry *e = entry_ref(all->first), *next; e; e = next) {
        found = try_entry(f, e, call, reason, &result);
        next = found ? NULL : entry_ref(e->next);
        entry_unref(e);
    }
    return result;
}

/* ---- making an entry ---- */

/* Inputs nobody reads and items nobody took are no part of the graph. */
static void tidy(capture *c)
{
    for (tp_node *n = c->graph->root.prev, *before; !tp_node_is_root(n); n = before) {
        before = n->prev;
        bool idle = n->kind == TP_PLACEHOLDER || n->kind == TP_GET_ATTR ||
                    (n->kind == TP_CALL_FUNCTION && n->target.kind == TP_TARGET_BUILTIN && n->target.builtin == tp_builtin_getitem);
        if (idle && !n->user_count)
            tp_node_erase(n);
    }
    size_t kept = 0;
    for (size_t i = 0; i < c->input.count; i++) {
        graph_input in = c->input.item[i];
        if (in.node->flags & TP_NODE_ERASED)
            Py_DECREF(in.stand_in);
        else
            c->input.item[kept++] = in;
    }
    c->input.count = kept;
}

static bool give_output(capture *c, const recipe *r)
{
    size_t count = recipe_output_count(r);
    tp_list *l = tp_list_new(count);
    if (!l) {
        face_raise();
        return false;
    }
    for (size_t i = 0; i < count; i++)
        l->item[i] = tp_of_node(recipe_output(r, i));
    (void)tp_graph_output(c->graph, (tp_value){ .tag = TP_TUPLE, .list = l });
    tp_value_unref(tp_of_list(l));
    if (tp_graph_check(c->graph))
        return true;
    face_raise();
    return false;
}

static bool has_calls(const tp_graph *g)
{
    tp_graph_each(g, n)
        if (n->kind == TP_CALL_FUNCTION || n->kind == TP_CALL_METHOD || n->kind == TP_CALL_MODULE)
            return true;
    return false;
}

static bool writes_inputs(const tp_graph *g)
{
    tp_graph_each(g, n)
        if ((n->kind == TP_CALL_FUNCTION || n->kind == TP_CALL_METHOD) && n->flags & TP_NODE_IMPURE)
            return true;
    return false;
}

/* A graph that writes was made for inputs that are different tensors: one given twice is another program. */
static bool guard_different(capture *c)
{
    if (!writes_inputs(c->graph))
        return true;
    for (size_t i = 0; i < c->input.count; i++)
        for (size_t k = 0; k < i; k++)
            if (!tp_guard_add(c->sources, GUARD_OTHER, c->input.item[i].source, NULL, c->input.item[k].source))
                return false;
    return true;
}

/* Hands the graph to the back end, with this call's inputs as examples. */
static bool compile_graph(compiled *f, capture *c, entry *e)
{
    bool calls = has_calls(c->graph);
    if (!give_output(c, e->recipe))
        return false;
    tidy(c);
    if (!guard_different(c))
        return false;
    if (!calls && !recipe_output_count(e->recipe))
        return true;
    size_t paths = e->sources.path.count;
    PyObject **values = tp_alloc_zero((paths + 1) * sizeof *values), *examples = PyList_New((Py_ssize_t)c->input.count), *graph = NULL;
    bool ok = values && examples && (e->input = tp_alloc_array(c->input.count + 1, sizeof *e->input));
    if (!ok && !PyErr_Occurred())
        face_raise();
    for (size_t i = 0; ok && i < c->input.count; i++) {
        PyObject *real = tp_source_value(&e->sources, c->input.item[i].source, &c->call, values);
        e->input[i] = c->input.item[i].source;
        if ((ok = real))
            PyList_SET_ITEM(examples, (Py_ssize_t)i, Py_NewRef(real));
        else
            PyErr_SetString(PyExc_RuntimeError, "what was captured is gone before it ran");
    }
    e->input_count = c->input.count;
    if (ok && (graph = fx_wrap_graph(c->graph)))
        e->run = PyObject_CallFunctionObjArgs(face.capture_words->compile_graph, f->backend, graph, c->attributes, examples, NULL);
    for (size_t i = 0; values && i < paths; i++)
        Py_XDECREF(values[i]);
    tp_free(values);
    Py_XDECREF(examples);
    Py_XDECREF(graph);
    return e->run;
}

/* Follows the function with these arguments; the entry gets the recipe. */
static bool follow(capture *c, PyObject *function, PyCodeObject *code, PyObject *const *slot, PyObject **result, entry *e,
                   bool *raised)
{
    if (PyFunction_GET_CODE(function) != (PyObject *)code)      /* told of a failing guard, somebody gave it another */
        return capture_unsupported("a function whose code is exchanged while it is called");
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE))
        return capture_unsupported("a function that gives a generator or a coroutine");
    int slots = capture_slot_count(code);
    PyObject *taken[MOST_SLOTS + 1];
    for (int i = 0; i < slots; i++)
        taken[i] = Py_NewRef(slot[i]);
    frame *f = frame_new(c, function, taken, true);
    if (!f)
        return false;
    for (size_t i = 0; i < f->code->local_count; i++)
        f->pending[i] = NO_SOURCE;
    bool ok = true;
    for (int i = 0; ok && i < slots; i++)
        ok = (f->pending[i] = tp_source_in(c->sources, SOURCE_ARGUMENT, NO_SOURCE, i, f->code->local[i].name)) >= 0;
    *raised = ok && frame_run(f) != FRAME_RETURNED;
    ok &= !*raised;
    *result = ok ? Py_NewRef(f->taken) : NULL;
    if (ok && !(e->recipe = recipe_new(c, *result))) {
        ok = false;
        c->frame = f;
        if (PyErr_ExceptionMatches(capture_the_words()->unsupported))
            capture_note_place(c);
        c->frame = NULL;
    }
    frame_free(f);
    return ok;
}

/* *raised: it was the program that raised. */
static entry *make_entry(compiled *f, PyCodeObject *code, const call_state *call, PyObject *const *slot, bool *raised)
{
    entry *e = entry_new(f->backend);
    capture c;
    if (!e)
        return NULL;
    thread_state before;
    thread_state_save(&before);
    e->state = before.word;
    PyObject *result = NULL;
    bool ok = capture_init(&c, &e->sources);
    if (ok) {
        tp_fake_mode fake = { .allow_real = true, .facts_only = true };
        c.call = *call;
        c.globals = PyFunction_GET_GLOBALS(f->function);
        c.start = &before;
        c.runs_code = capture_is_listed(face.capture_words->code_backends, f->backend) != 0;
        tp_fake_enter(&fake);
        ok = follow(&c, f->function, code, slot, &result, e, raised);
        capture_end_generators(&c);
        capture_end_callables(&c);
        tp_fake_leave(&fake);
        thread_state_restore(&before);
    }
    ok = ok && compile_graph(f, &c, e);
    thread_state_restore(&before);
    if (ok)
        e->only_output = recipe_only_output(e->recipe);
    Py_XDECREF(result);
    capture_fini(&c);
    if (ok)
        return e;
    entry_unref(e);
    return NULL;
}

/* ---- calling ---- */
static PyObject *call_plainly(compiled *f, PyCodeObject *code, PyObject *const *slot)
{
    int plain = code->co_argcount, named = code->co_kwonlyargcount, at = plain + named;
    PyObject *args = PyTuple_New(plain), *kwargs = PyDict_New(), *all = NULL, *result = NULL;
    bool ok = args && kwargs;
    for (int i = 0; ok && i < plain; i++)
        PyTuple_SET_ITEM(args, i, Py_NewRef(slot[i]));
    for (int i = 0; ok && i < named; i++)
        ok = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(code->co_localsplusnames, plain + i), slot[plain + i]) == 0;
    if (ok && code->co_flags & CO_VARARGS)
        all = PySequence_Concat(args, slot[at++]);
    else if (ok)
        all = Py_NewRef(args);
    if (all && (!(code->co_flags & CO_VARKEYWORDS) || PyDict_Update(kwargs, slot[at]) == 0))
        result = PyObject_Call(f->function, all, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(all);
    return result;
}

static bool tell_failure(compiled *f, PyCodeObject *code, PyObject *reason)
{
    PyObject *pair = PyTuple_Pack(2, reason, (PyObject *)code);
    PyObject *done = pair ? PyObject_CallOneArg(f->on_fail, pair) : NULL;
    Py_XDECREF(pair);
    Py_XDECREF(done);
    return done;
}

/* Entries of other instances do not count against the limit. */
static int count_about(const code_entries *all, const compiled *f, const call_state *call)
{
    int count = 0;
    for (const entry *e = all->first; e; e = e->next)
        count += entry_is_for(e, f->backend) && entry_is_about(e, call);
    return count;
}

/* A fake tensor was asked for what depends on data: the capture's fault, not the program's. */
static PyObject *refuse_data(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    capture_unsupported("%S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return NULL;
}

/* Captures, then runs what was captured. */
static PyObject *call_new(compiled *f, PyCodeObject *code, code_entries *all, const call_state *call, PyObject *const *slot)
{
    int about = all->first ? count_about(all, f, call) : 0;
    if (about && face.capture_words->strict)
        return PyErr_Format(face.capture_words->recompiled, "Recompiling function %U in %U:%d", ((PyFunctionObject *)f->function)->func_name,
                            code->co_filename, code->co_firstlineno);
    if (face.capture_words->stance == STANCE_FAIL_ON_RECOMPILE)
        return PyErr_Format(PyExc_RuntimeError, "Detected recompile when torch.compile stance is 'fail_on_recompile'. filename: '%U', "
                            "function name: '%U', line number: %d", code->co_filename, ((PyFunctionObject *)f->function)->func_name,
                            code->co_firstlineno);
    if (face.capture_words->stance == STANCE_EAGER_ON_RECOMPILE)
        return call_plainly(f, code, slot);
    bool program = false;
    if (about >= face.capture_words->limit || all->count >= face.capture_words->total_limit) {
        if (f->fullgraph)
            return PyErr_Format(face.capture_words->over_limit, "Hard failure due to fullgraph=True: %U has been captured %d times, as often as "
                                "the recompile limit allows", ((PyFunctionObject *)f->function)->func_qualname, about);
        return call_plainly(f, code, slot);
    }
    entry *e = make_entry(f, code, call, slot, &program);
    if (!e) {
        bool unsupported = PyErr_ExceptionMatches(face.capture_words->unsupported), own = face.capture_words->failed && PyErr_ExceptionMatches(face.capture_words->failed);
        bool stops = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) || PyErr_ExceptionMatches(PyExc_MemoryError);
        if (f->fullgraph && PyErr_ExceptionMatches(face.capture_words->needs_data))
            return refuse_data();
        bool failed = own && !unsupported, silenced = failed && face.capture_words->suppress;
        program &= !unsupported && !own && !PyErr_ExceptionMatches(PyExc_RecursionError);    /* its own exception: it raises it once more, with all it does before */
        if ((f->fullgraph && !program && !silenced) || (failed && !silenced) || stops)
            return NULL;
        PyErr_Clear();                          /* the program's own exception is raised again, after what it does before it */
        all->plain |= unsupported;              /* another call may go another way, but will seldom be worth the search */
        return call_plainly(f, code, slot);
    }
    PyObject *reason = NULL, *result = run_cached(f, all, call, &reason);      /* another thread may have been as far meanwhile */
    Py_CLEAR(reason);
    bool made = !result && !PyErr_Occurred(), added = !made || entry_add(all, e);
    entry_unref(e);
    if (!added || !made)
        return result;
    result = run_cached(f, all, call, &reason);
    Py_XDECREF(reason);
    if (!result && !PyErr_Occurred())           /* capturing changed what it looked at: what is sure is the program itself */
        return call_plainly(f, code, slot);
    return result;
}

/* Inside a tracer, a transform or a mode of the user's the function runs as it is: what watches must see its ops. */
static bool is_watched(void)
{
    return tp_self.active || tp_self.modes || tp_self.saved_hooks;
}

static PyObject *call_with_code(compiled *f, PyCodeObject *code, PyObject *const *slot)
{
    call_state call = { slot, PyFunction_GET_CLOSURE(f->function), PyFunction_GET_GLOBALS(f->function) };
    code_entries *all = entries_of(code);
    PyObject *reason = NULL, *result;
    if (!all)
        return NULL;
    if (all->plain && !f->fullgraph)
        return call_plainly(f, code, slot);
    result = run_cached(f, all, &call, &reason);
    bool told = result || PyErr_Occurred() || !reason || tell_failure(f, code, reason);
    Py_XDECREF(reason);
    return result || PyErr_Occurred() || !told ? result : call_new(f, code, all, &call, slot);
}

/* The function may get other code while it is called: what hangs off this one is needed to the end. */
static PyObject *call_bound(compiled *f, PyObject *const *slot)
{
    PyObject *code = Py_NewRef(PyFunction_GET_CODE(f->function));
    PyObject *result = call_with_code(f, (PyCodeObject *)code, slot);
    Py_DECREF(code);
    return result;
}

static PyObject *compiled_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    compiled *f = (compiled *)callable;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(f->function);
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    int slots = capture_slot_count(code), bound = 1;
    PyObject *slot[MOST_SLOTS + 1], *result;
    if (TP_UNLIKELY(tp_capture_stack_ends()))
        return PyErr_Format(PyExc_RecursionError, "maximum recursion depth exceeded: the C stack is used up");
    if (TP_UNLIKELY(is_watched() || !face.capture_words || face.capture_words->stance == STANCE_EAGER || slots > MOST_SLOTS || count >= MOST_SLOTS)) {
        PyObject *plain = f->self ? PyMethod_New(f->function, f->self) : Py_NewRef(f->function);
        result = plain ? PyObject_Vectorcall(plain, args, flags, names) : NULL;
        Py_XDECREF(plain);
        return result;
    }
    if (TP_LIKELY(!names && !f->self && count == slots && count == code->co_argcount))
        return call_bound(f, args);
    PyObject *all[MOST_SLOTS + 1], *kwargs = NULL;
    Py_ssize_t first = f->self ? 1 : 0, given = names ? PyTuple_GET_SIZE(names) : 0;
    all[0] = f->self;
    memcpy(all + first, args, (size_t)count * sizeof *all);
    if (given && !(kwargs = PyDict_New()))
        return NULL;
    for (Py_ssize_t i = 0; i < given; i++)
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i), args[count + i]) < 0)
            bound = -1;
    if (bound == 1)
        bound = capture_bind(f->function, all, count + first, kwargs, slot);
    if (bound == 1)
        bound = capture_fill_defaults(NULL, f->function, slot);
    if (bound == 1) {
        result = call_bound(f, slot);
        for (int i = 0; i < slots; i++)
            Py_XDECREF(slot[i]);
    } else {                                    /* the arguments do not fit: the function's own error */
        PyObject *tuple = bound == 0 ? PyTuple_New(count + first) : NULL;
        for (Py_ssize_t i = 0; tuple && i < count + first; i++)
            PyTuple_SET_ITEM(tuple, i, Py_NewRef(all[i]));
        result = tuple ? PyObject_Call(f->function, tuple, kwargs) : NULL;
        Py_XDECREF(tuple);
    }
    Py_XDECREF(kwargs);
    return result;
}

/* ---- the type ---- */
static PyObject *compiled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "function", "self", "backend", "fullgraph", "guard_fail_fn", NULL };
    PyObject *function, *self, *backend, *on_fail;
    int fullgraph;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOpO", names, &PyFunction_Type, &function, &self, &backend, &fullgraph, &on_fail))
        return NULL;
    compiled *f = (compiled *)type->tp_alloc(type, 0);
    if (!f)
        return NULL;
    f->call = compiled_call;
    f->function = Py_NewRef(function);
    f->self = self == Py_None ? NULL : Py_NewRef(self);
    f->backend = Py_NewRef(backend);
    f->on_fail = on_fail == Py_None ? NULL : Py_NewRef(on_fail);
    f->fullgraph = fullgraph;
    return (PyObject *)f;
}

static int compiled_traverse(PyObject *self, visitproc visit, void *arg)
{
    compiled *f = (compiled *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(f->function);
    Py_VISIT(f->self);
    Py_VISIT(f->backend);
    Py_VISIT(f->on_fail);
    Py_VISIT(f->dict);
    return 0;
}

static int compiled_clear(PyObject *self)
{
    compiled *f = (compiled *)self;
    Py_CLEAR(f->self);
    Py_CLEAR(f->backend);
    Py_CLEAR(f->on_fail);
    Py_CLEAR(f->dict);
    return 0;
}

static void compiled_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    compiled *f = (compiled *)self;
    PyObject_GC_UnTrack(self);
    if (f->weakrefs)
        PyObject_ClearWeakRefs(self);
    (void)compiled_clear(self);
    Py_CLEAR(f->function);
    type->tp_free(self);
    Py_DECREF(type);
}

/* As an attribute of a class it is a method, as the function it stands for. */
static PyObject *compiled_get(PyObject *self, PyObject *instance, PyObject *class)
{
    (void)class;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyMemberDef compiled_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(compiled, call), READONLY, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(compiled, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(compiled, weakrefs), READONLY, NULL },
    { "_function", T_OBJECT, offsetof(compiled, function), READONLY, NULL },
    { "_backend", T_OBJECT, offsetof(compiled, backend), READONLY, NULL },
    { 0 },
};
static PyGetSetDef compiled_attributes[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyType_Slot compiled_slots[] = {
    { Py_tp_new, compiled_new },           { Py_tp_dealloc, compiled_dealloc },     { Py_tp_traverse, compiled_traverse },
    { Py_tp_clear, compiled_clear },       { Py_tp_call, PyVectorcall_Call },       { Py_tp_descr_get, compiled_get },
    { Py_tp_members, compiled_members },   { Py_tp_getset, compiled_attributes },   { 0, NULL },
};
static PyType_Spec compiled_spec = { "_Compiled", sizeof(compiled), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, compiled_slots };

/* ---- what Python tells ---- */

/* _configure(words): a dict whose keys are the fields of capture_words. */
static PyObject *configure(PyObject *module, PyObject *words)
{
    static const struct { const char *name; size_t at; } rows[] = {
#define ROW(field) { #field, offsetof(capture_words, field) }
        ROW(unsupported), ROW(failed), ROW(recompiled), ROW(over_limit), ROW(needs_data), ROW(module), ROW(opened), ROW(recorded), ROW(contexts),
        ROW(breaks), ROW(pure), ROW(asked), ROW(acting), ROW(known_as), ROW(function_apply), ROW(code_backends), ROW(affirmed), ROW(switches), ROW(trees), ROW(tree_classes),
        ROW(operators), ROW(comparisons),
        ROW(getitem), ROW(setitem), ROW(neg), ROW(pos), ROW(invert), ROW(getattr), ROW(set_grad_enabled), ROW(partial), ROW(compile_graph),
#undef ROW
    };
    (void)module;
    capture_words *w = face.capture_words ? face.capture_words : PyMem_Calloc(1, sizeof *w);
    if (!w)
        return PyErr_NoMemory();
    if (!face.capture_words) {
        w->limit = 8;
        w->total_limit = 256;
    }
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        PyObject *value = PyDict_Check(words) ? PyDict_GetItemString(words, rows[i].name) : NULL;
        PyObject **field = (PyObject **)(void *)((char *)w + rows[i].at);
        if (!value) {
            if (!face.capture_words)
                PyMem_Free(w);
            return PyErr_Format(PyExc_KeyError, "%s", rows[i].name);
        }
        Py_XSETREF(*field, Py_NewRef(value));
    }
    face.capture_words = w;
    Py_RETURN_NONE;
}

static PyObject *reset(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    entries_reset();
    Py_RETURN_NONE;
}

/* _set_limits(entries about the same modules, all entries of a code object, raise instead of capturing again, run plainly what a
 * back end failed on) */
static PyObject *set_limits(PyObject *module, PyObject *args)
{
    int limit, total, strict, suppress;
    (void)module;
    if (!PyArg_ParseTuple(args, "iipp", &limit, &total, &strict, &suppress))
        return NULL;
    if (face.capture_words) {
        face.capture_words->limit = limit;
        face.capture_words->total_limit = total;
        face.capture_words->strict = strict;
        face.capture_words->suppress = suppress;
    }
    Py_RETURN_NONE;
}

/* _set_stance(number) -> the one before */
static PyObject *set_stance(PyObject *module, PyObject *number)
{
    long stance = PyLong_AsLong(number);
    (void)module;
    if (stance == -1 && PyErr_Occurred())
        return NULL;
    if (!face.capture_words || stance < STANCE_DEFAULT || stance > STANCE_FAIL_ON_RECOMPILE)
        return PyErr_Format(PyExc_ValueError, "no stance has the number %ld", stance);
    long before = face.capture_words->stance;
    face.capture_words->stance = (int)stance;
    return PyLong_FromLong(before);
}

static PyMethodDef compile_functions[] = {
    { "_configure", configure, METH_O, "what torch._dynamo tells the capture" },
    { "_reset", reset, METH_NOARGS, "forgets all that was captured" },
    { "_set_stance", set_stance, METH_O, "what calls of compiled callables do" },
    { "_set_limits", set_limits, METH_VARARGS, "how many entries a code object may have" },
    { 0 },
};

bool capture_compile_init(PyObject *module)
{
    return capture_generator_init(module) && capture_callable_init(module) && PyModule_AddFunctions(module, compile_functions) == 0 &&
           face_make_type(module, &compiled_spec, NULL);
}
