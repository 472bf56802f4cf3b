/* aot_compile.c - a Python function studied, traced and handed to the driver's compilers. */
#include "aot/trace.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "python/aot.h"
#include "python/aot_origin.h"
#include "python/fx.h"
#include "python/pytree.h"

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
        return aot_from_value(v);
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
        ok = aot_any_value(PyList_GET_ITEM(leaves, i), &(*out)->item[i]);
    Py_XSETREF(p->out_spec, spec);
    Py_XDECREF(leaves);
    Py_XDECREF(given);
    if (!ok && *out) {
        tp_value_unref(tp_of_list(*out));
        *out = NULL;
    }
    return ok;
}

/* ---- compiling ---- */
static bool compile_backward(void *host, tp_aot_code *out)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *given = PyObject_CallMethod(host, "backward", NULL);
    bool ok = (given && aot_code_make(given, out)) || face_foreign();
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

/* A fake of its own for each input; `used` has the fakes of those before it. */
static bool own_fake(compiling *c, uint32_t at, PyObject *o, tp_map *used)
{
    if (!face_is_tensor(o)) {
        (void)aot_plain_value(o, &c->in[at]);
        return true;
    }
    tp_tensor *t = face_tensor(o);
    uint64_t first;
    bool known = tp_map_get(used, (uintptr_t)t, &first);
    c->in[at] = tp_of_tensor(known ? tp_fake_of(t) : tp_tensor_ref(t));
    if (c->in[at].tag != TP_TENSOR || !tp_map_put(used, (uintptr_t)t, at))
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

static bool add_input(compiling *c, Py_ssize_t leaf, tp_map *used)
{
    uint32_t at = c->self->input_of[leaf] = c->count;
    (void)aot_plain_value(PyList_GET_ITEM(c->leaves, leaf), &c->given[at]);
    c->own[at] = c->given[at];
    c->unique = ++c->count;
    return own_fake(c, at, PyList_GET_ITEM(c->fakes, leaf), used);
}

/* Lists the inputs; equal tensors are one when `unite`. */
static bool list_inputs(compiling *c, bool unite)
{
    tp_map seen = { 0 }, used = { 0 };      /* leaf -> input; fake -> input */
    Py_ssize_t count = PyList_GET_SIZE(c->leaves);
    bool ok = true;
    drop_inputs(c);
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *leaf = PyList_GET_ITEM(c->leaves, i);
        bool tensor = unite && face_is_tensor(leaf);
        uint64_t same;
        if (tensor && tp_map_get(&seen, (uintptr_t)leaf, &same))
            c->self->input_of[i] = (uint32_t)same;
        else
            ok = (!tensor || tp_map_put(&seen, (uintptr_t)leaf, c->count)) && add_input(c, i, &used);
    }
    tp_map_fini(&seen);
    tp_map_fini(&used);
    return ok || face_raise();
}

/* Inputs are numbered as leaves name them first: a leaf with an earlier number is one that came before. */
static bool any_written_twice(const compiling *c, const tp_aot_facts *f)
{
    for (uint32_t i = 0, next = 0; i < c->self->leaf_count; i++) {
        const tp_aot_input *in = &f->input[c->self->input_of[i]];
        if (c->self->input_of[i] == next)
            next++;
        else if (in->data || in->metadata || in->storage)
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
    if (!tp_aot_faces_find(c->own, c->unique, facts, &faces))
        return face_raise() != NULL;
    if (!faces.item)
        return true;
    tp_aot_facts_fini(facts);
    bool ok = tell_driver(c, "aliased");
    if (ok && !use_faces(c, &faces))
        ok = face_raise() != NULL;
    if (!ok) {
        tp_aot_faces_fini(&faces);
        return false;
    }
    return tp_aot_analyse(&c->run, faces, c->in, c->given, c->count, &c->options, facts) || face_raise();
}

static int decompose(void *context, const tp_op *op, const tp_value *arg, tp_value *result)
{
    return face_decompose(((compiling *)context)->table, op, arg, result);
}

static PyObject *fakes_list(compiling *c)
{
    PyObject *list = PyList_New(c->count);
    for (uint32_t i = 0; list && i < c->count; i++) {
        PyObject *item = aot_from_value(c->in[i]);
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
    bool ok = settings && PyArg_ParseTuple(settings, "pL", &checks, &id) && aot_code_make(callable, &forward);
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

bool aot_compile(aot_object *self, PyObject *leaves, PyObject *spec)
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
    bool keeps = false, ok = table && ((self->input_of && c.given && c.in && c.own) || face_raise()) && face_read_truth(keep, &keeps);
    if (ok) {
        c.options.keep_mutations = keeps;
        c.table = PyDict_Check(table) && PyDict_GET_SIZE(table) ? table : NULL;
        c.host = (tp_record_host){ .context = &c, .decompose = c.table ? decompose : NULL, .origin = origin, .derived = fx_show_derived };
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

