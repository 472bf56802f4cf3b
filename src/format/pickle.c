/* pickle.c - the pickle machine, run on plain nodes.
 *
 * An instruction is a byte and an argument whose shape one table tells: all bounds are checked where arguments are fetched,
 * and nowhere else. The machine has a stack, marks into it, and a memo. */
#define _GNU_SOURCE
#include "format/pickle.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

/* ---- instructions ---- */

typedef enum shape { WRONG, BARE, U1, U2, I4, U4, U8, F8, LINE, TWO_LINES, SIZED1, SIZED4, SIZED8 } shape;

static const uint8_t shapes[256] = {
    ['('] = BARE, ['.'] = BARE, ['0'] = BARE, ['1'] = BARE, ['2'] = BARE, ['F'] = LINE, ['I'] = LINE, ['J'] = I4,
    ['K'] = U1, ['L'] = LINE, ['M'] = U2, ['N'] = BARE, ['P'] = LINE, ['Q'] = BARE, ['R'] = BARE, ['S'] = LINE, ['T'] = SIZED4,
    ['U'] = SIZED1, ['V'] = LINE, ['X'] = SIZED4, ['a'] = BARE, ['b'] = BARE, ['c'] = TWO_LINES, ['d'] = BARE,
    ['}'] = BARE, ['e'] = BARE, ['g'] = LINE, ['h'] = U1, ['i'] = TWO_LINES, ['j'] = U4, ['l'] = BARE, [']'] = BARE, ['o'] = BARE,
    ['p'] = LINE, ['q'] = U1, ['r'] = U4, ['s'] = BARE, ['t'] = BARE, [')'] = BARE, ['u'] = BARE, ['G'] = F8,
    ['B'] = SIZED4, ['C'] = SIZED1,
    [0x80] = U1,        /* protocol */
    [0x81] = BARE,      /* new object */
    [0x85] = BARE, [0x86] = BARE, [0x87] = BARE,        /* tuples of one, two, three */
    [0x88] = BARE, [0x89] = BARE,                       /* true, false */
    [0x8a] = SIZED1, [0x8b] = SIZED4,                   /* long integers */
    [0x8c] = SIZED1, [0x8d] = SIZED8, [0x8e] = SIZED8,  /* text, text, bytes */
    [0x8f] = BARE, [0x90] = BARE, [0x91] = BARE,        /* set, add items, frozen set */
    [0x92] = BARE,      /* new object with keywords */
    [0x93] = BARE,      /* global from the stack */
    [0x94] = BARE,      /* memoize */
    [0x95] = U8,        /* frame */
    [0x96] = SIZED8,    /* bytearray */
};

typedef struct instruction {
    uint8_t  code;
    uint64_t number;            /* U1 … U8; I4 is sign-extended; F8: its bits */
    const char *text, *more;    /* LINE, SIZED: `text`; TWO_LINES: both. Borrowed, not terminated */
    size_t   length, more_length;
} instruction;

typedef struct input {
    const uint8_t *begin, *at, *end;
} input;

static bool fetch_number(input *in, size_t bytes, uint64_t *out)
{
    if ((size_t)(in->end - in->at) < bytes)
        return tp_fail(TP_ERR_VALUE, "pickle data was truncated");
    *out = 0;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)*in->at++ << 8 * i;
    return true;
}

static bool fetch_line(input *in, const char **text, size_t *length)
{
    const uint8_t *end = in->at < in->end ? memchr(in->at, '\n', (size_t)(in->end - in->at)) : NULL;
    if (!end)
        return tp_fail(TP_ERR_VALUE, "pickle data was truncated");
    *text = (const char *)in->at;
    *length = (size_t)(end - in->at);
    in->at = end + 1;
    return true;
}

static bool fetch_sized(input *in, size_t bytes, instruction *i)
{
    uint64_t length = 0;
    if (!fetch_number(in, bytes, &length))
        return false;
    if (length > (size_t)(in->end - in->at))
        return tp_fail(TP_ERR_VALUE, "pickle data was truncated");
    i->text = (const char *)in->at;
    i->length = (size_t)length;
    in->at += length;
    return true;
}

static bool fetch(input *in, instruction *i)
{
    if (in->at == in->end)
        return tp_fail(TP_ERR_VALUE, "pickle data was truncated");
    *i = (instruction){ .code = *in->at++ };
    switch ((shape)shapes[i->code]) {
    case BARE: return true;
    case U1: return fetch_number(in, 1, &i->number);
    case U2: return fetch_number(in, 2, &i->number);
    case U4: return fetch_number(in, 4, &i->number);
    case U8:
    case F8: return fetch_number(in, 8, &i->number);
    case I4:
        if (!fetch_number(in, 4, &i->number))
            return false;
        i->number = (uint64_t)(int64_t)(int32_t)i->number;
        return true;
    case LINE: return fetch_line(in, &i->text, &i->length);
    case TWO_LINES: return fetch_line(in, &i->text, &i->length) && fetch_line(in, &i->more, &i->more_length);
    case SIZED1: return fetch_sized(in, 1, i);
    case SIZED4: return fetch_sized(in, 4, i);
    case SIZED8: return fetch_sized(in, 8, i);
    case WRONG: break;
    }
    return tp_fail(TP_ERR_VALUE, "Unsupported operand %d", i->code);
}

/* ---- the machine ---- */

typedef struct machine {
    input in;
    tp_arena *arena;
    tp_pickle_tree *tree;
    tp_array(tp_pickle *) stack;
    tp_array(size_t) mark;              /* heights of the stack */
    tp_array(tp_pickle *) global;
    tp_map memo;
} machine;

static bool push(machine *m, tp_pickle *v)
{
    return v && tp_array_push(&m->stack, v);
}

/* A fresh node on the stack. */
static tp_pickle *push_new(machine *m, tp_pickle_kind kind)
{
    tp_pickle *v = m->tree->node_count < UINT32_MAX ? tp_arena_take(m->arena, sizeof *v) : tp_fail_memory();
    if (!v)
        return NULL;
    *v = (tp_pickle){ .kind = kind, .id = m->tree->node_count++ };
    return push(m, v) ? v : NULL;
}

static size_t below(const machine *m)
{
    return m->mark.count ? m->mark.item[m->mark.count - 1] : 0;
}

/* What stands `depth` below the top, above the last mark. */
static tp_pickle *peek(const machine *m, size_t depth)
{
    return m->stack.count - below(m) > depth ? m->stack.item[m->stack.count - 1 - depth]
                                             : tp_fail(TP_ERR_VALUE, "unpickling stack underflow");
}

/* The items above the last mark, borrowed until the next push; the mark is gone. */
static bool pop_mark(machine *m, tp_pickle ***item, size_t *count)
{
    if (!m->mark.count)
        return tp_fail(TP_ERR_VALUE, "could not find MARK");
    size_t height = tp_array_pop(&m->mark);
    *item = m->stack.item + height;
    *count = m->stack.count - height;
    m->stack.count = height;
    return true;
}

static bool extend(machine *m, tp_pickle *to, tp_pickle *const *item, size_t count)
{
    if (count > UINT32_MAX / 2 - to->count)
        return tp_fail_memory();
    if (to->count + count > to->room) {
        size_t room = to->room * 2 > to->count + count ? to->room * 2 : to->count + count;
        tp_pickle **grown = tp_arena_take_array(m->arena, room, sizeof *grown);
        if (!grown)
            return false;
        if (to->count)
            memcpy(grown, to->item, to->count * sizeof *grown);
        to->item = grown;
        to->room = (uint32_t)room;
    }
    if (count)
        memcpy(to->item + to->count, item, count * sizeof *item);
    to->count += (uint32_t)count;
    return true;
}

static bool is_object(const tp_pickle *v)
{
    return v->kind >= TP_PICKLE_GLOBAL;
}

static bool add_step(tp_arena *a, tp_pickle *to, tp_pickle_act act, tp_pickle *x, tp_pickle *y)
{
    tp_pickle_step *s = tp_arena_take(a, sizeof *s);
    if (!s)
        return false;
    *s = (tp_pickle_step){ .act = act, .a = x, .b = y };
    if (to->last_step)
        to->last_step->next = s;
    else
        to->step = s;
    to->last_step = s;
    return true;
}

static const char *const kind_names[] = { "NoneType", "bool", "int", "int", "float", "str", "str", "bytes", "bytearray", "list", "tuple",
                                          "set", "frozenset", "dict", "type", "object", "object", "object" };

/* x.append, x.add for each item; of a list or set at once, of an object as steps. */
static bool append_all(machine *m, tp_pickle *to, tp_pickle_kind kind, tp_pickle_act act, tp_pickle *const *item,
                       size_t count)
{
    if (to->kind == kind)
        return extend(m, to, item, count);
    if (!is_object(to))
        return tp_fail(TP_ERR_VALUE, "Can only append to lists, but got <class '%s'>", kind_names[to->kind]);
    for (size_t i = 0; i < count; i++)
        if (!add_step(m->arena, to, act, item[i], NULL))
            return false;
    return true;
}

static bool set_all(machine *m, tp_pickle *to, tp_pickle *const *item, size_t count)
{
    if (count % 2)
        return tp_fail(TP_ERR_VALUE, "odd number of items for SETITEMS");
    if (to->kind == TP_PICKLE_DICT)
        return extend(m, to, item, count);
    if (!is_object(to))
        return tp_fail(TP_ERR_VALUE, "Can only set items of dicts, but got <class '%s'>", kind_names[to->kind]);
    for (size_t i = 0; i < count; i += 2)
        if (!add_step(m->arena, to, TP_PICKLE_SET_ITEM, item[i], item[i + 1]))
            return false;
    return true;
}

/* ---- single instructions ---- */

/* A container of the `count` topmost values, which it replaces. */
static bool gather(machine *m, tp_pickle_kind kind, size_t count)
{
    if (count && !peek(m, count - 1))
        return false;
    m->stack.count -= count;
    /* The items are read before the node is pushed over the first of them. */
    tp_pickle *first[3] = { 0 };
    memcpy(first, m->stack.item + m->stack.count, count * sizeof *first);
    tp_pickle *v = push_new(m, kind);
    return v && extend(m, v, first, count);
}

static bool gather_marked(machine *m, tp_pickle_kind kind)
{
    tp_pickle **item = NULL;
    size_t count = 0;
    if (!pop_mark(m, &item, &count))
        return false;
    if (kind == TP_PICKLE_DICT && count % 2)
        return tp_fail(TP_ERR_VALUE, "odd number of items for DICT");
    tp_pickle made = { .kind = kind };
    if (!extend(m, &made, item, count))
        return false;
    tp_pickle *v = push_new(m, kind);
    if (!v)
        return false;
    made.id = v->id;
    *v = made;
    return true;
}

static bool do_text(machine *m, tp_pickle_kind kind, const char *text, size_t length)
{
    tp_pickle *v = push_new(m, kind);
    if (!v)
        return false;
    v->length = length;
    return (v->text = tp_text_in(m->arena, text, length)) != NULL;
}

/* Little-endian two's complement, as short as it can be. */
static bool do_long(machine *m, const char *bytes, size_t length)
{
    while (length > 1 && ((bytes[length - 1] == 0 && !(bytes[length - 2] & 0x80)) ||
                          (bytes[length - 1] == (char)0xff && bytes[length - 2] & 0x80)))
        length--;
    if (length > 8)
        return do_text(m, TP_PICKLE_BIG, bytes, length);
    uint64_t value = length && bytes[length - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = length; i-- > 0;)
        value = value << 8 | (uint8_t)bytes[i];
    tp_pickle *v = push_new(m, TP_PICKLE_INT);
    return v && (v->integer = (int64_t)value, true);
}

/* Decimal digits to bytes: quadratic, hence Python's own limit on how many. */
static bool do_decimal(machine *m, const char *text, size_t length)
{
    enum { MOST_DIGITS = 4300 };
    uint8_t value[MOST_DIGITS / 2] = { 0 };
    size_t used = 1;
    bool minus = length && *text == '-';
    if (length && text[length - 1] == 'L')
        length--;
    if (length <= (size_t)minus || length > MOST_DIGITS)
        return tp_fail(TP_ERR_VALUE, "invalid integer in a pickle");
    for (size_t i = minus; i < length; i++) {
        unsigned carry = (unsigned)(text[i] - '0');
        if (carry > 9)
            return tp_fail(TP_ERR_VALUE, "invalid integer in a pickle");
        for (size_t k = 0; k < used || carry; k++) {
            carry += value[k] * 10u;
            value[k] = (uint8_t)carry;
            carry >>= 8;
            used = k + 1 > used ? k + 1 : used;
        }
    }
    for (size_t k = 0, carry = 1; minus && k <= used; k++, carry >>= 8)
        value[k] = (uint8_t)(carry += (uint8_t)~value[k]);
    return do_long(m, (const char *)value, used + 1);
}

static bool do_int_line(machine *m, const instruction *i)
{
    if (i->length == 2 && i->text[0] == '0' && (i->text[1] == '0' || i->text[1] == '1')) {
        tp_pickle *v = push_new(m, TP_PICKLE_BOOL);
        return v && (v->truth = i->text[1] == '1', true);
    }
    return do_decimal(m, i->text, i->length);
}

static bool do_float(machine *m, double number)
{
    tp_pickle *v = push_new(m, TP_PICKLE_FLOAT);
    return v && (v->number = number, true);
}

static bool do_float_line(machine *m, const instruction *i)
{
    const char *text = tp_text_in(m->arena, i->text, i->length);
    locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
    if (!text || !locale) {
        if (locale)
            freelocale(locale);
        return text ? tp_fail_memory() : NULL;
    }
    char *end;
    double number = strtod_l(text, &end, locale);
    freelocale(locale);
    if (end == text || *end)
        return tp_fail(TP_ERR_VALUE, "could not convert string to float: '%s'", text);
    return do_float(m, number);
}

static bool do_float_bits(machine *m, uint64_t bits)
{
    double number;
    bits = __builtin_bswap64(bits);         /* this one stands highest byte first */
    memcpy(&number, &bits, sizeof number);
    return do_float(m, number);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Protocol 0: a quoted repr of Python 2. */
static bool do_quoted(machine *m, const instruction *i)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *s = i->text, *end = s + i->length;
    char *out = tp_arena_take(m->arena, i->length + 1), *at = out;
    if (!out)
        return false;
    if (i->length < 2 || (*s != '\'' && *s != '"') || end[-1] != *s)
        return tp_fail(TP_ERR_VALUE, "the STRING opcode argument must be quoted");
    for (s++, end--; s < end; s++) {
        const char *found;
        if (*s != '\\' || s + 1 == end) {
            *at++ = *s;
        } else if ((found = memchr(from, s[1], sizeof from - 1))) {
            *at++ = to[found - from];
            s++;
        } else if (s[1] == 'x' && end - s >= 4 && hex_digit(s[2]) >= 0 && hex_digit(s[3]) >= 0) {
            *at++ = (char)(hex_digit(s[2]) << 4 | hex_digit(s[3]));
            s += 3;
        } else {
            return tp_fail(TP_ERR_VALUE, "invalid escape in a pickled string");
        }
    }
    return do_text(m, TP_PICKLE_STRING, out, (size_t)(at - out));
}

static char *put_utf8(char *at, uint32_t c)
{
    int count = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    uint32_t rest = c;
    for (int i = count - 1; i > 0; i--, rest >>= 6)
        at[i] = (char)(0x80 | (rest & 0x3f));
    at[0] = (char)(count == 1 ? rest : (0xf00u >> count & 0xff) | rest);
    return at + count;
}

/* Protocol 0: latin-1 with \uXXXX and \UXXXXXXXX. */
static bool do_raw_unicode(machine *m, const instruction *i)
{
    char *out = tp_arena_take(m->arena, 2 * i->length + 1), *at = out;
    if (!out)
        return false;
    for (size_t k = 0; k < i->length; k++) {
        size_t digits = i->text[k] != '\\' || k + 1 == i->length ? 0
                        : i->text[k + 1] == 'u'                  ? 4
                        : i->text[k + 1] == 'U'                  ? 8
                                                                 : 0;
        uint32_t c = (uint8_t)i->text[k];
        if (digits) {
            c = 0;
            for (size_t d = 0; d < digits; d++) {
                int digit = k + 2 + d < i->length ? hex_digit(i->text[k + 2 + d]) : -1;
                if (digit < 0 || c > 0x10ffff)
                    return tp_fail(TP_ERR_VALUE, "invalid \\u escape in a pickled string");
                c = c << 4 | (uint32_t)digit;
            }
            if (c > 0x10ffff)
                return tp_fail(TP_ERR_VALUE, "invalid \\u escape in a pickled string");
            k += digits + 1;
        }
        at = put_utf8(at, c);
    }
    return do_text(m, TP_PICKLE_TEXT, out, (size_t)(at - out));
}

static bool do_global(machine *m, const char *module, size_t module_length, const char *name, size_t name_length)
{
    tp_pickle *v = push_new(m, TP_PICKLE_GLOBAL);
    if (!v)
        return false;
    v->text = tp_text_in(m->arena, module, module_length);
    v->name = tp_text_in(m->arena, name, name_length);
    return v->text && v->name && tp_array_push(&m->global, v);
}

static bool do_stack_global(machine *m)
{
    const tp_pickle *name = peek(m, 0), *module = name ? peek(m, 1) : NULL;
    if (!module)
        return false;
    if (name->kind != TP_PICKLE_TEXT || module->kind != TP_PICKLE_TEXT)
        return tp_fail(TP_ERR_VALUE, "STACK_GLOBAL requires str");
    m->stack.count -= 2;
    return do_global(m, module->text, module->length, name->text, name->length);
}

/* INST and OBJ, of old-style classes: a call of the class. */
static bool do_instance(machine *m, const instruction *i)
{
    tp_pickle **item = NULL;
    if (i->code == 'i') {
        if (!gather_marked(m, TP_PICKLE_TUPLE) || !do_global(m, i->text, i->length, i->more, i->more_length))
            return false;
        item = m->stack.item + m->stack.count - 2;
        tp_pickle *arguments = item[0];
        item[0] = item[1];
        item[1] = arguments;
        return gather(m, TP_PICKLE_CALL, 2);
    }
    size_t count = 0;
    if (!pop_mark(m, &item, &count))
        return false;
    if (count == 0)
        return tp_fail(TP_ERR_VALUE, "unpickling stack underflow");
    m->stack.count++;                       /* the class stays, its arguments are marked again */
    size_t height = m->stack.count;
    m->stack.count += count - 1;
    return tp_array_push(&m->mark, height) && gather_marked(m, TP_PICKLE_TUPLE) && gather(m, TP_PICKLE_CALL, 2);
}

static bool do_call(machine *m, tp_pickle_kind kind, size_t count)
{
    const tp_pickle *arguments = peek(m, count - 2);
    if (!arguments || !peek(m, count - 1))
        return false;
    if (arguments->kind != TP_PICKLE_TUPLE || (count == 3 && peek(m, 0)->kind != TP_PICKLE_DICT))
        return tp_fail(TP_ERR_VALUE, "%s expected an arg tuple, got %s", kind == TP_PICKLE_CALL ? "REDUCE" : "NEWOBJ",
                       kind_names[arguments->kind]);
    return gather(m, kind, count);
}

static bool do_build(machine *m)
{
    tp_pickle *state = peek(m, 0), *to = state ? peek(m, 1) : NULL;
    if (!to)
        return false;
    if (!is_object(to))
        return tp_fail(
            TP_ERR_VALUE,
            "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
            "<class '%s'>",
            kind_names[to->kind]);
    m->stack.count--;
    return add_step(m->arena, to, TP_PICKLE_BUILD, state, NULL);
}

static bool do_append(machine *m)
{
    tp_pickle *item = peek(m, 0), *to = item ? peek(m, 1) : NULL;
    if (!to)
        return false;
    m->stack.count--;
    return append_all(m, to, TP_PICKLE_LIST, TP_PICKLE_APPEND, &item, 1);
}

static bool do_set_item(machine *m)
{
    tp_pickle *value = peek(m, 0), *key = value ? peek(m, 1) : NULL, *to = key ? peek(m, 2) : NULL;
    if (!to)
        return false;
    m->stack.count -= 2;
    return set_all(m, to, (tp_pickle *[]){ key, value }, 2);
}

/* APPENDS, SETITEMS, ADDITEMS: what is above the mark goes into what is below it. */
static bool do_marked(machine *m, uint8_t code)
{
    tp_pickle **item = NULL, *to;
    size_t count = 0;
    if (!pop_mark(m, &item, &count) || !(to = peek(m, 0)))
        return false;
    return code == 'e' ? append_all(m, to, TP_PICKLE_LIST, TP_PICKLE_APPEND, item, count)
         : code == 'u' ? set_all(m, to, item, count)
                       : append_all(m, to, TP_PICKLE_SET, TP_PICKLE_ADD, item, count);
}

static bool do_pop(machine *m)
{
    if (m->stack.count > below(m))
        m->stack.count--;
    else if (m->mark.count)
        m->mark.count--;
    else
        return tp_fail(TP_ERR_VALUE, "unpickling stack underflow");
    return true;
}

static bool memo_index(const instruction *i, uint64_t *index)
{
    *index = i->number;
    if (shapes[i->code] != LINE)
        return true;
    *index = 0;
    if (i->length == 0 || i->length > 18)
        return tp_fail(TP_ERR_VALUE, "invalid memo index in a pickle");
    for (size_t k = 0; k < i->length; k++) {
        if (i->text[k] < '0' || i->text[k] > '9')
            return tp_fail(TP_ERR_VALUE, "invalid memo index in a pickle");
        *index = *index * 10 + (uint64_t)(i->text[k] - '0');
    }
    return true;
}

static bool do_put(machine *m, uint64_t index)
{
    tp_pickle *v = peek(m, 0);
    return v && tp_map_put(&m->memo, index, (uint64_t)(uintptr_t)v);
}

static bool do_get(machine *m, uint64_t index)
{
    uint64_t v;
    if (!tp_map_get(&m->memo, index, &v))
        return tp_fail(TP_ERR_VALUE, "Memo value not found at index %lld", LL(index));
    return push(m, (tp_pickle *)(uintptr_t)v);
}

static bool do_protocol(machine *m, uint64_t protocol)
{
    m->tree->protocol = (int)protocol;
    return protocol <= 5 || tp_fail(TP_ERR_VALUE, "unsupported pickle protocol: %d", (int)protocol);
}

static bool run(machine *m, const instruction *i)
{
    uint64_t index;
    tp_pickle *v;
    switch (i->code) {
    case '(': return tp_array_push(&m->mark, m->stack.count);
    case '0': return do_pop(m);
    case '1': return pop_mark(m, &(tp_pickle **){ NULL }, &(size_t){ 0 });
    case '2': return push(m, peek(m, 0));
    case 'N': return push_new(m, TP_PICKLE_NONE) != NULL;
    case 0x88:
    case 0x89: return (v = push_new(m, TP_PICKLE_BOOL)) && (v->truth = i->code == 0x88, true);
    case 'J':
    case 'K':
    case 'M': return (v = push_new(m, TP_PICKLE_INT)) && (v->integer = (int64_t)i->number, true);
    case 'I': return do_int_line(m, i);
    case 'L': return do_decimal(m, i->text, i->length);
    case 0x8a:
    case 0x8b: return do_long(m, i->text, i->length);
    case 'F': return do_float_line(m, i);
    case 'G': return do_float_bits(m, i->number);
    case 'S': return do_quoted(m, i);
    case 'T':
    case 'U': return do_text(m, TP_PICKLE_STRING, i->text, i->length);
    case 'V': return do_raw_unicode(m, i);
    case 'X':
    case 0x8c:
    case 0x8d: return do_text(m, TP_PICKLE_TEXT, i->text, i->length);
    case 'B':
    case 'C':
    case 0x8e: return do_text(m, TP_PICKLE_BYTES, i->text, i->length);
    case 0x96: return do_text(m, TP_PICKLE_BYTEARRAY, i->text, i->length);
    case ']': return push_new(m, TP_PICKLE_LIST) != NULL;
    case '}': return push_new(m, TP_PICKLE_DICT) != NULL;
    case ')': return push_new(m, TP_PICKLE_TUPLE) != NULL;
    case 0x8f: return push_new(m, TP_PICKLE_SET) != NULL;
    case 'l': return gather_marked(m, TP_PICKLE_LIST);
    case 'd': return gather_marked(m, TP_PICKLE_DICT);
    case 't': return gather_marked(m, TP_PICKLE_TUPLE);
    case 0x91: return gather_marked(m, TP_PICKLE_FROZENSET);
    case 0x85:
    case 0x86:
    case 0x87: return gather(m, TP_PICKLE_TUPLE, i->code - 0x84u);
    case 'a': return do_append(m);
    case 's': return do_set_item(m);
    case 'e':
    case 'u':
    case 0x90: return do_marked(m, i->code);
    case 'b': return do_build(m);
    case 'c': return do_global(m, i->text, i->length, i->more, i->more_length);
    case 0x93: return do_stack_global(m);
    case 'R': return do_call(m, TP_PICKLE_CALL, 2);
    case 0x81: return do_call(m, TP_PICKLE_NEW, 2);
    case 0x92: return do_call(m, TP_PICKLE_NEW, 3);
    case 'i':
    case 'o': return do_instance(m, i);
    case 'P': return do_text(m, TP_PICKLE_TEXT, i->text, i->length) && gather(m, TP_PICKLE_PERSISTENT, 1);
    case 'Q': return gather(m, TP_PICKLE_PERSISTENT, 1);
    case 'p':
    case 'q':
    case 'r': return memo_index(i, &index) && do_put(m, index);
    case 0x94: return do_put(m, m->memo.count);
    case 'g':
    case 'h':
    case 'j': return memo_index(i, &index) && do_get(m, index);
    case 0x80: return do_protocol(m, i->number);
    case 0x95: return i->number <= (size_t)(m->in.end - m->in.at) || tp_fail(TP_ERR_VALUE, "pickle data was truncated");
    default: return tp_fail(TP_ERR_VALUE, "Unsupported operand %d", i->code);
    }
}

static bool finish(machine *m)
{
    tp_pickle_tree *t = m->tree;
    if (!(t->root = peek(m, 0)))
        return false;
    t->used = (size_t)(m->in.at - m->in.begin);
    t->global_count = (uint32_t)m->global.count;
    t->global = tp_arena_take_array(m->arena, m->global.count, sizeof *t->global);
    if (t->global && m->global.count)
        memcpy(t->global, m->global.item, m->global.count * sizeof *t->global);
    return t->global != NULL;
}

bool tp_pickle_read_in(tp_arena *a, const void *bytes, size_t count, tp_pickle_tree *out)
{
    const uint8_t *begin = bytes;
    machine m = { .in = { begin, begin, count ? begin + count : begin }, .arena = a, .tree = out };
    instruction i;
    bool ok = true;
    *out = (tp_pickle_tree){ 0 };
    while ((ok = fetch(&m.in, &i)) && i.code != '.' && (ok = run(&m, &i)))
        continue;
    ok = ok && finish(&m);
    tp_array_fini(&m.stack);
    tp_array_fini(&m.mark);
    tp_array_fini(&m.global);
    tp_map_fini(&m.memo);
    return ok;
}

/* ---- renaming ---- */

bool tp_pickle_rename(const void *bytes, size_t count, const char *from, const char *to, tp_text *out)
{
    const uint8_t *begin = bytes;
    input in = { begin, begin, count ? begin + count : begin };
    size_t length = strlen(from);
    instruction i;
    do {
        const char *op = (const char *)in.at;
        if (!fetch(&in, &i))
            return false;
        if (i.code == 0x93 || i.code == 0x95)
            return tp_fail(TP_ERR_UNIMPLEMENTED, "pickle protocols from 4 on cannot be written under another name");
        bool named = shapes[i.code] == TWO_LINES && i.length >= length && memcmp(i.text, from, length) == 0 &&
                     (i.length == length || i.text[length] == '.');
        if (named) {
            tp_text_put(out, op, 1);
            tp_text_put(out, to, strlen(to));
            op = i.text + length;
        }
        tp_text_put(out, op, (size_t)((const char *)in.at - op));
    } while (i.code != '.');
    return !out->failed;
}
