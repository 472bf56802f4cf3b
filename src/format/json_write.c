/* json_write.c - JSON as json.dumps prints it by default. */
#include "format/json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void tp_json_writer_init(tp_json_writer *w, tp_text *out)
{
    *w = (tp_json_writer){ .out = out };
}

static void before_item(tp_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->has_items[w->depth])
        tp_text_put(w->out, ", ", 2);
    w->has_items[w->depth] = true;
}

static void open_container(tp_json_writer *w, const char *bracket)
{
    before_item(w);
    tp_text_put(w->out, bracket, 1);
    if (w->depth == TP_JSON_DEEPEST) { /* a writer that nests deeper than any reader reads: no file should have it */
        w->out->failed = true;
        tp_fail(TP_ERR_VALUE, "JSON: nested too deeply");
        return;
    }
    w->has_items[++w->depth] = false;
}

static void close_container(tp_json_writer *w, const char *bracket)
{
    assert((w->depth > 0 && !w->after_key) || w->out->failed);
    tp_text_put(w->out, bracket, 1);
    if (w->depth > 0)
        w->depth--;
}

void tp_json_open_object(tp_json_writer *w) { open_container(w, "{"); }
void tp_json_close_object(tp_json_writer *w) { close_container(w, "}"); }
void tp_json_open_list(tp_json_writer *w) { open_container(w, "["); }
void tp_json_close_list(tp_json_writer *w) { close_container(w, "]"); }

/* ---- texts ---- */

/* One character from the front of the text, or U+FFFD for a byte that begins none; gives how many bytes it took. Lone
 * surrogates are let through: Python has them, and writes them back. */
static size_t next_character(const unsigned char *s, size_t left, uint32_t *out)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t count = s[0] < 0x80                   ? 1
                   : s[0] >= 0xf0 && s[0] < 0xf8 ? 4
                   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                   : s[0] >= 0xc0 && s[0] < 0xe0 ? 2
                                                 : 0;
    uint32_t c = count == 1 ? s[0] : count ? s[0] & (0x7fu >> count) : 0;
    bool good = count && count <= left;
    for (size_t i = 1; good && i < count; i++) {
        good = (s[i] & 0xc0) == 0x80;
        c = c << 6 | (s[i] & 0x3f);
    }
    good = good && c >= least[count] && c < 0x110000;
    *out = good ? c : 0xfffd;
    return good ? count : 1;
}

static void put_character(tp_text *out, uint32_t c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *short_form = c < 0x80 ? memchr(from, (int)c, sizeof from - 1) : NULL;
    if (short_form) {
        const char pair[2] = { '\\', to[short_form - from] };
        tp_text_put(out, pair, 2);
    } else if (c >= 0x20 && c < 0x7f) {
        const char plain = (char)c;
        tp_text_put(out, &plain, 1);
    } else if (c < 0x10000) {
        tp_text_add(out, "\\u%04x", c);
    } else {
        tp_text_add(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
}

static void put_string(tp_text *out, const char *utf8, size_t length)
{
    const unsigned char *s = (const unsigned char *)utf8;
    tp_text_put(out, "\"", 1);
    for (size_t i = 0; i < length;) {
        size_t plain = i;
        while (plain < length && s[plain] >= 0x20 && s[plain] < 0x7f && s[plain] != '"' && s[plain] != '\\')
            plain++;
        tp_text_put(out, utf8 + i, plain - i);
        i = plain;
        if (i < length) {
            uint32_t c;
            i += next_character(s + i, length - i, &c);
            put_character(out, c);
        }
    }
    tp_text_put(out, "\"", 1);
}

static void put_key(tp_json_writer *w, const char *key, size_t length)
{
    assert((w->depth > 0 && !w->after_key) || w->out->failed);
    before_item(w);
    put_string(w->out, key, length);
    tp_text_put(w->out, ": ", 2);
    w->after_key = true;
}

void tp_json_put_key(tp_json_writer *w, const char *key)
{
    put_key(w, key, strlen(key));
}

void tp_json_put_text(tp_json_writer *w, const char *utf8, size_t length)
{
    before_item(w);
    put_string(w->out, utf8, length);
}

void tp_json_put_word(tp_json_writer *w, const char *text)
{
    tp_json_put_text(w, text, strlen(text));
}

/* ---- the rest ---- */

void tp_json_put_null(tp_json_writer *w)
{
    before_item(w);
    tp_text_put(w->out, "null", 4);
}

void tp_json_put_bool(tp_json_writer *w, bool v)
{
    before_item(w);
    tp_text_add(w->out, "%s", v ? "true" : "false");
}

void tp_json_put_int(tp_json_writer *w, int64_t v)
{
    before_item(w);
    tp_text_add(w->out, "%lld", LL(v));
}

void tp_json_put_float(tp_json_writer *w, double v)
{
    before_item(w);
    if (isfinite(v))
        tp_text_add_double(w->out, v, true);
    else
        tp_text_add(w->out, "%s", isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity");
}

void tp_json_put_value(tp_json_writer *w, const tp_json *v)
{
    switch ((tp_json_kind)v->kind) {
    case TP_JSON_NULL: tp_json_put_null(w); break;
    case TP_JSON_BOOL: tp_json_put_bool(w, v->truth); break;
    case TP_JSON_INT: tp_json_put_int(w, v->integer); break;
    case TP_JSON_FLOAT: tp_json_put_float(w, v->number); break;
    case TP_JSON_TEXT: tp_json_put_text(w, v->text, v->count); break;
    case TP_JSON_BIG:
        before_item(w);
        tp_text_put(w->out, v->text, v->count);
        break;
    case TP_JSON_LIST:
        tp_json_open_list(w);
        for (uint32_t i = 0; i < v->count; i++)
            tp_json_put_value(w, &v->item[i]);
        tp_json_close_list(w);
        break;
    case TP_JSON_OBJECT:
        tp_json_open_object(w);
        for (uint32_t i = 0; i < v->count; i++) {
            put_key(w, v->key[i].text, v->key[i].length);
            tp_json_put_value(w, &v->item[i]);
        }
        tp_json_close_object(w);
        break;
    }
}
