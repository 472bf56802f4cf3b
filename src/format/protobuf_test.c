/* protobuf_test.c - fields on the wire, to the byte, and back. */
#include "base/test.h"
#include "format/protobuf.h"

TP_TEST(fields_are_written_to_the_byte)
{
    tp_text out = { 0 };
    tp_proto_put_int(&out, 1, 150);
    tp_proto_put_text(&out, 2, "testing");
    size_t message = tp_proto_open(&out, 3);
    tp_proto_put_int(&out, 1, 150);
    tp_proto_close(&out, message);
    tp_proto_put_ints(&out, 6, (int64_t[]){ 3, 270, 86942 }, 3);
    tp_proto_put_float(&out, 16, 1);
    tp_proto_put_int(&out, 1, -1);
    static const char want[] = "\x08\x96\x01"
                               "\x12\x07testing"
                               "\x1a\x03\x08\x96\x01"
                               "\x32\x06\x03\x8e\x02\x9e\xa7\x05"
                               "\x85\x01\x00\x00\x80\x3f"
                               "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    if (!out.failed)
        TP_EXPECT(out.length == sizeof want - 1 && memcmp(out.at, want, out.length) == 0);
    tp_text_fini(&out);
}

TP_TEST(what_is_written_reads_back)
{
    tp_text out = { 0 };
    tp_proto_reader r, inner;
    int64_t number;
    float f;
    size_t outer = tp_proto_open(&out, 7), nested = tp_proto_open(&out, 1);
    char big[300];
    memset(big, 'x', sizeof big);
    tp_proto_put_bytes(&out, 9, big, sizeof big);
    tp_proto_close(&out, nested);
    tp_proto_put_double(&out, 2, -0.5);
    tp_proto_put_floats(&out, 4, (float[]){ 1.5f, -2 }, 2);
    tp_proto_put_ints(&out, 5, NULL, 0);
    tp_proto_close(&out, outer);
    TP_NEED(!out.failed);
    tp_proto_reader_init(&r, out.at, out.length);
    TP_EXPECT(tp_proto_next(&r) && r.field == 7 && r.wire == TP_PROTO_BYTES);
    tp_proto_enter(&r, &inner);
    TP_EXPECT(!tp_proto_next(&r) && !r.failed);
    TP_EXPECT(tp_proto_next(&inner) && inner.field == 1);
    tp_proto_enter(&inner, &r);
    TP_EXPECT(tp_proto_next(&r) && r.field == 9 && r.count == 300 && r.bytes[299] == 'x' && !tp_proto_next(&r));
    TP_EXPECT(tp_proto_next(&inner) && inner.wire == TP_PROTO_FIXED64 && tp_proto_double(&inner) == -0.5);
    TP_EXPECT(tp_proto_next(&inner) && inner.field == 4);
    tp_proto_enter(&inner, &r);
    TP_EXPECT(tp_proto_next_float(&r, &f) && f == 1.5f && tp_proto_next_float(&r, &f) && f == -2 &&
              !tp_proto_next_float(&r, &f) && !r.failed);
    TP_EXPECT(!tp_proto_next(&inner) && !inner.failed);
    tp_proto_reader_init(&r, "\x96\x01\x05", 3);
    TP_EXPECT(tp_proto_next_int(&r, &number) && number == 150 && tp_proto_next_int(&r, &number) && number == 5 &&
              !tp_proto_next_int(&r, &number));
out:
    tp_text_fini(&out);
}

TP_TEST(broken_messages_are_refused)
{
    static const struct {
        const char *bytes;
        size_t count;
    } rows[] = { { "\x08", 1 }, { "\x08\x96", 2 }, { "\x12\x07test", 6 }, { "\x0d\0\0\0", 4 }, { "\x09\0\0\0\0\0\0\0", 8 }, { "\x0b", 1 },
                 { "\x00\x01", 2 }, { "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 }, { "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11 } };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_proto_reader r;
        tp_proto_reader_init(&r, rows[i].bytes, rows[i].count);
        TP_EXPECT(!tp_proto_next(&r) && r.failed && tp_error_kind() == TP_ERR_VALUE);
        TP_EXPECT(!tp_proto_next(&r));
    }
}

TP_TESTS(TP_SWEPT(fields_are_written_to_the_byte), TP_SWEPT(what_is_written_reads_back),
         TP_SWEPT(broken_messages_are_refused))
