/* memory_plan_test.c - values that live together do not overlap, others share. */
#include "fuse/memory_plan.h"

#include "base/test.h"

TP_TEST(values_share_what_is_free)
{
    tp_plan_row row[] = { { 8, 0, 1, -1 }, { 4, 1, 2, -1 }, { 6, 2, 3, -1 }, { 0, 0, 3, -1 } };
    int64_t total = tp_memory_plan(row, 4, 1);
    TP_NEED(total >= 0);
    TP_EXPECT(total == 12 && row[0].place == 0 && row[1].place == 8 && row[2].place == 0);
    total = tp_memory_plan(row, 4, 16);
    TP_NEED(total >= 0);
    TP_EXPECT(total == 20 && row[1].place == 16);
out:;
}

/* Many rows of pseudo-random lives: no two that meet overlap. */
TP_TEST(no_two_overlap)
{
    enum { COUNT = 60 };
    tp_plan_row row[COUNT];
    uint32_t seed = 1;
    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1664525u + 1013904223u;
        int first = (int)(seed >> 24) % 40;
        row[i] = (tp_plan_row){ (seed >> 8) % 100, first, first + (int)(seed >> 16) % 9, -1 };
    }
    int64_t total = tp_memory_plan(row, COUNT, 4);
    TP_NEED(total >= 0);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            if (row[i].first <= row[j].last && row[j].first <= row[i].last)
                TP_EXPECT(row[i].place + row[i].size <= row[j].place || row[j].place + row[j].size <= row[i].place);
out:;
}

TP_TESTS(TP_SWEPT(values_share_what_is_free), TP_SWEPT(no_two_overlap))
