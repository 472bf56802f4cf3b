/* pure.c - the closed list: C code that a capture may run, and what may be shown to it.
 *
 * A capture does what C code does by having it done. That is right as long as the code only looks at its arguments, or
 * changes what the capture made itself. So functions, types and methods that a capture runs are named here, by what they do
 * with their arguments; all others give the capture up before anything happened. Objects from outside are shown to C code
 * only through their shadows (lists, tuples, dicts), or where their identity is all that matters, and then that is guarded. */
#include <string.h>

#include "python/capture/capture.h"

/* ---- the tables ---- */

/* Is the word one of those in the list, which are separated by blanks? */
static bool is_word_of(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; length && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

/* Functions that look at their arguments and give something new; no names: all of the module's. */
static const struct { const char *module, *names; } reading_functions[] = {
    { "math", NULL },
    { "cmath", NULL },
    { "builtins", "divmod pow round chr ord hex oct bin repr format hash ascii" },
    { "_functools", "reduce cmp_to_key" },
    { "_operator", "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor matmul neg pos invert abs not_ truth lt le eq ne gt ge is_ "
                   "is_not contains getitem index concat countOf indexOf length_hint" },
    { "_bisect", "bisect bisect_left bisect_right" },
    { "itertools", "tee" },
};

bool capture_function_reads(const char *module, const char *name)
{
    for (size_t i = 0; i < TP_COUNT(reading_functions); i++)
        if (!strcmp(module, reading_functions[i].module))
            return !reading_functions[i].names || is_word_of(reading_functions[i].names, name);
    return false;
}

/* Methods, by the class of C that an object's class is or derives from. Those in `reads` look, those in `writes` change the
 * object; no names: nothing can change such an object, all its methods look. Special methods common to all look, too. */
static const char any_reads[] = "__len__ __getitem__ __contains__ __iter__ __next__ __reversed__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __add__ "
                                "__radd__ __mul__ __rmul__ __sub__ __rsub__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ __bool__ __hash__ "
                                "__str__ __repr__ __format__ __new__ __class_getitem__ __length_hint__";
static const char any_writes[] = "__setitem__ __delitem__ __iadd__ __imul__ __ior__ __iand__ __isub__ __ixor__";

typedef struct method_row {
    const char *type, *reads, *writes;
} method_row;
static const method_row method_rows[] = {
    { "int", NULL, NULL }, { "float", NULL, NULL }, { "complex", NULL, NULL }, { "str", NULL, NULL }, { "bytes", NULL, NULL },
    { "range", NULL, NULL }, { "slice", NULL, NULL }, { "NoneType", NULL, NULL }, { "tuple", NULL, NULL }, { "frozenset", NULL, NULL },
    { "list", "copy count index", "append clear extend insert pop remove reverse sort __init__" },
    { "dict", "copy get items keys values fromkeys", "clear pop popitem setdefault update __init__" },
    { "set", "copy difference intersection union symmetric_difference isdisjoint issubset issuperset",
      "add clear discard pop remove update difference_update intersection_update symmetric_difference_update __init__" },
    { "dict_keys", "isdisjoint", "" }, { "dict_items", "isdisjoint", "" }, { "dict_values", "", "" },
    { "collections.deque", "copy count index", "append appendleft clear extend extendleft insert pop popleft remove reverse rotate __init__" },
    { "bytearray", "count endswith find hex index decode startswith split strip join lower upper isdigit copy",
      "append clear extend insert pop remove reverse __init__" },
    { "types.SimpleNamespace", "", "" },
    { "_io.StringIO", "getvalue readable writable seekable tell", "write writelines read readline readlines seek truncate __init__" },
    { "_io.BytesIO", "getvalue readable writable seekable tell", "write writelines read readline readlines seek truncate __init__" },
    { "BaseException", "with_traceback add_note __reduce__", "__init__" },
    { "list_iterator", "", "" }, { "tuple_iterator", "", "" }, { "dict_keyiterator", "", "" }, { "dict_valueiterator", "", "" },
    { "dict_itemiterator", "", "" }, { "set_iterator", "", "" }, { "range_iterator", "", "" }, { "str_iterator", "", "" },
    { "str_ascii_iterator", "", "" }, { "list_reverseiterator", "", "" }, { "enumerate", "", "" }, { "zip", "", "" }, { "map", "", "" },
    { "filter", "", "" }, { "reversed", "", "" }, { "itertools.chain", "from_iterable", "" },
};

static const method_row *row_of(PyTypeObject *type)
{
    for (; type; type = type->tp_base)
        for (size_t i = 0; !capture_is_python_class(type) && i < TP_COUNT(method_rows); i++)
            if (!strcmp(type->tp_name, method_rows[i].type))
                return &method_rows[i];
    return NULL;
}

capture_use capture_method_use(PyObject *self, const char *name)
{
    const method_row *row = row_of(PyType_Check(self) ? (PyTypeObject *)self : Py_TYPE(self));
    if (!row)
        return CAPTURE_USE_UNKNOWN;
    if (!row->reads || is_word_of(row->reads, name) || is_word_of(any_reads, name))
        return CAPTURE_USE_READS;
    return is_word_of(row->writes, name) || is_word_of(any_writes, name) ? CAPTURE_USE_WRITES : CAPTURE_USE_UNKNOWN;
}

/* Classes of C whose instances a capture may make: they hold what they are given and touch nothing else. */
static const char made_types[] =
    "object int float bool complex str bytes bytearray tuple list dict set frozenset range slice enumerate zip map filter reversed property staticmethod "
    "classmethod method super type collections.deque collections.defaultdict collections.OrderedDict types.SimpleNamespace _io.StringIO "
    "_io.BytesIO operator.itemgetter operator.attrgetter operator.methodcaller functools.partial itertools.accumulate itertools.chain "
    "itertools.combinations itertools.combinations_with_replacement itertools.compress itertools.count itertools.cycle "
    "itertools.dropwhile itertools.filterfalse itertools.groupby itertools.islice itertools.pairwise itertools.permutations "
    "itertools.product itertools.repeat itertools.starmap itertools.takewhile itertools.zip_longest";

bool capture_makes(PyTypeObject *type)
{
    while (capture_is_python_class(type))
        type = type->tp_base;
    return PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException) || is_word_of(made_types, type->tp_name) ||
           capture_trusts_class(type);
}

bool capture_keeps_arguments(PyTypeObject *type)
{
    bool named = capture_is_named_tuple(type);
    while (capture_is_python_class(type))
        type = type->tp_base;
    return named || type == &PyBaseObject_Type || PyType_IsSubtype(type, (PyTypeObject *)PyExc_BaseException) ||
           !strcmp(type->tp_name, "types.SimpleNamespace");
}

bool capture_iterates(const char *method)
{
    return is_word_of("extend extendleft update union intersection difference symmetric_difference intersection_update difference_update "
                      "symmetric_difference_update isdisjoint issubset issuperset writelines __init__ __add__ __radd__ __iadd__ __or__ __ror__ "
                      "__ior__ __and__ __rand__ __iand__ __sub__ __rsub__ __isub__ __xor__ __rxor__ __ixor__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__",
                      method);
}

/* Attributes of C objects that are kept in the object: read by path, and so guarded. */
static const struct { const char *type, *names; } fields[] = {
    { "function", "__name__ __qualname__ __module__ __doc__ __defaults__ __kwdefaults__ __code__ __annotations__" },
    { "functools.partial", "func args keywords" },
    { "staticmethod", "__func__" }, { "classmethod", "__func__" }, { "property", "fget fset fdel __doc__" },
    { "collections.deque", "maxlen" }, { "collections.defaultdict", "default_factory" },
    { "re.Pattern", "pattern flags groups" }, { "code", "co_name co_argcount co_flags co_firstlineno co_filename" },
    { "builtin_function_or_method", "__name__ __qualname__ __module__ __doc__" },
};

bool capture_is_field(PyTypeObject *type, const char *name)
{
    for (size_t i = 0; i < TP_COUNT(fields); i++)
        if (!strcmp(type->tp_name, fields[i].type))
            return is_word_of(fields[i].names, name);
    return false;
}

/* ---- classes ---- */

/* Made by a class statement: what it has can be exchanged, its methods are Python's. */
bool capture_is_python_class(PyTypeObject *type)
{
    return type->tp_flags & Py_TPFLAGS_HEAPTYPE && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
}

bool capture_trusts_class(PyTypeObject *type)
{
    PyObject *name = type->tp_flags & Py_TPFLAGS_HEAPTYPE ? PyDict_GetItemString(type->tp_dict, "__module__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    return text ? capture_is_package(text) : !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && capture_is_package(type->tp_name);
}

/* Members of an enumeration are what they are for good. */
bool capture_is_enum(PyTypeObject *type)
{
    for (PyTypeObject *meta = Py_TYPE(type); meta && meta != &PyType_Type; meta = meta->tp_base) {
        PyObject *module = PyDict_GetItemString(meta->tp_dict, "__module__");
        if (module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "enum") == 0)
            return true;
    }
    return false;
}

static bool derives_from(PyTypeObject *type, const char *name)
{
    for (; type; type = type->tp_base)
        if (!strcmp(type->tp_name, name))
            return true;
    return false;
}

/* A number of numpy's: immutable, compared by value. */
bool capture_is_numpy_number(PyObject *o)
{
    return derives_from(Py_TYPE(o), "numpy.generic");
}

/* What it holds belongs to the thread: no guard sees that another thread has something else. */
bool capture_is_thread_local(PyObject *o)
{
    return derives_from(Py_TYPE(o), "_thread._local");
}

/* Do comparing, hashing, printing or converting an instance run Python code? */
static bool runs_python(PyTypeObject *type)
{
    PyTypeObject *base = type;
    while (capture_is_python_class(base))
        base = base->tp_base;
    if (base == type)
        return false;
    const PyNumberMethods *n = type->tp_as_number, *m = base->tp_as_number;
    const PySequenceMethods *s = type->tp_as_sequence, *t = base->tp_as_sequence;
    bool same = type->tp_richcompare == base->tp_richcompare && type->tp_hash == base->tp_hash && type->tp_repr == base->tp_repr &&
                type->tp_str == base->tp_str && type->tp_iter == base->tp_iter;
    if (n)
        same &= n->nb_bool == (m ? m->nb_bool : NULL) && n->nb_int == (m ? m->nb_int : NULL) && n->nb_float == (m ? m->nb_float : NULL) &&
                n->nb_index == (m ? m->nb_index : NULL);
    if (s)
        same &= s->sq_length == (t ? t->sq_length : NULL) && s->sq_item == (t ? t->sq_item : NULL) && s->sq_contains == (t ? t->sq_contains : NULL);
    return !same;
}

bool capture_compares_by_identity(PyTypeObject *type)
{
    return type->tp_richcompare == PyBaseObject_Type.tp_richcompare || type == &PyType_Type;
}

/* ---- what C code may see ---- */
bool capture_is_modelled(PyObject *o)
{
    if (PyDict_CheckExact(o) || PyList_Check(o))
        return true;
    if (PyTuple_Check(o))           /* a shadow is of the same class: one whose making runs no code of the program's */
        return PyTuple_CheckExact(o) || capture_trusts_class(Py_TYPE(o)) || !capture_is_python_class(Py_TYPE(o)) || capture_is_named_tuple(Py_TYPE(o));
    return PyDict_Check(o) && !strcmp(Py_TYPE(o)->tp_name, "collections.OrderedDict");
}

bool capture_is_named_tuple(PyTypeObject *type)
{
    PyObject *new = PyDict_GetItemString(type->tp_dict, "__new__"), *made = new && Py_IS_TYPE(new, &PyStaticMethod_Type) ? PyObject_GetAttrString(new, "__func__") : NULL;
    PyObject *globals = made && PyFunction_Check(made) ? PyFunction_GET_GLOBALS(made) : NULL, *name = globals ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool yes = text && !strncmp(text, "namedtuple_", 11) && PyDict_GetItemString(type->tp_dict, "_make");
    Py_XDECREF(made);
    PyErr_Clear();
    return yes;
}

bool capture_pin(capture *c, PyObject *o)
{
    const record *r = capture_record(c, o);
    return !r || !r->outside || r->source == NO_SOURCE || tp_guard_add(c->sources, GUARD_ID, r->source, o, 0);
}

bool capture_may_read(capture *c, PyObject *o, const char *what)
{
    const record *r = capture_record(c, o);
    if (!r || !r->outside || capture_is_constant(o) || capture_is_modelled(o) || capture_is_fixed(o) || face_is_tensor(o) || capture_trusts_class(Py_TYPE(o)))
        return true;
    if (capture_is_enum(Py_TYPE(o)) || capture_is_numpy_number(o))
        return capture_pin(c, o);
    return capture_unsupported("%s an object from outside that has no model, a %s", what, Py_TYPE(o)->tp_name);
}

/* Classes of C whose instances hold no objects. */
static bool is_data(PyTypeObject *type)
{
    return type->tp_as_buffer || is_word_of("decimal.Decimal datetime.date datetime.datetime datetime.timedelta", type->tp_name) || derives_from(type, "numpy.generic");
}

PyObject *capture_key(capture *c, PyObject *o)
{
    PyObject *key = PyTuple_Check(o) ? capture_inside(c, o) : Py_NewRef(o);
    if (key && !capture_sees(c, key, CAPTURE_SEES_KEYS))
        Py_CLEAR(key);
    return key;
}

static bool sees(capture *c, PyObject *o, capture_sight sight, int depth)
{
    if (face_is_tensor(o))
        return sight == CAPTURE_SEES_KEYS || capture_unsupported("an operation of Python's on the value of a tensor");
    if (capture_is_constant(o) || capture_is_fixed(o) || depth > 100)
        return depth <= 100 || capture_unsupported("a container that is too deep");
    PyTypeObject *type = Py_TYPE(o);
    if (PySlice_Check(o)) {
        const PySliceObject *s = (PySliceObject *)o;
        return sees(c, s->start, CAPTURE_SEES_ALL, depth + 1) && sees(c, s->stop, CAPTURE_SEES_ALL, depth + 1) &&
               sees(c, s->step, CAPTURE_SEES_ALL, depth + 1) && capture_may_read(c, o, "an item by");
    }
    if (capture_is_enum(type))
        return capture_pin(c, o);
    bool itself = type->tp_richcompare == PyBaseObject_Type.tp_richcompare && type->tp_hash == PyBaseObject_Type.tp_hash;
    if (itself && (sight == CAPTURE_SEES_KEYS || (capture_is_python_class(type) && !runs_python(type) && !capture_is_modelled(o))))
        return capture_pin(c, o);
    if (!capture_may_read(c, o, "reading"))
        return false;
    if (capture_is_outside(c, o) && !capture_trusts_class(type))            /* in a container of C that has no shadow: as it really is */
        return capture_unsupported("reading an object from outside, a %s, that C code holds", type->tp_name);
    bool exception = PyExceptionInstance_Check(o);
    if (exception && !sees(c, ((PyBaseExceptionObject *)o)->args, sight, depth + 1))
        return false;
    bool known = exception || PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || PyByteArray_Check(o);
    if (!known && !capture_is_python_class(type) && !capture_trusts_class(type) && !is_data(type))
        return capture_unsupported("reading a %s in C code", type->tp_name);
    if (runs_python(type) && !capture_trusts_class(type) && !(PyTuple_Check(o) && capture_is_named_tuple(type)))
        return capture_unsupported("an object whose class, %s, has special methods, in the hands of C code", type->tp_name);
    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            if (!sees(c, PySequence_Fast_GET_ITEM(o, i), sight, depth + 1))
                return false;
    } else if (PyDict_Check(o)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value))
            if (!sees(c, key, sight, depth + 1) || !sees(c, value, sight, depth + 1))
                return false;
    } else if (PyAnySet_Check(o)) {
        Py_ssize_t at = 0;
        PyObject *key;
        Py_hash_t hash;
        while (_PySet_NextEntry(o, &at, &key, &hash))
            if (!sees(c, key, sight, depth + 1))
                return false;
    }
    return true;
}

bool capture_sees(capture *c, PyObject *o, capture_sight sight)
{
    return sees(c, o, sight, 0);
}
