/* autograd_function.c - autograd.Function: a node of the tape whose formulas are Python.
 *
 * apply() runs forward without recording, then gives the results a node. The node owns the context object, the context
 * borrows the node, and the tensors that forward saved are kept by the node as the tape keeps its own. */
#include <string.h>

#include "base/alloc.h"
#include "grad/tape.h"
#include "python/face.h"
#include "python/transforms.h"
#include "trace/grad_level.h"
#include "trace/jvp_level.h"

#include <structmember.h>

typedef struct context_object {
    PyObject_HEAD
    struct function_node *node; /* borrowed, NULL before and after the node's life */
    PyObject *to_save;          /* counted, may be NULL: what save_for_backward was given */
    PyObject *dirty, *non_differentiable, *needs_input_grad, *saved_for_forward;   /* counted, may be NULL */
    char      materialize_grads;
    bool      in_jvp;           /* saved_tensors are those for forward */
    PyObject *dict, *weakrefs;
} context_object;

typedef struct function_node {
    tp_grad_node node;
    context_object *context;    /* counted */
    PyObject *cls;              /* counted: the Function */
    char     *name;             /* owned: "MyFunctionBackward" */
    tp_saved *saved;            /* owned array, may be NULL */
    uint32_t  saved_count;
    int32_t  *edge_of_input;    /* owned: the edge of each argument, -1 for what is no tensor */
    uint32_t  input_count;
} function_node;

/* ---- the node ---- */
static function_node *node_of(tp_grad_node *n)
{
    return (function_node *)n;
}

static void drop_saved(tp_grad_node *n)
{
    function_node *f = node_of(n);
    for (uint32_t i = 0; i < f->saved_count; i++)
        tp_saved_release(&f->saved[i]);
    tp_free(f->saved);
    f->saved = NULL;
    f->saved_count = 0;
    n->released = true;
}

static void free_node(tp_grad_node *n)
{
    function_node *f = node_of(n);
    drop_saved(n);
    PyGILState_STATE state = PyGILState_Ensure();
    if (f->context)
        f->context->node = NULL;
    Py_CLEAR(f->context);
    Py_CLEAR(f->cls);
    PyGILState_Release(state);
    tp_free(f->name);
    tp_free(f->edge_of_input);
}

static const char *node_name(const tp_grad_node *n)
{
    return ((const function_node *)n)->name;
}

/* An undefined gradient is zeros of the result's form, unless the Function asked for None. */
static PyObject *gradient_object(function_node *f, const tp_value *g, uint32_t slot)
{
    if (g->tag == TP_TENSOR)
        return face_from_value(tp_value_ref(*g));
    const tp_slot *s = &f->node.slot[slot];
    if (!f->context->materialize_grads || !s->defined)
        Py_RETURN_NONE;
    tp_tensor *zero = tp_tensor_new_on(s->device, (tp_dtype)s->dtype, s->ndim, s->size, NULL);
    if (!zero)
        return face_raise();
    if (zero->storage->data)
        memset(zero->storage->data, 0, zero->storage->bytes);
    return face_wrap(zero);
}

static bool take_gradients(function_node *f, PyObject *given, tp_value *out)
{
    PyObject *all = PyTuple_Check(given) ? Py_NewRef(given) : PyTuple_Pack(1, given);
    if (!all)
        return false;
    Py_ssize_t count = PyTuple_GET_SIZE(all);
    while (count > (Py_ssize_t)f->input_count && PyTuple_GET_ITEM(all, count - 1) == Py_None)
        count--;            /* more gradients than arguments are fine when they are None */
    bool ok = count == (Py_ssize_t)f->input_count;
    if (!ok)
        PyErr_Format(PyExc_RuntimeError, "function %s returned an incorrect number of gradients (expected %u, got %zd)", f->name, f->input_count, count);
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *g = PyTuple_GET_ITEM(all, i);
        int32_t edge = f->edge_of_input[i];
        if (edge < 0) {
            ok = g == Py_None;
            if (!ok)
                PyErr_Format(PyExc_RuntimeError, "function %s returned a gradient different than None at position %zd, but the corresponding forward input was not a Variable", f->name, i + 1);
        } else if (face_is_tensor(g)) {
            out[edge] = tp_of_tensor(tp_tensor_ref(face_tensor(g)));
        } else if (g != Py_None) {
            PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s)", Py_TYPE(g)->tp_name);
            ok = false;
        }
    }
    Py_DECREF(all);
    return ok;
}

static bool apply_node(tp_grad_node *n, const tp_value *g, tp_value *out)
{
    function_node *f = node_of(n);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args = PyTuple_New(n->slot_count + 1), *backward = PyObject_GetAttrString(f->cls, "backward"), *given = NULL;
    bool ok = args && backward;
    if (ok)
        PyTuple_SET_ITEM(args, 0, Py_NewRef((PyObject *)f->context));
    for (uint32_t i = 0; ok && i < n->slot_count; i++) {
        PyObject *item = gradient_object(f, &g[i], i);
        ok = item != NULL;
        if (ok)
            PyTuple_SET_ITEM(args, i + 1, item);
    }
    for (uint32_t i = 0; i < n->edge_count; i++)
        out[i] = tp_none();
    ok = ok && (given = PyObject_CallObject(backward, args)) && take_gradients(f, given, out);
    Py_XDECREF(args);
    Py_XDECREF(backward);
    Py_XDECREF(given);
    for (uint32_t i = 0; !ok && i < n->edge_count; i++) {
        tp_value_unref(out[i]);
        out[i] = tp_none();
    }
    PyGILState_Release(state);
    return ok || face_foreign();
}

static const tp_grad_kind function_kind = {
    .apply = apply_node, .release = drop_saved, .free = free_node, .name = node_name, .undefined_ok = true,
};

int face_function_traverse(tp_grad_node *n, visitproc visit, void *arg)
{
    if (n->kind != &function_kind)
        return 0;
    function_node *f = node_of(n);
    Py_VISIT(f->context);
    Py_VISIT(f->cls);
    return face_traverse_saved(f->saved, f->saved_count, visit, arg);
}

PyObject *face_function_context(tp_grad_node *n)
{
    return n->kind == &function_kind ? (PyObject *)node_of(n)->context : NULL;
}

/* ---- the context ---- */

/* What the node knows (next_functions, metadata, hooks) is asked of the context, too: in PyTorch they are one object. */
static PyObject *context_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    context_object *c = (context_object *)self;
    if (found || !c->node || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    PyObject *type, *value, *traceback, *node;
    PyErr_Fetch(&type, &value, &traceback);
    found = (node = face_node(&c->node->node)) ? PyObject_GenericGetAttr(node, name) : NULL;
    Py_XDECREF(node);
    if (!found) {
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return found;
}

static int context_traverse(PyObject *self, visitproc visit, void *arg)
{
    context_object *c = (context_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(c->to_save);
    Py_VISIT(c->dirty);
    Py_VISIT(c->non_differentiable);
    Py_VISIT(c->needs_input_grad);
    Py_VISIT(c->saved_for_forward);
    Py_VISIT(c->dict);
    return 0;
}

/* What was marked served the recording. A written tensor has the node for its history, which holds the context: a cycle, and
 * once it was written further one that the collector cannot follow. */
static void forget_marks(context_object *c)
{
    Py_CLEAR(c->to_save);
    Py_CLEAR(c->dirty);
    Py_CLEAR(c->non_differentiable);
}

static int context_clear(PyObject *self)
{
    context_object *c = (context_object *)self;
    forget_marks(c);
    Py_CLEAR(c->needs_input_grad);
    Py_CLEAR(c->saved_for_forward);
    Py_CLEAR(c->dict);
    return 0;
}

static void context_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((context_object *)self)->weakrefs)
        PyObject_ClearWeakRefs(self);
    context_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *save_for_backward(PyObject *self, PyObject *args)
{
    Py_XSETREF(((context_object *)self)->to_save, Py_NewRef(args));
    Py_RETURN_NONE;
}

static PyObject *save_for_forward(PyObject *self, PyObject *args)
{
    Py_XSETREF(((context_object *)self)->saved_for_forward, Py_NewRef(args));
    Py_RETURN_NONE;
}

static PyObject *mark_dirty(PyObject *self, PyObject *args)
{
    Py_XSETREF(((context_object *)self)->dirty, Py_NewRef(args));
    Py_RETURN_NONE;
}

static PyObject *mark_non_differentiable(PyObject *self, PyObject *args)
{
    Py_XSETREF(((context_object *)self)->non_differentiable, Py_NewRef(args));
    Py_RETURN_NONE;
}

static PyObject *set_materialize_grads(PyObject *self, PyObject *value)
{
    bool on;
    if (!face_read_truth(value, &on))
        return NULL;
    ((context_object *)self)->materialize_grads = on;
    Py_RETURN_NONE;
}

static PyObject *saved_tensors(PyObject *self, void *unused)
{
    (void)unused;
    context_object *c = (context_object *)self;
    function_node *f = c->node;
    if (c->in_jvp && c->saved_for_forward)
        return Py_NewRef(c->saved_for_forward);
    if (!f)
        return c->to_save ? Py_NewRef(c->to_save) : PyTuple_New(0);
    if (f->node.released)
        return PyErr_Format(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.");
    PyObject *all = PyTuple_New(f->saved_count);
    for (uint32_t i = 0; all && i < f->saved_count; i++) {
        tp_value value;
        PyObject *item = tp_saved_unpack(&f->saved[i], &f->node, &value) ? face_from_value(value) : face_raise();
        if (!item)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, item);
    }
    return all;
}

static PyObject *context_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    context_object *c = (context_object *)self;
    return PyUnicode_FromString(c->node ? c->node->name : Py_TYPE(self)->tp_name);
}

static PyMethodDef context_methods[] = {
    { "save_for_backward", save_for_backward, METH_VARARGS, NULL },
    { "save_for_forward", save_for_forward, METH_VARARGS, NULL },
    { "mark_dirty", mark_dirty, METH_VARARGS, NULL },
    { "mark_non_differentiable", mark_non_differentiable, METH_VARARGS, NULL },
    { "set_materialize_grads", set_materialize_grads, METH_O, NULL },
    { "name", context_name, METH_NOARGS, NULL },
    { 0 },
};
static PyGetSetDef context_attributes[] = {
    { "saved_tensors", saved_tensors, NULL, NULL, NULL },
    { "saved_variables", saved_tensors, NULL, NULL, NULL },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMemberDef context_members[] = {
    { "needs_input_grad", T_OBJECT, offsetof(context_object, needs_input_grad), 0, NULL },
    { "to_save", T_OBJECT, offsetof(context_object, to_save), 0, NULL },
    { "saved_for_forward", T_OBJECT, offsetof(context_object, saved_for_forward), 0, NULL },
    { "dirty_tensors", T_OBJECT, offsetof(context_object, dirty), 0, NULL },
    { "non_differentiable", T_OBJECT, offsetof(context_object, non_differentiable), 0, NULL },
    { "materialize_grads", T_BOOL, offsetof(context_object, materialize_grads), 0, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(context_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(context_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot context_slots[] = {
    { Py_tp_getattro, context_getattro },
    { Py_tp_dealloc, context_dealloc }, { Py_tp_traverse, context_traverse }, { Py_tp_clear, context_clear },
    { Py_tp_methods, context_methods }, { Py_tp_getset, context_attributes }, { Py_tp_members, context_members }, { 0, NULL },
};
static PyType_Spec context_spec = {
    .name = "_C._FunctionBase", .basicsize = sizeof(context_object), .slots = context_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
};

/* ---- apply ---- */
static bool contains(PyObject *tuple, PyObject *o)
{
    for (Py_ssize_t i = 0; tuple && PyTuple_Check(tuple) && i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == o)
            return true;
    return false;
}

static function_node *make_node(PyObject *cls, PyObject *args, uint32_t results)
{
    uint32_t edges = 0, inputs = (uint32_t)PyTuple_GET_SIZE(args);
    for (uint32_t i = 0; i < inputs; i++)
        edges += face_is_tensor(PyTuple_GET_ITEM(args, i));
    function_node *f = (function_node *)tp_grad_node_new(&function_kind, sizeof *f, edges, results);
    if (!f)
        return NULL;
    f->context = NULL;
    f->cls = NULL;
    f->saved = NULL;
    f->saved_count = 0;
    f->input_count = inputs;
    size_t length = strlen(((PyTypeObject *)cls)->tp_name);
    f->name = tp_alloc(length + sizeof "Backward");
    f->edge_of_input = tp_alloc_array(inputs ? inputs : 1, sizeof *f->edge_of_input);
    if (!f->name || !f->edge_of_input) {
        tp_grad_node_unref(&f->node);
        return NULL;
    }
    memcpy(f->name, ((PyTypeObject *)cls)->tp_name, length);
    memcpy(f->name + length, "Backward", sizeof "Backward");
    f->cls = Py_NewRef(cls);
    int32_t edge = 0;
    for (uint32_t i = 0; i < inputs; i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        bool tensor = face_is_tensor(o);
        f->edge_of_input[i] = tensor ? edge : -1;
        if (tensor && !tp_gradient_edge(face_tensor(o), &f->node.edge[edge++])) {
            tp_grad_node_unref(&f->node);
            return NULL;
        }
    }
    return f;
}

static bool save_tensors(function_node *f, context_object *c, PyObject *results)
{
    Py_ssize_t count = c->to_save && PyTuple_Check(c->to_save) ? PyTuple_GET_SIZE(c->to_save) : 0;
    if (!count)
        return true;
    if (!(f->saved = tp_alloc_zero((size_t)count * sizeof *f->saved)))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *o = PyTuple_GET_ITEM(c->to_save, i);
        if (o != Py_None && !face_is_tensor(o))
            return tp_fail(TP_ERR_TYPE, "save_for_backward can only save variables, but argument %lld is of type %s", LL(i), Py_TYPE(o)->tp_name);
        uint32_t slot = 0;
        bool is_result = false;
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); k++)
            if (PyTuple_GET_ITEM(results, k) == o) {
                is_result = true;
                slot = (uint32_t)k;
            }
        tp_value v = o == Py_None ? tp_none() : tp_of_tensor(face_tensor(o));
        if (!tp_save_value(&f->saved[i], v, is_result, slot))
            return false;
        f->saved_count++;
    }
    return true;
}

/* A result that is an argument as it was becomes a view of it, so that the argument keeps its own history. */
static PyObject *own_result(PyObject *o, PyObject *args, context_object *c)
{
    if (!contains(args, o) || contains(c->dirty, o) || contains(c->non_differentiable, o))
        return Py_NewRef(o);
    return face_wrap_or_raise(tp_tensor_alias(face_tensor(o)));
}

static bool give_history(function_node *f, context_object *c, PyObject *args, PyObject *results)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); k++) {
        PyObject *o = PyTuple_GET_ITEM(results, k);
        if (!face_is_tensor(o))
            continue;
        tp_tensor *t = face_tensor(o);
        if (!tp_slot_describe(&f->node, (uint32_t)k, t))
            return false;
        if (contains(c->non_differentiable, o) || !tp_dtype_is_inexact((tp_dtype)t->dtype))
            continue;
        bool dirty = contains(c->dirty, o);
        if (dirty)
            tp_bump_version(t);
        if (!(dirty && contains(args, o) ? tp_rebase_history(t, &f->node, (uint32_t)k) : tp_set_history(t, &f->node, (uint32_t)k)))
            return false;
        face_track((tensor_object *)o);
    }
    return true;
}

static PyObject *needs_tuple(PyObject *args, bool *any)
{
    PyObject *needs = PyTuple_New(PyTuple_GET_SIZE(args));
    *any = false;
    for (Py_ssize_t i = 0; needs && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i);
        bool one = face_is_tensor(o) && tp_requires_grad(face_tensor(o));
        *any |= one;
        PyTuple_SET_ITEM(needs, i, PyBool_FromLong(one));
    }
    return needs;
}

/* Runs forward, old style with the context first, or forward(*args) and setup_context(ctx, inputs, output). */
static PyObject *run_forward(PyObject *cls, PyObject *context, PyObject *args, bool separate)
{
    PyObject *forward = PyObject_GetAttrString(cls, "forward"), *result = NULL;
    bool grad_mode = tp_self.grad_mode;
    if (!forward)
        return NULL;
    tp_self.grad_mode = false;
    if (separate) {
        result = tp_grad_level_at(tp_self.transforms) ? face_function_forward_outside(cls, args) : PyObject_CallObject(forward, args);
        PyObject *done = result ? PyObject_CallMethod(cls, "setup_context", "OOO", context, args, result) : NULL;
        if (!done)
            Py_CLEAR(result);
        Py_XDECREF(done);
    } else {
        PyObject *all = face_args_tuple(context, PySequence_Fast_ITEMS(args), PyTuple_GET_SIZE(args));
        result = all ? PyObject_CallObject(forward, all) : NULL;
        Py_XDECREF(all);
    }
    tp_self.grad_mode = grad_mode;
    Py_DECREF(forward);
    return result;
}

/* Takes the results of forward as a tuple; gives those the caller sees. */
static PyObject *record(PyObject *cls, context_object *c, PyObject *args, PyObject *taken)
{
    PyObject *results = PyTuple_New(PyTuple_GET_SIZE(taken));
    for (Py_ssize_t k = 0; results && k < PyTuple_GET_SIZE(taken); k++) {
        PyObject *o = PyTuple_GET_ITEM(taken, k);
        PyObject *own = face_is_tensor(o) ? own_result(o, args, c) : Py_NewRef(o);
        if (!own)
            Py_CLEAR(results);
        else
            PyTuple_SET_ITEM(results, k, own);
    }
    Py_DECREF(taken);
    if (!results)
        return NULL;
    function_node *f = make_node(cls, args, (uint32_t)PyTuple_GET_SIZE(results));
    if (!f)
        return face_raise_keeping(results);
    f->context = (context_object *)Py_NewRef(c);
    c->node = f;
    bool ok = give_history(f, c, args, results) && save_tensors(f, c, results);
    tp_grad_node_unref(&f->node);
    return ok ? results : face_raise_keeping(results);
}

/* ---- forward mode: forward runs with the level paused, then jvp makes the tangents of what it gave ---- */
static tp_jvp_level *level_of(PyObject *args)
{
    tp_jvp_level *l = NULL;
    for (Py_ssize_t i = 0; !l && tp_self.transforms && tp_self.forward_mode && i < PyTuple_GET_SIZE(args); i++)
        if (face_is_tensor(PyTuple_GET_ITEM(args, i)))
            l = tp_jvp_level_of(face_tensor(PyTuple_GET_ITEM(args, i)));
    return l;
}

/* None for what can have no tangent; zeros for what has none, unless the Function asked for None. */
static PyObject *tangent_object(context_object *c, tp_jvp_level *l, PyObject *o)
{
    tp_tensor *tangent = NULL;
    if (!face_is_tensor(o) || !tp_dtype_is_inexact((tp_dtype)face_tensor(o)->dtype))
        Py_RETURN_NONE;
    if (!tp_jvp_level_tangent(l, face_tensor(o), &tangent))
        return face_raise();
    if (tangent)
        return face_wrap(tangent);
    if (!c->materialize_grads)
        Py_RETURN_NONE;
    PyObject *plain = face_wrap_or_raise(tp_jvp_level_unwrap(l, face_tensor(o)));
    return plain ? face_call_function("zeros_like", Py_BuildValue("(N)", plain), NULL) : NULL;
}

static PyObject *call_jvp(PyObject *cls, context_object *c, PyObject *args, tp_jvp_level *l)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *all = PyTuple_New(count + 1), *jvp = PyObject_GetAttrString(cls, "jvp"), *given = NULL;
    if (all)
        PyTuple_SET_ITEM(all, 0, Py_NewRef((PyObject *)c));
    for (Py_ssize_t i = 0; all && i < count; i++) {
        PyObject *tangent = tangent_object(c, l, PyTuple_GET_ITEM(args, i));
        if (tangent)
            PyTuple_SET_ITEM(all, i + 1, tangent);
        else
            Py_CLEAR(all);
    }
    c->in_jvp = true;
    if (all && jvp)
        given = PyObject_CallObject(jvp, all);
    c->in_jvp = false;
    Py_XDECREF(all);
    Py_XDECREF(jvp);
    return given;
}

/* A result that is an argument, or a view of one, gets a tangent of its own: the argument's is not the Function's to write,
 * unless the argument is dirty. */
static PyObject *off_argument(tp_jvp_level *l, const context_object *c, PyObject *o)
{
    tp_tensor *tangent = NULL;
    if (!face_is_tensor(o) || contains(c->dirty, o) || contains(c->non_differentiable, o))
        return Py_NewRef(o);
    if (!tp_jvp_level_tangent(l, face_tensor(o), &tangent))
        return face_raise();
    if (!tangent)
        return Py_NewRef(o);
    tp_tensor_unref(tangent);
    tp_tensor *plain = tp_jvp_level_unwrap(l, face_tensor(o)), *alias = plain ? tp_tensor_alias(plain) : NULL;
    tp_tensor_unref(plain);
    return face_wrap_or_raise(alias);
}

static PyObject *off_arguments(tp_jvp_level *l, const context_object *c, PyObject *result)     /* takes the result */
{
    PyObject *out = !PyTuple_Check(result) ? off_argument(l, c, result) : PyTuple_New(PyTuple_GET_SIZE(result));
    for (Py_ssize_t i = 0; out && PyTuple_Check(result) && i < PyTuple_GET_SIZE(result); i++) {
        PyObject *item = off_argument(l, c, PyTuple_GET_ITEM(result, i));
        if (item)
            PyTuple_SET_ITEM(out, i, item);
        else
            Py_CLEAR(out);
    }
    Py_DECREF(result);
    return out;
}

/* Gives the results, a tuple or one, the tangents that the Function's jvp makes. */
static bool give_tangents(PyObject *cls, context_object *c, PyObject *args, tp_jvp_level *l, PyObject *result)
{
    PyObject *given = call_jvp(cls, c, args, l), *single = PyTuple_Check(result) ? NULL : result;
    PyObject *all = !given ? NULL : PyTuple_Check(given) ? Py_NewRef(given) : PyTuple_Pack(1, given);
    Py_ssize_t count = single ? 1 : PyTuple_GET_SIZE(result);
    bool ok = all && PyTuple_GET_SIZE(all) == count;
    if (all && !ok)
        PyErr_Format(PyExc_RuntimeError, "Function's jvp returned an invalid number of forward gradients (expected %zd but got %zd)", count, PyTuple_GET_SIZE(all));
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *t = PyTuple_GET_ITEM(all, i), *o = single ? single : PyTuple_GET_ITEM(result, i);
        if (face_is_tensor(t) && face_is_tensor(o)) {
            tp_tensor *plain = tp_jvp_level_unwrap(l, face_tensor(t));
            if (!(ok = tp_jvp_level_set_tangent(l, face_tensor(o), plain)))
                (void)face_raise();
            tp_tensor_unref(plain);
        } else if (t != Py_None) {
            PyErr_Format(PyExc_RuntimeError, "expected Variable or None (got %s) for grad output %zd.", Py_TYPE(t)->tp_name, i);
            ok = false;
        }
    }
    Py_XDECREF(given);
    Py_XDECREF(all);
    return ok;
}

/* _function_apply(cls, context, separate_setup, *args) */
static PyObject *function_apply(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    (void)module;
    if (count < 3 || !PyType_Check(given[0]) || !PyObject_TypeCheck(given[1], face.function_context))
        return PyErr_Format(PyExc_TypeError, "a Function, its context and its arguments are wanted");
    PyObject *cls = given[0], *args = face_args_tuple(NULL, given + 3, count - 3);
    context_object *c = (context_object *)given[1];
    bool any, done = false;
    PyObject *applied = args && tp_self.transforms ? face_function_in_levels(cls, args, given[2] == Py_True, &done) : NULL;
    if (done) {
        Py_DECREF(args);
        return applied;
    }
    c->materialize_grads = 1;
    PyObject *needs = args ? needs_tuple(args, &any) : NULL;
    if (!needs) {
        Py_XDECREF(args);
        return NULL;
    }
    Py_XSETREF(c->needs_input_grad, needs);
    tp_jvp_level *level = level_of(args);
    if (level && level != tp_jvp_level_open() && given[2] != Py_True) {
        Py_DECREF(args);
        return PyErr_Format(PyExc_RuntimeError, "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
                            "override the setup_context staticmethod. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html");
    }
    void *trace = face_is_traced() ? face_jit_pause() : NULL;
    bool paused = level && tp_jvp_level_pause(level, true);
    PyObject *result = run_forward(cls, (PyObject *)c, args, given[2] == Py_True);
    if (result && level)
        result = off_arguments(level, c, result);
    if (result && any && tp_self.grad_mode) {
        bool single = !PyTuple_Check(result);
        PyObject *all = single ? PyTuple_Pack(1, result) : Py_NewRef(result);
        Py_DECREF(result);
        result = all ? record(cls, c, args, all) : NULL;
        if (result && single) {
            PyObject *one = Py_NewRef(PyTuple_GET_ITEM(result, 0));
            Py_DECREF(result);
            result = one;
        }
    }
    if (level && result && !give_tangents(cls, c, args, level, result))
        Py_CLEAR(result);
    if (level)
        (void)tp_jvp_level_pause(level, paused);
    face_jit_resume(trace);
    if (trace && result && !face_jit_function_ran(cls, args, result, c->dirty && PyTuple_Check(c->dirty) && PyTuple_GET_SIZE(c->dirty) > 0))
        Py_CLEAR(result);
    forget_marks(c);
    Py_DECREF(args);
    return result;
}

static PyMethodDef functions[] = {
    { "_function_apply", (PyCFunction)(void (*)(void))function_apply, METH_FASTCALL, NULL },
    { 0 },
};

bool face_function_init(PyObject *module)
{
    face.function_context = face_make_type(module, &context_spec, NULL);
    return face.function_context && PyModule_AddFunctions(module, functions) == 0;
}
