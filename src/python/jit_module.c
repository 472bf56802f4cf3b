/* jit_module.c - ScriptFunction, ScriptMethod, and the C side of ScriptModule. */
#include "python/jit.h"

#include "jit/archive.h"
#include "jit/code.h"
#include "jit/run.h"

#include <structmember.h>

typedef struct function_object { PyObject_HEAD tp_jit_function *function; PyObject *dict; } function_object;   /* both counted */
typedef struct method_object { PyObject_HEAD tp_jit_function *function; tp_jit_module *module; } method_object;
typedef struct module_object { PyObject_HEAD tp_jit_module *module; } module_object;

tp_jit_module *face_jit_module_of(PyObject *o)
{
    return Py_IS_TYPE(o, face.jit_module) ? ((module_object *)o)->module : NULL;
}

tp_jit_function *face_jit_function_of(PyObject *o)
{
    return Py_IS_TYPE(o, face.jit_function) ? ((function_object *)o)->function
         : Py_IS_TYPE(o, face.jit_method) ? ((method_object *)o)->function : NULL;
}

/* ---- values ---- */
static bool to_items(PyObject *const *item, Py_ssize_t count, tp_tag tag, tp_value *out)
{
    tp_list *list = tp_list_new((size_t)count);
    if (!list)
        return face_raise(), false;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!face_jit_to_value(item[i], &list->item[i])) {
            tp_value_unref(tp_of_list(list));
            return false;
        }
    *out = (tp_value){ .tag = (uint8_t)tag, .list = list };
    return true;
}

static bool to_dict(PyObject *dict, tp_value *out)
{
    PyObject *key, *item;
    Py_ssize_t at = 0;
    uint32_t k = 0;
    tp_list *list = tp_list_new(2 * (size_t)PyDict_GET_SIZE(dict));
    if (!list)
        return face_raise(), false;
    while (PyDict_Next(dict, &at, &key, &item))
        if (!face_jit_to_value(key, &list->item[k++]) || !face_jit_to_value(item, &list->item[k++])) {
            tp_value_unref((tp_value){ .tag = TP_DICT, .list = list });
            return false;
        }
    *out = (tp_value){ .tag = TP_DICT, .list = list };
    return true;
}

bool face_jit_to_value(PyObject *o, tp_value *out)
{
    *out = tp_none();
    if (face_is_tensor(o)) {
        *out = tp_value_ref(tp_of_tensor(face_tensor(o)));
        return true;
    }
    if (o == Py_None)
        return true;
    if (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o)) {
        if (Py_EnterRecursiveCall(" in an argument of a traced function"))      /* it may hold itself */
            return false;
        bool ok = PyDict_Check(o) ? to_dict(o, out) : to_items(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o), PyList_Check(o) ? TP_LIST : TP_TUPLE, out);
        Py_LeaveRecursiveCall();
        return ok;
    }
    if (face_jit_module_of(o)) {
        *out = tp_value_ref(tp_jit_of_module(face_jit_module_of(o)));
        return true;
    }
    if (face_jit_function_of(o)) {
        *out = tp_value_ref(tp_jit_of_function(face_jit_function_of(o)));
        return true;
    }
    call_frame f;
    tp_value v;
    face_frame_init(&f);
    int got = face_guess_value(&f, o, &v);
    if (got > 0)
        *out = tp_value_ref(v);
    face_frame_fini(&f);
    if (!got && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "a %s cannot be given to a traced function", Py_TYPE(o)->tp_name);
    return got > 0;
}

static PyObject *from_items(tp_value v)
{
    uint32_t count = v.list->count;
    PyObject *made = v.tag == TP_TUPLE ? PyTuple_New(count) : PyList_New(count);
    for (uint32_t i = 0; made && i < count; i++) {
        PyObject *item = face_jit_from_value(tp_value_ref(v.list->item[i]));
        if (!item)
            Py_CLEAR(made);
        else if (v.tag == TP_TUPLE)
            PyTuple_SET_ITEM(made, i, item);
        else
            PyList_SET_ITEM(made, i, item);
    }
    return made;
}

static PyObject *from_dict(tp_value v)
{
    PyObject *made = PyDict_New();
    for (uint32_t i = 0; made && i + 1 < v.list->count; i += 2) {
        PyObject *key = face_jit_from_value(tp_value_ref(v.list->item[i]));
        PyObject *item = face_jit_from_value(tp_value_ref(v.list->item[i + 1]));
        if (!key || !item || PyDict_SetItem(made, key, item) < 0)
            Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(item);
    }
    return made;
}

PyObject *face_jit_from_value(tp_value v)
{
    PyObject *made;
    if (v.tag == TP_LIST || v.tag == TP_TUPLE)
        made = from_items(v);
    else if (v.tag == TP_DICT)
        made = from_dict(v);
    else if (tp_jit_as_module(v))
        made = face_jit_module(tp_jit_as_module(v));
    else if (tp_jit_as_function(v))
        made = face_jit_function(tp_jit_as_function(v));
    else
        return face_from_value(v);
    tp_value_unref(v);
    return made;
}

/* ---- declarations ---- */
/* "f(Tensor x, int[] y) -> Tensor", as errors quote it. */
static void print_declaration(const tp_jit_function *f, tp_text *out)
{
    const char *between = "";
    tp_text_add(out, "%s(", f->name);
    tp_graph_each(f->graph, n) {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        tp_jit_type *erased = tp_jit_type_erase(tp_jit_type_of(n));
        tp_text_add(out, "%s", between);
        if (erased)
            tp_jit_type_print(erased, out);
        tp_text_add(out, " %s", n->target.name);
        tp_jit_type_unref(erased);
        between = ", ";
    }
    const tp_node *output = tp_graph_output_node(f->graph);
    const tp_node *result = output ? tp_as_node(output->arg[0]) : NULL;
    tp_jit_type *erased = result ? tp_jit_type_erase(tp_jit_type_of(result)) : NULL;
    tp_text_add(out, ") -> ");
    if (erased)
        tp_jit_type_print(erased, out);
    tp_jit_type_unref(erased);
}

static PyObject *raise_call(const tp_jit_function *f, const char *problem)
{
    tp_text text = { 0 };
    tp_text_add(&text, "%s() %s Declaration: ", f->name, problem);
    print_declaration(f, &text);
    PyErr_SetString(PyExc_RuntimeError, tp_text_read(&text));
    tp_text_fini(&text);
    return NULL;
}

/* Does a value fit the declared type? Sizes and dtypes are those of the example and do not bind. */
static bool fits(tp_value v, const tp_jit_type *t)
{
    switch ((tp_jit_kind)t->kind) {
    case TP_JIT_TENSOR:
    case TP_JIT_ANY_TENSOR: return v.tag == TP_TENSOR;
    case TP_JIT_INT: return v.tag == TP_INT || v.tag == TP_DTYPE_VALUE;
    case TP_JIT_FLOAT: return v.tag == TP_FLOAT || v.tag == TP_INT;
    case TP_JIT_BOOL: return v.tag == TP_BOOL;
    case TP_JIT_STR: return v.tag == TP_STRING;
    case TP_JIT_NUMBER: return tp_is_number(v);
    case TP_JIT_NONE: return v.tag == TP_NONE;
    case TP_JIT_OPTIONAL: return v.tag == TP_NONE || fits(v, t->part[0].type);
    case TP_JIT_TUPLE:
        if ((v.tag != TP_TUPLE && v.tag != TP_LIST) || v.list->count != t->count)
            return false;
        for (uint32_t i = 0; i < t->count; i++)
            if (!fits(v.list->item[i], t->part[i].type))
                return false;
        return true;
    case TP_JIT_LIST:
    case TP_JIT_DICT:
        if (t->kind == TP_JIT_DICT ? v.tag != TP_DICT : v.tag != TP_TUPLE && v.tag != TP_LIST)
            return false;
        for (uint32_t i = 0; i < v.list->count; i++)
            if (!fits(v.list->item[i], t->part[t->kind == TP_JIT_DICT ? i & 1 : 0].type))
                return false;
        return true;
    default: return true;
    }
}

static PyObject *raise_misfit(const tp_jit_function *f, const tp_node *input, uint32_t position, PyObject *given)
{
    tp_text type = { 0 }, declared = { 0 };
    tp_jit_type_print_python(tp_jit_type_of(input), &type);
    print_declaration(f, &declared);
    const char *found = face_is_tensor(given) ? "Tensor" : Py_TYPE(given)->tp_name;
    PyErr_Format(PyExc_RuntimeError, "%s() Expected a value of type '%s' for argument '%s' but instead found type '%s'.\nPosition: %u\nValue: %R\n"
                 "Declaration: %s\nCast error details: Unable to cast %S to %s", f->name, tp_text_read(&type), input->target.name, found,
                 position, given, tp_text_read(&declared), given, tp_text_read(&type));
    tp_text_fini(&type);
    tp_text_fini(&declared);
    return NULL;
}

/* ---- calls ---- */
enum { MOST_ARGS = 64 };

/* Keyword arguments go to the inputs of their names. Fills `given` with borrowed objects. */
static bool bind(const tp_jit_function *f, PyObject *args, PyObject *kwargs, PyObject **given, uint32_t *count)
{
    uint32_t at = 0, used = 0;
    Py_ssize_t positional = PyTuple_GET_SIZE(args);
    char problem[256];
    bool self = f->method;
    tp_graph_each(f->graph, n) {
        if (n->kind != TP_PLACEHOLDER)
            continue;
        if (self) {
            self = false;
            continue;
        }
        if (at == MOST_ARGS)
            return raise_call(f, "has too many arguments."), false;
        given[at] = at < positional ? PyTuple_GET_ITEM(args, at) : kwargs ? PyDict_GetItemString(kwargs, n->target.name) : NULL;
        if (!given[at]) {
            snprintf(problem, sizeof problem, "is missing value for argument '%s'.", n->target.name);
            return raise_call(f, problem), false;
        }
        used += at >= positional;
        at++;
    }
    *count = at;
    if (positional > at) {
        snprintf(problem, sizeof problem, "expected at most %u argument(s) but received %zd argument(s).", at + f->method, positional + f->method);
        return raise_call(f, problem), false;
    }
    if (kwargs && PyDict_GET_SIZE(kwargs) > used) {
        PyObject *key = NULL, *item;
        Py_ssize_t place = 0;
        const char *name = "";
        while (PyDict_Next(kwargs, &place, &key, &item)) {
            bool known = false;
            if (!PyUnicode_Check(key))
                return PyErr_Format(PyExc_TypeError, "keywords must be strings"), false;
            if (!(name = PyUnicode_AsUTF8(key)))
                return false;
            tp_graph_each(f->graph, n)
                known = known || (n->kind == TP_PLACEHOLDER && strcmp(n->target.name, name) == 0);
            if (!known)
                break;
        }
        snprintf(problem, sizeof problem, "Unknown keyword argument '%s'.", name);
        return raise_call(f, problem), false;
    }
    return true;
}

static PyObject *call(tp_jit_function *f, tp_jit_module *module, PyObject *args, PyObject *kwargs)
{
    PyObject *given[MOST_ARGS + 1];
    tp_value arg[MOST_ARGS + 1], result;
    uint32_t count, done = 0, first = module ? 1 : 0;
    if (!bind(f, args, kwargs, given, &count))
        return NULL;
    if (module)
        arg[done++] = tp_value_ref(tp_jit_of_module(module));
    bool ok = true;
    uint32_t input = 0;
    tp_graph_each(f->graph, n) {
        if (n->kind != TP_PLACEHOLDER || (input++ == 0 && module))
            continue;
        if (!(ok = face_jit_to_value(given[done - first], &arg[done])))
            break;
        if (!(ok = fits(arg[done++], tp_jit_type_of(n)))) {
            raise_misfit(f, n, done - 1, given[done - 1 - first]);
            break;
        }
    }
    PyObject *made = NULL;
    tp_jit_trace *t = ok ? tp_jit_trace_current() : NULL;
    if (t)
        made = face_jit_traced_call(t, f, module, arg, done);
    else if (ok)
        made = tp_jit_run(f, arg, done, &result) ? face_jit_from_value(result) : face_raise();
    tp_values_unref(arg, done);
    return made;
}

/* ---- what functions and methods share ---- */
static PyObject *text_of(const tp_jit_function *f, bool code)
{
    tp_text text = { 0 };
    if (!code)
        print_declaration(f, &text);
    else if (!tp_jit_code_function(f, &text)) {
        tp_text_fini(&text);
        return face_raise();
    }
    return face_jit_text(&text);
}

static PyObject *get_graph(PyObject *self, void *unused) { (void)unused; return face_jit_graph(face_jit_function_of(self)->graph); }
static PyObject *get_code(PyObject *self, void *unused) { (void)unused; return text_of(face_jit_function_of(self), true); }
static PyObject *get_schema(PyObject *self, void *unused) { (void)unused; return text_of(face_jit_function_of(self), false); }
static PyObject *get_name(PyObject *self, void *unused) { (void)unused; return PyUnicode_FromString(face_jit_function_of(self)->name); }

static PyObject *get_qualified_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromFormat("__torch__.%s", face_jit_function_of(self)->name);
}

static PyObject *get_inlined(PyObject *self, void *unused)
{
    (void)unused;
    tp_jit_module *m = Py_IS_TYPE(self, face.jit_method) ? ((method_object *)self)->module : NULL;
    tp_graph *made = tp_jit_inline(face_jit_function_of(self)->graph, m);
    PyObject *view = made ? face_jit_graph(made) : face_raise();
    tp_graph_unref(made);
    return view;
}

static PyGetSetDef attributes[] = {
    { "graph", get_graph, NULL, NULL, NULL }, { "code", get_code, NULL, NULL, NULL }, { "schema", get_schema, NULL, NULL, NULL },
    { "name", get_name, NULL, NULL, NULL }, { "__name__", get_name, NULL, NULL, NULL }, { "inlined_graph", get_inlined, NULL, NULL, NULL },
    { "qualified_name", get_qualified_name, NULL, NULL, NULL }, { 0 },
};

/* A function of the Python package jit, called with self and the arguments. */
static PyObject *call_package(const char *name, PyObject *self, PyObject *args, PyObject *kwargs)
{
    char package[96];
    PyOS_snprintf(package, sizeof package, "%s.jit", face.package);
    PyObject *jit = PyImport_ImportModule(package), *function = jit ? PyObject_GetAttrString(jit, name) : NULL;
    PyObject *first = PyTuple_Pack(1, self), *all = first ? PySequence_Concat(first, args) : NULL;
    PyObject *made = function && all ? PyObject_Call(function, all, kwargs) : NULL;
    Py_XDECREF(jit);
    Py_XDECREF(function);
    Py_XDECREF(first);
    Py_XDECREF(all);
    return made;
}

static PyObject *function_save(PyObject *self, PyObject *args, PyObject *kwargs) { return call_package("save", self, args, kwargs); }
static PyObject *function_graph_for(PyObject *self, PyObject *args, PyObject *kwargs) { return call_package("_graph_for", self, args, kwargs); }

static PyMethodDef function_methods[] = {
    { "save", (PyCFunction)(void (*)(void))function_save, METH_VARARGS | METH_KEYWORDS, NULL },
    { "graph_for", (PyCFunction)(void (*)(void))function_graph_for, METH_VARARGS | METH_KEYWORDS, NULL }, { 0 },
};

/* ---- ScriptFunction ---- */
PyObject *face_jit_function(tp_jit_function *f)
{
    function_object *made = (function_object *)face.jit_function->tp_alloc(face.jit_function, 0);
    if (made)
        made->function = tp_jit_function_ref(f);
    return (PyObject *)made;
}

static void function_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_jit_function_unref(((function_object *)self)->function);
    Py_CLEAR(((function_object *)self)->dict);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *function_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return call(((function_object *)self)->function, NULL, args, kwargs);
}

static PyMemberDef function_members[] = { { "__dictoffset__", T_PYSSIZET, offsetof(function_object, dict), READONLY, NULL }, { 0 } };
static PyType_Slot function_slots[] = {
    { Py_tp_dealloc, function_dealloc }, { Py_tp_call, function_call }, { Py_tp_getset, attributes }, { Py_tp_methods, function_methods },
    { Py_tp_members, function_members }, { 0, NULL },
};
static PyType_Spec function_spec = { .name = "jit.ScriptFunction", .basicsize = sizeof(function_object), .slots = function_slots,
                                     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* ---- ScriptMethod ---- */
static PyObject *method_new(tp_jit_function *f, tp_jit_module *m)
{
    method_object *made = (method_object *)face.jit_method->tp_alloc(face.jit_method, 0);
    if (made) {
        made->function = tp_jit_function_ref(f);
        made->module = m;
        tp_count_up(&m->handle.refs);
    }
    return (PyObject *)made;
}

static void method_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_jit_function_unref(((method_object *)self)->function);
    tp_jit_module_unref(((method_object *)self)->module);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *method_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return call(((method_object *)self)->function, ((method_object *)self)->module, args, kwargs);
}

static PyObject *method_owner(PyObject *self, void *unused)
{
    (void)unused;
    return face_jit_module(((method_object *)self)->module);
}

static PyMethodDef method_methods[] = {
    { "graph_for", (PyCFunction)(void (*)(void))function_graph_for, METH_VARARGS | METH_KEYWORDS, NULL }, { 0 },
};
static PyGetSetDef method_attributes[] = {
    { "graph", get_graph, NULL, NULL, NULL }, { "code", get_code, NULL, NULL, NULL }, { "schema", get_schema, NULL, NULL, NULL },
    { "name", get_name, NULL, NULL, NULL }, { "__name__", get_name, NULL, NULL, NULL }, { "inlined_graph", get_inlined, NULL, NULL, NULL },
    { "owner", method_owner, NULL, NULL, NULL }, { 0 },
};
static PyType_Slot method_slots[] = {
    { Py_tp_dealloc, method_dealloc }, { Py_tp_call, method_call }, { Py_tp_getset, method_attributes }, { Py_tp_methods, method_methods }, { 0, NULL },
};
static PyType_Spec method_spec = { .name = "ScriptMethod", .basicsize = sizeof(method_object), .slots = method_slots,
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION };

/* ---- the C side of a module ---- */
PyObject *face_jit_module(tp_jit_module *m)
{
    module_object *made = (module_object *)face.jit_module->tp_alloc(face.jit_module, 0);
    if (made) {
        made->module = m;
        tp_count_up(&m->handle.refs);
    }
    return (PyObject *)made;
}

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *name;
    if (kwargs && PyDict_GET_SIZE(kwargs))
        return PyErr_Format(PyExc_TypeError, "ScriptModule() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "s", &name))
        return NULL;
    tp_jit_module *m = tp_jit_module_new(name);
    PyObject *made = m ? face_jit_module(m) : face_raise();
    (void)type;
    tp_jit_module_unref(m);
    return made;
}

static void module_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tp_jit_module_unref(((module_object *)self)->module);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *module_has_method(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    return text ? PyBool_FromLong(tp_jit_module_method(face_jit_module_of(self), text) != NULL) : NULL;
}

static PyObject *module_method_names(PyObject *self, PyObject *unused)
{
    const tp_jit_module *m = face_jit_module_of(self);
    PyObject *list = PyList_New((Py_ssize_t)m->method.count);
    (void)unused;
    for (size_t i = 0; list && i < m->method.count; i++)
        PyList_SET_ITEM(list, (Py_ssize_t)i, PyUnicode_FromString(m->method.item[i]->name));
    return list;
}

static PyObject *module_get_method(PyObject *self, PyObject *name)
{
    tp_jit_module *m = face_jit_module_of(self);
    const char *text = PyUnicode_AsUTF8(name);
    tp_jit_function *f = text ? tp_jit_module_method(m, text) : NULL;
    if (!f && text)
        return PyErr_Format(PyExc_AttributeError, "Method '%s' is not defined.", text);
    return f ? method_new(f, m) : NULL;
}

static PyObject *list_slots(const tp_jit_module *m, bool modules)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < m->slot.count; i++) {
        const tp_jit_slot *s = &m->slot.item[i];
        if (s->role == TP_JIT_MODULE && !modules)
            continue;
        PyObject *value = face_jit_from_value(tp_value_ref(s->value));
        PyObject *row = value ? Py_BuildValue("siN", s->name, s->role, value) : NULL;
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* _slots(): [(name, role, value)]; role 0 parameter, 1 buffer, 2 module, 3 attribute. _members(): those that are no modules. */
static PyObject *module_list_slots(PyObject *self, PyObject *unused) { (void)unused; return list_slots(face_jit_module_of(self), true); }
static PyObject *module_list_members(PyObject *self, PyObject *unused) { (void)unused; return list_slots(face_jit_module_of(self), false); }

static PyObject *module_set(PyObject *self, PyObject *args)
{
    const char *name;
    int role;
    PyObject *value;
    tp_value v;
    if (!PyArg_ParseTuple(args, "siO", &name, &role, &value) || !face_jit_to_value(value, &v))
        return NULL;
    bool ok = tp_jit_module_set(face_jit_module_of(self), name, (tp_jit_role)role, v);
    tp_value_unref(v);
    return ok ? Py_NewRef(Py_None) : face_raise();
}

static PyObject *module_define(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *graph;
    if (!PyArg_ParseTuple(args, "sO", &name, &graph) || !face_jit_graph_of(graph))
        return NULL;
    tp_jit_function *f = tp_jit_function_new(name, face_jit_graph_of(graph), true);
    bool ok = f && tp_jit_module_define(face_jit_module_of(self), f);
    tp_jit_function_unref(f);
    return ok ? Py_NewRef(Py_None) : face_raise();
}

static PyObject *module_type(PyObject *self, PyObject *unused)
{
    (void)unused;
    return face_jit_type(face_jit_module_of(self)->type);
}

static PyObject *module_compare(PyObject *a, PyObject *b, int op)
{
    if (!Py_IS_TYPE(b, Py_TYPE(a)) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((face_jit_module_of(a) == face_jit_module_of(b)) == (op == Py_EQ));
}

static Py_hash_t module_hash(PyObject *self)
{
    return _Py_HashPointer(face_jit_module_of(self));
}

static PyMethodDef module_methods[] = {
    { "_has_method", module_has_method, METH_O, NULL }, { "_method_names", module_method_names, METH_NOARGS, NULL },
    { "_get_method", module_get_method, METH_O, NULL }, { "_slots", module_list_slots, METH_NOARGS, NULL },
    { "_members", module_list_members, METH_NOARGS, NULL }, { "_set", module_set, METH_VARARGS, NULL }, { "_define", module_define, METH_VARARGS, NULL },
    { "_type", module_type, METH_NOARGS, NULL }, { 0 },
};
static PyType_Slot module_slots[] = {
    { Py_tp_dealloc, module_dealloc }, { Py_tp_new, module_new }, { Py_tp_methods, module_methods }, { Py_tp_richcompare, module_compare },
    { Py_tp_hash, module_hash }, { 0, NULL },
};
static PyType_Spec module_spec = { .name = "ScriptModule", .basicsize = sizeof(module_object), .slots = module_slots,
                                   .flags = Py_TPFLAGS_DEFAULT };

/* ---- functions ---- */
static PyObject *create_function(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *graph;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO", &name, &graph) || !face_jit_graph_of(graph))
        return NULL;
    tp_jit_function *f = tp_jit_function_new(name, face_jit_graph_of(graph), false);
    PyObject *made = f ? face_jit_function(f) : face_raise();
    tp_jit_function_unref(f);
    return made;
}

static bool sink_write(void *to, const void *bytes, size_t count)
{
    PyObject *data = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)count), *done = data ? PyObject_CallMethod(to, "write", "O", data) : NULL;
    Py_XDECREF(data);
    Py_XDECREF(done);
    return done || face_foreign();
}

/* `path` is bytes, or NULL: then `file` takes what is written. */
static PyObject *save_to(PyObject *what, PyObject *path, PyObject *file, const char *root)
{
    tp_jit_function *f = face_jit_function_of(what);
    tp_jit_module *m = face_jit_module_of(what), *made = NULL;
    if (!m && !f)
        return PyErr_Format(PyExc_TypeError, "a ScriptModule or ScriptFunction is needed, not %s", Py_TYPE(what)->tp_name);
    if (!m && !(m = made = tp_jit_module_of_function(f)))
        return face_raise();
    tp_zip_writer *w = path ? tp_zip_writer_new_file(root, PyBytes_AS_STRING(path)) : tp_zip_writer_new(root, sink_write, file);
    bool ok = w && tp_jit_save(w, m) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    tp_jit_module_unref(made);
    return ok ? Py_NewRef(Py_None) : face_raise();
}

/* _jit_save(module or function, path or file, root folder) */
static PyObject *save(PyObject *unused, PyObject *args)
{
    PyObject *what, *file, *path = NULL;
    const char *root;
    (void)unused;
    if (!PyArg_ParseTuple(args, "OOs", &what, &file, &root) || (PyUnicode_Check(file) && !PyUnicode_FSConverter(file, &path)))
        return NULL;
    PyObject *done = save_to(what, path, file, root);
    Py_XDECREF(path);
    return done;
}

static void drop_bytes(void *owner) { Py_DECREF((PyObject *)owner); }

/* _jit_load(path or bytes) -> C module */
static PyObject *load(PyObject *unused, PyObject *file)
{
    PyObject *path = NULL;
    (void)unused;
    if (!PyBytes_Check(file) && !PyUnicode_FSConverter(file, &path))
        return NULL;
    tp_zip *z = path ? tp_zip_open(PyBytes_AS_STRING(path), 0)
                     : tp_zip_open_memory(PyBytes_AS_STRING(file), (size_t)PyBytes_GET_SIZE(file), 0, Py_NewRef(file), drop_bytes);
    Py_XDECREF(path);
    if (!z)
        return face_raise();
    tp_jit_module *m = tp_jit_load(z);
    PyObject *made = m ? face_jit_module(m) : face_raise();
    tp_jit_module_unref(m);
    tp_zip_unref(z);
    return made;
}

static PyMethodDef functions[] = {
    { "_jit_save", save, METH_VARARGS, NULL }, { "_jit_load", load, METH_O, NULL },
    { "_create_function_from_graph", create_function, METH_VARARGS, NULL }, { 0 },
};

bool face_jit_module_init(PyObject *module)
{
    return (face.jit_function = face_make_type(module, &function_spec, NULL)) && (face.jit_method = face_make_type(module, &method_spec, NULL)) &&
           (face.jit_module = face_make_type(module, &module_spec, NULL)) && PyModule_AddFunctions(module, functions) == 0;
}
