/* items.c - operators, items, lengths, truth and iteration: on tensors they are nodes, on instances of the user's classes
 * calls of their special methods, on everything else what Python does. */
#include "python/capture/capture.h"

typedef PyObject *number_function(PyObject *a, PyObject *b);

static PyObject *power(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static PyObject *power_in_place(PyObject *a, PyObject *b) { return PyNumber_InPlacePower(a, b, Py_None); }

static const struct operator_row {
    number_function *plain, *in_place;
    const char *method, *reflected, *method_in_place;
} operators[] = {
    [TP_B_ADD] = { PyNumber_Add, PyNumber_InPlaceAdd, "__add__", "__radd__", "__iadd__" },
    [TP_B_AND] = { PyNumber_And, PyNumber_InPlaceAnd, "__and__", "__rand__", "__iand__" },
    [TP_B_FLOOR_DIVIDE] = { PyNumber_FloorDivide, PyNumber_InPlaceFloorDivide, "__floordiv__", "__rfloordiv__", "__ifloordiv__" },
    [TP_B_LSHIFT] = { PyNumber_Lshift, PyNumber_InPlaceLshift, "__lshift__", "__rlshift__", "__ilshift__" },
    [TP_B_MATRIX_MULTIPLY] = { PyNumber_MatrixMultiply, PyNumber_InPlaceMatrixMultiply, "__matmul__", "__rmatmul__", "__imatmul__" },
    [TP_B_MULTIPLY] = { PyNumber_Multiply, PyNumber_InPlaceMultiply, "__mul__", "__rmul__", "__imul__" },
    [TP_B_REMAINDER] = { PyNumber_Remainder, PyNumber_InPlaceRemainder, "__mod__", "__rmod__", "__imod__" },
    [TP_B_OR] = { PyNumber_Or, PyNumber_InPlaceOr, "__or__", "__ror__", "__ior__" },
    [TP_B_POWER] = { power, power_in_place, "__pow__", "__rpow__", "__ipow__" },
    [TP_B_RSHIFT] = { PyNumber_Rshift, PyNumber_InPlaceRshift, "__rshift__", "__rrshift__", "__irshift__" },
    [TP_B_SUBTRACT] = { PyNumber_Subtract, PyNumber_InPlaceSubtract, "__sub__", "__rsub__", "__isub__" },
    [TP_B_TRUE_DIVIDE] = { PyNumber_TrueDivide, PyNumber_InPlaceTrueDivide, "__truediv__", "__rtruediv__", "__itruediv__" },
    [TP_B_XOR] = { PyNumber_Xor, PyNumber_InPlaceXor, "__xor__", "__rxor__", "__ixor__" },
};

/* A special method of the user's, if the class has one; Py_NotImplemented (new reference): it has not. */
static PyObject *special(capture *c, PyObject *o, const char *name, PyObject *other)
{
    PyObject *method = name ? capture_special(c, o, name) : NULL;
    if (!method)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    PyObject *args = other ? PyTuple_Pack(2, o, other) : PyTuple_Pack(1, o);
    PyObject *result = args ? capture_call(c, method, args, NULL) : NULL;
    Py_XDECREF(args);
    return result;
}

static PyObject *on_shadows(capture *c, number_function *f, PyObject *a, PyObject *b, bool in_place)
{
    if (!capture_may_read(c, a, "an operator on") || !capture_may_read(c, b, "an operator on"))
        return NULL;
    PyObject *x = capture_shadow(c, a, in_place), *y = x ? capture_shadow(c, b, false) : NULL, *made = y ? f(x, y) : NULL;
    if (made && made == x && x != a)            /* an outside list was extended: it is still that list */
        Py_SETREF(made, Py_NewRef(a));
    Py_XDECREF(x);
    Py_XDECREF(y);
    return made;
}

PyObject *capture_binary(capture *c, int operator, PyObject *a, PyObject *b)
{
    bool in_place = operator >= TP_B_IN_PLACE;
    const struct operator_row *row = &operators[in_place ? operator - TP_B_IN_PLACE : operator];
    if (face_is_tensor(a) || face_is_tensor(b))
        return capture_two(c, PyTuple_GET_ITEM(capture_the_words()->operators, operator), a, b);
    PyObject *result = in_place ? special(c, a, row->method_in_place, b) : Py_NewRef(Py_NotImplemented);
    if (result == Py_NotImplemented)
        Py_SETREF(result, special(c, a, row->method, b));
    if (result == Py_NotImplemented)
        Py_SETREF(result, special(c, b, row->reflected, a));
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    if ((PyUnicode_Check(a) || PyBytes_Check(a)) && row->plain == PyNumber_Remainder) {         /* "%s" % b */
        PyObject *inside = capture_inside(c, b);
        result = inside && capture_sees(c, inside, CAPTURE_SEES_ALL) ? PyNumber_Remainder(a, inside) : NULL;
        Py_XDECREF(inside);
        return result;
    }
    if (in_place && PyList_Check(a) && row->in_place == PyNumber_InPlaceAdd && !PyList_Check(b) && !PyTuple_Check(b)) {      /* l += anything */
        PyObject *over = capture_iterator(c, b), *items = over ? PySequence_List(over) : NULL;
        result = items ? on_shadows(c, row->in_place, a, items, true) : NULL;
        Py_XDECREF(over);
        Py_XDECREF(items);
        return result;
    }
    bool changes = in_place && (PyList_Check(a) || PyDict_Check(a) || PySet_Check(a));
    return on_shadows(c, in_place ? row->in_place : row->plain, a, b, changes);
}

/* Two objects from outside that are the same, or are not, stay so. */
int capture_is_same(capture *c, PyObject *a, PyObject *b)
{
    const record *x = capture_record(c, a), *y = capture_record(c, b);
    bool sources = a != b && x && y && x->source != NO_SOURCE && y->source != NO_SOURCE && Py_TYPE(a) == Py_TYPE(b);
    if (a != b && face_is_tensor(a) && face_is_tensor(b))           /* stand-ins: what they stand for has the source */
        return capture_unsupported("`is` of two tensors"), -1;
    if (sources && !(capture_is_fixed(a) && capture_is_fixed(b)) && !tp_guard_add(c->sources, GUARD_OTHER, x->source, NULL, y->source))
        return -1;
    return a == b;
}

PyObject *capture_compare(capture *c, int how, PyObject *a, PyObject *b)
{
    static const char *const method[] = { "__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__" };
    static const uint8_t other[] = { Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE };
    if (face_is_tensor(a) || face_is_tensor(b))
        return capture_two(c, PyTuple_GET_ITEM(capture_the_words()->comparisons, how), a, b);
    PyObject *result = special(c, a, method[how], b);
    if (result == Py_NotImplemented)
        Py_SETREF(result, special(c, b, method[other[how]], a));
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    if ((how == Py_EQ || how == Py_NE) && capture_compares_by_identity(Py_TYPE(a)) && capture_compares_by_identity(Py_TYPE(b))) {
        int same = capture_is_same(c, a, b);
        return same < 0 ? NULL : PyBool_FromLong(same == (how == Py_EQ));
    }
    PyObject *x = capture_inside(c, a), *y = x ? capture_inside(c, b) : NULL;
    result = y && (capture_has_tensor(x) || capture_has_tensor(y)) ? capture_unsupported("a comparison of containers with tensors")
             : y && capture_sees(c, x, CAPTURE_SEES_KEYS) && capture_sees(c, y, CAPTURE_SEES_KEYS) ? PyObject_RichCompare(x, y, how)
                                                                                                   : NULL;
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

/* ---- items ---- */
static bool is_container(PyObject *o)
{
    return PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o);
}

static PyObject *missing_item(capture *c, PyObject *o, PyObject *key)
{
    PyObject *result = PyDict_CheckExact(o) ? Py_NewRef(Py_NotImplemented) : special(c, o, "__missing__", key);
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    bool c_code = PyDict_CheckExact(o) ? false : PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__missing__");
    return c_code ? capture_unsupported("a missing key of a %s from outside", Py_TYPE(o)->tp_name) : (PyErr_SetObject(PyExc_KeyError, key), NULL);
}

/* One item of an outside container: only what is read is guarded. */
static PyObject *outside_item(capture *c, PyObject *o, PyObject *key, int32_t source)
{
    if (PyDict_Check(o)) {
        if (!capture_sees(c, key, CAPTURE_SEES_KEYS))
            return NULL;
        int there = PyDict_Contains(o, key);
        if (there < 0 || !tp_guard_add(c->sources, GUARD_HAS, source, key, there))
            return NULL;
        if (!there)
            return missing_item(c, o, key);
        PyObject *value = Py_XNewRef(PyDict_GetItemWithError(o, key)), *inside = NULL;
        if (value)
            inside = capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ITEM, source, 0, key));
        else if (!PyErr_Occurred())
            capture_unsupported("a key that is equal to itself only at times");
        Py_XDECREF(value);
        return inside;
    }
    Py_ssize_t i = PyLong_AsSsize_t(key), count = PySequence_Fast_GET_SIZE(o);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    if (i < 0)
        i += count;
    if (!tp_guard_add(c->sources, GUARD_LENGTH, source, NULL, count))
        return NULL;
    if (i < 0 || i >= count)
        return PyErr_Format(PyExc_IndexError, "%s index out of range", PyList_Check(o) ? "list" : "tuple");
    PyObject *plain = PyLong_FromSsize_t(i);
    PyObject *item = plain ? capture_wrap(c, PySequence_Fast_GET_ITEM(o, i), tp_source_in(c->sources, SOURCE_ITEM, source, 0, plain)) : NULL;
    Py_XDECREF(plain);
    return item;
}

static PyObject *get_item(capture *c, PyObject *o, PyObject *key);

PyObject *capture_get_item(capture *c, PyObject *o, PyObject *key)
{
    if (!PyTuple_CheckExact(key) || !PyDict_Check(o))
        return get_item(c, o, key);
    PyObject *inside = capture_inside(c, key), *value = inside ? get_item(c, o, inside) : NULL;
    Py_XDECREF(inside);
    return value;
}

static PyObject *get_item(capture *c, PyObject *o, PyObject *key)
{
    if (face_is_tensor(o))
        return capture_two(c, capture_the_words()->getitem, o, key);
    if (face_is_tensor(key))
        return capture_unsupported("a tensor as an index of a %s", Py_TYPE(o)->tp_name);
    record *r = capture_record(c, o);
    if (r && r->outside && !r->shadow && is_container(o) && (PyDict_Check(o) || PyLong_CheckExact(key)) && !capture_method(o, "__getitem__"))
        return outside_item(c, o, key, r->source);
    PyObject *result = special(c, o, "__getitem__", key);
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    if (PyType_Check(o) && capture_is_python_class((PyTypeObject *)o) && !capture_is_enum((PyTypeObject *)o) &&
        !capture_trusts_class((PyTypeObject *)o))
        return capture_unsupported("a class with an index, %s", ((PyTypeObject *)o)->tp_name);
    bool keyed = PyDict_Check(o) || PyAnySet_Check(o), generic = PyType_Check(o) || !capture_is_python_class(Py_TYPE(key));
    bool plain = generic && !PySlice_Check(key) && !keyed;
    if (!capture_may_read(c, o, "an item of") || (!plain && !capture_sees(c, key, keyed ? CAPTURE_SEES_KEYS : CAPTURE_SEES_ALL)))
        return NULL;
    PyObject *shadow = capture_shadow(c, o, false);
    result = shadow ? PyObject_GetItem(shadow, key) : NULL;
    Py_XDECREF(shadow);
    return result;
}

bool capture_set_item(capture *c, PyObject *o, PyObject *key, PyObject *value)
{
    if (face_is_tensor(o)) {
        PyObject *args = value ? PyTuple_Pack(3, o, key, value) : NULL;
        PyObject *done = args ? capture_call_function(c, capture_the_words()->setitem, args, NULL) : NULL;
        Py_XDECREF(args);
        Py_XDECREF(done);
        return done;
    }
    PyObject *method = capture_special(c, o, value ? "__setitem__" : "__delitem__");
    if (PyErr_Occurred())
        return false;
    if (method) {
        PyObject *args = value ? PyTuple_Pack(3, o, key, value) : PyTuple_Pack(2, o, key);
        PyObject *done = args ? capture_call(c, method, args, NULL) : NULL;
        Py_XDECREF(args);
        Py_XDECREF(done);
        return done;
    }
    if (!PyList_Check(o) && !PyDict_CheckExact(o) && !capture_may_read(c, o, "a store to an item of"))
        return false;
    PyObject *inside = PyTuple_CheckExact(key) ? capture_inside(c, key) : Py_NewRef(key);
    if (!inside || !capture_sees(c, inside, PyDict_Check(o) ? CAPTURE_SEES_KEYS : CAPTURE_SEES_ALL)) {
        Py_XDECREF(inside);
        return false;
    }
    PyObject *over = value && PySlice_Check(key) ? capture_iterator(c, value) : Py_XNewRef(value);
    PyObject *shadow = over || !value ? capture_shadow(c, o, true) : NULL, *own = shadow ? Py_NewRef(inside) : NULL;
    bool ok = shadow && (value ? PyObject_SetItem(shadow, own, over) : PyObject_DelItem(shadow, own)) == 0;
    Py_XDECREF(own);
    Py_XDECREF(inside);
    Py_XDECREF(over);
    Py_XDECREF(shadow);
    return ok;
}

/* Is it one of the items, by identity or, without tensors, by equality? Sets and dicts know a tensor by identity alone. */
static int is_among(capture *c, PyObject *o, PyObject *item)
{
    bool sequence = PyTuple_Check(o) || PyList_Check(o), tensors = face_is_tensor(item);
    if (sequence) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) {
            if (PySequence_Fast_GET_ITEM(o, i) == item)
                return 1;
            tensors |= face_is_tensor(PySequence_Fast_GET_ITEM(o, i));
        }
        if (tensors) {
            capture_unsupported("`in` that compares tensors");
            return -1;
        }
    }
    if (PyIter_Check(o))
        return capture_sees(c, item, CAPTURE_SEES_ALL) ? PySequence_Contains(o, item) : -1;
    bool sees = capture_sees(c, item, CAPTURE_SEES_KEYS) && (!sequence || capture_sees(c, o, CAPTURE_SEES_KEYS));
    return sees ? PySequence_Contains(o, item) : -1;
}

int capture_contains(capture *c, PyObject *o, PyObject *item)
{
    if (face_is_tensor(o)) {
        capture_unsupported("`in` a tensor");
        return -1;
    }
    record *r = capture_record(c, o);
    bool set = PySet_Check(o) && capture_is_constant(item);
    if (PyTuple_CheckExact(item) && (PyDict_Check(o) || PyAnySet_Check(o)) && capture_is_outside(c, item)) {
        PyObject *inside = capture_inside(c, item);
        int answer = inside ? capture_contains(c, o, inside) : -1;
        Py_XDECREF(inside);
        return answer;
    }
    if (r && r->outside && !r->shadow && (PyDict_Check(o) || set) && !capture_method(o, "__contains__")) {
        int there = !capture_sees(c, item, CAPTURE_SEES_KEYS) ? -1 : set ? PySet_Contains(o, item) : PyDict_Contains(o, item);
        return there >= 0 && tp_guard_add(c->sources, GUARD_HAS, r->source, item, there) ? there : -1;
    }
    PyObject *result = special(c, o, "__contains__", item);
    if (result && result != Py_NotImplemented) {
        int truth = capture_truth(c, result);
        Py_DECREF(result);
        return truth;
    }
    if (!result)
        return -1;
    Py_DECREF(result);
    if (!capture_method(o, "__iter__") && !capture_may_read(c, o, "`in`"))
        return -1;
    PyObject *shadow = capture_method(o, "__iter__") ? capture_iterator(c, o) : capture_inside(c, o);
    PyObject *sought = shadow ? capture_inside(c, item) : NULL;
    int there = sought ? is_among(c, shadow, sought) : -1;
    Py_XDECREF(sought);
    Py_XDECREF(shadow);
    return there;
}

/* ---- length, truth, iteration ---- */
PyObject *capture_length(capture *c, PyObject *o)
{
    record *r = capture_record(c, o);
    if (r && r->outside && !r->shadow && (is_container(o) || PyAnySet_Check(o)) && !capture_method(o, "__len__")) {
        Py_ssize_t count = PyObject_Size(o);
        return count >= 0 && tp_guard_add(c->sources, GUARD_LENGTH, r->source, NULL, count) ? PyLong_FromSsize_t(count) : NULL;
    }
    PyObject *result = special(c, o, "__len__", NULL);
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    if (!capture_may_read(c, o, "len() of"))
        return NULL;
    PyObject *shadow = capture_shadow(c, o, false);
    Py_ssize_t count = shadow ? PyObject_Size(shadow) : -1;
    Py_XDECREF(shadow);
    return count >= 0 ? PyLong_FromSsize_t(count) : NULL;
}

int capture_truth(capture *c, PyObject *o)
{
    if (o == Py_True || o == Py_False || o == Py_None)
        return o == Py_True;
    if (face_is_tensor(o)) {
        capture_unsupported("Data-dependent branching\n  Explanation: the code branches on the value of a tensor (e.g. `if "
                            "my_tensor.sum() > 0:`), which is not known while it is captured.\n  Hint: use torch.where, or torch.cond.");
        return -1;
    }
    PyObject *method = capture_special(c, o, "__bool__");
    if (method || capture_method(o, "__len__") || (capture_is_outside(c, o) && (is_container(o) || PyAnySet_Check(o)))) {
        PyObject *answer = method ? capture_call_one(c, method, o) : capture_length(c, o);
        int truth = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return truth;
    }
    const PyTypeObject *type = Py_TYPE(o);
    bool asks = (type->tp_as_number && type->tp_as_number->nb_bool) || (type->tp_as_mapping && type->tp_as_mapping->mp_length) ||
                (type->tp_as_sequence && type->tp_as_sequence->sq_length);
    return PyErr_Occurred() || (asks && !capture_may_read(c, o, "truth of")) ? -1 : PyObject_IsTrue(o);
}

PyObject *capture_iterator(capture *c, PyObject *o)
{
    PyObject *over, *made;
    if (face_is_tensor(o)) {
        over = capture_tensor_items(c, o);
    } else if (capture_method(o, "__iter__")) {
        over = special(c, o, "__iter__", NULL);
        if (over && capture_method(over, "__next__")) {
            Py_DECREF(over);
            return capture_unsupported("an iterator class, %s", Py_TYPE(o)->tp_name);
        }
    } else if (capture_method(o, "__getitem__") && !PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS)) {
        return capture_unsupported("iteration by __getitem__, %s", Py_TYPE(o)->tp_name);
    } else if (PyDict_Check(o) || capture_may_read(c, o, "iterating")) {
        if (PyType_Check(o) && !capture_is_enum((PyTypeObject *)o) && Py_TYPE(o) != &PyType_Type)
            return capture_unsupported("iteration over a class, %s", ((PyTypeObject *)o)->tp_name);
        over = capture_shadow(c, o, false);
    } else {
        return NULL;
    }
    made = over ? PyObject_GetIter(over) : NULL;
    Py_XDECREF(over);
    return made;
}
