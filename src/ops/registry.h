/* registry.h - between the table opgen writes, the schema parser and the registry. */
#ifndef TP_OPS_REGISTRY_H
#define TP_OPS_REGISTRY_H

#include "ops/op.h"

/* Written by opgen: sorted by space and name, overloads in order of definition. */
extern const tp_op *const tp_op_table[];
extern const size_t tp_op_table_count;

TP_CHECK bool tp_registry_add(tp_op *op);
void tp_registry_remove(tp_op *op);

#endif
