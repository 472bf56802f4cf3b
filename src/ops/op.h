/* op.h - an op: its schema and all that anybody knows of it.
 *
 * Ops are `const tp_op *`, never enum values. Entries of *.op files become structs through opgen; ops that a program
 * defines at run time (library.define) fill the same struct on the heap. A column of the op language is a field here. */
#ifndef TP_OPS_OP_H
#define TP_OPS_OP_H

#include "ops/value.h"
#include "sym/sym.h"
#include "tile/tile.h"

typedef struct tp_op tp_op;

/* ---- schema ---- */
typedef enum tp_type {
    TP_TYPE_TENSOR, TP_TYPE_SCALAR, TP_TYPE_INT, TP_TYPE_SYMINT, TP_TYPE_FLOAT, TP_TYPE_BOOL, TP_TYPE_STR,
    TP_TYPE_DTYPE, TP_TYPE_LAYOUT, TP_TYPE_DEVICE, TP_TYPE_FORMAT, TP_TYPE_GENERATOR, TP_TYPE_STORAGE,
    TP_TYPE_DIMNAME, TP_TYPE_STREAM, TP_TYPE_ANY,
} tp_type;

typedef struct tp_arg {
    const char *name;
    const tp_value *fallback;   /* the default, NULL: there is none; lists are immortal constants */
    uint8_t type;               /* tp_type */
    uint8_t alias;              /* letter of the alias set, 0: none */
    uint8_t length;             /* of T[n] */
    bool    list : 1;           /* T[]; `length` > 0 allows a single T for T[n] */
    bool    optional : 1;       /* T? or T[]? */
    bool    items_optional : 1; /* T?[] */
    bool    keyword_only : 1;
    bool    written : 1;        /* alias annotation with '!' */
    bool    number_allowed : 1; /* `numbers`: a Python number may stand in this Tensor slot */
} tp_arg;

/* The default, borrowed; none where there is none. */
static inline tp_value tp_arg_default(const tp_arg *a) { return a->fallback ? *a->fallback : tp_none(); }

/* ---- what kind of op ---- */
typedef enum tp_kind {
    TP_LIKE_POINTWISE, TP_LIKE_REDUCTION, TP_LIKE_SCAN, TP_LIKE_ROWWISE, TP_LIKE_CHANNELWISE, TP_LIKE_CONTRACTION,
    TP_LIKE_WINDOW, TP_LIKE_INDEXED, TP_LIKE_VIEW, TP_LIKE_METADATA, TP_LIKE_RANDOM, TP_LIKE_FACTORY,
    TP_LIKE_COMPOSITE, TP_LIKE_OPAQUE,
} tp_kind;

typedef enum tp_variant { TP_FUNCTIONAL, TP_INPLACE, TP_OUT } tp_variant;

enum {                          /* tp_op.flags */
    TP_OP_CORE = 1 << 0,
    TP_OP_COMMUTES = 1 << 1,
    TP_OP_RNG = 1 << 2,         /* may draw random numbers */
    TP_OP_SYNC = 1 << 3,        /* result shape or value depends on data */
    TP_OP_IO = 1 << 4,
    TP_OP_FILE = 1 << 18,       /* opens files: refused in programs that come from one */
    TP_OP_ALIAS_MAYBE = 1 << 5, /* may return its input */
    TP_OP_FUNCTION = 1 << 6,    /* face: torch.NAME */
    TP_OP_METHOD = 1 << 7,      /* face: Tensor.NAME */
    TP_OP_NN = 1 << 8,          /* face: _C._nn.NAME; fft_…, linalg_…, special_…: _C._fft.NAME and so on */
    TP_OP_NUMBERS = 1 << 9,     /* some Tensor slot accepts numbers */
    TP_OP_RUNTIME = 1 << 10,    /* defined at run time */
    TP_OP_UNALIASED = 1 << 11,  /* of those: a result may share memory with no argument and no other result */
    TP_OP_ALIAS_ALONE = 1 << 12,/* may return its input where that is the one tensor of a list */
    TP_OP_TURNS_CONJ = 1 << 13, /* a view of the conjugates, */
    TP_OP_TURNS_NEG = 1 << 14,  /* of the negatives */
    TP_OP_APART_NEVER = 1 << 15,/* what is written shares memory with no argument, */
    TP_OP_APART_SELF = 1 << 16, /* or it is the first one itself, */
    TP_OP_APART_WHOLE = 1 << 17,/* or any one itself: `overlap never`, `self`, `whole`; without the column results are right all the same */
};

/* ---- element-wise ops ---- */

/* One tile program of an op and where its operands come from. Scalars: an argument, or a constant when arg < 0. */
typedef struct tp_tile_form {
    tp_tile_program program;
    const uint8_t  *input;      /* argument index of each input */
    const struct tp_form_scalar { int8_t arg; tp_scalar constant; } *scalar;
} tp_tile_form;

typedef enum tp_promotion {
    TP_PROMOTE,                 /* the common type of the promoting arguments */
    TP_PROMOTE_FLOAT,           /* the same, integers become the default float type */
    TP_PROMOTE_COMPLEX,         /* the complex type of the common type */
    TP_PROMOTE_INTO,            /* the type of the first promoting argument (copy_, fill_) */
    TP_PROMOTE_SAME,            /* all alike, else an error */
} tp_promotion;

typedef struct tp_pointwise {
    uint8_t promotion;          /* tp_promotion: gives the common type, in which the program computes */
    uint8_t to;                 /* tp_dtype of the result; TP_DTYPE_NONE: the common type; TP_TO_REAL: its real type */
    uint8_t form_count;
    bool    row_major;          /* a fresh result lies row by row, whatever the order of the operands */
    uint32_t promoting;         /* mask of the arguments that promote */
    uint32_t rounded;           /* mask of the arguments whose numbers are rounded to a common half type before they are used */
    uint32_t dtypes;            /* mask of the common types the op has; 0: those that have the steps of the program */
    const char *title;          /* its name where a type is refused, "NAME" not implemented for 'Half'; NULL: the op's, with _cpu */
    const tp_tile_form *form;
    /* Which form serves this call; NULL when there is one. -1: the error is set. */
    int (*select)(const tp_value *arg, tp_dtype common);
    /* Another rule of promotion for some calls (div with a rounding mode); NULL, or a result of NULL: this one. */
    const struct tp_pointwise *(*pick)(const tp_value *arg);
} tp_pointwise;
enum { TP_TO_REAL = 254 };

typedef struct tp_reducing {
    uint8_t reduction;          /* tp_reduction */
    int8_t  dim, keepdim;       /* argument index, -1: none (reduces all) */
    int8_t  parameter;          /* argument of the reduction (correction, p), -1: `constant` */
    double  constant;
    const tp_tile_form *form;   /* computes the element; NULL: the first argument itself */
} tp_reducing;

/* ---- functions of an op ---- */

typedef bool tp_check_fn(const tp_value *arg);

/* Checks the arguments and says what the results are; out has result_count entries. */
typedef bool tp_infer_fn(const tp_op *op, const tp_value *arg, tp_geometry *out);
struct tp_sym_geometry;
typedef bool tp_infer_sym_fn(const tp_op *op, const tp_value *arg, struct tp_sym_geometry *out);

/* The work itself. out: the results, made from infer; NULL where the sizes depend on data: the kernel makes them. */
typedef bool tp_kernel_fn(const tp_value *arg, tp_tensor **out);

/* Runs the op at the bottom of the dispatcher: result values are owned by the caller. */
typedef bool tp_run_fn(const tp_op *op, const tp_value *arg, tp_value *result);

/* Calls other ops through the dispatcher (decompositions). */
typedef bool tp_open_fn(const tp_op *op, const tp_value *arg, tp_value *result);

/* What a backward formula needs of the forward call, in this order, after opgen's analysis. */
typedef enum tp_save_what {
    TP_SAVE_ARG,                /* the argument: a tensor is saved with its version, others by value */
    TP_SAVE_RESULT,
    /* Of a tensor argument (of a list of tensors: a list of these): a list of integers; the same; a dtype; the list
     * [dtype, layout, device, none]; the list [sizes, strides, offset]. */
    TP_SAVE_SIZES, TP_SAVE_STRIDES, TP_SAVE_DTYPE, TP_SAVE_OPTIONS, TP_SAVE_GEOMETRY,
} tp_save_what;

typedef struct tp_save {
    uint8_t  what, index;
    uint64_t readers;           /* arguments whose formulas read it: saved only when one of them wants a gradient */
} tp_save;
/* What is saved of a tensor argument, or of each of a list, in place of itself. Owned; none: there is no memory. */
TP_API tp_value tp_save_describe(uint8_t what, tp_value v);

/* A running backward formula. `grad` has one entry per argument; a formula fills those whose bit in `wanted` is set, or
 * leaves none for "undefined". For an argument that is a list of tensors the entry is a list. */
typedef struct tp_backward {
    const tp_op    *op;         /* its variant: formulas of in-place ops are those of the op itself */
    const tp_value *saved;      /* as `op->save` lists them */
    const tp_value *g;          /* gradients of the results, none where undefined */
    uint64_t        wanted;     /* by argument index */
    tp_value       *grad;       /* owned by the caller afterwards */
    /* Zeros in the form of a result whose gradient is undefined, owned by the caller. */
    bool          (*zeros)(const struct tp_backward *b, int result, tp_value *out);
    void           *node;
} tp_backward;
typedef bool tp_backward_fn(tp_backward *b);

/* Forward mode: tangents of arguments (none where there is none) to tangents of results. */
typedef bool tp_jvp_fn(const tp_op *op, const tp_value *arg, const tp_value *tangent, const tp_value *result, tp_value *out);
/* Batching: `batched` masks the arguments that have a batch dim, at front. */
typedef bool tp_vmap_fn(const tp_op *op, const tp_value *arg, uint64_t batched, tp_sym size, tp_value *result);
/* A view's inverse: base with `fresh` written where the k-th result looked. */
typedef bool tp_inverse_fn(const tp_op *op, const tp_value *arg, tp_tensor *base, tp_tensor *fresh, int64_t k, tp_value *out);

/* Export: adds the ONNX nodes of this call to a model. 1: done, 0: no rule for these arguments, -1: failed. Without a model
 * it only answers; arguments are facts (export/onnx/onnx.h). */
struct tp_onnx;
typedef int tp_onnx_fn(struct tp_onnx *o, const tp_value *arg);

/* Of an op that takes functions: which arguments are those, and what a recorder calls the node and the graphs it makes of them. */
typedef struct tp_graphs {
    const char *node;           /* "conditional" */
    uint8_t     count;
    struct tp_graphs_item {
        uint8_t     arg, gives; /* tp_gives: how the output of the graph is written */
        const char *prefix;     /* "true_graph": true_graph_0 … */
    } item[2];
} tp_graphs;
typedef enum tp_gives { TP_GIVES_TUPLE, TP_GIVES_LIST, TP_GIVES_ONE } tp_gives;

typedef enum tp_autocast { TP_AUTOCAST_NONE, TP_AUTOCAST_LOWER, TP_AUTOCAST_FP32, TP_AUTOCAST_PROMOTE } tp_autocast;

/* ---- the op ----
 *
 * There are thousands of these structs and most columns of most are empty, so columns stand in four: what every op has, and
 * three parts that variants and neighbours share. An op without a part points to one that is empty: no pointer to a part is
 * ever NULL. */

/* How it computes; functional, in-place and out forms have the same. */
typedef struct tp_work {
    tp_check_fn     *check;                 /* the `check` lines of an element-wise op, may be NULL; others check in infer */
    tp_infer_fn     *infer;
    tp_infer_sym_fn *infer_sym;
    tp_kernel_fn    *kernel;
    tp_open_fn      *open_traced;           /* tried before `open` while sizes are symbolic or AOT traces */
    const tp_reducing *reducing;            /* reductions and scans */
} tp_work;

/* How it is differentiated. */
typedef struct tp_gradient {
    const tp_save   *save;
    uint64_t         nondifferentiable_results;
    tp_backward_fn  *backward;              /* NULL: not differentiable */
    const char      *name;                  /* "AddBackward0" */
    const char      *error;                 /* `grad x = error "…"` */
    tp_jvp_fn       *jvp;
    uint8_t          save_count;
} tp_gradient;

/* What few ops have. */
typedef struct tp_rare {
    uint64_t hidden_writes;                 /* arguments written though the schema does not say so */
    const tp_op *functional_twin;           /* of hidden writers */
    uint8_t  functional_map[2];             /* hidden writes: see `functional` */
    const tp_op *same_as;                   /* the op of which this is only another name (`also named`), or which it calls for
                                               each member of its lists (`each`), may be NULL */
    const int8_t *each;                     /* `each`: for every argument of same_as, which of ours it is; -1: its default */
    const tp_graphs *graphs;                /* `graphs`: ops that take functions, else NULL */
    const tp_op *of;                        /* derived ops (derived.h): the op they call, else NULL */
    uint8_t  derivation;                    /* tp_derivation, where `of` is set */
    tp_inverse_fn   *inverse;
    tp_onnx_fn      *onnx;                  /* NULL: through its tile program or its decomposition */
    tp_run_fn *autograd;                    /* run-time ops: their own way through autograd, may be NULL */
    tp_run_fn *fake;                        /* run-time ops: what runs on fake tensors in place of a shape rule, may be NULL */
    void *user;                             /* run-time ops: what python/ keeps for its kernels, else NULL */
} tp_rare;

extern const tp_work     tp_no_work;
extern const tp_gradient tp_no_gradient;
extern const tp_rare     tp_no_rare;

struct tp_op {
    const char *space, *name, *overload;    /* "aten", "add", "Tensor" ("" for the default overload) */
    const char *signature;                  /* "(Tensor self, …) -> Tensor" */
    const tp_arg *arg;
    const tp_arg *result;                   /* types, names and aliases of the results */
    uint8_t  arg_count, positional_count, result_count;
    uint8_t  kind;                          /* tp_kind */
    uint8_t  variant;                       /* tp_variant */
    uint8_t  autocast;                      /* tp_autocast */
    uint8_t  try_count;
    uint32_t flags;                         /* TP_OP_… */
    uint32_t layers;                        /* layers that see every call of this op: grad for views and writers */
    uint64_t differentiable;                /* arguments that get a gradient */
    const tp_op *base;                      /* the op this one is a variant of; NULL: itself is the base */
    const tp_op *inplace, *out, *functional;    /* its variants, may be NULL */
    tp_run_fn          *run;                /* how the kind runs it; never NULL */
    const tp_pointwise *pointwise;          /* element-wise ops */
    tp_open_fn         *open;               /* decomposition, may be NULL */
    tp_vmap_fn         *vmap;
    const tp_work      *work;
    const tp_gradient  *gradient;
    const tp_rare      *rare;
    const struct tp_try *tries;             /* sample rows */
};

/* "aten::add.Tensor(Tensor self, …) -> Tensor" */
TP_API void tp_op_schema(const tp_op *op, tp_text *out);
/* "aten::add.Tensor", for messages. The buffer is the caller's. */
TP_API const char *tp_op_full_name(const tp_op *op, char out[128]);
TP_API void *tp_fail_op(tp_err kind, const tp_op *op);     /* the errors whose text is the name of an op */
TP_API int tp_op_arg_index(const tp_op *op, const char *name);      /* -1: no such argument */

/* ---- the registry ---- */
TP_API const tp_op *tp_op_find(const char *space, const char *name, const char *overload);  /* NULL: none, no error set */
/* All overloads of a name in the order of their definition; gives how many. */
TP_API size_t tp_op_overloads(const char *space, const char *name, const tp_op *const **out);
/* Derived ops are left out: they are not to be named. */
TP_API void tp_op_each(bool (*visit)(const tp_op *op, void *user), void *user);
/* Parses a schema and adds a run-time op. `layers` and functions are filled by the caller through the result. */
TP_API TP_CHECK tp_op *tp_op_define(const char *space, const char *schema);
TP_API tp_rare *tp_op_rare(tp_op *op);      /* of a run-time op, to be filled */
TP_API void tp_op_undefine(tp_op *op);      /* when its Library dies; ops derived from it go with it */

#endif
