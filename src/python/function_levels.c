/* function_levels.c - autograd.Function inside transforms: each level does its part, and applies the Function one level further out.
 *
 *     vmap    the Function's vmap staticmethod on whole batches, or a Function made of it whose pieces are mapped
 *     grad    forward one level further out; setup_context and the node here (autograd_function.c) */
#include "python/pytree.h"
#include "python/vmap.h"

#include "trace/grad_level.h"
#include "trace/level.h"

#define SEE "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"

/* Applied with the innermost level off the stack. */
static PyObject *apply_outside(PyObject *callable, PyObject *args)
{
    tp_mount *m = tp_self.transforms;
    bool mode = tp_self.grad_mode;
    tp_mount_pop(m);
    PyObject *out = PyObject_Call(callable, args, NULL);
    tp_mount_push(m, TP_LAYER_TRANSFORM);
    tp_self.grad_mode = mode;
    return out;
}

static PyObject *apply_of(PyObject *cls, PyObject *args)
{
    PyObject *apply = PyObject_GetAttrString(cls, "apply"), *out = apply ? apply_outside(apply, args) : NULL;
    Py_XDECREF(apply);
    return out;
}

/* ---- vmap ---- */

/* The arguments, trees of them too, without their wrappers, and (0 or None) for each leaf; *any: some were wrapped. */
static PyObject *unwrapped(tp_vmap_level *l, PyObject *args, PyObject **dims, bool *any)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(args, NULL, leaves) : NULL, *out = NULL;
    PyObject *at = spec ? PyList_New(PyList_GET_SIZE(leaves)) : NULL;
    bool ok = at;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *o = PyList_GET_ITEM(leaves, i);
        bool wrapped = face_is_tensor(o) && tp_vmap_level_has(l, face_tensor(o));
        PyObject *inner = wrapped ? face_wrap_or_raise(tp_vmap_level_unwrap(l, face_tensor(o), 0)) : NULL;
        *any |= wrapped;
        PyList_SET_ITEM(at, i, wrapped ? PyLong_FromLong(0) : Py_NewRef(Py_None));
        ok = !wrapped || (inner && PyList_SetItem(leaves, i, inner) == 0);
    }
    if (ok && (out = face_tree_unflatten(spec, leaves)) && !(*dims = face_tree_unflatten(spec, at)))
        Py_CLEAR(out);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    Py_XDECREF(at);
    return out;
}

/* What came out on the other side of the level, tensors with a dim wrapped. */
static PyObject *wrapped(tp_vmap_level *l, PyObject *given, PyObject *out_dims)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(given, NULL, leaves) : NULL, *dims = NULL, *out = NULL;
    bool ok = spec && (dims = face_tree_broadcast(spec, out_dims, NULL));
    if (dims == Py_None) {
        PyObject *ignored = PyList_New(0), *form = ignored ? face_tree_flatten(out_dims, NULL, ignored) : NULL;
        if (form)
            PyErr_Format(PyExc_RuntimeError, "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected out_dims=%S to "
                         "be compatible with the structure of `output`. out_dims has structure %S but output has structure %S. " SEE, out_dims, form, spec);
        Py_XDECREF(ignored);
        Py_XDECREF(form);
        ok = false;
    }
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *dim = PyList_GET_ITEM(dims, i);
        if (!face_is_tensor(leaf) || dim == Py_None)
            continue;
        int64_t at, ndim = face_tensor(leaf)->ndim;
        PyObject *face_leaf = face_read_int(dim, &at) ? face_wrap_or_raise(tp_vmap_level_wrap(l, face_tensor(leaf), at < 0 ? at + ndim : at)) : NULL;
        ok = face_leaf && PyList_SetItem(leaves, i, face_leaf) == 0;
    }
    if (ok)
        out = face_tree_unflatten(spec, leaves);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    Py_XDECREF(dims);
    return out;
}

PyObject *face_vmap_info(tp_sym size, tp_randomness randomness)
{
    PyObject *module = face_import("_functorch.autograd_function"), *batch = module ? face_sym(size) : NULL;
    PyObject *info = batch ? PyObject_CallMethod(module, "VmapInfo", "Os", batch, face_randomness_word(randomness)) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(batch);
    return info;
}

/* (output, out_dims) as two new references. */
static bool split_answer(PyObject *given, PyObject **out, PyObject **dims)
{
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 2) {
        const char *wanted = "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the output.";
        if (PyTuple_Check(given))
            PyErr_Format(PyExc_RuntimeError, "%s Got %zd returns instead", wanted, PyTuple_GET_SIZE(given));
        else
            PyErr_Format(PyExc_RuntimeError, "%s Got a %R instead", wanted, (PyObject *)Py_TYPE(given));
        return false;
    }
    *out = PyTuple_GET_ITEM(given, 0);
    *dims = PyTuple_GET_ITEM(given, 1);
    return true;
}

static PyObject *by_staticmethod(tp_vmap_level *l, PyObject *cls, PyObject *inner, PyObject *dims)
{
    PyObject *info = face_vmap_info(tp_vmap_level_size(l), tp_vmap_level_randomness(l)), *head = info ? PyTuple_Pack(2, info, dims) : NULL;
    PyObject *all = head ? PySequence_Concat(head, inner) : NULL, *rule = all ? PyObject_GetAttrString(cls, "vmap") : NULL;
    PyObject *given = rule ? apply_outside(rule, all) : NULL, *plain, *out_dims;
    PyObject *out = given && split_answer(given, &plain, &out_dims) ? wrapped(l, plain, out_dims) : NULL;
    Py_XDECREF(info);
    Py_XDECREF(head);
    Py_XDECREF(all);
    Py_XDECREF(rule);
    Py_XDECREF(given);
    return out;
}

static PyObject *by_generated(tp_vmap_level *l, PyObject *cls, PyObject *inner, PyObject *dims)
{
    PyObject *module = face_import("_functorch.autograd_function"), *made = NULL;
    if (module)
        made = PyObject_CallMethod(module, "generated", "OOs", cls, dims, face_randomness_word(tp_vmap_level_randomness(l)));
    PyObject *given = made ? apply_of(made, inner) : NULL, *front = given ? PyLong_FromLong(0) : NULL;
    PyObject *out = front ? wrapped(l, given, front) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(made);
    Py_XDECREF(given);
    Py_XDECREF(front);
    return out;
}

static bool has_own_rule(PyObject *cls)
{
    PyObject *usual = face_import("autograd.function"), *base = usual ? PyObject_GetAttrString(usual, "Function") : NULL;
    PyObject *a = base ? PyObject_GetAttrString(base, "vmap") : NULL, *b = a ? PyObject_GetAttrString(cls, "vmap") : NULL;
    bool own = b && a != b;
    Py_XDECREF(usual);
    Py_XDECREF(base);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return own;
}

static PyObject *apply_in_vmap(tp_vmap_level *l, PyObject *cls, PyObject *args)
{
    PyObject *dims = NULL, *out = NULL, *generate = PyObject_GetAttrString(cls, "generate_vmap_rule");
    bool any = false;
    const char *name = ((PyTypeObject *)cls)->tp_name;
    PyObject *inner = generate ? unwrapped(l, args, &dims, &any) : NULL;
    if (!generate)
        return NULL;
    bool generated, own = has_own_rule(cls);
    if (!face_read_truth(generate, &generated))
        Py_CLEAR(inner);
    if (inner && generated && own)
        PyErr_Format(PyExc_RuntimeError, "You tried to vmap over %s, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
                     "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. " SEE, name);
    else if (inner && !generated && !own)
        PyErr_Format(PyExc_RuntimeError, "You tried to vmap over %s, but it does not have vmap support. Please override and implement the vmap staticmethod or "
                     "set generate_vmap_rule=True. " SEE, name);
    else if (inner && !any)
        out = apply_of(cls, inner);
    else if (inner)
        out = generated ? by_generated(l, cls, inner, dims) : by_staticmethod(l, cls, inner, dims);
    Py_DECREF(generate);
    Py_XDECREF(inner);
    Py_XDECREF(dims);
    return out;
}

/* ---- grad ---- */
static PyObject *map_tree(PyObject *tree, tp_grad_level *l, bool wrap)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(tree, NULL, leaves) : NULL, *out = NULL;
    bool ok = spec;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *o = PyList_GET_ITEM(leaves, i), *mapped;
        if (!face_is_tensor(o))
            continue;
        mapped = face_wrap_or_raise(wrap ? tp_grad_level_wrap(l, face_tensor(o)) : tp_grad_level_unwrap(l, face_tensor(o)));
        ok = mapped && PyList_SetItem(leaves, i, mapped) == 0;
    }
    if (ok)
        out = face_tree_unflatten(spec, leaves);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return out;
}

PyObject *face_function_forward_outside(PyObject *cls, PyObject *args)
{
    tp_grad_level *l = tp_grad_level_at(tp_self.transforms);
    bool mode = tp_self.grad_mode;
    PyObject *inner = map_tree(args, l, false);
    tp_self.grad_mode = ((tp_level *)(void *)tp_self.transforms)->outer_mode;
    PyObject *given = inner ? apply_of(cls, inner) : NULL;
    tp_self.grad_mode = mode;
    PyObject *out = given ? map_tree(given, l, true) : NULL;
    Py_XDECREF(inner);
    Py_XDECREF(given);
    return out;
}

PyObject *face_function_in_levels(PyObject *cls, PyObject *args, bool separate, bool *done)
{
    tp_vmap_level *vmap = tp_vmap_level_at(tp_self.transforms);
    *done = true;
    if (!separate && (vmap || tp_grad_level_at(tp_self.transforms)))
        return PyErr_Format(PyExc_RuntimeError, "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
                            "override the setup_context staticmethod. " SEE);
    if (vmap)
        return apply_in_vmap(vmap, cls, args);
    *done = false;
    return NULL;
}
