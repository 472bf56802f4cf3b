/* vmap.c - torch.func.vmap around calls of Python functions.
 *
 * The leaves of the arguments get the dim that in_dims says, those with one are wrapped for a level (trace/vmap_level.h), the
 * function runs inside it, and the leaves of what it gives are unwrapped to out_dims. In chunks it runs several times. */
#include "python/pytree.h"

#include "ops/symbolic.h"
#include "python/vmap.h"

/* What one call of a mapped function knows. */
typedef struct mapping {
    PyObject *function, *name;          /* borrowed; counted: its name for messages */
    PyObject *in_dims, *out_dims;       /* borrowed trees */
    PyObject *kwargs;                   /* borrowed */
    PyObject *leaves, *spec, *dims;     /* counted: of the arguments; `dims` has an int or None for each leaf, not negative */
    tp_sym    size;
    tp_randomness randomness;
} mapping;

/* ---- names and checks ---- */
static PyObject *name_of(PyObject *function)
{
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    if (name || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return name;
    PyErr_Clear();
    return PyObject_Repr(function);
}

static bool is_dim(PyObject *o) { return PyLong_Check(o) && !PyBool_Check(o); }

static bool refuse_input(const mapping *m, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    PyObject *words = PyUnicode_FromFormatV(format, list);
    va_end(list);
    if (words)
        PyErr_Format(PyExc_ValueError, "vmap(%U, in_dims=%S, ...)(<inputs>): %U", m->name, m->in_dims, words);
    Py_XDECREF(words);
    return false;
}

/* The structures of a tree of dims and of what it is about, which do not fit. */
static void refuse_structure(const mapping *m, bool inputs, PyObject *spec)
{
    PyObject *leaves = PyList_New(0), *given = leaves ? face_tree_flatten(inputs ? m->in_dims : m->out_dims, NULL, leaves) : NULL;
    PyObject *a = given ? PyObject_Str(given) : NULL, *b = a ? PyObject_Str(spec) : NULL;
    if (b && inputs)
        (void)refuse_input(m, "in_dims is not compatible with the structure of `inputs`. in_dims has structure %U but inputs has structure %U.", a, b);
    else if (b)
        PyErr_Format(PyExc_ValueError, "vmap(%U, ..., out_dims=%S)(<inputs>): out_dims is not compatible with the structure of `outputs`. out_dims has "
                     "structure %U but outputs has structure %U.", m->name, m->out_dims, a, b);
    Py_XDECREF(leaves);
    Py_XDECREF(given);
    Py_XDECREF(a);
    Py_XDECREF(b);
}

/* The dim of one leaf as a new reference: not negative, or None. */
static PyObject *checked_dim(const mapping *m, PyObject *leaf, PyObject *dim)
{
    if (dim == Py_None)
        return Py_NewRef(dim);
    if (!is_dim(dim))
        return (void)refuse_input(m, "Got in_dim=%S for an input but in_dim must be either an integer dimension or None.", dim), NULL;
    if (!face_is_tensor(leaf))
        return (void)refuse_input(m, "Got in_dim=%S for an input but the input is of type %R. We cannot vmap over non-Tensor arguments, please use None "
                                  "as the respective in_dim", dim, (PyObject *)Py_TYPE(leaf)), NULL;
    int ndim = face_tensor(leaf)->ndim;
    long at = PyLong_AsLong(dim);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    if (at < -ndim || at >= ndim)
        return (void)refuse_input(m, "Got in_dim=%S for some input, but that input is a Tensor of dimensionality %d so expected in_dim to satisfy "
                                  "-%d <= in_dim < %d.", dim, ndim, ndim, ndim), NULL;
    return PyLong_FromLong(at < 0 ? at + ndim : at);
}

static tp_sym size_at(PyObject *leaf, PyObject *dim)
{
    return tp_tensor_sym_size(face_tensor(leaf), (int)PyLong_AsLong(dim));
}

/* All batches are of one size. */
static bool read_size(mapping *m)
{
    bool any = false, same = true;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(m->leaves); i++) {
        PyObject *dim = PyList_GET_ITEM(m->dims, i);
        if (dim == Py_None)
            continue;
        tp_sym size = size_at(PyList_GET_ITEM(m->leaves, i), dim);
        if (!any)
            m->size = size;
        else if (!tp_sym_same(size, m->size) && !tp_sym_guard(tp_sym_eq(size, m->size), &same))
            return face_raise() != NULL;
        any = true;
        if (!same)
            break;
    }
    if (!any)
        PyErr_SetString(PyExc_ValueError, "vmap: Expected at least one Tensor to vmap over");
    if (any && !same) {
        PyObject *sizes = PyList_New(0);
        for (Py_ssize_t i = 0; sizes && i < PyList_GET_SIZE(m->leaves); i++) {
            PyObject *dim = PyList_GET_ITEM(m->dims, i), *size = dim == Py_None ? NULL : face_sym(size_at(PyList_GET_ITEM(m->leaves, i), dim));
            if (dim != Py_None && (!size || PyList_Append(sizes, size) < 0))
                Py_CLEAR(sizes);
            Py_XDECREF(size);
        }
        if (sizes)
            PyErr_Format(PyExc_ValueError, "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes %S for the mapped "
                         "dimension", sizes);
        Py_XDECREF(sizes);
    }
    return any && same;
}

static bool read_inputs(mapping *m, PyObject *args)
{
    if (!is_dim(m->in_dims) && !PyTuple_Check(m->in_dims))
        return refuse_input(m, "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: %R.",
                            (PyObject *)Py_TYPE(m->in_dims));
    if (PyTuple_GET_SIZE(args) == 0) {
        PyErr_Format(PyExc_ValueError, "vmap(%U)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function with "
                     "no inputs. The latter is unsupported.", m->name);
        return false;
    }
    m->leaves = PyList_New(0);
    m->spec = m->leaves ? face_tree_flatten(args, NULL, m->leaves) : NULL;
    m->dims = m->spec ? face_tree_broadcast(m->spec, m->in_dims, NULL) : NULL;
    if (!m->dims)
        return false;
    if (m->dims == Py_None) {
        refuse_structure(m, true, m->spec);
        return false;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(m->leaves); i++) {
        PyObject *dim = checked_dim(m, PyList_GET_ITEM(m->leaves, i), PyList_GET_ITEM(m->dims, i));
        if (!dim)
            return false;
        PyList_SetItem(m->dims, i, dim);
    }
    return read_size(m);
}

static bool check_out_dims(const mapping *m)
{
    PyObject *leaves = PyList_New(0), *spec = leaves ? face_tree_flatten(m->out_dims, NULL, leaves) : NULL;
    bool ok = spec != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *dim = PyList_GET_ITEM(leaves, i);
        ok = is_dim(dim) || dim == Py_None;
    }
    if (spec && !ok)
        PyErr_Format(PyExc_ValueError, "vmap(%U, ..., out_dims=%S): `out_dims` must be an int, None or a python collection of ints representing where in "
                     "the outputs the vmapped dimension should appear.", m->name, m->out_dims);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    return ok;
}

/* ---- one run ---- */

/* A list of the leaves, those with a dim wrapped. */
static PyObject *wrapped(const mapping *m, PyObject *leaves, tp_vmap_level *level)
{
    PyObject *out = PyList_New(PyList_GET_SIZE(leaves));
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(leaves, i), *dim = PyList_GET_ITEM(m->dims, i), *face_leaf = Py_NewRef(leaf);
        if (dim != Py_None)
            Py_SETREF(face_leaf, face_wrap_or_raise(tp_vmap_level_wrap(level, face_tensor(leaf), PyLong_AsLong(dim))));
        if (face_leaf)
            PyList_SET_ITEM(out, i, face_leaf);
        else
            Py_CLEAR(out);
    }
    return out;
}

/* One leaf of the results, batch dim where out_dims wants it. */
static PyObject *unwrapped(const mapping *m, tp_vmap_level *level, PyObject *leaf, PyObject *dim)
{
    if (!face_is_tensor(leaf)) {
        if (dim == Py_None)
            return Py_NewRef(leaf);
        return PyErr_Format(PyExc_ValueError, "vmap(%U, ...): `%U` must only return Tensors, got type %R. Did you mean to set out_dims= to None for output?",
                            m->name, m->name, (PyObject *)Py_TYPE(leaf));
    }
    if (dim == Py_None && tp_vmap_level_has(level, face_tensor(leaf)))
        return PyErr_Format(PyExc_ValueError, "vmap(%U, ...): `%U` can not return a BatchedTensor when out_dim is None", m->name, m->name);
    if (dim == Py_None)
        return Py_NewRef(leaf);
    long to = PyLong_AsLong(dim);
    return to == -1 && PyErr_Occurred() ? NULL : face_wrap_or_raise(tp_vmap_level_unwrap(level, face_tensor(leaf), to));
}

/* The results of the function on these leaves: their list, and the spec in *out_spec. */
static PyObject *run_once(const mapping *m, PyObject *leaves, tp_sym size, PyObject **out_spec)
{
    tp_vmap_level *level = tp_vmap_level_new(size, m->randomness);
    if (!level)
        return face_raise();
    PyObject *faces = wrapped(m, leaves, level), *args = faces ? face_tree_unflatten(m->spec, faces) : NULL, *given = NULL;
    if (args) {
        tp_vmap_level_enter(level);
        given = PyObject_Call(m->function, args, m->kwargs);
        tp_vmap_level_leave(level);
    }
    PyObject *results = given ? PyList_New(0) : NULL, *dims = NULL;
    *out_spec = results ? face_tree_flatten(given, NULL, results) : NULL;
    bool ok = *out_spec && (dims = face_tree_broadcast(*out_spec, m->out_dims, NULL));
    if (dims == Py_None) {
        refuse_structure(m, false, *out_spec);
        ok = false;
    }
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(results); i++) {
        PyObject *plain = unwrapped(m, level, PyList_GET_ITEM(results, i), PyList_GET_ITEM(dims, i));
        ok = plain && PyList_SetItem(results, i, plain) == 0;
    }
    if (!ok) {
        Py_CLEAR(results);
        Py_CLEAR(*out_spec);
    }
    Py_XDECREF(faces);
    Py_XDECREF(args);
    Py_XDECREF(given);
    Py_XDECREF(dims);
    tp_vmap_level_free(level);
    return results;
}

/* ---- in chunks ---- */

/* The leaves with members low to high of each batch. */
static PyObject *slice_of(const mapping *m, int64_t low, int64_t high)
{
    PyObject *out = PyList_New(PyList_GET_SIZE(m->leaves));
    for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(m->leaves); i++) {
        PyObject *leaf = PyList_GET_ITEM(m->leaves, i), *dim = PyList_GET_ITEM(m->dims, i), *part = Py_NewRef(leaf);
        if (dim != Py_None)
            Py_SETREF(part, face_call_op(face.op_slice, (tp_value[]){ tp_of_tensor(face_tensor(leaf)), tp_int(PyLong_AsLong(dim)), tp_int(low), tp_int(high),
                                                                      tp_int(1) }));
        if (part)
            PyList_SET_ITEM(out, i, part);
        else
            Py_CLEAR(out);
    }
    return out;
}

/* The i-th results of all chunks as one. */
static PyObject *joined(PyObject *chunks, Py_ssize_t i, PyObject *dim)
{
    PyObject *first = PyList_GET_ITEM(PyList_GET_ITEM(chunks, 0), i);
    if (dim == Py_None || !face_is_tensor(first))
        return Py_NewRef(first);
    tp_list *parts = tp_list_new((uint32_t)PyList_GET_SIZE(chunks));
    if (!parts)
        return face_raise();
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(chunks); k++)
        parts->item[k] = tp_of_tensor(tp_tensor_ref(face_tensor(PyList_GET_ITEM(PyList_GET_ITEM(chunks, k), i))));
    PyObject *out = face_call_op(tp_op_find("aten", "cat", ""), (tp_value[]){ tp_of_list(parts), tp_int(PyLong_AsLong(dim)) });
    tp_value_unref(tp_of_list(parts));
    return out;
}

/* Same randomness: every chunk begins where the first began. */
static bool random_state(const char *function, PyObject **state)
{
    PyObject *module = face_import("random");
    PyObject *got = module ? PyObject_CallMethod(module, function, *state ? "O" : NULL, *state) : NULL;
    Py_XDECREF(module);
    if (!*state)
        *state = got;
    else
        Py_XDECREF(got);
    return got != NULL;
}

static PyObject *run_chunks(const mapping *m, int64_t length, PyObject **out_spec)
{
    int64_t size = 0;
    if (!tp_sym_guard_int(m->size, &size))
        return face_raise();
    PyObject *chunks = PyList_New(0), *state = NULL, *dims = NULL, *out = NULL;
    bool ok = chunks && (m->randomness != TP_RANDOM_SAME || random_state("get_rng_state", &state));
    for (int64_t low = 0; ok && (low < size || low == 0); low += length) {
        int64_t high = low + length < size ? low + length : size;
        PyObject *leaves = slice_of(m, low, high), *spec = NULL, *given = NULL;
        if (leaves && (!state || low == 0 || random_state("set_rng_state", &state)))
            given = run_once(m, leaves, tp_sym_int(high - low), &spec);
        ok = given && PyList_Append(chunks, given) == 0;
        Py_XSETREF(*out_spec, spec);
        Py_XDECREF(leaves);
        Py_XDECREF(given);
    }
    if (ok && (dims = face_tree_broadcast(*out_spec, m->out_dims, NULL)) && (out = PyList_New(PyList_GET_SIZE(dims))))
        for (Py_ssize_t i = 0; out && i < PyList_GET_SIZE(dims); i++) {
            PyObject *whole = joined(chunks, i, PyList_GET_ITEM(dims, i));
            if (whole)
                PyList_SET_ITEM(out, i, whole);
            else
                Py_CLEAR(out);
        }
    Py_XDECREF(chunks);
    Py_XDECREF(state);
    Py_XDECREF(dims);
    return out;
}

/* ---- the call ---- */
static const char *const randomness_words[] = { "error", "different", "same" };

const char *face_randomness_word(tp_randomness randomness)
{
    return randomness_words[randomness];
}

bool face_randomness_read(const char *word, tp_randomness *out)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(word, randomness_words[i]) == 0) {
            *out = (tp_randomness)i;
            return true;
        }
    PyErr_Format(PyExc_RuntimeError, "Only allowed values for randomness are 'error', 'different', or 'same'. Got %s", word);
    return false;
}

/* _func_vmap(function, in_dims, out_dims, randomness, chunk_size, args, kwargs) */
static PyObject *func_vmap(PyObject *module, PyObject *all)
{
    mapping m = { .size = tp_sym_int(0) };
    PyObject *args, *chunk, *spec = NULL, *out = NULL;
    const char *randomness;
    (void)module;
    if (!PyArg_ParseTuple(all, "OOOsOO!O!", &m.function, &m.in_dims, &m.out_dims, &randomness, &chunk, &PyTuple_Type, &args, &PyDict_Type, &m.kwargs) ||
        !face_randomness_read(randomness, &m.randomness) || !(m.name = name_of(m.function)))
        return NULL;
    int64_t length = 0;
    if (check_out_dims(&m) && read_inputs(&m, args) && (chunk == Py_None || face_read_int(chunk, &length))) {
        PyObject *results = length ? run_chunks(&m, length, &spec) : run_once(&m, m.leaves, m.size, &spec);
        out = results ? face_tree_unflatten(spec, results) : NULL;
        Py_XDECREF(results);
    }
    Py_XDECREF(m.name);
    Py_XDECREF(m.leaves);
    Py_XDECREF(m.spec);
    Py_XDECREF(m.dims);
    Py_XDECREF(spec);
    return out;
}

static PyMethodDef functions[] = {
    { "_func_vmap", func_vmap, METH_VARARGS, NULL },
    { 0 },
};

bool face_vmap_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
