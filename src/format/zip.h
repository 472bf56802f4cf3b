/* zip.h - archives: a reader that trusts nothing, and a writer that lays files out as PyTorch does (docs/formats.md).
 *
 * Reading. An archive is a file read by position, a file mapped into memory, or a block of memory. Opening it checks the
 * whole directory: every entry lies inside the file, before the directory, and overlaps no other; names are unique and
 * hold no NUL. Entries are stored or deflated; deflated ones unpack to no more than a hundred times what they take, all together,
 * and 16 MB. Always: `entry[i].at + entry[i].packed` is inside the file.
 * An archive is counted, because storages that look into a mapping keep it alive.
 *
 * Writing. Entries are stored, their data on multiples of 64, one after the other; nothing is sought back, so any sink will
 * do. A writer is sticky: after a failure it writes nothing more, and finishing it fails with the first error.
 *
 * Errors are TP_ERR_RUNTIME in PyTorch's words ("PytorchStreamReader failed …"). */
#ifndef TP_FORMAT_ZIP_H
#define TP_FORMAT_ZIP_H

#include "base/error.h"
#include "base/text.h"

enum { TP_ZIP_STORED = 0, TP_ZIP_DEFLATED = 8, TP_ZIP_ALIGN = 64 };

/* ---- reading ---- */
typedef struct tp_zip tp_zip;
typedef struct tp_zip_entry {
    const char *name;       /* owned by the archive; with the root folder */
    uint64_t at;            /* where the data begins in the file */
    uint64_t packed, size;  /* bytes in the file, bytes unpacked */
    uint32_t crc;
    uint16_t method;        /* TP_ZIP_STORED or TP_ZIP_DEFLATED */
} tp_zip_entry;

enum {
    TP_ZIP_MAP = 1,         /* map the file (private: writes do not reach it); else entries are read by position */
    TP_ZIP_ANY_CRC = 2,     /* do not check sums */
    TP_ZIP_NO_CRC = 4,      /* do not check them where all are 0: PyTorch can be told to write none */
};
TP_API TP_CHECK tp_zip *tp_zip_open(const char *path, unsigned flags);
/* Borrows `bytes`, which live as long as the archive: release(owner) is called when it dies, also when this call fails. */
TP_API TP_CHECK tp_zip *tp_zip_open_memory(const void *bytes, size_t count, unsigned flags, void *owner, void (*release)(void *));
TP_API tp_zip *tp_zip_ref(tp_zip *z);
TP_API void tp_zip_unref(tp_zip *z);        /* NULL is fine */

TP_API const tp_zip_entry *tp_zip_entries(const tp_zip *z, size_t *count);      /* borrowed; in the order of the directory */
TP_API const tp_zip_entry *tp_zip_find(const tp_zip *z, const char *name);      /* borrowed; NULL without an error: absent */
/* The folder that holds everything, "" when there is none. Borrowed. */
TP_API const char *tp_zip_root(const tp_zip *z);
/* ROOT/name. NULL: "PytorchStreamReader failed locating file NAME: file not found". */
TP_API TP_CHECK const tp_zip_entry *tp_zip_record(const tp_zip *z, const char *name);
TP_API bool tp_zip_has_record(const tp_zip *z, const char *name);
/* The bytes themselves, of a stored entry of a mapped file or a block of memory; NULL without an error where there are none
 * to look at. Writing to a mapping is allowed and stays private. Not checked against the sum. */
TP_API void *tp_zip_borrow(const tp_zip *z, const tp_zip_entry *e);
/* Is it a private mapping? What is borrowed of a block of memory is its owner's, and not to be written to. */
TP_API bool tp_zip_is_mapped(const tp_zip *z);
/* Unpacks the whole entry into `out`, which has e->size bytes; checks the sum. */
TP_API TP_CHECK bool tp_zip_read(const tp_zip *z, const tp_zip_entry *e, void *out);
/* The same for those who judge sums themselves: gives the sum of what was read. */
TP_API TP_CHECK bool tp_zip_read_sum(const tp_zip *z, const tp_zip_entry *e, void *out, uint32_t *sum);
TP_API bool tp_zip_has_sums(const tp_zip *z);       /* false: all are 0, none were written */
/* Checks the sum of an entry that was borrowed. */
TP_API TP_CHECK bool tp_zip_check(const tp_zip *z, const tp_zip_entry *e);
/* The same into fresh memory with a NUL behind it; tp_free it. */
TP_API TP_CHECK char *tp_zip_read_new(const tp_zip *z, const tp_zip_entry *e);

/* ---- writing ---- */
typedef struct tp_zip_writer tp_zip_writer;
/* Called with the pieces of the file in order; false: an error is set. */
typedef bool tp_zip_sink(void *to, const void *bytes, size_t count);
/* `root` is the folder of every entry, "" for none. */
TP_API TP_CHECK tp_zip_writer *tp_zip_writer_new(const char *root, tp_zip_sink *sink, void *to);
TP_API TP_CHECK tp_zip_writer *tp_zip_writer_new_text(const char *root, tp_text *out);   /* appends to a text, borrowed */
TP_API TP_CHECK tp_zip_writer *tp_zip_writer_new_file(const char *root, const char *path);      /* replaced whole: output.h */
TP_API TP_CHECK bool tp_zip_add(tp_zip_writer *w, const char *name, const void *bytes, size_t count);
TP_API TP_CHECK bool tp_zip_add_text(tp_zip_writer *w, const char *name, const char *text);
/* `.data/serialization_id`: 40 digits that depend on names and contents of the entries so far. PyTorch's last entry. */
TP_API TP_CHECK bool tp_zip_add_id(tp_zip_writer *w);
/* Writes the directory and closes the file. The writer still has to be freed. */
TP_API TP_CHECK bool tp_zip_writer_finish(tp_zip_writer *w);
TP_API void tp_zip_writer_free(tp_zip_writer *w);   /* an unfinished file is not there; NULL is fine */

/* ---- what both use ---- */
TP_API uint32_t tp_crc32(uint32_t crc, const void *bytes, size_t count);    /* begin with 0; may be continued */
/* RFC 1951. True when `in` is exactly one deflate stream that gives exactly `out_count` bytes; no error is set. */
TP_API TP_CHECK bool tp_inflate(const void *in, size_t in_count, void *out, size_t out_count);

#endif
