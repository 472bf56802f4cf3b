/* vmap.h - what the files about vmap share. */
#ifndef TP_PYTHON_VMAP_H
#define TP_PYTHON_VMAP_H

#include "python/face.h"
#include "trace/vmap_level.h"

bool face_randomness_read(const char *word, tp_randomness *out);        /* vmap.c: "error", "different", "same"; false: exception set */
const char *face_randomness_word(tp_randomness randomness);
/* function_levels.c: VmapInfo, what a rule written in Python is told first. */
PyObject *face_vmap_info(tp_sym size, tp_randomness randomness);

#endif
