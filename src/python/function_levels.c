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

/* The arguments without their wrappers, and (0 or None) for each; *any: some were wrapped. */
static PyObject *unwrapped(tp_vmap_level *l, PyObject *args, PyObject **dims, bool *any)
{
    PyObject *out = PyTuple_New(PyTuple_GET_SIZE(args));
    *dims = PyTuple_New(PyTuple_GET_SIZE(args));
    for (Py_ssize_t i = 0; out && *dims && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *o = PyTuple_GET_ITEM(args, i), *inner = Py_NewRef(o);
        bool wrapped = face_is_tensor(o) && tp_vmap_level_has(l, face_tensor(o));
        if (wrapped)
            Py_SETREF(inner, face_wrap_or_raise(tp_vmap_level_unwrap(l, face_tensor(o), 0)));
        *any |= wrapped;
        PyTuple_SET_ITEM(*dims, i, wrapped ? PyLong_FromLong(0) : Py_NewRef(Py_None));
        if (inner)
            PyTuple_SET_ITEM(out, i, inner);
        else
            Py_CLEAR(out);
    }
    return out;
}

/* What came out on the other side of the level, tensors with a dim wrapped. */
static PyObject *wrapped(tp_vmap_level *l, PyObject *given, PyObject *out_dims)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(given, NULL, leaves) : NULL, *dims = NULL, *out = NULL;
    bool ok = spec && (dims = face_tree_broadcast(spec, out_dims, NULL));
    if (dims == Py_None) {
        PyErr_Format(PyExc_RuntimeError, "The vmap staticmethod returned out_dims=%S, which do not have the structure of its output", out_dims);
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
        PyErr_Format(PyExc_RuntimeError, "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
                     "the output, got %R", (PyObject *)Py_TYPE(given));
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
    PyObject *dims, *out = NULL, *generate = PyObject_GetAttrString(cls, "generate_vmap_rule");
    bool any = false;
    const char *name = ((PyTypeObject *)cls)->tp_name;
    PyObject *inner = generate ? unwrapped(l, args, &dims, &any) : NULL;
    if (!generate)
        return NULL;
    bool generated = PyObject_IsTrue(generate) > 0, own = has_own_rule(cls);
    if (inner && !any)
        out = apply_of(cls, inner);
    else if (inner && generated && own)
        PyErr_Format(PyExc_RuntimeError, "You tried to vmap over %s, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
                     "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. " SEE, name);
    else if (inner && generated)
        out = by_generated(l, cls, inner, dims);
    else if (inner && own)
        out = by_staticmethod(l, cls, inner, dims);
    else if (inner)
        PyErr_Format(PyExc_RuntimeError, "You tried to vmap over %s, but it does not have vmap support. Please override and implement the vmap staticmethod or "
                     "set generate_vmap_rule=True. " SEE, name);
    Py_DECREF(generate);
    Py_XDECREF(inner);
    Py_XDECREF(dims);
    return out;
}

/* ---- grad ---- */
static PyObject *map_leaf(PyObject *o, tp_grad_level *l, bool wrap)
{
    if (!face_is_tensor(o))
        return Py_NewRef(o);
    return face_wrap_or_raise(wrap ? tp_grad_level_wrap(l, face_tensor(o)) : tp_grad_level_unwrap(l, face_tensor(o)));
}

static PyObject *map_tuple(PyObject *tuple, tp_grad_level *l, bool wrap)
{
    PyObject *out = PyTuple_New(PyTuple_GET_SIZE(tuple));
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = map_leaf(PyTuple_GET_ITEM(tuple, i), l, wrap);
        if (item)
            PyTuple_SET_ITEM(out, i, item);
        else
            Py_CLEAR(out);
    }
    return out;
}

PyObject *face_function_forward_outside(PyObject *cls, PyObject *args)
{
    tp_grad_level *l = tp_grad_level_at(tp_self.transforms);
    bool mode = tp_self.grad_mode;
    PyObject *inner = map_tuple(args, l, false);
    tp_self.grad_mode = ((tp_level *)(void *)tp_self.transforms)->outer_mode;
    PyObject *given = inner ? apply_of(cls, inner) : NULL;
    tp_self.grad_mode = mode;
    PyObject *out = !given ? NULL : PyTuple_Check(given) ? map_tuple(given, l, true) : map_leaf(given, l, true);
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
