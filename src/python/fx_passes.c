/* fx_passes.c - Python's face of the algorithms over graphs: matching, splitting, partitioning (src/pass). */
#include "base/alloc.h"
#include "ir/draw.h"
#include "pass/match.h"
#include "pass/order.h"
#include "pass/partition.h"
#include "pass/pass.h"
#include "pass/reinplace.h"
#include "pass/split.h"
#include "python/fx.h"

#define METHOD(f) ((PyCFunction)(void (*)(void))(f))

static PyObject *wrap_nodes(tp_node *const *item, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list && i < count; i++) {
        PyObject *o = fx_wrap_node(item[i]);
        if (!o)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, o);
    }
    return list;
}

/* ---- matching ---- */
/* The kinds of the attributes that get_attr nodes name: asked for before the search, which must not run Python. */
typedef struct kinds {
    PyObject **of[2];               /* owned arrays by node id, of the pattern and of the graph; borrowed objects, NULL: not known */
} kinds;

static PyObject **read_kinds(const tp_graph *g, PyObject *dict)
{
    PyObject **of = tp_alloc_zero((g->node_count + 1) * sizeof *of), *key, *value;
    Py_ssize_t at = 0;
    if (!of)
        return face_raise(), NULL;
    while (PyDict_Next(dict, &at, &key, &value))
        if (fx_is_node(key) && fx_node_of(key)->graph == g)
            of[fx_node_of(key)->id] = value;
    return of;
}

static bool same_attribute(const tp_node *pattern, const tp_node *n, void *data)
{
    const kinds *k = data;
    return k->of[0][pattern->id] && k->of[0][pattern->id] == k->of[1][n->id];
}

static PyObject *match_dict(const tp_match *m)
{
    PyObject *made = PyDict_New();
    for (uint32_t i = 0; made && i < m->count; i++) {
        PyObject *key = fx_wrap_node(m->pair[i].pattern), *value = key ? fx_from_value(m->pair[i].found) : NULL;
        if (!value || PyDict_SetItem(made, key, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return made;
}

/* (pattern, graph, {get_attr node of either: kind}, match_output, match_placeholders, ignore_literals, overlapping): a dict for
 * each match. */
static PyObject *match(PyObject *module, PyObject *args)
{
    PyObject *pattern, *graph, *dict, *list = NULL;
    int output, placeholders, ignore, overlapping;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!pppp", face.fx.graph, &pattern, face.fx.graph, &graph, &PyDict_Type, &dict, &output, &placeholders,
                          &ignore, &overlapping))
        return NULL;
    tp_graph *p = fx_graph_of(pattern), *g = fx_graph_of(graph);
    kinds k = { .of = { read_kinds(p, dict), NULL } };
    tp_match_options options = { .output = output, .placeholders = placeholders, .ignore_literals = ignore, .overlapping = overlapping,
                                 .same_attribute = same_attribute, .data = &k };
    tp_arena arena;
    tp_matches found = { 0 };
    tp_arena_init(&arena);
    if (k.of[0] && (k.of[1] = read_kinds(g, dict)) && (tp_match_find(p, g, &options, &arena, &found) || face_raise()))
        list = PyList_New(found.count);
    for (uint32_t i = 0; list && i < found.count; i++) {
        PyObject *made = match_dict(&found.item[i]);
        if (!made)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, made);
    }
    tp_arena_fini(&arena);
    tp_free(k.of[0]);
    tp_free(k.of[1]);
    return list;
}

/* ---- splitting ---- */

/* Part of each node by id, from a dict of node to 0, 1, 2 …; *count gets how many there are. */
static uint32_t *read_parts(tp_graph *g, PyObject *parts, uint32_t *count)
{
    uint32_t *part = tp_alloc_zero((g->node_count + 1) * sizeof *part);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *count = 0;
    if (!part)
        return face_raise(), NULL;
    while (PyDict_Next(parts, &at, &key, &value)) {
        long p = PyLong_Check(value) ? PyLong_AsLong(value) : -1;
        if (p < 0 || p >= (long)PyDict_GET_SIZE(parts) || !fx_is_node(key) || fx_node_of(key)->graph != g) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "parts must be a dict from nodes of the graph to small numbers");
            tp_free(part);
            return NULL;
        }
        part[fx_node_of(key)->id] = (uint32_t)p + 1;
        if (*count < (uint32_t)p + 1)
            *count = (uint32_t)p + 1;
    }
    return part;
}

/* (graph, {node: part}): (parts in the order they can run, [(nodes, inputs, outputs) of each part]). */
static PyObject *split(PyObject *module, PyObject *args)
{
    PyObject *graph, *parts;
    uint32_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", face.fx.graph, &graph, &PyDict_Type, &parts))
        return NULL;
    uint32_t *part = read_parts(fx_graph_of(graph), parts, &count);
    if (!part)
        return NULL;
    tp_arena arena;
    tp_split plan;
    tp_arena_init(&arena);
    PyObject *order = NULL, *list = NULL;
    if (tp_split_plan(fx_graph_of(graph), part, count, &arena, &plan))
        (void)((order = PyList_New(count)) && (list = PyList_New(count)));
    else
        face_raise();
    for (uint32_t i = 0; list && i < count; i++) {
        const tp_split_part *p = &plan.part[i];
        PyObject *nodes = wrap_nodes(p->node.item, p->node.count), *in = nodes ? wrap_nodes(p->input.item, p->input.count) : NULL,
                 *out = in ? wrap_nodes(p->output.item, p->output.count) : NULL, *number = PyLong_FromUnsignedLong(plan.order[i]),
                 *made = out && number ? PyTuple_Pack(3, nodes, in, out) : NULL;
        Py_XDECREF(nodes);
        Py_XDECREF(in);
        Py_XDECREF(out);
        if (made) {
            PyList_SET_ITEM(list, i, made);
            PyList_SET_ITEM(order, i, number);
        } else {
            Py_XDECREF(number);
            Py_CLEAR(list);
        }
    }
    tp_arena_fini(&arena);
    tp_free(part);
    PyObject *result = list ? PyTuple_Pack(2, order, list) : NULL;
    Py_XDECREF(order);
    Py_XDECREF(list);
    return result;
}

/* ---- partitioning ---- */

/* (graph, list of nodes, readers_only): {node: number of its group}, in the order of the graph. */
static PyObject *partition(PyObject *module, PyObject *args)
{
    PyObject *graph, *list, *made = NULL;
    int readers_only;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!p", face.fx.graph, &graph, &PyList_Type, &list, &readers_only))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    uint8_t *marked = tp_alloc_zero(g->node_count + 1);
    uint32_t *group = marked ? tp_alloc_zero((g->node_count + 1) * sizeof *group) : NULL;
    if (!group)
        face_raise();
    bool ok = group;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(list); i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        if (!(ok = fx_is_node(o) && fx_node_of(o)->graph == g))
            PyErr_SetString(PyExc_TypeError, "the list must hold nodes of the graph");
        else
            marked[fx_node_of(o)->id] = 1;
    }
    if (ok && (tp_partition(g, marked, readers_only, group) || face_raise()))
        made = PyDict_New();
    for (tp_node *n = g->root.next; made && n != &g->root; n = n->next) {
        if (!group[n->id])
            continue;
        PyObject *key = fx_wrap_node(n), *value = PyLong_FromUnsignedLong(group[n->id] - 1);
        if (!key || !value || PyDict_SetItem(made, key, value) < 0)
            Py_CLEAR(made);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    tp_free(marked);
    tp_free(group);
    return made;
}

/* ---- order ---- */

/* (graph, stable): puts the nodes in order; a list of those that have no place, empty: done. */
static PyObject *order(PyObject *module, PyObject *args)
{
    PyObject *graph;
    int stable;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!p", face.fx.graph, &graph, &stable))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    uint8_t *placed = tp_alloc(g->node_count + 1);
    bool whole, ok = placed && tp_order_nodes(g, stable ? TP_ORDER_STABLE : TP_ORDER_BREADTH, placed, &whole);
    PyObject *stuck = ok ? PyList_New(0) : face_raise();
    for (tp_node *n = g->root.next; stuck && n != &g->root; n = n->next) {
        if (placed[n->id])
            continue;
        PyObject *o = fx_wrap_node(n);
        if (!o || PyList_Append(stuck, o) < 0)
            Py_CLEAR(stuck);
        Py_XDECREF(o);
    }
    tp_free(placed);
    return stuck;
}

/* ---- equal calls ---- */
typedef struct banning { uint8_t *banned; } banning;

static bool not_banned(const tp_node *n, void *data)
{
    return (n->kind == TP_CALL_FUNCTION || n->kind == TP_GET_ATTR) && !((banning *)data)->banned[n->id];
}

/* (graph, nodes that stay): makes equal calls one; did it change anything? */
static PyObject *merge_equal(PyObject *module, PyObject *args)
{
    PyObject *graph, *list;
    bool changed = false;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", face.fx.graph, &graph, &PyList_Type, &list))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    banning b = { tp_alloc_zero(g->node_count + 1) };
    for (Py_ssize_t i = 0; b.banned && i < PyList_GET_SIZE(list); i++)
        if (fx_is_node(PyList_GET_ITEM(list, i)) && fx_node_of(PyList_GET_ITEM(list, i))->graph == g)
            b.banned[fx_node_of(PyList_GET_ITEM(list, i))->id] = 1;
    bool ok = b.banned && tp_cse(g, not_banned, &b, &changed);
    tp_free(b.banned);
    return ok ? PyBool_FromLong(changed) : face_raise();
}

/* ---- calls that write ---- */

/* (graph, {node: what it gives}): makes calls write into their first argument where nobody can tell. */
static PyObject *reinplace(PyObject *module, PyObject *args)
{
    PyObject *graph, *values, *key, *value;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", face.fx.graph, &graph, &PyDict_Type, &values))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    uint32_t count = g->node_count + 1;
    tp_value *of = tp_alloc_zero(count * sizeof *of);
    bool ok = of || face_raise();
    while (ok && PyDict_Next(values, &at, &key, &value))
        if (fx_is_node(key) && fx_node_of(key)->graph == g)
            ok = fx_to_value(NULL, value, &of[fx_node_of(key)->id]);
    ok = ok && (tp_reinplace(g, of) || face_raise());
    if (of)
        tp_values_unref(of, count);
    tp_free(of);
    return ok ? Py_NewRef(Py_None) : NULL;
}

/* ---- pictures ---- */
typedef struct painting {
    const char **label, **fill;     /* owned arrays by node id; borrowed texts, NULL: left out */
} painting;

static const char *box_label(const tp_node *n, void *data)
{
    return ((painting *)data)->label[n->id];
}

static const char *box_fill(const tp_node *n, void *data)
{
    return ((painting *)data)->fill[n->id];
}

/* (graph, {node: (label, colour)}): SVG as text; other nodes are left out. */
static PyObject *draw(PyObject *module, PyObject *args)
{
    PyObject *graph, *boxes, *key, *value, *made = NULL;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", face.fx.graph, &graph, &PyDict_Type, &boxes))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    painting p = { tp_alloc_zero((g->node_count + 1) * sizeof *p.label), tp_alloc_zero((g->node_count + 1) * sizeof *p.fill) };
    tp_draw_host host = { box_label, box_fill, &p };
    tp_text out = { 0 };
    bool ok = (p.label && p.fill) || face_raise();
    while (ok && PyDict_Next(boxes, &at, &key, &value)) {
        const char *label, *fill;
        ok = PyArg_ParseTuple(value, "ss", &label, &fill);
        if (ok && fx_is_node(key) && fx_node_of(key)->graph == g) {
            p.label[fx_node_of(key)->id] = label;
            p.fill[fx_node_of(key)->id] = fill;
        }
    }
    if (ok && (tp_graph_draw(g, &host, &out) || face_raise()))
        made = PyUnicode_FromString(tp_text_read(&out));
    tp_text_fini(&out);
    tp_free(p.label);
    tp_free(p.fill);
    return made;
}

static PyMethodDef functions[] = {
    { "_fx_match", match, METH_VARARGS, NULL },
    { "_fx_split", split, METH_VARARGS, NULL },
    { "_fx_partition", partition, METH_VARARGS, NULL },
    { "_fx_draw", draw, METH_VARARGS, NULL },
    { "_fx_order", order, METH_VARARGS, NULL },
    { "_fx_merge_equal", merge_equal, METH_VARARGS, NULL },
    { "_fx_reinplace", reinplace, METH_VARARGS, NULL },
    { 0 },
};

bool fx_passes_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
