/* zip_fuzz.c - broken archives: each is read or refused, and entries stay inside the file. */
#include "format/fuzz_bytes.h"
#include "format/zip.h"

/* One stored entry; one deflated; one stored, its directory told by a zip64 record. */
static const char *const seeds[] = {
    "PK~03~04~14~00~00~00~00~00~00~00~00~00~11~cd~82~ed~04~00~00~00~04~00~00~00~03~00~00~00r/aabcdPK~01~02~14~00~14"
    "~00~00~00~00~00~00~00~00~00~11~cd~82~ed~04~00~00~00~04~00~00~00~03~00~00~00~00~00~00~00~00~00~00~00~00~00~00"
    "~00~00~00r/aPK~05~06~00~00~00~00~01~00~01~001~00~00~00%~00~00~00~00~00",
    "PK~03~04~14~00~00~00~08~00~00~00~00~00]~c3~d0~c3~08~00~00~00~10~00~00~00~01~00~00~00aKLJNDB~15~00PK~01~02~14"
    "~00~14~00~00~00~08~00~00~00~00~00]~c3~d0~c3~08~00~00~00~10~00~00~00~01~00~00~00~00~00~00~00~00~00~00~00~00~00"
    "~00~00~00~00aPK~05~06~00~00~00~00~01~00~01~00/~00~00~00'~00~00~00~00~00",
    "PK~03~04~14~00~00~00~00~00~00~00~00~00~11~cd~82~ed~04~00~00~00~04~00~00~00~03~00~00~00r/aabcdPK~01~02~14~00~14"
    "~00~00~00~00~00~00~00~00~00~11~cd~82~ed~04~00~00~00~04~00~00~00~03~00~00~00~00~00~00~00~00~00~00~00~00~00~00"
    "~00~00~00r/aPK~06~06,~00~00~00~00~00~00~00-~00-~00~00~00~00~00~00~00~00~00~01~00~00~00~00~00~00~00~01~00~00~00"
    "~00~00~00~001~00~00~00~00~00~00~00%~00~00~00~00~00~00~00PK~06~07~00~00~00~00V~00~00~00~00~00~00~00~01~00~00~00"
    "PK~05~06~00~00~00~00~ff~ff~ff~ff~ff~ff~ff~ff~ff~ff~ff~ff~00~00",
};

static void one_input(const char *text, size_t length)
{
    uint8_t bytes[TP_FUZZ_LONGEST], out[1 << 16];
    size_t count = tp_fuzz_bytes(text, length, bytes), entries;
    tp_zip *z = tp_zip_open_memory(bytes, count, TP_ZIP_ANY_CRC, NULL, NULL);
    if (!z)
        return;
    const tp_zip_entry *e = tp_zip_entries(z, &entries);
    for (size_t i = 0; i < entries; i++) {
        if (e[i].at > count || e[i].packed > count - e[i].at)
            abort();
        if (e[i].size <= sizeof out && !tp_zip_read(z, &e[i], out))
            tp_error_clear();
    }
    tp_zip_unref(z);
}

TP_FUZZ_MAIN(seeds, one_input)
