/* names.c - names of nodes, as FX gives them: what a target suggests, made unique, never a word of Python.
 *
 * A name is a stem, or a stem and a number after an underscore. One that is taken gets the stem's next number; numbers are
 * never given again, so a name in an old printout still means one node. A free name with a number sets the
 * number that the next one of its stem comes after, also backwards. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/internal.h"

/* Names that generated Python code could not use, or uses itself. Sorted. */
static const char *const taken_words[] = {
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BaseExceptionGroup", "BlockingIOError",
    "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError", "ConnectionAbortedError",
    "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "DeprecationWarning", "EOFError", "Ellipsis",
    "EncodingWarning", "EnvironmentError", "Exception", "ExceptionGroup", "False", "FileExistsError",
    "FileNotFoundError", "FloatingPointError", "FutureWarning", "GeneratorExit", "IOError", "ImportError",
    "ImportWarning", "IndentationError", "IndexError", "InterruptedError", "IsADirectoryError", "KeyError",
    "KeyboardInterrupt", "LookupError", "MemoryError", "ModuleNotFoundError", "NameError", "None", "NoneType",
    "NotADirectoryError", "NotImplemented", "NotImplementedError", "OSError", "OverflowError",
    "PendingDeprecationWarning", "PermissionError", "ProcessLookupError", "RecursionError", "ReferenceError",
    "ResourceWarning", "RuntimeError", "RuntimeWarning", "StopAsyncIteration", "StopIteration", "SyntaxError",
    "SyntaxWarning", "SystemError", "SystemExit", "TabError", "TimeoutError", "True", "TypeError",
    "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError",
    "UnicodeWarning", "UserWarning", "ValueError", "Warning", "ZeroDivisionError", "__build_class__", "__debug__",
    "__doc__", "__import__", "__loader__", "__name__", "__package__", "__spec__", "abs", "aiter", "all", "and",
    "anext", "any", "as", "ascii", "assert", "async", "await", "bin", "bool", "break", "breakpoint", "bytearray",
    "bytes", "callable", "chr", "class", "classmethod", "compile", "complex", "continue", "copyright", "credits",
    "def", "del", "delattr", "device", "dict", "dir", "divmod", "elif", "else", "enumerate", "eval", "except", "exec",
    "exit", "filter", "finally", "float", "for", "format", "from", "frozenset", "fx_pytree", "getattr", "global",
    "globals", "hasattr", "hash", "help", "hex", "id", "if", "import", "in", "inf", "input", "int", "is",
    "isinstance", "issubclass", "iter", "lambda", "len", "license", "list", "locals", "map", "max", "memoryview",
    "min", "nan", "next", "nonlocal", "not", "object", "oct", "open", "or", "ord", "pass", "pow", "print", "property",
    "pytree", "quit", "raise", "range", "repr", "return", "reversed", "round", "set", "setattr", "slice", "sorted",
    "staticmethod", "str", "sum", "super", "torch", "try", "tuple", "type", "vars", "while", "with", "yield", "zip",
};

static int compare_words(const void *key, const void *item)
{
    return strcmp(key, *(const char *const *)item);
}

/* A name that ends in a number is no word. */
static bool is_word(const char *name)
{
    return bsearch(name, taken_words, TP_COUNT(taken_words), sizeof *taken_words, compare_words);
}

/* Runs of anything but letters, digits and underscores become one underscore; a digit does not come first. */
static size_t make_legal(const char *wish, char *out)
{
    char *at = out;
    bool gap = false;
    if (isdigit((unsigned char)*wish))
        *at++ = '_';
    for (; *wish; wish++) {
        bool plain = (unsigned char)*wish < 128 && (isalnum((unsigned char)*wish) || *wish == '_');
        if (plain || !gap)
            *at++ = plain ? *wish : '_';
        gap = !plain;
    }
    *at = 0;
    return at > out ? (size_t)(at - out) : strlen(strcpy(out, "_unnamed"));
}

/* Where the number of "stem_12" begins; the length when it has none. "_12" is a stem: the call of a module named 12. */
static size_t number_at(const char *name, size_t length)
{
    size_t at = length;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < length && at > 1 && name[at - 1] == '_' ? at : length;
}

/* What a graph knows of the names that share a stem. The numbers from 1 to `run` are all taken: they stand here and in no map,
 * since a graph of fifty thousand nodes has a dozen stems. */
typedef struct tp_stem {
    uint64_t last;              /* the next number comes after this one */
    uint64_t run;
} tp_stem;

static tp_stem *stem_of(tp_graph *g, const char *stem, uint64_t first)
{
    uint64_t known;
    if (tp_text_map_get(&g->names.stem, stem, &known))
        return (tp_stem *)(uintptr_t)known;
    tp_stem *made = tp_arena_take(&g->arena, sizeof *made);
    if (!made || !tp_text_map_put(&g->names.stem, stem, (uintptr_t)made))
        return NULL;
    *made = (tp_stem){ .last = first };
    return made;
}

static bool is_used(const tp_graph *g, const char *name)
{
    uint64_t any;
    return tp_text_map_get(&g->names.used, name, &any);
}

const char *tp_graph_name(tp_graph *g, const char *wish)
{
    char few[128], *name = few;
    size_t room = strlen(wish) + 48;            /* "_unnamed", an underscore before a digit, a number behind */
    if (room > sizeof few && !(name = tp_alloc(room)))
        return NULL;
    size_t length = make_legal(wish, name), at = number_at(name, length), stem_length = at < length ? at - 1 : length;
    uint64_t number = at < length ? strtoull(name + at, NULL, 10) : 0;
    bool counts = at < length && name[at] != '0';       /* x_07 is no number of a run */
    char end = name[stem_length];
    name[stem_length] = 0;
    tp_stem *stem = stem_of(g, name, number);
    name[stem_length] = end;
    bool ok = stem, taken = ok && ((counts && number <= stem->run) || is_used(g, name));
    if (ok && !taken && at == length && is_word(name))  /* noted as used, so that it is not looked for again */
        ok = taken = tp_text_map_put(&g->names.used, name, 1);
    if (ok && (taken || at == length))
        number = stem->last;
    while (taken) {
        name[stem_length] = '_';
        length = stem_length + 1 + tp_text_digits(name + stem_length + 1, ++number);
        counts = true;
        taken = number <= stem->run || is_used(g, name);
    }
    const char *kept = NULL;
    if (ok && counts && number == stem->run + 1) {
        if ((kept = tp_text_in(&g->arena, name, length)))
            stem->run++;
    } else if (ok) {
        kept = tp_text_map_keep(&g->names.used, name, 1);
    }
    if (kept)
        stem->last = number;
    if (name != few)
        tp_free(name);
    return kept ? kept : tp_fail_memory();
}

bool tp_names_copy(tp_graph *g, const tp_graph *from)
{
    if (!tp_text_map_copy(&g->names.used, &from->names.used) || !tp_text_map_copy(&g->names.stem, &from->names.stem))
        return false;
    for (size_t i = 0; i < g->names.stem.room; i++) {
        struct tp_text_slot *s = &g->names.stem.slot[i];
        tp_stem *made = s->text ? tp_arena_take(&g->arena, sizeof *made) : NULL;
        if (s->text && !made)
            return false;
        if (made)
            *made = *(const tp_stem *)(uintptr_t)s->value;
        s->value = (uintptr_t)made;
    }
    return true;
}

/* "__add__" is add; "addMM" is add_mm; capitals become small. */
static void snake(const char *name, bool magic, tp_text *out)
{
    size_t length = strlen(name), from = 0, to = length;
    if (magic && length > 4 && !strncmp(name, "__", 2) && !strcmp(name + length - 2, "__"))
        from = 2, to = length - 2;
    for (size_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)name[i], before = i > from ? (unsigned char)name[i - 1] : '_';
        if (isupper(c) && (islower(before) || isdigit(before)))
            tp_text_put(out, "_", 1);
        char small = (char)(c < 128 ? tolower(c) : c);
        tp_text_put(out, &small, 1);
    }
}

void tp_target_op_text(const tp_op *op, const char *prefix, tp_text *out)
{
    if (op->rare->graphs)             /* ops that take functions have no overloads */
        tp_text_add(out, "%s%s.%s", prefix, op->space, op->name);
    else
        tp_text_add(out, "%s%s.%s.%s", prefix, op->space, op->name, *op->overload ? op->overload : "default");
}

bool tp_target_wish(tp_target target, tp_text *out)
{
    tp_text name = { 0 };
    bool ok = true;
    switch ((tp_target_kind)target.kind) {
    case TP_TARGET_NAME: tp_text_add(&name, "%s", target.name); break;
    case TP_TARGET_OP:
        if (target.op->rare->graphs)
            tp_text_add(&name, "%s", target.op->rare->graphs->node);
        else
            tp_text_add(&name, "%s.%s", target.op->name, *target.op->overload ? target.op->overload : "default");
        break;
    case TP_TARGET_BUILTIN: tp_text_add(&name, "%s", target.builtin->name); break;
    case TP_TARGET_HANDLE:
        ok = target.handle->type->name(target.handle, &name);
        break;
    }
    snake(tp_text_read(&name), target.kind == TP_TARGET_NAME, out);
    ok = ok && ((!name.failed && !out->failed) || tp_fail_memory());
    tp_text_fini(&name);
    return ok;
}
