/* json_fuzz.c - broken JSON: each text is read or refused, and what was read is written so that it reads again. */
#include "base/fuzz.h"
#include "format/json.h"

static const char *const seeds[] = {
    "{\"graph\": {\"inputs\": [{\"as_tensor\": {\"name\": \"x\"}}], \"n\": null, \"t\": true}, \"v\": -12.5e3}",
    "[0.1, 1e16, -0, NaN, -Infinity, 123456789012345678901234567890, \"\\ud83d\\udd25\\n\\u0000\", \"\xc3\xa9\"]",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10,\"a\":11}",
};

static void one_input(const char *text, size_t length)
{
    tp_arena a;
    tp_text out = { 0 };
    tp_json_writer w;
    tp_arena_init(&a);
    const tp_json *v = tp_json_read_in(&a, text, length);
    if (v) {
        tp_json_writer_init(&w, &out);
        tp_json_put_value(&w, v);
        if (!tp_json_read_in(&a, tp_text_read(&out), out.length))
            abort();
    }
    tp_text_fini(&out);
    tp_arena_fini(&a);
}

TP_FUZZ_MAIN(seeds, one_input)
