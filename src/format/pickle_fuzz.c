/* pickle_fuzz.c - broken pickles: each is read or refused; what was read is written, and then reads again. */
#include "format/fuzz_bytes.h"
#include "format/pickle.h"

static const char *const seeds[] = {
    "~80~02ctorch._utils\n_rebuild_tensor_v2\nq~00((X~07~00~00~00storageq~01ctorch\nFloatStorage\nq~02X~01~00~00~000q~"
    "03X~03~00~00~00cpu"
    "q~04K~06tq~05QK~00K~02K~03~86q~06~89ccollections\nOrderedDict\nq~08)Rq~09tq~0aRq~0b.",
    "~80~04~95~20~00~00~00~00~00~00~00}~94(~8c~01a~94~8c~01m~94~8c~01n~94~93~94)~81~94}b~8f(K~01~90h~00C~02xyu.",
    "(lp0\nI01\naL-123456789012L\naF2.5\naS'a\\x41'\naVx\\u20ac\na(I1\nimod\nName\nag0\na.",
    "~80~02](~8a~09~00~00~00~00~00~00~00~00@G~40~04~00~00~00~00~00~00U~02abNK~012]q~05h~05aePx\n0~88.",
};

static void one_input(const char *text, size_t length)
{
    uint8_t bytes[TP_FUZZ_LONGEST];
    tp_arena a;
    tp_text out = { 0 };
    tp_pickle_tree tree, again;
    size_t count = tp_fuzz_bytes(text, length, bytes);
    tp_arena_init(&a);
    if (tp_pickle_read_in(&a, bytes, count, &tree) && tp_pickle_write(tree.root, &out) &&
        !tp_pickle_read_in(&a, out.at, out.length, &again))
        abort();
    tp_text_fini(&out);
    tp_text renamed = { 0 };
    if (tp_pickle_rename(bytes, count, "torch", "t", &renamed) && renamed.length > count)
        abort();
    tp_text_fini(&renamed);
    tp_arena_fini(&a);
}

TP_FUZZ_MAIN(seeds, one_input)
