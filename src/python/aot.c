/* aot.c - compiled functions: a Python callable studied and traced at its first call, then run by aot/wrapper.h.
 *
 *     f = _AotFunction(function, driver, leading)         f(*args, **kwargs)
 *
 * The driver is the package's: it makes fake inputs, GraphModules and calls the user's compilers. Here trees are flattened,
 * the function is called while it is studied and traced, and what the compilers gave is wrapped for the engine. `leading`
 * are tensors that stand before the arguments of each call (the parameters of a module).
 *
 * The function is compiled once, for the arguments of its first call, as aot_function promises. */
#include "aot/trace.h"
#include "base/alloc.h"
#include "python/aot.h"
#include "python/fx.h"
#include "python/pytree.h"

#include <structmember.h>

enum { FEW = 32 };

/* ---- calling ---- */
static PyObject *result_object(const aot_object *self, const tp_value *out)
{
    uint32_t count = self->compiled->facts.output_count;
    const spec_object *spec = (const spec_object *)self->out_spec;
    if (spec->kind == TREE_LEAF)
        return aot_from_value(out[0]);
    PyObject *leaves = aot_list_of(out, count), *whole = leaves;
    bool plain = spec->kind == TREE_LIST || spec->kind == TREE_TUPLE;
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(spec->children); i++)
        plain = ((spec_object *)PyTuple_GET_ITEM(spec->children, i))->kind == TREE_LEAF;
    if (leaves && !(plain && spec->kind == TREE_LIST)) {
        whole = plain ? PyList_AsTuple(leaves) : face_tree_unflatten(self->out_spec, leaves);
        Py_DECREF(leaves);
    }
    return whole;
}

static bool check_same(const aot_object *self, const tp_value *in, uint32_t at, tp_value v, uint32_t leaf)
{
    if (in[at].tag != TP_TENSOR || (v.tag == TP_TENSOR && v.tensor == in[at].tensor) || !self->compiled->checks)
        return true;
    uint32_t first = 0;
    while (self->input_of[first] != at)
        first++;
    PyErr_Format(PyExc_AssertionError, "At compilation time, graph %lld was compiled under the assumption that input %u would be a duplicate of input %u, "
                 "but at runtime this was not the case.  This indicates a guard bug in AOTAutograd or Dynamo, please file a bug to PyTorch.",
                 LL(self->compiled->id), leaf, first);
    return false;
}

/* One leaf of a call into the inputs. */
static bool take_leaf(const aot_object *self, uint32_t leaf, PyObject *o, tp_value *in, uint32_t *filled)
{
    uint32_t at = self->input_of[leaf];
    if (at < *filled) {
        tp_value v;
        (void)aot_plain_value(o, &v);
        return check_same(self, in, at, v, leaf);
    }
    ++*filled;
    if (face_is_tensor(o)) {
        in[at] = tp_of_tensor(face_tensor(o));
        return true;
    }
    return aot_any_value(o, &in[at]) || face_raise();
}

static PyObject *run(aot_object *self, PyObject *const *first, Py_ssize_t first_count, PyObject *const *rest, Py_ssize_t rest_count)
{
    tp_aot_function *f = self->compiled;
    uint32_t inputs = f->facts.faces.count, outputs = f->facts.output_count, filled = 0;
    tp_value few[2 * FEW], *in = inputs + outputs <= 2 * FEW ? few : tp_alloc_array((size_t)inputs + outputs, sizeof *in), *out = in + inputs;
    PyObject *made = NULL;
    if (!in)
        return face_raise();
    if (first_count + rest_count != (Py_ssize_t)self->leaf_count) {
        PyErr_Format(PyExc_TypeError, "the function was compiled for %u inputs but %zd were given", self->leaf_count, first_count + rest_count);
    } else {
        bool ok = true;
        for (Py_ssize_t i = 0; ok && i < first_count; i++)
            ok = take_leaf(self, (uint32_t)i, first[i], in, &filled);
        for (Py_ssize_t i = 0; ok && i < rest_count; i++)
            ok = take_leaf(self, (uint32_t)(first_count + i), rest[i], in, &filled);
        if (ok && tp_aot_function_call(f, in, out)) {
            made = result_object(self, out);
            tp_values_unref(out, outputs);
        } else if (ok) {
            face_raise();
        }
    }
    for (uint32_t i = 0; i < filled; i++)
        if (in[i].tag != TP_TENSOR)
            tp_value_unref(in[i]);
    if (in != few)
        tp_free(in);
    return made;
}

/* The leaves of leading tensors and arguments; a new list. */
static PyObject *flatten(aot_object *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, PyObject **spec)
{
    PyObject *all = PyTuple_New(PyTuple_GET_SIZE(self->leading) + count), *named = all ? PyDict_New() : NULL, *leaves = NULL;
    bool ok = named;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(self->leading); i++)
        PyTuple_SET_ITEM(all, at++, Py_NewRef(PyTuple_GET_ITEM(self->leading, i)));
    for (Py_ssize_t i = 0; ok && i < count; i++)
        PyTuple_SET_ITEM(all, at++, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        ok = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[count + i]) == 0;
    PyObject *both = ok ? PyTuple_Pack(2, all, named) : NULL;
    if (both && (leaves = PyList_New(0)) && !(*spec = face_tree_flatten(both, NULL, leaves)))
        Py_CLEAR(leaves);
    Py_XDECREF(both);
    Py_XDECREF(all);
    Py_XDECREF(named);
    return leaves;
}

static bool is_leaf(PyObject *o)
{
    return face_is_tensor(o) || o == Py_None || PyLong_Check(o) || PyFloat_Check(o);
}

static bool are_leaves(PyObject *const *args, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_leaf(args[i]))
            return false;
    return true;
}

static PyObject *aot_call(PyObject *o, PyObject *const *args, size_t given, PyObject *kwnames)
{
    aot_object *self = (aot_object *)o;
    Py_ssize_t count = PyVectorcall_NARGS(given);
    PyObject *spec = NULL, *made = NULL;
    bool simple = !(kwnames && PyTuple_GET_SIZE(kwnames)) && are_leaves(args, count);
    if (self->compiled && self->flat && simple)
        return run(self, PySequence_Fast_ITEMS(self->leading), PyTuple_GET_SIZE(self->leading), args, count);
    PyObject *leaves = flatten(self, args, count, kwnames, &spec);
    if (!leaves)
        return NULL;
    if (self->compiled || aot_compile(self, leaves, spec)) {
        self->flat |= simple;
        made = run(self, NULL, 0, PySequence_Fast_ITEMS(leaves), PyList_GET_SIZE(leaves));
    }
    Py_DECREF(leaves);
    Py_XDECREF(spec);
    return made;
}

/* compile(*args): for these arguments, without running. */
static PyObject *aot_prepare(PyObject *o, PyObject *const *args, Py_ssize_t count)
{
    aot_object *self = (aot_object *)o;
    PyObject *spec = NULL, *leaves = flatten(self, args, count, NULL, &spec);
    bool ok = leaves && aot_compile(self, leaves, spec);
    self->flat = ok && are_leaves(args, count);
    Py_XDECREF(leaves);
    Py_XDECREF(spec);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- the type ---- */
static PyObject *aot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *function, *driver, *leading;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOO!", &function, &driver, &PyTuple_Type, &leading))
        return NULL;
    aot_object *o = (aot_object *)type->tp_alloc(type, 0);
    if (!o)
        return NULL;
    o->function = Py_NewRef(function);
    o->driver = Py_NewRef(driver);
    o->leading = Py_NewRef(leading);
    o->call = aot_call;
    return (PyObject *)o;
}

static int aot_traverse(PyObject *o, visitproc visit, void *arg)
{
    aot_object *self = (aot_object *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->function);
    Py_VISIT(self->driver);
    Py_VISIT(self->leading);
    Py_VISIT(self->in_spec);
    Py_VISIT(self->out_spec);
    Py_VISIT(self->dict);
    if (self->compiled && atomic_load(&self->compiled->refs) == 1) {
        Py_VISIT(aot_code_callable(&self->compiled->forward));
        Py_VISIT(aot_code_callable(&self->compiled->backward));
        Py_VISIT((PyObject *)self->compiled->host);
    }
    return 0;
}

static int aot_clear(PyObject *o)
{
    aot_object *self = (aot_object *)o;
    tp_aot_function *f = self->compiled;
    self->compiled = NULL;
    tp_aot_function_unref(f);
    Py_CLEAR(self->function);
    Py_CLEAR(self->driver);
    Py_CLEAR(self->leading);
    Py_CLEAR(self->in_spec);
    Py_CLEAR(self->out_spec);
    Py_CLEAR(self->dict);
    return 0;
}

static void aot_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (((aot_object *)o)->weakrefs)
        PyObject_ClearWeakRefs(o);
    (void)aot_clear(o);
    tp_free(((aot_object *)o)->input_of);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *aot_bind(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyMemberDef aot_members[] = {
    { "__vectorcalloffset__", T_PYSSIZET, offsetof(aot_object, call), READONLY, NULL },
    { "__dictoffset__", T_PYSSIZET, offsetof(aot_object, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(aot_object, weakrefs), READONLY, NULL },
    { 0 },
};
static PyGetSetDef aot_attributes[] = {
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMethodDef aot_methods[] = {
    { "compile", (PyCFunction)(void (*)(void))aot_prepare, METH_FASTCALL, "compiles for these arguments without running" },
    { 0 },
};
static PyType_Slot aot_slots[] = {
    { Py_tp_new, aot_new },         { Py_tp_call, PyVectorcall_Call }, { Py_tp_dealloc, aot_dealloc },     { Py_tp_traverse, aot_traverse },
    { Py_tp_clear, aot_clear },     { Py_tp_members, aot_members },    { Py_tp_getset, aot_attributes },   { Py_tp_methods, aot_methods },
    { Py_tp_descr_get, aot_bind },  { 0, NULL },
};
static PyType_Spec aot_spec = {
    .name = "_AotFunction", .basicsize = sizeof(aot_object), .slots = aot_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
};

/* _aot_partition(graph, count, thrifty): (forward, backward, saved tensors, saved sizes) */
static PyObject *partition(PyObject *module, PyObject *args)
{
    PyObject *joint;
    unsigned count;
    int thrifty;
    uint32_t tensors, sizes;
    tp_graph *forward, *backward;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!Ip", face.fx.graph, &joint, &count, &thrifty))
        return NULL;
    if (!tp_aot_partition(fx_graph_of(joint), count, thrifty, &forward, &backward, &tensors, &sizes))
        return face_raise();
    PyObject *a = fx_wrap_graph(forward), *b = fx_wrap_graph(backward);
    tp_graph_unref(forward);
    tp_graph_unref(backward);
    if (a && b)
        return Py_BuildValue("(NNII)", a, b, tensors, sizes);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return NULL;
}

static PyMethodDef functions[] = {
    { "_aot_partition", partition, METH_VARARGS, "splits a joint graph into forward and backward" },
    { 0 },
};

bool face_aot_init(PyObject *module)
{
    PyTypeObject *type = face_make_type(module, &aot_spec, NULL);
    bool ok = type && PyModule_AddFunctions(module, functions) == 0;
    Py_XDECREF(type);           /* the module keeps it */
    return ok;
}
