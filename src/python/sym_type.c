/* sym_type.c - SymInt, SymFloat and SymBool: sizes that are expressions, as Python numbers.
 *
 * One struct for the three. Arithmetic gives an expression, or a plain number where the result is known; a comparison gives
 * a SymBool, or a plain bool. Asking for the truth of one, or for the integer, is what guards: the answer of the example is
 * given and written down as an assumption of the trace. */
#include "python/face.h"
#include "ops/symbolic.h"
#include "sym/env.h"

typedef struct sym_object {
    PyObject_HEAD
    tp_sym sym;                 /* a node; never a plain number */
    tp_shape_env *env;          /* counted: owns the node */
} sym_object;

static tp_sym word_of(PyObject *o)
{
    return ((sym_object *)o)->sym;
}

bool face_is_sym(PyObject *o)
{
    return Py_IS_TYPE(o, face.sym_int) || Py_IS_TYPE(o, face.sym_bool) || Py_IS_TYPE(o, face.sym_float);
}

tp_value face_sym_value(PyObject *o)
{
    return (tp_value){ .tag = TP_SYM, .sym = word_of(o).word };
}

PyObject *face_sym(tp_sym x)
{
    if (tp_sym_is_failed(x))
        return face_raise();
    if (tp_sym_is_int(x))
        return PyLong_FromLongLong(tp_sym_as_int(x));
    if (tp_sym_is_bool(x))
        return PyBool_FromLong(tp_sym_same(x, TP_SYM_TRUE));
    tp_sym_type kind = tp_sym_type_of(x);
    PyTypeObject *type = kind == TP_SYM_INT ? face.sym_int : kind == TP_SYM_BOOL ? face.sym_bool : face.sym_float;
    sym_object *made = (sym_object *)type->tp_alloc(type, 0);
    if (made) {
        made->sym = x;
        made->env = tp_shape_env_ref(tp_sym_env(x));
    }
    return (PyObject *)made;
}

static void sym_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_shape_env_unref(((sym_object *)self)->env);
    type->tp_free(self);
    Py_DECREF(type);
}

/* SymInt(node): the number that a SymNode stands for. */
static PyObject *sym_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *node = kwargs ? NULL : PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : NULL;
    PyObject *number = node ? PyObject_GetAttrString(node, "_of") : NULL;
    if (number)
        return number;
    return PyErr_Format(PyExc_TypeError, "%s objects come from a ShapeEnv, or are made of a SymNode", type->tp_name);
}

/* ---- operands ---- */
static bool is_float(tp_sym x)
{
    return tp_sym_is_node(x) && tp_sym_type_of(x) == TP_SYM_FLOAT;
}

/* 1: read; 0: not a number we know; -1: exception set. `env` is where a float constant would live. A condition among
 * numbers is decided, and so guarded, as PyTorch does. */
static int read_operand(PyObject *o, tp_shape_env *env, tp_sym *out)
{
    if (Py_IS_TYPE(o, face.sym_bool)) {
        bool answer;
        if (!face_sym_truth(o, &answer))
            return -1;
        *out = tp_sym_int(answer);
        return 1;
    }
    if (face_is_sym(o)) {
        *out = word_of(o);
        return 1;
    }
    if (PyLong_Check(o)) {
        int64_t i;
        if (!face_read_int(o, &i))
            return -1;
        *out = tp_sym_int(i);
        return 1;
    }
    if (PyFloat_Check(o)) {
        *out = tp_sym_float(env, PyFloat_AS_DOUBLE(o));
        return 1;
    }
    return 0;
}

/* The same of a condition. */
static int read_truth(PyObject *o, tp_sym *out)
{
    bool plain = PyBool_Check(o);
    if (plain || Py_IS_TYPE(o, face.sym_bool))
        *out = plain ? tp_sym_bool(o == Py_True) : word_of(o);
    return plain || Py_IS_TYPE(o, face.sym_bool);
}

static tp_shape_env *env_of(PyObject *a, PyObject *b)
{
    return ((sym_object *)(face_is_sym(a) ? a : b))->env;
}

typedef tp_sym binary(tp_sym a, tp_sym b);

static PyObject *two(PyObject *a, PyObject *b, binary *f, bool promote)
{
    tp_sym x, y;
    int left = read_operand(a, env_of(a, b), &x), right = left == 1 ? read_operand(b, env_of(a, b), &y) : left;
    if (right < 0)
        return NULL;
    if (right == 0)
        Py_RETURN_NOTIMPLEMENTED;
    if (promote && is_float(x) != is_float(y)) {        /* a plain integer beside a float is a number of its environment */
        tp_sym *whole = is_float(x) ? &y : &x;
        *whole = tp_sym_is_int(*whole) ? tp_sym_float(env_of(a, b), (double)tp_sym_as_int(*whole)) : tp_sym_to_float(*whole);
    }
    return face_sym(f(x, y));
}

/* Floats have no node for these: written out. */
static tp_sym whole_quotient(tp_sym a, tp_sym b)
{
    return is_float(a) || is_float(b) ? tp_sym_to_float(tp_sym_floor(tp_sym_truediv(a, b))) : tp_sym_floordiv(a, b);
}

static tp_sym remainder_of(tp_sym a, tp_sym b)
{
    if (!is_float(a) && !is_float(b))
        return tp_sym_mod(a, b);
    tp_sym whole = tp_sym_floor(tp_sym_truediv(a, b));
    a = tp_sym_is_node(a) ? tp_sym_to_float(a) : a;
    return tp_sym_sub(a, tp_sym_mul(whole, b));
}

/* Bits are of integers: what is said of others is what Python says of its own. */
static bool whole_pair(const char *sign, tp_sym a, tp_sym b)
{
    if (!is_float(a) && !is_float(b))
        return true;
    tp_fail(TP_ERR_TYPE, "unsupported operand type(s) for %s: '%s' and '%s'", sign, is_float(a) ? "float" : "int", is_float(b) ? "float" : "int");
    return false;
}

static tp_sym two_to_the(tp_sym by)
{
    if (tp_sym_range(by).high >= 0)
        return tp_sym_pow(tp_sym_int(2), by);
    tp_fail(TP_ERR_VALUE, "negative shift count");
    return TP_SYM_FAILED;
}

static tp_sym shifted_left(tp_sym a, tp_sym by)
{
    return whole_pair("<<", a, by) ? tp_sym_mul(a, two_to_the(by)) : TP_SYM_FAILED;
}

static tp_sym shifted_right(tp_sym a, tp_sym by)
{
    return whole_pair(">>", a, by) ? tp_sym_floordiv(a, two_to_the(by)) : TP_SYM_FAILED;
}

static tp_sym bits_and(tp_sym a, tp_sym b)
{
    return whole_pair("&", a, b) ? tp_sym_bit_and(a, b) : TP_SYM_FAILED;
}

static tp_sym bits_or(tp_sym a, tp_sym b)
{
    return whole_pair("|", a, b) ? tp_sym_bit_or(a, b) : TP_SYM_FAILED;
}

static tp_sym bits_xor(tp_sym a, tp_sym b)
{
    return whole_pair("^", a, b) ? tp_sym_bit_xor(a, b) : TP_SYM_FAILED;
}

#define BINARY(NAME, FUNCTION, PROMOTE) \
    static PyObject *sym_##NAME(PyObject *a, PyObject *b) { return two(a, b, FUNCTION, PROMOTE); }
BINARY(add, tp_sym_add, true)
BINARY(sub, tp_sym_sub, true)
BINARY(mul, tp_sym_mul, true)
BINARY(floordiv, whole_quotient, false)
BINARY(mod, remainder_of, false)
BINARY(truediv, tp_sym_truediv, false)
BINARY(lshift, shifted_left, false)
BINARY(rshift, shifted_right, false)

BINARY(xor, bits_xor, false)

/* Of two conditions a condition, of numbers the bits. */
static PyObject *truths_or_bits(PyObject *a, PyObject *b, binary *truths, binary *bits)
{
    tp_sym x, y;
    if (read_truth(a, &x) && read_truth(b, &y))
        return face_sym(truths(x, y));
    if (Py_IS_TYPE(a, face.sym_bool) || Py_IS_TYPE(b, face.sym_bool))
        Py_RETURN_NOTIMPLEMENTED;
    return two(a, b, bits, false);
}

static PyObject *sym_and(PyObject *a, PyObject *b) { return truths_or_bits(a, b, tp_sym_and, bits_and); }
static PyObject *sym_or(PyObject *a, PyObject *b) { return truths_or_bits(a, b, tp_sym_or, bits_or); }

/* As in Python: the power of integers is a float where the exponent is negative. Which it is may have to be decided. */
static tp_sym power(tp_sym a, tp_sym exponent)
{
    tp_range r = tp_sym_range(exponent);
    bool natural = true;
    if (!is_float(a) && !is_float(exponent) && r.low < 0 && r.high >= 0 && !tp_sym_guard(tp_sym_ge(exponent, tp_sym_int(0)), &natural))
        return TP_SYM_FAILED;
    return natural ? tp_sym_pow(a, exponent) : tp_sym_pow(a, tp_sym_to_float(exponent));
}

static PyObject *sym_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return two(a, b, power, false);
}

static PyObject *sym_index(PyObject *self);

static PyObject *one(PyObject *self, tp_sym (*f)(tp_sym))
{
    tp_sym x;
    return read_operand(self, ((sym_object *)self)->env, &x) == 1 ? face_sym(f(x)) : NULL;
}

static PyObject *sym_neg(PyObject *self) { return one(self, tp_sym_neg); }
static PyObject *sym_pos(PyObject *self) { return Py_IS_TYPE(self, face.sym_bool) ? sym_index(self) : Py_NewRef(self); }
static PyObject *sym_abs(PyObject *self) { return one(self, tp_sym_abs); }

static PyObject *sym_compare(PyObject *a, PyObject *b, int how)
{
    static const uint8_t table[] = { [Py_EQ] = TP_EQ, [Py_NE] = TP_NE, [Py_LT] = TP_LT, [Py_LE] = TP_LE, [Py_GT] = TP_GT, [Py_GE] = TP_GE };
    tp_sym x, y;
    if ((how == Py_EQ || how == Py_NE) && read_truth(a, &x) && read_truth(b, &y))       /* equal when both or neither hold */
        return face_sym(how == Py_EQ ? tp_sym_or(tp_sym_and(x, y), tp_sym_and(tp_sym_not(x), tp_sym_not(y)))
                                     : tp_sym_or(tp_sym_and(x, tp_sym_not(y)), tp_sym_and(tp_sym_not(x), y)));
    int left = read_operand(a, ((sym_object *)a)->env, &x), got = left == 1 ? read_operand(b, ((sym_object *)a)->env, &y) : left;
    if (got < 0)
        return NULL;
    if (got == 0)
        Py_RETURN_NOTIMPLEMENTED;
    tp_sym answer = tp_sym_compare((tp_compare)table[how], x, y);
    if (tp_sym_is_bool(answer) && !tp_sym_note_decided((tp_compare)table[how], x, y, tp_sym_same(answer, TP_SYM_TRUE)))
        return face_raise();
    return face_sym(answer);
}

/* ---- answers that guard ---- */
bool face_sym_truth(PyObject *o, bool *answer)
{
    tp_sym x = word_of(o);
    tp_sym condition = tp_sym_type_of(x) == TP_SYM_BOOL ? x : tp_sym_ne(x, tp_sym_int(0));
    if (tp_sym_guard(condition, answer) && (!tp_sym_is_bool(condition) || tp_sym_note_decided(TP_NE, x, tp_sym_int(0), *answer)))
        return true;
    face_raise();
    return false;
}

static int sym_bool(PyObject *self)
{
    bool answer;
    return face_sym_truth(self, &answer) ? answer : -1;
}

bool face_sym_int(PyObject *o, int64_t *out)
{
    tp_sym x = word_of(o);
    if (tp_sym_type_of(x) == TP_SYM_BOOL) {
        bool answer;
        bool ok = face_sym_truth(o, &answer);
        *out = ok && answer;
        return ok;
    }
    if (tp_sym_guard_int(x, out))
        return true;
    face_raise();
    return false;
}

bool sym_known_size(const tp_tensor *t, int dim, int64_t *out)
{
    *out = t->size[dim];
    if (TP_LIKELY(!tp_tensor_is_symbolic(t)) || tp_sym_guard_int(tp_tensor_sym_size(t, dim), out))
        return true;
    face_raise();
    return false;
}

bool sym_known_numel(const tp_tensor *t, int64_t *out)
{
    tp_sym all = tp_sym_int(1);
    *out = t->numel;
    if (TP_LIKELY(!tp_tensor_is_symbolic(t)))
        return true;
    for (int i = 0; i < t->ndim; i++)
        all = tp_sym_mul(all, tp_tensor_sym_size(t, i));
    if (tp_sym_guard_int(all, out))
        return true;
    face_raise();
    return false;
}

static PyObject *sym_index(PyObject *self)
{
    int64_t i;
    return face_sym_int(self, &i) ? PyLong_FromLongLong(i) : NULL;
}

static PyObject *sym_int(PyObject *self)
{
    int64_t i;
    if (!Py_IS_TYPE(self, face.sym_float))
        return sym_index(self);
    return tp_sym_guard_int(tp_sym_trunc(word_of(self)), &i) ? PyLong_FromLongLong(i) : face_raise();
}

static PyObject *sym_float(PyObject *self)
{
    double value;
    int64_t i;
    if (!Py_IS_TYPE(self, face.sym_float))
        return face_sym_int(self, &i) ? PyFloat_FromDouble((double)i) : NULL;
    if (!tp_sym_guard_float(word_of(self), &value))
        return face_raise();
    return PyFloat_FromDouble(value);
}

/* ---- the rest of a number ---- */
static PyObject *sym_repr(PyObject *self)
{
    tp_text text = { 0 };
    tp_sym plain = tp_sym_simplify(word_of(self));
    if (tp_sym_is_failed(plain)) {          /* a divisor has become zero, say: it stays as it was written */
        tp_error_clear();
        plain = word_of(self);
    }
    tp_sym_print(plain, &text);
    PyObject *made = text.failed ? PyErr_NoMemory() : PyUnicode_FromString(tp_text_read(&text));
    tp_text_fini(&text);
    return made;
}

/* A hash says equal things are equal: a size has one once it has become an integer; floats and conditions are decided for
 * it. As in PyTorch. */
static Py_hash_t sym_hash(PyObject *self)
{
    tp_sym plain = tp_sym_simplify(word_of(self));
    if (tp_sym_is_int(plain))
        return (Py_hash_t)tp_sym_as_int(plain);
    if (Py_IS_TYPE(self, face.sym_int)) {
        PyErr_Format(PyExc_TypeError, "unhashable type: non-nested SymInt");
        return -1;
    }
    PyObject *value = Py_IS_TYPE(self, face.sym_float) ? sym_float(self) : PyObject_IsTrue(self) < 0 ? NULL : sym_index(self);
    Py_hash_t hash = value ? PyObject_Hash(value) : -1;
    Py_XDECREF(value);
    return hash;
}

static PyObject *sym_floor(PyObject *self, PyObject *unused) { (void)unused; return face_sym(tp_sym_floor(word_of(self))); }
static PyObject *sym_ceil(PyObject *self, PyObject *unused) { (void)unused; return face_sym(tp_sym_ceil(word_of(self))); }
static PyObject *sym_trunc(PyObject *self, PyObject *unused) { (void)unused; return face_sym(tp_sym_trunc(word_of(self))); }
static PyObject *sym_round(PyObject *self, PyObject *args)
{
    PyObject *digits = Py_None;
    int64_t count;
    if (!PyArg_ParseTuple(args, "|O:__round__", &digits))
        return NULL;
    if (digits == Py_None)
        return face_sym(tp_sym_round(word_of(self)));
    if (!is_float(word_of(self)))
        return Py_NewRef(self);
    return face_read_int(digits, &count) ? face_sym(tp_sym_round_decimal(word_of(self), tp_sym_int(count))) : NULL;
}

/* Methods of Python's numbers that need the number. */
static PyObject *of_number(PyObject *self, const char *method)
{
    PyObject *number = Py_IS_TYPE(self, face.sym_float) ? sym_float(self) : sym_index(self);
    PyObject *made = number ? PyObject_CallMethod(number, method, NULL) : NULL;
    Py_XDECREF(number);
    return made;
}

static PyObject *sym_hex(PyObject *self, PyObject *unused) { (void)unused; return of_number(self, "hex"); }
static PyObject *sym_bit_length(PyObject *self, PyObject *unused) { (void)unused; return of_number(self, "bit_length"); }

static PyObject *sym_ratio(PyObject *self, PyObject *unused)
{
    (void)unused;
    return is_float(word_of(self)) ? of_number(self, "as_integer_ratio") : Py_BuildValue("Oi", self, 1);
}

static PyObject *sym_to_float(PyObject *self, PyObject *unused) { (void)unused; return face_sym(tp_sym_to_float(word_of(self))); }
static PyObject *sym_not(PyObject *self, PyObject *unused) { (void)unused; return face_sym(tp_sym_not(word_of(self))); }
static PyObject *sym_copy(PyObject *self, PyObject *unused) { (void)unused; return Py_NewRef(self); }

/* Which is larger may be decided by ranges, as comparisons are. */
static tp_sym larger(tp_sym a, tp_sym b)
{
    tp_sym x = tp_sym_max(a, b);
    bool first = tp_sym_same(x, a), decided = first || tp_sym_same(x, b);
    return !decided || tp_sym_note_decided(TP_GE, x, first ? b : a, true) ? x : TP_SYM_FAILED;
}

static PyObject *sym_max(PyObject *self, PyObject *other) { return two(self, other, larger, false); }
static PyObject *sym_min(PyObject *self, PyObject *other) { return two(self, other, tp_sym_min, false); }

static PyObject *get_hint(PyObject *self, void *unused)
{
    (void)unused;
    int64_t i;
    double f;
    if (Py_IS_TYPE(self, face.sym_float))
        return tp_sym_hint_float(word_of(self), &f) ? PyFloat_FromDouble(f) : Py_NewRef(Py_None);
    if (!tp_sym_hint(word_of(self), &i))
        Py_RETURN_NONE;
    return Py_IS_TYPE(self, face.sym_bool) ? PyBool_FromLong(i != 0) : PyLong_FromLongLong(i);
}

/* ---- questions that are not bool() ---- */

/* torch._check: False where the condition cannot hold; else it is a guard, or a fact that the program will assert. */
static PyObject *sym_expect(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_sym x = word_of(self);
    bool answer = true;
    bool decided = tp_sym_known(x) != TP_UNKNOWN || !tp_sym_has_unbacked(tp_sym_simplify(x));
    if (!(decided ? tp_sym_guard(x, &answer) : tp_sym_assume(x, NULL)))
        return face_raise();
    return PyBool_FromLong(answer);
}

static PyObject *sym_guard_or(PyObject *self, PyObject *otherwise)
{
    bool answer;
    int fallback = PyObject_IsTrue(otherwise);
    if (fallback < 0)
        return NULL;
    return tp_sym_guard_or(word_of(self), fallback, &answer) ? PyBool_FromLong(answer) : face_raise();
}

static PyObject *sym_of_sizes(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_answer known = tp_sym_known_of_sizes(word_of(self));
    bool answer;
    if (known != TP_UNKNOWN)
        return PyBool_FromLong(known == TP_YES);
    return face_sym_truth(self, &answer) ? PyBool_FromLong(answer) : NULL;
}

/* t if self else f */
static PyObject *sym_choose(PyObject *self, PyObject *args)
{
    PyObject *t, *f;
    tp_sym a, b;
    if (!PyArg_ParseTuple(args, "OO", &t, &f))
        return NULL;
    int got = read_operand(t, ((sym_object *)self)->env, &a), also = got == 1 ? read_operand(f, ((sym_object *)self)->env, &b) : got;
    if (also <= 0)
        return also < 0 ? NULL : PyErr_Format(PyExc_TypeError, "sym_ite() takes numbers");
    return face_sym(tp_sym_where(word_of(self), a, b));
}

/* _apply(name): the function of this name, as torch._sym_sqrt has it */
static PyObject *sym_apply(PyObject *self, PyObject *name)
{
    static const char *const names[] = {
#define TP_SYM_ONE(name) #name,
        TP_SYM_FUNCTIONS(TP_SYM_ONE)
#undef TP_SYM_ONE
    };
    for (size_t i = 0; PyUnicode_Check(name) && i < TP_COUNT(names); i++)
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0)
            return face_sym(tp_sym_apply((tp_sym_function)i, word_of(self)));
    return PyErr_Format(PyExc_ValueError, "no function %R of a symbolic number", name);
}

/* _replace({name of a symbol: number}) */
static PyObject *sym_replace(PyObject *self, PyObject *values)
{
    tp_sym symbol[64];
    tp_binding binding[TP_COUNT(symbol)];
    size_t count = tp_sym_free_symbols(word_of(self), symbol, TP_COUNT(symbol)), bound = 0;
    if (!PyDict_Check(values))
        return PyErr_Format(PyExc_TypeError, "a dict of values is wanted");
    for (size_t i = 0; i < count; i++) {
        PyObject *value = PyDict_GetItemString(values, tp_symbol_of(symbol[i])->name);
        tp_sym by;
        if (!value)
            continue;
        int got = read_operand(value, ((sym_object *)self)->env, &by);
        if (got <= 0)
            return got < 0 ? NULL : PyErr_Format(PyExc_TypeError, "a symbol stands for a number");
        binding[bound++] = (tp_binding){ symbol[i], by };
    }
    return face_sym(tp_sym_substitute(word_of(self), binding, bound));
}

static PyObject *sym_is_integer(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_sym x = word_of(self);
    return face_sym(tp_sym_eq(tp_sym_to_float(tp_sym_floor(x)), x));
}

static PyObject *sym_narrow(PyObject *self, PyObject *args)
{
    long long low, high;
    if (!PyArg_ParseTuple(args, "LL", &low, &high))
        return NULL;
    tp_sym x = tp_sym_simplify(word_of(self));
    if (tp_sym_is_symbol(x) ? !tp_symbol_narrow(x, (tp_range){ low, high })
                            : !(tp_sym_assume(tp_sym_le(tp_sym_int(low), x), NULL) && tp_sym_assume(tp_sym_le(x, tp_sym_int(high)), NULL)))
        return face_raise();
    Py_RETURN_NONE;
}

/* torch._check_is_size's second half, of every symbol that the size is made of alone. */
static PyObject *sym_mark_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    tp_sym x = tp_sym_simplify(word_of(self));
    if (tp_sym_is_symbol(x) && tp_symbol_of(x)->kind == TP_SYMBOL_UNBACKED)
        tp_symbol_set_size_like(x);
    Py_RETURN_NONE;
}

static PyObject *get_node(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *module = face_import("fx.experimental.sym_node");
    PyObject *node = module ? PyObject_CallMethod(module, "SymNode", "O", self) : NULL;
    Py_XDECREF(module);
    return node;
}

static PyObject *get_env(PyObject *self, void *unused)
{
    (void)unused;
    return face_shape_env(((sym_object *)self)->env);
}

/* Is the condition true, false, or not to be known without guarding? */
static PyObject *get_known(PyObject *self, void *unused)
{
    (void)unused;
    if (!Py_IS_TYPE(self, face.sym_bool))
        Py_RETURN_NONE;
    tp_answer a = tp_sym_known(word_of(self));
    return a == TP_UNKNOWN ? Py_NewRef(Py_None) : PyBool_FromLong(a == TP_YES);
}

static PyObject *get_range(PyObject *self, void *unused)
{
    (void)unused;
    tp_range r = tp_sym_range(word_of(self));
    return Py_BuildValue("LL", LL(r.low), LL(r.high));
}

static PyObject *get_symbols(PyObject *self, void *unused)
{
    (void)unused;
    tp_sym symbol[64];
    size_t count = tp_sym_free_symbols(tp_sym_simplify(word_of(self)), symbol, TP_COUNT(symbol));
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count && i < TP_COUNT(symbol); i++) {
        PyObject *name = PyUnicode_FromString(tp_symbol_of(symbol[i])->name);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyGetSetDef sym_attributes[] = {
    { "node", get_node, NULL, NULL, NULL },
    { "_hint", get_hint, NULL, NULL, NULL },
    { "_shape_env", get_env, NULL, NULL, NULL },
    { "_known", get_known, NULL, NULL, NULL },
    { "_range", get_range, NULL, NULL, NULL },
    { "_symbols", get_symbols, NULL, NULL, NULL },
    { 0 },
};

#define SYM_METHODS \
    { "__floor__", sym_floor, METH_NOARGS, NULL },     { "__ceil__", sym_ceil, METH_NOARGS, NULL }, \
    { "__trunc__", sym_trunc, METH_NOARGS, NULL },     { "__round__", sym_round, METH_VARARGS, NULL }, \
    { "__sym_float__", sym_to_float, METH_NOARGS, NULL }, { "__sym_max__", sym_max, METH_O, NULL }, \
    { "__sym_min__", sym_min, METH_O, NULL },          { "__copy__", sym_copy, METH_NOARGS, NULL }, \
    { "__deepcopy__", sym_copy, METH_O, NULL },        { "conjugate", sym_copy, METH_NOARGS, NULL }, \
    { "_not", sym_not, METH_NOARGS, NULL }, \
    { "_expect", sym_expect, METH_NOARGS, NULL },      { "_guard_or", sym_guard_or, METH_O, NULL }, \
    { "_of_sizes", sym_of_sizes, METH_NOARGS, NULL },  { "_choose", sym_choose, METH_VARARGS, NULL }, \
    { "_apply", sym_apply, METH_O, NULL },             { "_replace", sym_replace, METH_O, NULL }, \
    { "_narrow", sym_narrow, METH_VARARGS, NULL },     { "_mark_size", sym_mark_size, METH_NOARGS, NULL }
static PyMethodDef sym_methods[] = { SYM_METHODS, { 0 } };
static PyMethodDef int_methods[] = { SYM_METHODS, { "as_integer_ratio", sym_ratio, METH_NOARGS, NULL },
                                     { "bit_length", sym_bit_length, METH_NOARGS, NULL }, { 0 } };
static PyMethodDef float_methods[] = { SYM_METHODS, { "is_integer", sym_is_integer, METH_NOARGS, NULL },
                                       { "as_integer_ratio", sym_ratio, METH_NOARGS, NULL }, { "hex", sym_hex, METH_NOARGS, NULL }, { 0 } };

#define COMMON_SLOTS(METHODS)                                                                                                      \
    { Py_tp_new, sym_new }, { Py_tp_dealloc, sym_dealloc }, { Py_tp_repr, sym_repr }, { Py_tp_hash, sym_hash },           \
        { Py_tp_richcompare, sym_compare }, { Py_tp_getset, sym_attributes }, { Py_tp_methods, METHODS },             \
        { Py_nb_bool, sym_bool }
#define NUMBER_SLOTS                                                                                                      \
    { Py_nb_add, sym_add }, { Py_nb_subtract, sym_sub }, { Py_nb_multiply, sym_mul }, { Py_nb_floor_divide, sym_floordiv }, \
        { Py_nb_remainder, sym_mod }, { Py_nb_true_divide, sym_truediv }, { Py_nb_power, sym_pow }, { Py_nb_negative, sym_neg }, \
        { Py_nb_positive, sym_pos }, { Py_nb_absolute, sym_abs }, { Py_nb_int, sym_int }, { Py_nb_float, sym_float }

#define BIT_SLOTS                                                                                                          \
    { Py_nb_lshift, sym_lshift }, { Py_nb_rshift, sym_rshift }, { Py_nb_and, sym_and }, { Py_nb_or, sym_or }, { Py_nb_xor, sym_xor }
static PyType_Slot int_slots[] = { COMMON_SLOTS(int_methods), NUMBER_SLOTS, BIT_SLOTS, { Py_nb_index, sym_index }, { 0, NULL } };
static PyType_Slot float_slots[] = { COMMON_SLOTS(float_methods), NUMBER_SLOTS, { 0, NULL } };
static PyType_Slot bool_slots[] = { COMMON_SLOTS(sym_methods), NUMBER_SLOTS, { Py_nb_and, sym_and }, { Py_nb_or, sym_or },
                                    { Py_nb_index, sym_index }, { 0, NULL } };
static PyType_Spec int_spec = { "SymInt", sizeof(sym_object), 0, Py_TPFLAGS_DEFAULT, int_slots };
static PyType_Spec float_spec = { "SymFloat", sizeof(sym_object), 0, Py_TPFLAGS_DEFAULT, float_slots };
static PyType_Spec bool_spec = { "SymBool", sizeof(sym_object), 0, Py_TPFLAGS_DEFAULT, bool_slots };

bool face_sym_init(PyObject *module)
{
    if (!(face.sym_int = face_make_type(module, &int_spec, NULL)) || !(face.sym_float = face_make_type(module, &float_spec, NULL)) ||
        !(face.sym_bool = face_make_type(module, &bool_spec, NULL)))
        return false;
    face.sym_int->tp_name = "SymInt";       /* messages of Python's name the class without its module, as PyTorch's do */
    face.sym_float->tp_name = "SymFloat";
    face.sym_bool->tp_name = "SymBool";
    return true;
}
