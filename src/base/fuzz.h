/* fuzz.h - a driver for fuzz targets: mutates seeds for some seconds and hands them on. Under clang, libFuzzer's entry.
 *
 *     static const char *const seeds[] = { "add(Tensor self) -> Tensor", … };
 *     static void one_input(const char *text, size_t length) { … must not crash, hang or leak … }
 *     TP_FUZZ_MAIN(seeds, one_input)
 *
 * `program SECONDS [SEED]` prints how many inputs it ran. The stream is fixed by SEED, so a crash can be run again. */
#ifndef TP_BASE_FUZZ_H
#define TP_BASE_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/runtime.h"

enum { TP_FUZZ_LONGEST = 1024 };

static inline uint64_t tp_fuzz_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* A few edits: a byte changed, dropped or doubled, a run copied from another place, the tail cut. */
static inline size_t tp_fuzz_mutate(uint64_t *state, char *text, size_t length)
{
    for (uint64_t edits = 1 + tp_fuzz_next(state) % 6; edits && length; edits--) {
        size_t at = tp_fuzz_next(state) % length, from = tp_fuzz_next(state) % length, run = tp_fuzz_next(state) % 12;
        switch (tp_fuzz_next(state) % 5) {
        case 0: text[at] = (char)(tp_fuzz_next(state) % 96 + 31); break;
        case 1: memmove(text + at, text + at + 1, --length - at); break;
        case 2:
            if (length + 1 < TP_FUZZ_LONGEST) {
                memmove(text + at + 1, text + at, length - at);
                length++;
            }
            break;
        case 3:
            if (from + run <= length && at + run <= length)
                memmove(text + at, text + from, run);
            break;
        default: length = at; break;
        }
    }
    text[length] = 0;
    return length;
}

#define TP_FUZZ_MAIN(seeds, one_input)                                                                        \
    int main(int argc, char **argv)                                                                           \
    {                                                                                                         \
        double seconds = argc > 1 ? atof(argv[1]) : 1;                                                        \
        uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : 0x9e3779b97f4a7c15u, count = 0;          \
        struct timespec begin, now;                                                                           \
        clock_gettime(CLOCK_MONOTONIC, &begin);                                                               \
        do {                                                                                                  \
            char text[TP_FUZZ_LONGEST + 1];                                                                   \
            const char *seed = seeds[tp_fuzz_next(&state) % TP_COUNT(seeds)];                                 \
            size_t length = strlen(seed);                                                                     \
            memcpy(text, seed, length + 1);                                                                   \
            length = tp_fuzz_mutate(&state, text, length);                                                    \
            one_input(text, length);                                                                          \
            tp_error_clear();                                                                                 \
            count++;                                                                                          \
            clock_gettime(CLOCK_MONOTONIC, &now);                                                             \
        } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) * 1e-9 < seconds); \
        printf("%llu inputs\n", (unsigned long long)count);                                                   \
        return 0;                                                                                             \
    }

#endif
