/* plan.c - a graph of ops as something Python can call: the default back end's product.
 *
 * The plan runs in C from the first op to the last; tensors that the graph refers to by name (parameters, constants) are
 * looked up once, when it is made, and go in as further inputs. */
#include "python/capture/compile.h"

#include <structmember.h>

#include "base/alloc.h"
#include "ir/run.h"
#include "python/fx.h"

typedef struct plan_object {
    PyObject_HEAD
    vectorcallfunc call;
    tp_plan  *plan;             /* owned */
    PyObject *held;             /* counted tuple: tensors behind the graph's attributes */
    uint32_t  given;            /* inputs of the caller */
} plan_object;

enum { FEW = 32 };

static PyObject *plan_call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    plan_object *p = (plan_object *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flags), held = PyTuple_GET_SIZE(p->held);
    if (names && PyTuple_GET_SIZE(names))
        return PyErr_Format(PyExc_TypeError, "a compiled graph takes no keyword arguments");
    if (count != (Py_ssize_t)p->given)
        return PyErr_Format(PyExc_TypeError, "a compiled graph of %u inputs was given %zd", p->given, count);
    tp_value few[FEW], *input = count + held <= FEW ? few : tp_alloc_array((size_t)(count + held), sizeof *input), result;
    if (!input)
        return face_raise();
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        if ((ok = face_is_tensor(args[i])))
            input[i] = tp_of_tensor(face_tensor(args[i]));
        else
            PyErr_Format(PyExc_TypeError, "input %zd of a compiled graph is no tensor", i);
    }
    for (Py_ssize_t i = 0; i < held; i++)
        input[count + i] = tp_of_tensor(face_tensor(PyTuple_GET_ITEM(p->held, i)));
    PyObject *made = NULL;
    if (ok)
        made = tp_plan_run(p->plan, input, (uint32_t)(count + held), &result) ? face_from_value(result) : face_raise();
    if (input != few)
        tp_free(input);
    return made;
}

/* The copy whose attributes are placeholders behind the others; their names, in that order. */
static tp_graph *lifted(const tp_graph *from, PyObject *names)
{
    tp_graph *g = tp_graph_copy(from);
    if (!g)
        return NULL;
    tp_node *last = &g->root;                   /* the last placeholder, or the root */
    while (last->next->kind == TP_PLACEHOLDER)
        last = last->next;
    bool ok = true;
    for (tp_node *n = last->next, *next; ok && !tp_node_is_root(n); n = next) {
        next = n->next;
        if (n->kind != TP_GET_ATTR)
            continue;
        PyObject *name = PyUnicode_FromString(n->target.name);
        Py_ssize_t known = name ? PySequence_Index(names, name) : -1;
        if (known < 0)
            PyErr_Clear();
        g->insert = last->next;
        tp_node *input = known < 0 ? tp_graph_placeholder(g, n->target.name) : last;
        g->insert = &g->root;
        if (known < 0 && input && name) {
            ok = PyList_Append(names, name) == 0;
            last = input;
        } else if (known >= 0) {                /* named before: that placeholder */
            for (Py_ssize_t i = PyList_GET_SIZE(names) - 1; i > known; i--)
                input = input->prev;
        }
        Py_XDECREF(name);
        ok = ok && input && tp_node_replace_uses(n, input, NULL, NULL) >= 0;
        if (ok)
            tp_node_erase(n);
    }
    if (ok)
        return g;
    tp_graph_unref(g);
    return NULL;
}

/* A dotted name from the module down. */
static PyObject *member(PyObject *owner, PyObject *path)
{
    PyObject *dot = PyUnicode_FromString("."), *parts = dot ? PyUnicode_Split(path, dot, -1) : NULL, *at = Py_NewRef(owner);
    for (Py_ssize_t i = 0; at && parts && i < PyList_GET_SIZE(parts); i++)
        Py_SETREF(at, PyObject_GetAttr(at, PyList_GET_ITEM(parts, i)));
    if (!parts)
        Py_CLEAR(at);
    Py_XDECREF(dot);
    Py_XDECREF(parts);
    return at;
}

/* _Plan(graph, owner): fails with TypeError where the graph needs Python to run. */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *graph, *owner, *names = PyList_New(0), *held = NULL;
    (void)kwargs;
    tp_graph *g = NULL;
    if (names && PyArg_ParseTuple(args, "OO", &graph, &owner)) {
        if (!fx_is_graph(graph))
            PyErr_SetString(PyExc_TypeError, "a Graph is wanted");
        else if (!(g = lifted(fx_graph_of(graph), names)))
            face_raise();
    }
    plan_object *p = g ? (plan_object *)type->tp_alloc(type, 0) : NULL;
    bool ok = p && (held = PyTuple_New(PyList_GET_SIZE(names)));
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(names); i++) {
        PyObject *tensor = member(owner, PyList_GET_ITEM(names, i));
        if ((ok = tensor && face_is_tensor(tensor)))
            PyTuple_SET_ITEM(held, i, tensor);
        else if (tensor) {
            Py_DECREF(tensor);
            PyErr_Format(PyExc_TypeError, "'%U' is no tensor", PyList_GET_ITEM(names, i));
        }
    }
    if (ok && !(p->plan = tp_plan_new(g, NULL))) {
        face_raise();
        ok = false;
    }
    if (ok) {
        p->call = plan_call;
        p->held = Py_NewRef(held);
        p->given = tp_plan_input_count(p->plan) - (uint32_t)PyTuple_GET_SIZE(held);
    }
    Py_XDECREF(held);
    Py_XDECREF(names);
    tp_graph_unref(g);
    if (!ok)
        Py_CLEAR(p);
    return (PyObject *)p;
}

static int plan_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((plan_object *)self)->held);
    return 0;
}

static void plan_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tp_plan_free(((plan_object *)self)->plan);
    Py_XDECREF(((plan_object *)self)->held);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef plan_members[] = { { "__vectorcalloffset__", T_PYSSIZET, offsetof(plan_object, call), READONLY, NULL }, { 0 } };
static PyType_Slot plan_slots[] = {
    { Py_tp_new, plan_new },           { Py_tp_dealloc, plan_dealloc },   { Py_tp_traverse, plan_traverse },
    { Py_tp_call, PyVectorcall_Call }, { Py_tp_members, plan_members },   { 0, NULL },
};
static PyType_Spec plan_spec = { "_Plan", sizeof(plan_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, plan_slots };

bool capture_plan_init(PyObject *module)
{
    return face_make_type(module, &plan_spec, NULL);
}
