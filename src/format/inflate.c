/* inflate.c - RFC 1951, for the few deflated entries that PyTorch writes.
 *
 * Codes are decoded canonically, a bit at a time with a table of counts: no look-up tables to build, half a megabyte of code
 * text in milliseconds. Input and output are whole blocks, so every step is one comparison away from being safe. */
#include "format/zip.h"

#include <string.h>

typedef struct stream {
    const uint8_t *in, *in_end;
    uint8_t *out, *at, *out_end;
    uint32_t bits;              /* waiting bits, lowest first */
    int      count;             /* how many */
} stream;

enum { LONGEST = 15, LITERALS = 288, DISTANCES = 32 };
typedef struct code {
    uint16_t count[LONGEST + 1];        /* codes of each length */
    uint16_t symbol[LITERALS];          /* by length, then by value */
} code;

/* -1: the input is over. */
static int take(stream *s, int count)
{
    while (s->count < count) {
        if (s->in == s->in_end)
            return -1;
        s->bits |= (uint32_t)*s->in++ << s->count;
        s->count += 8;
    }
    int value = (int)(s->bits & ((1u << count) - 1));
    s->bits >>= count;
    s->count -= count;
    return value;
}

/* False when the lengths say more codes than there are. Too few are allowed: such a code fails when it is met. */
static bool make_code(code *c, const uint8_t *length, int count)
{
    uint16_t next[LONGEST + 1];
    int left = 1;
    memset(c->count, 0, sizeof c->count);
    for (int i = 0; i < count; i++)
        c->count[length[i]]++;
    c->count[0] = 0;
    for (int i = 1; i <= LONGEST; i++) {
        left = 2 * left - c->count[i];
        if (left < 0)
            return false;
    }
    next[1] = 0;
    for (int i = 1; i < LONGEST; i++)
        next[i + 1] = (uint16_t)(next[i] + c->count[i]);
    for (int i = 0; i < count; i++)
        if (length[i])
            c->symbol[next[length[i]]++] = (uint16_t)i;
    return true;
}

static int decode(stream *s, const code *c)
{
    int value = 0, first = 0, index = 0;
    for (int length = 1; length <= LONGEST; length++) {
        int bit = take(s, 1);
        if (bit < 0)
            return -1;
        value |= bit;
        int count = c->count[length];
        if (value - count < first)
            return c->symbol[index + (value - first)];
        index += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    return -1;
}

static bool stored_block(stream *s)
{
    s->bits = 0;
    s->count = 0;               /* up to the next byte; whole bytes are never taken ahead here */
    if (s->in_end - s->in < 4)
        return false;
    size_t count = s->in[0] | (size_t)s->in[1] << 8, check = s->in[2] | (size_t)s->in[3] << 8;
    s->in += 4;
    if (count != (~check & 0xffff) || count > (size_t)(s->in_end - s->in) || count > (size_t)(s->out_end - s->at))
        return false;
    memcpy(s->at, s->in, count);
    s->in += count;
    s->at += count;
    return true;
}

static bool copy_back(stream *s, int length, int distance)
{
    if (distance > s->at - s->out || length > s->out_end - s->at)
        return false;
    for (; length > 0; length--, s->at++) /* byte by byte: source and target may overlap, that is how runs are told */
        *s->at = s->at[-distance];
    return true;
}

static bool coded_block(stream *s, const code *literals, const code *distances)
{
    static const uint16_t length_base[] = { 3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                            31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const uint8_t length_bits[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                           2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
    static const uint16_t distance_base[] = { 1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                              33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                              1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577 };
    static const uint8_t distance_bits[] = { 0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                             6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13 };
    for (;;) {
        int symbol = decode(s, literals);
        if (symbol < 0)
            return false;
        if (symbol == 256)
            return true;
        if (symbol < 256) {
            if (s->at == s->out_end)
                return false;
            *s->at++ = (uint8_t)symbol;
            continue;
        }
        int k = symbol - 257;
        int more = k < (int)TP_COUNT(length_base) ? take(s, length_bits[k]) : -1;
        int d = more < 0 ? -1 : decode(s, distances);
        int far = d < 0 || d >= (int)TP_COUNT(distance_base) ? -1 : take(s, distance_bits[d]);
        if (far < 0 || !copy_back(s, length_base[k] + more, distance_base[d] + far))
            return false;
    }
}

static bool fixed_block(stream *s)
{
    uint8_t length[LITERALS], five[DISTANCES];
    code literals, distances;
    for (int i = 0; i < LITERALS; i++)
        length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    memset(five, 5, sizeof five);
    return make_code(&literals, length, LITERALS) && make_code(&distances, five, 30) &&
           coded_block(s, &literals, &distances);
}

/* The lengths of both codes, themselves coded: 16 repeats the last, 17 and 18 are runs of zeros. */
static bool read_lengths(stream *s, const code *lengths, uint8_t *length, int count)
{
    for (int i = 0; i < count;) {
        int symbol = decode(s, lengths), run = 1, value = symbol;
        if (symbol < 0 || (symbol == 16 && i == 0))
            return false;
        if (symbol >= 16) {
            static const uint8_t base[] = { 3, 3, 11 }, bits[] = { 2, 3, 7 };
            int more = take(s, bits[symbol - 16]);
            if (more < 0)
                return false;
            run = base[symbol - 16] + more;
            value = symbol == 16 ? length[i - 1] : 0;
        }
        if (run > count - i)
            return false;
        memset(length + i, value, (size_t)run);
        i += run;
    }
    return true;
}

static bool dynamic_block(stream *s)
{
    static const uint8_t order[] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    uint8_t length[LITERALS + DISTANCES] = { 0 };
    code lengths, literals, distances;
    int literal_count = take(s, 5), distance_count = take(s, 5), length_count = take(s, 4);
    if (literal_count < 0 || distance_count < 0 || length_count < 0)
        return false;
    literal_count += 257, distance_count += 1, length_count += 4;
    if (literal_count > 286 || distance_count > 30)
        return false;
    for (int i = 0; i < length_count; i++) {
        int bits = take(s, 3);
        if (bits < 0)
            return false;
        length[order[i]] = (uint8_t)bits;
    }
    if (!make_code(&lengths, length, 19))
        return false;
    memset(length, 0, sizeof length);
    return read_lengths(s, &lengths, length, literal_count + distance_count) &&
           make_code(&literals, length, literal_count) &&
           make_code(&distances, length + literal_count, distance_count) && coded_block(s, &literals, &distances);
}

bool tp_inflate(const void *in, size_t in_count, void *out, size_t out_count)
{
    stream s = {
        .in = in, .in_end = (const uint8_t *)in + in_count, .out = out, .at = out, .out_end = (uint8_t *)out + out_count
    };
    for (;;) {
        int last = take(&s, 1), kind = last < 0 ? -1 : take(&s, 2);
        bool ok = kind == 0 ? stored_block(&s) : kind == 1 ? fixed_block(&s) : kind == 2 ? dynamic_block(&s) : false;
        if (!ok)
            return false;
        if (last)
            return s.at == s.out_end && s.in == s.in_end;
    }
}
