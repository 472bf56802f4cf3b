/* losses.h - the lengths and labels of a ctc_loss call, read once for checks and kernels. */
#ifndef TP_OPS_RULES_LOSSES_H
#define TP_OPS_RULES_LOSSES_H

#include "ops/value.h"

typedef struct tp_ctc {
    int64_t *input_length, *target_length;      /* owned, one for each item of the batch */
    int64_t *from;                              /* owned: where an item's labels begin in `target` */
    const int64_t *target;
    int64_t  step, blank, longest;              /* step: from label to label; longest target length */
    tp_tensor *targets;                         /* counted: what `target` points into */
} tp_ctc;

/* Reads (log_probs, targets, input_lengths, target_lengths, blank, …); lengths are lists or tensors of integers. Fails in
 * PyTorch's words. */
TP_CHECK bool tp_ctc_read(tp_ctc *c, const tp_value *arg);
void tp_ctc_fini(tp_ctc *c);

#endif
