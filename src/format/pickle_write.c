/* pickle_write.c - trees of pickle.h made by hand, and written as Python's pickler writes protocol 2.
 *
 * What the pickler remembers (texts, globals, containers, results of calls) is numbered in the order it is met, and named by
 * its number when met again. Lists and dicts are remembered before their contents, so they may hold themselves; of a tuple
 * that holds itself the copy made inside wins, and the outer one is dropped again. */
#include "format/pickle.h"

#include <string.h>

#include "base/map.h"

/* ---- making ---- */

static tp_pickle *node_in(tp_arena *a, tp_pickle_kind kind)
{
    tp_pickle *v = tp_arena_take(a, sizeof *v);
    if (v)
        *v = (tp_pickle){ .kind = kind };
    return v;
}

tp_pickle *tp_pickle_none_in(tp_arena *a)
{
    return node_in(a, TP_PICKLE_NONE);
}

tp_pickle *tp_pickle_bool_in(tp_arena *a, bool value)
{
    tp_pickle *v = node_in(a, TP_PICKLE_BOOL);
    if (v)
        v->truth = value;
    return v;
}

tp_pickle *tp_pickle_int_in(tp_arena *a, int64_t value)
{
    tp_pickle *v = node_in(a, TP_PICKLE_INT);
    if (v)
        v->integer = value;
    return v;
}

tp_pickle *tp_pickle_float_in(tp_arena *a, double value)
{
    tp_pickle *v = node_in(a, TP_PICKLE_FLOAT);
    if (v)
        v->number = value;
    return v;
}

static tp_pickle *bytes_in(tp_arena *a, tp_pickle_kind kind, const void *bytes, size_t count)
{
    tp_pickle *v = node_in(a, kind);
    if (!v || !(v->text = tp_text_in(a, count ? bytes : "", count)))
        return NULL;
    v->length = count;
    return v;
}

tp_pickle *tp_pickle_text_in(tp_arena *a, const char *utf8)
{
    return bytes_in(a, TP_PICKLE_TEXT, utf8, strlen(utf8));
}

tp_pickle *tp_pickle_bytes_in(tp_arena *a, const void *bytes, size_t count)
{
    return bytes_in(a, TP_PICKLE_BYTES, bytes, count);
}

tp_pickle *tp_pickle_global_in(tp_arena *a, const char *module, const char *name)
{
    tp_pickle *v = node_in(a, TP_PICKLE_GLOBAL);
    if (!v)
        return NULL;
    v->text = tp_text_in(a, module, strlen(module));
    v->name = tp_text_in(a, name, strlen(name));
    return v->text && v->name ? v : NULL;
}

static bool push_item(tp_arena *a, tp_pickle *to, tp_pickle *item)
{
    if (!item)
        return false;
    if (to->count == to->room) {
        uint32_t room = to->room ? to->room * 2 : 4;
        tp_pickle **grown = tp_arena_take_array(a, room, sizeof *grown);
        if (!grown)
            return false;
        if (to->count)
            memcpy(grown, to->item, to->count * sizeof *grown);
        to->item = grown;
        to->room = room;
    }
    to->item[to->count++] = item;
    return true;
}

static tp_pickle *made_of(tp_arena *a, tp_pickle_kind kind, size_t count, tp_pickle *const *item)
{
    tp_pickle *v = node_in(a, kind);
    for (size_t i = 0; v && i < count; i++)
        if (!push_item(a, v, item[i]))
            v = NULL;
    return v;
}

tp_pickle *tp_pickle_tuple_in(tp_arena *a, size_t count, tp_pickle *const *item)
{
    return made_of(a, TP_PICKLE_TUPLE, count, item);
}

tp_pickle *tp_pickle_call_in(tp_arena *a, tp_pickle *function, tp_pickle *arguments)
{
    return made_of(a, TP_PICKLE_CALL, 2, (tp_pickle *[]){ function, arguments });
}

tp_pickle *tp_pickle_persistent_in(tp_arena *a, tp_pickle *id)
{
    return made_of(a, TP_PICKLE_PERSISTENT, 1, &id);
}

tp_pickle *tp_pickle_empty_in(tp_arena *a, tp_pickle_kind kind)
{
    return node_in(a, kind);
}

static bool push_step(tp_arena *a, tp_pickle *to, tp_pickle_act act, tp_pickle *x, tp_pickle *y)
{
    tp_pickle_step *s = x && (y || act != TP_PICKLE_SET_ITEM) ? tp_arena_take(a, sizeof *s) : NULL;
    if (!s)
        return false;
    *s = (tp_pickle_step){ .act = act, .a = x, .b = y };
    *(to->step ? &to->last_step->next : &to->step) = s;
    to->last_step = s;
    return true;
}

bool tp_pickle_append(tp_arena *a, tp_pickle *list, tp_pickle *item)
{
    bool plain = list->kind == TP_PICKLE_LIST || list->kind == TP_PICKLE_SET || list->kind == TP_PICKLE_FROZENSET;
    return plain ? push_item(a, list, item) : push_step(a, list, TP_PICKLE_APPEND, item, NULL);
}

bool tp_pickle_set(tp_arena *a, tp_pickle *dict, tp_pickle *key, tp_pickle *value)
{
    return dict->kind == TP_PICKLE_DICT ? push_item(a, dict, key) && push_item(a, dict, value)
                                        : push_step(a, dict, TP_PICKLE_SET_ITEM, key, value);
}

bool tp_pickle_build(tp_arena *a, tp_pickle *object, tp_pickle *state)
{
    return push_step(a, object, TP_PICKLE_BUILD, state, NULL);
}

bool tp_pickle_is_text(const tp_pickle *v, const char *text)
{
    return v && (v->kind == TP_PICKLE_TEXT || v->kind == TP_PICKLE_STRING) && v->length == strlen(text) &&
           memcmp(v->text, text, v->length) == 0;
}

bool tp_pickle_is_global(const tp_pickle *v, const char *module, const char *name)
{
    return v && v->kind == TP_PICKLE_GLOBAL && strcmp(v->text, module) == 0 && strcmp(v->name, name) == 0;
}

/* ---- writing ---- */

enum { BATCH = 1000, DEEPEST = 5000 };

typedef struct writer {
    tp_text *out;
    tp_map   memo;              /* address of what is remembered -> its number */
    int      depth;
} writer;

static bool save(writer *w, const tp_pickle *v);

static void put_code(writer *w, int code)
{
    const char byte = (char)code;
    tp_text_put(w->out, &byte, 1);
}

static void put_number(writer *w, uint64_t value, size_t bytes)
{
    char byte[8];
    for (size_t i = 0; i < bytes; i++)
        byte[i] = (char)(value >> 8 * i);
    tp_text_put(w->out, byte, bytes);
}

static void put_index(writer *w, uint64_t index, int short_code, int long_code)
{
    put_code(w, index < 256 ? short_code : long_code);
    put_number(w, index, index < 256 ? 1 : 4);
}

static bool remember(writer *w, const void *what)
{
    uint64_t index = w->memo.count;
    if (index > UINT32_MAX)
        return tp_fail_memory();
    put_index(w, index, 'q', 'r');
    return tp_map_put(&w->memo, (uint64_t)(uintptr_t)what, index);
}

/* Was it met before? Then its number is written. */
static bool recall(writer *w, const void *what)
{
    uint64_t index;
    if (!tp_map_get(&w->memo, (uint64_t)(uintptr_t)what, &index))
        return false;
    put_index(w, index, 'h', 'j');
    return true;
}

static bool put_text(writer *w, const char *text, size_t length, const void *as)
{
    if (length > UINT32_MAX)
        return tp_fail(TP_ERR_OVERFLOW, "cannot serialize a string larger than 4GiB");
    put_code(w, 'X');
    put_number(w, length, 4);
    tp_text_put(w->out, text, length);
    return remember(w, as);
}

/* Names that the writer itself brings along are remembered by the address of their text. */
static bool put_word(writer *w, const char *word)
{
    return recall(w, word) || put_text(w, word, strlen(word), word);
}

static bool put_global(writer *w, const char *module, const char *name, const void *as)
{
    if (recall(w, as))
        return true;
    put_code(w, 'c');
    tp_text_put(w->out, module, strlen(module));
    put_code(w, '\n');
    tp_text_put(w->out, name, strlen(name));
    put_code(w, '\n');
    return remember(w, as);
}

static bool put_int(writer *w, int64_t v)
{
    if (v >= 0 && v < 0x10000) {
        put_code(w, v < 256 ? 'K' : 'M');
        put_number(w, (uint64_t)v, v < 256 ? 1 : 2);
    } else if (v == (int32_t)v) {
        put_code(w, 'J');
        put_number(w, (uint64_t)v, 4);
    } else {
        size_t bytes = 5;
        while (bytes < 8 && v >> (8 * bytes - 1) != 0 && v >> (8 * bytes - 1) != -1)
            bytes++;
        put_code(w, 0x8a);
        put_number(w, bytes, 1);
        put_number(w, (uint64_t)v, bytes);
    }
    return true;
}

static bool put_sized(writer *w, const tp_pickle *v, int short_code, int long_code)
{
    if (v->length > INT32_MAX)
        return tp_fail(TP_ERR_OVERFLOW, "int too large to pickle");
    put_code(w, v->length < 256 ? short_code : long_code);
    put_number(w, v->length, v->length < 256 ? 1 : 4);
    tp_text_put(w->out, v->text, v->length);
    return true;
}

static bool put_float(writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_code(w, 'G');
    put_number(w, __builtin_bswap64(bits), 8);
    return true;
}

/* Bytes as text of the same code points: protocol 2 has no bytes. `as` stands for the text in the memo. */
static bool put_latin(writer *w, const tp_pickle *v, const void *as)
{
    tp_text text = { 0 };
    for (size_t i = 0; i < v->length; i++) {
        uint8_t c = (uint8_t)v->text[i];
        const char two[2] = { (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)) };
        tp_text_put(&text, c < 0x80 ? v->text + i : two, c < 0x80 ? 1 : 2);
    }
    bool ok = !text.failed && put_text(w, tp_text_read(&text), text.length, as);
    tp_text_fini(&text);
    return ok;
}

static bool finish_call(writer *w, int tuple_code, const void *tuple, const void *result)
{
    put_code(w, tuple_code);
    if (!remember(w, tuple))
        return false;
    put_code(w, 'R');
    return remember(w, result);
}

static bool put_bytes(writer *w, const tp_pickle *v)
{
    static const char encode[] = "encode", latin[] = "latin1", plain[] = "bytes", array[] = "bytearray",
                      dashed[] = "latin-1";
    bool is_array = v->kind == TP_PICKLE_BYTEARRAY;
    if (v->length == 0) {
        if (!put_global(w, "__builtin__", is_array ? array : plain, is_array ? array : plain))
            return false;
        put_code(w, ')');
        put_code(w, 'R');
        return remember(w, v);
    }
    /* The text and the tuple of arguments are objects of their own: two addresses inside the node stand for them. */
    return (is_array ? put_global(w, "__builtin__", array, array) : put_global(w, "_codecs", encode, encode)) &&
           put_latin(w, v, &v->text) && put_word(w, is_array ? dashed : latin) && finish_call(w, 0x86, &v->item, v);
}

/* ---- containers ---- */

/* Items in batches between a mark and `many`; a lone one by `one`. A dict's items are pairs. */
static bool put_batches(writer *w, tp_pickle *const *item, size_t count, size_t stride, int one, int many)
{
    if (count == stride) {
        for (size_t k = 0; k < stride; k++)
            if (!save(w, item[k]))
                return false;
        put_code(w, one);
        return true;
    }
    for (size_t i = 0; i < count;) {
        size_t end = i + BATCH * stride < count ? i + BATCH * stride : count;
        put_code(w, '(');
        for (; i < end; i++)
            if (!save(w, item[i]))
                return false;
        put_code(w, many);
    }
    return true;
}

static bool put_container(writer *w, const tp_pickle *v)
{
    bool dict = v->kind == TP_PICKLE_DICT;
    put_code(w, dict ? '}' : ']');
    return remember(w, v) && put_batches(w, v->item, v->count, dict ? 2 : 1, dict ? 's' : 'a', dict ? 'u' : 'e');
}

static bool put_tuple(writer *w, const tp_pickle *v)
{
    if (v->count == 0) {
        put_code(w, ')');
        return true;
    }
    if (v->count > 3)
        put_code(w, '(');
    for (uint32_t i = 0; i < v->count; i++)
        if (!save(w, v->item[i]))
            return false;
    uint64_t known;
    if (tp_map_get(&w->memo, (uint64_t)(uintptr_t)v, &known)) {     /* it holds itself, and was made on the way */
        for (uint32_t i = 0; i < (v->count > 3 ? 1 : v->count); i++)
            put_code(w, v->count > 3 ? '1' : '0');
        return recall(w, v);
    }
    put_code(w, v->count > 3 ? 't' : 0x84 + (int)v->count);
    return remember(w, v);
}

static bool put_set(writer *w, const tp_pickle *v)
{
    static const char set[] = "set", frozen[] = "frozenset";
    const char *name = v->kind == TP_PICKLE_SET ? set : frozen;
    if (!put_global(w, "__builtin__", name, name))
        return false;
    put_code(w, ']');
    return remember(w, &v->item) && put_batches(w, v->item, v->count, 1, 'a', 'e') && finish_call(w, 0x85, &v->text, v);
}

/* ---- objects ---- */

/* A run of steps of one act, up to a batch. What Python's pickler takes from an iterator, it batches so that a lone last item
 * has no mark. `at` moves behind the run. */
static bool put_run(writer *w, const tp_pickle_step **at)
{
    const tp_pickle_step *s = *at;
    bool list = s->act == TP_PICKLE_APPEND, more = s->next && s->next->act == s->act;
    tp_pickle_act act = s->act;
    if (more)
        put_code(w, '(');
    for (int n = 0; s && s->act == act && n < (more ? BATCH : 1); n++, s = s->next)
        if (!save(w, s->a) || (!list && !save(w, s->b)))
            return false;
    put_code(w, list ? (more ? 'e' : 'a') : more ? 'u' : 's');
    *at = s;
    return true;
}

static bool put_steps(writer *w, const tp_pickle *v)
{
    for (const tp_pickle_step *s = v->step; s;) {
        if (s->act == TP_PICKLE_ADD)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "pickle: items added to an object need protocol 4");
        if (s->act != TP_PICKLE_BUILD) {
            if (!put_run(w, &s))
                return false;
            continue;
        }
        if (!save(w, s->a))
            return false;
        put_code(w, 'b');
        s = s->next;
    }
    return true;
}

static bool put_object(writer *w, const tp_pickle *v)
{
    uint64_t known;
    if (v->count > 2)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pickle: keyword arguments of __new__ need protocol 4");
    if (!save(w, v->item[0]) || !save(w, v->item[1]))
        return false;
    put_code(w, v->kind == TP_PICKLE_CALL ? 'R' : 0x81);
    if (tp_map_get(&w->memo, (uint64_t)(uintptr_t)v, &known)) {
        put_code(w, '0');
        return recall(w, v);
    }
    return remember(w, v);
}

static bool save_kind(writer *w, const tp_pickle *v)
{
    switch ((tp_pickle_kind)v->kind) {
    case TP_PICKLE_NONE: put_code(w, 'N'); return true;
    case TP_PICKLE_BOOL: put_code(w, v->truth ? 0x88 : 0x89); return true;
    case TP_PICKLE_INT: return put_int(w, v->integer);
    case TP_PICKLE_BIG: return put_sized(w, v, 0x8a, 0x8b);
    case TP_PICKLE_FLOAT: return put_float(w, v->number);
    case TP_PICKLE_TEXT: return put_text(w, v->text, v->length, v);
    case TP_PICKLE_STRING: return put_sized(w, v, 'U', 'T') && remember(w, v);
    case TP_PICKLE_BYTES:
    case TP_PICKLE_BYTEARRAY: return put_bytes(w, v);
    case TP_PICKLE_LIST:
    case TP_PICKLE_DICT: return put_container(w, v);
    case TP_PICKLE_TUPLE: return put_tuple(w, v);
    case TP_PICKLE_SET:
    case TP_PICKLE_FROZENSET: return put_set(w, v);
    case TP_PICKLE_GLOBAL: return put_global(w, v->text, v->name, v);
    case TP_PICKLE_CALL:
    case TP_PICKLE_NEW: return put_object(w, v);
    case TP_PICKLE_PERSISTENT:
        if (!save(w, v->item[0]))
            return false;
        put_code(w, 'Q');
        return true;
    }
    return false;
}

static bool save(writer *w, const tp_pickle *v)
{
    if (recall(w, v))
        return true;
    if (++w->depth > DEEPEST)
        return tp_fail(TP_ERR_VALUE, "pickle: nested too deeply");
    bool ok = save_kind(w, v) && put_steps(w, v);
    w->depth--;
    return ok;
}

bool tp_pickle_write(const tp_pickle *root, tp_text *out)
{
    writer w = { .out = out };
    put_code(&w, 0x80);
    put_code(&w, 2);
    bool ok = save(&w, root);
    put_code(&w, '.');
    tp_map_fini(&w.memo);
    return ok && !out->failed;
}
