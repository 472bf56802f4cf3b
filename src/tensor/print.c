/* print.c - first a pass over what will be shown that finds a common format and width, then the brackets.
 *
 * Floats that are all whole print as "3."; scientific notation is chosen when the largest is above 1e8, or more than 1000
 * times the smallest, or some value that is not whole is below 1e-4. Zeros, infinities and NaN do not count for this. */
#include "tensor/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* How numbers of one kind are written: floats, or the real or imaginary parts of complex ones. */
typedef struct style {
    bool whole, scientific;
    int  width, precision;
} style;

typedef struct printer {
    const tp_tensor *t;
    const tp_print_options *options;
    tp_text *out;
    bool   summarise;
    style  real, imaginary;
} printer;

/* Room for a float in any notation: 309 digits and a fraction. */
enum { NUMBER_ROOM = 512 };

/* ---- single numbers ---- */
static const char *float_text(double v, const style *s, char *room)
{
    int precision = s->precision < 100 ? s->precision : 100;
    if (isnan(v))
        return "nan";
    if (isinf(v))
        return v > 0 ? "inf" : "-inf";
    if (s->scientific)
        snprintf(room, NUMBER_ROOM, "%.*e", precision, v);
    else if (s->whole)
        snprintf(room, NUMBER_ROOM, "%.0f.", v);
    else
        snprintf(room, NUMBER_ROOM, "%.*f", precision, v);
    return room;
}

static const char *integer_text(tp_scalar v, char *room)
{
    if (v.kind == TP_KIND_BOOL)
        return v.i ? "True" : "False";
    snprintf(room, NUMBER_ROOM, "%lld", LL(v.i));
    return room;
}

static void padded(printer *p, const char *text, int width)
{
    tp_text_add(p->out, "%*s", width, text);
}

static tp_scalar element(const printer *p, int64_t offset)
{
    tp_dtype d = (tp_dtype)p->t->dtype;
    return tp_tensor_element(p->t, (const char *)p->t->storage->data + (p->t->offset + offset) * (int64_t)tp_dtype_bytes(d));
}

static void print_element(printer *p, int64_t offset)
{
    char room[NUMBER_ROOM];
    tp_scalar v = element(p, offset);
    if (v.kind <= TP_KIND_INTEGER)
        padded(p, integer_text(v, room), p->real.width);
    else if (v.kind == TP_KIND_FLOAT)
        padded(p, float_text(v.f, &p->real, room), p->real.width);
    else {
        padded(p, float_text(v.c.re, &p->real, room), p->real.width);
        const char *part = float_text(v.c.im, &p->imaginary, room);
        tp_text_add(p->out, "%s%sj", *part == '-' ? "" : "+", part);
    }
}

/* ---- the elements that are shown ---- */
typedef void visit_fn(void *user, tp_scalar v);

/* Positions along a dim: all, or the edges. Position i of `shown` lies at the returned index. */
static int64_t shown(const printer *p, int64_t size)
{
    int64_t edges = 2 * (int64_t)p->options->edge_items;
    return p->summarise && size > edges ? edges : size;
}

static int64_t position(const printer *p, int64_t size, int64_t i)
{
    int64_t count = shown(p, size);
    return count == size || i < count / 2 ? i : size - count + i;
}

static void visit(const printer *p, int dim, int64_t offset, visit_fn *each, void *user)
{
    if (dim == p->t->ndim) {
        each(user, element(p, offset));
        return;
    }
    int64_t size = p->t->size[dim];
    for (int64_t i = 0; i < shown(p, size); i++)
        visit(p, dim + 1, offset + position(p, size, i) * p->t->stride[dim], each, user);
}

/* ---- choosing a style ---- */
typedef struct survey {
    bool   imaginary;               /* of complex numbers: which part */
    bool   any, whole;
    double low, high;               /* of magnitudes */
    const style *style;             /* second pass: measure with it */
    int    width;
} survey;

static bool counts(const survey *s, tp_scalar v, double *number)
{
    *number = v.kind == TP_KIND_COMPLEX ? (s->imaginary ? v.c.im : v.c.re) : v.f;
    return isfinite(*number) && *number != 0;
}

static void look(void *user, tp_scalar v)
{
    survey *s = user;
    double x;
    if (!counts(s, v, &x))
        return;
    s->whole = s->whole && x == ceil(x);
    s->low = !s->any || fabs(x) < s->low ? fabs(x) : s->low;
    s->high = !s->any || fabs(x) > s->high ? fabs(x) : s->high;
    s->any = true;
}

static void measure(void *user, tp_scalar v)
{
    survey *s = user;
    double x;
    char room[NUMBER_ROOM];
    if (!counts(s, v, &x))
        return;
    int length = (int)strlen(float_text(x, s->style, room));
    s->width = length > s->width ? length : s->width;
}

static void measure_integer(void *user, tp_scalar v)
{
    survey *s = user;
    char room[NUMBER_ROOM];
    int length = (int)strlen(integer_text(v, room));
    s->width = length > s->width ? length : s->width;
}

static style choose(const printer *p, bool imaginary)
{
    survey s = { .imaginary = imaginary, .whole = true };
    style chosen = { .precision = p->options->precision, .width = 1 };
    if (tp_dtype_is_integral((tp_dtype)p->t->dtype)) {
        visit(p, 0, 0, measure_integer, &s);
        chosen.width = s.width > 1 ? s.width : 1;
        return chosen;
    }
    visit(p, 0, 0, look, &s);
    chosen.whole = s.whole;
    if (s.any) {
        chosen.scientific = p->options->scientific >= 0 ? p->options->scientific
                                                        : s.high / s.low > 1000 || s.high > 1e8 || (!s.whole && s.low < 1e-4);
        s.style = &chosen;
        visit(p, 0, 0, measure, &s);
        chosen.width = s.width;
    }
    return chosen;
}

/* ---- brackets and lines ---- */
static int element_width(const printer *p)
{
    bool complex = tp_dtype_is_complex((tp_dtype)p->t->dtype);
    return p->real.width + 2 + (complex ? p->imaginary.width + 1 : 0);
}

static void print_row(printer *p, int indent, int64_t offset)
{
    int dim = p->t->ndim - 1;
    int64_t size = p->t->size[dim], count = shown(p, size), line = 0;
    int64_t per_line = (p->options->line_width - indent) / element_width(p);
    per_line = per_line < 1 ? 1 : per_line;
    tp_text_add(p->out, "[");
    for (int64_t i = 0; i < count; i++, line++) {
        bool gap = count < size && i == count / 2;
        for (int k = 0; k < (gap ? 2 : 1) && (i || gap); k++) {         /* the dots take the place of an element */
            if (line && line % per_line == 0)
                tp_text_add(p->out, ",\n%*s", indent + 1, "");
            else if (line)
                tp_text_add(p->out, ", ");
            if (gap && k == 0) {
                tp_text_add(p->out, " ...");
                line++;
            }
        }
        print_element(p, offset + position(p, size, i) * p->t->stride[dim]);
    }
    tp_text_add(p->out, "]");
}

static void print_dims(printer *p, int dim, int indent, int64_t offset)
{
    int rest = p->t->ndim - dim;
    if (rest == 0) {
        print_element(p, offset);
        return;
    }
    if (rest == 1) {
        print_row(p, indent, offset);
        return;
    }
    int64_t size = p->t->size[dim], count = shown(p, size);
    tp_text_add(p->out, "[");
    for (int64_t i = 0; i < count; i++) {
        bool gap = count < size && i == count / 2;
        for (int k = 0; k < (gap ? 2 : 1) && (i || gap); k++) {
            if (i || k) {
                tp_text_add(p->out, ",");
                for (int n = 1; n < rest; n++)
                    tp_text_add(p->out, "\n");
                tp_text_add(p->out, "%*s", indent + 1, "");
            }
            if (gap && k == 0)
                tp_text_add(p->out, "...");
        }
        print_dims(p, dim + 1, indent + 1, offset + position(p, size, i) * p->t->stride[dim]);
    }
    tp_text_add(p->out, "]");
}

void tp_tensor_print_elements(const tp_tensor *t, const tp_print_options *options, int indent, tp_text *out)
{
    printer p = { .t = t, .options = options, .out = out, .summarise = t->numel > options->threshold };
    if (!t->numel) {
        tp_text_add(out, "[]");
        return;
    }
    p.real = choose(&p, false);
    if (tp_dtype_is_complex((tp_dtype)t->dtype))
        p.imaginary = choose(&p, true);
    print_dims(&p, 0, indent, 0);
}

void tp_tensor_print(const tp_tensor *t, const tp_print_options *options, const char *prefix, const char *const *suffix, int suffix_count,
                     tp_text *out)
{
    int indent = (int)strlen(prefix);
    size_t start = out->length;
    tp_text_add(out, "%s", prefix);
    tp_tensor_print_elements(t, options, indent, out);
    const char *text = tp_text_read(out) + start, *last = strrchr(text, '\n');
    int line = (int)strlen(text) - (last ? (int)(last - text) : -1) + 1;
    for (int i = 0; i < suffix_count; i++) {
        int length = (int)strlen(suffix[i]);
        if (line + length + 2 > options->line_width) {
            tp_text_add(out, ",\n%*s%s", indent, "", suffix[i]);
            line = indent + length;
        } else {
            tp_text_add(out, ", %s", suffix[i]);
            line += length + 2;
        }
    }
    tp_text_add(out, ")");
}
