/* promote_test.c - the common type of operands for all pairs of types, as PyTorch has it, and broadcasting. */
#include "base/test.h"
#include "ops/promote.h"

enum { KINDS = 12 };

/* Rows and columns of the tables below: b8 u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128, one letter each. */
static const tp_dtype column[KINDS] = { TP_b8, TP_u8, TP_i8, TP_i16, TP_i32, TP_i64, TP_f16, TP_bf16, TP_f32, TP_f64, TP_c64, TP_c128 };
static const char names[] = "Bucsilhbfdzw";

/* torch.promote_types; also result_type of two tensors that both have dims, or both have none. */
static const char promoted[KINDS][KINDS + 1] = {
    "Bucsilhbfdzw", "uussilhbfdzw", "cscsilhbfdzw", "ssssilhbfdzw", "iiiiilhbfdzw", "llllllhbfdzw",
    "hhhhhhhffdzw", "bbbbbbfbfdzw", "fffffffffdzw", "ddddddddddww", "zzzzzzzzzwzw", "wwwwwwwwwwww",
};

/* result_type of a tensor with dims (row) and one without (column). '-': a type we do not have. */
static const char with_scalar_tensor[KINDS][KINDS + 1] = {
    "Bucsilhbfdzw", "uuuuuuhbfdzw", "cccccchbfdzw", "sssssshbfdzw", "iiiiiihbfdzw", "llllllhbfdzw",
    "hhhhhhhhhh--", "bbbbbbbbbbzz", "ffffffffffzz", "ddddddddddww", "zzzzzzzzzzzz", "wwwwwwwwwwww",
};

/* result_type of a tensor (row), with dims or without, and a Python bool, int, float, complex. */
static const char with_number[KINDS][5] = {
    "Blfz", "uufz", "ccfz", "ssfz", "iifz", "llfz", "hhh-", "bbbz", "fffz", "dddw", "zzzz", "wwww",
};

static char letter_of(tp_dtype d)
{
    for (int i = 0; i < KINDS; i++)
        if (column[i] == d)
            return names[i];
    return '?';
}

static void expect_type(const char *what, int row, int col, tp_dtype got, char want)
{
    if (want == '-' || letter_of(got) == want)
        return;
    TP_EXPECT(!"the common type");
    printf("# %s of %s and column %d: got %s, want %c\n", what, tp_dtypes[column[row]].name, col, tp_dtypes[got].name, want);
}

static tp_dtype common_of(tp_value a, tp_value b)
{
    tp_common c = TP_COMMON_START;
    tp_common_add(&c, a);
    tp_common_add(&c, b);
    return tp_common_dtype(&c);
}

TP_TEST(types_promote_as_torchs)
{
    for (int i = 0; i < KINDS; i++)
        for (int j = 0; j < KINDS; j++)
            expect_type("promote", i, j, tp_dtype_promote(column[i], column[j]), promoted[i][j]);
}

TP_TEST(casts_are_torchs)
{
    for (int i = 0; i < KINDS; i++)
        for (int j = 0; j < KINDS; j++)     /* a kind may become itself or a higher one */
            TP_EXPECT(tp_dtype_can_cast(column[i], column[j]) == (tp_dtypes[column[i]].kind <= tp_dtypes[column[j]].kind));
}

TP_TEST(tensors_outrank_scalars_which_outrank_numbers)
{
    static const int64_t one[1] = { 1 };
    tp_tensor *flat[KINDS] = { 0 }, *single[KINDS] = { 0 };
    tp_value number[4] = { tp_bool(true), tp_int(1), tp_float(1), tp_value_complex(1, 1) };
    TP_NEED(number[3].tag == TP_COMPLEX);
    for (int i = 0; i < KINDS; i++)
        TP_NEED((flat[i] = tp_tensor_new(column[i], 1, one)) && (single[i] = tp_tensor_new(column[i], 0, NULL)));
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < KINDS; j++) {
            tp_value a = tp_of_tensor(flat[i]), b = tp_of_tensor(flat[j]), s = tp_of_tensor(single[j]);
            expect_type("tt", i, j, common_of(a, b), promoted[i][j]);
            expect_type("00", i, j, common_of(tp_of_tensor(single[i]), s), promoted[i][j]);
            expect_type("t0", i, j, common_of(a, s), with_scalar_tensor[i][j]);
            expect_type("0t", i, j, common_of(s, a), with_scalar_tensor[i][j]);
        }
        for (int j = 0; j < 4; j++) {
            expect_type("ts", i, j, common_of(tp_of_tensor(flat[i]), number[j]), with_number[i][j]);
            expect_type("0s", i, j, common_of(tp_of_tensor(single[i]), number[j]), with_number[i][j]);
        }
    }
    single[9]->keys |= TP_KEY_NUMBER;       /* a 0-d f64 that stands for a Python float */
    TP_EXPECT(common_of(tp_of_tensor(flat[8]), tp_of_tensor(single[9])) == TP_f32);
    TP_EXPECT(common_of(tp_of_tensor(single[8]), tp_of_tensor(single[9])) == TP_f32);
out:
    for (int i = 0; i < KINDS; i++) {
        tp_tensor_unref(flat[i]);
        tp_tensor_unref(single[i]);
    }
    tp_value_unref(number[3]);
}

TP_TEST(numbers_have_default_types)
{
    int before = tp_the_runtime.default_dtype;
    tp_value z = tp_value_complex(0, 1);
    TP_NEED(z.tag == TP_COMPLEX);
    TP_EXPECT(before == TP_f32);            /* also in a program that never asked Python */
    TP_EXPECT(tp_dtype_of_number(tp_bool(true)) == TP_b8 && tp_dtype_of_number(tp_int(1)) == TP_i64);
    TP_EXPECT(tp_dtype_of_number(tp_float(1)) == TP_f32 && tp_dtype_of_number(z) == TP_c64);
    tp_the_runtime.default_dtype = TP_f64;
    TP_EXPECT(tp_dtype_of_number(tp_float(1)) == TP_f64 && tp_dtype_of_number(z) == TP_c128);
    tp_the_runtime.default_dtype = before;
out:
    tp_value_unref(z);
}

TP_TEST(sizes_broadcast)
{
    static const struct { int a_ndim, b_ndim; int64_t a[3], b[3]; int ndim; int64_t out[3]; const char *error; } row[] = {
        { 0, 0, { 0 }, { 0 }, 0, { 0 }, NULL },
        { 1, 2, { 3 }, { 2, 1 }, 2, { 2, 3 }, NULL },
        { 3, 1, { 2, 1, 3 }, { 3 }, 3, { 2, 1, 3 }, NULL },
        { 2, 3, { 4, 1 }, { 2, 1, 5 }, 3, { 2, 4, 5 }, NULL },
        { 2, 1, { 0, 3 }, { 1 }, 2, { 0, 3 }, NULL },
        { 1, 1, { 1 }, { 0 }, 1, { 0 }, NULL },
        { 1, 1, { 2 }, { 3 }, 0, { 0 }, "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0" },
        { 3, 2, { 2, 3, 4 }, { 2, 4 }, 0, { 0 }, "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1" },
        { 2, 2, { 7, 6 }, { 6, 7 }, 0, { 0 }, "The size of tensor a (6) must match the size of tensor b (7) at non-singleton dimension 1" },
        { 1, 1, { 0 }, { 2 }, 0, { 0 }, "The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 0" },
    };
    for (size_t r = 0; r < TP_COUNT(row); r++) {
        int64_t out[TP_MAX_DIMS];
        int ndim = row[r].a_ndim;
        memcpy(out, row[r].a, sizeof row[r].a);
        bool ok = tp_broadcast(&ndim, out, row[r].b_ndim, row[r].b);
        TP_EXPECT(ok == !row[r].error);
        if (!ok)
            TP_EXPECT_TEXT(tp_error_text(), row[r].error);
        else
            TP_EXPECT(ndim == row[r].ndim && memcmp(out, row[r].out, (size_t)ndim * sizeof *out) == 0);
        tp_error_clear();
    }
}

TP_TESTS(TP_SWEPT(types_promote_as_torchs), TP_SWEPT(casts_are_torchs), TP_SWEPT(tensors_outrank_scalars_which_outrank_numbers),
         TP_SWEPT(numbers_have_default_types), TP_SWEPT(sizes_broadcast))
