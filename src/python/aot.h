/* aot.h - what the files behind _AotFunction share.
 *
 * aot.c has the object and its calls, aot_compile.c studies and traces the function, aot_code.c wraps what compilers give. */
#ifndef TP_PYTHON_AOT_H
#define TP_PYTHON_AOT_H

#include "aot/wrapper.h"
#include "python/face.h"

typedef struct aot_object {
    PyObject_HEAD
    PyObject *function, *driver;    /* counted */
    PyObject *leading;              /* counted tuple */
    PyObject *in_spec, *out_spec;   /* counted, NULL until compiled */
    tp_aot_function *compiled;      /* counted, NULL until then */
    uint32_t *input_of;             /* owned: which unique input each leaf is */
    uint32_t  leaf_count;
    bool      flat;                 /* arguments were leaves, none by name */
    vectorcallfunc call;
    PyObject *dict, *weakrefs;
} aot_object;

/* ---- aot_code.c ---- */
bool aot_plain_value(PyObject *o, tp_value *out);       /* borrowed; false: it is none of the engine's, *out is none */
bool aot_any_value(PyObject *o, tp_value *out);         /* owned, a handle at least; false: an error is set below */
PyObject *aot_from_value(tp_value v);                   /* borrows */
PyObject *aot_list_of(const tp_value *in, uint32_t count);
bool aot_code_make(PyObject *callable, tp_aot_code *out);       /* borrows the callable; false: exception set */
PyObject *aot_code_callable(const tp_aot_code *c);      /* borrowed, may be NULL: for the collector */

/* ---- aot_compile.c ---- */
bool aot_compile(aot_object *self, PyObject *leaves, PyObject *spec);   /* for these leaves; false: exception set */

#endif
