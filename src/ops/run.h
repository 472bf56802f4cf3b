/* run.h - what the files that run ops share. */
#ifndef TP_OPS_RUN_H
#define TP_OPS_RUN_H

#include "ops/op.h"

/* Fails when two elements of a tensor that is to be written share memory. */
TP_CHECK bool tp_check_written(const tp_tensor *out);

#endif
