/* value.c - owners, readers and printers of boxed values. */
#include "ops/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "sym/sym.h"
#include "tensor/generator.h"

/* A complex number's counted cell; tp_value.complex points at `number`. */
typedef struct complex_cell {
    tp_count refs;
    tp_c128  number;
} complex_cell;

static complex_cell *cell_of(tp_value v)
{
    return (complex_cell *)(void *)((char *)v.complex - offsetof(complex_cell, number));
}

/* ---- boxing ---- */
tp_value tp_value_complex(double re, double im)
{
    complex_cell *cell = tp_alloc(sizeof *cell);
    if (!cell)
        return tp_none();
    atomic_init(&cell->refs, 1);
    cell->number = (tp_c128){ re, im };
    return (tp_value){ .tag = TP_COMPLEX, .complex = &cell->number };
}

tp_value tp_value_string(const char *text, size_t length)
{
    tp_string *s = tp_alloc(sizeof *s + length + 1);
    if (!s)
        return tp_none();
    atomic_init(&s->refs, 1);
    s->length = (uint32_t)length;
    memcpy(s->text, text, length);
    s->text[length] = 0;
    return (tp_value){ .tag = TP_STRING, .string = s };
}

/* Lists of a few sizes are made with every recorded call: they are recycled per thread. */
enum { FREE_SLOT = 5, MOST_FREE = 64, SHORT_LIST = 4 };

static tp_list *fresh_list(size_t count)
{
    tp_thread *self = &tp_self;
    tp_list *l = count <= SHORT_LIST ? self->free_list[FREE_SLOT] : NULL;
    if (!l || atomic_load_explicit(&tp_the_runtime.allocation_fuse, memory_order_relaxed) >= 0)
        return tp_alloc(sizeof *l + (count > SHORT_LIST || TP_WATCHED ? count : SHORT_LIST) * sizeof *l->item);
    self->free_list[FREE_SLOT] = *(void **)(void *)l;
    self->free_count[FREE_SLOT]--;
    tp_count_allocation(1);
    return l;
}

static void recycle_list(tp_list *l)
{
    tp_thread *self = &tp_self;
    if (TP_WATCHED || l->count > SHORT_LIST || self->free_count[FREE_SLOT] >= MOST_FREE) {
        tp_free(l);
        return;
    }
    tp_thread_note_end();
    *(void **)(void *)l = self->free_list[FREE_SLOT];
    self->free_list[FREE_SLOT] = l;
    self->free_count[FREE_SLOT]++;
    tp_count_allocation(-1);
}

tp_list *tp_list_new(size_t count)
{
    tp_list *l = fresh_list(count);
    if (!l)
        return NULL;
    atomic_init(&l->refs, 1);
    l->count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        l->item[i] = tp_none();
    return l;
}

tp_value tp_value_ints(const int64_t *item, size_t count)
{
    tp_list *l = tp_list_new(count);
    if (!l)
        return tp_none();
    for (size_t i = 0; i < count; i++)
        l->item[i] = tp_int(item[i]);
    return tp_of_list(l);
}

tp_value tp_value_tensors(tp_tensor *const *item, size_t count)
{
    tp_list *l = tp_list_new(count);
    if (!l)
        return tp_none();
    for (size_t i = 0; i < count; i++)
        l->item[i] = item[i] ? tp_of_tensor(tp_tensor_ref(item[i])) : tp_none();
    return tp_of_list(l);
}

tp_value tp_value_scalar(tp_scalar s)
{
    switch (s.kind) {
    case TP_KIND_BOOL:    return tp_bool(s.i != 0);
    case TP_KIND_INTEGER: return tp_int(s.i);
    case TP_KIND_FLOAT:   return tp_float(s.f);
    default:              return tp_value_complex(s.c.re, s.c.im);
    }
}

/* ---- owners ---- */
static tp_value heap_copy(tp_value v)
{
    tp_list *l = tp_list_new(v.list->count);
    if (!l)
        return tp_none();
    for (uint32_t i = 0; i < l->count; i++) {
        l->item[i] = tp_value_ref(v.list->item[i]);
        if (l->item[i].tag != v.list->item[i].tag) {        /* a list on the stack within this one could not be copied */
            tp_value_unref(tp_of_list(l));
            return tp_none();
        }
    }
    v.list = l;
    return v;
}

tp_value tp_value_ref(tp_value v)
{
    switch ((tp_tag)v.tag) {
    case TP_TENSOR:    tp_tensor_ref(v.tensor); break;
    case TP_COMPLEX:   tp_count_up(&cell_of(v)->refs); break;
    case TP_STRING:
        if (atomic_load_explicit(&v.string->refs, memory_order_relaxed) >= 0)   /* a schema's default is a constant */
            tp_count_up(&v.string->refs);
        break;
    case TP_GENERATOR: tp_generator_ref(v.generator); break;
    case TP_HANDLE:    tp_count_up(&v.handle->refs); break;
    case TP_LIST: case TP_TUPLE: case TP_DICT: case TP_SLICE:
        if (atomic_load_explicit(&v.list->refs, memory_order_relaxed) < 0)
            return heap_copy(v);
        tp_count_up(&v.list->refs);
        break;
    default: break;
    }
    return v;
}

void tp_value_unref_slow(tp_value v)
{
    switch ((tp_tag)v.tag) {
    case TP_COMPLEX:
        if (tp_count_down(&cell_of(v)->refs))
            tp_free(cell_of(v));
        break;
    case TP_STRING:
        if (atomic_load_explicit(&v.string->refs, memory_order_relaxed) >= 0 && tp_count_down(&v.string->refs))
            tp_free(v.string);
        break;
    case TP_GENERATOR:
        tp_generator_unref(v.generator);
        break;
    case TP_HANDLE:
        if (tp_count_down(&v.handle->refs))
            v.handle->type->free(v.handle);
        break;
    case TP_LIST: case TP_TUPLE: case TP_DICT: case TP_SLICE:
        if (atomic_load_explicit(&v.list->refs, memory_order_relaxed) >= 0 && tp_count_down(&v.list->refs)) {
            tp_values_unref(v.list->item, v.list->count);
            recycle_list(v.list);
        }
        break;
    default: break;
    }
}

void tp_values_unref(tp_value *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        tp_value_unref(v[i]);
}

/* ---- reading ---- */
static int64_t hint_of(tp_value v)
{
    int64_t hint = 0;
    (void)tp_sym_hint((tp_sym){ v.sym }, &hint);
    return hint;
}

tp_scalar tp_as_scalar(tp_value v)
{
    switch ((tp_tag)v.tag) {
    case TP_BOOL:    return (tp_scalar){ .kind = TP_KIND_BOOL, .i = v.b };
    case TP_INT:     return tp_scalar_int(v.i);
    case TP_SYM:     return tp_scalar_int(hint_of(v));
    case TP_COMPLEX: return (tp_scalar){ .kind = TP_KIND_COMPLEX, .c = *v.complex };
    case TP_TENSOR:  return tp_tensor_element(v.tensor, tp_tensor_data(v.tensor));
    default:         return tp_scalar_float(v.f);
    }
}

double tp_as_double(tp_value v)
{
    return v.tag == TP_FLOAT ? v.f : tp_scalar_to_double(tp_as_scalar(v));
}

int64_t tp_as_int(tp_value v)
{
    int64_t hint;
    if (v.tag == TP_SYM && tp_sym_hint((tp_sym){ v.sym }, &hint) && !tp_sym_guard_int((tp_sym){ v.sym }, &hint))
        tp_error_clear();           /* no memory, or guards are refused: who reads a number cannot be told here */
    return tp_hint_of(v);
}

int64_t tp_hint_of(tp_value v)
{
    return v.tag == TP_BOOL ? v.b : v.tag == TP_SYM ? hint_of(v) : v.i;
}

bool tp_as_bool(tp_value v)
{
    return v.tag == TP_BOOL ? v.b : v.tag == TP_FLOAT ? v.f != 0 : v.tag != TP_NONE && v.i != 0;
}

static int read_ints(tp_value v, int64_t *out, int room, int want, int64_t (*read)(tp_value v))
{
    if (v.tag == TP_INT || v.tag == TP_SYM || v.tag == TP_BOOL) {
        int n = want > 0 ? want : 1;
        for (int i = 0; i < n && i < room; i++)
            out[i] = read(v);
        return n;
    }
    int n = (int)tp_length(v);
    if (n > room) {
        (void)tp_fail(TP_ERR_RUNTIME, "a list of %d integers is longer than the %d that are allowed here", n, room);
        return -1;
    }
    for (int i = 0; i < n; i++)
        out[i] = read(v.list->item[i]);
    if (n == 1 && want > 1) {
        for (int i = 1; i < want; i++)
            out[i] = out[0];
        n = want;
    }
    return n;
}

int tp_as_ints(tp_value v, int64_t *out, int room, int want)
{
    return read_ints(v, out, room, want, tp_as_int);
}

int tp_hints_of(tp_value v, int64_t *out, int room, int want)
{
    return read_ints(v, out, room, want, tp_hint_of);
}

bool tp_value_equal(tp_value a, tp_value b)
{
    if (a.tag != b.tag)
        return false;
    switch ((tp_tag)a.tag) {
    case TP_NONE:    return true;
    case TP_BOOL:    return a.b == b.b;
    case TP_FLOAT:   return memcmp(&a.f, &b.f, sizeof a.f) == 0;
    case TP_COMPLEX: return memcmp(a.complex, b.complex, sizeof *a.complex) == 0;
    case TP_DEVICE:  return a.device.type == b.device.type && a.device.index == b.device.index;
    case TP_STRING:  return a.string->length == b.string->length && memcmp(a.string->text, b.string->text, a.string->length) == 0;
    case TP_HANDLE:  return a.handle == b.handle || (a.handle->type == b.handle->type && a.handle->type->equal(a.handle, b.handle));
    case TP_LIST: case TP_TUPLE: case TP_DICT: case TP_SLICE:
        if (a.list->count != b.list->count)
            return false;
        for (uint32_t i = 0; i < a.list->count; i++)
            if (!tp_value_equal(a.list->item[i], b.list->item[i]))
                return false;
        return true;
    default: return a.i == b.i;
    }
}

uint64_t tp_value_hash(tp_value v)
{
    uint64_t h = 0;
    switch ((tp_tag)v.tag) {
    case TP_NONE:    break;
    case TP_BOOL:    h = v.b; break;
    case TP_COMPLEX: h = tp_hash_bytes(v.complex, sizeof *v.complex, 0); break;
    case TP_DEVICE:  h = (uint64_t)(v.device.type * 256 + v.device.index); break;
    case TP_STRING:  h = tp_hash_bytes(v.string->text, v.string->length, 0); break;
    case TP_HANDLE:  h = v.handle->type->hash(v.handle); break;
    case TP_LIST: case TP_TUPLE: case TP_DICT: case TP_SLICE:
        for (uint32_t i = 0; i < v.list->count; i++)
            h = tp_hash_word(h ^ tp_value_hash(v.list->item[i])) + 1;
        break;
    default: h = (uint64_t)v.i; break;
    }
    return tp_hash_word(tp_hash_word(h) ^ v.tag);
}

/* ---- printing ---- */

/* (1+2j), and 2j when the real part is plain zero; whole parts have no point. */
static void print_complex(const tp_c128 *z, tp_text *out)
{
    bool real = z->re != 0 || signbit(z->re);
    if (real) {
        tp_text_add(out, "(");
        tp_text_add_double(out, z->re, false);
        tp_text_add(out, "%s", signbit(z->im) && !isnan(z->im) ? "" : "+");
    }
    tp_text_add_double(out, z->im, false);
    tp_text_add(out, real ? "j)" : "j");
}

static void print_device(tp_device d, tp_text *out)
{
    char name[16];
    tp_text_add(out, "device(type='%s'", tp_device_name((tp_device){ d.type, -1 }, name));
    if (d.index >= 0)
        tp_text_add(out, ", index=%d", d.index);
    tp_text_add(out, ")");
}

/* Single quotes unless the text has those and no double ones. Bytes above ASCII are letters of UTF-8: they stay. */
static void print_string(const tp_string *s, tp_text *out)
{
    char quote = memchr(s->text, '\'', s->length) && !memchr(s->text, '"', s->length) ? '"' : '\'';
    tp_text_put(out, &quote, 1);
    for (uint32_t i = 0; i < s->length; i++) {
        unsigned char c = (unsigned char)s->text[i];
        if (c == '\n' || c == '\r' || c == '\t')
            tp_text_add(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 32 || c == 127)
            tp_text_add(out, "\\x%02x", c);
        else
            tp_text_add(out, c == '\\' || c == quote ? "\\%c" : "%c", c);
    }
    tp_text_put(out, &quote, 1);
}

/* A dict's list has keys and values in turn. */
static void print_items(tp_value v, const char *open, const char *close, tp_text *out)
{
    tp_text_add(out, "%s", open);
    for (uint32_t i = 0; i < v.list->count; i++) {
        if (i)
            tp_text_add(out, "%s", v.tag == TP_DICT && i % 2 ? ": " : ", ");
        tp_value_print(v.list->item[i], out);
    }
    tp_text_add(out, "%s", close);
}

void tp_value_print(tp_value v, tp_text *out)
{
    static const char *const format[] = { "contiguous_format", "preserve_format", "channels_last", "channels_last_3d" };
    switch ((tp_tag)v.tag) {
    case TP_NONE:         tp_text_add(out, "None"); break;
    case TP_BOOL:         tp_text_add(out, "%s", v.b ? "True" : "False"); break;
    case TP_INT:          tp_text_add(out, "%lld", LL(v.i)); break;
    case TP_SYM:          tp_sym_print((tp_sym){ v.sym }, out); break;
    case TP_FLOAT:        tp_text_add_double(out, v.f, true); break;
    case TP_COMPLEX:      print_complex(v.complex, out); break;
    case TP_TENSOR:       tp_text_add(out, "tensor(...)"); break;
    case TP_DTYPE_VALUE:  tp_text_add(out, "torch.%s", tp_dtypes[v.i].python); break;
    case TP_DEVICE:       print_device(v.device, out); break;
    case TP_LAYOUT:       tp_text_add(out, "torch.strided"); break;
    case TP_FORMAT_VALUE: tp_text_add(out, "torch.%s", format[v.i]); break;
    case TP_STRING:       print_string(v.string, out); break;
    case TP_LIST:         print_items(v, "[", "]", out); break;
    case TP_TUPLE:        print_items(v, "(", v.list->count == 1 ? ",)" : ")", out); break;
    case TP_DICT:         print_items(v, "{", "}", out); break;
    case TP_SLICE:        print_items(v, "slice(", ")", out); break;
    case TP_NODE:         tp_text_add(out, "node"); break;
    case TP_GENERATOR:    tp_text_add(out, "Generator"); break;
    case TP_HANDLE:       (void)v.handle->type->repr(v.handle, out); break;
    }
}
