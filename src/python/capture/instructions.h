/* instructions.h - what interpret.c and generator.c share. */
#ifndef TP_PYTHON_CAPTURE_INSTRUCTIONS_H
#define TP_PYTHON_CAPTURE_INSTRUCTIONS_H

#include "python/capture/capture.h"

/* Adds where the program stands to a pending Unsupported, once. */
void capture_note_place(capture *c);
/* A generator that runs `f`, which it takes. */
PyObject *capture_generator(capture *c, frame *taken);
void capture_end_generators(capture *c);        /* none of them can go on */

#endif
