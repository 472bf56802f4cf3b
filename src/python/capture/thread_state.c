/* thread_state.c - snapshots: taken before a capture, put back after it however it ends. */
#include "python/capture/thread_state.h"
#include "base/alloc.h"
#include "grad/tape.h"
#include "python/face.h"

void thread_state_set(state_word word)
{
    tp_self.grad_mode = word & STATE_GRAD;
    tp_self.inference_mode = word & STATE_INFERENCE;
    tp_self.forward_mode = word & STATE_FORWARD;
    tp_self.anomaly = word & STATE_ANOMALY;
    tp_self.anomaly_nan = word & STATE_ANOMALY_NAN;
    tp_the_runtime.default_dtype = (int)(word >> STATE_DTYPE_AT & 255);
    atomic_store(&tp_the_runtime.attention_off, (unsigned)(word >> STATE_ATTENTION_AT & 255));
    atomic_store(&tp_the_runtime.deterministic, (int)(word >> STATE_DETERMINISTIC_AT & 255));
    tp_autocast_state *a = tp_self.autocast;
    if (!a)
        return;
    a->nesting = (int)(word >> STATE_NESTING_AT & 0xffff);
    tp_autocast_change(a, word & STATE_AUTOCAST, (tp_dtype)(word >> STATE_CAST_DTYPE_AT & 255), word & STATE_CACHE);
}

void thread_state_keep_generator(thread_state *s)
{
    tp_generator *g = tp_the_runtime.generator;
    s->has_generator = g;
    if (g)
        tp_generator_get_state(g, s->generator);
}

void thread_state_save(thread_state *s)
{
    s->word = thread_state_word();
    s->active = tp_self.active;
    s->saved_hooks = tp_self.saved_hooks;
    s->threads = atomic_load(&tp_the_runtime.thread_limit);
    thread_state_keep_generator(s);
}

/* What a back end pushed and did not pop. */
static void pop_saved_hooks(const void *until)
{
    while (tp_self.saved_hooks && tp_self.saved_hooks != until) {
        tp_saved_hooks *h = tp_self.saved_hooks;
        tp_self.saved_hooks = h->outer;
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h->user });
        tp_free(h);
    }
}

static void leave_modes(void)
{
    face_modes *m = tp_self.modes;
    if (!m)
        return;
    Py_CLEAR(m->function);
    Py_CLEAR(m->dispatch);
    m->function_off = 0;
    face_modes_tidy();
}

void thread_state_restore(const thread_state *s)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (s->word != thread_state_word())
        thread_state_set(s->word);
    pop_saved_hooks(s->saved_hooks);
    leave_modes();
    tp_self.active = s->active;
    atomic_store(&tp_the_runtime.thread_limit, s->threads);
    if (s->has_generator && tp_the_runtime.generator && !tp_generator_set_state(tp_the_runtime.generator, s->generator, sizeof s->generator))
        tp_error_clear();               /* the state is one that a generator gave */
    PyErr_Restore(type, value, trace);
}
