/* run_program.c - runs an exported program on zeros, ones or numbers from the command line, and prints what it gives.
 *
 *     cc examples/run_program.c -Iinclude -Lbuild/src -ltaper -Wl,-rpath,$PWD/build/src -o run_program
 *     ./run_program mlp.pt2 2x3 1 2 3 4 5 6
 *
 * The first input has the sizes 2x3 and these elements (float32); further inputs follow in the same way. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <taper/taper.h>

enum { MOST = 16, MOST_DIMS = 8 };

static int complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_error_text());
    return 1;
}

/* "2x3" and then six numbers; moves *arg behind them. */
static tp_tensor *read_tensor(char ***arg, char **end)
{
    int64_t size[MOST_DIMS], count = 1;
    int rank = 0;
    for (char *at = *(*arg)++; *at && rank < MOST_DIMS; at += *at == 'x') {
        size[rank] = strtoll(at, &at, 10);
        count *= size[rank++];
    }
    float *data = calloc((size_t)count + 1, sizeof *data);
    for (int64_t i = 0; data && i < count && *arg < end; i++)
        data[i] = strtof(*(*arg)++, NULL);
    tp_tensor *t = data ? tp_tensor_make("float32", rank, size, data) : NULL;
    free(data);
    return t;
}

/* Element i of data of this type. */
static void print_element(const char *type, const void *data, int64_t i)
{
    if (strcmp(type, "float32") == 0)
        printf(" %.6g", (double)((const float *)data)[i]);
    else if (strcmp(type, "float64") == 0)
        printf(" %.6g", ((const double *)data)[i]);
    else if (strcmp(type, "int64") == 0)
        printf(" %" PRId64, ((const int64_t *)data)[i]);
    else if (strcmp(type, "int32") == 0)
        printf(" %" PRId32, ((const int32_t *)data)[i]);
    else if (strcmp(type, "int16") == 0)
        printf(" %d", ((const int16_t *)data)[i]);
    else if (strcmp(type, "int8") == 0)
        printf(" %d", ((const int8_t *)data)[i]);
    else if (strcmp(type, "uint8") == 0 || strcmp(type, "bool") == 0)
        printf(" %d", ((const uint8_t *)data)[i]);
    else
        printf(" ?");
}

static void print_tensor(const tp_tensor *t)
{
    enum { MOST_SHOWN = 64 };
    int64_t data[2 * MOST_SHOWN];       /* aligned for every type, and room for the widest */
    printf("%s[", tp_tensor_type(t));
    for (int i = 0; i < tp_tensor_rank(t); i++)
        printf(i ? ", %" PRId64 : "%" PRId64, tp_tensor_length(t, i));
    printf("]");
    if (tp_tensor_count(t) <= MOST_SHOWN && tp_tensor_read(t, data, sizeof data))
        for (int64_t i = 0; i < tp_tensor_count(t); i++)
            print_element(tp_tensor_type(t), data, i);
    printf("\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s PROGRAM.pt2 [SIZES NUMBER…]…\n", argv[0]);
        return 2;
    }
    tp_program *p = tp_program_load(argv[1]);
    if (!p)
        return complain(argv[1]);
    tp_tensor *input[MOST] = { NULL }, *output[MOST] = { NULL };
    size_t inputs = tp_program_tensor_inputs(p), outputs = tp_program_tensor_outputs(p);
    char **arg = argv + 2, **end = argv + argc;
    int failed = inputs > MOST || outputs > MOST;
    for (size_t i = 0; i < inputs && i < MOST && arg < end; i++)
        input[i] = read_tensor(&arg, end);
    if (!failed && !tp_program_call(p, input, inputs, output, outputs))
        failed = complain("call");
    for (size_t i = 0; i < MOST; i++) {
        if (output[i])
            print_tensor(output[i]);
        tp_tensor_drop(output[i]);
        tp_tensor_drop(input[i]);
    }
    tp_program_drop(p);
    return failed;
}
