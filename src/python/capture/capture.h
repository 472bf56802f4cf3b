/* capture.h - one capture: Python code followed instruction by instruction, tensors recorded, the rest simply done.
 *
 * The idea. Values are Python objects. What the code makes itself (numbers, lists, functions, instances) is made for real;
 * tensors among it are fake ones that the graph has a node for. What comes from outside (arguments, globals, attributes of
 * these) is never changed: it enters through capture_wrap, which guards it and, for a tensor, gives its stand-in; a
 * container from outside is read and written through a shadow; stores to outside objects wait in a list of effects. So an
 * operation that the capture does not know about tensors can be done by Python itself, and what is left to write are calls,
 * attributes and the instructions.
 *
 * Stopping. What cannot be followed raises Unsupported (torch._dynamo.exc), which no handler of the captured code sees. Any
 * other exception is the captured program's own.
 *
 * Owners: a capture lives on the stack of compile.c; frames, generators and wrapped callables point to it and are told when
 * it ends (capture->over). All functions hold the GIL; a PyObject * result is a new reference, NULL: exception set. */
#ifndef TP_PYTHON_CAPTURE_CAPTURE_H
#define TP_PYTHON_CAPTURE_CAPTURE_H

#include "ir/graph.h"
#include "python/capture/code.h"
#include "python/capture/source.h"
#include "python/face.h"
#include "python/fx.h"

/* What the capture knows of an object it met, by identity. */
typedef struct record {
    PyObject *object;       /* counted */
    PyObject *shadow;       /* counted, may be NULL: stands for an outside container */
    tp_node  *node;         /* of a tensor, else NULL */
    int32_t   source;       /* NO_SOURCE: made inside */
    bool      outside;
    bool      written;      /* the shadow was changed */
    bool      cell;         /* a cell from outside: `source` is that of its contents */
} record;

typedef enum effect_kind { EFFECT_ATTRIBUTE, EFFECT_CELL, EFFECT_GLOBAL, EFFECT_CONTAINER } effect_kind;
typedef struct effect {
    uint8_t   kind;
    PyObject *object;       /* counted: instance, cell, dict of globals, outside container */
    PyObject *name;         /* counted, may be NULL */
    PyObject *value;        /* counted; NULL: deleted */
} effect;

typedef struct graph_input {
    int32_t   source;
    PyObject *stand_in;     /* counted: the fake tensor */
    tp_node  *node;
} graph_input;

typedef struct capture {
    tp_sources *sources;            /* borrowed: the entry's */
    tp_graph   *graph;              /* counted */
    tp_map      at;                 /* address of an object -> index of its record */
    tp_array(record) record;
    tp_array(effect) effect;
    tp_array(graph_input) input;
    tp_map      builtins;           /* hash of globals and name -> 1: names guarded to be builtins */
    tp_map      decoded;            /* code object -> tp_code *, owned */
    PyObject   *attributes;         /* counted dict: name -> module or tensor that the graph refers to */
    PyObject   *attribute_names;    /* counted dict: address -> name */
    PyObject   *callables;          /* counted list: what C code was given to call, to be told when it is over */
    PyObject   *handled;            /* counted, may be NULL: exception being handled */
    call_state  call;               /* of the root frame */
    PyObject   *globals;            /* borrowed: of the root function */
    struct frame *frame;            /* innermost */
    struct generator *generators;   /* alive ones, to be told when it is over */
    unsigned    steps;              /* instructions done */
    struct thread_state *start;     /* borrowed: what is put back at its end */
    bool        runs_code;          /* the back end runs the graph's generated code, which has no words for every object */
    bool        takes_objects;      /* the node being made may have arguments that generated code has no words for */
} capture;

/* torch.compiler.set_stance, in the order of its names in _dynamo/eval_frame.py */
enum { STANCE_DEFAULT, STANCE_EAGER, STANCE_EAGER_ON_RECOMPILE, STANCE_FAIL_ON_RECOMPILE };

/* ---- what Python tells us once (torch._dynamo): classes and functions by what a capture does with them ---- */
typedef struct capture_words {
    PyObject *unsupported;          /* exception class */
    PyObject *module;               /* nn.Module */
    PyObject *opened;               /* tuple: classes of torch.nn whose instances are followed, not recorded whole */
    PyObject *recorded;             /* set: Python functions that become one node */
    PyObject *contexts;             /* tuple: classes of torch whose __enter__ and __exit__ are done for real */
    PyObject *breaks;               /* set: callables that cannot be captured */
    PyObject *pure, *asked, *acting;        /* sets of callables that meet global state, as state_calls.c says */
    PyObject *known_as;             /* dict: name of a function that gives a capture up -> what programs call it */
    PyObject *function_apply;       /* autograd.Function.apply in C */
    PyObject *code_backends;        /* set: back ends that run the generated code of a graph */
    PyObject *affirmed;             /* set: functions that ask whether code is being captured */
    PyObject *trees;                /* set: functions over nested containers, as the registered classes say; */
    PyObject *tree_classes;         /* dict: those classes */
    PyObject *switches;             /* class: what a module of the package keeps its settings in */
    PyObject *operators;            /* tuple: operator functions by tp_operator */
    PyObject *comparisons;          /* tuple: by Py_LT … */
    PyObject *getitem, *setitem, *neg, *pos, *invert, *getattr;
    PyObject *set_grad_enabled;     /* what a graph calls to switch gradients */
    PyObject *partial;              /* functools.partial */
    PyObject *failed;               /* exception class: a back end failed */
    PyObject *compile_graph;        /* called with back end, graph, attributes, examples; gives what runs the graph */
    struct code_entries *entries;   /* borrowed: of a code object, and through it of all others */
    PyObject *recompiled;           /* exception class: a second capture, where `strict` */
    PyObject *needs_data;           /* tuple of exception classes of fake tensors */
    PyObject *over_limit;           /* exception class: more entries than that are wanted, where nothing may run as it is */
    int       limit, total_limit;   /* entries a code object may have about the same modules, and in all */
    bool      strict, suppress;     /* a second capture is an error; a back end that fails is none */
    int       stance;               /* STANCE_…: what calls of compiled callables do */
} capture_words;
capture_words *capture_the_words(void);     /* NULL: torch._dynamo was not imported yet */

/* ---- world.c: objects and where they come from ---- */
bool capture_init(capture *c, tp_sources *sources);
void capture_fini(capture *c);
record *capture_record(capture *c, PyObject *o);            /* NULL: not met; no exception */
record *capture_note(capture *c, PyObject *o, int32_t source, bool outside);     /* NULL: exception set */
PyObject *capture_wrap(capture *c, PyObject *o, int32_t source);     /* an object from outside enters */
PyObject *capture_wrap_member(capture *c, PyObject *o, int32_t source);     /* the same of a module's parameter, buffer or child */
bool capture_is_outside(capture *c, PyObject *o);
PyObject *capture_shadow(capture *c, PyObject *o, bool write);       /* of an outside container; others: the object itself */
PyObject *capture_inside(capture *c, PyObject *o);          /* deep: no outside container in it */
tp_node *capture_node(capture *c, PyObject *tensor);        /* NULL: exception set */
bool capture_has_tensor(PyObject *o);                       /* itself or inside lists, tuples, dicts, slices */
bool capture_is_constant(PyObject *o);                      /* guarded by value */
bool capture_is_fixed(PyObject *o);                         /* guarded by identity: a function, a class, a module */
bool capture_is_package(const char *name);                  /* this package or a module in it */
bool capture_trusts(PyObject *globals);                     /* code of this package: what it reads is not guarded */
PyObject *capture_attribute_name(capture *c, PyObject *o, int32_t source);      /* of a graph attribute for `o` */
void *capture_unsupported(const char *format, ...);         /* raises; NULL */
void *capture_graph_error(capture *c);                      /* raises what made the graph fail; NULL */

/* ---- pure.c: what C code a capture may run, and what it may see ---- */
typedef enum capture_use { CAPTURE_USE_UNKNOWN, CAPTURE_USE_READS, CAPTURE_USE_WRITES } capture_use;
typedef enum capture_sight {
    CAPTURE_SEES_KEYS,              /* hashes and compares it: a tensor is itself */
    CAPTURE_SEES_ALL,               /* compares, converts or prints it */
} capture_sight;
bool capture_function_reads(const char *module, const char *name);
capture_use capture_method_use(PyObject *self, const char *name);       /* of an object, or of a class for its instances */
bool capture_makes(PyTypeObject *type);                     /* making an instance touches nothing but what it is given */
bool capture_keeps_arguments(PyTypeObject *type);           /* an instance holds what it is made of as it is given */
bool capture_iterates(const char *method);                  /* takes the items of its arguments */
bool capture_is_field(PyTypeObject *type, const char *name);            /* an attribute of a C class that is read by path */
bool capture_is_python_class(PyTypeObject *type);
bool capture_is_enum(PyTypeObject *type);
bool capture_is_named_tuple(PyTypeObject *type);
bool capture_is_numpy_number(PyObject *o);
bool capture_is_thread_local(PyObject *o);
bool capture_trusts_class(PyTypeObject *type);              /* a class of this package */
bool capture_compares_by_identity(PyTypeObject *type);
bool capture_is_modelled(PyObject *o);                      /* from outside, it is read through a shadow */
bool capture_pin(capture *c, PyObject *o);                  /* guards that it is this object */
/* False: Unsupported is raised. `what` is a verb: "iterating". */
bool capture_may_read(capture *c, PyObject *o, const char *what);
PyObject *capture_key(capture *c, PyObject *o);             /* as a key of a dict or set; NULL: exception */
bool capture_sees(capture *c, PyObject *o, capture_sight sight);        /* deep; containers are inside ones already */

/* ---- tensors.c: what becomes a node ---- */
PyObject *capture_call_function(capture *c, PyObject *target, PyObject *args, PyObject *kwargs);    /* kwargs may be NULL */
PyObject *capture_call_method(capture *c, const char *name, PyObject *args, PyObject *kwargs);      /* args[0] is the tensor */
PyObject *capture_call_module(capture *c, PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *capture_two(capture *c, PyObject *function, PyObject *a, PyObject *b);        /* call_function of two arguments */
bool capture_note_grad_mode(capture *c, bool before);       /* a node when the mode is another now */
PyObject *capture_call_acting(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs);     /* done now, and a node */
PyObject *capture_real_tensor(capture *c, PyObject *o);     /* borrowed: what a stand-in stands for; others: the object itself */
PyObject *capture_tensor_attribute(capture *c, PyObject *tensor, PyObject *name);
PyObject *capture_tensor_items(capture *c, PyObject *tensor);           /* list of its rows */

/* ---- attributes.c ---- */
PyObject *capture_load_attribute(capture *c, PyObject *o, PyObject *name);
bool capture_store_attribute(capture *c, PyObject *o, PyObject *name, PyObject *value);     /* value NULL: delete */
PyObject *capture_load_global(capture *c, PyObject *globals, PyObject *builtins, PyObject *name);
bool capture_store_global(capture *c, PyObject *globals, PyObject *name, PyObject *value);
PyObject *capture_load_cell(capture *c, PyObject *cell, PyObject *name);
bool capture_store_cell(capture *c, PyObject *cell, PyObject *value);
bool capture_keep_member(capture *c, PyObject *o, PyObject *name, PyObject *member);       /* guards what a class has under a name */
PyObject *capture_special(capture *c, PyObject *o, const char *name);   /* capture_method for a call: guarded; NULL may be an exception */
PyObject *capture_method(PyObject *o, const char *name);    /* Python function behind a special method; NULL without exception: none */

/* ---- calls.c ---- */
PyObject *capture_call(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs);
PyObject *capture_call_one(capture *c, PyObject *callable, PyObject *arg);
/* Arguments to the slots of a function's frame: new references, NULL where a default is wanted. 0: they do not fit (no
 * exception, nothing owned); -1: exception. kwargs may be NULL. */
int capture_bind(PyObject *function, PyObject *const *args, Py_ssize_t count, PyObject *kwargs, PyObject **slot);
/* Fills what is NULL from the function's defaults; through the gate when `c` is given. 0: something is missing. */
int capture_fill_defaults(capture *c, PyObject *function, PyObject **slot);
int capture_slot_count(PyCodeObject *code);
enum { MOST_SLOTS = 255 };
PyObject *capture_all_for_c(capture *c, PyObject *args, bool pairs);       /* arguments that C code iterates; the first gives pairs */
typedef enum capture_given {
    CAPTURE_GIVEN_ITERATED,         /* its items are taken: a shadow for a container from outside, whose items are themselves */
    CAPTURE_GIVEN_READ,             /* looked at with all it holds, and not kept: nothing in it is from outside */
} capture_given;
PyObject *capture_for_c(capture *c, PyObject *o, capture_given how);        /* an argument as C code may have it */
PyObject *capture_real_call(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs, capture_given how);
bool capture_holds_written(capture *c, PyObject *o, int depth);     /* a container from outside that is not any more what C code would see */
/* Text as str (how 1), repr (2), ascii (3) or format (0) give it; spec may be NULL. */
PyObject *capture_text(capture *c, PyObject *o, int how, PyObject *spec);
PyObject *capture_call_special(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs, bool *done);   /* builtins.c */

/* ---- state_calls.c ---- */
int capture_is_listed(PyObject *set, PyObject *callable);   /* -1: exception */
PyObject *capture_ask(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs);     /* a setting is read, and guarded */
PyObject *capture_call_extension(capture *c, PyObject *function, PyObject *args, PyObject *kwargs);  /* of the extension, no op */
PyObject *capture_setting(capture *c, PyObject *globals, PyObject *name, PyObject *value);   /* a global of the package is read */
/* ---- methods.c ---- */
PyObject *capture_call_bound(capture *c, PyObject *self, const char *name, PyObject *args, PyObject *kwargs);
PyObject *capture_call_slot(capture *c, PyTypeObject *class, PyObject *self, const char *name, PyObject *args, PyObject *kwargs);

/* ---- callable.c ---- */
PyObject *capture_callable(capture *c, PyObject *function); /* what C code may call: runs the function in the capture */
void capture_end_callables(capture *c);
bool capture_callable_init(PyObject *module);

/* ---- items.c: operators, items, truth ---- */
PyObject *capture_binary(capture *c, int operator, PyObject *a, PyObject *b);
PyObject *capture_compare(capture *c, int how, PyObject *a, PyObject *b);
PyObject *capture_get_item(capture *c, PyObject *o, PyObject *key);
bool capture_set_item(capture *c, PyObject *o, PyObject *key, PyObject *value);         /* value NULL: delete */
int capture_contains(capture *c, PyObject *o, PyObject *item);      /* -1: exception */
int capture_truth(capture *c, PyObject *o);
int capture_is_same(capture *c, PyObject *a, PyObject *b);  /* `is`, guarded; -1: exception */
PyObject *capture_iterator(capture *c, PyObject *o);
PyObject *capture_length(capture *c, PyObject *o);

/* ---- interpret.c ---- */
typedef struct frame {
    capture  *capture;
    struct frame *outer;
    const tp_code *code;            /* borrowed from the capture */
    PyObject *function;             /* counted */
    PyObject *globals, *builtins;   /* borrowed from the function */
    int32_t   source;               /* of the function; NO_SOURCE: made inside or trusted */
    bool      root;
    PyObject **local;               /* owned; a cell where the local is one */
    int32_t  *pending;              /* root: source of an argument not read yet, else NO_SOURCE */
    PyObject **stack;               /* owned */
    int32_t   depth, at;            /* values on the stack; next instruction */
    PyObject *taken;                /* counted, may be NULL: yielded or returned */
} frame;
typedef enum frame_end { FRAME_RAISED, FRAME_RETURNED, FRAME_YIELDED } frame_end;
/* Takes the slots. */
frame *frame_new(capture *c, PyObject *function, PyObject **slot, bool root);
void frame_free(frame *f);
frame_end frame_run(frame *f);
PyObject *capture_inline(capture *c, PyObject *function, PyObject **slot);       /* takes the slots; runs or makes a generator */
bool capture_generator_init(PyObject *module);
void capture_user_stack(capture *c, tp_text *out);          /* "File …, line …, in …" of the frames, outermost first */

/* ---- recipe.c: results and effects of a captured call, made again at each call ---- */
typedef struct recipe recipe;
typedef struct recipe_part recipe_part;
TP_CHECK recipe *recipe_new(capture *c, PyObject *result);      /* of the value that the root frame gave */
size_t recipe_output_count(const recipe *r);                /* the nodes whose values the graph must give */
tp_node *recipe_output(const recipe *r, size_t i);
void recipe_free(recipe *r);
PyObject *recipe_run(const recipe *r, PyObject *const *outputs, const tp_sources *s, const call_state *call, PyObject **values);
int recipe_traverse(const recipe *r, visitproc visit, void *arg);
int recipe_only_output(const recipe *r);                    /* the result is that output and nothing else; -1: not so */


#endif
