/* code.h - a graph as Python code and as FX's own listing.
 *
 *     def forward(self, x, y):
 *         add = x + y;  x = y = None
 *         return (add,)
 *
 * The code is what torch.fx prints, letter for letter, in the form of mid 2024: values are let go after their last use,
 * and a node nobody reads is not. What only Python knows (how a callable is called, what a type is named) comes from a
 * host.
 *
 * Owners: texts are appended to `out`, the caller's. Nothing here keeps anything.
 * Fails: no memory (the text's `failed`, looked at once), and what the host's functions fail with. */
#ifndef TP_IR_CODE_H
#define TP_IR_CODE_H

#include "ir/graph.h"

/* What a program with Python lends. A NULL host, or a NULL function, means: no Python, handles print as their repr. */
typedef struct tp_code_host {
    void *data;
    /* The expression that calls it in code, whose global names it remembers: "torch.relu", "math_sqrt". */
    bool (*callable)(void *data, tp_handle *h, tp_text *out);
    /* Its name in listings: "torch.relu", "operator.add". */
    bool (*qualified)(void *data, tp_handle *h, tp_text *out);
    /* "add" of operator.add and "getattr" of the built-in function; NULL: it is called by name. */
    const char *(*magic)(void *data, tp_handle *h);
    /* as `callable`, for those without a form of their own */
    bool (*builtin)(void *data, const tp_builtin *b, tp_text *out);
    /* A constant that is no plain value: handle, tensor, generator. `plain`: as str() shows it, else as code. */
    bool (*constant)(void *data, tp_value v, bool plain, tp_text *out);
    bool (*annotation)(void *data, tp_handle *type, bool plain, tp_text *out);
    /* What a node yields, for verbose code: appends "f32[2, 3]", or nothing where that is not known. */
    bool (*yields)(void *data, const tp_node *n, tp_text *out);
    /* The stack trace of a node; NULL: none. Borrowed until the next call. */
    const char *(*trace)(void *data, const tp_node *n);
    bool (*wrapped)(void *data, const tp_node *n);      /* was its callable registered with fx.wrap? */
    /* The line of `def` and what stands before the body; the statement that returns. Used where not NULL. */
    bool (*signature)(void *data, char *const *parameter, size_t count, const char *returns, tp_text *out);
    bool (*result)(void *data, const tp_node *output, const char *printed, tp_text *out);
} tp_code_host;

typedef struct tp_code_options {
    const char *root;               /* "self" */
    bool verbose;                   /* notes what nodes yield and where they come from */
    bool stride, device;            /* in these notes */
} tp_code_options;

typedef enum tp_code_form {
    TP_FORM_CODE,                   /* as Python reads it: node names, quoted texts */
    TP_FORM_LISTING,                /* as listings show arguments: %x, bare texts */
    TP_FORM_STR,                    /* as str() shows them: node names */
    TP_FORM_TEXT,                   /* as text.h reads them back: %x, sym("s0 + 1"), quoted texts */
} tp_code_form;

/* The whole function. */
TP_API TP_CHECK bool tp_graph_code(const tp_graph *g, const tp_code_host *host, const tp_code_options *options,
                                   tp_text *out);
TP_API TP_CHECK bool tp_code_value(const tp_code_host *host, tp_value v, tp_code_form form, tp_text *out);
/* "self.a.b"; parts that are no names are reached by getattr: getattr(self.a, "0"). */
TP_API void tp_code_path(const char *root, const char *path, tp_text *out);
/* What stands between double quotes, in Python and in graph texts: whatever the text holds, it stays one. */
TP_API void tp_put_escaped(tp_text *out, const char *text, size_t length);
/* "f32[2, 3]", with strides and device when asked; nothing for a value that is no tensor and no symbol. */
TP_API void tp_code_fact(tp_value fact, bool stride, bool device, tp_text *out);

/* ---- listings (listing.c) ---- */
/* %add : [num_users=1] = call_function[target=operator.add](args = (%x, %y), kwargs = {}) */
TP_API TP_CHECK bool tp_node_list(const tp_node *n, const tp_code_host *host, tp_text *out);
TP_API TP_CHECK bool tp_graph_list(const tp_graph *g, const tp_code_host *host, tp_text *out);      /* str(graph) */
TP_API TP_CHECK bool tp_graph_table(const tp_graph *g, const tp_code_host *host, tp_text *out);     /* print_tabular */

#endif
