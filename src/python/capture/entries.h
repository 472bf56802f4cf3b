/* entries.h - captured calls, as they hang off the code object they were made of.
 *
 * Who runs an entry counts it: while it runs, the program may reset everything, exchange the function's code or call the
 * function again, and lists change under those who walk them. An entry outside of every list has no owner and no next.
 *
 * An entry does not keep alive what it is about: the modules of its guards and its back end are held weakly, and when one
 * of them dies the entry goes too, with the graph and the parameters it has. */
#ifndef TP_PYTHON_CAPTURE_ENTRIES_H
#define TP_PYTHON_CAPTURE_ENTRIES_H

#include "python/capture/capture.h"
#include "python/capture/frame.h"
#include "python/capture/thread_state.h"

typedef struct entry {
    int       refs;             /* its list's, and one for each call that looks at it */
    struct entry *next;         /* the list's, borrowed by who counts this one; may be NULL */
    struct code_entries *owner; /* borrowed; NULL: in no list */
    PyObject *backend;          /* counted: it, or a weak reference to it */
    bool      weak_backend;
    PyObject *run;              /* counted, NULL: nothing to run */
    recipe   *recipe;           /* owned */
    tp_sources sources;
    int32_t  *input;            /* owned: sources of the graph's inputs */
    size_t    input_count;
    int       only_output;      /* of the recipe */
    state_word state;           /* of the thread, at the call that was captured */
    PyObject *watch;            /* counted, may be NULL: is told of deaths; knows this entry until it is freed */
} entry;

/* What hangs off a code object. Whoever uses it holds the code object. */
typedef struct code_entries {
    tp_code_cache cache;        /* first: what the code object holds */
    entry *first;               /* counted, and each one's next */
    int    count;
    bool   plain;               /* it could not be captured: runs as it is */
    struct code_entries *before, *after;    /* those of other code objects: capture_words has the first */
} code_entries;

code_entries *entries_of(PyCodeObject *code);       /* borrowed from the code; NULL: exception set */
void entries_reset(void);                           /* empties those of all code objects */

entry *entry_new(PyObject *backend);                /* NULL: exception set */
entry *entry_ref(entry *e);                         /* NULL is fine */
void entry_unref(entry *e);
bool entry_is_for(const entry *e, PyObject *backend);
bool entry_is_about(const entry *e, const call_state *call);     /* the very modules of this call? */
bool entry_add(code_entries *all, entry *e);        /* becomes the first, watched from now on; false: exception set */
void entry_to_front(entry *e);

#endif
