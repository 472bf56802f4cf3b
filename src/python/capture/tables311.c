/* tables311.c - line table and exception table of CPython 3.11.
 *
 * A location is a head byte 1kkkklll (kind k, length l + 1 units) and what the kind says:
 *
 *     0 … 9     same line, columns below 80 and a span below 16       one byte
 *     10 … 12   0, 1 or 2 lines on, columns below 128                 two bytes
 *     13        line, no columns                                      signed varint
 *     14        everything                                            signed varint, three varints
 *     15        nothing known
 *
 * Its varints have six bits a byte, lowest first. An exception entry is four varints, highest bits first, the first
 * byte of an entry marked by its top bit: start, length, target, depth * 2 + lasti. */
#include "base/error.h"
#include "python/capture/tables311.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

enum { MOST_LINES = 1 << 29 };

typedef struct cursor {
    const uint8_t *at, *end;
    bool failed;                    /* sticky: past the end, or a number that does not fit */
} cursor;

static uint32_t read_byte(cursor *c)
{
    if (c->at < c->end)
        return *c->at++;
    c->failed = true;
    return 0;
}

static int32_t read_low_first(cursor *c)
{
    uint32_t byte = read_byte(c), value = byte & 63;
    for (int shift = 6; byte & 64; shift += 6) {
        byte = read_byte(c);
        if (shift > 24) {
            c->failed = true;
            return 0;
        }
        value |= (byte & 63) << shift;
    }
    return (int32_t)value;
}

static int32_t read_signed(cursor *c)
{
    int32_t value = read_low_first(c);
    return value & 1 ? -(value >> 1) : value >> 1;
}

static int32_t read_high_first(cursor *c)
{
    uint32_t byte = read_byte(c), value = byte & 63;
    while (byte & 64) {
        byte = read_byte(c);
        if (value >> 24) {
            c->failed = true;
            return 0;
        }
        value = value << 6 | (byte & 63);
    }
    return (int32_t)value;
}

/* Lines of a hostile table may run away; a step has 29 bits, so that it is a varint of five bytes. */
static void move_line(cursor *c, int32_t *line, int32_t by)
{
    int64_t to = (int64_t)*line + by;
    if (to > MOST_LINES || to < -MOST_LINES)
        c->failed = true;
    else
        *line = (int32_t)to;
}

static tp_position read_position(cursor *c, uint32_t kind, int32_t *line)
{
    tp_position p = { -1, -1, -1, -1 };
    uint32_t byte;
    switch (kind) {
    case 15: return p;
    case 14:
        move_line(c, line, read_signed(c));
        p.line = p.end_line = *line;
        move_line(c, &p.end_line, read_low_first(c));
        p.column = read_low_first(c) - 1;
        p.end_column = read_low_first(c) - 1;
        return p;
    case 13:
        move_line(c, line, read_signed(c));
        p.line = p.end_line = *line;
        return p;
    case 12:
    case 11:
    case 10:
        move_line(c, line, (int32_t)kind - 10);
        p.line = p.end_line = *line;
        p.column = (int32_t)read_byte(c);
        p.end_column = (int32_t)read_byte(c);
        return p;
    default:
        byte = read_byte(c);
        p.line = p.end_line = *line;
        p.column = (int32_t)(kind << 3 | byte >> 4);
        p.end_column = p.column + (int32_t)(byte & 15);
        return p;
    }
}

bool tp_positions_read(const uint8_t *at, size_t bytes, int32_t first_line, tp_position *unit, int32_t units)
{
    cursor c = { .at = at, .end = at + bytes };
    int32_t line = first_line, u = 0;
    while (c.at < c.end && !c.failed) {
        uint32_t head = read_byte(&c);
        if (!(head & 128))
            c.failed = true;
        tp_position p = read_position(&c, head >> 3 & 15, &line);
        for (uint32_t n = (head & 7) + 1; n && u < units; n--)
            unit[u++] = p;
    }
    while (u < units)               /* a table that ends early, or is empty, says nothing of the rest */
        unit[u++] = (tp_position){ -1, -1, -1, -1 };
    return !c.failed || tp_fail(TP_ERR_VALUE, "the line table of the code is malformed");
}

bool tp_handlers_read(const uint8_t *at, size_t bytes, tp_handler *unit, int32_t units)
{
    cursor c = { .at = at, .end = at + bytes };
    for (int32_t u = 0; u < units; u++)
        unit[u] = (tp_handler){ .target = -1 };
    for (int32_t last = 0; c.at < c.end;) {     /* entries stand in order and do not overlap: CPython relies on it */
        bool begins = *c.at & 128;
        int32_t start = read_high_first(&c), length = read_high_first(&c);
        int32_t target = read_high_first(&c), depth = read_high_first(&c);
        if (!begins || c.failed || start < last || start > units || length > units - start || target >= units)
            return tp_fail(TP_ERR_VALUE, "the exception table of the code is malformed");
        last = start + length;
        for (int32_t u = start; u < last; u++)
            unit[u] = (tp_handler){ .target = target, .depth = depth >> 1, .lasti = depth & 1 };
    }
    return true;
}

/* ---- writing ---- */
static bool put(tp_byte_array *out, uint32_t byte)
{
    return tp_array_push(out, (uint8_t)byte);
}

static bool put_low_first(tp_byte_array *out, uint32_t value)
{
    for (; value >= 64; value >>= 6)
        if (!put(out, 64 | (value & 63)))
            return false;
    return put(out, value);
}

static bool put_signed(tp_byte_array *out, int32_t value)
{
    return put_low_first(out, value < 0 ? (uint32_t)-value << 1 | 1 : (uint32_t)value << 1);
}

static bool put_high_first(tp_byte_array *out, uint32_t value, uint32_t mark)
{
    int shift = 0;
    while (value >> shift >= 64)
        shift += 6;
    for (; shift; shift -= 6, mark = 0)
        if (!put(out, mark | 64 | (value >> shift & 63)))
            return false;
    return put(out, mark | (value & 63));
}

static bool put_position(tp_byte_array *out, tp_position p, uint32_t units, int32_t *line)
{
    uint32_t length = units - 1;
    if (p.line < 0)
        return put(out, 128 | 15 << 3 | length);
    int64_t away = (int64_t)p.line - *line;
    if (away > MOST_LINES || away < -MOST_LINES)
        return put(out, 128 | 15 << 3 | length);
    int32_t on = (int32_t)away, c = p.column, e = p.end_column;
    *line = p.line;
    if (c < 0 || e < 0 || p.end_line < p.line)
        return put(out, 128 | 13 << 3 | length) && put_signed(out, on);
    bool one_line = p.end_line == p.line;
    if (one_line && on == 0 && c < 80 && e >= c && e - c < 16)
        return put(out, 128 | (uint32_t)(c >> 3) << 3 | length) && put(out, (uint32_t)((c & 7) << 4 | (e - c)));
    if (one_line && on >= 0 && on < 3 && c < 128 && e < 128)
        return put(out, 128 | (uint32_t)(10 + on) << 3 | length) && put(out, (uint32_t)c) && put(out, (uint32_t)e);
    return put(out, 128 | 14 << 3 | length) && put_signed(out, on) &&
           put_low_first(out, (uint32_t)(p.end_line - p.line)) && put_low_first(out, (uint32_t)c + 1) &&
           put_low_first(out, (uint32_t)e + 1);
}

bool tp_position_write(tp_byte_array *out, tp_position p, int32_t units, int32_t *line)
{
    for (; units > 0; units -= 8)
        if (!put_position(out, p, units < 8 ? (uint32_t)units : 8, line))
            return false;
    return true;
}

bool tp_handler_write(tp_byte_array *out, int32_t start, int32_t units, tp_handler h)
{
    return put_high_first(out, (uint32_t)start, 128) && put_high_first(out, (uint32_t)units, 0) &&
           put_high_first(out, (uint32_t)h.target, 0) && put_high_first(out, (uint32_t)h.depth << 1 | h.lasti, 0);
}

#endif
