/* base_test.c - arenas, arrays, maps, texts, errors, blocks and the pool. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/block.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/test.h"
#include "base/text.h"

TP_TEST(arena_hands_out_aligned_memory)
{
    tp_arena a;
    tp_arena_init(&a);
    for (size_t bytes = 1; bytes < 40000; bytes = bytes * 3 + 1) {
        char *p = tp_arena_take(&a, bytes);
        TP_NEED(p);
        TP_EXPECT(((uintptr_t)p & 15) == 0);
        memset(p, 1, bytes);
    }
    TP_EXPECT(!tp_arena_take_array(&a, SIZE_MAX / 2, 4) && a.failed);
    TP_EXPECT(!tp_arena_take(&a, 1));
out:
    tp_arena_fini(&a);
}

TP_TEST(arena_reset_keeps_a_chunk)
{
    tp_arena a;
    tp_arena_init(&a);
    TP_NEED(tp_arena_take(&a, 10000));
    tp_arena_reset(&a);
    void *first = tp_arena_take(&a, 16);
    tp_arena_reset(&a);
    TP_EXPECT(first == tp_arena_take(&a, 16));
out:
    tp_arena_fini(&a);
}

TP_TEST(map_finds_what_was_put)
{
    tp_map m = { 0 };
    uint64_t value;
    for (uint64_t i = 0; i < 1000; i++)
        TP_NEED(tp_map_put(&m, i * i, i));
    for (uint64_t i = 0; i < 1000; i += 2)
        TP_EXPECT(tp_map_remove(&m, i * i));
    for (uint64_t i = 0; i < 1000; i++)
        TP_EXPECT(tp_map_get(&m, i * i, &value) == (i % 2 == 1) && (i % 2 == 0 || value == i));
    TP_EXPECT(m.count == 500 && !tp_map_remove(&m, 4));
out:
    tp_map_fini(&m);
}

TP_TEST(text_map_keeps_its_own_strings)
{
    tp_text_map m = { 0 };
    uint64_t value = 0;
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "name%d", i);
        TP_NEED(tp_text_map_put(&m, key, (uint64_t)i));
    }
    TP_EXPECT(tp_text_map_get(&m, "name77", &value) && value == 77);
    TP_EXPECT(!tp_text_map_get(&m, "name100", &value));
out:
    tp_text_map_fini(&m);
}

TP_TEST(text_map_in_an_arena)
{
    _Alignas(16) char lent[64];
    tp_arena a;
    tp_arena_lend(&a, lent, sizeof lent);
    tp_text_map m = { .arena = &a };
    uint64_t value = 0;
    char key[16];
    TP_EXPECT(tp_arena_take(&a, 20) == lent);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "name%d", i);
        const char *kept = tp_text_map_keep(&m, key, (uint64_t)i);
        TP_NEED(kept);
        TP_EXPECT(kept != key && strcmp(kept, key) == 0 && kept == tp_text_map_keep(&m, key, (uint64_t)i));
    }
    TP_EXPECT(m.count == 100 && tp_text_map_get(&m, "name77", &value) && value == 77);
    TP_EXPECT(!tp_text_map_get(&m, "name100", &value));
out:
    tp_arena_fini(&a);
}

TP_TEST(text_grows)
{
    tp_text t = { 0 };
    for (int i = 0; i < 50; i++)
        tp_text_add(&t, "%d,", i);
    TP_EXPECT(!t.failed && t.length == 140 && strncmp(tp_text_read(&t), "0,1,2,", 6) == 0);
    tp_text_fini(&t);
}

TP_TEST(array_grows)
{
    tp_array(int) a = { 0 };
    for (int i = 0; i < 1000; i++)
        TP_NEED(tp_array_push(&a, i));
    TP_EXPECT(a.count == 1000 && a.item[999] == 999 && tp_array_pop(&a) == 999);
out:
    tp_array_fini(&a);
}

TP_TEST(error_is_kept_until_cleared)
{
    TP_EXPECT(!tp_fail(TP_ERR_VALUE, "%s: %d", "size", 3));
    TP_EXPECT(tp_error_kind() == TP_ERR_VALUE);
    TP_EXPECT_TEXT(tp_error_text(), "size: 3");
    tp_error_clear();
    TP_EXPECT(tp_error_kind() == TP_ERR_NONE);
}

TP_TEST(blocks_are_aligned_and_reused)
{
    for (size_t bytes = 1; bytes < (size_t)9 << 20; bytes = bytes * 5 + 3) {
        char *p = tp_block_new(bytes);
        TP_NEED(p);
        TP_EXPECT(((uintptr_t)p & 63) == 0);
        p[0] = p[bytes - 1] = 1;
        tp_block_free(p, bytes);
        if (bytes >= 65536 && !TP_WATCHED) {
            char *again = tp_block_new(bytes - 5);
            TP_EXPECT(again == p);
            tp_block_free(again, bytes - 5);
        }
    }
    TP_EXPECT(!tp_block_new(SIZE_MAX - 3));
out:
    return;
}

static void add_index(void *work, int64_t index, int64_t count)
{
    (void)count;
    atomic_fetch_add((atomic_llong *)work, index);
}

TP_TEST(pool_runs_every_chunk_once)
{
    atomic_llong sum = 0;
    for (int round = 0; round < 2000; round++)
        tp_pool_run(round % 37, add_index, &sum);
    long long want = 0;
    for (int round = 0; round < 2000; round++)
        want += (round % 37) * (round % 37 - 1) / 2;
    TP_EXPECT(sum == want);
}

static void mark_range(void *work, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++)
        atomic_fetch_add((atomic_int *)work + i, 1);
}

TP_TEST(pool_ranges_cover_every_chunk_once)
{
    enum { MOST = 300 };
    static atomic_int times[MOST];
    int rounds = 0, wrong = 0;
    for (int threads = 1; threads <= 4; threads++) {
        tp_pool_set_threads(threads);
        for (int count = 0; count <= MOST; count += 7, rounds++)
            tp_pool_run_ranges(count, mark_range, times);
    }
    tp_pool_set_threads(0);
    for (int i = 0; i < MOST; i++)
        wrong += times[i] != 4 * (MOST / 7 - i / 7);
    TP_EXPECT(wrong == 0 && rounds == 4 * (MOST / 7 + 1));
}

TP_TEST(pool_survives_fork)
{
    atomic_llong sum = 0;
    tp_pool_set_threads(4);
    tp_pool_run(100, add_index, &sum);
    for (int child = 0; child < 3; child++) {
        pid_t pid = fork();
        if (pid == 0) {
            sum = 0;
            tp_pool_run(100, add_index, &sum);
            _exit(sum == 4950 ? 0 : 1);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        TP_EXPECT(status == 0);
    }
    tp_pool_set_threads(0);
}

TP_TESTS(TP_SWEPT(arena_hands_out_aligned_memory), TP_SWEPT(arena_reset_keeps_a_chunk),
         TP_SWEPT(map_finds_what_was_put), TP_SWEPT(text_map_keeps_its_own_strings), TP_SWEPT(text_map_in_an_arena), TP_SWEPT(text_grows),
         TP_SWEPT(array_grows), TP_SWEPT(error_is_kept_until_cleared), TP_SWEPT(blocks_are_aligned_and_reused),
         TP_SWEPT(pool_runs_every_chunk_once),
         TP_SWEPT(pool_ranges_cover_every_chunk_once), TP_SWEPT(pool_survives_fork))
