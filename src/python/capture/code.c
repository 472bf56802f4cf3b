/* code.c - building code instruction by instruction, and looking at it. */
#include <string.h>

#include "base/error.h"
#include "python/capture/code.h"
#include "python/face.h"

const tp_instruction_info tp_instructions[TP_OPCODE_COUNT] = {
#define TP_INSTRUCTION(name, argument, pops, pushes, jump, edges) \
    [TP_I_##name] = { #name, TP_A_##argument, TP_E_##edges },
#include "python/capture/instruction.def"
#undef TP_INSTRUCTION
};

tp_code *tp_code_new(void)
{
    tp_code *code = tp_alloc_zero(sizeof *code);
    if (!code)
        return NULL;
    PyObject *empty = PyUnicode_FromString("");
    bool ok = empty ? tp_code_keep(code, empty) : face_foreign() != NULL;
    Py_XDECREF(empty);
    if (!ok) {
        tp_code_free(code);
        return NULL;
    }
    code->file = code->name = code->qualified_name = empty;
    code->first_line = 1;
    code->flags = CO_OPTIMIZED | CO_NEWLOCALS;
    return code;
}

void tp_code_free(tp_code *code)
{
    if (!code)
        return;
    for (size_t i = 0; i < code->keep_count; i++)
        Py_DECREF(code->keep[i]);
    tp_free(code->keep);
    tp_free(code->local);
    tp_free(code->item);
    tp_free(code);
}

bool tp_code_keep(tp_code *code, PyObject *object)
{
    if (code->keep_count == code->keep_room &&
        !tp_array_grow((void **)&code->keep, &code->keep_room, code->keep_count + 1, sizeof *code->keep))
        return false;
    code->keep[code->keep_count++] = Py_NewRef(object);
    return true;
}

int32_t tp_code_append(tp_code *code, tp_opcode op, int32_t arg, PyObject *object)
{
    tp_position nowhere = { -1, -1, -1, -1 };
    tp_instruction i = {
        .op = (uint8_t)op,
        .arg = arg,
        .target = -1,
        .object = object,
        .handler = { .target = -1 },
        .position = code->count ? code->item[code->count - 1].position : nowhere,
    };
    if (code->count >= INT32_MAX) {
        (void)tp_fail(TP_ERR_OVERFLOW, "code of more than %d instructions", INT32_MAX);
        return -1;
    }
    if ((object && !tp_code_keep(code, object)) || !tp_array_push(code, i))
        return -1;
    return (int32_t)code->count - 1;
}

int32_t tp_code_append_code(tp_code *code, const tp_code *source, const int32_t *map)
{
    int32_t first = (int32_t)code->count;
    if (code->count + source->count > INT32_MAX) {
        (void)tp_fail(TP_ERR_OVERFLOW, "code of more than %d instructions", INT32_MAX);
        return -1;
    }
    if (!tp_array_reserve(code, code->count + source->count))
        return -1;
    for (size_t k = 0; k < source->keep_count; k++)
        if (!tp_code_keep(code, source->keep[k]))
            return -1;
    for (size_t k = 0; k < source->count; k++) {
        tp_instruction i = source->item[k];
        if (i.target >= 0)
            i.target += first;
        if (i.handler.target >= 0)
            i.handler.target += first;
        if (map && tp_instructions[i.op].argument == TP_A_LOCAL)
            i.arg = map[i.arg];
        code->item[code->count++] = i;
    }
    return first;
}

int32_t tp_code_add_local(tp_code *code, PyObject *name, int kind)
{
    if (code->local_count == code->local_room &&
        !tp_array_grow((void **)&code->local, &code->local_room, code->local_count + 1, sizeof *code->local))
        return -1;
    if (!tp_code_keep(code, name))
        return -1;
    code->local[code->local_count++] = (tp_local){ .name = name, .kind = (uint8_t)kind };
    return (int32_t)code->local_count - 1;
}

bool tp_code_append_prologue(tp_code *code)
{
    int32_t free = 0;
    for (size_t k = 0; k < code->local_count; k++)
        free += code->local[k].kind == TP_LOCAL_FREE;
    if (free && tp_code_append(code, TP_I_COPY_FREE_VARS, free, NULL) < 0)
        return false;
    for (size_t k = 0; k < code->local_count; k++)
        if ((code->local[k].kind & TP_LOCAL_CELL) && tp_code_append(code, TP_I_MAKE_CELL, (int32_t)k, NULL) < 0)
            return false;
    return tp_code_append(code, TP_I_RESUME, 0, NULL) >= 0;
}

int32_t tp_code_arguments(const tp_code *code)
{
    return code->argument_count + code->keyword_only + !!(code->flags & CO_VARARGS) + !!(code->flags & CO_VARKEYWORDS);
}

void tp_code_flatten_arguments(tp_code *code)
{
    code->argument_count = tp_code_arguments(code);
    code->positional_only = code->keyword_only = 0;
    code->flags &= ~(CO_VARARGS | CO_VARKEYWORDS);
}

static void print_object(tp_text *text, PyObject *object)
{
    PyObject *repr = PyObject_Repr(object);
    const char *utf8 = repr ? PyUnicode_AsUTF8(repr) : NULL;
    tp_text_add(text, " %s", utf8 ? utf8 : "?");
    Py_XDECREF(repr);
    PyErr_Clear();      /* a repr that raises is the object's affair: this is a log */
}

static void print_argument(tp_text *text, const tp_code *code, const tp_instruction *i)
{
    switch (tp_instructions[i->op].argument) {
    case TP_A_NONE: break;
    case TP_A_CONSTANT:
    case TP_A_NAME:
        if (i->object)
            print_object(text, i->object);
        break;
    case TP_A_LOCAL:
        if (i->arg >= 0 && (size_t)i->arg < code->local_count)
            print_object(text, code->local[i->arg].name);
        break;
    case TP_A_TARGET: tp_text_add(text, " to %d", i->target); break;
    case TP_A_CALL:
        tp_text_add(text, " %d", i->arg);
        if (i->object)
            print_object(text, i->object);
        break;
    default: tp_text_add(text, " %d", i->arg); break;
    }
}

void tp_code_print(const tp_code *code, tp_text *text)
{
    for (size_t k = 0; k < code->count; k++) {
        const tp_instruction *i = &code->item[k];
        tp_text_add(text, "%4zu %4d %s", k, i->position.line, tp_instructions[i->op].name);
        print_argument(text, code, i);
        if (i->flags & TP_CALLED)
            tp_text_add(text, " (called)");
        if (i->handler.target >= 0)
            tp_text_add(text, "    except %d [%d]%s", i->handler.target, i->handler.depth,
                        i->handler.lasti ? " lasti" : "");
        tp_text_add(text, "\n");
    }
}
