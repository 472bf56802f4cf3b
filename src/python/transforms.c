/* transforms.c - torch.func: grad, vjp and functionalize around calls of Python functions.
 *
 * Trees of tensors are wrapped for a level, the function runs inside it, and what comes out is unwrapped. A level is always
 * left, whatever the function raises. Several results of one call travel as lists of leaves and a spec (pytree.h). */
#include "python/pytree.h"
#include "python/transforms.h"

#include "grad/tape.h"
#include "trace/copy_views.h"
#include "trace/functional.h"
#include "trace/grad_level.h"
#include "trace/vmap_level.h"

/* ---- mapping leaves ---- */
PyObject *face_map_tensors(PyObject *o, face_map_leaf *map, void *user, const char *strict)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(o, NULL, leaves) : NULL, *out = NULL;
    bool ok = spec != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i);
        if (!face_is_tensor(leaf)) {
            if (strict)
                PyErr_Format(PyExc_ValueError, strict, (PyObject *)Py_TYPE(leaf));
            ok = !strict;
            continue;
        }
        PyObject *mapped = face_wrap_or_raise(map(user, face_tensor(leaf)));
        ok = mapped != NULL;
        if (ok)
            PyList_SetItem(leaves, i, mapped);
    }
    if (ok)
        out = face_tree_unflatten(spec, leaves);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return out;
}

static tp_tensor *wrap(void *user, tp_tensor *t) { return tp_grad_level_wrap(user, t); }
static tp_tensor *unwrap(void *user, tp_tensor *t) { return tp_grad_level_unwrap(user, t); }

static tp_tensor *wrap_leaf(void *user, tp_tensor *t)
{
    if (!tp_dtype_is_inexact((tp_dtype)t->dtype))
        return tp_fail(TP_ERR_RUNTIME, "only Tensors of floating point dtype can require gradients");
    tp_tensor *w = tp_grad_level_wrap(user, t);
    if (w && !tp_set_requires_grad(w, true)) {
        tp_tensor_unref(w);
        return NULL;
    }
    return w;
}

/* ---- a level as a Python object: closures of vjp keep theirs ---- */
typedef struct level_object {
    PyObject_HEAD
    tp_grad_level *level;       /* owned */
    PyObject *inputs, *outputs; /* counted lists of leaves, may be NULL: what to differentiate by, what to differentiate */
    PyObject *in_spec, *out_spec;
} level_object;

static int level_traverse(PyObject *self, visitproc visit, void *arg)
{
    level_object *o = (level_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->inputs);
    Py_VISIT(o->outputs);
    Py_VISIT(o->in_spec);
    Py_VISIT(o->out_spec);
    return 0;
}

static int level_clear(PyObject *self)
{
    level_object *o = (level_object *)self;
    Py_CLEAR(o->inputs);
    Py_CLEAR(o->outputs);
    Py_CLEAR(o->in_spec);
    Py_CLEAR(o->out_spec);
    return 0;
}

static void level_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)level_clear(self);
    tp_grad_level_free(((level_object *)self)->level);
    type->tp_free(self);
    Py_DECREF(type);
}

static level_object *level_new(void)
{
    level_object *o = (level_object *)face.grad_level->tp_alloc(face.grad_level, 0);
    if (o && !(o->level = tp_grad_level_new())) {
        Py_DECREF(o);
        return (level_object *)face_raise();
    }
    return o;
}

/* ---- arguments by number ---- */
static Py_ssize_t check_number(PyObject *number, Py_ssize_t count)
{
    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_RuntimeError, "argnum must be int, got: %R", (PyObject *)Py_TYPE(number));
        return -1;
    }
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (i == -1 && PyErr_Occurred())
        return -1;
    Py_ssize_t at = i < 0 ? i + count : i;
    if (at >= 0 && at < count)
        return at;
    PyErr_Format(PyExc_RuntimeError, "Got argnum=%zd, but only %zd positional inputs", i, count);
    return -1;
}

PyObject *face_chosen_arguments(PyObject *args, PyObject *argnums)
{
    if (PyLong_Check(argnums)) {
        Py_ssize_t at = check_number(argnums, PyTuple_GET_SIZE(args));
        return at < 0 ? NULL : Py_NewRef(PyTuple_GET_ITEM(args, at));
    }
    if (!PyTuple_Check(argnums))
        return PyErr_Format(PyExc_RuntimeError, "argnums must be int or Tuple[int, ...], got: %R", (PyObject *)Py_TYPE(argnums));
    if (PyTuple_GET_SIZE(argnums) == 0)
        return PyErr_Format(PyExc_RuntimeError, "argnums must be non-empty");
    PyObject *unique = PySet_New(argnums), *out = NULL;
    bool twice = unique && PySet_GET_SIZE(unique) != PyTuple_GET_SIZE(argnums);
    Py_XDECREF(unique);
    if (!unique || twice)
        return unique ? PyErr_Format(PyExc_RuntimeError, "argnums elements must be unique, got %R", argnums) : NULL;
    out = PyTuple_New(PyTuple_GET_SIZE(argnums));
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(argnums); i++) {
        Py_ssize_t at = check_number(PyTuple_GET_ITEM(argnums, i), PyTuple_GET_SIZE(args));
        if (at < 0)
            Py_CLEAR(out);
        else
            PyTuple_SET_ITEM(out, i, Py_NewRef(PyTuple_GET_ITEM(args, at)));
    }
    return out;
}

PyObject *face_replaced_arguments(PyObject *args, PyObject *argnums, PyObject *by)
{
    PyObject *list = PySequence_List(args);
    for (Py_ssize_t i = 0; list && i < (PyLong_Check(argnums) ? 1 : PyTuple_GET_SIZE(argnums)); i++) {
        bool one = PyLong_Check(argnums);
        Py_ssize_t at = check_number(one ? argnums : PyTuple_GET_ITEM(argnums, i), PyTuple_GET_SIZE(args));
        PyList_SetItem(list, at, Py_NewRef(one ? by : PyTuple_GET_ITEM(by, i)));
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* ---- gradients inside a level ---- */

/* The gradients of `outputs` (given `seeds`, NULL: ones) by `inputs`, both lists of leaves; zeros where nothing flows. */
static PyObject *gradients(PyObject *outputs, PyObject *inputs, PyObject *seeds, bool keep, bool create)
{
    Py_ssize_t count = PyList_GET_SIZE(outputs), wanted = PyList_GET_SIZE(inputs), used = 0;
    PyObject *roots = PyTuple_New(0), *grads = PyTuple_New(0), *by = PyList_AsTuple(inputs), *found = NULL, *out = NULL;
    PyObject *root_list = PyList_New(0), *grad_list = PyList_New(0);
    bool ok = roots && grads && by && root_list && grad_list;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *o = PyList_GET_ITEM(outputs, i);
        if (!tp_requires_grad(face_tensor(o)))
            continue;
        ok = PyList_Append(root_list, o) == 0 && PyList_Append(grad_list, seeds ? PyList_GET_ITEM(seeds, i) : Py_None) == 0;
        used++;
    }
    if (ok && used) {
        Py_SETREF(roots, PyList_AsTuple(root_list));
        Py_SETREF(grads, PyList_AsTuple(grad_list));
        found = roots && grads ? face_run_backward(roots, grads, keep, create, by) : NULL;
        ok = found != NULL;
    }
    out = ok ? PyList_New(wanted) : NULL;
    for (Py_ssize_t i = 0; out && i < wanted; i++) {
        PyObject *g = found ? Py_NewRef(PyTuple_GET_ITEM(found, i)) : Py_NewRef(Py_None);
        if (g == Py_None) {
            Py_DECREF(g);
            PyObject *self = PyList_GET_ITEM(inputs, i), *zeros = PyObject_GetAttrString(face.module, "_VariableFunctions");
            g = zeros ? PyObject_CallMethod(zeros, "zeros_like", "O", self) : NULL;
            Py_XDECREF(zeros);
        }
        if (!g)
            Py_CLEAR(out);
        else
            PyList_SET_ITEM(out, i, g);
    }
    Py_XDECREF(roots);
    Py_XDECREF(grads);
    Py_XDECREF(by);
    Py_XDECREF(found);
    Py_XDECREF(root_list);
    Py_XDECREF(grad_list);
    return out;
}

static bool check_scalar(PyObject *o)
{
    PyObject *name;
    if (!face_is_tensor(o)) {
        PyErr_Format(PyExc_RuntimeError, "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got %R", (PyObject *)Py_TYPE(o));
        return false;
    }
    if (face_tensor(o)->ndim != 0) {
        PyErr_Format(PyExc_RuntimeError, "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with %d dims. Maybe you "
                     "wanted to use the vjp or jacrev APIs instead?", face_tensor(o)->ndim);
        return false;
    }
    if (tp_dtype_is_complex((tp_dtype)face_tensor(o)->dtype) && (name = face_dtype((tp_dtype)face_tensor(o)->dtype))) {
        PyErr_Format(PyExc_RuntimeError, "grad can be implicitly created only for real scalar outputs but got %S", name);
        Py_DECREF(name);
        return false;
    }
    return true;
}

bool face_all_real(const char *who, const char *what, PyObject *leaves)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i);
        if (face_is_tensor(leaf) && tp_dtype_is_complex((tp_dtype)face_tensor(leaf)->dtype)) {
            PyErr_Format(PyExc_RuntimeError, "%s: Expected all %s to be real but received complex tensor at flattened input idx: %zd", who, what, i);
            return false;
        }
    }
    return true;
}

bool face_gives_something(const char *who, PyObject *leaves)
{
    if (PyList_GET_SIZE(leaves) > 1 || (PyList_GET_SIZE(leaves) == 1 && PyList_GET_ITEM(leaves, 0) != Py_None))
        return true;
    PyErr_Format(PyExc_RuntimeError, "%s: Expected f to be a function that has non-empty output (got output = %S)", who, leaves);
    return false;
}

/* What goes with a gradient may hold tensors alone. */
static bool aux_is_tensors(PyObject *aux)
{
    PyObject *leaves = PyList_New(0), *spec = leaves && aux ? face_tree_flatten(aux, NULL, leaves) : NULL;
    bool ok = !aux || spec;
    for (Py_ssize_t i = 0; ok && aux && i < PyList_GET_SIZE(leaves); i++)
        if (!(ok = face_is_tensor(PyList_GET_ITEM(leaves, i))))
            PyErr_Format(PyExc_RuntimeError, "Expected tensors, got unsupported type %R", (PyObject *)Py_TYPE(PyList_GET_ITEM(leaves, i)));
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return ok;
}

bool face_split_aux(PyObject *given, bool has_aux, const char *who, PyObject **output, PyObject **aux)
{
    *output = given;
    *aux = NULL;
    if (!has_aux)
        return true;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 2) {
        PyErr_Format(PyExc_RuntimeError, "%s: output of function f should be a tuple: (output, aux) if has_aux is True", who);
        return false;
    }
    *output = PyTuple_GET_ITEM(given, 0);
    *aux = PyTuple_GET_ITEM(given, 1);
    return true;
}

/* ---- grad ---- */

/* Inside the level: (gradients, value[, aux]), still wrapped. */
static PyObject *differentiate(PyObject *function, PyObject *args, PyObject *kwargs, PyObject *by, bool has_aux, Py_ssize_t unused)
{
    PyObject *given = PyObject_Call(function, args, kwargs), *value, *aux, *out = NULL;
    (void)unused;
    if (!given)
        return NULL;
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(by, NULL, leaves) : NULL;
    if (spec && face_split_aux(given, has_aux, "grad_and_value(f)(*args)", &value, &aux) && check_scalar(value) && aux_is_tensors(aux)) {
        PyObject *outputs = PyList_New(1);
        if (outputs)
            PyList_SET_ITEM(outputs, 0, Py_NewRef(value));
        PyObject *grads = outputs ? gradients(outputs, leaves, NULL, true, true) : NULL;
        PyObject *nested = grads ? face_tree_unflatten(spec, grads) : NULL;
        if (nested)
            out = aux ? Py_BuildValue("(NOO)", nested, value, aux) : Py_BuildValue("(NO)", nested, value);
        Py_XDECREF(outputs);
        Py_XDECREF(grads);
    }
    Py_DECREF(given);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return out;
}

/* Runs `work` in a level of its own, with the arguments (function, argnums, has_aux, args, kwargs[, length]) of the caller wrapped. */
typedef PyObject *level_work(PyObject *function, PyObject *args, PyObject *kwargs, PyObject *by, bool has_aux, Py_ssize_t length);
static PyObject *inside_level(PyObject *all, level_work *work)
{
    PyObject *function, *argnums, *args, *kwargs, *out = NULL;
    int has_aux;
    Py_ssize_t length = 0;
    if (!PyArg_ParseTuple(all, "OOpO!O!|n", &function, &argnums, &has_aux, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &length))
        return NULL;
    level_object *level = level_new();
    if (!level)
        return NULL;
    PyObject *picked = face_chosen_arguments(args, argnums);
    tp_grad_level_enter(level->level);
    PyObject *by = picked ? face_map_tensors(picked, wrap_leaf, level->level, "Thing passed to transform API must be Tensor, got %R") : NULL;
    PyObject *wrapped = by ? face_map_tensors(args, wrap, level->level, NULL) : NULL;
    PyObject *full = wrapped ? face_replaced_arguments(wrapped, argnums, by) : NULL, *named = full ? face_map_tensors(kwargs, wrap, level->level, NULL) : NULL;
    PyObject *inside = named ? work(function, full, named, by, has_aux, length) : NULL;
    tp_grad_level_leave(level->level);
    if (inside)
        out = face_map_tensors(inside, unwrap, level->level, NULL);
    Py_XDECREF(inside);
    Py_XDECREF(picked);
    Py_XDECREF(by);
    Py_XDECREF(wrapped);
    Py_XDECREF(full);
    Py_XDECREF(named);
    Py_DECREF(level);
    return out;
}

/* (gradients, value[, aux]) */
static PyObject *func_grad(PyObject *module, PyObject *all)
{
    (void)module;
    return inside_level(all, differentiate);
}

/* ---- vjp ---- */
static bool only_tensors(PyObject *leaves)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++)
        if (!face_is_tensor(PyList_GET_ITEM(leaves, i))) {
            PyErr_Format(PyExc_RuntimeError, "vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type %R",
                         (PyObject *)Py_TYPE(PyList_GET_ITEM(leaves, i)));
            return false;
        }
    return true;
}

/* _func_vjp(function, primals, has_aux): (output, level[, aux]); the level is what _func_pullback takes. */
static PyObject *func_vjp(PyObject *module, PyObject *all)
{
    PyObject *function, *primals, *output = NULL, *aux = NULL, *out = NULL;
    int has_aux;
    (void)module;
    if (!PyArg_ParseTuple(all, "OO!p", &function, &PyTuple_Type, &primals, &has_aux))
        return NULL;
    level_object *level = level_new();
    if (!level)
        return NULL;
    tp_grad_level_enter(level->level);
    PyObject *by = face_map_tensors(primals, wrap_leaf, level->level, "Thing passed to transform API must be Tensor, got %R");
    PyObject *given = by ? PyObject_Call(function, by, NULL) : NULL;
    tp_grad_level_leave(level->level);
    bool ok = given && face_split_aux(given, has_aux, "vjp(f, *primals)", &output, &aux) && (level->inputs = PyList_New(0)) && (level->outputs = PyList_New(0)) &&
              (level->in_spec = face_tree_flatten(by, NULL, level->inputs)) && (level->out_spec = face_tree_flatten(output, NULL, level->outputs)) &&
              face_gives_something("vjp(f, *primals)", level->outputs) && only_tensors(level->outputs) && aux_is_tensors(aux);
    PyObject *plain = ok ? face_map_tensors(output, unwrap, level->level, NULL) : NULL, *more = plain && aux ? face_map_tensors(aux, unwrap, level->level, NULL) : NULL;
    if (plain && (!aux || more))
        out = aux ? Py_BuildValue("(OOO)", plain, level, more) : Py_BuildValue("(OO)", plain, level);
    Py_XDECREF(by);
    Py_XDECREF(given);
    Py_XDECREF(plain);
    Py_XDECREF(more);
    Py_DECREF(level);
    return out;
}

static bool check_seeds(const level_object *level, PyObject *seeds, PyObject *spec)
{
    int same = PyObject_RichCompareBool(spec, level->out_spec, Py_EQ);
    if (same == 0) {
        PyObject *pretty = face_import("utils._pytree"), *a = NULL, *b = NULL;
        if (pretty && (a = PyObject_CallMethod(pretty, "treespec_pprint", "O", spec)) && (b = PyObject_CallMethod(pretty, "treespec_pprint", "O", level->out_spec)))
            PyErr_Format(PyExc_RuntimeError, "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                         "cotangents: %U, primal output: %U", a, b);
        Py_XDECREF(pretty);
        Py_XDECREF(a);
        Py_XDECREF(b);
    }
    for (Py_ssize_t i = 0; same > 0 && i < PyList_GET_SIZE(seeds); i++)
        if (!face_is_tensor(PyList_GET_ITEM(seeds, i))) {
            PyErr_Format(PyExc_RuntimeError, "vjp: expected cotangents to be tensors, got %R", (PyObject *)Py_TYPE(PyList_GET_ITEM(seeds, i)));
            same = 0;
        }
    return same > 0;
}

/* PyTorch's words when a cotangent has other sizes than its output. */
static bool check_sizes(PyObject *outputs, PyObject *seeds)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); i++) {
        const tp_tensor *a = face_tensor(PyList_GET_ITEM(outputs, i)), *b = face_tensor(PyList_GET_ITEM(seeds, i));
        if (a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof *a->size) == 0)
            continue;
        PyObject *x = face_size(b->ndim, b->size), *y = face_size(a->ndim, a->size);
        if (x && y)
            PyErr_Format(PyExc_RuntimeError, "Mismatch in shape: grad_output[%zd] has a shape of %R and output[%zd] has a shape of %R.", i, x, i, y);
        Py_XDECREF(x);
        Py_XDECREF(y);
        return false;
    }
    return true;
}

/* _func_pullback(level, cotangents, retain_graph, create_graph): the gradients of the primals */
static PyObject *func_pullback(PyObject *module, PyObject *all)
{
    PyObject *self, *cotangents, *out = NULL;
    int keep, create;
    (void)module;
    if (!PyArg_ParseTuple(all, "O!Opp", face.grad_level, &self, &cotangents, &keep, &create))
        return NULL;
    level_object *level = (level_object *)self;
    PyObject *given = PyList_New(0), *spec = given ? face_tree_flatten(cotangents, NULL, given) : NULL;
    if (spec && check_seeds(level, given, spec) && check_sizes(level->outputs, given)) {
        /* The tape belongs to the level: its formulas run there, on the stack of the moment. */
        tp_grad_level_enter(level->level);
        PyObject *seeds = face_map_tensors(given, wrap, level->level, NULL);
        PyObject *grads = seeds ? gradients(level->outputs, level->inputs, seeds, keep, create) : NULL;
        tp_grad_level_leave(level->level);
        PyObject *nested = grads ? face_tree_unflatten(level->in_spec, grads) : NULL;
        out = nested ? face_map_tensors(nested, unwrap, level->level, NULL) : NULL;
        Py_XDECREF(seeds);
        Py_XDECREF(grads);
        Py_XDECREF(nested);
    }
    Py_XDECREF(given);
    Py_XDECREF(spec);
    return out;
}

/* ---- jacrev ---- */
PyObject *face_call_function(const char *name, PyObject *args, PyObject *kwargs)
{
    PyObject *space = PyObject_GetAttrString(face.module, "_VariableFunctions"), *function = space ? PyObject_GetAttrString(space, name) : NULL;
    PyObject *out = args && function ? PyObject_Call(function, args, kwargs) : NULL;
    Py_XDECREF(space);
    Py_XDECREF(function);
    Py_XDECREF(args);
    return out;
}

PyObject *face_invoke(PyObject *self, const char *name, PyObject *args)
{
    PyObject *bound = self && args ? PyObject_GetAttrString(self, name) : NULL, *out = bound ? PyObject_CallObject(bound, args) : NULL;
    Py_XDECREF(bound);
    Py_XDECREF(args);
    return out;
}

PyObject *face_unit_vector(PyObject *x, int64_t k, PyObject *number)
{
    PyObject *flat = face_invoke(x, "new_zeros", Py_BuildValue("(L)", (long long)face_tensor(x)->numel));
    PyObject *place = flat ? face_invoke(flat, "select", Py_BuildValue("(iL)", 0, (long long)k)) : NULL;
    PyObject *done = place ? face_invoke(place, "fill_", Py_BuildValue("(O)", number)) : NULL;
    PyObject *out = done ? face_invoke(flat, "view", Py_BuildValue("(N)", face_size(face_tensor(x)->ndim, face_tensor(x)->size))) : NULL;
    Py_XDECREF(flat);
    Py_XDECREF(place);
    Py_XDECREF(done);
    return out;
}

/* Rows low to high of the identity over the elements of all outputs, as far as they are about this one, which begins at
 * `start`: a batch of cotangents for it. */
static PyObject *basis_of(PyObject *output, Py_ssize_t start, Py_ssize_t low, Py_ssize_t high)
{
    const tp_tensor *o = face_tensor(output);
    int64_t size[TP_MAX_DIMS + 1] = { high - low };
    memcpy(size + 1, o->size, (size_t)o->ndim * sizeof *size);
    PyObject *flat = Py_BuildValue("(nL)", high - low, (long long)o->numel), *offset = PyLong_FromSsize_t(low - start), *one = PyLong_FromLong(1);
    PyObject *zeros = flat && offset && one ? face_call_method("new_zeros", output, &flat, 1) : NULL;
    PyObject *diagonal = zeros ? face_call_method("diagonal", zeros, &offset, low != start) : NULL;
    PyObject *filled = diagonal ? face_call_method("fill_", diagonal, &one, 1) : NULL, *sizes = filled ? face_size(o->ndim + 1, size) : NULL;
    PyObject *out = sizes ? face_call_method("view", zeros, &sizes, 1) : NULL;
    Py_XDECREF(flat);
    Py_XDECREF(offset);
    Py_XDECREF(one);
    Py_XDECREF(zeros);
    Py_XDECREF(diagonal);
    Py_XDECREF(filled);
    Py_XDECREF(sizes);
    return out;
}

static tp_tensor *wrap_batch(void *user, tp_tensor *t) { return tp_vmap_level_wrap(user, t, 0); }
static tp_tensor *unwrap_batch(void *user, tp_tensor *t) { return tp_vmap_level_unwrap(user, t, 0); }

/* A list: for each input rows low to high of the Jacobian, one pullback over a batch of cotangents. */
static PyObject *some_rows(PyObject *outputs, PyObject *inputs, Py_ssize_t low, Py_ssize_t high)
{
    PyObject *seeds = PyList_New(0), *out = NULL;
    tp_vmap_level *level = tp_vmap_level_new(tp_sym_int(high - low), TP_RANDOM_ERROR);
    bool ok = seeds && level;
    for (Py_ssize_t i = 0, start = 0; ok && i < PyList_GET_SIZE(outputs); i++) {
        PyObject *basis = basis_of(PyList_GET_ITEM(outputs, i), start, low, high);
        start += (Py_ssize_t)face_tensor(PyList_GET_ITEM(outputs, i))->numel;
        ok = basis && PyList_Append(seeds, basis) == 0;
        Py_XDECREF(basis);
    }
    PyObject *batch = ok ? face_map_tensors(seeds, wrap_batch, level, NULL) : NULL, *grads = NULL;
    if (batch) {
        tp_vmap_level_enter(level);
        grads = gradients(outputs, inputs, batch, true, true);
        tp_vmap_level_leave(level);
        out = grads ? face_map_tensors(grads, unwrap_batch, level, NULL) : NULL;
    } else if (!level) {
        (void)face_raise();
    }
    Py_XDECREF(seeds);
    Py_XDECREF(batch);
    Py_XDECREF(grads);
    tp_vmap_level_free(level);
    return out;
}

/* The rows of one input, cut into the Jacobians of the outputs: a list of tensors with the sizes of output and input. */
static PyObject *cut_rows(PyObject *chunks, Py_ssize_t input, PyObject *inputs, PyObject *outputs)
{
    Py_ssize_t parts = PyList_GET_SIZE(chunks), count = PyList_GET_SIZE(outputs);
    const tp_tensor *x = face_tensor(PyList_GET_ITEM(inputs, input));
    PyObject *rows = PyList_New(parts), *lengths = PyList_New(count), *whole = NULL, *out = NULL;
    for (Py_ssize_t i = 0; rows && i < parts; i++)
        PyList_SET_ITEM(rows, i, Py_NewRef(PyList_GET_ITEM(PyList_GET_ITEM(chunks, i), input)));
    for (Py_ssize_t i = 0; lengths && i < count; i++)
        PyList_SET_ITEM(lengths, i, PyLong_FromLongLong(face_tensor(PyList_GET_ITEM(outputs, i))->numel));
    if (rows && lengths)
        whole = parts == 1 ? Py_NewRef(PyList_GET_ITEM(rows, 0)) : face_call_function("cat", Py_BuildValue("(O)", rows), NULL);
    PyObject *cut = whole ? face_call_method("split_with_sizes", whole, &lengths, 1) : NULL, *pieces = cut ? PySequence_List(cut) : NULL;
    out = pieces ? PyList_New(count) : NULL;
    for (Py_ssize_t i = 0; out && i < count; i++) {
        const tp_tensor *o = face_tensor(PyList_GET_ITEM(outputs, i));
        int64_t size[2 * TP_MAX_DIMS];
        memcpy(size, o->size, (size_t)o->ndim * sizeof *size);
        memcpy(size + o->ndim, x->size, (size_t)x->ndim * sizeof *size);
        PyObject *sizes = face_size(o->ndim + x->ndim, size), *one = sizes ? face_call_method("view", PyList_GET_ITEM(pieces, i), &sizes, 1) : NULL;
        Py_XDECREF(sizes);
        if (one)
            PyList_SET_ITEM(out, i, one);
        else
            Py_CLEAR(out);
    }
    Py_XDECREF(rows);
    Py_XDECREF(lengths);
    Py_XDECREF(whole);
    Py_XDECREF(cut);
    Py_XDECREF(pieces);
    return out;
}

/* A list with a list for each input: its Jacobians by output. At most `length` rows at a time, 0: all. */
static PyObject *jacobian_rows(PyObject *outputs, PyObject *inputs, Py_ssize_t length)
{
    Py_ssize_t rows = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(outputs); i++)
        rows += (Py_ssize_t)face_tensor(PyList_GET_ITEM(outputs, i))->numel;
    PyObject *chunks = PyList_New(0), *out = PyList_New(PyList_GET_SIZE(inputs));
    bool ok = chunks && out;
    Py_ssize_t step = length > 0 && length < rows ? length : rows;
    for (Py_ssize_t low = 0; ok && (low < rows || low == 0); low += step ? step : 1) {
        PyObject *some = some_rows(outputs, inputs, low, low + step < rows ? low + step : rows);
        ok = some && PyList_Append(chunks, some) == 0;
        Py_XDECREF(some);
    }
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(inputs); i++) {
        PyObject *cut = cut_rows(chunks, i, inputs, outputs);
        if ((ok = cut != NULL))
            PyList_SET_ITEM(out, i, cut);
    }
    Py_XDECREF(chunks);
    if (!ok)
        Py_CLEAR(out);
    return out;
}

/* Inside the level: a tree of the output, with a tree of the inputs in the place of each tensor; then aux. */
static PyObject *jacobians(PyObject *function, PyObject *args, PyObject *kwargs, PyObject *by, bool has_aux, Py_ssize_t length)
{
    PyObject *given = NULL, *output, *aux, *out = NULL, *inputs = PyList_New(0), *in_spec = inputs ? face_tree_flatten(by, NULL, inputs) : NULL;
    if (in_spec && (!face_all_real("jacrev", "inputs", inputs) || !(given = PyObject_Call(function, args, kwargs))))
        Py_CLEAR(in_spec);
    PyObject *outputs = PyList_New(0), *out_spec = NULL;
    bool ok = in_spec && outputs && face_split_aux(given, has_aux, "vjp(f, *primals)", &output, &aux) &&
              (out_spec = face_tree_flatten(output, NULL, outputs)) && face_gives_something("vjp(f, *primals)", outputs) && only_tensors(outputs) &&
              aux_is_tensors(aux) && face_all_real("jacrev", "outputs", outputs);
    PyObject *rows = ok ? jacobian_rows(outputs, inputs, length) : NULL, *nested = rows ? PyList_New(0) : NULL;
    ok = nested != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(outputs); i++) {
        PyObject *of = PyList_New(PyList_GET_SIZE(inputs));
        for (Py_ssize_t k = 0; of && k < PyList_GET_SIZE(inputs); k++)
            PyList_SET_ITEM(of, k, Py_NewRef(PyList_GET_ITEM(PyList_GET_ITEM(rows, k), i)));
        PyObject *tree = of ? face_tree_unflatten(in_spec, of) : NULL;
        ok = tree && PyList_Append(nested, tree) == 0;
        Py_XDECREF(of);
        Py_XDECREF(tree);
    }
    PyObject *whole = ok ? face_tree_unflatten(out_spec, nested) : NULL;
    if (whole)
        out = aux ? Py_BuildValue("(OO)", whole, aux) : Py_BuildValue("(O)", whole);
    Py_XDECREF(given);
    Py_XDECREF(inputs);
    Py_XDECREF(in_spec);
    Py_XDECREF(outputs);
    Py_XDECREF(out_spec);
    Py_XDECREF(rows);
    Py_XDECREF(nested);
    Py_XDECREF(whole);
    return out;
}

static PyObject *func_jacrev(PyObject *module, PyObject *all)
{
    (void)module;
    return inside_level(all, jacobians);
}

/* ---- functionalize ---- */
static tp_tensor *functional_wrap(void *user, tp_tensor *t) { return tp_functional_wrap(user, t); }
static tp_tensor *functional_value(void *user, tp_tensor *t) { return tp_functional_value(user, t); }

/* t_ and the like: the input takes the sizes that its face has at the end, as PyTorch's graphs do it. */
static PyObject *shaped_as(PyObject *to, PyObject *value)
{
    const tp_tensor *old = face_tensor(to), *now = face_tensor(value);
    bool same = old->ndim == now->ndim;
    for (int i = 0; same && i < now->ndim; i++)
        same = old->size[i] == now->size[i];
    if (same)
        return Py_NewRef(to);
    PyObject *sizes = PyObject_GetAttrString(value, "shape"), *strides = sizes ? PyObject_CallMethod(value, "stride", NULL) : NULL, *made = NULL;
    if (strides)
        made = old->numel == now->numel ? face_call_method("as_strided_", to, (PyObject *[]){ sizes, strides }, 2)
                                        : face_call_method("resize_", to, &sizes, 1);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return made;
}

/* Inputs that were written get their new values at the end. */
static bool write_back(tp_functional *f, PyObject *plain, PyObject *wrapped)
{
    PyObject *inputs = PyList_New(0), *faces = PyList_New(0);
    PyObject *a = inputs ? face_tree_flatten(plain, NULL, inputs) : NULL, *b = a && faces ? face_tree_flatten(wrapped, NULL, faces) : NULL;
    bool ok = b != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(inputs); i++) {
        PyObject *to = PyList_GET_ITEM(inputs, i), *from = PyList_GET_ITEM(faces, i);
        tp_functional_changes changes = face_is_tensor(to) ? tp_functional_changes_of(f, face_tensor(from)) : (tp_functional_changes){ 0 };
        if (!changes.data && !changes.metadata)
            continue;
        PyObject *value = face_wrap_or_raise(tp_functional_value(f, face_tensor(from)));
        PyObject *shaped = value ? shaped_as(to, value) : NULL;
        PyObject *done = shaped ? face_call_method("copy_", shaped, &value, 1) : NULL;
        Py_XDECREF(shaped);
        ok = done != NULL;
        Py_XDECREF(value);
        Py_XDECREF(done);
    }
    Py_XDECREF(inputs);
    Py_XDECREF(faces);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return ok;
}

/* _func_functionalize(function, args, kwargs, copy_views) */
static PyObject *func_functionalize(PyObject *module, PyObject *all)
{
    PyObject *function, *args, *kwargs, *out = NULL;
    int copies;
    tp_mount copying;
    (void)module;
    if (!PyArg_ParseTuple(all, "OO!O!p", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs, &copies))
        return NULL;
    tp_functional *f = tp_functional_new();
    if (!f)
        return face_raise();
    PyObject *plain = Py_BuildValue("(OO)", args, kwargs), *wrapped = plain ? face_map_tensors(plain, functional_wrap, f, NULL) : NULL, *given = NULL;
    if (copies)
        tp_copy_views_enter(&copying);
    if (wrapped) {
        tp_functional_enter(f, TP_LAYER_TRANSFORM);
        given = PyObject_Call(function, PyTuple_GET_ITEM(wrapped, 0), PyTuple_GET_ITEM(wrapped, 1));
        tp_functional_leave(f);
    }
    if (given && write_back(f, plain, wrapped))
        out = face_map_tensors(given, functional_value, f, NULL);
    if (copies)
        tp_copy_views_leave(&copying);
    Py_XDECREF(given);
    Py_XDECREF(wrapped);
    Py_XDECREF(plain);
    tp_functional_free(f);
    return out;
}

/* ---- setting up ---- */
static PyType_Slot level_slots[] = {
    { Py_tp_dealloc, level_dealloc }, { Py_tp_traverse, level_traverse }, { Py_tp_clear, level_clear }, { 0, NULL },
};
static PyType_Spec level_spec = {
    .name = "_GradLevel", .basicsize = sizeof(level_object), .slots = level_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

static PyMethodDef functions[] = {
    { "_func_grad", func_grad, METH_VARARGS, NULL },
    { "_func_jacrev", func_jacrev, METH_VARARGS, NULL },
    { "_func_vjp", func_vjp, METH_VARARGS, NULL },
    { "_func_pullback", func_pullback, METH_VARARGS, NULL },
    { "_func_functionalize", func_functionalize, METH_VARARGS, NULL },
    { 0 },
};

bool face_transforms_init(PyObject *module)
{
    return (face.grad_level = face_make_type(module, &level_spec, NULL)) && PyModule_AddFunctions(module, functions) == 0;
}
