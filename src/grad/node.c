/* node.c - making and freeing nodes, and their hooks. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "grad/internal.h"
#include "ops/symbolic.h"

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* ---- memory ----
 *
 * Nodes come and go with every step of a program. Those of most ops fit one of two sizes and are recycled per thread. */
enum { SMALL_NODE = 320, LARGE_NODE = 640, FIRST_LIST = 3, NOT_RECYCLED = 2, MOST_FREE = 64 };

static uint8_t room_for(size_t bytes)
{
    return bytes <= SMALL_NODE ? 0 : bytes <= LARGE_NODE ? 1 : NOT_RECYCLED;
}

static tp_grad_node *fresh(size_t bytes, uint8_t room)
{
    tp_thread *self = &tp_self;
    if (room == NOT_RECYCLED)
        return tp_alloc(bytes);
    void *n = self->free_list[FIRST_LIST + room];
    if (!n || atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) >= 0)
        return tp_alloc(TP_WATCHED ? bytes : room ? LARGE_NODE : SMALL_NODE);
    self->free_list[FIRST_LIST + room] = *(void **)n;
    self->free_count[FIRST_LIST + room]--;
    tp_count_allocation(1);
    return n;
}

static void recycle(tp_grad_node *n)
{
    tp_thread *self = &tp_self;
    uint8_t list = FIRST_LIST + n->room;
    if (TP_WATCHED || n->room == NOT_RECYCLED || self->free_count[list] >= MOST_FREE) {
        tp_free(n);
        return;
    }
    tp_thread_note_end();
    *(void **)(void *)n = self->free_list[list];
    self->free_list[list] = n;
    self->free_count[list]++;
    tp_count_allocation(-1);
}

tp_grad_node *tp_grad_node_new(const tp_grad_kind *kind, size_t bytes, uint32_t edges, uint32_t slots)
{
    size_t at_edges = aligned(bytes), at_slots = aligned(at_edges + edges * sizeof(tp_edge));
    size_t all = at_slots + slots * sizeof(tp_slot);
    uint8_t room = room_for(all);
    tp_grad_node *n = fresh(all, room);
    if (!n)
        return NULL;
    memset(n, 0, bytes);
    n->room = room;
    atomic_init(&n->refs, 1);
    n->kind = kind;
    n->sequence = atomic_fetch_add_explicit(&tp_the_runtime.sequence, 1, memory_order_relaxed);
    n->edge_count = edges;
    n->slot_count = slots;
    n->edge = (tp_edge *)(void *)((char *)n + at_edges);
    n->slot = (tp_slot *)(void *)((char *)n + at_slots);
    memset(n->edge, 0, edges * sizeof *n->edge);
    for (uint32_t i = 0; i < slots; i++) {
        n->slot[i].defined = false;
        n->slot[i].size = n->slot[i].small;
        n->slot[i].symbolic = tp_none();
    }
    if (TP_UNLIKELY(tp_self.anomaly) && tp_the_runtime.python.capture_stack)
        n->metadata = tp_the_runtime.python.capture_stack();
    return n;
}

static bool keep_expressions(tp_slot *s, const tp_tensor *result)
{
    tp_list *l = tp_list_new(result->ndim);
    for (int i = 0; l && i < result->ndim; i++)
        l->item[i] = tp_of_sym(tp_tensor_sym_size(result, i));
    if (!l)
        return false;
    tp_value_unref(s->symbolic);
    s->symbolic = tp_of_list(l);
    return true;
}

bool tp_slot_describe(tp_grad_node *n, uint32_t slot, const tp_tensor *result)
{
    tp_slot *s = &n->slot[slot];
    if (result->ndim > TP_COUNT(s->small) && !(s->size = tp_alloc_array(result->ndim, sizeof *s->size))) {
        s->size = s->small;
        return false;
    }
    s->dtype = result->dtype;
    s->ndim = result->ndim;
    s->device = result->device;
    s->defined = true;
    memcpy(s->size, result->size, result->ndim * sizeof *s->size);
    return TP_LIKELY(!tp_tensor_is_symbolic(result)) || keep_expressions(s, result);
}

static void drop_hooks(tp_hook *h)
{
    for (tp_hook *next; h; h = next) {
        next = h->next;
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h->callable });
        tp_free(h);
    }
}

void tp_grad_node_bury(tp_grad_node *n)
{
    if (n->kind->free)
        n->kind->free(n);
    for (uint32_t i = 0; i < n->edge_count; i++)
        tp_grad_node_unref(n->edge[i].node);
    for (uint32_t i = 0; i < n->slot_count; i++) {
        if (n->slot[i].size != n->slot[i].small)
            tp_free(n->slot[i].size);
        tp_value_unref(n->slot[i].symbolic);
        if (n->slot_hooks)
            drop_hooks(n->slot_hooks[i]);
    }
    drop_hooks(n->pre_hooks);
    drop_hooks(n->post_hooks);
    if (n->slot_hooks)
        tp_free(n->slot_hooks);
    if (n->retain)
        tp_free(n->retain);
    if (n->metadata)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = n->metadata });
    recycle(n);
}

/* Burying a node frees tensors and nodes behind it, which come back here: they wait on a list, so that a graph of any
 * depth needs no stack. The wrapper field is free to link them, for a node with a Python object has an owner. */
void tp_grad_node_free(tp_grad_node *n)
{
    tp_thread *self = &tp_self;
    if (n->kind->leave && !n->kind->leave(n))
        return;
    n->wrapper = self->dying;
    self->dying = n;
    if (self->burying)
        return;
    self->burying = true;
    while ((n = self->dying)) {
        self->dying = n->wrapper;
        n->wrapper = NULL;
        tp_grad_node_bury(n);
    }
    self->burying = false;
}

const char *tp_grad_node_title(const tp_grad_node *n, char out[64])
{
    snprintf(out, 64, "%s", n->kind->name(n));
    char *tail = strstr(out, "Backward");
    const char *number = tail ? tail + strlen("Backward") : "";
    if (strcmp(number, "0") == 0)
        *tail = 0;
    else if (*number && strspn(number, "0123456789") == strlen(number))
        memmove(tail, number, strlen(number) + 1);
    return out;
}

/* ---- hooks ---- */
bool tp_hook_add(tp_hook **list, int64_t id, tp_handle *callable,
                 bool (*call)(tp_hook *, tp_value *, size_t, tp_value *, size_t), bool first)
{
    tp_hook *h = tp_alloc(sizeof *h);
    if (!h)
        return false;
    tp_count_up(&callable->refs);
    *h = (tp_hook){ .id = id, .callable = callable, .call = call };
    if (first) {
        h->next = *list;
        *list = h;
        return true;
    }
    while (*list)
        list = &(*list)->next;
    *list = h;
    return true;
}

void tp_hook_remove(tp_hook **list, int64_t id)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->id == id) {
            tp_hook *h = *list;
            *list = h->next;
            h->next = NULL;
            drop_hooks(h);
            return;
        }
}

void tp_hooks_free(tp_hook *list)
{
    drop_hooks(list);
}

/* A hook may remove hooks, itself among them, and add others: what runs is what stood in the list at first, as PyTorch has it. */
bool tp_hooks_run(const tp_hook *list, tp_value *gradients, size_t count, tp_value *results, size_t result_count)
{
    size_t hooks = 0, held = 0;
    for (const tp_hook *h = list; h; h = h->next)
        hooks++;
    tp_hook *copy = hooks ? tp_alloc_array(hooks, sizeof *copy) : NULL;
    bool ok = copy || !hooks;
    for (const tp_hook *h = list; ok && h; h = h->next) {
        copy[held++] = (tp_hook){ .id = h->id, .callable = h->callable, .call = h->call };
        tp_count_up(&h->callable->refs);
    }
    for (size_t i = 0; ok && i < held; i++)
        ok = copy[i].call(&copy[i], gradients, count, results, result_count);
    for (size_t i = 0; i < held; i++)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = copy[i].callable });
    tp_free(copy);
    return ok;
}
