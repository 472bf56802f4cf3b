/* pool.c - claimed chunks, a short spin, then a futex.
 *
 *   run: next ──► 0 1 2 3 4 5 … count       claimed by fetch_add: caller and workers alike
 *        done ──► how many have finished     the caller waits until done == count
 *
 * One run at a time uses the workers; a second caller that finds them taken does its chunks alone, which is never
 * slower than waiting. A worker registers in `inside` before it touches the run and leaves after, and the caller does
 * not reuse the run's fields until nobody is inside: that is what makes a stack-allocated `work` safe. */
#define _GNU_SOURCE
#include "base/pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/runtime.h"

enum { MOST_THREADS = 256, SPIN_NANOSECONDS = 20000 };

struct tp_pool {
    atomic_uint  ticket;            /* futex word: grows by one with every run and at the stop */
    atomic_int   open;              /* a run is under way and may be entered */
    atomic_int   inside;            /* workers that look at the run */
    atomic_llong next, done;
    int64_t      count;
    tp_chunk_fn *chunk;
    void        *work;
    atomic_int   helpers_wanted;    /* how many workers may join this run */
    atomic_int   sleeping;
    atomic_flag  taken;
    atomic_int   stop;
    pthread_mutex_t start;
    int          workers;           /* started, under `start` */
    pthread_t    thread[MOST_THREADS];
    int          machine;           /* cores lent to us */
};

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static int64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Cores of the affinity mask, cut down by a cgroup quota (version 2: "max period" or "quota period"). */
static int cores_lent(void)
{
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (f) {
        long long quota, period;
        if (fscanf(f, "%lld %lld", &quota, &period) == 2 && period > 0 && quota > 0) {
            int lent = (int)((quota + period - 1) / period);
            if (lent < cores)
                cores = lent;
        }
        fclose(f);
    }
    return cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : cores;
}

static void claim_chunks(struct tp_pool *p, int64_t count, tp_chunk_fn *chunk, void *work)
{
    int64_t finished = 0, i;
    while ((i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < count) {
        chunk(work, i, count);
        finished++;
    }
    if (finished)
        atomic_fetch_add_explicit(&p->done, finished, memory_order_release);
}

static void join_run(struct tp_pool *p)
{
    atomic_fetch_add(&p->inside, 1);
    if (atomic_load(&p->open) && atomic_fetch_sub(&p->helpers_wanted, 1) > 0)
        claim_chunks(p, p->count, p->chunk, p->work);
    atomic_fetch_sub(&p->inside, 1);
}

static void *worker(void *argument)
{
    struct tp_pool *p = argument;
    unsigned seen = 0;
    tp_self.in_parallel = true;
    while (!atomic_load(&p->stop)) {
        unsigned now = atomic_load(&p->ticket);
        if (now != seen) {
            seen = now;
            join_run(p);
            continue;
        }
        int64_t until = nanoseconds() + SPIN_NANOSECONDS;
        while ((now = atomic_load_explicit(&p->ticket, memory_order_relaxed)) == seen && nanoseconds() < until)
            __builtin_ia32_pause();
        if (now == seen) {
            atomic_fetch_add(&p->sleeping, 1);
            futex_wait(&p->ticket, seen);
            atomic_fetch_sub(&p->sleeping, 1);
        }
    }
    tp_thread_trim();
    return NULL;
}

/* Starts workers up to `wanted`; fewer when the system refuses one. */
static void start_workers(struct tp_pool *p, int wanted)
{
    pthread_mutex_lock(&p->start);
    while (p->workers < wanted && pthread_create(&p->thread[p->workers], NULL, worker, p) == 0)
        p->workers++;
    pthread_mutex_unlock(&p->start);
}

static void run_alone(int64_t count, tp_chunk_fn *chunk, void *work)
{
    for (int64_t i = 0; i < count; i++)
        chunk(work, i, count);
}

static void wait_for_claimed(struct tp_pool *p, int64_t count)
{
    for (int spins = 0; atomic_load_explicit(&p->done, memory_order_acquire) < count || atomic_load(&p->inside); spins++)
        if (spins < 1000)
            __builtin_ia32_pause();
        else
            sched_yield();
}

void tp_pool_run(int64_t count, tp_chunk_fn *chunk, void *work)
{
    struct tp_pool *p = tp_the_runtime.pool;
    int threads = tp_pool_threads();
    if (count < 2 || threads < 2 || tp_self.in_parallel || atomic_flag_test_and_set(&p->taken)) {
        run_alone(count, chunk, work);
        return;
    }
    if (p->workers < threads - 1)
        start_workers(p, threads - 1);

    p->count = count;
    p->chunk = chunk;
    p->work = work;
    atomic_store(&p->next, 0);
    atomic_store(&p->done, 0);
    atomic_store(&p->helpers_wanted, threads - 1);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->ticket, 1);
    if (atomic_load(&p->sleeping))
        futex_wake(&p->ticket, threads - 1);

    tp_self.in_parallel = true;
    claim_chunks(p, count, chunk, work);
    tp_self.in_parallel = false;
    atomic_store(&p->open, 0);
    wait_for_claimed(p, count);
    atomic_flag_clear(&p->taken);
}

int tp_pool_threads(void)
{
    int limit = atomic_load_explicit(&tp_the_runtime.thread_limit, memory_order_relaxed);
    return limit ? limit : tp_the_runtime.pool->machine;
}

void tp_pool_set_threads(int count)
{
    atomic_store(&tp_the_runtime.thread_limit, count > MOST_THREADS ? MOST_THREADS : count);
}

void tp_pool_stop(void)
{
    struct tp_pool *p = tp_the_runtime.pool;
    pthread_mutex_lock(&p->start);
    atomic_store(&p->stop, 1);
    atomic_fetch_add(&p->ticket, 1);
    futex_wake(&p->ticket, INT_MAX);
    for (int i = 0; i < p->workers; i++)
        pthread_join(p->thread[i], NULL);
    p->workers = 0;
    atomic_store(&p->stop, 0);
    pthread_mutex_unlock(&p->start);
}

bool tp_pool_init(void)
{
    struct tp_pool *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    pthread_mutex_init(&p->start, NULL);
    p->machine = cores_lent();
    tp_the_runtime.pool = p;
    return true;
}

void tp_pool_before_fork(void)
{
    pthread_mutex_lock(&tp_the_runtime.pool->start);
}

/* The child has one thread: it forgets the others, and whatever run they were in. */
void tp_pool_after_fork(bool child)
{
    struct tp_pool *p = tp_the_runtime.pool;
    if (child) {
        p->workers = 0;
        atomic_store(&p->open, 0);
        atomic_store(&p->inside, 0);
        atomic_store(&p->sleeping, 0);
        atomic_flag_clear(&p->taken);
        tp_self.in_parallel = false;
    }
    pthread_mutex_unlock(&p->start);
}
