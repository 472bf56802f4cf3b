/* zip_write.c - archives as PyTorch lays them out: docs/formats.md has the picture.
 *
 * Sizes and sums follow the data although we know them before: so do PyTorch's files, and the bytes shall be the same. From
 * 4 GB on an entry carries 64-bit sizes in extra fields and a longer descriptor. */
#include "format/zip.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "format/output.h"

typedef struct written {
    char    *name;              /* owned */
    uint64_t at, bytes;         /* of the local header; of the data */
    uint32_t crc;
} written;

struct tp_zip_writer {
    char     *root;             /* owned: "archive/" or "" */
    tp_zip_sink *sink;
    void     *to;               /* borrowed: what the sink wants */
    tp_output *file;            /* owned, may be NULL */
    uint64_t  at;               /* bytes written */
    uint64_t  name_hash, data_hash;     /* for the serialization id */
    tp_array(written) entry;
    tp_text_map names;
    bool      failed, finished;
};

enum { LOCAL_BYTES = 30 };
static const uint64_t WIDE = 0xffffffff;      /* a 32-bit field that says: look at the 64-bit one */
enum { FLAG_DESCRIPTOR = 0x0008, FLAG_UTF8 = 0x0800 };

/* A record under construction: fields in file order, lowest byte first. */
typedef struct record {
    uint8_t byte[128];
    size_t  count;
} record;

static void put(record *r, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        r->byte[r->count++] = (uint8_t)(value >> 8 * i);
}

static uint64_t narrow(uint64_t value)
{
    return value < WIDE ? value : WIDE;
}

static bool emit(tp_zip_writer *w, const void *bytes, size_t count)
{
    if (w->failed)
        return false;
    if (count && !w->sink(w->to, bytes, count)) {
        w->failed = true;
        return false;
    }
    w->at += count;
    return true;
}

static bool emit_record(tp_zip_writer *w, const record *r)
{
    return emit(w, r->byte, r->count);
}

/* ---- entries ---- */

static bool emit_local(tp_zip_writer *w, const written *e)
{
    static const char filler[TP_ZIP_ALIGN + 1] = "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";
    bool wide = e->bytes >= WIDE;
    size_t length = strlen(e->name), before = LOCAL_BYTES + length + (wide ? 20 : 0) + 4;
    size_t padding = (size_t)(-(w->at + before) % TP_ZIP_ALIGN);
    record head = { .count = 0 }, extra = { .count = 0 };
    put(&head, 0x04034b50, 4);
    put(&head, 0, 2);
    put(&head, FLAG_UTF8 | (e->bytes ? FLAG_DESCRIPTOR : 0), 2);
    put(&head, TP_ZIP_STORED, 2);
    put(&head, 0, 2 + 2 + 4);                           /* time, date, sum */
    put(&head, wide ? WIDE : 0, 4);
    put(&head, wide ? WIDE : 0, 4);
    put(&head, length, 2);
    put(&head, (wide ? 20 : 0) + 4 + padding, 2);
    if (wide) {
        put(&extra, 1, 2);
        put(&extra, 16, 2);
        put(&extra, e->bytes, 8);
        put(&extra, e->bytes, 8);
    }
    put(&extra, 'F' | 'B' << 8, 2);
    put(&extra, padding, 2);
    return emit_record(w, &head) && emit(w, e->name, length) && emit_record(w, &extra) && emit(w, filler, padding);
}

static bool emit_descriptor(tp_zip_writer *w, const written *e)
{
    record r = { .count = 0 };
    if (e->bytes == 0)
        return true;
    int bytes = e->bytes >= WIDE ? 8 : 4;
    put(&r, 0x08074b50, 4);
    put(&r, e->crc, 4);
    put(&r, e->bytes, bytes);
    put(&r, e->bytes, bytes);
    return emit_record(w, &r);
}

static bool emit_central(tp_zip_writer *w, const written *e)
{
    record head = { .count = 0 }, extra = { .count = 0 };
    if (e->bytes >= WIDE) {
        put(&extra, e->bytes, 8);
        put(&extra, e->bytes, 8);
    }
    if (e->at >= WIDE)
        put(&extra, e->at, 8);
    put(&head, 0x02014b50, 4);
    put(&head, 0, 2 + 2);                               /* versions */
    put(&head, FLAG_UTF8 | (e->bytes ? FLAG_DESCRIPTOR : 0), 2);
    put(&head, TP_ZIP_STORED, 2);
    put(&head, 0, 2 + 2);                               /* time, date */
    put(&head, e->crc, 4);
    put(&head, narrow(e->bytes), 4);
    put(&head, narrow(e->bytes), 4);
    put(&head, strlen(e->name), 2);
    put(&head, extra.count ? extra.count + 4 : 0, 2);
    put(&head, 0, 2 + 2 + 2);                           /* comment, disk, attributes */
    put(&head, 0, 4);
    put(&head, narrow(e->at), 4);
    if (!emit_record(w, &head) || !emit(w, e->name, strlen(e->name)))
        return false;
    record mark = { .count = 0 };
    put(&mark, 1, 2);
    put(&mark, extra.count, 2);
    return !extra.count || (emit_record(w, &mark) && emit_record(w, &extra));
}

static bool emit_end(tp_zip_writer *w, uint64_t directory)
{
    uint64_t bytes = w->at - directory, end64 = w->at, count = w->entry.count;
    record r = { .count = 0 };
    put(&r, 0x06064b50, 4);
    put(&r, 44, 8);                                     /* bytes of this record that follow */
    put(&r, 0x031e, 2);
    put(&r, 45, 2);
    put(&r, 0, 4 + 4);
    put(&r, count, 8);
    put(&r, count, 8);
    put(&r, bytes, 8);
    put(&r, directory, 8);
    put(&r, 0x07064b50, 4);
    put(&r, 0, 4);
    put(&r, end64, 8);
    put(&r, 1, 4);
    put(&r, 0x06054b50, 4);
    put(&r, 0, 2 + 2);
    put(&r, count < 0xffff ? count : 0xffff, 2);
    put(&r, count < 0xffff ? count : 0xffff, 2);
    put(&r, narrow(bytes), 4);
    put(&r, narrow(directory), 4);
    put(&r, 0, 2);
    return emit_record(w, &r);
}

/* ---- the writer ---- */

tp_zip_writer *tp_zip_writer_new(const char *root, tp_zip_sink *sink, void *to)
{
    tp_zip_writer *w = tp_alloc_zero(sizeof *w);
    tp_text folder = { 0 };
    tp_text_add(&folder, *root ? "%s/" : "%s", root);
    if (!w || folder.failed) {
        tp_text_fini(&folder);
        tp_free(w);
        return NULL;
    }
    w->root = folder.at;
    w->sink = sink;
    w->to = to;
    return w;
}

static bool to_text(void *to, const void *bytes, size_t count)
{
    tp_text_put(to, bytes, count);
    return !((tp_text *)to)->failed;
}

tp_zip_writer *tp_zip_writer_new_text(const char *root, tp_text *out)
{
    return tp_zip_writer_new(root, to_text, out);
}

static bool to_file(void *to, const void *bytes, size_t count)
{
    return tp_output_write(to, bytes, count);
}

tp_zip_writer *tp_zip_writer_new_file(const char *root, const char *path)
{
    tp_zip_writer *w = tp_zip_writer_new(root, to_file, NULL);
    if (!w)
        return NULL;
    if (!(w->to = w->file = tp_output_new(path))) {
        tp_zip_writer_free(w);
        return NULL;
    }
    return w;
}

void tp_zip_writer_free(tp_zip_writer *w)
{
    if (!w)
        return;
    (void)tp_output_finish(w->file, false);
    for (size_t i = 0; i < w->entry.count; i++)
        tp_free(w->entry.item[i].name);
    tp_array_fini(&w->entry);
    tp_text_map_fini(&w->names);
    tp_free(w->root);
    tp_free(w);
}

static bool note_entry(tp_zip_writer *w, const char *name, written *e)
{
    uint64_t known;
    tp_text full = { 0 };
    tp_text_add(&full, "%s%s", w->root, name);
    e->name = full.at;
    bool ok = !full.failed;
    if (ok && full.length > 0xffff)
        ok = tp_fail(TP_ERR_RUNTIME, "name of an archive entry is longer than 65535 bytes");
    if (ok && tp_text_map_get(&w->names, full.at, &known))
        ok = tp_fail(TP_ERR_RUNTIME, "archive already has an entry named %s", full.at);
    ok = ok && tp_text_map_put(&w->names, full.at, w->entry.count) && tp_array_push(&w->entry, *e);
    if (!ok)
        tp_text_fini(&full);
    return ok;
}

bool tp_zip_add(tp_zip_writer *w, const char *name, const void *bytes, size_t count)
{
    if (w->failed)
        return tp_error_kind() ? NULL : tp_fail(TP_ERR_RUNTIME, "the archive could not be written");
    written e = { .at = w->at, .bytes = count, .crc = tp_crc32(0, bytes, count) };
    w->failed = !note_entry(w, name, &e);
    w->name_hash = tp_hash_word(w->name_hash ^ tp_hash_text(name));
    w->data_hash = tp_hash_word(w->data_hash ^ e.crc ^ (uint64_t)count << 32);
    return !w->failed && emit_local(w, &e) && emit(w, bytes, count) && emit_descriptor(w, &e);
}

bool tp_zip_add_text(tp_zip_writer *w, const char *name, const char *text)
{
    return tp_zip_add(w, name, text, strlen(text));
}

bool tp_zip_add_id(tp_zip_writer *w)
{
    char digits[48];
    snprintf(digits, sizeof digits, "%020llu%020llu", (unsigned long long)w->name_hash,
             (unsigned long long)w->data_hash);
    return tp_zip_add_text(w, ".data/serialization_id", digits);
}

bool tp_zip_writer_finish(tp_zip_writer *w)
{
    uint64_t directory = w->at;
    bool ok = !w->failed && !w->finished;
    if (!ok && !tp_error_kind())
        tp_fail(TP_ERR_RUNTIME, "the archive could not be written");
    for (size_t i = 0; ok && i < w->entry.count; i++)
        ok = emit_central(w, &w->entry.item[i]);
    ok = ok && emit_end(w, directory);
    w->finished = true;
    if (w->file)
        ok = tp_output_finish(w->file, ok);
    w->file = NULL;
    return ok;
}
