/* aot_origin.h - where the nodes of a traced program come from.
 *
 * While the package runs a graph with fx.traceback's meta kept, each recorded node gets the origin of the node that runs.
 * A node recorded while a formula of the tape runs gets that of the forward call which made the tape's node: calls are noted
 * with the tape's sequence number at their time. */
#ifndef TP_PYTHON_AOT_ORIGIN_H
#define TP_PYTHON_AOT_ORIGIN_H

#include "base/array.h"
#include "ir/graph.h"
#include "python/face.h"

typedef struct aot_origins {
    PyObject *traceback;                /* counted, may be NULL: the module, once asked */
    tp_array(struct aot_call { uint64_t sequence; tp_origin *origin; }) calls;     /* by rising sequence; counted */
} aot_origins;

void aot_origins_fini(aot_origins *o);
tp_origin *aot_origin_now(aot_origins *o);      /* counted, NULL: none is known */

#endif
