/* autograd.c - the tape seen from Python: nodes, hooks, and running backward. */
#include <string.h>

#include "base/alloc.h"
#include "grad/tape.h"
#include "python/face.h"
#include "trace/jvp_level.h"

#include <structmember.h>

/* ---- nodes ---- */
typedef struct node_object {
    PyObject_HEAD
    tp_grad_node *node;         /* counted */
    PyObject *dict;
    PyObject *weakrefs;
} node_object;

tp_grad_node *face_node_of(PyObject *o)
{
    return ((node_object *)o)->node;
}

/* "AccumulateGrad" of "torch::autograd::AccumulateGrad". */
const char *face_node_title(const char *full)
{
    const char *colon = strrchr(full, ':');
    return colon ? colon + 1 : full;
}

/* The class of nodes of one name, "AddBackward0": a subclass of Node without additions. Borrowed. */
static PyObject *node_class(const char *full)
{
    const char *name = face_node_title(full);
    PyObject *known = PyDict_GetItemString(face.node_classes, name);
    if (known)
        return known;
    PyObject *made = PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){sss()}", name, face.node, "__module__", "builtins", "__slots__");
    if (!made || PyDict_SetItemString(face.node_classes, name, made) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    Py_DECREF(made);
    return made;
}

PyObject *face_node(tp_grad_node *n)
{
    if (!n)
        Py_RETURN_NONE;
    if (n->wrapper)
        return Py_NewRef((PyObject *)n->wrapper);
    PyTypeObject *type = (PyTypeObject *)node_class(n->kind->name(n));
    node_object *made = type ? (node_object *)type->tp_alloc(type, 0) : NULL;
    if (!made)
        return NULL;
    made->node = tp_grad_node_ref(n);
    n->wrapper = made;
    return (PyObject *)made;
}

static void node_dealloc(PyObject *self)
{
    node_object *o = (node_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->dict);
    if (o->node) {
        o->node->wrapper = NULL;
        tp_grad_node_unref(o->node);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- what the collector sees ----
 *
 * An owner may show what it owns alone. A count of one says that a struct is ours alone; a count of two on a tensor with a
 * wrapper says that we are the one beside the wrapper, for whom the tensor holds its reference to it. */
static int visit_hooks(const tp_hook *h, visitproc visit, void *arg)
{
    for (; h; h = h->next)
        if (atomic_load(&h->callable->refs) == 1)
            Py_VISIT((PyObject *)h->callable->object);
    return 0;
}

static int visit_saved(const tp_saved *s, visitproc visit, void *arg)
{
    tp_value v = s->value;
    if (v.tag == TP_TENSOR && v.tensor->wrapper && atomic_load(&v.tensor->refs) == 2)
        Py_VISIT((PyObject *)v.tensor->wrapper);
    else if (v.tag == TP_HANDLE && atomic_load(&v.handle->refs) == 1)
        Py_VISIT((PyObject *)v.handle->object);
    return 0;
}

int face_traverse_saved(const tp_saved *s, uint32_t count, visitproc visit, void *arg)
{
    for (uint32_t i = 0; i < count; i++) {
        int stop = visit_saved(&s[i], visit, arg);
        if (stop)
            return stop;
    }
    return 0;
}

/* A node that its visitor owns alone. */
static int visit_node(tp_grad_node *n, visitproc visit, void *arg)
{
    int stop = 0;
    if (!n || atomic_load(&n->refs) != 1)
        return 0;
    for (uint32_t i = 0; n->slot_hooks && !stop && i < n->slot_count; i++)
        stop = visit_hooks(n->slot_hooks[i], visit, arg);
    stop = stop ? stop : visit_hooks(n->pre_hooks, visit, arg);
    stop = stop ? stop : visit_hooks(n->post_hooks, visit, arg);
    if (!stop && n->kind == &tp_op_node_kind)
        stop = face_traverse_saved(((tp_op_node *)n)->saved, ((tp_op_node *)n)->op->gradient->save_count, visit, arg);
    return stop ? stop : face_function_traverse(n, visit, arg);
}

int face_traverse_autograd(const tp_tensor *t, visitproc visit, void *arg)
{
    const tp_autograd *a = t->autograd;
    int stop = visit_hooks(a->hooks, visit, arg);
    stop = stop ? stop : visit_hooks(a->post_accumulate, visit, arg);
    if (!stop && a->python && atomic_load(&a->python->refs) == 1)
        Py_VISIT((PyObject *)a->python->object);
    return stop ? stop : visit_node(a->grad_fn, visit, arg);
}

static int node_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((node_object *)self)->dict);
    return visit_node(face_node_of(self), visit, arg);
}

static int node_clear(PyObject *self)
{
    Py_CLEAR(((node_object *)self)->dict);
    return 0;
}

static PyObject *node_repr(PyObject *self)
{
    tp_grad_node *n = face_node_of(self);
    return PyUnicode_FromFormat("<%s%s%s object at %p>", face_function_context(n) ? face.package : "", face_function_context(n) ? ".autograd.function." : "",
                                face_node_title(n->kind->name(n)), self);
}

static PyObject *node_name(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_grad_node *n = face_node_of(self);
    return PyUnicode_FromString(n->kind->name(n));
}

static PyObject *node_sequence(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(face_node_of(self)->sequence);
}

static PyObject *node_next(PyObject *self, void *unused)
{
    (void)unused;
    tp_grad_node *n = face_node_of(self);
    PyObject *all = PyTuple_New(n->edge_count);
    for (uint32_t i = 0; all && i < n->edge_count; i++) {
        const tp_edge *e = &n->edge[i];
        PyObject *pair = Py_BuildValue("NI", face_node(e->node), e->node ? tp_grad_output(e->node, e->slot) : e->slot);
        if (!pair)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, pair);
    }
    return all;
}

static PyObject *node_metadata(PyObject *self, void *unused)
{
    (void)unused;
    node_object *o = (node_object *)self;
    if (!o->dict && !(o->dict = PyDict_New()))
        return NULL;
    PyObject *known = PyDict_GetItemString(o->dict, "metadata");
    if (known)
        return Py_NewRef(known);
    PyObject *made = PyDict_New();
    if (made && PyDict_SetItemString(o->dict, "metadata", made) < 0)
        Py_CLEAR(made);
    return made;
}

static PyObject *node_variable(PyObject *self)
{
    tp_grad_node *n = face_node_of(self);
    tp_tensor *leaf = ((tp_accumulate_node *)n)->leaf;
    return face_wrap(leaf ? tp_tensor_ref(leaf) : NULL);
}

/* _saved_self, _saved_other …: what the formula of the op kept. */
static PyObject *saved_value(PyObject *self, const char *name)
{
    tp_op_node *n = (tp_op_node *)face_node_of(self);
    for (int i = 0; i < n->op->gradient->save_count; i++) {
        const tp_save *s = &n->op->gradient->save[i];
        const char *called = s->what == TP_SAVE_RESULT ? (n->op->result[s->index].name && *n->op->result[s->index].name
                                                          ? n->op->result[s->index].name : "result")
                                                       : n->op->arg[s->index].name;
        if (strcmp(called, name) != 0)
            continue;
        if (n->node.released)
            return PyErr_Format(PyExc_RuntimeError, "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.");
        tp_value value;
        return tp_saved_unpack(&n->saved[i], &n->node, &value) ? face_from_value(value) : face_raise();
    }
    return NULL;
}

static PyObject *node_getattro(PyObject *self, PyObject *name)
{
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return found;
    const char *text = PyUnicode_AsUTF8(name);
    tp_grad_node *n = face_node_of(self);
    PyObject *context = face_function_context(n);
    if (context) {              /* y.grad_fn.saved_tensors, y.grad_fn.what_forward_kept */
        PyErr_Clear();
        return PyObject_GenericGetAttr(context, name);
    }
    bool saved = text && n->kind == &tp_op_node_kind && strncmp(text, "_saved_", 7) == 0;
    bool leaf = text && n->kind == &tp_accumulate_kind && strcmp(text, "variable") == 0;
    if (!saved && !leaf)
        return NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *result = leaf ? node_variable(self) : saved_value(self, text + 7);
    if (!result && !PyErr_Occurred()) {
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return result;
}

static int node_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    PyObject *context = face_function_context(face_node_of(self));
    return context ? PyObject_GenericSetAttr(context, name, value) : PyObject_GenericSetAttr(self, name, value);
}

/* ---- hooks ---- */

static void drop_handle(tp_handle *h)
{
    if (h)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
}

static PyObject *values_tuple(const tp_value *value, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++) {
        PyObject *item = face_from_value(tp_value_ref(value[i]));
        if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
    }
    return tuple;
}

/* Puts what a hook gave in the place of a gradient. */
static bool replace(tp_value *slot, PyObject *given)
{
    if (given == Py_None)
        return true;
    if (!face_is_tensor(given)) {
        PyErr_Format(PyExc_TypeError, "hook returned a %s; expected a Tensor or None", Py_TYPE(given)->tp_name);
        return false;
    }
    tp_value old = *slot;
    *slot = tp_of_tensor(tp_tensor_ref(face_tensor(given)));
    tp_value_unref(old);
    return true;
}

/* How messages call it. NULL: an exception is set. */
static PyObject *hook_name(PyObject *hook)
{
    PyObject *name = PyObject_GetAttrString(hook, "__name__");
    if (!name)
        PyErr_Clear();
    return name ? name : PyUnicode_FromString("<unknown>");
}

static bool replace_all(PyObject *hook, tp_value *value, size_t count, PyObject *given)
{
    if (given == Py_None)
        return true;
    if (!PyTuple_Check(given)) {
        if (count == 1 && face_is_tensor(given))
            return replace(value, given);
        PyErr_Format(PyExc_TypeError, "expected tuple, but hook returned '%s'", Py_TYPE(given)->tp_name);
        return false;
    }
    if ((size_t)PyTuple_GET_SIZE(given) != count) {
        PyObject *name = hook_name(hook);
        if (name)
            PyErr_Format(PyExc_RuntimeError, "hook '%S' has returned an incorrect number of values (got %zd, but expected %zu)", name,
                         PyTuple_GET_SIZE(given), count);
        Py_XDECREF(name);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!replace(&value[i], PyTuple_GET_ITEM(given, (Py_ssize_t)i)))
            return false;
    return true;
}

static bool keeps_size(PyObject *hook, const tp_value *slot, PyObject *given)
{
    if (!face_is_tensor(given) || slot->tag != TP_TENSOR)
        return true;
    const tp_tensor *old = slot->tensor, *new = face_tensor(given);
    if (old->ndim == new->ndim && memcmp(old->size, new->size, old->ndim * sizeof *old->size) == 0)
        return true;
    PyObject *name = hook_name(hook);
    if (name)
        PyErr_Format(PyExc_RuntimeError, "hook '%S' has changed the size of value", name);
    Py_XDECREF(name);
    return false;
}

static bool hook_on_tensor(tp_hook *h, tp_value *gradients, size_t count, tp_value *results, size_t result_count)
{
    (void)count, (void)results, (void)result_count;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *grad = face_from_value(tp_value_ref(gradients[0]));
    PyObject *given = grad ? PyObject_CallOneArg(h->callable->object, grad) : NULL;
    bool ok = given && keeps_size(h->callable->object, &gradients[0], given) && replace(&gradients[0], given);
    Py_XDECREF(grad);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok || face_foreign();
}

static bool hook_after_accumulate(tp_hook *h, tp_value *gradients, size_t count, tp_value *results, size_t result_count)
{
    (void)count, (void)results, (void)result_count;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *leaf = face_from_value(tp_value_ref(gradients[0]));
    PyObject *given = leaf ? PyObject_CallOneArg(h->callable->object, leaf) : NULL;
    bool ok = given == Py_None;
    if (given && !ok)
        PyErr_SetString(PyExc_RuntimeError, "Tensor post accumulate grad hooks should return None.");
    Py_XDECREF(leaf);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok || face_foreign();
}

/* A node's hook: before it runs it sees and may replace the gradients of the results; after, those of the inputs, with the
 * gradients of the results beside them. */
static bool hook_on_node(tp_hook *h, tp_value *gradients, size_t count, tp_value *results, size_t result_count)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *first = values_tuple(gradients, count), *second = results ? values_tuple(results, result_count) : NULL, *given = NULL;
    if (first && !results)
        given = PyObject_CallOneArg(h->callable->object, first);
    else if (first && second)
        given = PyObject_CallFunctionObjArgs(h->callable->object, first, second, NULL);
    bool ok = given && replace_all(h->callable->object, gradients, count, given);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(given);
    PyGILState_Release(state);
    return ok || face_foreign();
}

typedef bool hook_call(tp_hook *, tp_value *, size_t, tp_value *, size_t);

static PyObject *add_hook(tp_hook **list, PyObject *callable, hook_call *call)
{
    if (!list)
        return face_raise();
    tp_handle *h = face_handle_new(callable);
    int64_t id = (int64_t)atomic_fetch_add(&tp_the_runtime.sequence, 1);
    if (!h || !tp_hook_add(list, id, h, call, false)) {
        drop_handle(h);
        return face_raise();
    }
    drop_handle(h);                             /* the list counts it now */
    return PyLong_FromLongLong(id);
}

static PyObject *tensor_hook(PyObject *module, PyObject *args)
{
    PyObject *tensor, *callable;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", face.tensor_base, &tensor, &callable))
        return NULL;
    face_track((tensor_object *)tensor);
    return add_hook(tp_tensor_hooks(face_tensor(tensor)), callable, hook_on_tensor);
}

static PyObject *accumulate_hook(PyObject *module, PyObject *args)
{
    PyObject *tensor, *callable;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", face.tensor_base, &tensor, &callable))
        return NULL;
    tp_autograd *a = tp_autograd_of(face_tensor(tensor));
    return add_hook(a ? &a->post_accumulate : NULL, callable, hook_after_accumulate);
}

static PyObject *remove_tensor_hook(PyObject *module, PyObject *args)
{
    PyObject *tensor;
    long long id;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!L", face.tensor_base, &tensor, &id))
        return NULL;
    tp_tensor *t = face_tensor(tensor);
    tp_hook **list = t->autograd ? tp_tensor_hooks(t) : NULL;
    if (list)
        tp_hook_remove(list, id);
    if (t->autograd)
        tp_hook_remove(&t->autograd->post_accumulate, id);
    Py_RETURN_NONE;
}

static PyObject *node_add(PyObject *self, PyObject *callable, bool before)
{
    tp_grad_node *n = face_node_of(self);
    PyObject *id = add_hook(before ? &n->pre_hooks : &n->post_hooks, callable, hook_on_node);
    PyObject *make = id ? PyObject_GetAttrString(face.module, "_NodeHookHandle") : NULL;
    PyObject *handle = make ? PyObject_CallFunctionObjArgs(make, self, id, before ? Py_True : Py_False, NULL) : NULL;
    Py_XDECREF(make);
    Py_XDECREF(id);
    return handle;
}

static PyObject *node_hook(PyObject *self, PyObject *callable)
{
    return node_add(self, callable, false);
}

static PyObject *node_prehook(PyObject *self, PyObject *callable)
{
    return node_add(self, callable, true);
}

static PyObject *node_remove_hook(PyObject *self, PyObject *args)
{
    long long id;
    int before;
    if (!PyArg_ParseTuple(args, "Lp", &id, &before))
        return NULL;
    tp_grad_node *n = face_node_of(self);
    tp_hook_remove(before ? &n->pre_hooks : &n->post_hooks, id);
    Py_RETURN_NONE;
}

/* _backward_hooks is a Python dict that nn and pickling look at; hooks themselves live in the tape. */
PyObject *face_backward_hooks(PyObject *tensor)
{
    tp_autograd *a = face_tensor(tensor)->autograd;
    return Py_NewRef(a && a->python ? (PyObject *)a->python->object : Py_None);
}

int face_set_backward_hooks(PyObject *tensor, PyObject *value)
{
    tp_autograd *a = tp_autograd_of(face_tensor(tensor));
    if (!a) {
        face_raise();
        return -1;
    }
    tp_handle *old = a->python;
    a->python = NULL;
    if (value && value != Py_None && !(a->python = face_handle_new(value))) {
        face_raise();
        return -1;
    }
    drop_handle(old);
    return 0;
}

/* ---- running backward ---- */
static bool edges_of(PyObject *tensors, tp_edge *edge, const char *what)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *o = PyTuple_GET_ITEM(tensors, i);
        edge[i] = (tp_edge){ NULL, 0 };
        if (!face_is_tensor(o)) {
            PyErr_Format(PyExc_TypeError, "element %zd of %s tuple is not a Tensor", i, what);
            return false;
        }
        tp_tensor *t = face_tensor(o);
        if (!tp_requires_grad(t)) {
            if (strcmp(what, "tensors") == 0)
                PyErr_Format(PyExc_RuntimeError, "element %zd of tensors does not require grad and does not have a grad_fn", i);
            else
                PyErr_SetString(PyExc_RuntimeError, "One of the differentiated Tensors does not require grad");
            return false;
        }
        if (!tp_gradient_edge(t, &edge[i])) {
            face_raise();
            return false;
        }
    }
    return true;
}

static void drop_edges(tp_edge *edge, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; edge && i < count; i++)
        tp_grad_node_unref(edge[i].node);
    tp_free(edge);
}

static PyObject *captured_tuple(tp_value *captured, Py_ssize_t count, bool allow_unreachable)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (tuple && captured[i].tag == TP_NONE && !allow_unreachable) {
            PyErr_Format(PyExc_RuntimeError, "The differentiated Tensor at index %zd appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.", i);
            Py_CLEAR(tuple);
        }
        PyObject *item = tuple ? face_from_value(captured[i]) : NULL;
        if (!tuple)
            tp_value_unref(captured[i]);
        else if (!item)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* The gradient a scalar starts with: one, of its own type. Counted. */
static tp_tensor *one_like(const tp_tensor *t)
{
    if (t->numel != 1)
        return tp_fail(TP_ERR_RUNTIME, "grad can be implicitly created only for scalar outputs");
    const tp_op *op = tp_self.active || (t->keys & TP_ALL_LAYERS & ~TP_LAYER_BIT(TP_LAYER_GRAD)) ? tp_op_find("aten", "ones_like", "") : NULL;
    if (!op) {
        tp_tensor *one = tp_tensor_new((tp_dtype)t->dtype, t->ndim, t->size);
        if (one)
            tp_scalar_write(tp_scalar_int(1), tp_tensor_data(one), (tp_dtype)t->dtype);
        return one;
    }
    tp_value arg[6] = { tp_of_tensor(t), tp_none(), tp_none(), tp_none(), tp_bool(false), tp_of_format(TP_FORMAT_PRESERVE) }, result;
    return tp_call(op, arg, &result) ? result.tensor : NULL;
}

static bool gradients_of(PyObject *tensors, PyObject *grads, tp_value *gradient)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *g = PyTuple_GET_ITEM(grads, i);
        tp_tensor *own = face_is_tensor(g) ? tp_tensor_ref(face_tensor(g)) : one_like(face_tensor(PyTuple_GET_ITEM(tensors, i)));
        if (!own) {
            face_raise();
            return false;
        }
        gradient[i] = tp_of_tensor(own);
    }
    return true;
}

/* backward(inputs=…): what was captured is added to the leaves. Takes the captured values. */
static PyObject *accumulated(PyObject *inputs, tp_value *captured)
{
    bool ok = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        if (ok && captured[i].tag == TP_TENSOR && !tp_accumulate(face_tensor(PyTuple_GET_ITEM(inputs, i)), captured[i]))
            ok = false;
        tp_value_unref(captured[i]);
    }
    return ok ? PyTuple_New(0) : face_raise();
}

static PyObject *run_backward(PyObject *module, PyObject *args);

PyObject *face_run_backward(PyObject *tensors, PyObject *grads, bool keep, bool create, PyObject *inputs)
{
    PyObject *all = Py_BuildValue("(OOiiOii)", tensors, grads, keep, create, inputs, 1, 0), *result = all ? run_backward(NULL, all) : NULL;
    Py_XDECREF(all);
    return result;
}

/* run_backward(tensors, grad_tensors, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad) */
static PyObject *run_backward(PyObject *module, PyObject *args)
{
    PyObject *tensors, *grads, *inputs = NULL, *result = NULL;
    int keep, create, unreachable = 0, accumulate = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!pp|O!pp", &PyTuple_Type, &tensors, &PyTuple_Type, &grads, &keep, &create, &PyTuple_Type, &inputs,
                          &unreachable, &accumulate))
        return NULL;
    if ((!inputs || accumulate) && tp_inside_transform())
        return PyErr_Format(PyExc_RuntimeError, "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
                            "functorch.vjp instead or call backward() outside of functorch transforms.");
    Py_ssize_t roots = PyTuple_GET_SIZE(tensors), wanted = inputs ? PyTuple_GET_SIZE(inputs) : 0;
    if (PyTuple_GET_SIZE(grads) != roots)
        return PyErr_Format(PyExc_RuntimeError, "got %zd tensors and %zd gradients", roots, PyTuple_GET_SIZE(grads));
    tp_edge *root = tp_alloc_zero((size_t)(roots + 1) * sizeof *root), *input = tp_alloc_zero((size_t)(wanted + 1) * sizeof *input);
    tp_value *gradient = tp_alloc_zero((size_t)(roots + 1) * sizeof *gradient);
    tp_value *captured = tp_alloc_zero((size_t)(wanted + 1) * sizeof *captured);
    if (!root || !input || !gradient || !captured) {
        face_raise();
    } else if (edges_of(tensors, root, "tensors") && (!inputs || edges_of(inputs, input, "inputs"))) {
        tp_backward_request request = {
            .root = root, .gradient = gradient, .root_count = (size_t)roots, .input = inputs ? input : NULL,
            .input_count = (size_t)wanted, .captured = captured, .keep_graph = keep, .create_graph = create,
        };
        if (!gradients_of(tensors, grads, gradient))
            result = NULL;
        else if (!tp_backward_run(&request))
            face_raise();
        else if (inputs && accumulate)
            result = accumulated(inputs, captured);
        else
            result = inputs ? captured_tuple(captured, wanted, unreachable) : PyTuple_New(0);
    }
    drop_edges(root, roots);
    drop_edges(input, wanted);
    for (Py_ssize_t i = 0; gradient && i < roots; i++)
        tp_value_unref(gradient[i]);
    tp_free(gradient);
    tp_free(captured);
    return result;
}

/* Does a backward run that was asked for the gradients of some inputs alone? */
static PyObject *some_inputs(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyBool_FromLong(tp_self.some_inputs);
}

/* ---- setting up ---- */
static PyMethodDef node_methods[] = {
    { "name", node_name, METH_NOARGS, NULL },
    { "_sequence_nr", node_sequence, METH_NOARGS, NULL },
    { "register_hook", node_hook, METH_O, NULL },
    { "register_prehook", node_prehook, METH_O, NULL },
    { "_remove_hook", node_remove_hook, METH_VARARGS, NULL },
    { 0 },
};
static PyGetSetDef node_attributes[] = {
    { "next_functions", node_next, NULL, NULL, NULL },
    { "metadata", node_metadata, NULL, NULL, NULL },
    { 0 },
};
static PyMemberDef node_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(node_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(node_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot node_slots[] = {
    { Py_tp_dealloc, node_dealloc }, { Py_tp_traverse, node_traverse }, { Py_tp_clear, node_clear }, { Py_tp_repr, node_repr },
    { Py_tp_getattro, node_getattro }, { Py_tp_setattro, node_setattro }, { Py_tp_methods, node_methods }, { Py_tp_getset, node_attributes },
    { Py_tp_members, node_members }, { Py_tp_new, face_refuse_new }, { 0, NULL },
};
static PyType_Spec node_spec = {
    .name = "_C._NodeBase", .basicsize = sizeof(node_object), .slots = node_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
};
static PyObject *task_number(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyLong_FromLongLong(tp_backward_number());
}

static PyObject *will_execute(PyObject *module, PyObject *node)
{
    (void)module;
    if (!PyObject_TypeCheck(node, face.node))
        return PyErr_Format(PyExc_TypeError, "_will_engine_execute_node expects an grad_fn, but got %s", Py_TYPE(node)->tp_name);
    return PyBool_FromLong(tp_backward_reaches(face_node_of(node)));
}

static PyMethodDef functions[] = {
    { "_current_graph_task_id", task_number, METH_NOARGS, NULL },
    { "_will_engine_execute_node", will_execute, METH_O, NULL },
    { "_run_backward", run_backward, METH_VARARGS, NULL },
    { "_register_tensor_hook", tensor_hook, METH_VARARGS, NULL },
    { "_backward_of_some_inputs", some_inputs, METH_NOARGS, NULL },
    { "_register_accumulate_hook", accumulate_hook, METH_VARARGS, NULL },
    { "_remove_tensor_hook", remove_tensor_hook, METH_VARARGS, NULL },
    { 0 },
};

bool face_autograd_init(PyObject *module)
{
    face.node = face_make_type(module, &node_spec, NULL);
    face.node_classes = PyDict_New();
    return face.node && face.node_classes && PyModule_AddFunctions(module, functions) == 0;
}
