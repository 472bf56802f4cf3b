/* generator_test.c - words, uniform and serial normal numbers against PyTorch's; states that travel. */
#include "base/alloc.h"
#include "base/test.h"
#include "tensor/generator.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static uint64_t bits64(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

TP_TEST(uniform_numbers_are_torchs)
{
    static const struct { uint64_t seed; uint32_t f32[5]; uint64_t f64[2]; } row[] = {
        { 0, { 0x3efe1558, 0x3f44aa2f, 0x3db533a8, 0x3e073300, 0x3e9d6686 }, { 0x3fef0aac97c4aa2f, 0x3fe6a675d821ccc0 } },
        { 1, { 0x3f41f425, 0x3e8f01d6, 0x3ece5f18, 0x3f3c1448, 0x3cefdfe0 }, { 0x3faf425ff4780eb0, 0x3fccbe33baf05120 } },
        { 42, { 0x3f61dc66, 0x3f6a3db3, 0x3ec406b8, 0x3f75950e, 0x3ec7e8d4 }, { 0x3fadc66cbea3db30, 0x3fb01ae177aca870 } },
    };
    tp_generator *g = tp_generator_new(0);
    TP_NEED(g);
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        float x[5];
        double y[2];
        tp_generator_set_seed(g, row[r].seed);
        tp_draw_u24s(g, 5, x);
        for (int i = 0; i < 5; i++)
            TP_EXPECT(bits(x[i]) == row[r].f32[i]);
        tp_generator_set_seed(g, row[r].seed | 7ull << 32);         /* the upper half of a seed does not matter */
        tp_draw_u53s(g, 2, y);
        for (int i = 0; i < 2; i++)
            TP_EXPECT(bits64(y[i]) == row[r].f64[i]);
        TP_EXPECT(tp_generator_initial_seed(g) == (row[r].seed | 7ull << 32));
    }
out:
    tp_generator_unref(g);
}

TP_TEST(normal_numbers_come_in_pairs)
{
    static const uint64_t want[] = { 0x3ff8a7eb8902be3a, 0xbfd2c78a087c6fea, 0xc0016e2920a70ee5, 0x3fe23096ca3e350d, 0xbff15a341987e136 };
    uint8_t state[TP_GENERATOR_STATE_BYTES];
    tp_generator *g = tp_generator_new(0), *other = tp_generator_new(5);
    TP_NEED(g && other);
    for (size_t i = 0; i < TP_COUNT(want); i++)
        TP_EXPECT(bits64(tp_draw_normal(g)) == want[i]);
    tp_generator_get_state(g, state);                               /* with a waiting normal */
    TP_EXPECT(tp_generator_set_state(other, state, sizeof state));
    for (int i = 0; i < 2000; i++)
        TP_EXPECT(bits64(tp_draw_normal(g)) == bits64(tp_draw_normal(other)));
    TP_EXPECT(!tp_generator_set_state(g, state, 10));
    TP_EXPECT_TEXT(tp_error_text(), "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 10");
    memset(state, 0, sizeof state);
    TP_EXPECT(!tp_generator_set_state(g, state, sizeof state));
    TP_EXPECT_TEXT(tp_error_text(), "Invalid mt19937 state");
out:
    tp_generator_unref(g);
    tp_generator_unref(other);
}

TP_TEST(many_at_once_are_the_same_words)
{
    uint32_t many[3000];
    tp_generator *one = tp_generator_new(9), *all = tp_generator_new(9);
    TP_NEED(one && all);
    (void)tp_draw_w32(one);
    tp_draw_words(all, 1, many);
    for (int64_t n = 1; n < 3000; n = n * 3 + 1) {
        tp_draw_words(all, n, many);
        for (int64_t i = 0; i < n; i++)
            TP_EXPECT(many[i] == tp_draw_w32(one));
        TP_EXPECT(one->left == all->left && one->next == all->next);
    }
out:
    tp_generator_unref(one);
    tp_generator_unref(all);
}

TP_TEST(default_is_made_once)
{
    tp_generator *g = tp_generator_default();
    TP_NEED(g);
    TP_EXPECT(g == tp_generator_default());
out:
    tp_generator_drop_default();
}

TP_TESTS(TP_SWEPT(uniform_numbers_are_torchs), TP_SWEPT(normal_numbers_come_in_pairs),
         TP_SWEPT(many_at_once_are_the_same_words), TP_SWEPT(default_is_made_once))
