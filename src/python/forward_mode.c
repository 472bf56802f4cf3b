/* forward_mode.c - forward mode around calls of Python functions: torch.func.jvp and jacfwd, and the levels of autograd.forward_ad. */
#include "python/pytree.h"
#include "python/transforms.h"

#include "trace/jvp_level.h"

static tp_tensor *unwrap(void *user, tp_tensor *t) { return tp_jvp_level_unwrap(user, t); }

/* ---- jvp ---- */
#define WHO "jvp(f, primals, tangents)"

static bool only_tensors(PyObject *leaves, const char *what)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(leaves); i++)
        if (!face_is_tensor(PyList_GET_ITEM(leaves, i))) {
            PyErr_Format(PyExc_RuntimeError, WHO ": Expected %s to only contain Tensors, got %R", what, (PyObject *)Py_TYPE(PyList_GET_ITEM(leaves, i)));
            return false;
        }
    if (PyList_GET_SIZE(leaves) == 0)
        PyErr_Format(PyExc_RuntimeError, WHO ": Expected %s to contain at least one Tensor.", what);
    return PyList_GET_SIZE(leaves) > 0;
}

static bool can_have_tangent(PyObject *leaf, const char *what)
{
    tp_dtype d = (tp_dtype)face_tensor(leaf)->dtype;
    if (tp_dtype_is_inexact(d))
        return true;
    PyObject *name = face_dtype(d);
    if (name)
        PyErr_Format(PyExc_ValueError, "Expected %s to be floating point or complex, but got: %R", what, name);
    Py_XDECREF(name);
    return false;
}

static bool check_structure(PyObject *primals, PyObject *tangents, PyObject *spec, PyObject *tangent_spec)
{
    int same = PyObject_RichCompareBool(spec, tangent_spec, Py_EQ);
    if (same == 0)
        PyErr_Format(PyExc_RuntimeError, WHO ": Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
                     "tensors, tangents also must be. Got primals with structure %S and tangents with structure %S", spec, tangent_spec);
    return same > 0 && only_tensors(primals, "primals") && only_tensors(tangents, "tangents");
}

/* The primals as dual tensors of the level. */
static PyObject *dual_arguments(tp_jvp_level *level, PyObject *primals, PyObject *tangents)
{
    PyObject *leaves = PyList_New(0), *given = PyList_New(0), *out = NULL;
    PyObject *spec = leaves ? face_tree_flatten(primals, NULL, leaves) : NULL, *tangent_spec = spec && given ? face_tree_flatten(tangents, NULL, given) : NULL;
    bool ok = tangent_spec && check_structure(leaves, given, spec, tangent_spec);
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *x = PyList_GET_ITEM(leaves, i), *v = PyList_GET_ITEM(given, i), *dual = NULL;
        if (can_have_tangent(x, "primal") && can_have_tangent(v, "tangent"))
            dual = face_wrap_or_raise(tp_jvp_level_wrap(level, face_tensor(x), face_tensor(v)));
        ok = dual && PyList_SetItem(leaves, i, dual) == 0;
    }
    if (ok)
        out = face_tree_unflatten(spec, leaves);
    Py_XDECREF(leaves);
    Py_XDECREF(given);
    Py_XDECREF(spec);
    Py_XDECREF(tangent_spec);
    return out;
}

/* The tangent of one output: zeros where none flows, unless that is an error. */
static PyObject *tangent_of(tp_jvp_level *level, PyObject *output, bool strict)
{
    tp_tensor *tangent = NULL;
    if (!tp_jvp_level_tangent(level, face_tensor(output), &tangent))
        return face_raise();
    if (tangent)
        return face_wrap(tangent);
    if (strict)
        return PyErr_Format(PyExc_RuntimeError, "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
                            "with strict=True.");
    PyObject *plain = face_wrap_or_raise(tp_jvp_level_unwrap(level, face_tensor(output)));
    return plain ? face_call_function("zeros_like", Py_BuildValue("(N)", plain), NULL) : NULL;
}

static PyObject *tangents_of(tp_jvp_level *level, PyObject *output, bool strict)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(output, NULL, leaves) : NULL, *out = NULL;
    bool ok = spec && face_gives_something(WHO, leaves);
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *tangent = NULL;
        if (face_is_tensor(leaf))
            tangent = tangent_of(level, leaf, strict);
        else
            PyErr_Format(PyExc_RuntimeError, WHO ": expected f(*primals) to return only tensors, got unsupported type %R", (PyObject *)Py_TYPE(leaf));
        ok = tangent && PyList_SetItem(leaves, i, tangent) == 0;
    }
    if (ok)
        out = face_tree_unflatten(spec, leaves);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return out;
}

/* What strict mapping of aux says; it is a RuntimeError there. */
static PyObject *plain_aux(tp_jvp_level *level, PyObject *aux)
{
    PyObject *out = face_map_tensors(aux, unwrap, level, "Expected tensors, got unsupported type %R");
    if (!out && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_Format(PyExc_RuntimeError, "%S", value);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    }
    return out;
}

/* Other arguments of the function, and where the primals stand among them. */
typedef struct among {
    PyObject *args, *argnums;   /* borrowed */
} among;

/* (output, tangents[, aux]) of function(*primals), or of a function that has other arguments too. */
static PyObject *run_jvp(PyObject *function, PyObject *primals, PyObject *tangents, const among *others, bool strict, bool has_aux)
{
    PyObject *given = NULL, *output = NULL, *aux = NULL, *out = NULL;
    tp_jvp_level *level = tp_jvp_level_new(true);
    if (!level)
        return face_raise();
    PyObject *duals = dual_arguments(level, primals, tangents);
    if (duals && others)
        Py_SETREF(duals, face_replaced_arguments(others->args, others->argnums, duals));
    if (duals) {
        tp_jvp_level_enter(level);
        given = PyObject_Call(function, duals, NULL);
        tp_jvp_level_leave(level);
    }
    if (given && face_split_aux(given, has_aux, WHO, &output, &aux)) {
        PyObject *slopes = tangents_of(level, output, strict), *plain = slopes ? face_map_tensors(output, unwrap, level, NULL) : NULL;
        PyObject *more = plain && aux ? plain_aux(level, aux) : NULL;
        if (plain && (!aux || more))
            out = aux ? Py_BuildValue("(OOO)", plain, slopes, more) : Py_BuildValue("(OO)", plain, slopes);
        Py_XDECREF(slopes);
        Py_XDECREF(plain);
        Py_XDECREF(more);
    }
    Py_XDECREF(duals);
    Py_XDECREF(given);
    tp_jvp_level_free(level);
    return out;
}

/* _func_jvp(function, primals, tangents, strict, has_aux) */
static PyObject *func_jvp(PyObject *module, PyObject *all)
{
    PyObject *function, *primals, *tangents;
    int strict, has_aux;
    (void)module;
    if (!PyArg_ParseTuple(all, "OOOpp", &function, &primals, &tangents, &strict, &has_aux))
        return NULL;
    if (!PyTuple_Check(primals))
        return PyErr_Format(PyExc_RuntimeError, WHO ": Expected primals to be a tuple. E.g. it should be valid to call f(*primals).");
    return run_jvp(function, primals, tangents, NULL, strict, has_aux);
}

/* ---- jacfwd: jvp of all unit vectors at once, by vmap ---- */

/* What vmap calls with one tangent for each leaf; self is (function, args, argnums, has_aux, spec of what is differentiated by). */
static PyObject *push_forward(PyObject *self, PyObject *tangents)
{
    PyObject *function, *spec, *out = NULL;
    among others;
    int has_aux;
    if (!PyArg_ParseTuple(self, "OOOpO", &function, &others.args, &others.argnums, &has_aux, &spec))
        return NULL;
    PyObject *by = face_chosen_arguments(others.args, others.argnums), *along = by ? face_tree_unflatten(spec, tangents) : NULL;
    PyObject *made = along ? run_jvp(function, by, along, &others, false, has_aux) : NULL;
    if (made)
        out = has_aux ? PyTuple_GetSlice(made, 1, 3) : Py_NewRef(PyTuple_GET_ITEM(made, 1));
    Py_XDECREF(by);
    Py_XDECREF(along);
    Py_XDECREF(made);
    return out;
}
static PyMethodDef push_methods[] = { { "push_forward", push_forward, METH_VARARGS, NULL }, { 0 } };

/* For each leaf the rows of the identity that belong to it, zeros elsewhere: [all elements, *sizes of the leaf]. */
static PyObject *unit_vectors(PyObject *leaves, PyObject *counts, int64_t total)
{
    PyObject *out = PyTuple_New(PyList_GET_SIZE(leaves));
    int64_t from = 0;
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(leaves); i++) {
        const tp_tensor *t = face_tensor(PyList_GET_ITEM(leaves, i));
        long long count = PyLong_AsLongLong(PyList_GET_ITEM(counts, i));
        int64_t size[TP_MAX_DIMS + 1] = { total };
        memcpy(size + 1, t->size, (size_t)t->ndim * sizeof *size);
        PyObject *flat = face_invoke(PyList_GET_ITEM(leaves, i), "new_zeros", Py_BuildValue("((LL))", (long long)total, count));
        PyObject *line = face_invoke(flat, "diagonal", Py_BuildValue("(L)", -(long long)from)), *done = face_invoke(line, "fill_", Py_BuildValue("(i)", 1));
        PyObject *basis = done ? face_invoke(flat, "view", Py_BuildValue("(N)", face_size(t->ndim + 1, size))) : NULL;
        if (basis)
            PyTuple_SET_ITEM(out, i, basis);
        else
            Py_CLEAR(out);
        Py_XDECREF(flat);
        Py_XDECREF(line);
        Py_XDECREF(done);
        from += count;
    }
    return out;
}

/* Tangents [all elements, *output] to a tree of the inputs, each [*output, *input]. */
static PyObject *columns_of(PyObject *tangents, PyObject *leaves, PyObject *counts, PyObject *spec)
{
    const tp_tensor *t = face_tensor(tangents);
    PyObject *moved = face_invoke(tangents, "movedim", Py_BuildValue("(ii)", 0, -1)), *parts = face_invoke(moved, "split", Py_BuildValue("(Oi)", counts, -1));
    PyObject *pieces = parts ? PySequence_List(parts) : NULL, *out = NULL;
    bool ok = pieces != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        const tp_tensor *x = face_tensor(PyList_GET_ITEM(leaves, i));
        int64_t size[2 * TP_MAX_DIMS];
        memcpy(size, t->size + 1, (size_t)(t->ndim - 1) * sizeof *size);
        memcpy(size + t->ndim - 1, x->size, (size_t)x->ndim * sizeof *size);
        PyObject *whole = face_invoke(PyList_GET_ITEM(pieces, i), "view", Py_BuildValue("(N)", face_size(t->ndim - 1 + x->ndim, size)));
        ok = whole && PyList_SetItem(pieces, i, whole) == 0;
    }
    if (ok)
        out = face_tree_unflatten(spec, pieces);
    Py_XDECREF(moved);
    Py_XDECREF(parts);
    Py_XDECREF(pieces);
    return out;
}

static tp_tensor *first_member(void *user, tp_tensor *t)
{
    (void)user;
    tp_value out;
    return tp_call(tp_op_find("aten", "select", "int"), (tp_value[]){ tp_of_tensor(t), tp_int(0), tp_int(0) }, &out) ? out.tensor : NULL;
}

/* The tree of the output with a tree of the inputs in the place of each tensor; then aux, which every member has made. */
static PyObject *jacobian_of(PyObject *given, bool has_aux, PyObject *leaves, PyObject *counts, PyObject *spec)
{
    PyObject *tangents = has_aux ? PyTuple_GET_ITEM(given, 0) : given, *outputs = PyList_New(0), *out = NULL;
    PyObject *out_spec = outputs ? face_tree_flatten(tangents, NULL, outputs) : NULL;
    bool ok = out_spec && face_all_real("jacfwd", "outputs", outputs);
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(outputs); i++) {
        PyObject *columns = columns_of(PyList_GET_ITEM(outputs, i), leaves, counts, spec);
        ok = columns && PyList_SetItem(outputs, i, columns) == 0;
    }
    PyObject *jacobian = ok ? face_tree_unflatten(out_spec, outputs) : NULL;
    PyObject *aux = jacobian && has_aux ? face_map_tensors(PyTuple_GET_ITEM(given, 1), first_member, NULL, NULL) : NULL;
    if (jacobian && (!has_aux || aux))
        out = has_aux ? PyTuple_Pack(2, jacobian, aux) : PyTuple_Pack(1, jacobian);
    Py_XDECREF(outputs);
    Py_XDECREF(out_spec);
    Py_XDECREF(jacobian);
    Py_XDECREF(aux);
    return out;
}

static PyObject *element_counts(PyObject *leaves, int64_t *total)
{
    PyObject *counts = PyList_New(PyList_GET_SIZE(leaves));
    *total = 0;
    for (Py_ssize_t i = 0; counts && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *count = NULL;
        if (face_is_tensor(leaf))
            count = PyLong_FromLongLong(face_tensor(leaf)->numel);
        else
            PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute 'numel'", Py_TYPE(leaf)->tp_name);
        if (count) {
            *total += face_tensor(leaf)->numel;
            PyList_SET_ITEM(counts, i, count);
        } else {
            Py_CLEAR(counts);
        }
    }
    return counts;
}

/* _func_jacfwd(function, argnums, has_aux, randomness, args): (jacobian[, aux]) */
static PyObject *func_jacfwd(PyObject *module, PyObject *all)
{
    PyObject *function, *argnums, *randomness, *args, *given = NULL, *out = NULL;
    int has_aux;
    int64_t total;
    if (!PyArg_ParseTuple(all, "OOpOO!", &function, &argnums, &has_aux, &randomness, &PyTuple_Type, &args))
        return NULL;
    PyObject *by = face_chosen_arguments(args, argnums), *leaves = PyList_New(0), *spec = by && leaves ? face_tree_flatten(by, NULL, leaves) : NULL;
    PyObject *counts = spec && face_all_real("jacfwd", "inputs", leaves) ? element_counts(leaves, &total) : NULL, *basis = counts ? unit_vectors(leaves, counts, total) : NULL;
    PyObject *state = basis ? Py_BuildValue("(OOOOO)", function, args, argnums, has_aux ? Py_True : Py_False, spec) : NULL;
    PyObject *push = state ? PyCFunction_New(push_methods, state) : NULL;
    if (push)
        given = PyObject_CallMethod(module, "_func_vmap", "OiiOOON", push, 0, 0, randomness, Py_None, basis, PyDict_New());
    if (given)
        out = jacobian_of(given, has_aux, leaves, counts, spec);
    Py_XDECREF(by);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    Py_XDECREF(counts);
    Py_XDECREF(basis);
    Py_XDECREF(state);
    Py_XDECREF(push);
    Py_XDECREF(given);
    return out;
}

/* ---- autograd.forward_ad ---- */
static PyObject *enter_dual_level(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (tp_jvp_level_open())
        return PyErr_Format(PyExc_RuntimeError, "Nested forward mode AD is not supported at the moment");
    tp_jvp_level *level = tp_jvp_level_new(false);
    if (!level)
        return face_raise();
    tp_jvp_level_enter(level);
    return PyLong_FromLong(0);
}

/* The open level, when it is asked for by its number, which is 0. */
static tp_jvp_level *level_numbered(PyObject *number)
{
    long at = PyLong_AsLong(number);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    tp_jvp_level *level = tp_jvp_level_open();
    if (at < 0)
        PyErr_SetString(PyExc_RuntimeError, "Dual level must be a positive number.");
    else if (!level || at > 0)
        PyErr_SetString(PyExc_RuntimeError, "Trying to exit a forward AD level that was not the last one that was created. This is not supported.");
    return at == 0 ? level : NULL;
}

static PyObject *exit_dual_level(PyObject *module, PyObject *number)
{
    (void)module;
    tp_jvp_level *level = level_numbered(number);
    if (!level)
        return NULL;
    tp_jvp_level_leave(level);
    tp_jvp_level_free(level);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "_func_jvp", func_jvp, METH_VARARGS, NULL },
    { "_func_jacfwd", func_jacfwd, METH_VARARGS, NULL },
    { "_enter_dual_level", enter_dual_level, METH_NOARGS, NULL },
    { "_exit_dual_level", exit_dual_level, METH_O, NULL },
    { 0 },
};

bool face_forward_mode_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
