/* index.c - x[key] and x[key] = value.
 *
 * A key is read from left to right against the tensor's dims: integers select, slices cut, None adds a dim, an ellipsis
 * skips; these are views. Tensors, masks and lists are gathered and applied together at the end, by index or index_put_.
 *
 *     x[0, 1:3, None, mask]     select(0, 0)  slice(0, 1, 3)  unsqueeze(1)  index([-, -, mask]) */
#include <string.h>

#include "ops/run.h"
#include "ops/symbolic.h"
#include "python/face.h"
#include "trace/fake.h"

typedef struct indexing {
    tp_tensor *at;              /* counted: the view so far */
    bool       changed;         /* some op was called */
    int        dim;             /* the next dim of `at` a key item is about */
    tp_list   *gathered;        /* owned, may be NULL: index tensors by dim of `at`, none where there is none */
} indexing;

void face_index_init(void)
{
    face.op_select = tp_op_find("aten", "select", "int");
    face.op_slice = tp_op_find("aten", "slice", "Tensor");
    face.op_unsqueeze = tp_op_find("aten", "unsqueeze", "");
    face.op_alias = tp_op_find("aten", "alias", "");
    face.op_index = tp_op_find("aten", "index", "Tensor");
    face.op_index_put = tp_op_find("aten", "index_put_", "");
    face.op_copy = tp_op_find("aten", "copy_", "");
    face.op_fill = tp_op_find("aten", "fill_", "Tensor");
    face.op_expand = tp_op_find("aten", "expand", "");
    face.op_view = tp_op_find("aten", "view", "");
}

static bool missing(const tp_op *op, const char *name)
{
    if (op)
        return false;
    face_unimplemented(name);
    return true;
}

/* ---- views ---- */

/* Runs a view op on `at`, which becomes its result. */
static bool step(indexing *x, const tp_op *op, const char *name, tp_value *arg)
{
    tp_value result;
    if (missing(op, name))
        return false;
    arg[0] = tp_of_tensor(x->at);
    if (!tp_call(op, arg, &result)) {
        face_raise();
        return false;
    }
    tp_tensor_unref(x->at);
    x->at = result.tensor;
    x->changed = true;
    return true;
}

/* An integer of a key; while a trace records, one that was computed stays so. False: exception set. */
static bool key_int(PyObject *from, int64_t value, tp_value *out)
{
    *out = tp_int(value);
    if (TP_LIKELY(!face_is_traced()) || !face_is_tensor(from))
        return true;
    return (out->mark = face_jit_mark(face_tensor(from)));
}

static bool select_by(indexing *x, tp_value index, int shown_dim);

static bool select_at(indexing *x, int64_t index, int shown_dim)
{
    return select_by(x, tp_int(index), shown_dim);
}

static bool select_by(indexing *x, tp_value given, int shown_dim)
{
    int64_t index = given.i;
    int64_t size = x->at->size[x->dim];
    if (index < -size || index >= size) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension %d with size %lld", LL(index), shown_dim, LL(size));
        return false;
    }
    tp_value arg[3] = { tp_none(), tp_int(x->dim), given };
    return step(x, face.op_select, "select", arg);
}

/* A bound that is an expression, an integer, or absent. */
static bool read_bound(PyObject *o, int64_t absent, tp_value *out)
{
    int64_t i = absent;
    if (Py_IS_TYPE(o, face.sym_int)) {
        *out = face_sym_value(o);
        return true;
    }
    if (o != Py_None && !face_read_int(o, &i))
        return false;
    *out = tp_int(i);
    return true;
}

/* A bound that ranges put inside or outside of a symbolic size. */
static bool note_bound(const indexing *x, Py_ssize_t bound)
{
    tp_sym size = tp_tensor_sym_size(x->at, x->dim), end = tp_sym_int(bound < 0 ? -bound : bound);
    if (bound == 0 || bound == INT64_MAX || bound < -INT64_MAX)
        return true;
    tp_answer inside = tp_sym_known(tp_sym_le(end, size));
    return inside == TP_UNKNOWN || tp_sym_note_decided(TP_LE, end, size, inside == TP_YES) || face_raise();
}

static bool slice_at(indexing *x, PyObject *slice)
{
    const PySliceObject *given = (PySliceObject *)slice;
    if (face_is_sym(given->start) || face_is_sym(given->stop)) {
        tp_value arg[5] = { tp_none(), tp_int(x->dim) };
        if (!read_bound(given->start, 0, &arg[2]) || !read_bound(given->stop, INT64_MAX, &arg[3]) || !read_bound(given->step, 1, &arg[4]) ||
            !step(x, face.op_slice, "slice", arg))
            return false;
        x->dim++;
        return true;
    }
    Py_ssize_t start, stop, length = (Py_ssize_t)x->at->size[x->dim], by;
    if (PySlice_Unpack(slice, &start, &stop, &by) < 0)
        return false;
    if (by <= 0) {
        PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
        return false;
    }
    bool traced = face_is_traced();         /* a trace must cut other lengths too: nothing is known to be whole */
    bool known = !traced && !tp_sym_is_node(tp_tensor_sym_size(x->at, x->dim));
    bool whole = start == 0 && by == 1 && (known ? stop >= length : !traced && stop == INT64_MAX);
    if (!traced && !known && !(note_bound(x, start) && note_bound(x, stop)))
        return false;
    if (!whole) {
        const PySliceObject *s = (PySliceObject *)slice;
        tp_value arg[5] = { tp_none(), tp_int(x->dim) };
        if (!key_int(s->start, start, &arg[2]) || !key_int(s->stop, stop, &arg[3]) || !key_int(s->step, by, &arg[4]) || !step(x, face.op_slice, "slice", arg))
            return false;
    }
    x->dim++;
    return true;
}

static bool unsqueeze_at(indexing *x)
{
    tp_value arg[2] = { tp_none(), tp_int(x->dim) };
    return step(x, face.op_unsqueeze, "unsqueeze", arg);
}

/* ---- gathered tensors ---- */

/* Takes `index`. */
static bool gather_at(indexing *x, tp_tensor *index)
{
    if (!x->gathered && !(x->gathered = tp_list_new(TP_MAX_DIMS))) {
        tp_tensor_unref(index);
        face_raise();
        return false;
    }
    if (x->dim >= TP_MAX_DIMS) {
        tp_tensor_unref(index);
        PyErr_SetString(PyExc_IndexError, "too many indices");
        return false;
    }
    x->gathered->item[x->dim] = tp_of_tensor(index);
    return true;
}

/* A mask of one element marks a new dim of size one. */
static bool gather_flag(indexing *x, const tp_tensor *flag)
{
    tp_value arg[2] = { tp_of_tensor(flag), tp_int(0) }, row;
    if (!tp_call(face.op_unsqueeze, arg, &row)) {
        face_raise();
        return false;
    }
    if (!unsqueeze_at(x)) {
        tp_value_unref(row);
        return false;
    }
    bool ok = gather_at(x, row.tensor);
    x->dim++;
    return ok;
}

static bool gather_bool(indexing *x, bool on)
{
    tp_tensor *flag = tp_tensor_new_scalar(TP_b8, tp_scalar_int(on));
    bool ok = flag && gather_flag(x, flag);
    if (!flag)
        face_raise();
    tp_tensor_unref(flag);
    return ok;
}

static bool apply_item(indexing *x, PyObject *item, int shown_dim, int skipped);

static bool tensor_at(indexing *x, PyObject *o, int shown_dim)
{
    tp_tensor *t = face_tensor(o);
    bool mask = t->dtype == TP_b8 || t->dtype == TP_u8;
    if (!tp_dtype_is_integral((tp_dtype)t->dtype)) {
        PyErr_SetString(PyExc_IndexError, "tensors used as indices must be long, int, byte or bool tensors");
        return false;
    }
    if (t->ndim == 0 && !mask && face_is_traced()) {
        tp_value index;
        return key_int(o, tp_scalar_to_int(tp_tensor_element(t, tp_tensor_data(t))), &index) && select_by(x, index, shown_dim);
    }
    /* Its value selects, and the result is a view. It gathers under vmap, where it has many values, and where only facts are wanted. */
    const tp_fake_mode *fake = tp_self.fake;
    bool valued = !(t->keys & TP_LAYER_BIT(TP_LAYER_TRANSFORM)) && !(fake && fake->facts_only);
    if (t->ndim == 0 && !mask && !(t->keys & TP_ALL_LAYERS) && !tp_self.active)
        return select_at(x, tp_scalar_to_int(tp_tensor_element(t, tp_tensor_data(t))), shown_dim);
    if (t->ndim == 0 && !mask && valued) {
        PyObject *value = face_item(t);
        bool ok = value && apply_item(x, value, shown_dim, 0);
        Py_XDECREF(value);
        return ok;
    }
    if (t->ndim == 0 && mask)
        return gather_flag(x, t);
    bool ok = gather_at(x, tp_tensor_ref(t));
    x->dim += mask ? t->ndim : 1;
    return ok;
}

static bool sequence_at(indexing *x, PyObject *o, int shown_dim)
{
    const tp_device cpu = { TP_CPU, -1 };
    PyObject *t = face_literal(o, TP_DTYPE_NONE, cpu, true);
    if (t && face_tensor(t)->numel == 0)        /* an empty list indexes with no integers */
        Py_SETREF(t, face_literal(o, TP_i64, cpu, true));
    if (!(t = face_lifted(t)))
        return false;
    bool ok = tensor_at(x, t, shown_dim);
    Py_DECREF(t);
    return ok;
}

/* ---- keys ---- */
static bool is_list_like(PyObject *o)
{
    return PyList_Check(o) || PyTuple_Check(o) || face_is_array(o) ||
           (PySequence_Check(o) && !face_is_tensor(o) && !PyUnicode_Check(o) && !PyBytes_Check(o));
}

/* A list that holds slices, None, tensors or lists means a tuple of indices, as it always has. */
static bool list_means_tuple(PyObject *o)
{
    if (!PyList_Check(o) || PyList_GET_SIZE(o) >= 32)
        return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); i++) {
        PyObject *item = PyList_GET_ITEM(o, i);
        if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis || face_is_tensor(item) || PyList_Check(item) || PyTuple_Check(item))
            return true;
    }
    return false;
}

/* Takes nothing; gives a tuple of the key's items. */
static PyObject *key_tuple(PyObject *key)
{
    if (PyTuple_Check(key))
        return Py_NewRef(key);
    if (!list_means_tuple(key))
        return PyTuple_Pack(1, key);
    if (PyErr_WarnEx(PyExc_UserWarning, "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error or a different result", 1) < 0)
        return NULL;
    return PySequence_Tuple(key);
}

/* How many dims of the tensor the items are about; -1: exception set. */
static int dims_meant(PyObject *tuple)
{
    int n = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        if (face_is_tensor(item)) {
            tp_tensor *t = face_tensor(item);
            n += t->dtype == TP_b8 || t->dtype == TP_u8 ? t->ndim : 1;
        } else if (item != Py_None && item != Py_Ellipsis && !PyBool_Check(item)) {
            n++;
        }
    }
    return n;
}

static bool apply_item(indexing *x, PyObject *item, int shown_dim, int skipped)
{
    int64_t index;
    if (item == Py_Ellipsis) {
        x->dim += skipped;
        return true;
    }
    if (item == Py_None) {
        bool ok = unsqueeze_at(x);
        x->dim++;
        return ok;
    }
    if (PySlice_Check(item))
        return slice_at(x, item);
    if (PyBool_Check(item))
        return gather_bool(x, item == Py_True);
    if (face_is_int(item))
        return face_read_int(item, &index) && select_at(x, index, shown_dim);
    if (Py_IS_TYPE(item, face.sym_int)) {
        tp_value arg[3] = { tp_none(), tp_int(x->dim), face_sym_value(item) };
        return step(x, face.op_select, "select", arg);
    }
    if (face_is_tensor(item))
        return tensor_at(x, item, shown_dim);
    if (is_list_like(item))
        return sequence_at(x, item, shown_dim);
    if (PyUnicode_Check(item)) {
        PyErr_Format(PyExc_TypeError, "new(): invalid data type 'str'");
        return false;
    }
    if (PyIndex_Check(item))
        return face_read_int(item, &index) && select_at(x, index, shown_dim);
    PyErr_Format(PyExc_IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got %s)",
                 Py_TYPE(item)->tp_name);
    return false;
}

/* A 0-d tensor has nothing to select or to cut. */
static bool check_scalar_key(PyObject *key)
{
    int64_t index;
    if (PySlice_Check(key)) {
        PyErr_SetString(PyExc_IndexError, "slice() cannot be applied to a 0-dim tensor.");
        return false;
    }
    if (!PyLong_CheckExact(key))
        return true;
    if (!face_read_int(key, &index))
        return false;
    if (index == 0)
        PyErr_SetString(PyExc_IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number");
    else
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for dimension 0 with size 0", LL(index));
    return false;
}

static bool apply_key(indexing *x, PyObject *key)
{
    if (!x->at->ndim && !check_scalar_key(key))
        return false;
    PyObject *tuple = key_tuple(key);
    if (!tuple)
        return false;
    int meant = dims_meant(tuple), ndim = x->at->ndim;
    bool ok = true;
    if (meant > ndim) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim);
        ok = false;
    }
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(tuple); i++)
        ok = apply_item(x, PyTuple_GET_ITEM(tuple, i), (int)i, ndim - meant);
    Py_DECREF(tuple);
    return ok;
}

static void release(indexing *x)
{
    tp_tensor_unref(x->at);
    if (x->gathered)
        tp_value_unref(tp_of_list(x->gathered));
}

/* A mask of several dims is one item: what follows it moves up. */
static tp_value gathered_list(indexing *x)
{
    tp_value *item = x->gathered->item;
    uint32_t count = 0, next = 0;
    for (uint32_t i = 0; i < TP_MAX_DIMS; i++) {
        const tp_tensor *t = tp_as_tensor(item[i]);
        if (t) {
            item[next] = item[i];
            if (next != i)
                item[i] = tp_none();
            count = next + 1;
            if ((t->dtype == TP_b8 || t->dtype == TP_u8) && t->ndim > 1)
                i += t->ndim - 1;
        }
        next++;
    }
    x->gathered->count = count;
    return tp_of_list(x->gathered);
}

static bool key_overridden(PyObject *self, PyObject *key)
{
    if (face_overridden(self))
        return true;
    if (!face_function_subclass_on() || PyLong_CheckExact(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis)
        return false;
    if (!PyTuple_Check(key))
        return face_has_function(key);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++)
        if (face_has_function(PyTuple_GET_ITEM(key, i)))
            return true;
    return false;
}

/* ---- reading ---- */
static PyObject *plain_call(const tp_op *op, const char *name, const tp_value *arg)
{
    return missing(op, name) ? NULL : face_call_op(op, arg);
}

PyObject *face_index_get(PyObject *self, PyObject *key)
{
    tp_tensor *t = face_tensor(self);
    if (TP_UNLIKELY(key_overridden(self, key)))
        return face_override_method(self, "__getitem__", &key, 1, NULL);
    if (PyLong_CheckExact(key) && t->ndim) {
        indexing x = { .at = tp_tensor_ref(t) };
        int64_t index;
        bool ok = face_read_int(key, &index) && select_at(&x, index, 0);
        if (!ok)
            release(&x);
        return ok ? face_wrap(x.at) : NULL;
    }
    indexing x = { .at = tp_tensor_ref(t) };
    PyObject *result = NULL;
    if (apply_key(&x, key)) {
        if (x.gathered) {
            tp_value arg[2] = { tp_of_tensor(x.at), gathered_list(&x) };
            result = plain_call(face.op_index, "index", arg);
        } else if (!x.changed) {
            tp_value arg = tp_of_tensor(t);
            result = plain_call(face.op_alias, "alias", &arg);
        } else {
            result = face_wrap(tp_tensor_ref(x.at));
        }
    }
    release(&x);
    return result;
}

/* ---- writing ---- */

/* The value as a tensor: numbers take the type of the target. Counted; NULL: exception set. */
static tp_tensor *value_tensor(PyObject *value, const tp_tensor *target)
{
    if (face_is_tensor(value))
        return tp_tensor_ref(face_tensor(value));
    call_frame f;
    tp_value v;
    face_frame_init(&f);
    int got = face_to_number(value, &v, &f);
    tp_tensor *made = NULL;
    if (got > 0) {
        tp_dtype d = (tp_dtype)target->dtype;
        if (tp_dtype_is_half(d) || tp_check_representable(tp_as_scalar(v), d))      /* halves become infinite, in PyTorch too */
            made = tp_tensor_new_scalar(d, tp_as_scalar(v));
        if (!made)
            face_raise();
    } else if (!PyErr_Occurred()) {
        if (face_is_array(value)) {
            PyObject *t = face_literal(value, (tp_dtype)target->dtype, (tp_device){ TP_CPU, -1 }, true);
            made = t ? tp_tensor_ref(face_tensor(t)) : NULL;
            Py_XDECREF(t);
        } else {
            PyErr_Format(PyExc_TypeError, "can't assign a %s to a %s.%s", Py_TYPE(value)->tp_name, face.package, tp_dtypes[target->dtype].legacy);
        }
    }
    face_frame_fini(&f);
    return made;
}

/* Leading dims of size 1 that the target does not have are dropped. Counted. */
static tp_tensor *without_leading_ones(tp_tensor *v, int ndim)
{
    int drop = 0;
    int64_t size[TP_MAX_DIMS], first;
    while (v->ndim - drop > ndim) {
        if (!sym_known_size(v, drop, &first))
            return NULL;
        if (first != 1)
            break;
        drop++;
    }
    if (!drop)
        return tp_tensor_ref(v);
    for (int i = drop; i < v->ndim; i++)
        if (!sym_known_size(v, i, &size[i - drop]))
            return NULL;
    tp_value list = tp_value_ints(size, (size_t)(v->ndim - drop)), result;
    if (missing(face.op_view, "view") || list.tag != TP_LIST)
        return NULL;
    tp_value arg[2] = { tp_of_tensor(v), list };
    bool ok = tp_call(face.op_view, arg, &result);
    tp_value_unref(list);
    if (!ok)
        face_raise();
    return ok ? result.tensor : NULL;
}

static bool run_for_effect(const tp_op *op, const char *name, const tp_value *arg)
{
    tp_value result;
    if (missing(op, name))
        return false;
    if (!tp_call(op, arg, &result)) {
        face_raise();
        return false;
    }
    tp_value_unref(result);
    return true;
}

/* The value in the sizes of the target. Counted; NULL: exception set. */
static tp_tensor *expanded(tp_tensor *value, const tp_tensor *target)
{
    bool same = value->ndim == target->ndim && memcmp(value->size, target->size, (size_t)target->ndim * sizeof *target->size) == 0;
    if (same || !face.op_expand || face_is_traced())        /* copy_ broadcasts; sizes must not stand in a trace */
        return tp_tensor_ref(value);
    tp_value size = tp_value_ints(target->size, target->ndim), result;
    if (size.tag != TP_LIST)
        return face_raise(), NULL;
    tp_value arg[3] = { tp_of_tensor(value), size, tp_bool(false) };
    bool ok = tp_call(face.op_expand, arg, &result);
    tp_value_unref(size);
    if (!ok)
        face_raise();
    return ok ? result.tensor : NULL;
}

static bool write_plain(tp_tensor *target, tp_tensor *value)
{
    if (value->ndim == 0 && target->ndim && value->device.type == TP_CPU && face.op_fill) {
        tp_value arg[2] = { tp_of_tensor(target), tp_of_tensor(value) };
        return run_for_effect(face.op_fill, "fill_", arg);
    }
    tp_tensor *fitting = expanded(value, target);
    if (!fitting)
        return false;
    tp_value arg[3] = { tp_of_tensor(target), tp_of_tensor(fitting), tp_bool(false) };
    bool ok = run_for_effect(face.op_copy, "copy_", arg);
    tp_tensor_unref(fitting);
    return ok;
}

static bool write_gathered(indexing *x, tp_tensor *value)
{
    tp_value arg[4] = { tp_of_tensor(x->at), gathered_list(x), tp_of_tensor(value), tp_bool(false) };
    return run_for_effect(face.op_index_put, "index_put_", arg);
}

int face_index_set(PyObject *self, PyObject *key, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
        return -1;
    }
    bool foreign = face_has_function(value) && face_function_subclass_on();
    if (TP_UNLIKELY(foreign || key_overridden(self, key))) {
        PyObject *done = face_override_method(self, "__setitem__", (PyObject *[]){ key, value }, 2, NULL);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    tp_tensor *t = face_tensor(self), *given = value_tensor(value, t), *fitting = NULL;
    if (!given)
        return -1;
    bool ok = key == Py_False;
    indexing x = { .at = tp_tensor_ref(t) };
    if (!ok && (key == Py_True ? unsqueeze_at(&x) : apply_key(&x, key)) && (fitting = without_leading_ones(given, x.at->ndim)))
        ok = x.gathered ? write_gathered(&x, fitting) : write_plain(x.at, fitting);
    release(&x);
    tp_tensor_unref(fitting);
    tp_tensor_unref(given);
    return ok ? 0 : -1;
}
