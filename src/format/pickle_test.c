/* pickle_test.c - pickles of Python and PyTorch as trees, and trees as pickles, byte for byte. */
#include "base/map.h"
#include "base/test.h"
#include "format/pickle.h"

#define PICKLE(s) s, sizeof s - 1

/* A tree as text; a node met again is #id. */
static void show(const tp_pickle *v, tp_text *out, tp_map *met);

static void show_items(const tp_pickle *v, const char *begin, const char *end, tp_text *out, tp_map *met)
{
    tp_text_add(out, "%s", begin);
    for (uint32_t i = 0; i < v->count; i++) {
        tp_text_add(out, "%s", i == 0 ? "" : v->kind == TP_PICKLE_DICT && i % 2 ? ": " : ", ");
        show(v->item[i], out, met);
    }
    tp_text_add(out, "%s", end);
}

static void show_steps(const tp_pickle *v, tp_text *out, tp_map *met)
{
    for (const tp_pickle_step *s = v->step; s; s = s->next) {
        tp_text_add(out, "%s",
                    s->act == TP_PICKLE_APPEND  ? "+"
                    : s->act == TP_PICKLE_ADD   ? "|"
                    : s->act == TP_PICKLE_BUILD ? "<"
                                                : "[");
        show(s->a, out, met);
        if (s->act == TP_PICKLE_SET_ITEM) {
            tp_text_add(out, "]=");
            show(s->b, out, met);
        }
    }
}

static void show(const tp_pickle *v, tp_text *out, tp_map *met)
{
    uint64_t known;
    bool shared = v->kind >= TP_PICKLE_LIST && v->kind != TP_PICKLE_GLOBAL;
    if (shared && tp_map_get(met, v->id, &known)) {
        tp_text_add(out, "#%u", v->id);
        return;
    }
    if (shared && !tp_map_put(met, v->id, 1))
        return;
    switch ((tp_pickle_kind)v->kind) {
    case TP_PICKLE_NONE: tp_text_add(out, "None"); break;
    case TP_PICKLE_BOOL: tp_text_add(out, v->truth ? "True" : "False"); break;
    case TP_PICKLE_INT: tp_text_add(out, "%lld", LL(v->integer)); break;
    case TP_PICKLE_BIG:
        tp_text_add(out, "0x");
        for (size_t i = v->length; i-- > 0;)
            tp_text_add(out, "%02x", (uint8_t)v->text[i]);
        break;
    case TP_PICKLE_FLOAT: tp_text_add(out, "%g", v->number); break;
    case TP_PICKLE_TEXT: tp_text_add(out, "'%s'", v->text); break;
    case TP_PICKLE_STRING: tp_text_add(out, "s'%s'", v->text); break;
    case TP_PICKLE_BYTES: tp_text_add(out, "b'%s'", v->text); break;
    case TP_PICKLE_BYTEARRAY: tp_text_add(out, "array'%s'", v->text); break;
    case TP_PICKLE_LIST: show_items(v, "[", "]", out, met); break;
    case TP_PICKLE_TUPLE: show_items(v, "(", ")", out, met); break;
    case TP_PICKLE_SET: show_items(v, "set{", "}", out, met); break;
    case TP_PICKLE_FROZENSET: show_items(v, "frozen{", "}", out, met); break;
    case TP_PICKLE_DICT: show_items(v, "{", "}", out, met); break;
    case TP_PICKLE_GLOBAL: tp_text_add(out, "%s.%s", v->text, v->name); break;
    case TP_PICKLE_CALL: show_items(v, "call(", ")", out, met); break;
    case TP_PICKLE_NEW: show_items(v, "new(", ")", out, met); break;
    case TP_PICKLE_PERSISTENT: show_items(v, "id", "", out, met); break;
    }
    show_steps(v, out, met);
}

static bool read_and_show(const char *bytes, size_t count, tp_text *out)
{
    tp_arena a;
    tp_map met = { 0 };
    tp_pickle_tree tree;
    tp_arena_init(&a);
    bool ok = tp_pickle_read_in(&a, bytes, count, &tree);
    if (ok)
        show(tree.root, out, &met);
    tp_map_fini(&met);
    tp_arena_fini(&a);
    return ok && !out->failed;
}

static const struct row {
    const char *bytes;
    size_t count;
    const char *want;
} readable[] = {
    /* protocol 0, as Python 2 and 3 wrote it */
    { PICKLE("N."), "None" },
    { PICKLE("I01\n."), "True" },
    { PICKLE("I-12\n."), "-12" },
    { PICKLE("L123456789012345678901L\n."), "0x06b14e9f812f366c35" },
    { PICKLE("L-123456789012345678901L\n."), "0xf94eb1607ed0c993cb" },
    { PICKLE("L-9223372036854775808L\n."), "-9223372036854775808" },
    { PICKLE("F2.5\n."), "2.5" },
    { PICKLE("S'a\\n\\'\\x41'\np0\n."), "s'a\n'A'" },
    { PICKLE("Va\\u20ac\xe9\np0\n."), "'a\xe2\x82\xac\xc3\xa9'" },
    { PICKLE("(lp0\nI1\naI2\na."), "[1, 2]" },
    { PICKLE("(dp0\nVk\np1\nI1\ns."), "{'k': 1}" },
    { PICKLE("(I1\nI2\ntp0\n."), "(1, 2)" },
    { PICKLE("(I1\nI2\nl."), "[1, 2]" },
    { PICKLE("cmod\nName\np0\n(I1\ntp1\nRp2\n."), "call(mod.Name, (1))" },
    { PICKLE("(I1\nI2\nimod\nName\np0\n(dp1\nb."), "call(mod.Name, (1, 2))<{}" },
    { PICKLE("(cmod\nName\nI1\nI2\no."), "call(mod.Name, (1, 2))" },
    { PICKLE("Pstorage 1\n."), "id'storage 1'" },
    /* protocol 2 */
    { PICKLE("\x80\x02K\x01."), "1" },
    { PICKLE("\x80\x02M\x00\x01."), "256" },
    { PICKLE("\x80\x02J\xff\xff\xff\xff."), "-1" },
    { PICKLE("\x80\x02\x8a\x00."), "0" },
    { PICKLE("\x80\x02\x8a\x02\xff\x00."), "255" },
    { PICKLE("\x80\x02\x8a\x01\x80."), "-128" },
    { PICKLE("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00@."), "0x400000000000000000" },
    { PICKLE("\x80\x02G@\x04\x00\x00\x00\x00\x00\x00."), "2.5" },
    { PICKLE("\x80\x02U\x02" "ab."), "s'ab'" },
    { PICKLE("\x80\x02]q\x00h\x00" "a."), "[#0]" },
    { PICKLE("\x80\x02]q\x00(K\x01K\x02\x86q\x01h\x01" "e."), "[(1, 2), #3]" },
    { PICKLE("\x80\x02K\x01" "2\x86."), "(1, 1)" },
    { PICKLE("\x80\x02]q\x00K\x01" "0."), "[]" },
    { PICKLE("\x80\x02](K\x01K\x02" "1."), "[]" },
    { PICKLE("\x80\x02](0."), "[]" },
    { PICKLE("\x80\x02" "ccollections\nOrderedDict\nq\x00)Rq\x01(K\x01NK\x02Nu}q\x02K\x03Nsb."),
      "call(collections.OrderedDict, ())[1]=None[2]=None<{3: None}" },
    { PICKLE("\x80\x02" "cm\nC\n)\x81K\x01" "a(K\x02K\x03" "e."), "new(m.C, ())+1+2+3" },
    { PICKLE("\x80\x02(X\x01\x00\x00\x00sK\x01tQ."), "id('s', 1)" },
    /* protocols 3 to 5 */
    { PICKLE("\x80\x03" "C\x02" "ab."), "b'ab'" },
    { PICKLE("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02" "ab."), "'ab'" },
    { PICKLE("\x80\x04\x8c\x01m\x94\x8c\x01n\x94\x93\x94)}\x92\x94."), "new(m.n, (), {})" },
    { PICKLE("\x80\x04]\x94(K\x01h\x00" "e."), "[1, #0]" },
    { PICKLE("\x80\x04\x8f(K\x01\x90."), "set{1}" },
    { PICKLE("\x80\x04(K\x01K\x02\x91."), "frozen{1, 2}" },
    { PICKLE("\x80\x05\x96\x02\x00\x00\x00\x00\x00\x00\x00xy."), "array'xy'" },
};

TP_TEST(all_protocols_are_read)
{
    for (size_t i = 0; i < TP_COUNT(readable); i++) {
        tp_text out = { 0 };
        bool ok = read_and_show(readable[i].bytes, readable[i].count, &out);
        TP_EXPECT(ok);
        if (ok)
            TP_EXPECT_TEXT(tp_text_read(&out), readable[i].want);
        tp_text_fini(&out);
    }
}

TP_TEST(broken_pickles_are_refused)
{
    static const struct row rows[] = {
        { PICKLE(""), "truncated" }, { PICKLE("\x80\x02"), "truncated" }, { PICKLE("."), "underflow" }, { PICKLE("K"), "truncated" },
        { PICKLE("X\xff\xff\xff\xff" "a."), "truncated" }, { PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "truncated" },
        { PICKLE("\x80\x02garb"), "truncated" }, { PICKLE("\x82\x01."), "Unsupported operand 130" }, { PICKLE("h\x05."), "Memo value not found at index 5" },
        { PICKLE("t."), "could not find MARK" }, { PICKLE("e."), "could not find MARK" }, { PICKLE("K\x01K\x02s."), "underflow" },
        { PICKLE("K\x01K\x02R."), "expected an arg tuple" }, { PICKLE("R."), "underflow" }, { PICKLE("K\x01(K\x02" "R."), "underflow" },
        { PICKLE("}(K\x01u."), "odd number" }, { PICKLE("(K\x01" "d."), "odd number" }, { PICKLE(")K\x01" "a."), "Can only append to lists, but got <class 'tuple'>" },
        { PICKLE("K\x01K\x02K\x03s."), "Can only set items" }, { PICKLE("]}b."), "Can only build" }, { PICKLE("K\x01K\x02\x93."), "STACK_GLOBAL" },
        { PICKLE("\x80\x06N."), "unsupported pickle protocol: 6" }, { PICKLE("S'a\n."), "quoted" }, { PICKLE("Ix\n."), "invalid integer" },
        { PICKLE("\x95\xff\x00\x00\x00\x00\x00\x00\x00N."), "truncated" }, { PICKLE("F1.x\n."), "could not convert" }, { PICKLE("g-1\n."), "memo index" },
        { PICKLE("V\\u12\n."), "escape" }, { PICKLE("q\x01."), "underflow" }, { PICKLE("2."), "underflow" }, { PICKLE("(o."), "underflow" },
        { PICKLE("\x97."), "Unsupported operand 151" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_text out = { 0 };
        TP_EXPECT(!read_and_show(rows[i].bytes, rows[i].count, &out));
        if (!strstr(tp_error_text(), rows[i].want))
            TP_EXPECT_TEXT(tp_error_text(), rows[i].want);
        tp_text_fini(&out);
    }
}

/* Pickles as torch.save of PyTorch 2.13 and Python's pickler wrote them: read and written back they are the same bytes. */
TP_TEST(protocol_2_comes_back_byte_for_byte)
{
    static const struct row rows[] = {
        { PICKLE("\x80\x02"
                 "ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01"
                 "ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x00"
                 "0q\x03"
                 "X\x03\x00\x00\x00"
                 "cpuq\x04K\x06tq\x05QK\x00K\x02K\x03\x86q\x06K\x03K\x01\x86q\x07\x89"
                 "ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b."),
          "" },
        { PICKLE("\x80\x02"
                 "ccollections\nOrderedDict\nq\x00)Rq\x01(X\x06\x00\x00\x00weightq\x02NX\x04\x00\x00\x00"
                 "biasq\x03Nu}q\x04X\t\x00\x00\x00_metadataq\x05"
                 "h\x00)Rq\x06X\x00\x00\x00\x00q\x07}q\x08X\x07\x00\x00\x00versionq\tK\x01sssb."),
          "" },
        { PICKLE("\x80\x02]q\x00("
                 "\x8a\x06\x00\x00\x00\x00\x00\x01J\xff\xff\xff\x7fJ\xff\xff\xff\xffM\x00\x01J\x00\x00\x01\x00J\x00\x00"
                 "\x00\x80"
                 "\x8a\t\x00\x00\x00\x00\x00\x00\x00\x00@G~7\xe4<\x88\x00u\x9c)K\x01\x85q\x01("
                 "K\x01K\x02K\x03K\x04tq\x02]q\x03}q\x04}q\x05K\x01K\x02s\x88N"
                 "X\x01\x00\x00\x00"
                 "aq\x06h\x06"
                 "e."),
          "" },
        { PICKLE("\x80\x02]q\x00h\x00"
                 "a."),
          "" },
        { PICKLE("\x80\x02"
                 "c__builtin__\nset\nq\x00]q\x01(K\x01K\x02"
                 "e\x85q\x02Rq\x03."),
          "" },
        { PICKLE("\x80\x02"
                 "cm\nC\nq\x00)\x81q\x01}q\x02X\x01\x00\x00\x00xq\x03h\x01sb."),
          "" },
    };
    for (size_t i = 0; i < TP_COUNT(rows); i++) {
        tp_arena a;
        tp_text out = { 0 };
        tp_pickle_tree tree;
        tp_arena_init(&a);
        bool ok = tp_pickle_read_in(&a, rows[i].bytes, rows[i].count, &tree) && tp_pickle_write(tree.root, &out);
        TP_EXPECT(ok);
        TP_EXPECT(!ok || (out.length == rows[i].count && memcmp(out.at, rows[i].bytes, out.length) == 0));
        TP_EXPECT(!ok || (tree.used == rows[i].count && tree.protocol == 2));
        tp_text_fini(&out);
        tp_arena_fini(&a);
    }
}

TP_TEST(trees_are_made_by_hand)
{
    /* What Python gives for [b'xy\xe9', {1}, ('a', 2.5)] + list(range(1001)), up to the second batch. */
    static const char want[] =
        "\x80\x02]q\x00("
        "c_codecs\nencode\nq\x01X\x04\x00\x00\x00xy\xc3\xa9q\x02X\x06\x00\x00\x00latin1q\x03\x86q\x04Rq\x05"
        "c__builtin__\nset\nq\x06]q\x07K\x01"
        "a\x85q\x08Rq\tX\x01\x00\x00\x00"
        "aq\nG@\x04\x00\x00\x00\x00\x00\x00\x86q\x0bK\x00K\x01K\x02";
    tp_arena a;
    tp_text out = { 0 };
    tp_arena_init(&a);
    tp_pickle *list = tp_pickle_empty_in(&a, TP_PICKLE_LIST), *set = tp_pickle_empty_in(&a, TP_PICKLE_SET);
    TP_NEED(list && set);
    TP_NEED(tp_pickle_append(&a, list, tp_pickle_bytes_in(&a, "xy\xe9", 3)));
    TP_NEED(tp_pickle_append(&a, set, tp_pickle_int_in(&a, 1)) && tp_pickle_append(&a, list, set));
    TP_NEED(tp_pickle_append(
        &a, list,
        tp_pickle_tuple_in(&a, 2, (tp_pickle *[]){ tp_pickle_text_in(&a, "a"), tp_pickle_float_in(&a, 2.5) })));
    for (int i = 0; i < 1001; i++)
        TP_NEED(tp_pickle_append(&a, list, tp_pickle_int_in(&a, i)));
    TP_NEED(tp_pickle_write(list, &out));
    TP_EXPECT(memcmp(out.at, want, sizeof want - 1) == 0);
    static const char tail[] = "M\xe4\x03"
                               "e(M\xe5\x03M\xe6\x03M\xe7\x03M\xe8\x03"
                               "e."; /* 996 items and three others make a batch */
    TP_EXPECT(memcmp(out.at + out.length - (sizeof tail - 1), tail, sizeof tail - 1) == 0);
out:
    tp_text_fini(&out);
    tp_arena_fini(&a);
}

TP_TEST(objects_are_made_by_hand)
{
    tp_arena a;
    tp_text out = { 0 };
    tp_arena_init(&a);
    tp_pickle *ordered = tp_pickle_global_in(&a, "collections", "OrderedDict"),
              *empty = tp_pickle_tuple_in(&a, 0, NULL);
    tp_pickle *dict = tp_pickle_call_in(&a, ordered, empty), *state = tp_pickle_empty_in(&a, TP_PICKLE_DICT);
    TP_NEED(dict && state);
    TP_NEED(
        tp_pickle_set(&a, dict, tp_pickle_text_in(&a, "k"), tp_pickle_persistent_in(&a, tp_pickle_bool_in(&a, true))));
    TP_NEED(tp_pickle_set(&a, state, tp_pickle_int_in(&a, -1), tp_pickle_none_in(&a)) &&
            tp_pickle_build(&a, dict, state));
    TP_NEED(tp_pickle_write(dict, &out));
    static const char want[] =
        "\x80\x02"
        "ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\x00\x00\x00kq\x02\x88Qs}q\x03J\xff\xff\xff\xffNsb.";
    TP_EXPECT(out.length == sizeof want - 1 && memcmp(out.at, want, out.length) == 0);
    TP_EXPECT(tp_pickle_is_global(ordered, "collections", "OrderedDict") &&
              !tp_pickle_is_global(dict, "collections", "OrderedDict"));
out:
    tp_text_fini(&out);
    tp_arena_fini(&a);
}

TP_TEST(deep_trees_are_refused_not_followed)
{
    static char deep[40000];
    tp_arena a;
    tp_text out = { 0 };
    tp_pickle_tree tree;
    tp_arena_init(&a);
    memset(deep, ']', 20000);
    memset(deep + 20000, 'a', 19999);
    deep[39999] = '.';
    TP_NEED(tp_pickle_read_in(&a, deep, sizeof deep, &tree));
    TP_EXPECT(!tp_pickle_write(tree.root, &out) && tp_error_kind() == TP_ERR_VALUE);
out:
    tp_text_fini(&out);
    tp_arena_fini(&a);
}

TP_TEST(globals_are_listed_and_renamed)
{
    static const char bytes[] = "\x80\x02"
                                "ctaper._utils\nf\nq\x00"
                                "ctaper\nT\nq\x01\x86"
                                "ctaperx\nT\n\x86X\x05\x00\x00\x00taper\x86.rest";
    static const char want[] = "\x80\x02"
                               "ctorch._utils\nf\nq\x00"
                               "ctorch\nT\nq\x01\x86"
                               "ctaperx\nT\n\x86X\x05\x00\x00\x00taper\x86.";
    tp_arena a;
    tp_text out = { 0 };
    tp_pickle_tree tree;
    tp_arena_init(&a);
    TP_NEED(tp_pickle_read_in(&a, bytes, sizeof bytes - 1, &tree));
    TP_EXPECT(tree.global_count == 3 && tree.used == sizeof bytes - 5 &&
              tp_pickle_is_global(tree.global[1], "taper", "T"));
    TP_NEED(tp_pickle_rename(bytes, sizeof bytes - 1, "taper", "torch", &out));
    TP_EXPECT(out.length == sizeof want - 1 && memcmp(out.at, want, out.length) == 0);
    TP_EXPECT(!tp_pickle_rename("\x80\x04\x93.", 4, "taper", "torch", &out) && tp_error_kind() == TP_ERR_UNIMPLEMENTED);
    TP_EXPECT(!tp_pickle_rename("\x80\x02" "cx\n", 5, "taper", "torch", &out));
out:
    tp_text_fini(&out);
    tp_arena_fini(&a);
}

TP_TESTS(TP_SWEPT(all_protocols_are_read), TP_SWEPT(broken_pickles_are_refused),
         TP_SWEPT(protocol_2_comes_back_byte_for_byte), TP_SWEPT(trees_are_made_by_hand),
         TP_SWEPT(objects_are_made_by_hand), TP_SWEPT(deep_trees_are_refused_not_followed),
         TP_SWEPT(globals_are_listed_and_renamed))
