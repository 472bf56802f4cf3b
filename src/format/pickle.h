/* pickle.h - Python's pickles as trees of plain C values: nothing is imported or called.
 *
 * The reader knows protocols 0 to 5 and yields what the pickle *says*: a global is its two names, a call is a function and
 * its arguments, a persistent id is the value it wraps. Whether to build these is for the caller, who keeps the list of what is
 * allowed; `global` lists every global the pickle names, in order of first use.
 *
 * Sharing and cycles are kept: an object met twice is one node, a list may hold itself. Nodes are numbered densely (`id`), so
 * that a caller keeps what it made of them in an array. A walker must bound its depth; the reader itself uses no recursion.
 * Memory is bounded by a multiple of the input. Errors are TP_ERR_VALUE.
 *
 * The writer gives protocol 2 with the memo numbered as Python's pickler does: a tree that was read from a pickle of
 * torch.save is written back byte for byte. Node identity is object identity. Everything lives in the caller's arena. */
#ifndef TP_FORMAT_PICKLE_H
#define TP_FORMAT_PICKLE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

typedef enum tp_pickle_kind {
    TP_PICKLE_NONE, TP_PICKLE_BOOL, TP_PICKLE_INT,
    TP_PICKLE_BIG,              /* `text`: two's complement, lowest byte first */
    TP_PICKLE_FLOAT,
    TP_PICKLE_TEXT,             /* utf-8, surrogates allowed; not checked */
    TP_PICKLE_STRING,           /* what Python 2 called str: bytes of an encoding only the caller knows */
    TP_PICKLE_BYTES, TP_PICKLE_BYTEARRAY,
    TP_PICKLE_LIST, TP_PICKLE_TUPLE, TP_PICKLE_SET, TP_PICKLE_FROZENSET,
    TP_PICKLE_DICT,             /* `item` alternates keys and values, in order, equal keys kept */
    TP_PICKLE_GLOBAL,           /* `text` is the module, `name` the name */
    TP_PICKLE_CALL,             /* item[0](*item[1]) */
    TP_PICKLE_NEW,              /* item[0].__new__(item[0], *item[1], **item[2]); item[2] may be absent */
    TP_PICKLE_PERSISTENT,       /* item[0] is the id */
} tp_pickle_kind;

/* What happens to an object after it was made: x.append(a), x[a] = b, x.__setstate__(a), x.add(a). */
typedef enum tp_pickle_act { TP_PICKLE_APPEND, TP_PICKLE_SET_ITEM, TP_PICKLE_BUILD, TP_PICKLE_ADD } tp_pickle_act;
typedef struct tp_pickle_step {
    struct tp_pickle_step *next;    /* arena, in order */
    struct tp_pickle *a, *b;        /* arena; `b` for SET_ITEM only */
    tp_pickle_act act;
} tp_pickle_step;

typedef struct tp_pickle {
    uint8_t  kind;              /* tp_pickle_kind */
    bool     truth;             /* BOOL */
    uint32_t id;                /* index among the nodes of its tree */
    uint32_t count, room;       /* of `item` */
    union {
        int64_t integer;        /* INT */
        double  number;         /* FLOAT */
        size_t  length;         /* bytes of `text`: TEXT, STRING, BYTES, BYTEARRAY, BIG */
        const char *name;       /* GLOBAL; arena */
    };
    const char *text;           /* arena, terminated */
    struct tp_pickle **item;    /* arena */
    tp_pickle_step *step, *last_step;   /* arena, may be NULL: only on CALL, NEW, GLOBAL and PERSISTENT */
} tp_pickle;

typedef struct tp_pickle_tree {
    tp_pickle  *root;
    uint32_t    node_count;
    int         protocol;       /* as the pickle claims; 0 when it does not */
    size_t      used;           /* bytes up to and with STOP: several pickles may follow one another */
    tp_pickle **global;         /* arena; each pair of names once for every node that names it */
    uint32_t    global_count;
} tp_pickle_tree;

TP_API TP_CHECK bool tp_pickle_read_in(tp_arena *a, const void *bytes, size_t count, tp_pickle_tree *out);

/* ---- making trees; NULL: the arena has failed. Every call makes a node of its own. ---- */
TP_API TP_CHECK tp_pickle *tp_pickle_none_in(tp_arena *a);
TP_API TP_CHECK tp_pickle *tp_pickle_bool_in(tp_arena *a, bool v);
TP_API TP_CHECK tp_pickle *tp_pickle_int_in(tp_arena *a, int64_t v);
TP_API TP_CHECK tp_pickle *tp_pickle_float_in(tp_arena *a, double v);
TP_API TP_CHECK tp_pickle *tp_pickle_text_in(tp_arena *a, const char *utf8);
TP_API TP_CHECK tp_pickle *tp_pickle_bytes_in(tp_arena *a, const void *bytes, size_t count);
TP_API TP_CHECK tp_pickle *tp_pickle_global_in(tp_arena *a, const char *module, const char *name);
TP_API TP_CHECK tp_pickle *tp_pickle_tuple_in(tp_arena *a, size_t count, tp_pickle *const *item);   /* any NULL item: NULL */
TP_API TP_CHECK tp_pickle *tp_pickle_call_in(tp_arena *a, tp_pickle *function, tp_pickle *arguments);
TP_API TP_CHECK tp_pickle *tp_pickle_persistent_in(tp_arena *a, tp_pickle *id);
TP_API TP_CHECK tp_pickle *tp_pickle_empty_in(tp_arena *a, tp_pickle_kind kind);    /* LIST, DICT, SET, FROZENSET */
TP_API TP_CHECK bool tp_pickle_append(tp_arena *a, tp_pickle *list, tp_pickle *item);           /* LIST, SET or a step */
TP_API TP_CHECK bool tp_pickle_set(tp_arena *a, tp_pickle *dict, tp_pickle *key, tp_pickle *value);     /* DICT or a step */
TP_API TP_CHECK bool tp_pickle_build(tp_arena *a, tp_pickle *object, tp_pickle *state);

/* Appends the pickle of a tree. */
TP_API TP_CHECK bool tp_pickle_write(const tp_pickle *root, tp_text *out);

/* Copies a pickle of protocol 0 to 3, globals of package `from` (and of its modules) renamed to `to`: what Python pickled in
 * the package's own name goes into a file as torch's. Protocols from 4 on frame their names, and are refused. */
TP_API TP_CHECK bool tp_pickle_rename(const void *bytes, size_t count, const char *from, const char *to, tp_text *out);

/* Is `v` a text (or old string) with just these bytes? A global of these names? */
TP_API bool tp_pickle_is_text(const tp_pickle *v, const char *text);
TP_API bool tp_pickle_is_global(const tp_pickle *v, const char *module, const char *name);

#endif
