/* move.c - patches of elements from one layout to another: rows, fills, transposes, anything.
 *
 * A transpose of 4-byte elements goes through blocks of 16 x 16: whole cache lines are read from 16 rows, turned in
 * registers (AVX-512 holds all of a block, the others go through the first cache), and written as whole lines. Rows that
 * are a power of two apart fall on the same few places of the cache, so a line must be used up when it is touched. */
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "tile/isa/isa.h"

typedef struct { uint64_t half[2]; } element16;
typedef uint32_t block4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t block8 __attribute__((vector_size(32), aligned(4), may_alias));

enum { LINE = 16 };     /* 4-byte elements of a cache line */

#if defined(__AVX512F__)
/* A line is a register: pairs of rows interleaved, pairs of pairs, then quarters exchanged twice. */
static inline void turn_16x16(char *to, int64_t to_row, const char *from, int64_t from_column)
{
    __m512i a[LINE], b[LINE];
#pragma GCC unroll 16
    for (int i = 0; i < LINE; i++)
        a[i] = _mm512_loadu_si512(from + i * from_column);
#pragma GCC unroll 8
    for (int i = 0; i < LINE; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LINE; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 2
        for (int half = 0; half < LINE; half += 8) {
            b[half + i] = _mm512_shuffle_i32x4(a[half + i], a[half + 4 + i], 0x88);
            b[half + 4 + i] = _mm512_shuffle_i32x4(a[half + i], a[half + 4 + i], 0xdd);
        }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        _mm512_storeu_si512(to + i * to_row, _mm512_shuffle_i32x4(b[i], b[8 + i], 0x88));
        _mm512_storeu_si512(to + (8 + i) * to_row, _mm512_shuffle_i32x4(b[i], b[8 + i], 0xdd));
    }
}
#else
#if defined(__AVX2__)
/* 8 x 8: pairs of rows interleaved, then pairs of pairs, then halves exchanged. */
static inline void turn_8x8(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t from_row)
{
    block8 a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = *(const block8 *)(from + i * from_row);
    for (int i = 0; i < 8; i += 2) {
        b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            a[i + 2 * k] = __builtin_shufflevector(b[i + k], b[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 2 * k + 1] = __builtin_shufflevector(b[i + k], b[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        *(block8 *)(to + i * to_row) = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(block8 *)(to + (i + 4) * to_row) = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
enum { SIDE_IN_REGISTERS = 8 };
#define TURN_IN_REGISTERS turn_8x8
#else
static inline void turn_4x4(uint32_t *to, int64_t to_row, const uint32_t *from, int64_t from_row)
{
    block4 a = *(const block4 *)from, b = *(const block4 *)(from + from_row);
    block4 c = *(const block4 *)(from + 2 * from_row), d = *(const block4 *)(from + 3 * from_row);
    block4 ac = __builtin_shufflevector(a, c, 0, 4, 1, 5), ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7);
    block4 bd = __builtin_shufflevector(b, d, 0, 4, 1, 5), bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
    *(block4 *)to = __builtin_shufflevector(ac, bd, 0, 4, 1, 5);
    *(block4 *)(to + to_row) = __builtin_shufflevector(ac, bd, 2, 6, 3, 7);
    *(block4 *)(to + 2 * to_row) = __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5);
    *(block4 *)(to + 3 * to_row) = __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7);
}
enum { SIDE_IN_REGISTERS = 4 };
#define TURN_IN_REGISTERS turn_4x4
#endif

static inline void turn_16x16(char *to, int64_t to_row, const char *from, int64_t from_column)
{
    _Alignas(64) uint32_t read[LINE][LINE], turned[LINE][LINE];
    for (int i = 0; i < LINE; i++)
        memcpy(read[i], from + i * from_column, sizeof read[i]);
    for (int i = 0; i < LINE; i += SIDE_IN_REGISTERS)
        for (int k = 0; k < LINE; k += SIDE_IN_REGISTERS)
            TURN_IN_REGISTERS(&turned[i][k], LINE, &read[k][i], LINE);
    for (int i = 0; i < LINE; i++)
        memcpy(to + i * to_row, turned[i], sizeof turned[i]);
}
#endif

/* Other sizes: SIDE pieces of SIDE elements are read, turned in the first cache, and written. */
#define TURN(name, E, SIDE)                                                                                 \
    static inline void name(char *to, int64_t to_row, const char *from, int64_t from_column)                \
    {                                                                                                       \
        _Alignas(64) E read[SIDE][SIDE], turned[SIDE][SIDE];                                                \
        for (int i = 0; i < SIDE; i++)                                                                      \
            memcpy(read[i], from + i * from_column, sizeof read[i]);                                        \
        for (int i = 0; i < SIDE; i++)                                                                      \
            for (int k = 0; k < SIDE; k++)                                                                  \
                turned[i][k] = read[k][i];                                                                  \
        for (int i = 0; i < SIDE; i++)                                                                      \
            memcpy(to + i * to_row, turned[i], sizeof turned[i]);                                           \
    }
TURN(turn_bytes, uint8_t, 32)
TURN(turn_halves, uint16_t, 32)
TURN(turn_words, uint64_t, 8)

#define NO_TURN(to, to_row, from, from_column) ((void)0)

/* TURN handles blocks of SIDE x SIDE; what is left at the edges goes element by element. */
#define MOVE(name, E, SIDE, TURN)                                                                                      \
    static void name##_any(int64_t rows, int64_t columns, char *to, int64_t to_row, int64_t to_column,                 \
                           const char *from, int64_t from_row, int64_t from_column)                                    \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t c = 0; c < columns; c++)                                                                      \
                *(E *)(to + r * to_row + c * to_column) = *(const E *)(from + r * from_row + c * from_column);         \
    }                                                                                                                  \
    static void name##_turned(int64_t rows, int64_t columns, char *to, int64_t to_row, const char *from,               \
                              int64_t from_column)                                                                     \
    {                                                                                                                  \
        const int64_t size = sizeof(E), whole_rows = rows - rows % SIDE, whole_columns = columns - columns % SIDE;     \
        for (int64_t r = 0; r < whole_rows; r += SIDE)                                                                 \
            for (int64_t c = 0; c < whole_columns; c += SIDE)                                                          \
                TURN(to + r * to_row + c * size, to_row, from + r * size + c * from_column, from_column);              \
        name##_any(rows - whole_rows, whole_columns, to + whole_rows * to_row, to_row, size, from + whole_rows * size, \
                   size, from_column);                                                                                 \
        name##_any(rows, columns - whole_columns, to + whole_columns * size, to_row, size,                             \
                   from + whole_columns * from_column, size, from_column);                                             \
    }                                                                                                                  \
    static void name##_rows(int64_t rows, int64_t columns, char *to, int64_t to_row, const char *from,                 \
                            int64_t from_row, bool same)                                                               \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++, to += to_row, from += from_row) {                                           \
            E *o = (E *)to;                                                                                            \
            E one = *(const E *)from;                                                                                  \
            if (!same)                                                                                                 \
                memmove(to, from, (size_t)columns * sizeof(E));                                                        \
            else                                                                                                       \
                EACH(columns)                                                                                          \
                    o[i] = one;                                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(int64_t rows, int64_t columns, char *to, int64_t to_row, int64_t to_column, const char *from,     \
                     int64_t from_row, int64_t from_column)                                                            \
    {                                                                                                                  \
        const int64_t size = sizeof(E);                                                                                \
        if (to_column == size && from_column == size && to_row == from_row && to_row == columns * size)                \
            memmove(to, from, (size_t)(rows * columns) * sizeof(E));                                                   \
        else if (to_column == size && (from_column == size || from_column == 0))                                       \
            name##_rows(rows, columns, to, to_row, from, from_row, from_column == 0);                                  \
        else if (SIDE > 1 && to_column == size && from_row == size)                                                    \
            name##_turned(rows, columns, to, to_row, from, from_column);                                               \
        else if (SIDE > 1 && to_row == size && from_column == size)                                                    \
            name##_turned(columns, rows, to, to_column, from, from_row);                                               \
        else                                                                                                           \
            name##_any(rows, columns, to, to_row, to_column, from, from_row, from_column);                             \
    }

MOVE(move_1, uint8_t, 32, turn_bytes)
MOVE(move_2, uint16_t, 32, turn_halves)
MOVE(move_4, uint32_t, LINE, turn_16x16)
MOVE(move_8, uint64_t, 8, turn_words)
MOVE(move_16, element16, 1, NO_TURN)

extern tp_move_fn *const TP_ISA(tp_tile_moves)[5];
tp_move_fn *const TP_ISA(tp_tile_moves)[5] = { move_1, move_2, move_4, move_8, move_16 };
