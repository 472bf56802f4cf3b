/* record.h - the recorder of jit.trace: mounted on the jit layer, it writes down the outermost op of every call.
 *
 * What the program computes with are tensors; what the graph has are values. A trace knows which value a tensor is by the
 * tensor's identity; one it has never met becomes a constant. Ops that write bind their tensor to the value they give.
 *
 *     root frame          graph(%self, %x)      "seq" called: a frame of its own
 *       └─ seq            graph(%self, %x)      what it uses from outside becomes an input,
 *            ├─ seq.0     graph(%self, %x)      what others use of it a result; the call a prim::CallMethod
 *            └─ seq.1     graph(%self, %1)      in the frame around it
 *
 * A frame is a call of a submodule and becomes a method when the trace ends. A value belongs to the frame that made it;
 * asking for it elsewhere moves it along the tree of frames, once for each frame it crosses. Attributes (parameters,
 * submodules) are values without a frame: they are read in the nearest frame whose module has them.
 *
 * Owners: a trace holds every tensor it has met until it is freed. One trace a thread. Values are numbered from 1; 0 is "no
 * value, an error is set". */
#ifndef TP_JIT_RECORD_H
#define TP_JIT_RECORD_H

#include "jit/module.h"
#include "trace/mount.h"

/* What a program with Python lends. */
typedef struct tp_jit_host {
    void *user;
    /* Where the user's program stands: a counted origin, or NULL for unknown. */
    tp_origin *(*origin)(void *user);
    /* The name of a local variable that holds the tensor, NULL: none. Borrowed until the next call. */
    const char *(*name)(void *user, const tp_tensor *t);
    bool (*warn)(void *user, const char *text);                 /* TracerWarning; false: it became an error */
} tp_jit_host;

typedef struct tp_jit_trace tp_jit_trace;
typedef uint32_t tp_jit_value;

/* `root` is what %self is, counted; NULL: a plain function. `flat`: submodules are not frames and parameters are inputs. */
TP_API TP_CHECK tp_jit_trace *tp_jit_trace_new(const tp_jit_host *host, tp_jit_module *root, bool flat, bool force_outplace);
TP_API void tp_jit_trace_free(tp_jit_trace *t);                 /* NULL is fine; stops it first */
TP_API void tp_jit_trace_start(tp_jit_trace *t);                /* recording on, off: also around calls that are not traced */
TP_API void tp_jit_trace_stop(tp_jit_trace *t);
TP_API tp_jit_trace *tp_jit_trace_current(void);                /* of this thread, while it records; NULL: none */

TP_API void *tp_jit_trace_user(const tp_jit_trace *t);          /* host.user */

/* Before the program runs: a tensor that is an attribute, an input. The latter gives its value. */
TP_API TP_CHECK bool tp_jit_trace_attribute(tp_jit_trace *t, const char *path, tp_tensor *x);
TP_API tp_jit_value tp_jit_trace_input(tp_jit_trace *t, const char *name, tp_jit_type *type);      /* takes the type */

/* Values. */
TP_API tp_jit_value tp_jit_trace_find(tp_jit_trace *t, const tp_tensor *x);     /* 0: not met yet, no error set */
TP_API tp_jit_value tp_jit_trace_of(tp_jit_trace *t, tp_tensor *x);             /* as find, or a constant; x NULL: none */
TP_API TP_CHECK bool tp_jit_trace_bind(tp_jit_trace *t, tp_tensor *x, tp_jit_value v);
TP_API tp_jit_value tp_jit_trace_constant(tp_jit_trace *t, tp_value v);
TP_API tp_jit_value tp_jit_trace_path(tp_jit_trace *t, const char *path);       /* a module or tensor of the root by its path */
TP_API tp_jit_value tp_jit_trace_op(tp_jit_trace *t, const tp_op *op, const tp_jit_value *arg, tp_jit_type *type);     /* takes the type */
/* Primitive nodes: with one result, and those that take a tuple or list apart. Types of single results are taken. */
TP_API tp_jit_value tp_jit_trace_prim(tp_jit_trace *t, const char *kind, const tp_jit_value *arg, uint32_t count, tp_jit_type *type);
TP_API TP_CHECK bool tp_jit_trace_unpack(tp_jit_trace *t, const char *kind, tp_jit_value v, tp_jit_type *const *type, uint32_t count,
                                         tp_jit_value *results);
TP_API tp_jit_value tp_jit_trace_call(tp_jit_trace *t, const char *method, const tp_jit_value *arg, uint32_t count, tp_jit_type *type);
TP_API tp_jit_value tp_jit_trace_python(tp_jit_trace *t, tp_handle *callable, const char *name, bool inplace, const tp_value *arg,
                                        uint32_t count, tp_jit_type *type);     /* values in `arg` are TP_INT with a mark */
TP_API tp_jit_type *tp_jit_trace_type(const tp_jit_trace *t, tp_jit_value v);   /* borrowed */

/* Submodules: frames. The path is that of the module in the root. */
TP_API TP_CHECK bool tp_jit_trace_push(tp_jit_trace *t, const char *path);
TP_API void tp_jit_trace_pop(tp_jit_trace *t);

/* Ends the trace: methods are defined on the root's submodules, and the root frame's graph, whose output is `result` (0:
 * none), is given to the caller. */
TP_API TP_CHECK tp_graph *tp_jit_trace_finish(tp_jit_trace *t, tp_jit_value result);

#endif
