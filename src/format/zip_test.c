/* zip_test.c - archives written and read back, sums, inflating, and files broken in every byte. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/test.h"
#include "format/zip.h"

static bool write_sample(tp_text *out)
{
    tp_zip_writer *w = tp_zip_writer_new_text("archive", out);
    char numbers[24];
    memset(numbers, 7, sizeof numbers);
    bool ok = w && tp_zip_add(w, "data.pkl", "\x80\x02N.", 4) && tp_zip_add_text(w, "byteorder", "little") &&
              tp_zip_add(w, "data/0", numbers, sizeof numbers) && tp_zip_add(w, "data/1", NULL, 0) &&
              tp_zip_add_text(w, "version", "3\n") && tp_zip_add_id(w) && tp_zip_writer_finish(w);
    tp_zip_writer_free(w);
    return ok;
}

TP_TEST(what_is_written_reads_back)
{
    tp_text file = { 0 };
    tp_zip *z = NULL;
    char *bytes = NULL;
    size_t count;
    TP_NEED(write_sample(&file));
    TP_NEED(z = tp_zip_open_memory(file.at, file.length, 0, NULL, NULL));
    TP_EXPECT_TEXT(tp_zip_root(z), "archive");
    const tp_zip_entry *e = tp_zip_entries(z, &count);
    TP_EXPECT(count == 6);
    for (size_t i = 0; i < count; i++)
        TP_EXPECT(e[i].at % TP_ZIP_ALIGN == 0 && tp_zip_find(z, e[i].name) == &e[i]);
    TP_NEED(e = tp_zip_record(z, "byteorder"));
    TP_NEED(bytes = tp_zip_read_new(z, e));
    TP_EXPECT_TEXT(bytes, "little");
    TP_EXPECT(memcmp(tp_zip_borrow(z, e), "little", 6) == 0);
    TP_EXPECT(tp_zip_has_record(z, "data/1") && !tp_zip_has_record(z, "data/2") && !tp_zip_find(z, "version"));
    TP_EXPECT(!tp_zip_record(z, "data/2") &&
              strstr(tp_error_text(), "PytorchStreamReader failed locating file data/2: file not found"));
out:
    tp_free(bytes);
    tp_zip_unref(z);
    tp_text_fini(&file);
}

/* The first 64 bytes of any file that torch.save writes to a buffer, and how its end looks. */
TP_TEST(layout_is_pytorchs)
{
    static const char begin[] =
        "PK\3\4\0\0\10\10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\22\0archive/data.pklFB\16\0ZZZZZZZZZZZZZZ";
    tp_text file = { 0 };
    TP_NEED(write_sample(&file));
    TP_EXPECT(file.length > 200 && memcmp(file.at, begin, 64) == 0);
    TP_EXPECT(memcmp(file.at + 68, "PK\7\10", 4) == 0);     /* the descriptor after four bytes of data */
    TP_EXPECT(memcmp(file.at + file.length - 98, "PK\6\6\54\0\0\0\0\0\0\0\36\3\55\0", 16) == 0);
    TP_EXPECT(memcmp(file.at + file.length - 42, "PK\6\7", 4) == 0 &&
              memcmp(file.at + file.length - 22, "PK\5\6", 4) == 0);
out:
    tp_text_fini(&file);
}

TP_TEST(files_are_read_by_position_or_mapped)
{
    char path[] = "/tmp/taper-zip-XXXXXX";
    int made = mkstemp(path);
    tp_zip_writer *w = NULL;
    tp_zip *z = NULL;
    char *bytes = NULL;
    static const char big[100000] = { 1, 2, 3 };
    TP_EXPECT(made >= 0);
    close(made);
    TP_NEED(w = tp_zip_writer_new_file("m", path));
    TP_NEED(tp_zip_add(w, "a", big, sizeof big) && tp_zip_add_text(w, "b", "x"));
    TP_NEED(tp_zip_writer_finish(w));
    for (unsigned flags = 0; flags <= TP_ZIP_MAP; flags++) {
        TP_NEED(z = tp_zip_open(path, flags));
        const tp_zip_entry *e = tp_zip_record(z, "a");
        TP_NEED(e);
        TP_NEED(bytes = tp_zip_read_new(z, e));
        TP_EXPECT(e->size == sizeof big && memcmp(bytes, big, sizeof big) == 0);
        char *seen = tp_zip_borrow(z, e);
        TP_EXPECT((seen != NULL) == (flags == TP_ZIP_MAP));
        if (seen)
            seen[0] = 9;            /* private: the file keeps its byte, as the next round of the loop would see */
        tp_free(bytes);
        tp_zip_unref(z);
        bytes = NULL, z = NULL;
    }
    TP_EXPECT(!tp_zip_open("/nowhere/at/all", 0) && strstr(tp_error_text(), "open file failed"));
    TP_EXPECT(!tp_zip_writer_new_file("m", "/nowhere/at/all"));
    TP_EXPECT(!tp_zip_open("/tmp", 0));
out:
    tp_free(bytes);
    tp_zip_unref(z);
    tp_zip_writer_free(w);
    unlink(path);
}

static bool refuse(void *to, const void *bytes, size_t count)
{
    (void)bytes;
    return (*(size_t *)to += count) < 100 || tp_fail(TP_ERR_RUNTIME, "the disk is full");
}

TP_TEST(a_failing_sink_is_reported)
{
    size_t written = 0;
    tp_zip_writer *w = tp_zip_writer_new("", refuse, &written);
    TP_NEED(w);
    TP_EXPECT(tp_zip_add_text(w, "a", "x") && !tp_zip_add_text(w, "b", "y"));
    TP_EXPECT_TEXT(tp_error_text(), "the disk is full");
    TP_EXPECT(!tp_zip_writer_finish(w));
    TP_EXPECT_TEXT(tp_error_text(), "the disk is full");
out:
    tp_zip_writer_free(w);
}

TP_TEST(names_are_unique)
{
    tp_text file = { 0 };
    tp_zip_writer *w = tp_zip_writer_new_text("", &file);
    TP_NEED(w && tp_zip_add_text(w, "a", "x"));
    TP_EXPECT(!tp_zip_add_text(w, "a", "y"));
out:
    tp_zip_writer_free(w);
    tp_text_fini(&file);
}

/* ---- broken files ---- */

static void read_all(const char *bytes, size_t count, size_t *opened)
{
    char out[256];
    size_t entries;
    tp_zip *z = tp_zip_open_memory(bytes, count, 0, NULL, NULL);
    if (!z)
        return;
    ++*opened;
    const tp_zip_entry *e = tp_zip_entries(z, &entries);
    for (size_t i = 0; i < entries; i++)
        if (e[i].size <= sizeof out && !tp_zip_read(z, &e[i], out))
            tp_error_clear();
    tp_zip_unref(z);
}

TP_TEST(no_broken_byte_does_harm)
{
    tp_text file = { 0 };
    size_t opened = 0;
    TP_NEED(write_sample(&file));
    for (size_t i = 0; i < file.length; i++)
        for (int value = 0; value < 256; value += 51) {
            char before = file.at[i];
            file.at[i] = (char)(before ^ value);
            read_all(file.at, file.length, &opened);
            file.at[i] = before;
        }
    TP_EXPECT(opened > file.length);            /* most bytes are padding or sums */
    opened = 0;
    for (size_t length = 0; length < file.length; length++)
        read_all(file.at, length, &opened);
    TP_EXPECT(opened == 0);
    TP_EXPECT(strstr(tp_error_text(), "failed finding central directory"));
out:
    tp_text_fini(&file);
}

TP_TEST(a_wrong_sum_is_found_unless_told_not_to_look)
{
    tp_text file = { 0 };
    tp_zip *z = NULL;
    TP_NEED(write_sample(&file));
    static const unsigned all[] = { 0, TP_ZIP_ANY_CRC, TP_ZIP_NO_CRC };
    for (size_t i = 0; i < TP_COUNT(all); i++) {
        unsigned flags = all[i];
        uint32_t sum;
        char out[24];
        TP_NEED(z = tp_zip_open_memory(file.at, file.length, flags, NULL, NULL));
        const tp_zip_entry *e = tp_zip_record(z, "data/0");
        TP_NEED(e);
        file.at[e->at] = 8;
        TP_EXPECT(tp_zip_read(z, e, out) == (flags == TP_ZIP_ANY_CRC) && tp_zip_check(z, e) == (flags == TP_ZIP_ANY_CRC));
        TP_EXPECT(flags == TP_ZIP_ANY_CRC || strstr(tp_error_text(), "file archive/data/0: CRC-32 check failed"));
        TP_EXPECT(tp_zip_has_sums(z) && tp_zip_read_sum(z, e, out, &sum) && sum != e->crc);
        tp_zip_unref(z);
        z = NULL;
    }
out:
    tp_zip_unref(z);
    tp_text_fini(&file);
}

static void put(tp_text *t, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        char byte = i < 8 ? (char)(value >> 8 * i) : 0;
        tp_text_put(t, &byte, 1);
    }
}

/* Two entries at the given places of a file whose first bytes are local headers; `wide` puts sizes into extra fields. */
static void put_central(tp_text *t, const char *name, uint64_t at, uint64_t size, int method, bool wide)
{
    put(t, 0x02014b50, 4);
    put(t, 0, 6);
    put(t, (uint64_t)method, 2);
    put(t, 0, 4);
    put(t, tp_crc32(0, "abcd", 4), 4);
    put(t, wide ? 0xffffffff : size, 4);
    put(t, wide ? 0xffffffff : size, 4);
    put(t, strlen(name), 2);
    put(t, wide ? 28 : 0, 2);
    put(t, 0, 10);
    put(t, wide ? 0xffffffff : at, 4);
    tp_text_put(t, name, strlen(name));
    if (wide) {
        put(t, 1, 2);
        put(t, 24, 2);
        put(t, size, 8);
        put(t, size, 8);
        put(t, at, 8);
    }
}

static void put_local(tp_text *t, const char *name)
{
    put(t, 0x04034b50, 4);
    put(t, 0, 22);
    put(t, strlen(name), 2);
    put(t, 0, 2);
    tp_text_put(t, name, strlen(name));
    tp_text_put(t, "abcd", 4);
}

static void put_end(tp_text *t, size_t directory, int count)
{
    uint64_t bytes = t->length - directory;
    put(t, 0x06054b50, 4);
    put(t, 0, 4);
    put(t, (uint64_t)count, 2);
    put(t, (uint64_t)count, 2);
    put(t, bytes, 4);
    put(t, directory, 4);
    put(t, 0, 2);
}

TP_TEST(wide_and_wicked_directories)
{
    static const struct {
        const char *first, *second;
        uint64_t second_at, size;
        int method;
        bool wide;
        const char *error;      /* NULL: opens */
    } rows[] = {
        { "r/a", "r/b", 37, 4, 0, true, NULL },
        { "r/a", "r/b", 37, 4, 0, false, NULL },
        { "r/a", "r/a", 37, 4, 0, false, "two entries of one name" },
        { "r/a", "r/b", 0, 4, 0, false, "corrupted" },              /* the header there has another name */
        { "r/a", "r/b", 1u << 30, 4, 0, true, "corrupted" },
        { "r/a", "r/b", UINT64_MAX - 8, 4, 0, true, "corrupted" },
        { "r/a", "r/b", 37, UINT64_MAX - 8, 0, true, "corrupted" },
        { "r/a", "r/b", 37, 5, 0, false, "corrupted" },             /* runs into the directory */
        { "r/a", "r/b", 37, 4, 9, false, "unsupported method" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text file = { 0 };
        put_local(&file, rows[i].first);
        put_local(&file, strcmp(rows[i].second, "r/a") == 0 ? "r/a" : "r/b");
        size_t directory = file.length;
        put_central(&file, rows[i].first, 0, 4, 0, rows[i].wide);
        put_central(&file, rows[i].second, rows[i].second_at, rows[i].size, rows[i].method, rows[i].wide);
        put_end(&file, directory, 2);
        tp_zip *z = file.failed ? NULL : tp_zip_open_memory(file.at, file.length, 0, NULL, NULL);
        TP_EXPECT((z != NULL) == (rows[i].error == NULL));
        if (!z && rows[i].error)
            TP_EXPECT(strstr(tp_error_text(), rows[i].error));
        if (z)
            TP_EXPECT(memcmp(tp_zip_borrow(z, tp_zip_find(z, "r/b")), "abcd", 4) == 0);
        tp_zip_unref(z);
        tp_text_fini(&file);
    }
}

TP_TEST(overlapping_entries_are_refused)
{
    tp_text file = { 0 };
    tp_text inner = { 0 };
    put_local(&inner, "r/b");
    /* The data of the first entry is a whole local header of the second. */
    put_local(&file, "r/a");
    file.length -= 4;
    tp_text_put(&file, tp_text_read(&inner), inner.length);
    size_t directory = file.length;
    put_central(&file, "r/a", 0, 4, 0, false);
    put_central(&file, "r/b", 33, 4, 0, false);
    put_end(&file, directory, 2);
    TP_NEED(!file.failed && !inner.failed);
    TP_EXPECT(!tp_zip_open_memory(file.at, file.length, 0, NULL, NULL));
    TP_EXPECT(strstr(tp_error_text(), "entries overlap"));
out:
    tp_text_fini(&inner);
    tp_text_fini(&file);
}

/* ---- sums and inflating ---- */

TP_TEST(sums_are_those_of_the_standard)
{
    static uint8_t bytes[256 * 200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    TP_EXPECT(tp_crc32(0, "123456789", 9) == 0xcbf43926);
    TP_EXPECT(tp_crc32(0, bytes, sizeof bytes) == 2618846484u);
    for (size_t first = 0; first < sizeof bytes; first = first < 400 ? first + 1 : 3 * first)     /* however it is cut and aligned */
        TP_EXPECT(tp_crc32(tp_crc32(0, bytes, first), bytes + first, sizeof bytes - first) == 2618846484u);
}

/* A text of skewed letters, deflated by zlib with codes of its own. */
static const char coded[] = 
    "\x15\x8f\x41\x0a\x44\x31\x08\x43\xaf\xe2\xd5\x02\x0d\x28\x7c\x14\x6a\xe6\xfe\x93\x6e\xea\x23\xb1\x46\x09\x42\xab"
    "\x39\xdf\x12\xd3\x31\xa3\xc9\x01\x5c\x36\x22\x6a\x1e\x75\x65\xdd\x2e\x4d\x11\xec\x81\x4a\x1c\x46\xa7\xf2\xb6\x28"
    "\x94\x74\x15\x22\xd5\xea\xa9\x82\xc5\x12\x10\x58\xcf\xb2\xcf\x18\xf2\x83\xd9\x66\xdc\x78\xb2\x87\x6d\xee\xad\x9f"
    "\xfd\x89\x71\x3b\x7f\x1c\x34\x59\xf4\xe3\x04\x38\x33\xef\x35\x96\xcd\xda\x7a\xb2\xff\x75\xf4\xe2\x80\x72\x48\x92"
    "\xe7\xc8\xfb\x74\x23\x7d\x86\xbc\xee\x20\x63\xd7\x08\x32\xd4\x98\xcf\xe4\x90\x9a\x66\x1a\x1a\x1b\x7b\x33\xf1\xae"
    "\x1d\xfe\x01";

static void skewed(char out[260])
{
    for (uint32_t i = 0; i < 260; i++)
        out[i] = "etaoin shrdlu"[(i * 2654435761u >> 24) % (3 + i % 11)];
}

TP_TEST(all_kinds_of_blocks_inflate)
{
    static const char fixed[] =
        "\x4b\x49\x4d\x53\x48\xcb\x2f\x2a\x4f\x2c\x4a\xd1\x28\x4e\xcd\x49\xd3\x51\xa8\xd0\xb4\xe2\x52\x00\x82\xa2"
        "\xd4\x92\xd2\xa2\x3c\x85\x92\xfc\xa2\xe4\x0c\xbd\xc4\x94\x14\x8d\x0a\x90\x1c\x57\xca\x48\xd4\x00\x00";
    static const char line[] = "def forward(self, x):\n    return torch.add(x, x)\n";
    char out[300], want[300];
    TP_EXPECT(tp_inflate(fixed, sizeof fixed - 1, out, 294));
    for (int i = 0; i < 6; i++)
        TP_EXPECT(memcmp(out + 49 * i, line, 49) == 0);
    skewed(want);
    TP_EXPECT(tp_inflate(coded, sizeof coded - 1, out, 260) && memcmp(out, want, 260) == 0);
    TP_EXPECT(tp_inflate("\1\3\0\xfc\xff" "abc", 8, out, 3) && memcmp(out, "abc", 3) == 0);
    TP_EXPECT(!tp_inflate(fixed, sizeof fixed - 1, out, 293) && !tp_inflate(fixed, sizeof fixed - 1, out, 295));
    TP_EXPECT(!tp_inflate("\1\3\0\xfc\xff"
                          "ab",
                          7, out, 3) &&
              !tp_inflate("\7", 1, out, 0) && !tp_inflate("", 0, out, 0));
    for (size_t i = 0; i < sizeof coded - 1; i++) {         /* broken streams end, inside the block */
        char copy[sizeof coded];
        memcpy(copy, coded, sizeof coded);
        for (int bit = 0; bit < 8; bit++) {
            copy[i] = (char)(coded[i] ^ 1 << bit);
            bool read = tp_inflate(copy, sizeof coded - 1, out, 260);
            TP_EXPECT(!read || memcmp(out, want, 260) != 0 ||
                      i == sizeof coded - 2); /* the last bits are only filling */
        }
    }
}

TP_TESTS(TP_SWEPT(what_is_written_reads_back), TP_SWEPT(layout_is_pytorchs),
         TP_SWEPT(files_are_read_by_position_or_mapped), TP_SWEPT(a_failing_sink_is_reported),
         TP_SWEPT(names_are_unique), TP_SPARSE(no_broken_byte_does_harm),
         TP_SWEPT(a_wrong_sum_is_found_unless_told_not_to_look), TP_SWEPT(wide_and_wicked_directories),
         TP_SWEPT(overlapping_entries_are_refused), TP_SWEPT(sums_are_those_of_the_standard),
         TP_SWEPT(all_kinds_of_blocks_inflate))
