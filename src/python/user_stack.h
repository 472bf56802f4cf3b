/* user_stack.h - where the user's program stands, as the nodes of a graph remember it:
 *
 *     File "net.py", line 3, in forward
 *         return self.head(x)
 *
 * outermost frame first, as far out as the frame that began the trace. A text is made once for each chain of places and shared by
 * the nodes that come from there. The GIL is held.
 * Fails: with an exception in user_stack_init alone; a node without its lines is a node all the same. */
#ifndef TP_PYTHON_USER_STACK_H
#define TP_PYTHON_USER_STACK_H

#include "base/array.h"
#include "base/map.h"
#include "ir/graph.h"
#include "python/face.h"

struct chain {
    tp_value   text;                        /* owned string, or none where no frame is the user's */
    tp_origin *origin;                      /* counted, may be NULL: shared by nodes that remember nothing else */
};

typedef struct user_stack {
    PyFrameObject *outermost;               /* borrowed, may be NULL: the frame that began the trace, which outlives it */
    PyObject      *getline;                 /* counted: linecache.getline */
    PyObject      *codes;                   /* counted list: of the places known, whose addresses may not come again */
    tp_map         known;                   /* hash of a chain of places -> index in `chains` */
    tp_array(struct chain) chains;
    bool           forwards;                /* only frames of functions called `forward`, as make_fx has them */
} user_stack;

/* Begins a trace at the running frame. */
bool user_stack_init(user_stack *s, bool forwards);
void user_stack_fini(user_stack *s);        /* a zeroed struct is fine */
/* A fresh origin with the text, if there is one; NULL: no memory (no exception set). */
tp_origin *user_stack_origin(user_stack *s);
/* The origin of all nodes from there; NULL: no frame is the user's, or no memory (no exception set). */
tp_origin *user_stack_shared_origin(user_stack *s);

#endif
