/* names.c - names of nodes, as FX gives them: what a target suggests, made unique, never a word of Python.
 *
 * A name is a stem, or a stem and a number after an underscore. One that is taken gets the stem's next number; numbers are
 * never given again, so a name in an old printout still means one node. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/graph.h"

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

static bool is_taken(const tp_graph *g, const char *name)
{
    uint64_t one;
    return tp_text_map_get(&g->names.used, name, &one) ||
           bsearch(name, taken_words, TP_COUNT(taken_words), sizeof *taken_words, compare_words);
}

/* Runs of anything but letters, digits and underscores become one underscore; a digit does not come first. */
static void make_legal(const char *wish, tp_text *out)
{
    bool gap = false;
    if (isdigit((unsigned char)*wish))
        tp_text_put(out, "_", 1);
    for (; *wish; wish++) {
        bool plain = (unsigned char)*wish < 128 && (isalnum((unsigned char)*wish) || *wish == '_');
        if (plain)
            tp_text_put(out, wish, 1);
        else if (!gap)
            tp_text_put(out, "_", 1);
        gap = !plain;
    }
    if (!out->length)
        tp_text_add(out, "_unnamed");
}

/* Where the number of "stem_12" begins; the length when it has none. */
static size_t number_at(const char *name, size_t length)
{
    size_t at = length;
    while (at > 0 && isdigit((unsigned char)name[at - 1]))
        at--;
    return at < length && at > 0 && name[at - 1] == '_' ? at : length;
}

const char *tp_graph_name(tp_graph *g, const char *wish)
{
    tp_text name = { 0 }, stem = { 0 };
    const char *kept = NULL;
    make_legal(wish, &name);
    size_t at = number_at(tp_text_read(&name), name.length);
    uint64_t number = at < name.length ? strtoull(name.at + at, NULL, 10) : 0;
    tp_text_put(&stem, tp_text_read(&name), at < name.length ? at - 1 : at);
    if (!number)
        (void)tp_text_map_get(&g->names.base, tp_text_read(&stem), &number);
    while (!name.failed && !stem.failed && is_taken(g, tp_text_read(&name))) {
        tp_text_fini(&name);
        name = (tp_text){ 0 };
        tp_text_add(&name, "%s_%llu", tp_text_read(&stem), (unsigned long long)++number);
    }
    if (name.failed || stem.failed)
        (void)tp_fail_memory();
    else if (tp_text_map_put(&g->names.used, name.at, 1) && tp_text_map_put(&g->names.base, tp_text_read(&stem), number))
        kept = tp_text_in(&g->arena, name.at, name.length);
    tp_text_fini(&name);
    tp_text_fini(&stem);
    return kept;
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

bool tp_target_wish(tp_target target, tp_text *out)
{
    tp_text name = { 0 };
    bool ok = true;
    switch ((tp_target_kind)target.kind) {
    case TP_TARGET_NAME: tp_text_add(&name, "%s", target.name); break;
    case TP_TARGET_OP:
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
