/* json.c - JSON: a reader by recursive descent, and asking its trees.
 *
 * Items of a container wait on one stack shared by the whole document until its end is met; then they move into the arena
 * as one array. So a container costs its exact size, and nothing is copied twice. */
#define _GNU_SOURCE
#include "format/json.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

typedef struct reader {
    const char *begin, *at, *end;
    tp_arena *arena;
    tp_array(tp_json) value;            /* waiting items */
    tp_array(tp_json_key) key;          /* waiting keys */
    tp_array(char) text;                /* a string under construction */
    locale_t locale;                    /* numbers are read with a point, whatever the program's locale says */
    int depth;
} reader;

static bool read_value(reader *r, tp_json *out);

static void *wrong(const reader *r, const char *what)
{
    return tp_fail(TP_ERR_VALUE, "JSON: %s at byte %lld", what, LL(r->at - r->begin));
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* ---- strings ---- */

static bool push_utf8(reader *r, uint32_t c)
{
    char byte[4];
    int count = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = count - 1; i > 0; i--, c >>= 6)
        byte[i] = (char)(0x80 | (c & 0x3f));
    byte[0] = (char)(count == 1 ? c : (0xf00 >> count & 0xff) | c);
    for (int i = 0; i < count; i++)
        if (!tp_array_push(&r->text, byte[i]))
            return false;
    return true;
}

static bool read_hex(reader *r, uint32_t *out)
{
    if (r->end - r->at < 4)
        return wrong(r, "unfinished \\u escape");
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = *r->at;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return wrong(r, "invalid \\u escape");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* Two escaped surrogates are one character; a lone one stays as it is, as in Python. */
static bool read_unicode(reader *r)
{
    uint32_t c, low;
    if (!read_hex(r, &c))
        return false;
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        const char *before = r->at;
        r->at += 2;
        if (!read_hex(r, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        else
            r->at = before;
    }
    return push_utf8(r, c);
}

static bool read_escape(reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end)
        return wrong(r, "unfinished string");
    char c = *r->at++;
    if (c == 'u')
        return read_unicode(r);
    const char *found = memchr(from, c, sizeof from - 1);
    if (!found)
        return wrong(r, "invalid escape");
    return tp_array_push(&r->text, to[found - from]);
}

static bool read_string(reader *r, const char **text, uint32_t *length)
{
    if (!next_is(r, '"'))
        return wrong(r, "expecting a string");
    r->text.count = 0;
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;
        if (c < 0x20)
            return wrong(r, "control character in a string");
        if (!(c == '\\' ? read_escape(r) : tp_array_push(&r->text, (char)c)))
            return false;
    }
    if (r->at == r->end || r->text.count > UINT32_MAX)
        return wrong(r, "unfinished string");
    r->at++;
    *length = (uint32_t)r->text.count;
    *text = tp_text_in(r->arena, r->text.item ? r->text.item : "", r->text.count);
    return *text != NULL;
}

/* ---- numbers ---- */

static bool word_is(reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static size_t digits(const reader *r, const char *p)
{
    const char *begin = p;
    while (p < r->end && *p >= '0' && *p <= '9')
        p++;
    return (size_t)(p - begin);
}

static bool read_integer(reader *r, const char *begin, size_t length, tp_json *out)
{
    int64_t value = 0;
    bool minus = *begin == '-';
    for (size_t i = minus; i < length; i++) {
        int digit = begin[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_sub_overflow(value, digit, &value))
            goto big;
    }
    if (minus || value != INT64_MIN) {      /* counted downwards: there is one more negative number */
        *out = (tp_json){ .kind = TP_JSON_INT, .integer = minus ? value : -value };
        return true;
    }
big:
    *out = (tp_json){ .kind = TP_JSON_BIG, .count = (uint32_t)length, .text = tp_text_in(r->arena, begin, length) };
    return out->text != NULL;
}

static bool read_number(reader *r, tp_json *out)
{
    const char *begin = r->at, *p = begin + (*begin == '-');
    size_t whole = digits(r, p);
    bool real = false;
    if (whole == 0 || (whole > 1 && *p == '0') || whole > UINT32_MAX / 2)
        return wrong(r, "expecting a value");
    p += whole;
    if (p < r->end && *p == '.' && digits(r, p + 1)) {
        p += 1 + digits(r, p + 1);
        real = true;
    }
    if (p < r->end && (*p | 32) == 'e') {
        const char *exponent = p + 1 + (p + 1 < r->end && (p[1] == '+' || p[1] == '-'));
        if (digits(r, exponent)) {
            p = exponent + digits(r, exponent);
            real = true;
        }
    }
    r->at = p;
    if (!real)
        return read_integer(r, begin, (size_t)(p - begin), out);
    char *copy = tp_text_in(r->arena, begin, (size_t)(p - begin));      /* strtod wants an end it can see */
    *out = (tp_json){ .kind = TP_JSON_FLOAT, .number = copy ? strtod_l(copy, NULL, r->locale) : 0 };
    return copy != NULL;
}

/* ---- containers ---- */

static bool read_items(reader *r, tp_json *out)
{
    size_t first = r->value.count;
    if (!next_is(r, ']')) {
        do {
            tp_json item;
            if (!read_value(r, &item) || !tp_array_push(&r->value, item))
                return false;
        } while (next_is(r, ','));
        if (!next_is(r, ']'))
            return wrong(r, "expecting ',' or ']'");
    }
    size_t count = r->value.count - first;
    *out = (tp_json){ .kind = TP_JSON_LIST,
                      .count = (uint32_t)count,
                      .item = tp_arena_take_array(r->arena, count, sizeof(tp_json)) };
    if (!out->item)
        return false;
    if (count)
        memcpy(out->item, r->value.item + first, count * sizeof(tp_json));
    r->value.count = first;
    return true;
}

enum { FEW_KEYS = 8 };

static uint32_t slot_count(uint32_t count)
{
    uint32_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    return slots;
}

static bool same_key(const tp_json_key *a, const tp_json_key *b)
{
    return a->hash == b->hash && a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

/* Later keys are put last, over equal ones. */
static bool index_keys(reader *r, tp_json *object)
{
    if (object->count <= FEW_KEYS)
        return true;
    uint32_t slots = slot_count(object->count), *slot = tp_arena_take_array(r->arena, slots, sizeof *slot);
    if (!slot)
        return false;
    memset(slot, 0xff, slots * sizeof *slot);
    for (uint32_t i = 0; i < object->count; i++) {
        uint32_t at = object->key[i].hash & (slots - 1);
        while (slot[at] != UINT32_MAX && !same_key(&object->key[slot[at]], &object->key[i]))
            at = (at + 1) & (slots - 1);
        slot[at] = i;
    }
    object->slot = slot;
    return true;
}

static bool read_pairs(reader *r)
{
    if (next_is(r, '}'))
        return true;
    do {
        tp_json_key key = { 0 };
        tp_json item;
        if (!read_string(r, &key.text, &key.length))
            return false;
        key.hash = (uint32_t)tp_hash_bytes(key.text, key.length, 0);
        if (!next_is(r, ':'))
            return wrong(r, "expecting ':'");
        /* The value first: objects inside it push and pop keys of their own. */
        if (!read_value(r, &item) || !tp_array_push(&r->value, item) || !tp_array_push(&r->key, key))
            return false;
    } while (next_is(r, ','));
    return next_is(r, '}') || wrong(r, "expecting ',' or '}'");
}

static bool read_object(reader *r, tp_json *out)
{
    size_t first = r->value.count, first_key = r->key.count;
    if (!read_pairs(r))
        return false;
    size_t count = r->value.count - first;
    tp_json_key *key = tp_arena_take_array(r->arena, count, sizeof *key);
    *out = (tp_json){ .kind = TP_JSON_OBJECT, .count = (uint32_t)count, .key = key,
                      .item = tp_arena_take_array(r->arena, count, sizeof(tp_json)) };
    if (!key || !out->item)
        return false;
    if (count) {
        memcpy(out->item, r->value.item + first, count * sizeof(tp_json));
        memcpy(key, r->key.item + first_key, count * sizeof *key);
    }
    r->value.count = first;
    r->key.count = first_key;
    return index_keys(r, out);
}

static bool read_word(reader *r, tp_json *out)
{
    if (word_is(r, "null"))
        *out = (tp_json){ .kind = TP_JSON_NULL };
    else if (word_is(r, "true"))
        *out = (tp_json){ .kind = TP_JSON_BOOL, .truth = true };
    else if (word_is(r, "false"))
        *out = (tp_json){ .kind = TP_JSON_BOOL };
    else if (word_is(r, "NaN"))
        *out = (tp_json){ .kind = TP_JSON_FLOAT, .number = NAN };
    else if (word_is(r, "Infinity"))
        *out = (tp_json){ .kind = TP_JSON_FLOAT, .number = INFINITY };
    else if (word_is(r, "-Infinity"))
        *out = (tp_json){ .kind = TP_JSON_FLOAT, .number = -INFINITY };
    else if (r->at < r->end)
        return read_number(r, out);
    else
        return wrong(r, "expecting a value");
    return true;
}

static bool read_value(reader *r, tp_json *out)
{
    if (++r->depth > TP_JSON_DEEPEST)
        return wrong(r, "nested too deeply");
    bool ok;
    if (next_is(r, '{')) {
        ok = read_object(r, out);
    } else if (next_is(r, '[')) {
        ok = read_items(r, out);
    } else if (r->at < r->end && *r->at == '"') {
        *out = (tp_json){ .kind = TP_JSON_TEXT };
        ok = read_string(r, &out->text, &out->count);
    } else {
        ok = read_word(r, out);
    }
    r->depth--;
    return ok;
}

const tp_json *tp_json_read_in(tp_arena *a, const char *text, size_t length)
{
    reader r = { .begin = text, .at = text, .end = text + length, .arena = a };
    if (length > UINT32_MAX)
        return tp_fail(TP_ERR_VALUE, "JSON: more than 4 GB of text");
    if (!(r.locale = newlocale(LC_ALL_MASK, "C", NULL)))
        return tp_fail_memory();
    tp_json *root = tp_arena_take(a, sizeof *root);
    bool ok = root && read_value(&r, root);
    skip_space(&r);
    if (ok && r.at != r.end)
        ok = wrong(&r, "extra data");
    freelocale(r.locale);
    tp_array_fini(&r.value);
    tp_array_fini(&r.key);
    tp_array_fini(&r.text);
    return ok ? root : NULL;
}

/* ---- asking ---- */

bool tp_json_is(const tp_json *v, tp_json_kind kind)
{
    return v && v->kind == kind;
}

const tp_json *tp_json_get(const tp_json *object, const char *key)
{
    if (!tp_json_is(object, TP_JSON_OBJECT))
        return NULL;
    size_t length = strlen(key);
    tp_json_key want = { .text = key, .length = (uint32_t)length, .hash = (uint32_t)tp_hash_bytes(key, length, 0) };
    if (!object->slot) {
        for (uint32_t i = object->count; i-- > 0;)
            if (same_key(&object->key[i], &want))
                return &object->item[i];
        return NULL;
    }
    uint32_t mask = slot_count(object->count) - 1, at = want.hash & mask;
    for (; object->slot[at] != UINT32_MAX; at = (at + 1) & mask)
        if (same_key(&object->key[object->slot[at]], &want))
            return &object->item[object->slot[at]];
    return NULL;
}

const tp_json *tp_json_at(const tp_json *list, size_t i)
{
    return tp_json_is(list, TP_JSON_LIST) && i < list->count ? &list->item[i] : NULL;
}

const char *tp_json_text(const tp_json *v, const char *otherwise)
{
    return tp_json_is(v, TP_JSON_TEXT) && !memchr(v->text, 0, v->count) ? v->text : otherwise;
}

int64_t tp_json_int(const tp_json *v, int64_t otherwise)
{
    return tp_json_is(v, TP_JSON_INT) ? v->integer : otherwise;
}

double tp_json_float(const tp_json *v, double otherwise)
{
    const char *text = tp_json_text(v, "");
    return tp_json_is(v, TP_JSON_FLOAT) ? v->number
         : tp_json_is(v, TP_JSON_INT) ? (double)v->integer
         : strcmp(text, "Infinity") == 0 ? INFINITY
         : strcmp(text, "-Infinity") == 0 ? -INFINITY
         : strcmp(text, "NaN") == 0 ? NAN : otherwise;
}

bool tp_json_bool(const tp_json *v, bool otherwise)
{
    return tp_json_is(v, TP_JSON_BOOL) ? v->truth : otherwise;
}
