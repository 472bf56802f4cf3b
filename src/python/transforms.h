/* transforms.h - what torch.func's transforms share: trees of tensors, arguments by number. All return new references, NULL with
 * an exception set. */
#ifndef TP_PYTHON_TRANSFORMS_H
#define TP_PYTHON_TRANSFORMS_H

#include "python/face.h"

typedef tp_tensor *face_map_leaf(void *user, tp_tensor *t);     /* counted; NULL: an error is set */

/* The tree with each of its tensors replaced; `strict`: what to say of other leaves, NULL: they stay. */
PyObject *face_map_tensors(PyObject *o, face_map_leaf *map, void *user, const char *strict);
/* What is differentiated by: one argument, or a tuple of those that a tuple of numbers names. */
PyObject *face_chosen_arguments(PyObject *args, PyObject *argnums);
/* The arguments with these put back in their places. */
PyObject *face_replaced_arguments(PyObject *args, PyObject *argnums, PyObject *by);
/* (output, aux): aux is NULL when there is none. Both borrowed from `given`. */
/* PyTorch's errors of jacrev and jacfwd ("jacrev: Expected all inputs to be real …") and of functions that give nothing. */
bool face_all_real(const char *who, const char *what, PyObject *leaves);
bool face_gives_something(const char *who, PyObject *leaves);
bool face_split_aux(PyObject *given, bool has_aux, const char *who, PyObject **output, PyObject **aux);
/* torch.NAME(*args, **kwargs); takes `args`, which may be NULL after an exception. */
PyObject *face_call_function(const char *name, PyObject *args, PyObject *kwargs);
/* self.NAME(*args); takes `args`; NULL also when self or args are NULL. */
PyObject *face_invoke(PyObject *self, const char *name, PyObject *args);
/* The k-th unit vector in the sizes and type of a tensor, times a number. */
PyObject *face_unit_vector(PyObject *like, int64_t k, PyObject *number);

#endif
