/* main.c - the command `taper`: saved programs turned into something else.
 *
 *     taper cc   model.pt2 [-o model.c] [--main] [--name function]
 *     taper onnx model.pt2 -o model.onnx
 *
 * Exit status: 0 done, 1 the program could not be read or written, 2 the command was not understood. */
#include <stdio.h>
#include <string.h>

#include "export/translate.h"
#include "format/output.h"

static const char usage[] = "usage: taper cc model.pt2 [-o model.c] [--main] [--name function]\n"
                            "       taper onnx model.pt2 -o model.onnx\n";

typedef struct command {
    const char *what, *source, *target, *function;      /* borrowed from argv */
    bool with_main;
} command;

static bool read_command(command *c, int argc, char **argv)
{
    if (argc < 2)
        return false;
    c->what = argv[1];
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            c->target = argv[++i];
        else if (strcmp(argv[i], "--name") == 0 && i + 1 < argc)
            c->function = argv[++i];
        else if (strcmp(argv[i], "--main") == 0)
            c->with_main = true;
        else if (argv[i][0] != '-' && !c->source)
            c->source = argv[i];
        else
            return false;
    }
    bool onnx = strcmp(c->what, "onnx") == 0;
    return c->source && (onnx ? c->target && !c->with_main && !c->function : strcmp(c->what, "cc") == 0);
}

static bool write_file(const char *path, const tp_text *text)
{
    if (!path)
        return (fwrite(tp_text_read(text), 1, text->length, stdout) == text->length && fflush(stdout) == 0) ||
               tp_fail(TP_ERR_RUNTIME, "standard output cannot be written");
    tp_output *o = tp_output_new(path);
    bool ok = o && tp_output_write(o, tp_text_read(text), text->length);
    return tp_output_finish(o, ok);
}

int main(int argc, char **argv)
{
    command c = { 0 };
    tp_text text = { 0 };
    if (!read_command(&c, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    tp_program *p = tp_program_load(c.source);
    bool ok = p && (strcmp(c.what, "cc") == 0 ? tp_program_to_c(p, c.function, c.with_main, &text) : tp_program_to_onnx(p, &text));
    ok = ok && write_file(c.target, &text);
    if (!ok)
        fprintf(stderr, "taper: %s\n", tp_error_text());
    tp_program_unref(p);
    tp_text_fini(&text);
    return !ok;
}
