/* partition.c - see partition.h.
 *
 * A graph of groups stands for the nodes seen so far: for each group the groups that its nodes' readers are in (`direct`), and those that
 * are reached through unmarked nodes only (`through`). For an unmarked node the latter is kept too. Sets are bits by slot; a group that was joined to
 * another leaves its slot as an alias, so sets are never rewritten. */
#include "pass/partition.h"

#include <string.h>

#include "base/array.h"

typedef struct bits {
    uint64_t *word;                     /* arena */
    uint32_t  count;                    /* words; slots beyond are absent */
} bits;

typedef struct group {
    uint32_t number, size;
    uint32_t alias;                     /* its own slot, or the one it was joined to */
    uint32_t seen;                      /* stamp of the walk that met it */
    bits     direct, through;
} group;

typedef struct partitioning {
    tp_arena arena;
    tp_array(group) slot;
    tp_array(uint32_t) age;             /* slots of the groups there are, oldest first */
    tp_array(uint32_t) work;
    uint32_t *slot_of;                  /* by node id: 1 + slot, 0: not marked */
    bits     *through;                  /* by node id, of unmarked nodes */
    uint32_t  stamp;
    bool      readers_only, failed;
} partitioning;

/* ---- sets ---- */
static bool grow(partitioning *p, bits *b, uint32_t words)
{
    if (words <= b->count)
        return true;
    uint64_t *word = tp_arena_take_array(&p->arena, words, sizeof *word);
    if (!word)
        return false;
    if (b->count)
        memcpy(word, b->word, b->count * sizeof *word);
    memset(word + b->count, 0, (words - b->count) * sizeof *word);
    *b = (bits){ word, words };
    return true;
}

static bool add(partitioning *p, bits *b, uint32_t slot)
{
    if (!grow(p, b, slot / 64 + 1))
        return false;
    b->word[slot / 64] |= UINT64_C(1) << slot % 64;
    return true;
}

static bool join_sets(partitioning *p, bits *b, bits more)
{
    if (!grow(p, b, more.count))
        return false;
    for (uint32_t i = 0; i < more.count; i++)
        b->word[i] |= more.word[i];
    return true;
}

static uint32_t find(partitioning *p, uint32_t slot)
{
    while (p->slot.item[slot].alias != slot)
        slot = p->slot.item[slot].alias = p->slot.item[p->slot.item[slot].alias].alias;
    return slot;
}

/* ---- may two groups be one? ---- */

/* Puts the groups of a set that this walk has not met on the list of work; true: `a` or `b` is among them. */
static bool meets(partitioning *p, bits set, uint32_t a, uint32_t b, bool ends_here)
{
    for (uint32_t i = 0; i < set.count; i++)
        for (uint64_t left = set.word[i]; left; left &= left - 1) {
            uint32_t slot = find(p, i * 64 + (uint32_t)__builtin_ctzll(left));
            if (slot == a || slot == b) {
                if (ends_here)
                    return true;
                continue;
            }
            group *g = &p->slot.item[slot];
            if (g->seen == p->stamp)
                continue;
            g->seen = p->stamp;
            p->failed |= !tp_array_push(&p->work, slot);
        }
    return false;
}

/* Does a path leave the two for something else and come back? */
static bool would_wait(partitioning *p, uint32_t a, uint32_t b)
{
    group *ga = &p->slot.item[a], *gb = &p->slot.item[b];
    p->stamp++;
    p->work.count = 0;
    if (meets(p, ga->through, a, b, true) || meets(p, gb->through, a, b, true) || meets(p, ga->direct, a, b, false) ||
        meets(p, gb->direct, a, b, false))
        return true;
    while (p->work.count && !p->failed) {
        const group *g = &p->slot.item[tp_array_pop(&p->work)];
        if (meets(p, g->through, a, b, true) || meets(p, g->direct, a, b, true))
            return true;
    }
    return false;
}

/* `from` becomes part of `to`; the larger one gives the number, `from` if they are equal. */
static bool absorb(partitioning *p, uint32_t to, uint32_t from)
{
    group *a = &p->slot.item[to], *b = &p->slot.item[from];
    if (!join_sets(p, &a->direct, b->direct) || !join_sets(p, &a->through, b->through))
        return false;
    if (a->size <= b->size)
        a->number = b->number;
    a->size += b->size;
    b->alias = to;
    return true;
}

/* The newest group, at the end of `age`, joins whom it can, oldest first; the result has the oldest one's place. *out: where
 * it ended. */
static bool join_others(partitioning *p, uint32_t *out)
{
    size_t others = p->age.count - 1, kept = 0, mine = others;
    uint32_t current = p->age.item[others];
    for (size_t i = 0; i < others && !p->failed; i++) {
        uint32_t other = p->age.item[i];
        if (would_wait(p, current, other)) {
            p->age.item[kept++] = other;
            continue;
        }
        if (!absorb(p, other, current))
            return false;
        current = other;
        if (mine == others)
            mine = kept++;
        p->age.item[mine] = current;
    }
    if (mine == others)
        p->age.item[kept++] = current;
    p->age.count = kept;
    *out = current;
    return !p->failed;
}

/* The newest group joins those that read its node, in the order of the readers. */
static bool join_readers(partitioning *p, const tp_node *n, uint32_t *current)
{
    for (uint32_t u = 0; u < n->user_count && !p->failed; u++) {
        uint32_t slot = p->slot_of[n->user[u]->id], other = slot ? find(p, slot - 1) : *current;
        if (other == *current || would_wait(p, *current, other))
            continue;
        if (!absorb(p, other, *current))
            return false;
        *current = other;
    }
    return !p->failed;
}

/* ---- one node ---- */
static bool note_readers(partitioning *p, const tp_node *n, bits *direct, bits *through)
{
    for (uint32_t u = 0; u < n->user_count; u++) {
        uint32_t id = n->user[u]->id, slot = p->slot_of[id];
        if (slot ? !add(p, direct, find(p, slot - 1)) : !join_sets(p, through, p->through[id]))
            return false;
    }
    return true;
}

static bool take_marked(partitioning *p, const tp_node *n, uint32_t number)
{
    uint32_t slot = (uint32_t)p->slot.count;
    group made = { .number = number, .size = 1, .alias = slot };
    if (!note_readers(p, n, &made.direct, &made.through) || !tp_array_push(&p->slot, made))
        return false;
    uint32_t end = slot;
    if (p->readers_only ? !join_readers(p, n, &end) : !tp_array_push(&p->age, slot) || !join_others(p, &end))
        return false;
    if (end != slot)                    /* nobody has heard of its slot yet: most nodes join, and sets stay small */
        p->slot.count--;
    p->slot_of[n->id] = end + 1;
    return true;
}

/* What an unmarked node leads to: groups that read it, and what other unmarked readers lead to. */
static bool take_unmarked(partitioning *p, const tp_node *n)
{
    return note_readers(p, n, &p->through[n->id], &p->through[n->id]);
}

bool tp_partition(const tp_graph *g, const uint8_t *marked, bool readers_only, uint32_t *out)
{
    partitioning p = { .readers_only = readers_only };
    uint32_t number = 0;
    size_t count = g->node_count + 1;
    tp_arena_init(&p.arena);
    p.slot_of = tp_alloc_zero(count * sizeof *p.slot_of);
    p.through = tp_alloc_zero(count * sizeof *p.through);
    bool ok = p.slot_of && p.through;
    for (tp_node *n = g->root.prev; ok && n != &g->root; n = n->prev)
        ok = marked[n->id] ? take_marked(&p, n, number++) : take_unmarked(&p, n);
    for (tp_node *n = g->root.next; ok && n != &g->root; n = n->next)
        out[n->id] = p.slot_of[n->id] ? 1 + p.slot.item[find(&p, p.slot_of[n->id] - 1)].number : 0;
    tp_array_fini(&p.slot);
    tp_array_fini(&p.age);
    tp_array_fini(&p.work);
    tp_free(p.slot_of);
    tp_free(p.through);
    tp_arena_fini(&p.arena);
    return ok;
}
