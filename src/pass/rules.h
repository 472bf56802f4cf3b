/* rules.h - the rewrite rules of rules.def as data, for the pass that applies them and the test that runs them. */
#ifndef TP_PASS_RULES_H
#define TP_PASS_RULES_H

#include "pass/match.h"

enum { TP_LOSES_NEGATIVE_ZERO = 1, TP_LOSES_NAN = 2, TP_LOSES_INFINITY = 4 };

typedef struct tp_rule {
    const char  *name;
    const tp_op *root;              /* what %r calls */
    const char  *inputs;            /* "%x, %p" */
    const char  *left, *right;      /* statements; `right` may be a name: "%x" */
    bool       (*holds)(const tp_match *m);     /* of what was matched */
    unsigned     loses;             /* TP_LOSES_…; 0: the same bits */
} tp_rule;

TP_API extern const tp_rule tp_rules[];
TP_API extern const size_t tp_rule_count;
/* One side of a rule as a graph that returns %r, or the name on the right. */
TP_API TP_CHECK tp_graph *tp_rule_graph(const tp_rule *r, bool right);

#endif
