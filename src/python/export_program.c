/* export_program.c - between Python's ExportedProgram and tp_program: what .pt2 files are written from and read into. */
#include <string.h>

#include "base/alloc.h"
#include "export/program.h"
#include "grad/tape.h"
#include "python/fx.h"

/* ---- to C ---- */
static bool keep_text(tp_program *p, PyObject *o, const char **out)
{
    Py_ssize_t length = 0;
    const char *text = PyUnicode_AsUTF8AndSize(o, &length);
    if (!text)
        return false;
    return (*out = tp_text_in(&p->arena, text, (size_t)length)) || face_raise();
}

static bool keep_texts(tp_program *p, PyObject *list, const char ***out, size_t *count)
{
    size_t n = (size_t)PyList_GET_SIZE(list);
    if (n && !(*out = tp_arena_take_array(&p->arena, n, sizeof **out)))
        return face_raise();
    for (size_t i = 0; i < n; i++)
        if (!keep_text(p, PyList_GET_ITEM(list, (Py_ssize_t)i), &(*out)[i]))
            return false;
    *count = n;
    return true;
}

static bool keep_tensors(tp_program *p, PyObject *dict, tp_state_row **out, size_t *count)
{
    size_t n = (size_t)PyDict_GET_SIZE(dict);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (n && !(*out = tp_arena_take_array(&p->arena, n, sizeof **out)))
        return face_raise();
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (!face_is_tensor(value)) {
            PyErr_Format(PyExc_NotImplementedError, "saving %R, which is no tensor, is not implemented in Taper yet", key);
            return false;
        }
        tp_state_row *row = &(*out)[*count];
        *row = (tp_state_row){ .parameter = face.parameter && PyObject_TypeCheck(value, face.parameter) };
        if (!keep_text(p, key, &row->name))
            return false;
        row->tensor = tp_tensor_ref(face_tensor(value));
        (*count)++;
    }
    return true;
}

static bool keep_ranges(tp_program *p, PyObject *list)
{
    size_t n = (size_t)PyList_GET_SIZE(list);
    if (n && !(p->range = tp_arena_take_array(&p->arena, n, sizeof *p->range)))
        return face_raise();
    for (size_t i = 0; i < n; i++) {
        PyObject *name;
        long long low, high;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "ULL", &name, &low, &high) || !keep_text(p, name, &p->range[i].symbol))
            return false;
        p->range[i].range = (tp_range){ low, high };
    }
    p->range_count = n;
    return true;
}

/* Once Python has asked for a node's meta, the dict says what the node yields. */
static bool take_facts(tp_graph *g)
{
    tp_graph_each(g, n)
    {
        PyObject *value = n->meta ? PyDict_GetItemString(n->meta->object, "val") : NULL;
        if (!value || PyTuple_Check(value) || PyList_Check(value))
            continue;
        if (face_is_tensor(value))
            tp_node_set_fact(n, tp_of_tensor(face_tensor(value)));
        else if (face_is_sym(value))
            tp_node_set_fact(n, face_sym_value(value));
        else {
            tp_value v;
            if (!fx_to_value(NULL, value, &v))
                return false;
            tp_node_set_fact(n, v);
            tp_value_unref(v);
        }
    }
    return true;
}

static bool write_program(const tp_program *p, tp_text *out)
{
    tp_zip_writer *w = tp_zip_writer_new_text("archive", out);
    bool ok = w && tp_program_write(p, w) && tp_zip_add_id(w) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    return ok || face_raise();
}

/* _export_save(path or None, graph, signature, state, constants, ranges, guards, in_spec, out_spec, forward names, modules, dialect,
 * examples or None): bytes when there is no path. */
static PyObject *export_save(PyObject *module, PyObject *args)
{
    PyObject *graph, *capsule, *state, *constants, *ranges, *guards, *in_spec, *out_spec, *forward, *modules, *dialect, *made = NULL;
    const char *path, *examples;
    Py_ssize_t example_bytes;
    const tp_signature *s;
    (void)module;
    if (!PyArg_ParseTuple(args, "zO!OO!O!O!O!UUO!O!Uz#", &path, face.fx.graph, &graph, &capsule, &PyDict_Type, &state, &PyDict_Type,
                          &constants, &PyList_Type, &ranges, &PyList_Type, &guards, &in_spec, &out_spec, &PyList_Type, &forward, &PyList_Type, &modules, &dialect,
                          &examples, &example_bytes) ||
        !(s = face_signature_of(capsule)))
        return NULL;
    tp_program *p = tp_program_new();
    if (!p)
        return face_raise();
    p->graph = tp_graph_ref(fx_graph_of(graph));
    p->signature = *s;
    p->examples = examples;
    p->example_bytes = examples ? (size_t)example_bytes : 0;
    bool ok = take_facts(p->graph) && keep_tensors(p, state, &p->state, &p->state_count) &&
              keep_tensors(p, constants, &p->constant, &p->constant_count) && keep_ranges(p, ranges) &&
              keep_texts(p, guards, &p->guard, &p->guard_count) &&
              keep_text(p, in_spec, &p->in_spec) && keep_text(p, out_spec, &p->out_spec) && keep_texts(p, forward, &p->forward_name, &p->forward_count) &&
              keep_texts(p, modules, &p->module, &p->module_count) && keep_text(p, dialect, &p->dialect);
    tp_text out = { 0 };
    if (ok && path)
        made = tp_program_save(p, path) ? Py_NewRef(Py_None) : face_raise();
    else if (ok && write_program(p, &out))
        made = PyBytes_FromStringAndSize(out.at, (Py_ssize_t)out.length);
    tp_text_fini(&out);
    tp_program_unref(p);
    return made;
}

/* ---- to Python ---- */
static bool put(PyObject *dict, const char *key, PyObject *taken)
{
    int done = taken ? PyDict_SetItemString(dict, key, taken) : -1;
    Py_XDECREF(taken);
    return done == 0;
}

static PyObject *texts(const char *const *text, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *item = PyUnicode_FromString(text[i]);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

/* {name: (tensor, is a parameter)} */
static PyObject *tensors(const tp_state_row *row, size_t count)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < count; i++) {
        PyObject *t = face_wrap(tp_tensor_ref(row[i].tensor));
        PyObject *pair = t ? Py_BuildValue("NO", t, row[i].parameter ? Py_True : Py_False) : NULL;
        if (!pair || PyDict_SetItemString(dict, row[i].name, pair) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(pair);
    }
    return dict;
}

static PyObject *input_rows(const tp_signature *s)
{
    PyObject *list = PyList_New((Py_ssize_t)s->input_count);
    for (size_t i = 0; list && i < s->input_count; i++) {
        const tp_input_spec *row = &s->input[i];
        PyObject *item = Py_BuildValue("iszO", (int)row->kind, row->name, row->target, row->persistent ? Py_True : Py_False);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *output_rows(const tp_signature *s)
{
    PyObject *list = PyList_New((Py_ssize_t)s->output_count);
    for (size_t i = 0; list && i < s->output_count; i++) {
        PyObject *item = Py_BuildValue("iz", (int)s->output[i].kind, s->output[i].target);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *range_rows(const tp_program *p)
{
    PyObject *list = PyList_New((Py_ssize_t)p->range_count);
    for (size_t i = 0; list && i < p->range_count; i++) {
        PyObject *item = Py_BuildValue("sLL", p->range[i].symbol, LL(p->range[i].range.low), LL(p->range[i].range.high));
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

static PyObject *show_program(const tp_program *p)
{
    PyObject *d = PyDict_New();
    if (d && put(d, "graph", fx_wrap_graph(p->graph)) && put(d, "inputs", input_rows(&p->signature)) &&
        put(d, "outputs", output_rows(&p->signature)) && put(d, "state", tensors(p->state, p->state_count)) &&
        put(d, "constants", tensors(p->constant, p->constant_count)) && put(d, "ranges", range_rows(p)) && put(d, "guards", texts(p->guard, p->guard_count)) &&
        put(d, "in_spec", Py_BuildValue("z", p->in_spec)) && put(d, "out_spec", Py_BuildValue("z", p->out_spec)) &&
        put(d, "forward", texts(p->forward_name, p->forward_count)) && put(d, "modules", texts(p->module, p->module_count)) &&
        put(d, "dialect", PyUnicode_FromString(p->dialect)) &&
        put(d, "examples", Py_BuildValue("y#", p->examples, (Py_ssize_t)p->example_bytes)))
        return d;
    Py_XDECREF(d);
    return NULL;
}

static void drop_bytes(void *bytes)
{
    PyGILState_STATE s = PyGILState_Ensure();
    Py_DECREF((PyObject *)bytes);
    PyGILState_Release(s);
}

/* _export_load(path or bytes): the parts of a program, by name. */
static PyObject *export_load(PyObject *module, PyObject *from)
{
    tp_program *p = NULL;
    (void)module;
    if (PyBytes_Check(from)) {
        Py_INCREF(from);
        tp_zip *z = tp_zip_open_memory(PyBytes_AS_STRING(from), (size_t)PyBytes_GET_SIZE(from), 0, from, drop_bytes);
        p = z ? tp_program_read(z) : NULL;
        tp_zip_unref(z);
    } else {
        PyObject *path = NULL;
        if (!PyUnicode_FSConverter(from, &path))
            return NULL;
        p = tp_program_load(PyBytes_AS_STRING(path));
        Py_DECREF(path);
    }
    PyObject *made = p ? show_program(p) : face_raise();
    tp_program_unref(p);
    return made;
}

static PyMethodDef functions[] = {
    { "_export_save", export_save, METH_VARARGS, "writes a program as .pt2" },
    { "_export_load", export_load, METH_O, "reads a program from .pt2" },
    { 0 },
};

bool face_export_program_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
