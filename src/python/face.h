/* face.h - what the files of the extension share: its state, the structs of its objects, and who converts what.
 *
 * Always: the GIL is held in every function of this folder unless its comment says otherwise. A function that gives a
 * PyObject * gives a new reference, or NULL with a Python exception set. Errors from below become exceptions in one
 * place (errors.c). One interpreter a process: the state is one struct, made when the module is.
 *
 * Two owners (tensor.h): a wrapper owns one count of its tensor. While the count is above one the tensor holds one
 * reference to its wrapper, so a wrapper that dies is its tensor's only owner. */
#ifndef TP_PYTHON_FACE_H
#define TP_PYTHON_FACE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ops/dispatch.h"
#include "sym/sym.h"
#include "tensor/print.h"

typedef struct tensor_object {
    PyObject_HEAD
    tp_tensor *tensor;          /* owns one count; NULL only in a half-made object */
    PyObject  *dict;            /* counted, NULL until an attribute is set */
    PyObject  *weakrefs;
} tensor_object;

/* A class of tensors: `type` and one word, so that a call learns at once whether Python overrides it. */
typedef struct tensor_class {
    PyHeapTypeObject heap;
    uint32_t overrides;         /* OVERRIDES_… */
} tensor_class;
enum { OVERRIDES_FUNCTION = 1, OVERRIDES_DISPATCH = 2 };

typedef struct dtype_object { PyObject_HEAD tp_dtype dtype; } dtype_object;
typedef struct device_object { PyObject_HEAD tp_device device; PyObject *entered; } device_object;
typedef struct word_object { PyObject_HEAD int word; } word_object;     /* layout, memory_format, qscheme */

enum { LAYOUT_STRIDED, LAYOUT_SPARSE_COO, LAYOUT_SPARSE_CSR, LAYOUT_SPARSE_CSC, LAYOUT_SPARSE_BSR, LAYOUT_SPARSE_BSC,
       LAYOUT_MKLDNN, LAYOUT_JAGGED, LAYOUT_COUNT };
enum { FORMAT_COUNT = 4, MOST_FREE_WRAPPERS = 4096, MOST_FREE_SIZES = 64 };

/* Modes of a thread; tp_self.modes points here while a stack is not empty or functions are disabled. */
typedef struct face_modes {
    PyObject *function;         /* counted list: TorchFunctionMode, innermost last */
    PyObject *dispatch;         /* counted list: TorchDispatchMode, innermost last */
    int       function_off;     /* 0 on, 1 subclasses disabled, 2 all disabled */
} face_modes;

enum { FACE_HOOK_DICTS = 4, FACE_MEMBER_DICTS = 3 };
struct face_state {
    PyObject *module;           /* borrowed: the module outlives us */
    const char *package;        /* "taper", or "torch" when loaded as it; interned for good */
    PyTypeObject *tensor_base, *tensor, *tensor_meta;       /* counted, as all types here */
    PyTypeObject *parameter;    /* may be NULL: nn.Parameter, once it exists */
    PyTypeObject *dtype, *device, *layout, *format, *size, *storage, *generator, *finfo, *iinfo;
    PyTypeObject *sym_int, *sym_float, *sym_bool, *shape_env;
    PyObject *shape_envs;       /* dict: address of a shape environment -> address of its object, neither counted */
    struct capture_words *capture_words;    /* owned, NULL until torch._dynamo is imported */
    PyTypeObject *capture_generator, *capture_callable;
    PyTypeObject *op_function, *op_method, *overload, *node, *exporter, *function_context;
    PyTypeObject *jit_graph, *jit_node, *jit_value, *jit_type, *jit_function, *jit_method, *jit_module;
    PyObject *tracer_warning;   /* counted, may be NULL until torch.jit is loaded: TracerWarning */
    PyObject *dtypes[TP_DTYPE_COUNT], *layouts[LAYOUT_COUNT], *formats[FORMAT_COUNT];
    PyObject *cpu;              /* device("cpu") */
    PyObject *overload_class, *higher_class;   /* counted: what OpOverload objects are made of; a Python class */
    PyObject *overloads;        /* dict: address of the op -> OpOverload */
    PyObject *node_classes;     /* dict: name -> class of grad_fn objects */
    PyObject *linalg_error;
    PyObject *function_disabled;    /* _disabled_torch_function_impl */
    PyObject *dispatch_disabled;
    PyObject *return_types;     /* dict: name -> struct sequence type */
    PyObject *empty_tuple;
    PyObject *name_function, *name_dispatch;    /* interned "__torch_function__", "__torch_dispatch__" */
    tensor_object *free_wrapper;    /* linked through `tensor` */
    int free_wrapper_count;
    PyTupleObject *free_size[TP_INLINE_DIMS + 1];   /* by length, linked through the first item */
    int free_size_count;
    struct recent_size {        /* size_type.c: Sizes that were asked for lately, by a hash of their numbers */
        PyObject *made;         /* counted, NULL: none yet */
        int ndim;
        int64_t size[TP_INLINE_DIMS];
    } recent_size[32];
    PyObject *function_sets, *method_sets, *nn_sets;    /* dicts: name -> op_set */
    struct capture_state *capture;  /* owned, capture/frame311.c: NULL until the frame hook is first used */
    tp_print_options print_options;
    bool print_options_set;     /* false: the defaults */
    struct op_set *slot_set[64];    /* borrowed from the dicts: what operators call, NULL until first used */
    const tp_op *slot_op[8];    /* borrowed: what the plain operators call */
    struct face_tree *pytree;   /* owned: pytree.c */
    PyTypeObject *grad_level;   /* transforms.c */
    const tp_op *op_add_inplace;    /* borrowed: what optimisers call */
    PyObject *module_slow, *module_hooks[FACE_HOOK_DICTS], *module_hook_names[FACE_HOOK_DICTS], *name_forward, *name_compiled,
             *name_getattribute, *name_getattr, *name_call;
    PyObject *module_members[FACE_MEMBER_DICTS];    /* counted: "_parameters", "_buffers", "_modules" */
    PyObject *module_registration[FACE_MEMBER_DICTS];   /* counted dicts: hooks that see a new member of any module */
    PyTypeObject *module_class;     /* counted: nn.Module; NULL until it exists, as those around it */
    PyObject *module_setattr, *module_add, *name_register;  /* counted: its methods in Python, "register_parameter" */
    PyObject *door_getattr, *door_call;     /* counted: its methods in C */
    ternaryfunc module_class_call;          /* CPython's: look the method up, call it */
    PyObject *usual_getattribute;   /* borrowed: object.__getattribute__ */
    struct fx_state {           /* fx.h: types, and what the package's fx registers */
        PyTypeObject *node, *graph, *nodes, *nodes_iterator, *users, *insert_point, *plan;     /* counted */
        PyObject *graph_class;      /* counted: fx.Graph; NULL until fx is imported, as the ones below */
        PyObject *list, *dict;      /* counted: immutable_list, immutable_dict */
        PyObject *side_effects;     /* counted: set of callables that may not be dropped */
        PyObject *tensor_meta;      /* counted: makes meta["tensor_meta"] of a tensor */
        PyObject *graph_module, *tell_failure;      /* counted: a class, and what is asked when a call of such a module failed */
        PyObject *builtins;         /* counted dict: function -> index among tp_builtins */
        PyObject *builtin_objects;  /* counted list: the functions by index; None: not found */
        PyObject *name_owner;       /* counted: interned "_owning_module" */
    } fx;
    const tp_op *op_select, *op_slice, *op_unsqueeze, *op_alias, *op_index, *op_index_put, *op_copy, *op_fill, *op_expand,
                *op_view;       /* borrowed, NULL where this build has none: what indexing calls */
};

#define face (*tp_the_runtime.python_face)         /* one interpreter a process; made by module.c */

/* ---- errors.c ---- */
PyObject *face_raise(void);                         /* the error of this thread as an exception; NULL */
PyObject *face_raise_keeping(PyObject *result);     /* as face_raise, dropping `result`, which may be NULL */
void *face_foreign(void);                           /* a Python exception is set: carry the fact upwards; NULL */
PyObject *face_unimplemented(const char *what);
PyObject *face_import(const char *module);          /* a module of the package by its name in there */

/* ---- tensor_type.c, wrap.c ---- */
static inline bool face_is_fast(PyObject *o) { return Py_TYPE(o) == face.tensor || Py_TYPE(o) == face.parameter; }
static inline bool face_is_tensor(PyObject *o)
{
    return face_is_fast(o) || PyObject_TypeCheck(o, face.tensor_base);
}
static inline tp_tensor *face_tensor(PyObject *o) { return ((tensor_object *)o)->tensor; }     /* borrowed */
static inline uint32_t face_overrides(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    return face_is_fast(o) || !PyObject_TypeCheck((PyObject *)type, face.tensor_meta) ? 0 : ((tensor_class *)type)->overrides;
}
PyObject *face_wrap(tp_tensor *taken);              /* takes the count; NULL is None */
PyObject *face_wrap_as(PyTypeObject *type, tp_tensor *taken);   /* a fresh wrapper of a subclass; `taken` has none */
PyObject *face_wrap_or_raise(tp_tensor *taken);     /* NULL means that an error is set */
void face_track(tensor_object *w);                  /* the collector may look at it from now on */
void face_wrap_init(void);                          /* fills tp_the_runtime.python */
bool face_tensor_type_init(PyObject *module);
extern PyMethodDef face_tensor_methods[];           /* tensor_methods.c */
extern PyGetSetDef face_tensor_attributes[];        /* tensor_attributes.c */
extern PyType_Slot face_number_slots[];             /* number_slots.c; ends with {0} */
PyObject *face_index_get(PyObject *self, PyObject *key);                    /* index.c */
int face_index_set(PyObject *self, PyObject *key, PyObject *value);         /* value NULL: deletion */
void face_index_init(void);
PyObject *face_quick(int slot, PyObject *a, PyObject *b);   /* number_slots.c; NULL without exception: take the long way */
int face_quick_slot(const char *name);              /* -1: none */
PyObject *face_parse_to(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_tensor_repr(PyObject *self);         /* print.c */
bool face_print_init(PyObject *module);

/* ---- dtype_objects.c, device_type.c, size_type.c ---- */
bool face_dtypes_init(PyObject *module);
bool face_device_init(PyObject *module);
bool face_size_init(PyObject *module);
PyObject *face_dtype(tp_dtype d);
PyObject *face_device(tp_device d);
PyObject *face_size(int ndim, const int64_t *size);
PyObject *face_as_size(PyObject *sizes);                /* takes a tuple or list, gives a Size; anything else as it is */
PyObject *face_size_of(const tp_tensor *t);             /* with SymInts where sizes are expressions */
bool face_device_read(PyObject *o, tp_device *out);     /* device, text or index; false: exception set */
bool face_device_usable(tp_device d);                   /* tensors can live there, if only pretended ones; false: exception set */
bool face_is_device_like(PyObject *o);
bool face_dtype_read(PyObject *o, tp_dtype *out);       /* a dtype object; false: TypeError set */
PyTypeObject *face_make_type(PyObject *module, PyType_Spec *spec, PyTypeObject *base);  /* names it PACKAGE.spec->name */
/* tp_new of a type that has subclasses and whose objects are made here alone; without subclasses there is a flag for it. */
PyObject *face_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* ---- user_stack.c ---- */
bool face_is_user_frame(PyFrameObject *f, PyCodeObject *code);     /* not of the package, or a module's forward */

/* ---- sym_type.c, fake_type.c ---- */
PyObject *face_sym(tp_sym x);                           /* SymInt, SymFloat, SymBool, or a plain number; failed: raises */
bool face_is_sym(PyObject *o);
tp_value face_sym_value(PyObject *o);                   /* of one for which face_is_sym holds; lives as long as it */
bool face_sym_int(PyObject *o, int64_t *out);           /* specialises, with a guard; false: exception set */
bool face_sym_truth(PyObject *o, bool *answer);         /* the same of a condition */
/* The size and the count of a tensor as numbers, with a guard where they are expressions; false: exception set. */
bool sym_known_size(const tp_tensor *t, int dim, int64_t *out);
bool sym_known_numel(const tp_tensor *t, int64_t *out);
tp_shape_env *face_env_of(PyObject *o);                 /* of a ShapeEnv; borrowed */
PyObject *face_fake_mode(const tp_tensor *t);           /* borrowed; NULL: belongs to none (no exception set) */
PyObject *face_shape_env(tp_shape_env *env);            /* None: Python does not know it */
bool face_sym_init(PyObject *module);
bool face_fake_init(PyObject *module);

/* ---- convert.c ---- */
enum { FRAME_ARGS = 64, FRAME_BYTES = 1536, FRAME_OWNED = 24 };
/* The boxed arguments of one call and the memory they stand in. Values borrow from the Python arguments, from `bytes`
 * (lists on the stack) or from `owned`. */
typedef struct call_frame {
    tp_value value[FRAME_ARGS];
    int      owned_count;
    size_t   used;
    bool     exact;             /* a call to the letter of the schema: SymInt[2] wants a list */
    PyObject *overloaded[8];    /* borrowed: arguments that override functions, in the order they are asked */
    int      overloaded_count;
    tp_value owned[FRAME_OWNED];
    _Alignas(16) char bytes[FRAME_BYTES];
} call_frame;

void face_frame_init(call_frame *f);
void face_frame_fini(call_frame *f);
/* 1: converted; 0: not of this type, no exception; -1: exception set. */
int face_to_value(call_frame *f, const tp_arg *type, PyObject *o, tp_value *out);
int face_to_number(PyObject *o, tp_value *out, call_frame *f);      /* bool, int, float, complex and their like */
int face_to_ints(call_frame *f, const tp_arg *type, PyObject *const *item, Py_ssize_t count, tp_value *out);
bool face_is_int(PyObject *o);
bool face_note_overloaded(call_frame *f, PyObject *o);  /* true when `o` overrides functions */
/* A value of any type, guessed from the object (custom ops, handles). */
int face_guess_value(call_frame *f, PyObject *o, tp_value *out);
PyObject *face_from_value(tp_value taken);          /* lists become lists */
PyObject *face_from_scalar(tp_scalar s);
tp_handle *face_handle_new(PyObject *object);       /* counts the object; NULL: an error is set */
bool face_read_int(PyObject *o, int64_t *out);      /* false: exception set */
bool face_read_truth(PyObject *o, bool *out);       /* of any object, NULL and None are false; false: exception set */
/* What a sequence holds now, as a tuple: it stays as it is whatever code runs meanwhile. `otherwise` is the text of the TypeError. */
PyObject *face_items(PyObject *o, const char *otherwise);

/* ---- parse.c ---- */
typedef struct signature {
    const tp_op *op;
    const tp_op *out;           /* may be NULL: the variant that takes out= */
    uint8_t  positional;        /* how many may be given by position, without the method's self */
    uint8_t  required;          /* how many of these must be given */
    int8_t   self;              /* index of the bound argument of a method, -1 */
    int8_t   options;           /* index of `dtype` of a factory, -1 */
    bool     varargs;           /* sizes may be given flat: view(2, 3) */
    uint8_t  order[FRAME_ARGS]; /* op argument of each parameter: positional ones first */
    uint8_t  count;             /* parameters without the method's self, out and requires_grad */
    PyObject *name[FRAME_ARGS]; /* counted: as Python calls the parameter */
} signature;

typedef struct op_set {
    PyObject_HEAD
    const char *name;           /* borrowed from the ops */
    PyObject *text;             /* counted: the name */
    bool      method;
    uint8_t   where;            /* 0 function, 1 method, 2 nn */
    int       count;            /* -1: signatures are not made yet */
    signature *item;            /* owned */
    vectorcallfunc call;
    PyObject *callable;         /* borrowed: what __torch_function__ is told */
    PyObject *result_type;      /* counted, may be NULL: named tuple */
    PyMethodDef definition;     /* of the builtin function made for it */
    int       quick;            /* face_quick_slot of the name */
} op_set;

bool face_set_prepare(op_set *set);
bool face_signature_exact(signature *s, const tp_op *op);   /* names and arguments to the letter of the schema */
/* 1: the arguments fit and are boxed; 0: they do not; -1: exception set. `set` names the op in messages. */
int face_match(op_set *set, const signature *s, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
               call_frame *f, PyObject **out, bool *requires_grad);
/* Chooses the signature and boxes the arguments. NULL: exception set, or f->overloaded_count > 0. */
const signature *face_parse(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames,
                            call_frame *f, PyObject **out, bool *requires_grad);
PyObject *face_parse_error(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_type_text(const tp_arg *a);          /* "Tensor", "tuple of ints" */
extern const char *const face_numpy_names[][2];

/* ---- call.c ---- */
bool face_calls_init(PyObject *module);
PyObject *face_call_op(const tp_op *op, const tp_value *arg);           /* boxed call, result as Python sees it */
PyObject *face_run_signature(op_set *set, const signature *s, call_frame *f, PyObject *out, bool requires_grad);
PyObject *face_call_set(op_set *set, PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_results(op_set *set, const tp_op *op, tp_value *result);
op_set *face_method_set(const char *name);          /* borrowed; NULL: no such op, NotImplementedError set */
PyObject *face_call_method(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t count);

/* ---- function_mode.c ---- */
static inline face_modes *face_thread_modes(void) { return tp_self.modes; }
static inline bool face_function_mode_active(void)
{
    face_modes *m = tp_self.modes;
    return m && m->function_off < 2 && m->function && PyList_GET_SIZE(m->function) > 0;
}
static inline bool face_function_subclass_on(void)
{
    face_modes *m = tp_self.modes;
    return !m || m->function_off == 0;
}
/* Does Python want to see this method or attribute of `self`? */
static inline bool face_overridden(PyObject *self)
{
    return ((face_overrides(self) & OVERRIDES_FUNCTION) && face_function_subclass_on()) || face_function_mode_active();
}
bool face_functions_init(PyObject *module);
face_modes *face_modes_for_writing(void);           /* those of this thread, made when there are none; NULL: exception set */
void face_modes_tidy(void);                         /* the modes of this thread back to NULL when all are empty */
bool face_class_update(PyTypeObject *type);         /* fills `overrides` of a class of tensors */
bool face_has_function(PyObject *o);                /* any object: does its type override functions? */
PyObject *face_call_override(PyObject *callable, PyObject *const *overloaded, int count, PyObject *args, PyObject *kwargs);
/* The same for a method called by name with a vector of arguments. */
PyObject *face_override_method(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_override_attribute(PyObject *self, const char *name, PyObject *value);     /* value NULL: get */
PyObject *face_keywords_dict(PyObject *const *values, PyObject *kwnames);
PyObject *face_args_tuple(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* ---- the rest of the faces ---- */
bool face_dispatch_init(PyObject *module);          /* dispatch_mode.c */
/* The arguments of a call as Python shows them: trailing defaults dropped, keyword-only ones by name. False: exception set. */
bool face_show_args(const tp_op *op, const tp_value *arg, PyObject **args, PyObject **kwargs);
bool face_unbox_results(const tp_op *op, PyObject *given, tp_value *result);   /* owned; false: exception set */
bool face_ops_init(PyObject *module);               /* ops_namespace.c: torch.ops */
const char *face_node_title(const char *full);         /* autograd.c: a node's name without its namespace */
bool face_make_fx_init(PyObject *module);              /* make_fx.c */
bool face_program_write_init(PyObject *module);        /* program_write.c */
/* The function of a decomposition table (dict) for this op, called as Python would call it. 1: done; 0: none; -1: failed. */
int face_decompose(PyObject *table, const tp_op *op, const tp_value *arg, tp_value *result);
struct tp_recorder;
PyObject *face_constants(const struct tp_recorder *r);  /* dict: name -> tensor */
bool face_export_init(PyObject *module);                /* export.c: torch.export */
struct tp_signature;
const struct tp_signature *face_signature_of(PyObject *capsule);   /* of _export_signature; NULL: exception set */
bool face_export_program_init(PyObject *module);        /* export_program.c: .pt2 */
bool face_transforms_init(PyObject *module);           /* transforms.c: torch.func */
bool face_vmap_init(PyObject *module);                 /* vmap.c: torch.func.vmap */
bool face_functorch_init(PyObject *module);            /* functorch.c: torch._C._functorch */
bool face_gradcheck_init(PyObject *module);            /* gradcheck.c: autograd.gradcheck */
bool face_functional_init(PyObject *module);           /* autograd_functional.c */
bool face_forward_mode_init(PyObject *module);         /* forward_mode.c: torch.func.jvp, autograd.forward_ad */
/* function_levels.c, while a transform is entered: the Function applied there, *done false when it is the usual way there … */
PyObject *face_function_in_levels(PyObject *cls, PyObject *args, bool separate, bool *done);
/* … but for forward, which runs outside the innermost level, a level of grad. */
PyObject *face_function_forward_outside(PyObject *cls, PyObject *args);
bool face_aot_init(PyObject *module);                  /* aot.c */
bool face_op_table_init(PyObject *module);             /* op_table.c */
bool face_module_is_plain(PyObject *module);         /* no hook of its own, none for all modules */
bool face_module_is_usual(PyTypeObject *type, PyObject *method);    /* the class has nn.Module's own */
bool face_module_call_init(PyObject *module);          /* module_call.c */
bool face_module_members_init(PyObject *module);       /* module_members.c */
bool face_module_tree_init(PyObject *module);          /* module_tree.c */
bool face_module_swap_init(PyObject *module);          /* module_swap.c */
bool face_optimizer_init(PyObject *module);            /* optimizer_step.c */
bool face_autocast_init(PyObject *module);             /* autocast.c */
PyObject *face_schema(const tp_op *op, const char *after);  /* "aten::add.Tensor(Tensor self, …) -> Tensor", and what follows */
/* subclasses.c */
bool face_is_tensor_class(PyObject *cls);           /* false: an exception is set */
PyObject *face_make_subclass(PyObject *unused, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_make_wrapper_subclass(PyObject *unused, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);
PyObject *face_share_storage(PyObject *unused, PyObject *args);
PyObject *face_ask_class(PyObject *self, const char *space, const char *name);      /* what the class of a tensor answers; None: nothing */
/* In a method of `self`, which is `t`: the answer of its class, where that wants to be asked. */
#define ASK_CLASS(what, space, name)                                         \
    if (TP_UNLIKELY(t->keys & TP_KEY_ASKS_##what)) {                         \
        PyObject *answer = face_ask_class(self, space, name);                \
        if (answer != Py_None)                                               \
            return answer;                                                   \
        Py_DECREF(answer);                                                   \
    }
/* The argument of this name, or at this position; NULL: not given. Borrowed. */
PyObject *face_argument(PyObject *const *args, Py_ssize_t count, PyObject *kwnames, Py_ssize_t position, const char *name);

PyObject *face_overload(const tp_op *op);           /* the OpOverload of an op, one object while it lives */
void face_forget_overload(const tp_op *op);         /* the op dies */
const tp_op *face_overload_op(PyObject *o);         /* NULL: not an OpOverload */
bool face_library_init(PyObject *module);           /* library.c */

/* ---- higher_order.c ---- */
PyObject *face_call_graphs(const tp_op *op, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);    /* an op that takes functions */
/* Calls with flat values and gives a flat list, owned; *spec (may be NULL), counted, becomes how the result nests. */
bool face_call_flat(PyObject *callable, const tp_value *arg, uint32_t count, tp_value *out, PyObject **spec);
bool face_storage_init(PyObject *module);           /* storage_type.c */
PyObject *face_storage(tp_storage *s, tp_device device);
bool face_archive_init(PyObject *module);           /* serialization.c */
bool face_output_init(PyObject *module);            /* output_file.c */
bool face_pickle_init(PyObject *module);            /* serialization_pickle.c */
bool face_generator_init(PyObject *module);         /* generator_type.c */
struct tp_generator *face_generator_of(PyObject *o);  /* borrowed */
PyObject *face_generator(struct tp_generator *g);    /* takes a count of its own */
struct tp_grad_node;
bool face_autograd_init(PyObject *module);          /* autograd.c */
bool face_function_init(PyObject *module);          /* autograd_function.c */
/* For the collector: what a tensor with a count of one, or a node, owns alone. */
struct tp_saved;
int face_traverse_autograd(const tp_tensor *t, visitproc visit, void *arg);
int face_traverse_saved(const struct tp_saved *s, uint32_t count, visitproc visit, void *arg);
PyObject *face_function_context(struct tp_grad_node *n);     /* borrowed; NULL: it is no node of a Function */
int face_function_traverse(struct tp_grad_node *n, visitproc visit, void *arg);
bool face_saved_init(PyObject *module);             /* autograd_saved.c */
/* Gradients of tensors by inputs, None where unreachable; grads has tensors, or None for ones. */
PyObject *face_run_backward(PyObject *tensors, PyObject *grads, bool keep, bool create, PyObject *inputs);
PyObject *face_node(struct tp_grad_node *n);        /* grad_fn as Python sees it; NULL is None */
struct tp_grad_node *face_node_of(PyObject *o);     /* borrowed */
PyObject *face_backward_hooks(PyObject *tensor);
int face_set_backward_hooks(PyObject *tensor, PyObject *value);
bool face_functions_of_module_init(PyObject *module);   /* functions.c: tensor, set_grad_enabled, … */
PyObject *face_lifted(PyObject *taken);             /* literal.c; a layer that traces wants to know that a constant appeared; takes it */
PyObject *face_literal(PyObject *data, tp_dtype dtype, tp_device device, bool copy);   /* literal.c */
PyObject *face_to_list(const tp_tensor *t);         /* literal.c: tolist */
PyObject *face_item(const tp_tensor *t);            /* 1-element tensor as a number */
PyObject *face_from_array(PyObject *array, bool warn);  /* numpy.c */
PyObject *face_to_array(PyObject *tensor, bool force);
bool face_is_array(PyObject *o);                    /* a numpy array, without importing numpy */
bool face_is_numpy_number(PyObject *o);
bool face_numpy_init(PyObject *module);
tp_storage *face_storage_of(PyObject *o);           /* borrowed; NULL: not a storage */
bool face_dlpack_init(PyObject *module);
PyObject *face_from_dlpack(PyObject *o);            /* dlpack.c */
PyObject *face_to_dlpack(PyObject *tensor);
bool face_fx_init(PyObject *module);                /* fx_graph.c */
bool face_symbolic_init(PyObject *module);
bool face_capture_init(PyObject *module);           /* capture/module.c */

/* ---- jit_trace.c: what other files ask while torch.jit.trace records ---- */
bool face_jit_init(PyObject *module);
static inline bool face_is_traced(void) { return tp_self.recorder != NULL; }
PyObject *face_jit_size(const tp_tensor *t, int dim);   /* a size as a traced number */
PyObject *face_jit_sizes(const tp_tensor *t);           /* all of them, a Size of such numbers */
PyObject *face_jit_numel(const tp_tensor *t);
uint32_t face_jit_mark(tp_tensor *t);               /* the traced value of a number read from `t`, 0: exception set */
bool face_jit_warn_conversion(const char *what);    /* "a Python integer"; false: exception set */
bool face_jit_warn(const char *text);
bool face_jit_detached(tp_tensor *t);               /* detach_ was called: false, exception set */
/* An autograd.Function ran, unrecorded, between these two: one node for it. */
void *face_jit_pause(void);                         /* the trace that stops, NULL: none */
void face_jit_resume(void *paused);
bool face_jit_function_ran(PyObject *cls, PyObject *args, PyObject *result, bool inplace);
/* Runs a module's forward in a frame of its own when a trace records it; args as PyObject_VectorcallMethod takes them. */
PyObject *face_jit_forward(PyObject *self, PyObject *const *args, size_t count, PyObject *names);

#endif
