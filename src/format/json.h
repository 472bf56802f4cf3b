/* json.h - JSON as Python's json module reads and writes it.
 *
 * Reading gives a tree in an arena that borrows nothing of the text. NaN, Infinity and -Infinity are numbers, as Python
 * writes them; integers beyond 64 bits keep their digits; of equal keys the last wins. Depth is limited to 512, as the tree
 * is walked by recursion. Errors are TP_ERR_VALUE: "JSON: … at byte N".
 *
 * Writing appends to a text exactly what json.dumps gives by default: ", " and ": ", ascii only, floats by repr. A writer
 * puts the separators itself; calls in a wrong order are asserts. It is sticky through its text. */
#ifndef TP_FORMAT_JSON_H
#define TP_FORMAT_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

typedef enum tp_json_kind {
    TP_JSON_NULL, TP_JSON_BOOL, TP_JSON_INT, TP_JSON_BIG, TP_JSON_FLOAT, TP_JSON_TEXT, TP_JSON_LIST, TP_JSON_OBJECT
} tp_json_kind;

typedef struct tp_json {
    uint8_t kind;               /* tp_json_kind */
    bool    truth;              /* BOOL */
    uint32_t count;             /* bytes of TEXT and BIG, items of LIST, pairs of OBJECT */
    union {
        int64_t integer;        /* INT */
        double  number;         /* FLOAT */
        const char *text;       /* TEXT: utf-8, terminated, may hold NULs; BIG: its digits. Arena */
        struct tp_json *item;   /* LIST; OBJECT: the values. Arena */
    };
    const struct tp_json_key *key;  /* OBJECT: one for each value. Arena */
    const uint32_t *slot;           /* OBJECT of many keys: a hash table over them. Arena, may be NULL */
} tp_json;
typedef struct tp_json_key { const char *text; uint32_t length, hash; } tp_json_key;

/* Reads one value that fills the text. */
TP_API TP_CHECK const tp_json *tp_json_read_in(tp_arena *a, const char *text, size_t length);

/* Asking, for readers of formats: each accepts NULL and a value of another kind. */
TP_API const tp_json *tp_json_get(const tp_json *object, const char *key);      /* NULL without an error: absent */
TP_API const tp_json *tp_json_at(const tp_json *list, size_t i);                /* NULL without an error: absent */
TP_API const char *tp_json_text(const tp_json *v, const char *otherwise);       /* terminated; none that holds NULs */
TP_API int64_t tp_json_int(const tp_json *v, int64_t otherwise);
TP_API double tp_json_float(const tp_json *v, double otherwise);                /* integers too, and the texts "Infinity", "NaN" */
TP_API bool tp_json_bool(const tp_json *v, bool otherwise);
TP_API bool tp_json_is(const tp_json *v, tp_json_kind kind);                    /* false for NULL */
static inline size_t tp_json_count(const tp_json *v) { return v ? v->count : 0; }

/* ---- writing ---- */
enum { TP_JSON_DEEPEST = 512 };
typedef struct tp_json_writer {
    tp_text *out;               /* borrowed */
    int      depth;
    bool     after_key;
    bool     has_items[TP_JSON_DEEPEST + 1];    /* of the containers open now: a separator comes before the next item */
} tp_json_writer;

TP_API void tp_json_writer_init(tp_json_writer *w, tp_text *out);
TP_API void tp_json_open_object(tp_json_writer *w);
TP_API void tp_json_close_object(tp_json_writer *w);
TP_API void tp_json_open_list(tp_json_writer *w);
TP_API void tp_json_close_list(tp_json_writer *w);
TP_API void tp_json_put_key(tp_json_writer *w, const char *key);
TP_API void tp_json_put_null(tp_json_writer *w);
TP_API void tp_json_put_bool(tp_json_writer *w, bool v);
TP_API void tp_json_put_int(tp_json_writer *w, int64_t v);
TP_API void tp_json_put_float(tp_json_writer *w, double v);
TP_API void tp_json_put_text(tp_json_writer *w, const char *utf8, size_t length);   /* what is no utf-8 becomes U+FFFD */
TP_API void tp_json_put_word(tp_json_writer *w, const char *text);                  /* a terminated text */
TP_API void tp_json_put_value(tp_json_writer *w, const tp_json *v);                 /* a tree */

#endif
