/* compile.h - compiled callables: the type behind torch.compile, and plans of graphs as callables. */
#ifndef TP_PYTHON_CAPTURE_COMPILE_H
#define TP_PYTHON_CAPTURE_COMPILE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

bool capture_compile_init(PyObject *module);
bool capture_plan_init(PyObject *module);       /* plan.c */

#endif
