/* fuzz_bytes.h - bytes for fuzz targets of binary formats: the driver's seeds are texts, so ~hh stands for a byte. */
#ifndef TP_FORMAT_FUZZ_BYTES_H
#define TP_FORMAT_FUZZ_BYTES_H

#include "base/fuzz.h"

static inline int tp_fuzz_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline size_t tp_fuzz_bytes(const char *text, size_t length, uint8_t out[TP_FUZZ_LONGEST])
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        int high = text[i] == '~' && i + 2 < length ? tp_fuzz_digit(text[i + 1]) : -1,
            low = high < 0 ? -1 : tp_fuzz_digit(text[i + 2]);
        out[count++] = low < 0 ? (uint8_t)text[i] : (uint8_t)(high << 4 | low);
        i += low < 0 ? 0 : 2;
    }
    return count;
}

#endif
