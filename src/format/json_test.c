/* json_test.c - what is read is written back as Python's json module would. */
#include <math.h>

#include "base/test.h"
#include "format/json.h"

/* The text read and written again; NULL: refused. */
static bool again(const char *text, size_t length, tp_text *out)
{
    tp_arena a;
    tp_json_writer w;
    tp_arena_init(&a);
    const tp_json *v = tp_json_read_in(&a, text, length);
    if (v) {
        tp_json_writer_init(&w, out);
        tp_json_put_value(&w, v);
    }
    tp_arena_fini(&a);
    return v && !out->failed;
}

TP_TEST(values_come_back_as_python_prints_them)
{
    static const char *const rows[][2] = {      /* NULL: the same text */
        { "null", NULL }, { "true", NULL }, { " false ", "false" }, { "0", NULL }, { "-0", "0" }, { "-12", NULL },
        { "9223372036854775807", NULL }, { "-9223372036854775808", NULL }, { "9223372036854775808", NULL },
        { "-123456789012345678901234567890", NULL }, { "1.0", NULL }, { "1e2", "100.0" }, { "2.50", "2.5" }, { "1E-7", "1e-07" },
        { "1e16", "1e+16" }, { "123456789012345.6", NULL }, { "0.1", NULL }, { "3.141592653589793", NULL }, { "5e-324", NULL },
        { "1.7976931348623157e+308", NULL }, { "1e999", "Infinity" }, { "-0.0", NULL }, { "0.0001", NULL }, { "0.00001", "1e-05" },
        { "NaN", NULL }, { "Infinity", NULL }, { "-Infinity", NULL }, { "\"\"", NULL }, { "\"a\\\"b\\\\c\\/\"", "\"a\\\"b\\\\c/\"" },
        { "\"\\b\\f\\n\\r\\t\\u0001\\u007f\"", NULL }, { "\"\xc3\xa9\xe2\x82\xac\"", "\"\\u00e9\\u20ac\"" },
        { "\"\xf0\x9f\x94\xa5\"", "\"\\ud83d\\udd25\"" }, { "\"\\ud83d\\udd25\"", NULL }, { "\"\\ud83d\"", NULL }, { "\"\\ud83dx\\u0041\"", "\"\\ud83dxA\"" },
        { "\"\xff\xc3\"", "\"\\ufffd\\ufffd\"" }, { "\"\\u0000x\"", NULL }, { "[]", NULL }, { "{}", NULL }, { "[ 1 ,2,[3 ]]", "[1, 2, [3]]" },
        { "{\"a\":1,\"b\":{\"c\":[null,{}]}}", "{\"a\": 1, \"b\": {\"c\": [null, {}]}}" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text out = { 0 };
        bool ok = again(rows[i][0], strlen(rows[i][0]), &out);
        TP_EXPECT(ok);
        if (ok)
            TP_EXPECT_TEXT(tp_text_read(&out), rows[i][1] ? rows[i][1] : rows[i][0]);
        tp_text_fini(&out);
    }
}

TP_TEST(what_is_no_json_is_refused)
{
    static const char *const rows[] = {
        "",         " ",          "nul",   "tru",   "01",  "+1",   ".5",        "1.",        "1.e5",        "--1",
        "-",        "1e",         "[",     "[1",    "[1,", "[1,]", "]",         "{",         "{\"a\"",      "{\"a\":",
        "{\"a\":1", "{\"a\":1,}", "{a:1}", "{1:2}", "\"",  "\"\\", "\"\\x\"",   "\"\\u12\"", "\"\\u12g4\"", "\"\n\"",
        "1 2",      "[1 2]",      "'a'",   "[1]]",  "Inf", "nan",  "{\"a\" 1}",
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text out = { 0 };
        TP_EXPECT(!again(rows[i], strlen(rows[i]), &out));
        TP_EXPECT(tp_error_kind() == TP_ERR_VALUE || tp_test_quiet);
        tp_text_fini(&out);
    }
    TP_EXPECT_TEXT(tp_error_text(), "JSON: expecting ':' at byte 5");
}

TP_TEST(depth_is_limited)
{
    static char deep[2 * TP_JSON_DEEPEST + 4];
    tp_text out = { 0 };
    memset(deep, '[', TP_JSON_DEEPEST);
    memset(deep + TP_JSON_DEEPEST, ']', TP_JSON_DEEPEST);
    TP_EXPECT(again(deep, 2 * TP_JSON_DEEPEST, &out));
    memset(deep, '[', TP_JSON_DEEPEST + 1);
    memset(deep + TP_JSON_DEEPEST + 1, ']', TP_JSON_DEEPEST + 1);
    TP_EXPECT(!again(deep, 2 * TP_JSON_DEEPEST + 2, &out));
    tp_text_fini(&out);
}

TP_TEST(keys_are_found)
{
    tp_arena a;
    tp_text text = { 0 };
    tp_arena_init(&a);
    for (int count = 1; count <= 100; count += 33) {        /* few: scanned; many: hashed */
        text.length = 0;
        tp_text_add(&text, "{\"again\": 1");
        for (int i = 0; i < count; i++)
            tp_text_add(&text, ", \"k%d\": %d", i, i);
        tp_text_add(&text, ", \"again\": 2}");
        TP_NEED(!text.failed);
        const tp_json *v = tp_json_read_in(&a, text.at, text.length);
        TP_NEED(v);
        for (int i = 0; i < count; i++) {
            char key[8];
            snprintf(key, sizeof key, "k%d", i);
            TP_EXPECT(tp_json_int(tp_json_get(v, key), -1) == i);
        }
        TP_EXPECT(!tp_json_get(v, "k") && !tp_json_get(v, "") && tp_json_int(tp_json_get(v, "again"), 0) == 2);
    }
out:
    tp_text_fini(&text);
    tp_arena_fini(&a);
}

TP_TEST(asking_has_defaults)
{
    tp_arena a;
    tp_arena_init(&a);
    static const char text[] =
        "{\"i\": 3, \"f\": 2.5, \"t\": \"x\", \"l\": [7, 8], \"b\": true, \"inf\": \"-Infinity\", \"nan\": \"NaN\"}";
    const tp_json *v = tp_json_read_in(&a, text, sizeof text - 1);
    TP_NEED(v);
    TP_EXPECT(tp_json_int(tp_json_get(v, "i"), 0) == 3 && tp_json_int(tp_json_get(v, "f"), 9) == 9 &&
              tp_json_int(NULL, 9) == 9);
    TP_EXPECT(tp_json_float(tp_json_get(v, "f"), 0) == 2.5 && tp_json_float(tp_json_get(v, "i"), 0) == 3);
    TP_EXPECT(tp_json_float(tp_json_get(v, "inf"), 0) == -INFINITY && isnan(tp_json_float(tp_json_get(v, "nan"), 0)));
    TP_EXPECT_TEXT(tp_json_text(tp_json_get(v, "t"), ""), "x");
    TP_EXPECT_TEXT(tp_json_text(tp_json_get(v, "no"), "none"), "none");
    TP_EXPECT(tp_json_int(tp_json_at(tp_json_get(v, "l"), 1), 0) == 8 && !tp_json_at(tp_json_get(v, "l"), 2) &&
              !tp_json_at(v, 0));
    TP_EXPECT(tp_json_bool(tp_json_get(v, "b"), false) && tp_json_bool(NULL, true) &&
              tp_json_count(tp_json_get(v, "l")) == 2);
    TP_EXPECT(!tp_json_is(NULL, TP_JSON_NULL) && !tp_json_get(NULL, "x") && !tp_json_get(tp_json_get(v, "l"), "x"));
out:
    tp_arena_fini(&a);
}

TP_TEST(writing_by_hand)
{
    tp_text out = { 0 };
    tp_json_writer w;
    tp_json_writer_init(&w, &out);
    tp_json_open_object(&w);
    tp_json_put_key(&w, "sizes");
    tp_json_open_list(&w);
    tp_json_put_int(&w, -2);
    tp_json_put_float(&w, 1);
    tp_json_put_null(&w);
    tp_json_open_object(&w);
    tp_json_close_object(&w);
    tp_json_close_list(&w);
    tp_json_put_key(&w, "name");
    tp_json_put_word(&w, "p_l.weight\"");
    tp_json_put_key(&w, "ok");
    tp_json_put_bool(&w, true);
    tp_json_close_object(&w);
    if (!out.failed)
        TP_EXPECT_TEXT(tp_text_read(&out),
                       "{\"sizes\": [-2, 1.0, null, {}], \"name\": \"p_l.weight\\\"\", \"ok\": true}");
    tp_text_fini(&out);
}

TP_TESTS(TP_SWEPT(values_come_back_as_python_prints_them), TP_SWEPT(what_is_no_json_is_refused),
         TP_SWEPT(depth_is_limited), TP_SWEPT(keys_are_found), TP_SWEPT(asking_has_defaults),
         TP_SWEPT(writing_by_hand))
