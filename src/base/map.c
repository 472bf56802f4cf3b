/* map.c - linear probing; removal shifts the run behind it back, so that a probe may stop at the first free slot. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

/* Have `count` keys no place in it? Keys are mostly looked up to hear that they are free, which takes dozens of steps when slots are
 * 7/8 full. */
static bool is_full(size_t count, size_t room)
{
    return count * 8 > room * 5;
}

static size_t home(const tp_map *m, uint64_t key)
{
    return tp_hash_word(key) & (m->room - 1);
}

static size_t find(const tp_map *m, uint64_t key)
{
    size_t i = home(m, key);
    while (m->used[i] && m->slot[i].key != key)
        i = (i + 1) & (m->room - 1);
    return i;
}

void tp_map_fini(tp_map *m)
{
    tp_free(m->slot);
    tp_free(m->used);
    *m = (tp_map){ 0 };
}

bool tp_map_reserve(tp_map *m, size_t count)
{
    tp_map wide = { .room = m->room ? m->room : 8, .count = m->count };
    while (is_full(m->count + count, wide.room))
        wide.room *= 2;
    if (wide.room == m->room)
        return true;
    wide.slot = tp_alloc_array(wide.room, sizeof *wide.slot);
    wide.used = wide.slot ? tp_alloc_zero(wide.room) : NULL;
    if (!wide.used) {
        tp_map_fini(&wide);
        return false;
    }
    for (size_t i = 0; i < m->room; i++)
        if (m->used[i]) {
            size_t at = find(&wide, m->slot[i].key);
            wide.slot[at] = m->slot[i];
            wide.used[at] = 1;
        }
    tp_map_fini(m);
    *m = wide;
    return true;
}

bool tp_map_put(tp_map *m, uint64_t key, uint64_t value)
{
    if (is_full(m->count + 1, m->room) && !tp_map_reserve(m, 1))
        return false;
    size_t i = find(m, key);
    m->count += !m->used[i];
    m->used[i] = 1;
    m->slot[i] = (struct tp_map_slot){ key, value };
    return true;
}

bool tp_map_get(const tp_map *m, uint64_t key, uint64_t *value)
{
    if (!m->count)
        return false;
    size_t i = find(m, key);
    if (m->used[i])
        *value = m->slot[i].value;
    return m->used[i];
}

bool tp_map_remove(tp_map *m, uint64_t key)
{
    if (!m->count)
        return false;
    size_t mask = m->room - 1, hole = find(m, key);
    if (!m->used[hole])
        return false;
    for (size_t i = (hole + 1) & mask; m->used[i]; i = (i + 1) & mask)
        if (((i - home(m, m->slot[i].key)) & mask) >= ((i - hole) & mask)) {
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    m->used[hole] = 0;
    m->count--;
    return true;
}

static size_t find_text(const tp_text_map *m, const char *text, uint64_t hash)
{
    size_t i = hash & (m->room - 1);
    while (m->slot[i].text && (m->slot[i].hash != hash || strcmp(m->slot[i].text, text) != 0))
        i = (i + 1) & (m->room - 1);
    return i;
}

void tp_text_map_fini(tp_text_map *m)
{
    for (size_t i = 0; !m->arena && i < m->room; i++)
        tp_free(m->slot[i].text);
    if (!m->arena)
        tp_free(m->slot);
    *m = (tp_text_map){ .arena = m->arena };
}

static bool take_slots(tp_text_map *m)
{
    size_t bytes = m->room * sizeof *m->slot;
    m->slot = m->arena ? tp_arena_take(m->arena, bytes) : tp_alloc(bytes);
    if (m->slot)
        memset(m->slot, 0, bytes);
    return m->slot;
}

static char *own_text(const tp_text_map *m, const char *text)
{
    return m->arena ? tp_text_in(m->arena, text, strlen(text)) : tp_alloc_text(text);
}

static bool grow_text(tp_text_map *m)
{
    tp_text_map wide = { .room = m->room ? m->room * 2 : 8, .count = m->count, .arena = m->arena };
    if (!take_slots(&wide))
        return false;
    for (size_t i = 0; i < m->room; i++)
        if (m->slot[i].text)
            wide.slot[find_text(&wide, m->slot[i].text, m->slot[i].hash)] = m->slot[i];
    if (!m->arena)
        tp_free(m->slot);
    *m = wide;
    return true;
}

const char *tp_text_map_keep(tp_text_map *m, const char *text, uint64_t value)
{
    if (is_full(m->count + 1, m->room) && !grow_text(m))
        return NULL;
    uint64_t hash = tp_hash_text(text);
    struct tp_text_slot *s = &m->slot[find_text(m, text, hash)];
    if (!s->text) {
        if (!(s->text = own_text(m, text)))
            return NULL;
        s->hash = hash;
        m->count++;
    }
    s->value = value;
    return s->text;
}

bool tp_text_map_put(tp_text_map *m, const char *text, uint64_t value)
{
    return tp_text_map_keep(m, text, value);
}

bool tp_text_map_copy(tp_text_map *m, const tp_text_map *from)
{
    tp_text_map made = { .room = from->room, .count = from->count, .arena = m->arena };
    if (made.room && !take_slots(&made))
        return false;
    for (size_t i = 0; i < made.room; i++)
        if (from->slot[i].text) {
            made.slot[i] = from->slot[i];
            if (!(made.slot[i].text = own_text(&made, from->slot[i].text))) {
                tp_text_map_fini(&made);
                return false;
            }
        }
    *m = made;
    return true;
}

bool tp_text_map_get(const tp_text_map *m, const char *text, uint64_t *value)
{
    if (!m->count)
        return false;
    const struct tp_text_slot *s = &m->slot[find_text(m, text, tp_hash_text(text))];
    if (s->text)
        *value = s->value;
    return s->text != NULL;
}
