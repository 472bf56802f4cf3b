/* pt2.h - what the writer and the reader of .pt2 share: numbers of types, expressions, weights. docs/formats.md has the fields. */
#ifndef TP_EXPORT_PT2_H
#define TP_EXPORT_PT2_H

#include "export/program.h"
#include "format/json.h"

/* ---- pt2_sym.c: numbers of enumerations; expressions as sympy's srepr ---- */
int tp_pt2_dtype(tp_dtype d);                           /* 7 for f32 */
tp_dtype tp_pt2_dtype_of(int64_t number);               /* TP_DTYPE_NONE: not one of ours */
int tp_pt2_format(tp_format f);                         /* 1 contiguous … */
bool tp_pt2_format_of(int64_t number, tp_format *out);
enum { TP_PT2_STRIDED = 7 };

/* A name that code can be made of, in Python and C: letters, digits and '_' of ASCII, no digit first, no word of Python. */
bool tp_pt2_is_name(const char *name);
TP_CHECK bool tp_pt2_print(tp_sym x, tp_text *out);     /* "Add(Symbol('s0', positive=True, integer=True), Integer(1))" */
/* Symbols that `env` has not are made: without a hint and unbounded. Failed word: the error is set, TP_ERR_RUNTIME. */
tp_sym tp_pt2_parse(tp_shape_env *env, const char *text);

/* {"as_int": 3} or {"as_expr": {"expr_str": …, "hint": …}} */
TP_CHECK bool tp_pt2_put_sym(tp_json_writer *w, tp_sym x);
tp_sym tp_pt2_get_sym(tp_shape_env *env, const tp_json *v);

/* ---- pt2_state.c: META of tensors, weights and constants ---- */
TP_CHECK bool tp_pt2_put_meta(tp_json_writer *w, const tp_tensor *t);
/* A fake tensor as META describes it. */
TP_CHECK tp_tensor *tp_pt2_get_meta(tp_shape_env *env, const tp_json *meta);
TP_CHECK bool tp_pt2_write_state(const tp_program *p, tp_zip_writer *w);
TP_CHECK bool tp_pt2_read_state(tp_program *p, tp_zip *z);

/* ---- pt2_write.c, pt2_read.c: model.json ---- */
TP_CHECK bool tp_pt2_write_model(const tp_program *p, tp_text *out);
/* The major version of the schema is TP_PT2_MAJOR, or at least `oldest`. */
enum { TP_PT2_MAJOR = 8, TP_PT2_MINOR = 20, TP_PT2_MAJOR_2024 = 5 };
TP_CHECK bool tp_pt2_read_model(tp_program *p, const char *json, size_t length, int oldest);

/* ---- pt2_old.c: the layout of 2024, and pickles ---- */
/* Fails with the name of the class that a pickled value is of, or of the function that makes it: it is not built. */
bool tp_pt2_refuse_pickle(tp_zip *z, const char *name, const char *record);
/* A torch.save of a dict of tensors as rows in the arena of the program. */
TP_CHECK bool tp_pt2_read_saved(tp_program *p, tp_zip *outer, const char *name, tp_state_row **row, size_t *count);

#endif
