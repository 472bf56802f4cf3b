/* frame.h - inside of the recorder: the tree of frames and the values that move along it; record.h has the picture.
 *
 * A value belongs to the frame that made it and has one node in each frame that was asked for it. Frames, paths and the
 * frames' names live in the trace's arena. For record.c and frame.c only. */
#ifndef TP_JIT_FRAME_H
#define TP_JIT_FRAME_H

#include "jit/record.h"

/* A value that crosses the border of a frame. */
typedef struct tp_jit_crossing {
    struct tp_jit_crossing *next;
    tp_jit_value value;
    tp_node *inside;                /* of an output: its node in the frame */
    tp_node *outside;               /* and in the parent: the call itself, or a prim::Result where there are several */
} tp_jit_crossing;

typedef struct tp_jit_frame {
    struct tp_jit_frame *parent;    /* borrowed, NULL: the root */
    uint32_t   depth, index;        /* how far inside; which of the trace's frames */
    const char *path;               /* arena: of its module in the root, "" for the root */
    tp_jit_module *module;          /* borrowed from the root; NULL: a function */
    tp_graph  *graph;               /* counted */
    tp_jit_names names;
    tp_node   *self;                /* NULL: a function */
    tp_node   *last_input;          /* attributes are read after it; NULL: none yet */
    tp_node   *call;                /* in the parent's graph */
    uint32_t   call_number;         /* the one it was made with: while there is one result, it has that one's */
    tp_jit_crossing *input, *last_taken;    /* arena: lists of what comes from outside */
    tp_jit_crossing *output, *last_given;   /* and of what others read */
    uint32_t   input_count, output_count;
} tp_jit_frame;

typedef struct tp_jit_traced {      /* a value */
    tp_jit_frame *frame;            /* borrowed, NULL: an attribute */
    tp_node *node;                  /* in that frame */
    const char *path;               /* arena: of an attribute */
} tp_jit_traced;

struct tp_jit_trace {
    tp_mount   mount;               /* first */
    tp_jit_host host;
    tp_jit_module *root;            /* counted, may be NULL */
    bool       flat, force_outplace, running;
    tp_jit_frame *top;              /* borrowed: the frame calls are written to */
    tp_array(tp_jit_frame *) frames;    /* each in the arena, its graph counted; the first is the root */
    tp_array(tp_jit_traced) values; /* [0] is not used */
    tp_array(tp_tensor *) held;     /* each counted */
    tp_map     tensors;             /* address -> value */
    tp_map     nodes;               /* frame and value -> the value's node in that frame */
    tp_text_map paths;              /* path of a module -> value */
    tp_arena   arena;               /* what lives as long as the trace: a model has thousands of frames */
    tp_jit_note *self;              /* borrowed: of the newest frame; the others' have numbers, given in the order of frames */
};

/* A builder gave NULL: its graph has the error, unless somebody below it set one. */
void *tp_jit_graph_failed(const tp_graph *g);

TP_CHECK tp_jit_frame *tp_jit_frame_new(tp_jit_trace *t, tp_jit_frame *parent, const char *path);  /* the path is arena */
tp_jit_value tp_jit_frame_attribute(tp_jit_trace *t, const char *path);    /* a value for a tensor of the root */
/* A fresh node as a value of its frame. n NULL: the graph has failed. */
tp_jit_value tp_jit_frame_define(tp_jit_trace *t, tp_jit_frame *f, tp_node *n);
/* The node of a value where it is wanted; NULL: an error is set, in the graph or the thread. */
tp_node *tp_jit_frame_resolve(tp_jit_trace *t, tp_jit_frame *f, tp_jit_value id);
/* Marks a node as one with several values: it has no number of its own. n NULL is fine. */
tp_node *tp_jit_frame_several(tp_jit_frame *f, tp_node *n, uint32_t count);
/* Frames become methods of their modules. */
TP_CHECK bool tp_jit_frames_finish(tp_jit_trace *t);

#endif
