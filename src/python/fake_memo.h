/* fake_memo.h - what a FakeTensorMode remembers: the fake of each real tensor it was shown, as long as both live.
 *
 * One real tensor has one fake, and tensors that look into one storage have fakes that do. References are weak: a memo keeps nothing
 * alive. Rows of the dead are dropped when the memo would grow. But inputs of a capture live until it ends anyway: they are held
 * until then, which costs a third of two weak references. The GIL is held.
 * Fails: with an exception set. */
#ifndef TP_PYTHON_FAKE_MEMO_H
#define TP_PYTHON_FAKE_MEMO_H

#include "base/array.h"
#include "base/map.h"
#include "python/face.h"

typedef struct fake_row {
    PyObject *real, *fake;                  /* counted: weak references, or the tensors if held */
    const tp_storage *storage;              /* borrowed, maybe dead: of the real tensor */
    uint32_t  same;                         /* 1 + the row before this one that has the same storage; 0: none */
    bool      held;
} fake_row;

typedef struct fake_memo {
    tp_array(fake_row) rows;
    tp_map of_tensor;                       /* address of a Python tensor -> its row */
    tp_map of_storage;                      /* address of a storage -> the newest row that has it */
    size_t live;                            /* rows after the dead were dropped last */
    size_t held;                            /* rows that are */
} fake_memo;

void fake_memo_fini(fake_memo *m);          /* a zeroed struct is an empty memo */
PyObject *fake_memo_get(const fake_memo *m, PyObject *real);       /* borrowed; NULL: none (no exception set) */
PyObject *fake_memo_beside(const fake_memo *m, PyObject *real);    /* a fake in the storage of a sharer; borrowed; NULL: none */
bool fake_memo_put(fake_memo *m, PyObject *real, PyObject *fake, bool held);
bool fake_memo_reserve(fake_memo *m, size_t count);     /* about so many rows will come */
bool fake_memo_let_go(fake_memo *m);                    /* what is held is forgotten */

#endif
