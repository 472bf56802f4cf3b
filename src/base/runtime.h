/* runtime.h - all mutable state of the library: one tp_runtime in the process, one tp_thread in each thread.
 *
 * No other file has a non-constant global; a check in the build reads this from `nm`. Folders above base keep their
 * part behind an opaque pointer here and are the only ones to look into it. */
#ifndef TP_BASE_RUNTIME_H
#define TP_BASE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

struct tp_tensor;
struct tp_value;

/* What the Python face lends to the layers below it. All NULL in a program without Python. */
typedef struct tp_wrapper_hooks {
    /* The tensor's count goes 1 -> 2, or 2 -> 1, while it has a wrapper: take or drop its reference (GIL held). */
    void (*hold)(struct tp_tensor *t);
    void (*drop)(struct tp_tensor *t);
    bool (*may_touch)(void);                /* does this thread hold the GIL? */
    bool (*poll_interrupt)(void);           /* false: Ctrl-C, the error is set */
    struct tp_handle *(*capture_stack)(void);   /* anomaly mode: where the user's program stands now */
    bool (*report_stack)(const char *node, struct tp_handle *stack);    /* the warning that names that place */
    bool (*warn)(const char *text);         /* UserWarning; false: the user made it an error */
    /* Calls a Python callable with boxed arguments, as a recorded graph does; the result is owned by the caller. */
    bool (*call)(struct tp_handle *callable, const struct tp_value *arg, uint32_t count, struct tp_value *result);
    void (*release_gil)(void **state);      /* around work of more than about 20 microseconds */
    void (*restore_gil)(void **state);
} tp_wrapper_hooks;

enum { TP_FFT_PLANS = 16 };

struct tp_op;
struct tp_value;
typedef struct tp_runtime {
    tp_wrapper_hooks  python;
    struct tp_pool   *pool;                 /* owned, base/pool.c; NULL until work is first split */
    struct tp_blocks *blocks;               /* owned, base/block.c: the cache of large blocks */
    struct tp_registry *registry;           /* owned, ops/registry.c */
    struct face_state *python_face;               /* owned, python/: the extension's types and caches, NULL without Python */
    struct tp_generator *generator;         /* owned, tensor/generator.c: the default one */
    const struct tp_tile_set *tile;         /* primitives of the chosen instruction set, tile/ */
    const struct tp_gemm_set *gemm;         /* micro-kernels of the chosen instruction set, kernels/ */
    _Atomic(void *) fft_plan[TP_FFT_PLANS]; /* owned, kernels/fft_plan.c: plans nobody uses at the moment, one block each */
    const struct tp_layer *layer[16];       /* by position, ops/dispatch.h; filled by the folder that has the layer */
    bool (*requires_grad)(const struct tp_tensor *t);       /* grad/, for rules below it: is its gradient wanted? */
    /* The tape over ops that take functions, while a tracer wants those whole (trace/graphs_gradient.c). */
    bool (*differentiate)(const struct tp_op *op, const struct tp_value *arg, struct tp_value *result);
    _Atomic(void *) orphans;                /* tensor/: lock-free list of references dropped without the GIL */
    atomic_uint_fast64_t sequence;          /* of tape nodes */
    atomic_int      thread_limit;           /* set_num_threads; 0: as many as the machine lends us */
    atomic_llong    allocation_fuse;        /* tests: the n-th allocation from now fails; negative: never */
    atomic_llong    allocations_live;       /* blocks handed out and not yet freed, while `counting` */
    bool            counting;               /* leak checks: a locked add at each allocation is worth 5 ns */
    pthread_key_t   thread_end;             /* its destructor trims the thread that ends */
    int             instruction_set;        /* tp_isa, from CPUID or TAPER_ISA */
    int             default_dtype;          /* of float literals and factories; tp_dtype */
    atomic_int      deterministic;          /* use_deterministic_algorithms: 0 off, 1 on, 2 warn only */
    atomic_bool     leave_uninitialized;    /* … without filling the memory of empty() and resize_(), ops/copy.h */
    atomic_uint     attention_off;          /* ways of attention that may not be taken: bits by SDPBackend's numbers */
} tp_runtime;

typedef struct tp_thread {
    uint32_t allowed;                       /* dispatcher: layers that may still act; written by tp_call alone */
    uint32_t active;                        /* layers switched on by modes, whatever the arguments */
    bool     grad_mode;                     /* torch.is_grad_enabled() */
    bool     inference_mode;
    bool     forward_mode;                  /* forward AD enabled */
    bool     anomaly, anomaly_nan;
    bool     in_parallel;                   /* inside a claimed chunk: nested splits run serially */
    tp_err   error;
    char    *error_text;                    /* owned or static; see error.c */
    uint32_t error_room;
    void    *free_list[7];                  /* recycled here: tensor, storage, tp_autograd, tape nodes of two sizes, short list, */
    uint32_t free_count[7];                 /* header of a storage */
    void    *modes;                         /* python: stacks of function and dispatch modes */
    struct tp_mount *tracer[2];             /* trace: mounted above (P) and below (R) autograd, innermost first */
    struct tp_mount *recorder;              /* trace: jit recorder */
    struct tp_mount *transforms;            /* trace: vmap, grad, jvp levels, innermost first */
    uint32_t levels;                        /* trace: how many of them are entered, those that have a call at the moment too */
    struct tp_mount *dual_level;            /* trace: the open one among them, also while it hands a call on */
    void    *autocast;                      /* trace: casting state */
    void    *engine;                        /* grad: the tape node whose formula this thread runs */
    void    *backward;                      /* grad: the innermost backward that this thread runs, NULL: none */
    void    *saved_hooks;                   /* grad: pack and unpack hooks */
    void    *fake;                          /* trace: the fake mode */
    struct tp_shape_env *shape_env;         /* ops: names what depends on data, borrowed; NULL: nobody can */
    struct tp_capture *capture;             /* python/capture: the innermost entered, NULL: frames run as always */
    int      capture_off;                   /* python/capture: frames are not asked about while above 0 */
    uintptr_t stack_end;                    /* python/capture: the lowest address of this thread's C stack; 0: not asked yet */
    void    *dying;                         /* grad: nodes whose last owner left, freed one after another */
    bool     burying;                       /* grad: the loop that frees them is running */
    bool     saving;                        /* grad: a value is being kept for the backward */
    bool     some_inputs;                   /* grad: the backward that runs was asked for the gradients of some inputs alone */
    bool     end_noted;                     /* tp_thread_trim will run when the thread ends */
} tp_thread;

/* Both are hidden behind accessors for users of the shared library; inside it the thread struct is reached directly,
 * with the initial-exec model, because the dispatcher reads it on every call. */
TP_API extern tp_runtime tp_the_runtime;
TP_API extern _Thread_local tp_thread tp_self __attribute__((tls_model("initial-exec")));

/* Notes an allocation (+1) or its end (-1) for leak checks. */
static inline void tp_count_allocation(int change)
{
    if (TP_UNLIKELY(tp_the_runtime.counting))
        atomic_fetch_add_explicit(&tp_the_runtime.allocations_live, change, memory_order_relaxed);
}

/* Under AddressSanitizer no cache keeps what was freed and blocks have their exact size: it must see every use after the
 * end of a thing, and past its end. */
#ifdef __SANITIZE_ADDRESS__
enum { TP_WATCHED = 1 };
#else
enum { TP_WATCHED = 0 };
#endif

/* Counts the thread's recycled structs back to the allocator; called by the thread's end and by leak checks. */
TP_API void tp_thread_trim(void);
/* Whoever leaves memory in tp_self says so first, in whichever thread, ours or not: its end then trims it. */
void tp_thread_note_end_now(void);
static inline void tp_thread_note_end(void)
{
    if (TP_UNLIKELY(!tp_self.end_noted))
        tp_thread_note_end_now();
}
/* Frees the caches of the runtime; what is counted elsewhere stays. For leak checks at the end of a program. */
TP_API void tp_runtime_trim(void);

#endif
