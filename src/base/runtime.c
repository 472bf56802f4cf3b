/* runtime.c - the two structs of state, and what happens to them at load, fork and the end of a thread. */
#include "base/runtime.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/block.h"
#include "base/pool.h"

enum { ALL_LAYERS = -1 };

tp_runtime tp_the_runtime = { .allocation_fuse = -1 };
_Thread_local tp_thread tp_self = {
    .allowed = (uint32_t)ALL_LAYERS,
    .grad_mode = true,
    .forward_mode = true,
};

void tp_thread_trim(void)
{
    for (size_t i = 0; i < TP_COUNT(tp_self.free_list); i++) {
        for (void *p = tp_self.free_list[i], *next; p; p = next) {
            next = *(void **)p;
            free(p);
        }
        tp_self.free_list[i] = NULL;
        tp_self.free_count[i] = 0;
    }
    if (tp_self.error_room)
        free(tp_self.error_text);
    tp_self.error_text = NULL;
    tp_self.error_room = 0;
}

/* Another destructor may still free tensors after this one: the flag is down, so that they note the end again. */
static void end_thread(void *unused)
{
    (void)unused;
    tp_self.end_noted = false;
    tp_thread_trim();
}

void tp_thread_note_end_now(void)
{
    tp_self.end_noted = pthread_setspecific(tp_the_runtime.thread_end, &tp_self) == 0;
}

void tp_runtime_trim(void)
{
    for (size_t i = 0; i < TP_FFT_PLANS; i++)
        tp_free(atomic_exchange(&tp_the_runtime.fft_plan[i], NULL));
    tp_pool_stop();
    tp_block_trim();
    tp_thread_trim();
}

static void before_fork(void)
{
    tp_pool_before_fork();
    tp_blocks_lock(true);
}

static void in_parent(void)
{
    tp_blocks_lock(false);
    tp_pool_after_fork(false);
}

static void in_child(void)
{
    tp_blocks_lock(false);
    tp_pool_after_fork(true);
}

__attribute__((constructor(101))) static void load(void)
{
    if (!tp_blocks_init() || !tp_pool_init() || pthread_key_create(&tp_the_runtime.thread_end, end_thread) != 0)
        abort();        /* the process cannot even load: there is nobody to tell */
    pthread_atfork(before_fork, in_parent, in_child);
}
