/* tables311.h - the two side tables of a code object in CPython 3.11: where in the source, and where exceptions go.
 *
 * Both speak of code units (2 bytes). Readers take bytes of unknown origin: what is malformed is an error. Writers
 * append to a growing array. The formats are described in CPython's Objects/locations.md and
 * Objects/exception_handling_notes.txt. */
#ifndef TP_PYTHON_CAPTURE_TABLES311_H
#define TP_PYTHON_CAPTURE_TABLES311_H

#include "python/capture/code.h"

typedef tp_array(uint8_t) tp_byte_array;

/* A unit's handler: here `target` and `depth` are CPython's own, a unit and a position with the words of calls counted. */
TP_CHECK bool tp_positions_read(const uint8_t *at, size_t bytes, int32_t first_line, tp_position *unit, int32_t units);
TP_CHECK bool tp_handlers_read(const uint8_t *at, size_t bytes, tp_handler *unit, int32_t units);

/* The position of the next `units` units; *line is the line the table stands at, first the code's first line. */
TP_CHECK bool tp_position_write(tp_byte_array *out, tp_position p, int32_t units, int32_t *line);
TP_CHECK bool tp_handler_write(tp_byte_array *out, int32_t start, int32_t units, tp_handler h);

#endif
