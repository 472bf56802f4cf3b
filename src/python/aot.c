/* aot.c - compiled functions: a Python callable studied and traced at its first call, then run by aot/wrapper.h.
 *
 *     f = _AotFunction(function, driver, leading)         f(*args, **kwargs)
 *
 * The driver is the package's: it makes fake inputs, GraphModules and calls the user's compilers. Here trees are flattened,
 * the function is called while it is studied and traced, and what the compilers gave is wrapped for the engine. `leading`
 * are tensors that stand before the arguments of each call (the parameters of a module).
 *
 * The function is compiled once, for the arguments of its first call, as aot_function promises. */
#include <string.h>

#include "aot/trace.h"
#include "aot/wrapper.h"
#include "base/alloc.h"
#include "base/array.h"
#include "ir/run.h"
#include "python/aot_origin.h"
#include "python/fx.h"
#include "python/pytree.h"

#include <structmember.h>

typedef struct aot_object {
    PyObject_HEAD
    PyObject *function, *driver;    /* counted */
    PyObject *leading;              /* counted tuple */
    PyObject *in_spec, *out_spec;   /* counted, NULL until compiled */
    tp_aot_function *compiled;      /* counted, NULL until then */
    uint32_t *input_of;             /* owned: which unique input each leaf is */
    uint32_t  leaf_count;
    bool      flat;                 /* arguments were leaves, none by name */
    vectorcallfunc call;
    PyObject *dict, *weakrefs;
} aot_object;

enum { FEW = 32 };

/* ---- values ---- */
static bool plain_value(PyObject *o, tp_value *out)
{
    int overflow;
    *out = tp_none();
    if (face_is_tensor(o))
        *out = tp_of_tensor(face_tensor(o));
    else if (face_is_sym(o))
        *out = face_sym_value(o);
    else if (PyBool_Check(o))
        *out = tp_bool(o == Py_True);
    else if (PyFloat_CheckExact(o))
        *out = tp_float(PyFloat_AS_DOUBLE(o));
    else if (PyLong_CheckExact(o)) {
        long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (!overflow)
            *out = tp_int(i);
    }
    return out->tag != TP_NONE || o == Py_None;
}

/* Any object; the result is owned. False: an error is set below. */
static bool any_value(PyObject *o, tp_value *out)
{
    if (plain_value(o, out)) {
        *out = tp_value_ref(*out);
        return true;
    }
    tp_handle *h = face_handle_new(o);
    *out = h ? (tp_value){ .tag = TP_HANDLE, .handle = h } : tp_none();
    return h != NULL;
}

static PyObject *from_value(tp_value v)
{
    if (v.tag == TP_TENSOR)
        return face_wrap(tp_tensor_ref(v.tensor));
    if (v.tag == TP_HANDLE)
        return Py_NewRef((PyObject *)v.handle->object);
    return face_from_value(tp_value_ref(v));
}

/* ---- the program, while it is studied and traced ---- */
typedef struct program {
    PyObject *function, *in_spec;   /* borrowed */
    PyObject *leaves;               /* borrowed list */
    const uint32_t *input_of;
    PyObject *out_spec;             /* counted, of the last call */
} program;

static PyObject *leaf_for(const program *p, const tp_value *in, Py_ssize_t i)
{
    tp_value v = in[p->input_of[i]];
    if (v.tag == TP_TENSOR || v.tag == TP_SYM)
        return from_value(v);
    return Py_NewRef(PyList_GET_ITEM(p->leaves, i));
}

static PyObject *call_function(const program *p, const tp_value *in)
{
    Py_ssize_t count = PyList_GET_SIZE(p->leaves);
    PyObject *leaves = PyList_New(count), *both = NULL, *given = NULL;
    for (Py_ssize_t i = 0; leaves && i < count; i++) {
        PyObject *leaf = leaf_for(p, in, i);
        if (leaf)
            PyList_SET_ITEM(leaves, i, leaf);
        else
            Py_CLEAR(leaves);
    }
    if (leaves && (both = face_tree_unflatten(p->in_spec, leaves))) {
        PyObject *args = PySequence_Tuple(PyTuple_GET_ITEM(both, 0));
        given = args ? PyObject_Call(p->function, args, PyTuple_GET_ITEM(both, 1)) : NULL;
        Py_XDECREF(args);
    }
    Py_XDECREF(both);
    Py_XDECREF(leaves);
    return given;
}

static bool call_program(void *context, const tp_value *in, uint32_t count, tp_list **out)
{
    program *p = context;
    (void)count;
    PyObject *given = call_function(p, in), *leaves = given ? PyList_New(0) : NULL, *spec = leaves ? face_tree_flatten(given, NULL, leaves) : NULL;
    bool ok = spec || face_foreign();
    if (ok)
        ok = (*out = tp_list_new((size_t)PyList_GET_SIZE(leaves)));
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++)
        ok = any_value(PyList_GET_ITEM(leaves, i), &(*out)->item[i]);
    Py_XSETREF(p->out_spec, spec);
    Py_XDECREF(leaves);
    Py_XDECREF(given);
    if (!ok && *out) {
        tp_value_unref(tp_of_list(*out));
        *out = NULL;
    }
    return ok;
}

/* ---- what compilers give ---- */
typedef struct code_context {
    PyObject *callable;             /* counted: takes lists if boxed */
    tp_plan  *plan;                 /* borrowed from it, may be NULL */
    bool      boxed;
} code_context;

static bool take_results(PyObject *given, tp_value *out, uint32_t results)
{
    PyObject *all = PySequence_Fast(given, "a compiled function must give a list or tuple");
    bool ok = all != NULL;
    if (ok && PySequence_Fast_GET_SIZE(all) != (Py_ssize_t)results) {
        PyErr_Format(PyExc_RuntimeError, "a compiled function gave %zd results instead of %u", PySequence_Fast_GET_SIZE(all), results);
        ok = false;
    }
    uint32_t at = 0;
    while (ok && at < results) {
        if (!any_value(PySequence_Fast_GET_ITEM(all, at), &out[at])) {
            tp_values_unref(out, at);
            Py_DECREF(all);
            return false;
        }
        at++;
    }
    Py_XDECREF(all);
    return ok || face_foreign();
}

static PyObject *list_of(const tp_value *in, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *item = from_value(in[i]);
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

static bool call_python(const code_context *c, const tp_value *in, uint32_t count, tp_value *out, uint32_t results)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *list = list_of(in, count), *tuple = NULL, *given = NULL;
    if (list && c->boxed)
        given = PyObject_CallOneArg(c->callable, list);
    else if (list && (tuple = PyList_AsTuple(list)))
        given = PyObject_CallObject(c->callable, tuple);
    bool ok = given ? take_results(given, out, results) : face_foreign() != NULL;
    Py_XDECREF(list);
    Py_XDECREF(tuple);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok;
}

static bool call_code(void *context, const tp_value *in, uint32_t count, tp_value *out, uint32_t results)
{
    const code_context *c = context;
    return c->plan ? tp_plan_run_into(c->plan, in, count, out, results) : call_python(c, in, count, out, results);
}

static void free_code(void *context)
{
    code_context *c = context;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_XDECREF(c->callable);
    PyGILState_Release(state);
    tp_free(c);
}

/* Borrows the callable. False: exception set. */
static bool make_code(PyObject *callable, tp_aot_code *out)
{
    code_context *c = tp_alloc_zero(sizeof *c);
    if (!c)
        return face_raise() != NULL;
    c->callable = Py_NewRef(callable);
    c->plan = fx_plan_of(callable);
    *out = (tp_aot_code){ .context = c, .call = call_code, .free = free_code };
    PyObject *boxed = c->plan ? NULL : PyObject_GetAttrString(callable, "_boxed_call");
    if (!boxed)
        PyErr_Clear();
    c->boxed = boxed && PyObject_IsTrue(boxed) > 0;
    Py_XDECREF(boxed);
    return true;
}

static bool compile_backward(void *host, tp_aot_code *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *given = PyObject_CallMethod(host, "backward", NULL);
    bool ok = (given && make_code(given, out)) || face_foreign();
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok;
}

static void free_host(void *host)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)host);
    PyGILState_Release(state);
}

/* ---- compiling ---- */
typedef struct compiling {
    aot_object *self;
    program program;
    tp_aot_program run;
    PyObject *leaves;               /* borrowed list */
    PyObject *fakes;                /* counted list, as the driver gave them */
    tp_value *given, *in;           /* owned arrays: unique inputs and their fakes; tensors of `in` counted */
    uint32_t  count;                /* of both */
    uint32_t  unique;               /* inputs of the caller, equal tensors once */
    tp_value *own;                  /* owned array: these, borrowed */
    tp_aot_options options;
    tp_record_host host;
    tp_array(tp_tensor *) bases;    /* counted: of overlapping inputs */
    aot_origins origins;
    PyObject *table;                /* counted dict, may be NULL */
} compiling;

/* A fake of its own for each input. */
static bool own_fake(compiling *c, uint32_t at, PyObject *o)
{
    if (!face_is_tensor(o)) {
        (void)plain_value(o, &c->in[at]);
        return true;
    }
    tp_tensor *t = face_tensor(o);
    bool known = false;
    for (uint32_t i = 0; i < at; i++)
        known |= c->in[i].tag == TP_TENSOR && c->in[i].tensor == t;
    c->in[at] = tp_of_tensor(known ? tp_fake_of(t) : tp_tensor_ref(t));
    if (c->in[at].tag != TP_TENSOR)
        return false;
    return !known || !tp_requires_grad(t) || tp_set_requires_grad(c->in[at].tensor, true);
}

static void drop_inputs(compiling *c)
{
    for (uint32_t i = 0; c->in && i < c->count; i++)
        if (c->in[i].tag == TP_TENSOR)
            tp_tensor_unref(c->in[i].tensor);
    c->count = 0;
}

/* Lists the inputs; equal tensors are one when `unite`. */
static bool list_inputs(compiling *c, bool unite)
{
    Py_ssize_t count = PyList_GET_SIZE(c->leaves);
    drop_inputs(c);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *leaf = PyList_GET_ITEM(c->leaves, i);
        uint32_t same = c->count;
        for (Py_ssize_t k = 0; unite && k < i && face_is_tensor(leaf); k++)
            if (PyList_GET_ITEM(c->leaves, k) == leaf) {
                same = c->self->input_of[k];
                break;
            }
        c->self->input_of[i] = same;
        if (same < c->count)
            continue;
        (void)plain_value(leaf, &c->given[same]);
        c->own[same] = c->given[same];
        c->unique = ++c->count;
        if (!own_fake(c, same, PyList_GET_ITEM(c->fakes, i)))
            return face_raise() != NULL;
    }
    return true;
}

static bool any_written_twice(const compiling *c, const tp_aot_facts *f)
{
    for (uint32_t i = 0; i < c->self->leaf_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const tp_aot_input *in = &f->input[c->self->input_of[i]];
            if (c->self->input_of[i] == c->self->input_of[k] && (in->data || in->metadata || in->storage))
                return true;
        }
    return false;
}

static bool tell_driver(compiling *c, const char *what)
{
    PyObject *told = PyObject_CallMethod(c->self->driver, "united", "s", what);
    Py_XDECREF(told);
    return told;
}

/* ---- overlapping inputs ---- */
static bool overlap(const tp_tensor *a, const tp_tensor *b)
{
    if (a->storage != b->storage || !tp_tensor_overlaps(a, b))
        return false;
    bool rows = a->ndim == 2 && b->ndim == 2 && a->stride[1] == 1 && b->stride[1] == 1 && a->stride[0] == b->stride[0] && a->stride[0] > 0;
    if (!rows || a->dtype != b->dtype)
        return true;
    /* Columns of one table: their windows in a row may be apart though the rows interleave. */
    int64_t row = a->stride[0], from = ((b->offset - a->offset) % row + row) % row;
    return from < a->size[1] || from + b->size[1] > row;
}

/* Which face each group of overlapping inputs begins with; a group stands alone unless one of it is written. */
static bool group_inputs(const compiling *c, const tp_aot_facts *f, uint32_t *group)
{
    bool any = false;
    for (uint32_t i = 0; i < c->unique; i++) {
        group[i] = i;
        for (uint32_t k = 0; k < i && c->own[i].tag == TP_TENSOR; k++)
            if (c->own[k].tag == TP_TENSOR && overlap(c->own[i].tensor, c->own[k].tensor)) {
                for (uint32_t m = 0, from = group[i]; m <= i; m++)      /* one more link: both groups are one */
                    if (group[m] == from)
                        group[m] = group[k];
            }
    }
    for (uint32_t i = 0; i < c->unique; i++) {
        bool written = false, shared = false;
        for (uint32_t k = 0; k < c->unique; k++)
            if (group[k] == group[i]) {
                written |= f->input[k].data;
                shared |= k != i;
            }
        any |= written && shared;
        if (!written || !shared)
            group[i] = i;
    }
    return any;
}

static bool set_face(tp_aot_face *f, uint32_t input, const tp_tensor *t)
{
    *f = (tp_aot_face){ .input = input, .view = t, .size = tp_none(), .stride = tp_none() };
    if (!t)
        return true;
    f->size = tp_value_ints(t->size, t->ndim);
    f->stride = tp_value_ints(t->stride, t->ndim);
    f->offset = t->offset;
    return f->size.tag == TP_LIST && f->stride.tag == TP_LIST;
}

/* Inputs of the graph: a base for each group, then the others in order. */
static bool list_faces(compiling *c, const uint32_t *group, tp_aot_faces *faces)
{
    uint32_t next = 0;
    if (!(faces->item = tp_alloc_zero((c->unique + 1) * sizeof *faces->item)))
        return false;
    faces->count = c->unique;
    for (uint32_t i = 0; i < c->unique; i++)
        faces->item[i].size = faces->item[i].stride = tp_none();
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < c->unique; i++) {
            bool many = false;
            for (uint32_t k = 0; k < c->unique; k++)
                many |= k != i && group[k] == group[i];
            if (many != (pass == 0))
                continue;
            bool first = true;
            for (uint32_t k = 0; k < i && many; k++)
                if (group[k] == group[i]) {
                    first = false;
                    if (!set_face(&faces->item[i], faces->item[k].input, c->own[i].tensor))
                        return false;
                    break;
                }
            if (first && !set_face(&faces->item[i], next++, many ? c->own[i].tensor : NULL))
                return false;
        }
    return true;
}

/* Fakes and the caller's tensors for those inputs; the old fakes go with the faces that are inputs still. */
static bool list_graph_inputs(compiling *c, const tp_aot_faces *faces, tp_value *in, tp_value *given)
{
    for (uint32_t i = 0; i < faces->count; i++) {
        const tp_aot_face *f = &faces->item[i];
        if (!f->view) {
            in[f->input] = c->in[i].tag == TP_TENSOR ? tp_value_ref(c->in[i]) : c->in[i];
            given[f->input] = c->own[i];
        } else if (in[f->input].tag != TP_TENSOR) {
            tp_tensor *base = tp_aot_common_base(faces, f->input, c->own), *fake = base ? tp_fake_of(base) : NULL;
            bool ok = fake && (!tp_requires_grad(base) || tp_set_requires_grad(fake, true));
            in[f->input] = tp_of_tensor(fake);
            given[f->input] = tp_of_tensor(base);
            if (ok && tp_array_push(&c->bases, base))
                continue;
            tp_tensor_unref(base);
            return false;
        }
    }
    return true;
}

static bool use_faces(compiling *c, const tp_aot_faces *faces)
{
    tp_value *in = tp_alloc_zero((c->unique + 1) * sizeof *in), *given = tp_alloc_zero((c->unique + 1) * sizeof *given);
    uint32_t count = 0;
    for (uint32_t i = 0; i < faces->count; i++)
        if (faces->item[i].input >= count)
            count = faces->item[i].input + 1;
    bool ok = in && given && list_graph_inputs(c, faces, in, given);
    drop_inputs(c);
    tp_free(c->in);
    tp_free(c->given);
    c->in = in;
    c->given = given;
    c->count = in ? count : 0;
    return ok;
}

/* The facts: of equal inputs united when one of them is written, else of each for itself; and of bases in the place of
 * inputs that overlap. */
static bool study(compiling *c, tp_aot_facts *facts)
{
    tp_aot_faces plain = { 0 }, faces = { 0 };
    if (!list_inputs(c, true))
        return false;
    if (!tp_aot_analyse(&c->run, plain, c->in, c->given, c->count, &c->options, facts))
        return face_raise() != NULL;
    if (c->count != c->self->leaf_count) {
        if (any_written_twice(c, facts)) {
            if (!tell_driver(c, "duplicated"))
                return false;
        } else {
            tp_aot_facts_fini(facts);
            if (!list_inputs(c, false))
                return false;
            if (!tp_aot_analyse(&c->run, plain, c->in, c->given, c->count, &c->options, facts))
                return face_raise() != NULL;
        }
    }
    uint32_t *group = tp_alloc_array(c->unique + 1, sizeof *group);
    bool any = group && group_inputs(c, facts, group), ok = group || face_raise();
    if (any) {
        tp_aot_facts_fini(facts);
        ok = tell_driver(c, "aliased");
        if (ok && !(list_faces(c, group, &faces) && use_faces(c, &faces))) {
            tp_aot_faces_fini(&faces);
            ok = face_raise() != NULL;
        }
        ok = ok && (tp_aot_analyse(&c->run, faces, c->in, c->given, c->count, &c->options, facts) || face_raise());
    }
    tp_free(group);
    return ok;
}

static int decompose(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    return face_decompose(((compiling *)context)->table, op, arg, result);
}

static PyObject *fakes_list(compiling *c)
{
    PyObject *list = PyList_New(c->count);
    for (uint32_t i = 0; list && i < c->count; i++) {
        PyObject *item = from_value(c->in[i]);
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *tangents_list(const tp_aot_facts *f)
{
    PyObject *list = PyList_New(f->tangent_count);
    for (uint32_t i = 0; list && i < f->tangent_count; i++) {
        PyObject *item = face_wrap(tp_tensor_ref(f->tangent_like[i]));
        if (item)
            PyList_SET_ITEM(list, i, item);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* driver.inference(graph, constants, fakes) or driver.joint(graph, constants, fakes, tangents, count): what to run, and for
 * the latter how many tensors and sizes it saves. */
static PyObject *ask_driver(compiling *c, const tp_aot_facts *facts, const tp_aot_trace *trace)
{
    PyObject *graph = fx_wrap_graph(tp_recorder_graph(trace->recorder)), *constants = graph ? face_constants(trace->recorder) : NULL;
    PyObject *fakes = constants ? fakes_list(c) : NULL, *tangents = NULL, *given = NULL;
    if (fakes && !facts->training)
        given = PyObject_CallMethod(c->self->driver, "inference", "OOO", graph, constants, fakes);
    else if (fakes && (tangents = tangents_list(facts)))
        given = PyObject_CallMethod(c->self->driver, "joint", "OOOOI", graph, constants, fakes, tangents, trace->result_count);
    Py_XDECREF(graph);
    Py_XDECREF(constants);
    Py_XDECREF(fakes);
    Py_XDECREF(tangents);
    return given;
}

static bool finish(compiling *c, tp_aot_facts *facts, PyObject *given)
{
    PyObject *callable = given;
    unsigned tensors = 0, sizes = 0;
    int checks;
    long long id;
    tp_aot_code forward;
    if (facts->training && !PyArg_ParseTuple(given, "OII", &callable, &tensors, &sizes))
        return false;
    PyObject *settings = PyObject_CallMethod(c->self->driver, "checks", NULL);
    bool ok = settings && PyArg_ParseTuple(settings, "pL", &checks, &id) && make_code(callable, &forward);
    Py_XDECREF(settings);
    if (!ok)
        return false;
    tp_aot_function *f = tp_aot_function_new(facts, forward);
    if (!f)
        return face_raise() != NULL;
    f->saved_tensors = tensors;
    f->saved_sizes = sizes;
    f->checks = checks;
    f->id = id;
    f->host = Py_NewRef(c->self->driver);
    f->free_host = free_host;
    f->compile_backward = compile_backward;
    c->self->compiled = f;
    return true;
}

static tp_origin *origin(void *context)
{
    return aot_origin_now(&((compiling *)context)->origins);
}

/* (inputs, outputs) as the driver reads them: dicts of the facts that bans and signatures look at. */
static PyObject *facts_object(const tp_aot_facts *f)
{
    PyObject *inputs = PyList_New(0), *outputs = PyList_New(0);
    bool ok = inputs && outputs;
    for (uint32_t i = 0; ok && i < f->input_count; i++) {
        const tp_aot_input *in = &f->input[i];
        PyObject *item = Py_BuildValue("{sisisisisi}", "data", in->data, "metadata", in->metadata, "storage", in->storage,
                                       "requires_grad", in->requires_grad_after, "returned", in->returned);
        ok = item && PyList_Append(inputs, item) == 0;
        Py_XDECREF(item);
    }
    for (uint32_t i = 0; ok && i < f->output_count; i++) {
        const tp_aot_output *o = &f->output[i];
        PyObject *item = Py_BuildValue("{sisi}", "kind", o->kind, "requires_grad", o->requires_grad);
        ok = item && PyList_Append(outputs, item) == 0;
        Py_XDECREF(item);
    }
    PyObject *both = ok ? PyTuple_Pack(2, inputs, outputs) : NULL;
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    return both;
}

static bool compile_inside(compiling *c, tp_aot_facts *facts, tp_aot_trace *trace)
{
    if (!study(c, facts))
        return false;
    PyObject *shown = facts_object(facts), *checked = shown ? PyObject_CallMethod(c->self->driver, "check", "OO", PyTuple_GET_ITEM(shown, 0), PyTuple_GET_ITEM(shown, 1)) : NULL;
    Py_XDECREF(shown);
    Py_XDECREF(checked);
    return checked && (tp_aot_trace_program(&c->run, c->in, facts, &c->host, trace) || face_raise());
}

/* driver.prepare(leaves) gives (fakes, context): inside the context the program is studied and traced. */
static bool enter_and_compile(compiling *c)
{
    PyObject *pair = PyObject_CallMethod(c->self->driver, "prepare", "O", c->leaves), *context;
    tp_aot_facts facts = { 0 };
    tp_aot_trace trace = { 0 };
    if (!pair || !PyArg_ParseTuple(pair, "O!O", &PyList_Type, &c->fakes, &context)) {
        Py_XDECREF(pair);
        return false;
    }
    PyObject *entered = PyObject_CallMethod(context, "__enter__", NULL), *given = NULL;
    bool ok = entered && compile_inside(c, &facts, &trace);
    if (entered) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyObject *left = PyObject_CallMethod(context, "__exit__", "OOO", Py_None, Py_None, Py_None);
        Py_XDECREF(left);
        if (type)
            PyErr_Restore(type, value, traceback);
        ok = ok && left;
    }
    ok = ok && (given = ask_driver(c, &facts, &trace)) && finish(c, &facts, given);
    Py_XDECREF(given);
    Py_XDECREF(entered);
    drop_inputs(c);
    Py_DECREF(pair);
    tp_aot_facts_fini(&facts);
    tp_aot_trace_fini(&trace);
    return ok;
}

/* Sizes come back as tuples: their numbers are computed. */
static PyObject *plain_spec(PyObject *o)
{
    const spec_object *s = (const spec_object *)o;
    PyObject *children = PyTuple_New(PyTuple_GET_SIZE(s->children));
    for (Py_ssize_t i = 0; children && i < PyTuple_GET_SIZE(s->children); i++) {
        PyObject *child = plain_spec(PyTuple_GET_ITEM(s->children, i));
        if (child)
            PyTuple_SET_ITEM(children, i, child);
        else
            Py_CLEAR(children);
    }
    if (!children || s->kind == TREE_LEAF) {
        Py_XDECREF(children);
        return children ? Py_NewRef(o) : NULL;
    }
    bool size = s->kind == TREE_SEQUENCE && s->type == (PyObject *)face.size;
    return face_spec_new(size ? (PyObject *)&PyTuple_Type : s->type, size ? Py_None : s->context, children);
}

/* Takes the leaves of the first call. */
static bool compile(aot_object *self, PyObject *leaves, PyObject *spec)
{
    Py_ssize_t count = PyList_GET_SIZE(leaves);
    compiling c = { .self = self, .leaves = leaves };
    PyObject *keep = PyObject_GetAttrString(self->driver, "keep_mutations"), *table = keep ? PyObject_GetAttrString(self->driver, "table") : NULL;
    tp_free(self->input_of);
    self->input_of = tp_alloc_array((size_t)count + 1, sizeof *self->input_of);
    self->leaf_count = (uint32_t)count;
    c.given = tp_alloc_zero(((size_t)count + 1) * sizeof *c.given);
    c.in = tp_alloc_zero(((size_t)count + 1) * sizeof *c.in);
    c.own = tp_alloc_zero(((size_t)count + 1) * sizeof *c.own);
    bool ok = table && ((self->input_of && c.given && c.in && c.own) || face_raise());
    if (ok) {
        c.options.keep_mutations = PyObject_IsTrue(keep) > 0;
        c.table = PyDict_Check(table) && PyDict_GET_SIZE(table) ? table : NULL;
        c.host = (tp_record_host){ .context = &c, .decompose = c.table ? decompose : NULL, .origin = origin };
        c.program = (program){ .function = self->function, .in_spec = spec, .leaves = leaves, .input_of = self->input_of };
        c.run = (tp_aot_program){ &c.program, call_program };
        ok = enter_and_compile(&c);
    }
    if (ok) {
        Py_XSETREF(self->in_spec, Py_NewRef(spec));
        Py_XSETREF(self->out_spec, plain_spec(c.program.out_spec));
        ok = self->out_spec;
    }
    Py_XDECREF(c.program.out_spec);
    Py_XDECREF(keep);
    Py_XDECREF(table);
    for (size_t i = 0; i < c.bases.count; i++)
        tp_tensor_unref(c.bases.item[i]);
    tp_array_fini(&c.bases);
    aot_origins_fini(&c.origins);
    tp_free(c.given);
    tp_free(c.in);
    tp_free(c.own);
    return ok;
}

/* ---- calling ---- */
static PyObject *result_object(const aot_object *self, const tp_value *out)
{
    uint32_t count = self->compiled->facts.output_count;
    const spec_object *spec = (const spec_object *)self->out_spec;
    if (spec->kind == TREE_LEAF)
        return from_value(out[0]);
    PyObject *leaves = list_of(out, count), *whole = leaves;
    bool plain = spec->kind == TREE_LIST || spec->kind == TREE_TUPLE;
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(spec->children); i++)
        plain = ((spec_object *)PyTuple_GET_ITEM(spec->children, i))->kind == TREE_LEAF;
    if (leaves && !(plain && spec->kind == TREE_LIST)) {
        whole = plain ? PyList_AsTuple(leaves) : face_tree_unflatten(self->out_spec, leaves);
        Py_DECREF(leaves);
    }
    return whole;
}

static bool check_same(const aot_object *self, const tp_value *in, uint32_t at, tp_value v, uint32_t leaf)
{
    if (in[at].tag != TP_TENSOR || (v.tag == TP_TENSOR && v.tensor == in[at].tensor) || !self->compiled->checks)
        return true;
    uint32_t first = 0;
    while (self->input_of[first] != at)
        first++;
    PyErr_Format(PyExc_AssertionError, "At compilation time, graph %lld was compiled under the assumption that input %u would be a duplicate of input %u, "
                 "but at runtime this was not the case.  This indicates a guard bug in AOTAutograd or Dynamo, please file a bug to PyTorch.",
                 LL(self->compiled->id), leaf, first);
    return false;
}

/* One leaf of a call into the inputs. */
static bool take_leaf(const aot_object *self, uint32_t leaf, PyObject *o, tp_value *in, uint32_t *filled)
{
    uint32_t at = self->input_of[leaf];
    if (at < *filled) {
        tp_value v;
        (void)plain_value(o, &v);
        return check_same(self, in, at, v, leaf);
    }
    ++*filled;
    if (face_is_tensor(o)) {
        in[at] = tp_of_tensor(face_tensor(o));
        return true;
    }
    return any_value(o, &in[at]) || face_raise();
}

static PyObject *run(aot_object *self, PyObject *const *first, Py_ssize_t first_count, PyObject *const *rest, Py_ssize_t rest_count)
{
    tp_aot_function *f = self->compiled;
    uint32_t inputs = f->facts.faces.count, outputs = f->facts.output_count, filled = 0;
    tp_value few[2 * FEW], *in = inputs + outputs <= 2 * FEW ? few : tp_alloc_array((size_t)inputs + outputs, sizeof *in), *out = in + inputs;
    PyObject *made = NULL;
    if (!in)
        return face_raise();
    if (first_count + rest_count != (Py_ssize_t)self->leaf_count) {
        PyErr_Format(PyExc_TypeError, "the function was compiled for %u inputs but %zd were given", self->leaf_count, first_count + rest_count);
    } else {
        bool ok = true;
        for (Py_ssize_t i = 0; ok && i < first_count; i++)
            ok = take_leaf(self, (uint32_t)i, first[i], in, &filled);
        for (Py_ssize_t i = 0; ok && i < rest_count; i++)
            ok = take_leaf(self, (uint32_t)(first_count + i), rest[i], in, &filled);
        if (ok && tp_aot_function_call(f, in, out)) {
            made = result_object(self, out);
            tp_values_unref(out, outputs);
        } else if (ok) {
            face_raise();
        }
    }
    for (uint32_t i = 0; i < filled; i++)
        if (in[i].tag != TP_TENSOR)
            tp_value_unref(in[i]);
    if (in != few)
        tp_free(in);
    return made;
}

/* The leaves of leading tensors and arguments; a new list. */
static PyObject *flatten(aot_object *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **spec)
{
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(self->leading) + count), *named = all ? PyDict_New() : NULL, *leaves = NULL;
    bool ok = named;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(self->leading); i++)
        PyTuple_SET_ITEM(all, at++, Py_NewRef(PyTuple_GET_ITEM(self->leading, i)));
    for (Py_ssize_t i = 0; ok && i < count; i++)
        PyTuple_SET_ITEM(all, at++, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        ok = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[count + i]) == 0;
    PyObject *both = ok ? PyTuple_Pack(2, all, named) : NULL;
    if (both && (leaves = PyList_New(0)) && !(*spec = face_tree_flatten(both, NULL, leaves)))
        Py_CLEAR(leaves);
    Py_XDECREF(both);
    Py_XDECREF(all);
    Py_XDECREF(named);
    return leaves;
}

static bool is_leaf(PyObject *o)
{
    return face_is_tensor(o) || o == Py_None || PyLong_Check(o) || PyFloat_Check(o);
}

static bool are_leaves(PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_leaf(args[i]))
            return false;
    return true;
}

static PyObject *aot_call(PyObject *o, PyObject *const *args, size_t given, PyObject *kwnames)
{
    aot_object *self = (aot_object *)o;
    Py_ssize_t count = PyVectorcall_NARGS(given);
    PyObject *spec = NULL, *made = NULL;
    bool simple = !(kwnames && PyTuple_GET_SIZE(kwnames)) && are_leaves(args, count);
    if (self->compiled && self->flat && simple)
        return run(self, PySequence_Fast_ITEMS(self->leading), PyTuple_GET_SIZE(self->leading), args, count);
    PyObject *leaves = flatten(self, args, count, kwnames, &spec);
    if (!leaves)
        return NULL;
    if (self->compiled || compile(self, leaves, spec)) {
        self->flat |= simple;
        made = run(self, NULL, 0, PySequence_Fast_ITEMS(leaves), PyList_GET_SIZE(leaves));
    }
    Py_DECREF(leaves);
    Py_XDECREF(spec);
    return made;
}

/* compile(*args): for these arguments, without running. */
static PyObject *aot_compile(PyObject *o, PyObject *const *args, Py_ssize_t count)
{
    aot_object *self = (aot_object *)o;
    PyObject *spec = NULL, *leaves = flatten(self, args, count, NULL, &spec);
    bool ok = leaves && compile(self, leaves, spec);
    self->flat = ok && are_leaves(args, count);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the type ---- */
static PyObject *aot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *function, *driver, *leading;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOO!", &function, &driver, &PyTuple_Type, &leading))
        return NULL;
    aot_object *o = (aot_object *)type->tp_alloc(type, 0);
    if (!o)
        return NULL;
    o->function = Py_NewRef(function);
    o->driver = Py_NewRef(driver);
    o->leading = Py_NewRef(leading);
    o->call = aot_call;
    return (PyObject *)o;
}

static int aot_traverse(PyObject *o, visitproc visit, void *arg)
{
    aot_object *self = (aot_object *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->function);
    Py_VISIT(self->driver);
    Py_VISIT(self->leading);
    Py_VISIT(self->in_spec);
    Py_VISIT(self->out_spec);
    Py_VISIT(self->dict);
    if (self->compiled && atomic_load(&self->compiled->refs) == 1) {
        Py_VISIT(((code_context *)self->compiled->forward.context)->callable);
        if (self->compiled->backward.context)
            Py_VISIT(((code_context *)self->compiled->backward.context)->callable);
        Py_VISIT((PyObject *)self->compiled->host);
    }
    return 0;
}

static int aot_clear(PyObject *o)
{
    aot_object *self = (aot_object *)o;
    tp_aot_function *f = self->compiled;
    self->compiled = NULL;
    tp_aot_function_unref(f);
    Py_CLEAR(self->function);
    Py_CLEAR(self->driver);
    Py_CLEAR(self->leading);
    Py_CLEAR(self->in_spec);
    Py_CLEAR(self->out_spec);
    Py_CLEAR(self->dict);
    return 0;
}

static void aot_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (((aot_object *)o)->weakrefs)
        PyObject_ClearWeakRefs(o);
    (void)aot_clear(o);
    tp_free(((aot_object *)o)->input_of);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *aot_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyMemberDef aot_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(aot_object, call), READONLY, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(aot_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(aot_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyGetSetDef aot_attributes[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMethodDef aot_methods[] = {
    { "compile", (PyCFunction)(void (*)(void))aot_compile, METH_FASTCALL, "compiles for these arguments without running" },
    { 0 },
};
static PyType_Slot aot_slots[] = {
    { Py_tp_new, aot_new },         { Py_tp_call, PyVectorcall_Call }, { Py_tp_dealloc, aot_dealloc },     { Py_tp_traverse, aot_traverse },
    { Py_tp_clear, aot_clear },     { Py_tp_members, aot_members },    { Py_tp_getset, aot_attributes },   { Py_tp_methods, aot_methods },
    { Py_tp_descr_get, aot_bind },  { 0, NULL },
};
static PyType_Spec aot_spec = {
    .name = "_AotFunction", .basicsize = sizeof(aot_object), .slots = aot_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
};

/* _aot_partition(graph, count): (forward, backward, saved tensors, saved sizes) */
static PyObject *partition(PyObject *module, PyObject *args)
{
    PyObject *joint;
    unsigned count;
    uint32_t tensors, sizes;
    tp_graph *forward, *backward;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!I", face.fx.graph, &joint, &count))
        return NULL;
    if (!tp_aot_partition(fx_graph_of(joint), count, &forward, &backward, &tensors, &sizes))
        return face_raise();
    PyObject *a = fx_wrap_graph(forward), *b = fx_wrap_graph(backward);
    tp_graph_unref(forward);
    tp_graph_unref(backward);
    if (a && b)
        return Py_BuildValue("(NNII)", a, b, tensors, sizes);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return NULL;
}

static PyMethodDef functions[] = {
    { "_aot_partition", partition, METH_VARARGS, "splits a joint graph into forward and backward" },
    { 0 },
};

bool face_aot_init(PyObject *module)
{
    PyTypeObject *type = face_make_type(module, &aot_spec, NULL);
    bool ok = type && PyModule_AddFunctions(module, functions) == 0;
    Py_XDECREF(type);           /* the module keeps it */
    return ok;
}
