/* program.h - an exported program: graph, signature, state and shape facts; what export makes, .pt2 stores, C runs.
 *
 *     tp_program *p = tp_program_load("mlp.pt2");
 *     tp_value y = tp_none();
 *     bool ok = p && tp_program_run(p, &x, 1, &y, 1);
 *
 * Running needs no Python: state and user inputs go to the placeholders in order, what was written goes back to its buffer
 * or input, user outputs are handed out flat; in_spec and out_spec say how they nest in Python.
 * Facts of placeholders carry the promised sizes, whose symbols live in graph->env.
 *
 * Owners: a program is counted; texts and rows are in its arena; it counts graph and tensors. Threads may run one program at a
 * time each, unless it writes to its state.
 * Fails: TP_ERR_RUNTIME for files that are broken and inputs that are not as promised; TP_ERR_UNIMPLEMENTED, naming it, for what
 * this build has not. */
#ifndef TP_EXPORT_PROGRAM_H
#define TP_EXPORT_PROGRAM_H

#include "export/guards.h"
#include "format/zip.h"
#include "ir/run.h"
#include "sym/env.h"

typedef struct tp_state_row {
    const char *name;               /* arena: "l.weight" */
    tp_tensor  *tensor;             /* counted */
    bool        parameter;
} tp_state_row;

typedef struct tp_range_row {
    const char *symbol;             /* arena: "s0" */
    tp_range    range;
} tp_range_row;

typedef struct tp_program {
    tp_count      refs;
    tp_arena      arena;
    tp_graph     *graph;            /* counted */
    tp_signature  signature;        /* arena */
    tp_state_row *state, *constant; /* arena: the state dict; tensor constants and buffers that are not saved with it */
    size_t        state_count, constant_count;
    tp_range_row *range;            /* arena */
    size_t        range_count;
    const char  **guard;            /* arena: texts of conditions that calls must meet (guards.h) */
    size_t        guard_count;
    const char   *in_spec, *out_spec;       /* arena, may be NULL: JSON of pytrees */
    const char  **forward_name;     /* arena: names of forward's arguments */
    size_t        forward_count;
    const char  **module;           /* arena: paths of the modules that were traced, the root "" left out */
    size_t        module_count;
    const char   *dialect;          /* arena: "TRAINING" or "ATEN" */
    const char   *examples;         /* arena, may be NULL: a torch.save of (args, kwargs) */
    size_t        example_bytes;
    tp_guards    *guards;           /* owned: the texts, read; NULL before the first run */
    tp_plan      *plan;             /* owned, made by the first run; NULL before */
} tp_program;

TP_API TP_CHECK tp_program *tp_program_new(void);           /* empty: the caller fills it */
TP_API tp_program *tp_program_ref(tp_program *p);
TP_API void tp_program_unref(tp_program *p);                /* NULL is fine */

/* .pt2 of PyTorch 2.13 and, read only, of mid-2024 (docs/formats.md). */
TP_API TP_CHECK tp_program *tp_program_load(const char *path);
TP_API TP_CHECK tp_program *tp_program_read(tp_zip *z);
TP_API TP_CHECK bool tp_program_save(const tp_program *p, const char *path);
TP_API TP_CHECK bool tp_program_write(const tp_program *p, tp_zip_writer *w);  /* everything but the end of the archive */

TP_API size_t tp_program_input_count(const tp_program *p);      /* of the user */
TP_API size_t tp_program_output_count(const tp_program *p);
/* A parameter, buffer or constant, borrowed. NULL without an error: there is none of that name. */
tp_tensor *tp_program_state(const tp_program *p, const char *name);
/* The name and the fact of a user input, borrowed. */
TP_API const char *tp_program_input(const tp_program *p, size_t i, tp_value *fact);
/* Inputs are borrowed, outputs are owned by the caller; counts are those above. */
TP_API TP_CHECK bool tp_program_run(tp_program *p, const tp_value *input, size_t count, tp_value *output, size_t output_count);

#endif
