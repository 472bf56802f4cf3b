/* protobuf.c - fields on the wire: a tag (number and wire type), then a varint, four or eight bytes, or a length and bytes. */
#include "format/protobuf.h"

#include <string.h>

enum { LONGEST_VARINT = 10 };

/* ---- writing ---- */

static size_t varint(uint8_t out[LONGEST_VARINT], uint64_t v)
{
    size_t count = 0;
    for (; v >= 0x80; v >>= 7)
        out[count++] = (uint8_t)(v | 0x80);
    out[count++] = (uint8_t)v;
    return count;
}

static void put_varint(tp_text *out, uint64_t v)
{
    uint8_t byte[LONGEST_VARINT];
    tp_text_put(out, (const char *)byte, varint(byte, v));
}

static void put_tag(tp_text *out, uint32_t field, tp_proto_wire wire)
{
    put_varint(out, (uint64_t)field << 3 | wire);
}

static void put_bits(tp_text *out, uint64_t bits, int count)
{
    char byte[8];
    for (int i = 0; i < count; i++)
        byte[i] = (char)(bits >> 8 * i);
    tp_text_put(out, byte, (size_t)count);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

void tp_proto_put_int(tp_text *out, uint32_t field, int64_t v)
{
    put_tag(out, field, TP_PROTO_VARINT);
    put_varint(out, (uint64_t)v);
}

void tp_proto_put_float(tp_text *out, uint32_t field, float v)
{
    put_tag(out, field, TP_PROTO_FIXED32);
    put_bits(out, float_bits(v), 4);
}

void tp_proto_put_double(tp_text *out, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_tag(out, field, TP_PROTO_FIXED64);
    put_bits(out, bits, 8);
}

void tp_proto_put_bytes(tp_text *out, uint32_t field, const void *bytes, size_t count)
{
    put_tag(out, field, TP_PROTO_BYTES);
    put_varint(out, count);
    if (count)
        tp_text_put(out, bytes, count);
}

void tp_proto_put_text(tp_text *out, uint32_t field, const char *text)
{
    tp_proto_put_bytes(out, field, text, strlen(text));
}

void tp_proto_put_ints(tp_text *out, uint32_t field, const int64_t *v, size_t count)
{
    uint8_t byte[LONGEST_VARINT];
    size_t bytes = 0;
    if (!count)
        return;
    for (size_t i = 0; i < count; i++)
        bytes += varint(byte, (uint64_t)v[i]);
    put_tag(out, field, TP_PROTO_BYTES);
    put_varint(out, bytes);
    for (size_t i = 0; i < count; i++)
        put_varint(out, (uint64_t)v[i]);
}

void tp_proto_put_floats(tp_text *out, uint32_t field, const float *v, size_t count)
{
    if (!count)
        return;
    put_tag(out, field, TP_PROTO_BYTES);
    put_varint(out, (uint64_t)count * 4);
    for (size_t i = 0; i < count; i++)
        put_bits(out, float_bits(v[i]), 4);
}

size_t tp_proto_open(tp_text *out, uint32_t field)
{
    put_tag(out, field, TP_PROTO_BYTES);
    return out->length;
}

/* The length goes in front: the message moves up by the one to ten bytes it takes. */
void tp_proto_close(tp_text *out, size_t opened)
{
    uint8_t byte[LONGEST_VARINT];
    if (out->failed)
        return;
    size_t length = out->length - opened, count = varint(byte, length);
    tp_text_put(out, (const char *)byte, count);
    if (out->failed)
        return;
    memmove(out->at + opened + count, out->at + opened, length);
    memcpy(out->at + opened, byte, count);
}

/* ---- reading ---- */

void tp_proto_reader_init(tp_proto_reader *r, const void *bytes, size_t count)
{
    *r = (tp_proto_reader){ .at = bytes, .end = count ? (const uint8_t *)bytes + count : bytes };
}

static bool fail(tp_proto_reader *r, const char *what)
{
    r->failed = true;
    return tp_fail(TP_ERR_VALUE, "protobuf: %s", what);
}

static bool get_varint(tp_proto_reader *r, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at == r->end)
            return fail(r, "a number is cut off");
        uint8_t byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return fail(r, "a number is too long");
}

static bool get_bits(tp_proto_reader *r, size_t count, uint64_t *out)
{
    if ((size_t)(r->end - r->at) < count)
        return fail(r, "a number is cut off");
    *out = 0;
    for (size_t i = 0; i < count; i++)
        *out |= (uint64_t)*r->at++ << 8 * i;
    return true;
}

bool tp_proto_next(tp_proto_reader *r)
{
    uint64_t tag, count;
    if (r->failed || r->at == r->end || !get_varint(r, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return fail(r, "a field without a number");
    r->field = (uint32_t)(tag >> 3);
    r->wire = tag & 7;
    switch (r->wire) {
    case TP_PROTO_VARINT: return get_varint(r, &r->number);
    case TP_PROTO_FIXED64: return get_bits(r, 8, &r->number);
    case TP_PROTO_FIXED32: return get_bits(r, 4, &r->number);
    case TP_PROTO_BYTES: break;
    default: return fail(r, "a wire type that is not in use");
    }
    if (!get_varint(r, &count))
        return false;
    if (count > (size_t)(r->end - r->at))
        return fail(r, "a field is cut off");
    r->bytes = r->at;
    r->count = (size_t)count;
    r->at += count;
    return true;
}

void tp_proto_enter(const tp_proto_reader *r, tp_proto_reader *message)
{
    tp_proto_reader_init(message, r->bytes, r->wire == TP_PROTO_BYTES ? r->count : 0);
}

double tp_proto_double(const tp_proto_reader *r)
{
    if (r->wire == TP_PROTO_FIXED32) {
        uint32_t bits = (uint32_t)r->number;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    double d;
    memcpy(&d, &r->number, sizeof d);
    return d;
}

bool tp_proto_next_int(tp_proto_reader *r, int64_t *out)
{
    uint64_t bits;
    if (r->failed || r->at == r->end || !get_varint(r, &bits))
        return false;
    *out = (int64_t)bits;
    return true;
}

bool tp_proto_next_float(tp_proto_reader *r, float *out)
{
    uint64_t bits = 0;
    if (r->failed || r->at == r->end || !get_bits(r, 4, &bits))
        return false;
    uint32_t low = (uint32_t)bits;
    memcpy(out, &low, sizeof low);
    return true;
}
