/* jit_trace.c - torch.jit.trace: running a Python function while the recorder writes its ops down.
 *
 * The recorder (jit/record.c) knows tensors and values; this file knows Python: nests of inputs and outputs, the frame the
 * program stands in, modules by their paths, sizes that are values, and the warnings about what a trace cannot see. */
#include "jit/run.h"
#include "python/jit.h"

enum { ORIGINS = 16 };

/* One run of torch.jit.trace. */
typedef struct session {
    tp_jit_trace *trace;        /* owned */
    PyObject *paths;            /* counted dict: module -> path in the root, see face_jit_walk; NULL: no frames */
    bool strict, flat;
    struct origin_known {       /* places of the program, by their hash: a model is a few lines, again and again */
        PyCodeObject *code;     /* counted; NULL: free */
        int instruction;
        tp_origin *origin;      /* counted */
    } known[ORIGINS];
    PyObject *names;            /* counted, may be NULL: the name given out last */
} session;

static session *current(void)
{
    tp_jit_trace *t = tp_jit_trace_current();
    return t ? tp_jit_trace_user(t) : NULL;
}

/* ---- where the program stands ---- */
static tp_origin *origin_of(PyCodeObject *code, int line)
{
    char text[1024];
    const char *file = PyUnicode_AsUTF8(code->co_filename);
    PyOS_snprintf(text, sizeof text, "%s:%d:0", file ? file : "?", line);
    PyErr_Clear();
    tp_origin *made = tp_origin_new();
    tp_value place = made ? tp_value_string(text, strlen(text)) : tp_none();
    if (tp_is_none(place)) {
        tp_origin_unref(made);
        tp_error_clear();
        return NULL;
    }
    made->stack_trace = place.string;
    return made;
}

static void origin_forget(struct origin_known *known)
{
    Py_XDECREF(known->code);
    tp_origin_unref(known->origin);
}

static tp_origin *origin_now(void *user)
{
    session *s = user;
    PyFrameObject *frame = PyEval_GetFrame();
    if (!frame)
        return NULL;
    PyCodeObject *code = PyFrame_GetCode(frame);
    int instruction = PyFrame_GetLasti(frame);
    struct origin_known *known = &s->known[((uintptr_t)code / 64 + (uintptr_t)instruction / 2) % ORIGINS];
    if (known->code == code && known->instruction == instruction) {
        Py_DECREF(code);
        return tp_origin_ref(known->origin);
    }
    tp_origin *made = origin_of(code, PyFrame_GetLineNumber(frame));
    if (!made) {
        Py_DECREF(code);
        return NULL;
    }
    origin_forget(known);
    *known = (struct origin_known){ code, instruction, made };
    return tp_origin_ref(made);
}

/* A local variable of the innermost frame that is this very tensor. */
static const char *local_name(void *user, const tp_tensor *t)
{
    session *s = user;
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *locals = frame && t->wrapper ? PyFrame_GetLocals(frame) : NULL;
    const char *found = NULL;
    if (locals && PyDict_Check(locals)) {
        PyObject *name, *value;
        Py_ssize_t at = 0;
        while (!found && PyDict_Next(locals, &at, &name, &value))
            if (value == t->wrapper && PyUnicode_CompareWithASCIIString(name, "self") != 0) {
                Py_XSETREF(s->names, Py_NewRef(name));
                found = PyUnicode_AsUTF8(name);
            }
    }
    Py_XDECREF(locals);
    PyErr_Clear();
    return found;
}

bool face_jit_warn(const char *text)
{
    PyObject *kind = face.tracer_warning ? face.tracer_warning : PyExc_UserWarning;
    return PyErr_WarnEx(kind, text, 1) == 0;
}

static bool warn_below(void *user, const char *text)
{
    (void)user;
    return face_jit_warn(text) || face_foreign();
}

bool face_jit_warn_conversion(const char *what)
{
    char text[400];
    PyOS_snprintf(text, sizeof text, "Converting a tensor to %s might cause the trace to be incorrect. We can't record the data flow of Python "
                  "values, so this value will be treated as a constant in the future. This means that the trace might not generalize to "
                  "other inputs!", what);
    return !current() || face_jit_warn(text);
}

/* ---- inputs ---- */
static bool raised(tp_jit_value v)
{
    if (!v)
        face_raise();
    return !v;
}

static PyObject *enter(session *s, PyObject *example, tp_jit_value v, const tp_jit_type *type);

/* A tensor under a new identity: given twice, or a parameter too, it is still an input of its own. */
static PyObject *enter_tensor(session *s, PyObject *example, tp_jit_value v)
{
    tp_tensor *t = face_tensor(example);
    PyObject *mine = Py_NewRef(example);
    if (tp_jit_trace_find(s->trace, t)) {
        Py_SETREF(mine, PyObject_CallMethod(example, "view_as", "O", example));
        if (!mine)
            return NULL;
    }
    if (tp_jit_trace_bind(s->trace, face_tensor(mine), v))
        return mine;
    Py_DECREF(mine);
    return face_raise();
}

static PyObject *enter_items(session *s, PyObject *example, tp_jit_value v, const tp_jit_type *type)
{
    bool tuple = PyTuple_Check(example);
    Py_ssize_t count = PySequence_Fast_GET_SIZE(example), done = 0;
    tp_jit_type **item = PyMem_Calloc((size_t)count + 1, sizeof *item);
    tp_jit_value *id = PyMem_Calloc((size_t)count + 1, sizeof *id);
    PyObject *made = item && id ? PyTuple_New(count) : PyErr_NoMemory();
    for (; made && done < count; done++) {      /* an element of a list is known as well as the example is */
        PyObject *o = PySequence_Fast_ITEMS(example)[done];
        item[done] = face_is_tensor(o) ? tp_jit_tensor_new(face_tensor(o)) : tp_jit_type_ref(type->part[tuple ? done : 0].type);
        if (!item[done]) {
            face_raise();
            Py_CLEAR(made);
            break;
        }
    }
    if (made && !tp_jit_trace_unpack(s->trace, tuple ? "prim::TupleUnpack" : "prim::ListUnpack", v, item, (uint32_t)count, id)) {
        face_raise();
        Py_CLEAR(made);
    }
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *one = enter(s, PySequence_Fast_ITEMS(example)[i], id[i], item[i]);
        if (!one)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, one);
    }
    for (Py_ssize_t i = 0; i < done; i++)
        tp_jit_type_unref(item[i]);
    PyMem_Free(item);
    PyMem_Free(id);
    if (made && !tuple)
        Py_SETREF(made, PySequence_List(made));
    else if (made && !PyTuple_CheckExact(example) && PyObject_HasAttrString((PyObject *)Py_TYPE(example), "_make"))
        Py_SETREF(made, PyObject_Call((PyObject *)Py_TYPE(example), made, NULL));
    return made;
}

static PyObject *enter_dict(session *s, PyObject *example, tp_jit_value v, const tp_jit_type *type)
{
    PyObject *made = PyDict_New(), *key, *item;
    Py_ssize_t at = 0;
    while (made && PyDict_Next(example, &at, &key, &item)) {
        tp_value boxed;
        tp_jit_type *of = face_is_tensor(item) ? tp_jit_tensor_new(face_tensor(item)) : tp_jit_type_ref(type->part[1].type);
        tp_jit_value arg[2] = { v, 0 }, id = 0;
        if (of && face_jit_to_value(key, &boxed)) {
            arg[1] = tp_jit_trace_constant(s->trace, boxed);
            tp_value_unref(boxed);
            id = arg[1] ? tp_jit_trace_prim(s->trace, "aten::__getitem__", arg, 2, tp_jit_type_ref(of)) : 0;
        }
        PyObject *one = PyErr_Occurred() || raised(id) ? NULL : enter(s, item, id, of);
        tp_jit_type_unref(of);
        if (!one || PyDict_SetItem(made, key, one) < 0)
            Py_CLEAR(made);
        Py_XDECREF(one);
    }
    return made;
}

/* The example as the traced function gets it: its tensors are bound to values read from `v`. */
static PyObject *enter(session *s, PyObject *example, tp_jit_value v, const tp_jit_type *type)
{
    if (face_is_tensor(example))
        return enter_tensor(s, example, v);
    if (PyTuple_Check(example) || PyList_Check(example))
        return enter_items(s, example, v, type);
    return enter_dict(s, example, v, type);
}

static PyObject *enter_all(session *s, PyObject *args, PyObject *names)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    tp_jit_value *id = PyMem_Calloc((size_t)count + 1, sizeof *id);
    PyObject *made = id ? PyTuple_New(count) : PyErr_NoMemory();
    /* All inputs stand before what takes the first one apart. */
    for (Py_ssize_t i = 0; made && i < count; i++) {
        const char *name = i < PyTuple_GET_SIZE(names) ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i)) : NULL;
        tp_jit_type *type = face_jit_infer(PyTuple_GET_ITEM(args, i));
        char numbered[32];
        PyOS_snprintf(numbered, sizeof numbered, "argument_%zd", i + 1);
        if (!type || raised(id[i] = tp_jit_trace_input(s->trace, s->flat ? NULL : name ? name : numbered, type)))
            Py_CLEAR(made);
    }
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *one = enter(s, PyTuple_GET_ITEM(args, i), id[i], tp_jit_trace_type(s->trace, id[i]));
        if (!one)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, one);
    }
    PyMem_Free(id);
    return made;
}

/* ---- outputs ---- */
static const char not_an_output[] = "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions";
#define CONTAINER(kind) "Encountering a " kind " at the output of the tracer might cause the trace to be incorrect, this is only valid if the " \
    "container structure does not change based on the module's inputs. Consider using a constant container instead (e.g. for `list`, use " \
    "a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely need this and know the side effects, pass strict=False " \
    "to trace() to allow this behavior."

static tp_jit_value leave(session *s, PyObject *o, bool top);

static tp_jit_value leave_tensor(session *s, PyObject *o)
{
    tp_jit_value v = tp_jit_trace_of(s->trace, face_tensor(o));
    return raised(v) ? 0 : v;
}

static tp_jit_value leave_items(session *s, PyObject *o, const char *kind)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(o);
    tp_jit_value *id = PyMem_Calloc((size_t)count + 1, sizeof *id), made = 0;
    tp_jit_type **type = PyMem_Calloc((size_t)count + 1, sizeof *type), *all = NULL;
    bool ok = id && type, list = PyList_Check(o);
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        ok = (id[i] = leave(s, PySequence_Fast_ITEMS(o)[i], false));
        type[i] = ok ? tp_jit_trace_type(s->trace, id[i]) : NULL;
    }
    if (ok) {
        all = list ? tp_jit_list_new(tp_jit_simple(TP_JIT_ANY_TENSOR)) : tp_jit_tuple_new(type, (uint32_t)count);
        made = all ? tp_jit_trace_prim(s->trace, kind, id, (uint32_t)count, all) : 0;
        if (!made)
            face_raise();
    }
    PyMem_Free(id);
    PyMem_Free(type);
    return made;
}

static tp_jit_value leave_list(session *s, PyObject *o)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); i++)
        if (!face_is_tensor(PyList_GET_ITEM(o, i))) {
            PyErr_SetString(PyExc_RuntimeError, not_an_output);
            return 0;
        }
    if (s->strict && !face_jit_warn(CONTAINER("list")))
        return 0;
    return leave_items(s, o, "prim::ListConstruct");
}

static bool tensors_only(PyObject *o)
{
    bool all = PyTuple_Check(o);
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(o); i++)
        all = face_is_tensor(PyTuple_GET_ITEM(o, i));
    return all;
}

static tp_jit_value leave_dict(session *s, PyObject *o)
{
    PyObject *key, *item;
    Py_ssize_t at = 0, k = 0, count = PyDict_GET_SIZE(o);
    if (s->strict) {
        PyErr_SetString(PyExc_RuntimeError, CONTAINER("dict"));
        return 0;
    }
    while (PyDict_Next(o, &at, &key, &item))
        if (!(PyUnicode_Check(key) || face_is_tensor(key)) || !(face_is_tensor(item) || tensors_only(item))) {
            PyErr_Format(PyExc_RuntimeError, "output 1 (%R) of traced region cannot be understood by the tracer, only outputs matching "
                         "dict[Union[str, Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a dictionary output of a traced function", o);
            return 0;
        }
    tp_jit_type *type = face_jit_infer(o);
    tp_jit_value *id = type ? PyMem_Calloc(2 * (size_t)count + 1, sizeof *id) : NULL, made = 0;
    bool ok = id;
    for (at = 0; ok && PyDict_Next(o, &at, &key, &item);) {
        tp_value text;
        if (face_is_tensor(key)) {
            id[k] = leave_tensor(s, key);
        } else if ((ok = face_jit_to_value(key, &text))) {
            if (!(id[k] = tp_jit_trace_constant(s->trace, text)))
                face_raise();
            tp_value_unref(text);
        }
        ok = ok && id[k++] && (id[k++] = leave(s, item, false));
    }
    if (ok) {
        if (!(made = tp_jit_trace_prim(s->trace, "prim::DictConstruct", id, (uint32_t)k, tp_jit_type_ref(type))))
            face_raise();
    }
    tp_jit_type_unref(type);
    PyMem_Free(id);
    return made;
}

static tp_jit_value leave(session *s, PyObject *o, bool top)
{
    if (face_is_tensor(o))
        return leave_tensor(s, o);
    if (PyTuple_Check(o))
        return leave_items(s, o, "prim::TupleConstruct");
    if (PyList_Check(o))
        return leave_list(s, o);
    if (PyDict_Check(o))
        return leave_dict(s, o);
    if (o == Py_None && top)
        PyErr_SetString(PyExc_RuntimeError, "The traced function didn't return any values! Side-effects are not captured in traces, so it would be a no-op.");
    else
        PyErr_SetString(PyExc_RuntimeError, not_an_output);
    return 0;
}

/* ---- the trace itself ---- */
static bool add_attributes(session *s, PyObject *attributes)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(attributes); i++) {
        const char *path;
        PyObject *tensor;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(attributes, i), "sO", &path, &tensor))
            return false;
        if (face_is_tensor(tensor) && !tp_jit_trace_attribute(s->trace, path, face_tensor(tensor)))
            return face_raise(), false;
    }
    return true;
}

/* _jit_trace(call, args, names, C side, what is inside, ScriptModule, strict, force_outplace, flat) -> (graph, result, args).
 * `call` gets the arguments as the trace knows them. Inside are the tensors of a module, which becomes a frame for each of its
 * submodules, or of a list of (path, tensor). */
static PyObject *trace(PyObject *module, PyObject *given)
{
    PyObject *call, *args, *names, *side, *parts, *script, *inside = NULL, *result = NULL, *graph = NULL;
    int strict, force_outplace, flat;
    (void)module;
    if (!PyArg_ParseTuple(given, "OO!O!OOOppp", &call, &PyTuple_Type, &args, &PyTuple_Type, &names, &side, &parts, &script, &strict,
                          &force_outplace, &flat))
        return NULL;
    if (tp_jit_trace_current())
        return PyErr_Format(PyExc_RuntimeError, "Tracing can't be nested");
    if (!face_jit_traceable(args))
        return NULL;
    session s = { .strict = strict, .flat = flat };
    tp_jit_host host = { .user = &s, .origin = origin_now, .name = local_name, .warn = warn_below };
    s.trace = tp_jit_trace_new(&host, side == Py_None ? NULL : face_jit_module_of(side), flat, force_outplace);
    if (!s.trace)
        return face_raise();
    bool ok = PyList_Check(parts) || (s.paths = face_jit_walk(s.trace, parts, script));
    ok = ok && (inside = enter_all(&s, args, names)) && (!PyList_Check(parts) || add_attributes(&s, parts));
    if (ok) {
        tp_jit_trace_start(s.trace);
        result = PyObject_Call(call, inside, NULL);
        tp_jit_value out = result ? leave(&s, result, true) : 0;
        tp_jit_trace_stop(s.trace);
        tp_graph *g = out ? tp_jit_trace_finish(s.trace, out) : NULL;
        if (out)
            graph = g ? face_jit_graph(g) : face_raise();
        tp_graph_unref(g);
    }
    tp_jit_trace_free(s.trace);
    for (int i = 0; i < ORIGINS; i++)
        origin_forget(&s.known[i]);
    Py_XDECREF(s.names);
    Py_XDECREF(s.paths);
    PyObject *made = graph ? PyTuple_Pack(3, graph, result, inside) : NULL;
    Py_XDECREF(graph);
    Py_XDECREF(result);
    Py_XDECREF(inside);
    return made;
}

/* ---- modules ---- */
PyObject *face_jit_forward(PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    session *s = current();
    PyObject *path = s && s->paths ? PyDict_GetItemWithError(s->paths, self) : NULL;
    const char *text = path && PyUnicode_Check(path) ? PyUnicode_AsUTF8(path) : NULL;
    if (!text || !*text)
        return PyErr_Occurred() ? NULL : PyObject_VectorcallMethod(face.name_forward, args, count, names);
    if (!tp_jit_trace_push(s->trace, text))
        return face_raise();
    PyObject *made = PyObject_VectorcallMethod(face.name_forward, args, count, names);
    tp_jit_trace_pop(s->trace);
    return made;
}

/* _jit_forward(module, *args, **kwargs): what Python's way of calling a module ends in. */
static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    (void)module;
    if (count == 0)
        return PyErr_Format(PyExc_TypeError, "_jit_forward() needs the module to call");
    return face_jit_forward(args[0], args, (size_t)count, names);
}

/* ---- sizes that are values ---- */
static PyObject *number_tensor(tp_jit_trace *t, tp_jit_value number, int64_t value)
{
    tp_jit_type *type = tp_jit_scalar_tensor_new(TP_i64, -1);
    tp_jit_value v = number && type ? tp_jit_trace_prim(t, "prim::NumToTensor", &number, 1, type) : 0;
    tp_tensor *made = v ? tp_tensor_new_scalar(TP_i64, tp_scalar_int(value)) : NULL;
    if (made && tp_jit_trace_bind(t, made, v))
        return face_wrap(made);
    tp_tensor_unref(made);
    return face_raise();
}

PyObject *face_jit_size(const tp_tensor *x, int dim)
{
    tp_jit_trace *t = tp_jit_trace_current();
    tp_jit_value arg[2] = { tp_jit_trace_of(t, (tp_tensor *)x), 0 };
    if (!arg[0] || !(arg[1] = tp_jit_trace_constant(t, tp_int(dim))))
        return face_raise();
    return number_tensor(t, tp_jit_trace_prim(t, "aten::size", arg, 2, tp_jit_simple(TP_JIT_INT)), x->size[dim]);
}

PyObject *face_jit_sizes(const tp_tensor *x)
{
    PyObject *made = face.size->tp_alloc(face.size, x->ndim);
    for (int i = 0; made && i < x->ndim; i++) {
        PyObject *item = face_jit_size(x, i);
        if (!item)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, item);
    }
    return made;
}

PyObject *face_jit_numel(const tp_tensor *x)
{
    tp_jit_trace *t = tp_jit_trace_current();
    tp_jit_value v = tp_jit_trace_of(t, (tp_tensor *)x);
    return v ? number_tensor(t, tp_jit_trace_prim(t, "aten::numel", &v, 1, tp_jit_simple(TP_JIT_INT)), x->numel) : face_raise();
}

uint32_t face_jit_mark(tp_tensor *x)
{
    tp_jit_value v = tp_jit_trace_of(tp_jit_trace_current(), x);
    if (!v)
        face_raise();
    return v;
}

/* ---- calls of traced functions ---- */
/* The value of a boxed argument: containers are built from the values of their items. Types come from the tensors. */
static tp_jit_value value_of(tp_jit_trace *t, tp_value v)
{
    if (v.tag == TP_TENSOR)
        return tp_jit_trace_of(t, v.tensor);
    if (v.tag != TP_LIST && v.tag != TP_TUPLE && v.tag != TP_DICT)
        return tp_jit_trace_constant(t, v);
    uint32_t count = v.list->count;
    tp_jit_value *id = PyMem_Calloc(count + 1, sizeof *id), made = 0;
    tp_jit_type **type = PyMem_Calloc(count + 1, sizeof *type), *all = NULL;
    bool ok = id && type;
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = (id[i] = value_of(t, v.list->item[i]));
        type[i] = ok ? tp_jit_trace_type(t, id[i]) : NULL;
    }
    if (ok && v.tag == TP_DICT)
        all = tp_jit_dict_new(tp_jit_type_erase(type[0]), tp_jit_type_erase(type[1]));
    else if (ok)
        all = v.tag == TP_TUPLE ? tp_jit_tuple_new(type, count) : tp_jit_list_new(count ? tp_jit_type_erase(type[0]) : tp_jit_simple(TP_JIT_ANY_TENSOR));
    if (all)
        made = tp_jit_trace_prim(t, v.tag == TP_DICT ? "prim::DictConstruct" : v.tag == TP_TUPLE ? "prim::TupleConstruct" : "prim::ListConstruct",
                                 id, count, all);
    PyMem_Free(id);
    PyMem_Free(type);
    return made;
}

static tp_jit_type *type_of_result(tp_value v)
{
    if (v.tag != TP_TUPLE && v.tag != TP_DICT)
        return tp_jit_type_of_value(v);
    if (v.tag == TP_DICT) {
        tp_jit_type *key = v.list->count ? type_of_result(v.list->item[0]) : tp_jit_simple(TP_JIT_STR);
        tp_jit_type *item = v.list->count ? type_of_result(v.list->item[1]) : tp_jit_simple(TP_JIT_ANY_TENSOR);
        tp_jit_type *plain = item ? tp_jit_type_erase(item) : NULL;
        tp_jit_type_unref(item);
        return tp_jit_dict_new(key, plain);
    }
    tp_jit_type **part = PyMem_Calloc(v.list->count + 1, sizeof *part), *made = NULL;
    bool ok = part;
    for (uint32_t i = 0; ok && i < v.list->count; i++)
        ok = (part[i] = type_of_result(v.list->item[i]));
    if (ok)
        made = tp_jit_tuple_new(part, v.list->count);
    for (uint32_t i = 0; part && i < v.list->count; i++)
        tp_jit_type_unref(part[i]);
    PyMem_Free(part);
    return made;
}

/* What a call gave: tensors are bound to the values read from `id`. */
static bool bind_value(tp_jit_trace *t, tp_value v, tp_jit_value id)
{
    if (!id)
        return false;
    if (v.tag == TP_TENSOR)
        return tp_jit_trace_bind(t, v.tensor, id);
    if (v.tag == TP_DICT) {
        for (uint32_t i = 0; i + 1 < v.list->count; i += 2) {
            tp_jit_value arg[2] = { id, value_of(t, v.list->item[i]) };
            tp_jit_type *type = type_of_result(v.list->item[i + 1]);
            if (!arg[1] || !type || !bind_value(t, v.list->item[i + 1], tp_jit_trace_prim(t, "aten::__getitem__", arg, 2, type)))
                return false;
        }
        return true;
    }
    if (v.tag != TP_LIST && v.tag != TP_TUPLE)
        return true;
    uint32_t count = v.list->count;
    tp_jit_type **type = PyMem_Calloc(count + 1, sizeof *type);
    tp_jit_value *item = PyMem_Calloc(count + 1, sizeof *item);
    bool ok = type && item;
    for (uint32_t i = 0; ok && i < count; i++)
        ok = (type[i] = type_of_result(v.list->item[i]));
    ok = ok && tp_jit_trace_unpack(t, v.tag == TP_LIST ? "prim::ListUnpack" : "prim::TupleUnpack", id, type, count, item);
    for (uint32_t i = 0; ok && i < count; i++)
        ok = bind_value(t, v.list->item[i], item[i]);
    for (uint32_t i = 0; type && i < count; i++)
        tp_jit_type_unref(type[i]);
    PyMem_Free(type);
    PyMem_Free(item);
    return ok;
}

/* The module's own value: found by identity among those of the root. */
static tp_jit_value module_value(tp_jit_trace *t, tp_jit_module *m)
{
    session *s = tp_jit_trace_user(t);
    PyObject *key, *path;
    Py_ssize_t at = 0;
    while (s->paths && PyDict_Next(s->paths, &at, &key, &path)) {
        PyObject *own = PyObject_GetAttrString(key, "_c");
        bool same = own && face_jit_module_of(own) == m;
        Py_XDECREF(own);
        PyErr_Clear();
        const char *text = same ? PyUnicode_AsUTF8(PyTuple_Check(path) ? PyTuple_GET_ITEM(path, 0) : path) : NULL;
        if (same)
            return text ? tp_jit_trace_path(t, text) : (face_foreign(), 0);
    }
    return tp_fail(TP_ERR_RUNTIME, "Cannot call a ScriptModule that is not a submodule of the caller"), 0;
}

PyObject *face_jit_traced_call(tp_jit_trace *t, tp_jit_function *f, tp_jit_module *module, tp_value *arg, uint32_t count)
{
    enum { MOST = 64 };
    tp_jit_value id[MOST + 1];
    tp_value result;
    uint32_t at = 0;
    if (!module && !(id[at++] = tp_jit_trace_constant(t, tp_jit_of_function(f))))
        return face_raise();
    for (uint32_t i = 0; i < count && at < MOST; i++, at++)
        if (!(id[at] = i == 0 && module ? module_value(t, module) : value_of(t, arg[i])))
            return PyErr_Occurred() ? NULL : face_raise();
    tp_jit_trace_stop(t);
    bool ok = tp_jit_run(f, arg, count, &result);
    tp_jit_trace_start(t);
    if (!ok)
        return face_raise();
    tp_jit_type *type = type_of_result(result);
    tp_jit_value v = type ? tp_jit_trace_call(t, module ? f->name : NULL, id, at, type) : 0;
    if (bind_value(t, result, v))
        return face_jit_from_value(result);
    tp_value_unref(result);
    return face_raise();
}

/* ---- what is no op ---- */
bool face_jit_detached(tp_tensor *x)
{
    tp_jit_trace *t = tp_jit_trace_current();
    const tp_op *op = tp_op_find("aten", "detach", "");
    tp_jit_value from = op ? tp_jit_trace_of(t, x) : 0;
    if (from && tp_jit_trace_bind(t, x, tp_jit_trace_op(t, op, &from, tp_jit_tensor_new(x))))
        return true;
    face_raise();
    return false;
}

void *face_jit_pause(void)
{
    tp_jit_trace *t = tp_jit_trace_current();
    if (t)
        tp_jit_trace_stop(t);
    return t;
}

void face_jit_resume(void *paused)
{
    if (paused)
        tp_jit_trace_start(paused);
}

bool face_jit_function_ran(PyObject *cls, PyObject *args, PyObject *result, bool inplace)
{
    enum { MOST = 64 };
    tp_jit_trace *t = tp_jit_trace_current();
    tp_value arg[MOST], out = tp_none();
    uint32_t count = (uint32_t)PyTuple_GET_SIZE(args), done = 0;
    PyObject *apply = PyObject_GetAttrString(cls, "apply");
    tp_handle *handle = apply ? face_handle_new(apply) : NULL;
    bool ok = handle && count <= MOST;
    for (; ok && done < count; done++) {
        PyObject *o = PyTuple_GET_ITEM(args, done);
        ok = face_jit_to_value(o, &arg[done]);
        if (ok && arg[done].tag == TP_TENSOR) {
            tp_jit_value v = tp_jit_trace_of(t, arg[done].tensor);
            tp_value_unref(arg[done]);
            arg[done] = (tp_value){ .tag = TP_INT, .mark = v };
            ok = v;
        }
        if (!ok)
            break;
    }
    ok = ok && face_jit_to_value(result, &out);
    tp_jit_type *type = ok ? type_of_result(out) : NULL;
    ok = type && bind_value(t, out, tp_jit_trace_python(t, handle, ((PyTypeObject *)cls)->tp_name, inplace, arg, count, type));
    tp_values_unref(arg, done);
    tp_value_unref(out);
    if (handle)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = handle });
    Py_XDECREF(apply);
    if (!ok && !PyErr_Occurred())
        face_raise();
    return ok;
}

/* ---- faces ---- */
static PyObject *tracing_state(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return current() ? Py_NewRef(Py_True) : Py_NewRef(Py_None);
}

static PyObject *is_tracing(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(current() != NULL);
}

static PyObject *set_warning(PyObject *module, PyObject *kind)
{
    (void)module;
    Py_XSETREF(face.tracer_warning, Py_NewRef(kind));
    Py_RETURN_NONE;
}

/* _jit_warn(text, frames up) */
static PyObject *warn_python(PyObject *module, PyObject *args)
{
    const char *text;
    int level = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "s|i", &text, &level))
        return NULL;
    return !current() || !face.tracer_warning || PyErr_WarnEx(face.tracer_warning, text, level) == 0 ? Py_NewRef(Py_None) : NULL;
}

static bool call_python(tp_handle *callable, const tp_value *arg, uint32_t count, tp_value *result)
{
    PyObject *args = PyTuple_New(count), *made = NULL;
    bool ok = args;
    for (uint32_t i = 0; ok && i < count; i++) {
        PyObject *one = face_jit_from_value(tp_value_ref(arg[i]));
        ok = one;
        if (one)
            PyTuple_SET_ITEM(args, i, one);
    }
    ok = ok && (made = PyObject_Call(callable->object, args, NULL)) && face_jit_to_value(made, result);
    Py_XDECREF(args);
    Py_XDECREF(made);
    return ok || face_foreign();
}

static PyMethodDef functions[] = {
    { "_jit_trace", trace, METH_VARARGS, NULL },
    { "_jit_forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL | METH_KEYWORDS, NULL },
    { "_get_tracing_state", tracing_state, METH_NOARGS, NULL },
    { "_is_tracing", is_tracing, METH_NOARGS, NULL },
    { "_jit_set_tracer_warning", set_warning, METH_O, NULL },
    { "_jit_warn", warn_python, METH_VARARGS, NULL },
    { 0 },
};

bool face_jit_init(PyObject *module)
{
    tp_the_runtime.python.call = call_python;
    return face_jit_graph_init(module) && face_jit_module_init(module) && face_jit_walk_init(module) && PyModule_AddFunctions(module, functions) == 0;
}
