/* protobuf.h - the wire format of protocol buffers: enough to write ONNX models and to look into them.
 *
 * Writing appends to a text, field by field. A nested message is opened and closed; its length is put in front when it is
 * closed:
 *     size_t graph = tp_proto_open(out, 7);
 *     tp_proto_put_text(out, 2, "main");
 *     tp_proto_close(out, graph);
 * Numbers are written even when they are zero: presence matters to some readers. Sticky through the text.
 *
 * Reading walks the fields of one message in order; nested ones are readers of their own over the borrowed bytes. */
#ifndef TP_FORMAT_PROTOBUF_H
#define TP_FORMAT_PROTOBUF_H

#include "base/error.h"
#include "base/text.h"

TP_API void tp_proto_put_int(tp_text *out, uint32_t field, int64_t v);          /* int32, int64, enum, bool */
TP_API void tp_proto_put_float(tp_text *out, uint32_t field, float v);
TP_API void tp_proto_put_double(tp_text *out, uint32_t field, double v);
TP_API void tp_proto_put_text(tp_text *out, uint32_t field, const char *text);
TP_API void tp_proto_put_bytes(tp_text *out, uint32_t field, const void *bytes, size_t count);
TP_API void tp_proto_put_ints(tp_text *out, uint32_t field, const int64_t *v, size_t count);    /* packed; none when empty */
TP_API void tp_proto_put_floats(tp_text *out, uint32_t field, const float *v, size_t count);    /* packed; none when empty */
TP_API TP_CHECK size_t tp_proto_open(tp_text *out, uint32_t field);             /* gives what close wants */
TP_API void tp_proto_close(tp_text *out, size_t opened);

typedef enum tp_proto_wire { TP_PROTO_VARINT = 0, TP_PROTO_FIXED64 = 1, TP_PROTO_BYTES = 2, TP_PROTO_FIXED32 = 5 } tp_proto_wire;
typedef struct tp_proto_reader {
    const uint8_t *at, *end;    /* borrowed */
    bool     failed;            /* the message is broken; an error is set */
    uint32_t field;             /* of the field just read */
    uint8_t  wire;              /* tp_proto_wire */
    uint64_t number;            /* VARINT; the bits of FIXED32 and FIXED64 */
    const uint8_t *bytes;       /* BYTES; borrowed */
    size_t   count;
} tp_proto_reader;

TP_API void tp_proto_reader_init(tp_proto_reader *r, const void *bytes, size_t count);
TP_API bool tp_proto_next(tp_proto_reader *r);          /* false: the end, or `failed` */
TP_API void tp_proto_enter(const tp_proto_reader *r, tp_proto_reader *message);     /* the field just read, wire BYTES */
TP_API double tp_proto_double(const tp_proto_reader *r);        /* of a FIXED32 or FIXED64 field */
/* Next number of a packed field that `r` was entered into. */
TP_API bool tp_proto_next_int(tp_proto_reader *r, int64_t *out);
TP_API bool tp_proto_next_float(tp_proto_reader *r, float *out);

#endif
