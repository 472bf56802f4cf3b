/* zip.c - reading archives.
 *
 *     [local header | name | extra | data | descriptor] …  [directory]  [zip64 end] [locator]  [end]
 *
 * Only the directory is believed, after it was checked; local headers are asked where their data begins, and must agree on the
 * name. Descriptors are skipped: they repeat the directory. */
#define _GNU_SOURCE
#include "format/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/map.h"

struct tp_zip {
    tp_count  refs;
    unsigned  flags;            /* TP_ZIP_… */
    int       file;             /* -1: in memory */
    uint8_t  *data;             /* mapped (owned) or borrowed; NULL: read by position */
    uint64_t  bytes;
    bool      mapped;
    void     *owner;            /* counted through release, may be NULL */
    void    (*release)(void *);
    tp_zip_entry *entry;        /* owned */
    size_t    count;
    tp_arena  names;
    tp_text_map index;          /* name -> index of the entry */
    const char *root;           /* in `names` */
    bool      sums;             /* not all are 0 */
};

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    LONGEST_NAME = 4096
};
enum {
    LOCAL_MARK = 0x04034b50,
    CENTRAL_MARK = 0x02014b50,
    END_MARK = 0x06054b50,
    END64_MARK = 0x06064b50,
    LOCATOR_MARK = 0x07064b50
};

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

#define CORRUPTED                                                                                                      \
    "This is an internal miniz error. If you are seeing this error, there is a high likelihood that your "             \
    "checkpoint file is corrupted. This can happen if the checkpoint was not saved properly, was transferred "         \
    "incorrectly, or the file was modified after saving."

static void *broken(const char *what)
{
    return tp_fail(TP_ERR_RUNTIME, "PytorchStreamReader failed reading zip archive: %s. " CORRUPTED, what);
}

/* ---- bytes of the file ---- */

static bool read_at(const tp_zip *z, uint64_t at, void *out, size_t count)
{
    if (at > z->bytes || count > z->bytes - at)
        return broken("file read failed");
    if (z->data) {
        if (count)
            memcpy(out, z->data + at, count);
        return true;
    }
    for (size_t done = 0; done < count;) {
        ssize_t n = pread(z->file, (char *)out + done, count - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return broken("file read failed");
        done += (size_t)n;
    }
    return true;
}

/* ---- the directory ---- */

typedef struct directory {
    uint64_t at, bytes, count;
} directory;

/* The end record stands in the last 64 KB, before its comment; of several the last counts. */
static bool find_end(const tp_zip *z, uint64_t *at, uint8_t record[END_BYTES])
{
    size_t window = z->bytes < 0x10000 + END_BYTES ? (size_t)z->bytes : 0x10000 + END_BYTES;
    if (window < END_BYTES)
        return broken("failed finding central directory");
    uint8_t *tail = tp_alloc(window);
    if (!tail)
        return false;
    bool ok = read_at(z, z->bytes - window, tail, window), found = false;
    for (size_t i = window - END_BYTES; ok; i--) {
        if (get32(tail + i) == END_MARK) {
            memcpy(record, tail + i, END_BYTES);
            *at = z->bytes - window + i;
            found = true;
        }
        if (found || i == 0)
            break;
    }
    tp_free(tail);
    return found || (ok ? broken("failed finding central directory") : NULL);
}

static bool read_end64(const tp_zip *z, uint64_t end_at, directory *d, uint64_t *limit)
{
    uint8_t locator[LOCATOR_BYTES] = { 0 }, record[END64_BYTES] = { 0 };
    if (end_at < LOCATOR_BYTES)
        return broken("invalid header or archive is corrupted");
    if (!read_at(z, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES))
        return false;
    uint64_t at = get64(locator + 8);
    if (get32(locator) != LOCATOR_MARK || at > end_at - LOCATOR_BYTES || end_at - LOCATOR_BYTES - at < END64_BYTES)
        return broken("invalid header or archive is corrupted");
    if (!read_at(z, at, record, END64_BYTES))
        return false;
    if (get32(record) != END64_MARK || get32(record + 16) != get32(record + 20))
        return broken("invalid header or archive is corrupted");
    *d = (directory){ .count = get64(record + 32), .bytes = get64(record + 40), .at = get64(record + 48) };
    *limit = at;
    return true;
}

static bool find_directory(const tp_zip *z, directory *d)
{
    uint8_t record[END_BYTES] = { 0 };
    uint64_t limit = 0;
    if (!find_end(z, &limit, record))
        return false;
    *d = (directory){ .count = get16(record + 10), .bytes = get32(record + 12), .at = get32(record + 16) };
    bool wide = d->count == 0xffff || d->bytes == 0xffffffff || d->at == 0xffffffff;
    if (!wide && (get16(record + 4) || get16(record + 6) || get16(record + 8) != d->count))
        return broken("multi-disk archives are not supported");
    if (wide && !read_end64(z, limit, d, &limit))
        return false;
    if (d->at > limit || d->bytes > limit - d->at || d->count > d->bytes / CENTRAL_BYTES)
        return broken("invalid header or archive is corrupted");
    return true;
}

/* The 64-bit fields of an entry stand in its extra field, only those whose short forms are full. */
static bool read_wide(const uint8_t *extra, size_t count, tp_zip_entry *e, uint64_t *header_at)
{
    for (size_t i = 0; i + 4 <= count;) {
        size_t id = get16(extra + i), size = get16(extra + i + 2), at = i + 4;
        if (size > count - at)
            return false;
        if (id == 1) {
            uint64_t *const field[] = { &e->size, &e->packed, header_at };
            for (size_t k = 0, used = 0; k < 3; k++) {
                if (*field[k] != 0xffffffff)
                    continue;
                if (used + 8 > size)
                    return false;
                *field[k] = get64(extra + at + used);
                used += 8;
            }
            return true;
        }
        i = at + size;
    }
    return true;
}

/* Finds where the data begins, and checks that all of it stands before the directory. */
static bool read_local(const tp_zip *z, const directory *d, uint64_t header_at, tp_zip_entry *e, size_t name_length)
{
    uint8_t head[LOCAL_BYTES + LONGEST_NAME];
    size_t count = LOCAL_BYTES + name_length;
    if (header_at > d->at || count > d->at - header_at)
        return broken("invalid header or archive is corrupted");
    if (!read_at(z, header_at, head, count))
        return false;
    if (get32(head) != LOCAL_MARK || get16(head + 26) != name_length ||
        memcmp(head + LOCAL_BYTES, e->name, name_length) != 0)
        return broken("invalid header or archive is corrupted");
    e->at = header_at + count + get16(head + 28);
    if (e->at > d->at || e->packed > d->at - e->at)
        return broken("invalid header or archive is corrupted");
    return true;
}

static bool check_entry(const tp_zip_entry *e, const uint8_t *head)
{
    if (get16(head + 8) & 1)
        return broken("encrypted archives are not supported");
    if (e->method != TP_ZIP_STORED && e->method != TP_ZIP_DEFLATED)
        return broken("unsupported method");
    /* No deflate stream gives more than 1032 bytes for one. */
    if (e->method == TP_ZIP_STORED ? e->size != e->packed : e->size / 1032 > e->packed)
        return broken("invalid header or archive is corrupted");
    return true;
}

typedef struct extent {
    uint64_t begin, end;
} extent;

static int by_begin(const void *a, const void *b)
{
    uint64_t x = ((const extent *)a)->begin, y = ((const extent *)b)->begin;
    return x < y ? -1 : x > y;
}

static bool check_overlap(extent *e, size_t count)
{
    qsort(e, count, sizeof *e, by_begin);
    for (size_t i = 1; i < count; i++)
        if (e[i - 1].end > e[i].begin)
            return broken("entries overlap");
    return true;
}

/* Code texts shrink to a fifth. What grows a thousandfold was made to fill the memory of its reader. */
static bool check_growth(const tp_zip *z)
{
    enum { MOST_GROWTH = 100, ALWAYS = 16 << 20 };
    uint64_t packed = 0, size = 0;
    for (size_t i = 0; i < z->count; i++)
        if (z->entry[i].method == TP_ZIP_DEFLATED) {
            packed += z->entry[i].packed;       /* inside the file, and none overlap: no overflow */
            size += z->entry[i].size;           /* at most 1032 times as much */
        }
    if (size > ALWAYS && (size - ALWAYS) / MOST_GROWTH > packed)
        return tp_fail(TP_ERR_RUNTIME, "PytorchStreamReader failed reading zip archive: its %llu deflated bytes unpack to %llu, "
                       "more than a checkpoint can need", (unsigned long long)packed, (unsigned long long)size);
    return true;
}

/* One entry at `head`, which has `left` bytes of the directory; gives how many it took, 0 on failure. */
static size_t read_entry(tp_zip *z, const directory *d, const uint8_t *head, size_t left, size_t i, extent *where)
{
    tp_zip_entry *e = &z->entry[i];
    if (left < CENTRAL_BYTES || get32(head) != CENTRAL_MARK) {
        broken("invalid header or archive is corrupted");
        return 0;
    }
    size_t name = get16(head + 28), extra = get16(head + 30), took = CENTRAL_BYTES + name + extra + get16(head + 32);
    const char *text = (const char *)head + CENTRAL_BYTES;
    uint64_t header_at = get32(head + 42), known;
    *e = (tp_zip_entry){
        .method = get16(head + 10), .crc = get32(head + 16), .packed = get32(head + 20), .size = get32(head + 24)
    };
    if (took > left || name == 0 || name > LONGEST_NAME || memchr(text, 0, name) ||
        !read_wide(head + CENTRAL_BYTES + name, extra, e, &header_at)) {
        broken("invalid header or archive is corrupted");
        return 0;
    }
    if (!(e->name = tp_text_in(&z->names, text, name)))
        return 0;
    if (tp_text_map_get(&z->index, e->name, &known)) {
        broken("two entries of one name");
        return 0;
    }
    if (!tp_text_map_put(&z->index, e->name, i) || !check_entry(e, head) || !read_local(z, d, header_at, e, name))
        return 0;
    *where = (extent){ header_at, e->at + e->packed };
    return took;
}

static bool read_directory(tp_zip *z)
{
    directory d = { 0 };
    if (!find_directory(z, &d))
        return false;
    uint8_t *all = tp_alloc(d.bytes ? d.bytes : 1);
    extent *where = tp_alloc_array(d.count + 1, sizeof *where);
    z->entry = tp_alloc_array(d.count + 1, sizeof *z->entry);
    bool ok = all && where && z->entry && read_at(z, d.at, all, d.bytes);
    size_t at = 0;
    for (size_t took; ok && z->count < d.count; at += took, z->count += ok) {
        took = read_entry(z, &d, all + at, d.bytes - at, z->count, &where[z->count]);
        ok = took != 0;
    }
    ok = ok && check_overlap(where, z->count) && check_growth(z);
    for (size_t i = 0; i < z->count; i++)
        z->sums = z->sums || z->entry[i].crc;
    tp_free(where);
    tp_free(all);
    return ok;
}

static bool find_root(tp_zip *z)
{
    const char *slash = z->count ? strchr(z->entry[0].name, '/') : NULL;
    z->root = slash ? tp_text_in(&z->names, z->entry[0].name, (size_t)(slash - z->entry[0].name)) : "";
    return z->root != NULL;
}

/* ---- opening ---- */

static tp_zip *zip_new(unsigned flags)
{
    tp_zip *z = tp_alloc_zero(sizeof *z);
    if (!z)
        return NULL;
    atomic_init(&z->refs, 1);
    z->flags = flags;
    z->file = -1;
    tp_arena_init(&z->names);
    return z;
}

static tp_zip *finish_opening(tp_zip *z)
{
    if (read_directory(z) && find_root(z)) {
        if (z->flags & TP_ZIP_NO_CRC && !z->sums)
            z->flags |= TP_ZIP_ANY_CRC;
        return z;
    }
    tp_zip_unref(z);
    return NULL;
}

static bool open_file(tp_zip *z, const char *path)
{
    struct stat s;
    z->file = open(path, O_RDONLY | O_CLOEXEC);
    if (z->file < 0 || fstat(z->file, &s) != 0 || !S_ISREG(s.st_mode))
        return tp_fail(TP_ERR_RUNTIME, "open file failed because of errno %d on fopen: %s, file path: %s", errno,
                       strerror(errno), path);
    z->bytes = (uint64_t)s.st_size;
    if (!(z->flags & TP_ZIP_MAP) || z->bytes == 0)
        return true;
    void *data = mmap(NULL, z->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, z->file, 0);
    if (data == MAP_FAILED)
        return tp_fail(TP_ERR_RUNTIME, "unable to mmap %llu bytes from file <%s>: %s (%d)",
                       (unsigned long long)z->bytes, path, strerror(errno), errno);
    z->data = data;
    z->mapped = true;
    return true;
}

tp_zip *tp_zip_open(const char *path, unsigned flags)
{
    tp_zip *z = zip_new(flags);
    if (!z)
        return NULL;
    if (open_file(z, path))
        return finish_opening(z);
    tp_zip_unref(z);
    return NULL;
}

tp_zip *tp_zip_open_memory(const void *bytes, size_t count, unsigned flags, void *owner, void (*release)(void *))
{
    static const uint8_t nothing[1] = { 0 };
    tp_zip *z = zip_new(flags);
    if (!z) {
        if (release)
            release(owner);
        return NULL;
    }
    z->data = (uint8_t *)(count ? bytes : nothing);
    z->bytes = count;
    z->owner = owner;
    z->release = release;
    return finish_opening(z);
}

tp_zip *tp_zip_ref(tp_zip *z)
{
    tp_count_up(&z->refs);
    return z;
}

void tp_zip_unref(tp_zip *z)
{
    if (!z || !tp_count_down(&z->refs))
        return;
    if (z->mapped)
        munmap(z->data, z->bytes);
    if (z->file >= 0)
        close(z->file);
    if (z->release)
        z->release(z->owner);
    tp_free(z->entry);
    tp_text_map_fini(&z->index);
    tp_arena_fini(&z->names);
    tp_free(z);
}

/* ---- entries ---- */

const tp_zip_entry *tp_zip_entries(const tp_zip *z, size_t *count)
{
    *count = z->count;
    return z->entry;
}

const tp_zip_entry *tp_zip_find(const tp_zip *z, const char *name)
{
    uint64_t i;
    return tp_text_map_get(&z->index, name, &i) ? &z->entry[i] : NULL;
}

const char *tp_zip_root(const tp_zip *z)
{
    return z->root;
}

/* A name longer than any entry's cannot be found: no memory is needed to look. */
static const tp_zip_entry *under_root(const tp_zip *z, const char *name)
{
    char full[LONGEST_NAME + 1];
    size_t root = strlen(z->root), length = strlen(name), at = root ? root + 1 : 0;
    if (at + length > LONGEST_NAME)
        return NULL;
    memcpy(full, z->root, root);
    full[root] = '/';
    memcpy(full + at, name, length + 1);
    return tp_zip_find(z, full);
}

const tp_zip_entry *tp_zip_record(const tp_zip *z, const char *name)
{
    const tp_zip_entry *e = under_root(z, name);
    return e ? e
             : tp_fail(TP_ERR_RUNTIME, "PytorchStreamReader failed locating file %s: file not found. " CORRUPTED, name);
}

bool tp_zip_has_record(const tp_zip *z, const char *name)
{
    return under_root(z, name) != NULL;
}

void *tp_zip_borrow(const tp_zip *z, const tp_zip_entry *e)
{
    return z->data && e->method == TP_ZIP_STORED ? z->data + e->at : NULL;
}

/* Sums are made while a piece is still in the cache. */
static bool copy_summed(const tp_zip *z, const tp_zip_entry *e, char *out, uint32_t *sum)
{
    enum { PIECE = 1 << 18 };
    *sum = 0;
    for (uint64_t done = 0; done < e->size;) {
        size_t count = e->size - done < PIECE ? (size_t)(e->size - done) : PIECE;
        if (!read_at(z, e->at + done, out + done, count))
            return false;
        *sum = tp_crc32(*sum, out + done, count);
        done += count;
    }
    return true;
}

bool tp_zip_read_sum(const tp_zip *z, const tp_zip_entry *e, void *out, uint32_t *sum)
{
    if (e->method == TP_ZIP_STORED)
        return copy_summed(z, e, out, sum);
    uint8_t *packed = tp_alloc(e->packed ? e->packed : 1);
    if (!packed)
        return false;
    bool ok = read_at(z, e->at, packed, e->packed) &&
              (tp_inflate(packed, e->packed, out, e->size) || broken("decompression failed"));
    tp_free(packed);
    if (ok)
        *sum = tp_crc32(0, out, e->size);
    return ok;
}

static bool check_sum(const tp_zip *z, const tp_zip_entry *e, uint32_t sum)
{
    return sum == e->crc || z->flags & TP_ZIP_ANY_CRC ||
           tp_fail(TP_ERR_RUNTIME, "PytorchStreamReader failed reading file %s: CRC-32 check failed. " CORRUPTED, e->name);
}

bool tp_zip_read(const tp_zip *z, const tp_zip_entry *e, void *out)
{
    uint32_t sum;
    return tp_zip_read_sum(z, e, out, &sum) && check_sum(z, e, sum);
}

bool tp_zip_is_mapped(const tp_zip *z)
{
    return z->mapped;
}

bool tp_zip_has_sums(const tp_zip *z)
{
    return z->sums;
}

bool tp_zip_check(const tp_zip *z, const tp_zip_entry *e)
{
    const void *bytes = tp_zip_borrow(z, e);
    return !bytes || z->flags & TP_ZIP_ANY_CRC || check_sum(z, e, tp_crc32(0, bytes, e->size));
}

char *tp_zip_read_new(const tp_zip *z, const tp_zip_entry *e)
{
    char *bytes = tp_alloc(e->size + 1);
    if (!bytes)
        return NULL;
    bytes[e->size] = 0;
    if (tp_zip_read(z, e, bytes))
        return bytes;
    tp_free(bytes);
    return NULL;
}
