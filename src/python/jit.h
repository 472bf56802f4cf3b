/* jit.h - what the files of torch.jit's face share.
 *
 * Graph, Node, Value and Type are views: each counts the graph (or type) it looks into; equality is that of what they look
 * at. ScriptFunction, ScriptMethod and ScriptModule (`_c` of the Python class) count the C objects behind them. */
#ifndef TP_PYTHON_JIT_H
#define TP_PYTHON_JIT_H

#include "jit/record.h"
#include "python/face.h"

/* ---- jit_graph.c ---- */
bool face_jit_graph_init(PyObject *module);
PyObject *face_jit_graph(tp_graph *g);              /* counts g */
tp_graph *face_jit_graph_of(PyObject *o);           /* borrowed; NULL: TypeError set */
PyObject *face_jit_type(tp_jit_type *t);            /* counts t */
PyObject *face_jit_text(tp_text *taken);            /* a str of the text, which is freed; raises when it has failed */

/* ---- jit_module.c ---- */
bool face_jit_module_init(PyObject *module);
PyObject *face_jit_function(tp_jit_function *f);    /* counts f */
PyObject *face_jit_module(tp_jit_module *m);        /* counts m */
tp_jit_module *face_jit_module_of(PyObject *o);     /* borrowed; NULL: not a module, no exception set */
tp_jit_function *face_jit_function_of(PyObject *o); /* the same */
/* Nests of tuples, lists, dicts, tensors and plain values; the result is owned. False: TypeError set. */
bool face_jit_to_value(PyObject *o, tp_value *out);
PyObject *face_jit_from_value(tp_value taken);

/* ---- jit_walk.c ---- */
bool face_jit_walk_init(PyObject *module);
/* Makes the parameters and buffers of the root's modules known to the trace. Gives a new dict: module -> path in the root,
 * (path,) for one of the class `script`, which has graphs of its own. */
PyObject *face_jit_walk(tp_jit_trace *t, PyObject *root, PyObject *script);

/* ---- jit_infer.c ---- */
tp_jit_type *face_jit_infer(PyObject *example);     /* owned; NULL: exception set */
bool face_jit_traceable(PyObject *args);            /* are these arguments of a trace? False: exception set */

/* ---- jit_trace.c ---- */
bool face_jit_trace_init(PyObject *module);
/* Calls `f` while a trace records: one call node, the call itself unrecorded. `module` may be NULL. Takes the arguments. */
PyObject *face_jit_traced_call(tp_jit_trace *t, tp_jit_function *f, tp_jit_module *module, tp_value *arg, uint32_t count);

#endif
