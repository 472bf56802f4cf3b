/* parse.c - which overload a Python call means, and its arguments, by schema.
 *
 * PyTorch's rules: overloads are tried in a fixed order and the first that fits is taken; `self` is `input` in functions
 * and bound in methods; numpy's names stand for ours (axis, keepdims, x, x2); sizes may be given flat; a variant that
 * writes to `out` is part of the signature of the op it belongs to. */
#include <string.h>

#include "base/alloc.h"
#include "python/face.h"

const char *const face_numpy_names[][2] = {
    { "axis", "dim" }, { "keepdims", "keepdim" }, { "x", "input" }, { "a", "input" }, { "x1", "input" }, { "x2", "other" },
    { NULL, NULL },
};

/* ---- making signatures ---- */

/* Tensors are tried before numbers, what must be given before what may be, shorter lists of arguments before longer ones. */
static int type_rank(const tp_arg *a)
{
    if (a->type == TP_TYPE_TENSOR)
        return a->list ? 3 : 1;
    if (a->type == TP_TYPE_DTYPE)
        return 2;
    if (a->type == TP_TYPE_INT || a->type == TP_TYPE_SYMINT)
        return a->list ? 5 : 4;
    return a->type == TP_TYPE_SCALAR ? 6 : 7;
}

static bool goes_before(const tp_op *a, const tp_op *b)
{
    for (int i = 0;; i++) {
        bool end_a = i >= a->positional_count, end_b = i >= b->positional_count;
        if (end_a && end_b)
            break;
        if (end_a || end_b)
            return end_a;
        int ra = type_rank(&a->arg[i]), rb = type_rank(&b->arg[i]);
        if (ra != rb)
            return ra < rb;
        if (!a->arg[i].fallback != !b->arg[i].fallback)
            return !a->arg[i].fallback;
    }
    int required_a = 0, required_b = 0;
    for (int i = a->positional_count; i < a->arg_count; i++)
        required_a += !a->arg[i].fallback;
    for (int i = b->positional_count; i < b->arg_count; i++)
        required_b += !b->arg[i].fallback;
    return required_a > required_b;
}

static uint32_t face_flag(const op_set *set)
{
    return set->where == 1 ? TP_OP_METHOD : set->where == 2 ? TP_OP_NN : TP_OP_FUNCTION;
}

/* An overload for numbers is hidden when a Tensor slot of another takes numbers anyway. */
static bool covered(const tp_op *op, const tp_op *by)
{
    if (op == by || by->variant != op->variant || op->arg_count > by->arg_count)
        return false;
    bool differs = false;
    for (int i = 0; i < op->arg_count; i++) {
        const tp_arg *a = &op->arg[i];
        int j = tp_op_arg_index(by, a->name);
        if (j < 0)
            return false;
        const tp_arg *b = &by->arg[j];
        if (a->type == b->type && a->list == b->list)
            continue;
        if (a->type != TP_TYPE_SCALAR || b->type != TP_TYPE_TENSOR || !b->number_allowed)
            return false;
        differs = true;
    }
    return differs;
}

static bool usable(const op_set *set, const tp_op *op, const tp_op *const *all, size_t count)
{
    if (!(op->flags & face_flag(set)) || op->variant == TP_OUT || op->arg_count > FRAME_ARGS)
        return false;
    for (int i = 0; i < op->arg_count; i++)
        if (op->arg[i].type == TP_TYPE_DIMNAME)
            return false;
    for (size_t i = 0; i < count; i++)
        if ((all[i]->flags & face_flag(set)) && covered(op, all[i]))
            return false;
    return set->where != 1 || tp_op_arg_index(op, "self") >= 0;
}

/* PyTorch's functions read the default Mean of a reduction as 0: called as functions, unlike as ops, losses are not reduced. */
static tp_value face_default(const tp_arg *a)
{
    return a->type == TP_TYPE_INT && strcmp(a->name, "reduction") == 0 ? tp_int(0) : tp_arg_default(a);
}

static bool add_parameter(signature *s, int arg, bool rename)
{
    const char *name = s->op->arg[arg].name;
    if (rename && strcmp(name, "self") == 0 && !s->op->arg[arg].list)
        name = "input";
    s->order[s->count] = (uint8_t)arg;
    return (s->name[s->count++] = PyUnicode_InternFromString(name)) != NULL;
}

static bool is_int_list(const tp_arg *a)
{
    return a->list && (a->type == TP_TYPE_INT || a->type == TP_TYPE_SYMINT);
}

/* `int[2] stride=[]`: None says the same as the empty list. */
static bool defaults_to_nothing(const tp_arg *a)
{
    return a->list && a->fallback && !a->optional && a->fallback->tag == TP_LIST && tp_length(*a->fallback) == 0;
}

/* Parameters by position first, then those by name only; `required` and `positional` follow. */
static bool add_parameters(signature *s, bool rename)
{
    const tp_op *op = s->op;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < op->arg_count; i++)
            if (i != s->self && op->arg[i].keyword_only == (pass == 1) && !add_parameter(s, i, rename))
                return false;
    for (int p = 0; p < s->count; p++) {
        const tp_arg *a = &op->arg[s->order[p]];
        if (a->keyword_only)
            break;
        s->positional++;
        if (!a->fallback)
            s->required = s->positional;
    }
    return true;
}

bool face_signature_exact(signature *s, const tp_op *op)
{
    *s = (signature){ .op = op, .self = -1, .options = -1 };
    return add_parameters(s, false);
}

static bool make_signature(signature *s, const tp_op *op, bool method)
{
    *s = (signature){ .op = op, .self = method ? (int8_t)tp_op_arg_index(op, "self") : -1 };
    s->out = !method && op->out && op->variant == TP_FUNCTIONAL ? op->out : NULL;
    if (!add_parameters(s, !method))
        return false;
    s->varargs = s->positional == 1 && is_int_list(&op->arg[s->order[0]]);
    bool factory = tp_op_arg_index(op, "dtype") >= 0 && tp_op_arg_index(op, "layout") >= 0 &&
                   tp_op_arg_index(op, "device") >= 0 && tp_op_arg_index(op, "pin_memory") >= 0;
    s->options = factory ? (int8_t)tp_op_arg_index(op, "dtype") : -1;
    return true;
}

bool face_set_prepare(op_set *set)
{
    const tp_op *const *all;
    const tp_op *chosen[64];
    size_t count = tp_op_overloads("aten", set->name, &all);
    int n = 0;
    for (size_t i = 0; i < count && n < (int)TP_COUNT(chosen); i++) {
        if (!usable(set, all[i], all, count))
            continue;
        int at = n++;
        for (; at > 0 && goes_before(all[i], chosen[at - 1]); at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = all[i];
    }
    signature *made = PyMem_Calloc((size_t)(n ? n : 1), sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < n; i++)
        if (!make_signature(&made[i], chosen[i], set->where == 1))
            return false;       /* out of memory at first use: the names made so far stay */
    set->item = made;
    set->count = n;
    return true;
}

/* ---- matching ---- */
static bool same_text(PyObject *a, PyObject *b)
{
    return a == b || PyUnicode_Compare(a, b) == 0;
}

static int find_parameter(const signature *s, PyObject *keyword)
{
    for (int p = 0; p < s->count; p++)
        if (s->name[p] == keyword)
            return p;
    for (int p = 0; p < s->count; p++)
        if (same_text(s->name[p], keyword))
            return p;
    for (int i = 0; face_numpy_names[i][0]; i++)
        if (PyUnicode_CompareWithASCIIString(keyword, face_numpy_names[i][0]) == 0)
            for (int p = 0; p < s->count; p++)
                if (PyUnicode_CompareWithASCIIString(s->name[p], face_numpy_names[i][1]) == 0)
                    return p;
    return -1;
}

/* Keywords that are of the signature, not of the schema. */
static bool take_extra(const signature *s, PyObject *keyword, PyObject *value, PyObject **out, bool *requires_grad)
{
    if (s->out && PyUnicode_CompareWithASCIIString(keyword, "out") == 0) {
        *out = value == Py_None ? NULL : value;
        return true;
    }
    if (s->options >= 0 && PyUnicode_CompareWithASCIIString(keyword, "requires_grad") == 0 &&
        (PyBool_Check(value) || value == Py_None)) {
        *requires_grad = value == Py_True;
        return true;
    }
    /* Named dims: None alone means nothing. */
    return s->options >= 0 && value == Py_None && PyUnicode_CompareWithASCIIString(keyword, "names") == 0;
}

static bool take_keywords(const signature *s, PyObject *const *values, PyObject *kwnames, PyObject **given, PyObject **out,
                          bool *requires_grad)
{
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, k);
        int p = find_parameter(s, keyword);
        if (p < 0) {
            if (!take_extra(s, keyword, values[k], out, requires_grad))
                return false;
            continue;
        }
        if (given[p])
            return false;
        given[p] = values[k];
    }
    return true;
}

/* view(2, 3): all positional arguments are one list. -1: exception set. */
static int take_flat(op_set *set, const signature *s, PyObject *const *args, Py_ssize_t count, call_frame *f)
{
    const tp_arg *a = &s->op->arg[s->order[0]];
    int got = face_to_ints(f, a, args, count, &f->value[s->order[0]]);
    if (got != 0)
        return got;
    for (Py_ssize_t i = 1; i < count; i++) {
        tp_value ignored;
        tp_arg one = *a;
        one.list = false;
        if (face_to_value(f, &one, args[i], &ignored) == 0) {
            PyErr_Format(PyExc_TypeError,
                         "%s(): argument '%U' failed to unpack the object at pos %zd with error \"type must be tuple of ints,but got %s\"",
                         set->name, s->name[0], i + 1, Py_TYPE(args[i])->tp_name);
            return -1;
        }
    }
    return 0;
}

static bool looks_flat(const signature *s, PyObject *const *args, Py_ssize_t count)
{
    if (!s->varargs || !count)
        return false;
    PyObject *first = args[0];
    if (PyTuple_Check(first) || PyList_Check(first))
        return false;
    return face_is_int(first) || Py_IS_TYPE(first, face.sym_int) || (face_is_tensor(first) && face_tensor(first)->ndim == 0);
}

int face_match(op_set *set, const signature *s, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
               call_frame *f, PyObject **out, bool *requires_grad)
{
    PyObject *given[FRAME_ARGS];
    const tp_op *op = s->op;
    bool flat = looks_flat(s, args, count);
    if (count > s->positional && !flat)
        return 0;
    int from = 0;
    for (int p = 0; p < s->count; p++)
        given[p] = !flat && p < count ? args[p] : NULL;
    if (kwnames && !take_keywords(s, args + count, kwnames, given, out, requires_grad))
        return 0;
    if (flat) {
        if (given[0])
            return 0;
        int got = take_flat(set, s, args, count, f);
        if (got <= 0)
            return got;
        from = 1;
    }
    if (s->self >= 0) {
        if (!face_is_fast(self))
            face_note_overloaded(f, self);
        f->value[s->self] = (tp_value){ .tag = TP_TENSOR, .tensor = face_tensor(self) };
    }
    for (int p = from; p < s->count; p++) {
        const tp_arg *a = &op->arg[s->order[p]];
        if (!given[p] || (given[p] == Py_None && defaults_to_nothing(a))) {
            if (!a->fallback)
                return 0;
            f->value[s->order[p]] = f->exact ? *a->fallback : face_default(a);
            continue;
        }
        int got = face_to_value(f, a, given[p], &f->value[s->order[p]]);
        if (got <= 0)
            return got;
    }
    return 1;
}

const signature *face_parse(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                            call_frame *f, PyObject **out, bool *requires_grad)
{
    if (set->count < 0 && !face_set_prepare(set))
        return NULL;
    for (int i = 0; i < set->count; i++) {
        *out = NULL;
        *requires_grad = false;
        int got = face_match(set, &set->item[i], self, args, count, kwnames, f, out, requires_grad);
        if (TP_LIKELY(got > 0))
            return &set->item[i];
        if (got < 0)
            return NULL;
        face_frame_fini(f);
        face_frame_init(f);
    }
    face_parse_error(set, self, args, count, kwnames);
    return NULL;
}
