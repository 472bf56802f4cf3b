/* pool.h - the threads that share long loops.
 *
 * Work is cut into chunks that are claimed from a counter; the caller claims too and waits only for chunks that were
 * claimed, so a busy core delays what it holds and nothing else. Workers spin for at most 20 microseconds after work,
 * then sleep: an idle pool uses no CPU. A worker that wakes on the caller's core moves to another it may use. Affinity and
 * cgroup quota set how many there are. After fork the child forgets the workers and starts its own when it first needs
 * them. A split inside a chunk runs serially. */
#ifndef TP_BASE_POOL_H
#define TP_BASE_POOL_H

#include "base/api.h"

/* Does chunk `index` of `count`. It may run on any thread, without the GIL, and must not fail. */
typedef void tp_chunk_fn(void *work, int64_t index, int64_t count);

/* Runs every chunk once and returns when all are done. How chunks are numbered must not depend on the thread count. */
TP_API void tp_pool_run(int64_t count, tp_chunk_fn *chunk, void *work);

/* Does chunks first <= i < last. Few chunks are claimed at a time near the end, many before: for chunks that are short and
 * cheaper together. How they are put together depends on the threads, so results must not depend on it. */
typedef void tp_range_fn(void *work, int64_t first, int64_t last);
TP_API void tp_pool_run_ranges(int64_t count, tp_range_fn *range, void *work);

TP_API int  tp_pool_threads(void);              /* how many threads a run may use now, at least 1 */
TP_API void tp_pool_set_threads(int count);     /* torch.set_num_threads; 0: as many as the machine lends */
TP_API void tp_pool_stop(void);                 /* ends the workers; they start again when needed */

/* For runtime.c. */
bool tp_pool_init(void);
void tp_pool_before_fork(void);
void tp_pool_after_fork(bool child);

#endif
