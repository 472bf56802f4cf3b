/* pool.c - claimed chunks, a short spin, then a futex.
 *
 *   run: next ──► 0 1 2 3 4 5 … count       claimed from the left: caller and workers alike
 *   claims of ranges:  ├────────┤├─────┤├───┤├─┤…       a share of what is left, so that the last ones are small
 *
 * One run at a time uses the workers; a second caller that finds them taken does its chunks alone, which is never
 * slower than waiting. A worker registers in `inside` before it touches the run and leaves when it has finished what it
 * claimed. When nothing is left to claim the caller waits until nobody is inside: then all is done, and that is what
 * makes a stack-allocated `work` safe. */
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
    atomic_uint  inside;            /* futex word: workers that look at the run */
    atomic_int   waiting;           /* the caller sleeps until nobody is inside */
    atomic_llong next;
    int64_t      count;
    int64_t      share;             /* a claim takes this part of what is left; 0: one chunk */
    tp_range_fn *range;
    void        *work;
    atomic_int   caller_core;       /* where the run was started */
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

/* The next range of chunks; empty when there is none left. */
static int64_t claim(struct tp_pool *p, int64_t count, int64_t *last)
{
    if (!p->share) {
        int64_t first = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        *last = first < count ? first + 1 : first;
        return first;
    }
    long long first = atomic_load_explicit(&p->next, memory_order_relaxed), take;
    do {
        take = (count - first + p->share - 1) / p->share;
    } while (take > 0 && !atomic_compare_exchange_weak_explicit(&p->next, &first, first + take, memory_order_relaxed,
                                                                memory_order_relaxed));
    *last = first + take;
    return first;
}

static void work_on(struct tp_pool *p, int64_t count, tp_range_fn *range, void *work)
{
    int64_t first, last;
    while ((first = claim(p, count, &last)) < last)
        range(work, first, last);
}

/* On a busy machine a worker is often woken on the caller's own core, and sleeps too soon for the scheduler to part them:
 * the run would have one core. So it moves on its own; its affinity is the same again afterwards. */
static void leave_core(int core)
{
    cpu_set_t all, others;
    if (sched_getcpu() != core || sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    others = all;
    CPU_CLR(core, &others);
    if (CPU_COUNT(&others) && sched_setaffinity(0, sizeof others, &others) == 0)
        (void)sched_setaffinity(0, sizeof all, &all);
}

static void join_run(struct tp_pool *p)
{
    if (atomic_load(&p->open))
        leave_core(atomic_load(&p->caller_core));
    atomic_fetch_add(&p->inside, 1);
    if (atomic_load(&p->open) && atomic_fetch_sub(&p->helpers_wanted, 1) > 0)
        work_on(p, p->count, p->range, p->work);
    if (atomic_fetch_sub(&p->inside, 1) == 1 && atomic_load(&p->waiting))
        futex_wake(&p->inside, 1);
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

/* A worker that lost its core holds us up. Sleeping, not yielding, leaves our core free for it to move to. */
static void wait_for_workers(struct tp_pool *p)
{
    unsigned inside;
    int64_t until = nanoseconds() + SPIN_NANOSECONDS;
    while (atomic_load(&p->inside) && nanoseconds() < until)
        __builtin_ia32_pause();
    if (!atomic_load(&p->inside))
        return;
    atomic_store(&p->waiting, 1);
    while ((inside = atomic_load(&p->inside)))
        futex_wait(&p->inside, inside);
    atomic_store(&p->waiting, 0);
}

static void run_shared(int64_t count, int64_t share, tp_range_fn *range, void *work)
{
    struct tp_pool *p = tp_the_runtime.pool;
    int threads = tp_pool_threads();
    if (count < 2 || threads < 2 || tp_self.in_parallel || atomic_flag_test_and_set(&p->taken)) {
        if (count > 0)
            range(work, 0, count);
        return;
    }
    if (p->workers < threads - 1)
        start_workers(p, threads - 1);

    p->count = count;
    p->share = share * threads;
    p->range = range;
    p->work = work;
    atomic_store(&p->caller_core, sched_getcpu());
    atomic_store(&p->next, 0);
    atomic_store(&p->helpers_wanted, threads - 1);
    atomic_store(&p->open, 1);
    atomic_fetch_add(&p->ticket, 1);
    if (atomic_load(&p->sleeping))
        futex_wake(&p->ticket, threads - 1);

    tp_self.in_parallel = true;
    work_on(p, count, range, work);
    tp_self.in_parallel = false;
    atomic_store(&p->open, 0);
    wait_for_workers(p);
    atomic_flag_clear(&p->taken);
}

void tp_pool_run_ranges(int64_t count, tp_range_fn *range, void *work)
{
    run_shared(count, 2, range, work);
}

typedef struct chunks {
    tp_chunk_fn *chunk;
    void        *work;
    int64_t      count;
} chunks;

static void run_chunks(void *work, int64_t first, int64_t last)
{
    const chunks *c = work;
    for (int64_t i = first; i < last; i++)
        c->chunk(c->work, i, c->count);
}

void tp_pool_run(int64_t count, tp_chunk_fn *chunk, void *work)
{
    run_shared(count, 0, run_chunks, &(chunks){ chunk, work, count });
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
        atomic_store(&p->waiting, 0);
        atomic_store(&p->sleeping, 0);
        atomic_flag_clear(&p->taken);
        tp_self.in_parallel = false;
    }
    pthread_mutex_unlock(&p->start);
}
