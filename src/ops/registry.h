/* registry.h - between the table opgen writes, the schema parser and the registry. */
#ifndef TP_OPS_REGISTRY_H
#define TP_OPS_REGISTRY_H

#include "ops/op.h"

/* Written by opgen: sorted by space and name, overloads in order of definition. */
extern const tp_op *const tp_op_table[];
extern const size_t tp_op_table_count;

TP_CHECK bool tp_registry_add(tp_op *op);
TP_CHECK bool tp_registry_retire(tp_op *op);    /* removes it, and keeps the struct for those who hold it */
/* A run-time op whose Library dies, and the ops derived from it: no name finds them any more, graphs and objects may still hold them. */
TP_API TP_CHECK bool tp_op_retire(tp_op *op);
void tp_registry_remove(tp_op *op);
/* A run-time op of these columns, added to the registry: its overload and the tables of arguments and results are copied, all
 * else that `from` points to must outlive it. */
TP_CHECK tp_op *tp_op_assemble(const tp_op *from);

#endif
