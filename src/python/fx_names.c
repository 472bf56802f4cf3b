/* fx_names.c - what generated code calls things: functions, classes and annotations.
 *
 * What the package has is reached through the global name `torch`, whatever the package is loaded as; anything else
 * gets a global of its own, named after its module: math.sqrt is math_sqrt. */
#include <string.h>

#include "python/fx.h"

static PyObject *text_attribute(PyObject *o, const char *name)
{
    PyObject *text = PyObject_GetAttrString(o, name);
    if (text && !PyUnicode_Check(text))
        Py_CLEAR(text);
    if (!text)
        PyErr_Clear();
    return text;
}

static PyObject *package_module(void)
{
    return PyImport_ImportModule(face.package);
}

/* Is it that attribute of the module or class? */
static bool found_in(PyObject *place, const char *name, PyObject *o)
{
    PyObject *found = place && name ? PyObject_GetAttrString(place, name) : NULL;
    bool same = found == o;
    PyErr_Clear();
    Py_XDECREF(found);
    return same;
}

/* "torch.nn.functional" of "taper.nn.functional"; other names as they are. */
static PyObject *as_torch(PyObject *module)
{
    const char *name = PyUnicode_AsUTF8(module);
    size_t length = strlen(face.package);
    if (name && strncmp(name, face.package, length) == 0 && (name[length] == '.' || !name[length])) {
        const char *rest = name + length;
        if (strncmp(rest, "._ops", 5) == 0)
            return PyUnicode_FromFormat("torch.ops%s", rest + 5);
        return PyUnicode_FromFormat("torch%s", rest);
    }
    return Py_NewRef(module);
}

/* Methods of builtin classes name their class: torch.Tensor.add. */
static PyObject *method_name(PyObject *o, PyObject *name)
{
    PyObject *owner = PyObject_GetAttrString(o, "__objclass__");
    PyErr_Clear();
    PyObject *result = NULL;
    if (owner && PyType_Check(owner) && PyType_IsSubtype((PyTypeObject *)face.tensor, (PyTypeObject *)owner)) {
        result = PyUnicode_FromFormat("torch.Tensor.%U", name);
    } else if (owner) {
        PyObject *module = text_attribute(owner, "__module__"), *title = text_attribute(owner, "__qualname__");
        if (module && title)
            result = PyUnicode_FromFormat("%U.%U.%U", module, title, name);
        Py_XDECREF(module);
        Py_XDECREF(title);
    }
    Py_XDECREF(owner);
    return result;
}

/* A function that is written in torch.functional goes by that name, though the root has it too. */
static bool is_functional(PyObject *o, PyObject *module)
{
    const char *text = module && PyFunction_Check(o) ? PyUnicode_AsUTF8(module) : NULL;
    size_t length = strlen(face.package);
    return text && strncmp(text, face.package, length) == 0 && strcmp(text + length, ".functional") == 0;
}

PyObject *fx_qualified_name(PyObject *o)
{
    const tp_op *op = face_overload_op(o);
    if (op)
        return PyUnicode_FromFormat("torch.ops.%s.%s.%s", op->space, op->name,
                                    *op->overload ? op->overload : "default");
    PyObject *name = text_attribute(o, "__name__"), *module = text_attribute(o, "__module__"), *result = NULL;
    PyObject *package = name ? package_module() : NULL;
    if (!name) {
        PyErr_Format(PyExc_RuntimeError, "cannot find the name of %R", o);
    } else if (!is_functional(o, module) && found_in(package, PyUnicode_AsUTF8(name), o)) {
        result = PyUnicode_FromFormat("torch.%U", name);
    } else if (!(result = method_name(o, name)) && !PyErr_Occurred()) {
        PyObject *place = module ? as_torch(module) : NULL;
        if (place)
            result = PyUnicode_FromFormat("%U.%U", place, name);
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_RuntimeError, "cannot find module for %R", o);
        Py_XDECREF(place);
    }
    Py_XDECREF(package);
    Py_XDECREF(name);
    Py_XDECREF(module);
    return result;
}

bool fx_from_package(PyObject *o)
{
    if (face_overload_op(o))
        return true;
    PyObject *module = text_attribute(o, "__module__"), *name = text_attribute(o, "__name__");
    const char *text = module ? PyUnicode_AsUTF8(module) : NULL;
    size_t length = strlen(face.package);
    /* methods are reached by a global of their own */
    PyObject *owner = PyObject_GetAttrString(o, "__objclass__");
    PyErr_Clear();
    bool inside = text && !owner && strncmp(text, face.package, length) == 0 && (text[length] == '.' || !text[length]);
    if (!inside && name && !owner) {
        PyObject *package = package_module();
        inside = found_in(package, PyUnicode_AsUTF8(name), o);
        Py_XDECREF(package);
    }
    PyErr_Clear();
    Py_XDECREF(owner);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return inside;
}

/* Each run of what no name can have becomes one underscore; one stands before a digit, too. */
static PyObject *legal_name(PyObject *hint)
{
    const char *text = PyUnicode_AsUTF8(hint);
    PyObject *bytes = text ? PyBytes_FromFormat("_%s", text) : NULL;
    if (!bytes)
        return NULL;
    char *to = PyBytes_AS_STRING(bytes) + (Py_ISDIGIT((unsigned char)*text) ? 1 : 0);
    bool legal = true;
    for (const char *c = text; *c; c++) {
        bool before = legal;
        legal = (unsigned char)*c < 128 && (Py_ISALNUM((unsigned char)*c) || *c == '_');
        if (legal || before)
            *to++ = legal ? *c : '_';
    }
    *to = 0;
    PyObject *name = PyUnicode_FromString(PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return name;
}

PyObject *fx_add_global(PyObject *globals, PyObject *hint, PyObject *o)
{
    if (o != (PyObject *)face.device && fx_from_package(o))
        return fx_qualified_name(o);
    PyErr_Clear();
    PyObject *stem = legal_name(hint), *name = Py_XNewRef(stem), *known_as, *value;
    Py_ssize_t at = 0;
    if (name && PyDict_GetItemWithError(globals, name) != o)
        while (PyDict_Next(globals, &at, &known_as, &value))
            if (value == o) {
                Py_DECREF(name);
                Py_DECREF(stem);
                return Py_NewRef(known_as);
            }
    for (int i = 1; name; i++) {
        PyObject *known = PyDict_GetItemWithError(globals, name);
        if (known == o || (!known && !PyErr_Occurred() && PyDict_SetItem(globals, name, o) == 0))
            break;
        if (PyErr_Occurred()) {
            Py_CLEAR(name);
            break;
        }
        Py_SETREF(name, PyUnicode_FromFormat("%U_%d", stem, i));
    }
    Py_XDECREF(stem);
    return name;
}

/* ---- annotations ---- */
static PyObject *class_name(PyObject *type)
{
    PyObject *module = text_attribute(type, "__module__"), *name = text_attribute(type, "__qualname__"), *result = NULL;
    if (name && (!module || PyUnicode_CompareWithASCIIString(module, "builtins") == 0))
        result = Py_NewRef(name);
    else if (name && type == (PyObject *)face.tensor)
        result = PyUnicode_FromString("torch.Tensor");
    else if (name && module) {
        PyObject *place = as_torch(module);
        result = place ? PyUnicode_FromFormat("%U.%U", place, name) : NULL;
        Py_XDECREF(place);
    }
    if (!result && !PyErr_Occurred())
        result = PyObject_Repr(type);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return result;
}

/* What a generic is made of: typing.List and its like, a class of the builtins or of collections; *name is how it is called. */
static PyObject *generic_origin(PyObject *type, PyObject **name)
{
    static const char *const own[] = { "List", "Dict", "Set", "FrozenSet", "Tuple" };
    PyObject *text = PyObject_Repr(type), *typing = PyImport_ImportModule("typing"), *origin = NULL;
    Py_ssize_t bracket = text ? PyUnicode_FindChar(text, '[', 0, PyUnicode_GET_LENGTH(text), 1) : -1;
    *name = text && typing ? PyUnicode_Substring(text, 0, bracket > 0 ? bracket : PyUnicode_GET_LENGTH(text)) : NULL;
    const char *bare = *name ? PyUnicode_AsUTF8(*name) : NULL;
    if (bare && strncmp(bare, "typing.", 7) == 0) {
        /* Optional[X] is Union[X, None] by its arguments, whatever its repr. */
        if (strcmp(bare, "typing.Optional") == 0)
            Py_SETREF(*name, PyUnicode_FromString("typing.Union"));
        bare = *name ? PyUnicode_AsUTF8(*name) : NULL;
        for (size_t i = 0; bare && !origin && i < TP_COUNT(own); i++)
            if (strcmp(bare + 7, own[i]) == 0)
                origin = PyObject_GetAttrString(typing, own[i]);
    }
    if (!origin && bare && (origin = PyObject_GetAttrString(type, "__origin__")) && PyType_Check(origin))
        Py_SETREF(*name, class_name(origin));
    Py_XDECREF(text);
    Py_XDECREF(typing);
    if (!*name)
        Py_CLEAR(origin);
    return origin;
}

/* typing_List[int]: the origin's name, then its arguments. */
static PyObject *generic_name(PyObject *type, PyObject *args, PyObject *globals, const char *separator)
{
    PyObject *list = PyList_New(0), *between = PyUnicode_FromString(separator);
    for (Py_ssize_t i = 0; list && i < PyTuple_GET_SIZE(args); i++) {
        PyObject *item = fx_type_name(PyTuple_GET_ITEM(args, i), globals);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    PyObject *joined = list && between ? PyUnicode_Join(between, list) : NULL, *result = NULL;
    if (joined && *separator == '|') {
        result = Py_NewRef(joined);
    } else if (joined) {
        PyObject *bare, *origin = generic_origin(type, &bare), *called = origin ? fx_add_global(globals, bare, origin) : NULL;
        if (called)
            result = PyTuple_GET_SIZE(args) ? PyUnicode_FromFormat("%U[%U]", called, joined) : Py_NewRef(called);
        Py_XDECREF(called);
        Py_XDECREF(origin);
        Py_XDECREF(bare);
    }
    Py_XDECREF(joined);
    Py_XDECREF(between);
    Py_XDECREF(list);
    return result;
}

PyObject *fx_type_name(PyObject *type, PyObject *globals)
{
    PyObject *args = PyObject_GetAttrString(type, "__args__");
    PyErr_Clear();
    bool generic = args && PyTuple_Check(args) && !PyType_Check(type);
    PyObject *result = NULL;
    if (generic && globals) {
        bool joined = strcmp(Py_TYPE(type)->tp_name, "types.UnionType") == 0;
        result = generic_name(type, args, globals, joined ? "|" : ",");
    } else {
        /* typing.Tuple without arguments is tuple. */
        PyObject *origin = globals && !PyType_Check(type) && !generic ? PyObject_GetAttrString(type, "__origin__") : NULL;
        PyErr_Clear();
        if (origin && PyType_Check(origin)) {
            Py_XDECREF(args);
            result = fx_type_name(origin, globals);
            Py_DECREF(origin);
            return result;
        }
        Py_XDECREF(origin);
        PyObject *hint = PyType_Check(type) ? class_name(type) : globals && type == Py_Ellipsis ? PyUnicode_FromString("...") : PyObject_Repr(type);
        if (hint && globals)
            result = fx_add_global(globals, hint, type);
        else
            result = Py_XNewRef(hint);
        Py_XDECREF(hint);
    }
    Py_XDECREF(args);
    return result;
}
