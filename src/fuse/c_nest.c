/* c_nest.c - lines, indices and loops of the C writer. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fuse/c_internal.h"

static const struct {
    const char *type, *brief;
} names[TP_DTYPE_COUNT] = {
    [TP_f32] = { "float", "f32" },   [TP_f64] = { "double", "f64" },  [TP_i64] = { "int64_t", "i64" },
    [TP_i32] = { "int32_t", "i32" }, [TP_i16] = { "int16_t", "i16" }, [TP_i8] = { "int8_t", "i8" },
    [TP_u8] = { "uint8_t", "u8" },   [TP_b8] = { "uint8_t", "b8" },
};

const char *tp_c_type(tp_dtype d)
{
    return d < TP_DTYPE_COUNT ? names[d].type : NULL;
}
const char *tp_c_short(tp_dtype d)
{
    return d < TP_DTYPE_COUNT ? names[d].brief : NULL;
}

bool tp_c_unsupported(tp_c *c, const char *what)
{
    char name[128];
    if (!c->failed && c->node && c->node->target.kind == TP_TARGET_OP)
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "the C writer has no words for %s%s%s",
                      tp_op_full_name(c->node->target.op, name), *what ? ": " : "", what);
    else if (!c->failed)
        (void)tp_fail(TP_ERR_UNIMPLEMENTED, "the C writer has no words for %s", what);
    c->failed = true;
    return false;
}

/* ---- lines ---- */

static void put(tp_c *c, const char *format, va_list list, const char *tail)
{
    char line[4096];
    int length = vsnprintf(line, sizeof line, format, list);
    if (c->failed)
        return;
    if (length < 0 || length >= (int)sizeof line) {
        (void)tp_c_unsupported(c, "an expression this long");
        return;
    }
    tp_text_add(&c->body, "%*s%s%s\n", 4 * c->depth, "", line, *line || !*tail ? tail : tail + 1);
}

void tp_c_line(tp_c *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    put(c, format, list, "");
    va_end(list);
}

void tp_c_open(tp_c *c, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    put(c, format, list, " {");
    va_end(list);
    c->depth++;
}

void tp_c_close(tp_c *c)
{
    c->depth--;
    tp_c_line(c, "}");
}

const char *tp_c_text(tp_c *c, const char *format, ...)
{
    char text[4096];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (length < 0 || length >= (int)sizeof text)
        (void)tp_c_unsupported(c, "an expression this long");
    const char *kept = c->failed ? NULL : tp_text_in(&c->arena, text, (size_t)length);
    c->failed |= !kept;
    return kept ? kept : "";
}

const char *const tp_c_letters[8] = { "i", "j", "k", "l", "m", "n", "o", "p" };

void tp_c_loop(tp_c *c, const char *name, int64_t size)
{
    tp_c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", name, name, (long long)size, name);
}

void tp_c_close_all(tp_c *c, int count)
{
    while (count--)
        tp_c_close(c);
}

/* ---- numbers and elements ---- */

/* 9 and 17 digits are enough to read the same float and double back. */
const char *tp_c_literal(tp_scalar s, tp_dtype d, char out[48])
{
    if (!tp_dtype_is_float(d)) {
        int64_t i = d == TP_b8 ? !tp_scalar_is_zero(s) : tp_scalar_to_int(s);
        snprintf(out, 48, i == INT64_MIN ? "INT64_MIN" : d == TP_i64 ? "INT64_C(%lld)" : "%lld", (long long)i);
        return out;
    }
    double f = d == TP_f32 ? (double)(float)tp_scalar_to_double(s) : tp_scalar_to_double(s);
    if (isnan(f) || isinf(f)) {
        strcpy(out, isnan(f) ? "NAN" : f < 0 ? "-INFINITY" : "INFINITY");
        return out;
    }
    int n = snprintf(out, 32, d == TP_f32 ? "%.9g" : "%.17g", f);
    snprintf(out + n, 8, "%s%s", strpbrk(out, ".e") ? "" : ".0", d == TP_f32 ? "f" : "");
    return out;
}

const char *tp_c_number(tp_c *c, tp_scalar s, tp_dtype d)
{
    char text[48];
    return tp_c_text(c, "%s", tp_c_literal(s, d, text));
}

const char *tp_c_store(tp_c *c, const char *expression, tp_dtype from, tp_dtype to)
{
    if (to == TP_b8 && from != TP_b8)
        return tp_c_text(c, "%s != 0", expression);
    /* Of a float an integer takes the low bits, as eager calls do: a cast to a short type says nothing of numbers that do not fit. */
    if (tp_dtype_is_float(from) && tp_dtype_is_integral(to) && tp_dtype_bytes(to) < 8)
        return tp_c_text(c, "(%s)(int64_t)(%s)", tp_c_type(to), expression);
    return from == to ? expression : tp_c_text(c, "(%s)(%s)", tp_c_type(to), expression);
}

/* "+ i*12", or nothing where the stride is 0. */
static void add_term(tp_text *t, const char *index, int64_t stride)
{
    if (!index || stride == 0 || strcmp(index, "0") == 0)
        return;
    bool plain = strpbrk(index, " +-%") == NULL;
    tp_text_add(t, "%s", t->length ? " + " : "");
    if (stride == 1)
        tp_text_add(t, "%s", index);
    else
        tp_text_add(t, plain ? "%s*%lld" : "(%s)*%lld", index, (long long)stride);
}

static const char *element(tp_c *c, const tp_c_buffer *b, int64_t offset, int ndim, const char *const *index,
                           const int64_t *stride)
{
    tp_text t = { 0 };
    if (offset)
        tp_text_add(&t, "%lld", (long long)offset);
    for (int i = 0; i < ndim; i++)
        add_term(&t, index[i], stride[i]);
    const char *text = tp_c_text(c, "%s[%s]", b->name, t.length ? tp_text_read(&t) : "0");
    c->failed |= t.failed;
    tp_text_fini(&t);
    return text;
}

const char *tp_c_at(tp_c *c, tp_c_value v, const char *const *index)
{
    if (c->failed || v.buffer < 0)
        return "";
    const tp_c_buffer *b = &c->buffer.item[v.buffer];
    return element(c, b, v.fact->offset - b->offset, v.fact->ndim, index, v.fact->stride);
}

/* ---- loops ---- */

/* The stride of an operand in dim d of the loops, 0 where it is broadcast. */
static int64_t stride_in(const tp_tensor *t, int ndim, int d)
{
    int i = d - (ndim - t->ndim);
    return i < 0 || t->size[i] == 1 ? 0 : t->stride[i];
}

static bool goes_together(const tp_c_nest *n, int outer, int inner)
{
    for (int k = 0; k < n->count; k++)
        if (n->stride[k][outer] != n->stride[k][inner] * n->size[inner])
            return false;
    return true;
}

static void drop_dim(tp_c_nest *n, int d)
{
    for (int i = d; i + 1 < n->ndim; i++) {
        n->size[i] = n->size[i + 1];
        for (int k = 0; k < n->count; k++)
            n->stride[k][i] = n->stride[k][i + 1];
    }
    n->ndim--;
}

void tp_c_nest_open(tp_c *c, tp_c_nest *n, int ndim, const int64_t *size)
{
    const char *const *index = tp_c_letters;
    n->ndim = ndim;
    memcpy(n->size, size, sizeof *size * (size_t)ndim);
    for (int k = 0; k < n->count; k++)
        for (int d = 0; d < ndim; d++)
            n->stride[k][d] = stride_in(n->operand[k].fact, ndim, d);
    for (int d = ndim - 1; d >= 0; d--)
        if (n->size[d] == 1)
            drop_dim(n, d);
    for (int d = n->ndim - 2; d >= 0; d--)
        if (goes_together(n, d, d + 1)) {
            int64_t inner = n->size[d + 1];
            for (int k = 0; k < n->count; k++)
                n->stride[k][d] = n->stride[k][d + 1];
            n->size[d] *= inner;
            drop_dim(n, d + 1);
        }
    n->opened = n->ndim;
    if (n->ndim > (int)TP_COUNT(tp_c_letters)) {
        (void)tp_c_unsupported(c, "so many dims");
        return;
    }
    if (n->ndim == 0)
        tp_c_open(c, "%s", "");
    for (int d = 0; d < n->ndim; d++)
        tp_c_open(c, "for (int64_t %s = 0; %s < %lld; %s++)", index[d], index[d], (long long)n->size[d], index[d]);
    for (int k = 0; k < n->count && !c->failed; k++) {
        const tp_c_buffer *b = &c->buffer.item[n->operand[k].buffer];
        n->at[k] = element(c, b, n->operand[k].fact->offset - b->offset, n->ndim, index, n->stride[k]);
    }
}

void tp_c_nest_close(tp_c *c, tp_c_nest *n)
{
    for (int d = 0; d < (n->opened ? n->opened : 1); d++)
        tp_c_close(c);
}
