/* source.h - where an object came from, and what a capture assumed of it.
 *
 * A source is a path from what a call brings (arguments, closure, globals) to an object: L['x'].layers[0]. Evaluating it is
 * C all the way: attributes are read from instance or class without running code of the user's. A guard is one assumption
 * about the object at the end of a path; a captured entry holds as long as all its guards do.
 *
 * Owners: a tp_sources owns its array and counts every object the paths and guards name, but those it knows by identity
 * only (GUARD_ID, GUARD_TYPE): a guard keeps no model alive, it holds a weak reference and fails once that is dead. Guards
 * are checked in the order in which they were made, so a path's own parts were checked before it is followed. */
#ifndef TP_PYTHON_CAPTURE_SOURCE_H
#define TP_PYTHON_CAPTURE_SOURCE_H

#include "base/array.h"
#include "base/map.h"
#include "python/face.h"

typedef enum source_kind {
    SOURCE_ARGUMENT,        /* number: slot of the frame; key: its name */
    SOURCE_CELL,            /* number: cell of the function's closure; key: its name */
    SOURCE_GLOBAL,          /* key: name in the function's globals */
    SOURCE_GLOBALS,         /* that dict itself */
    SOURCE_HELD,            /* key: the object itself, which the entry keeps */
    SOURCE_ATTRIBUTE,       /* base, key: name, in the instance or else its class, descriptors not bound */
    SOURCE_ITEM,            /* base, key: of a list, tuple or dict */
    SOURCE_TYPE,            /* base: its class */
    SOURCE_CLOSURE,         /* base: a function; number: contents of that cell */
    SOURCE_DEFAULT,         /* base: a function; number: of its defaults */
    SOURCE_KEYWORD_DEFAULT, /* base: a function; key: name */
    SOURCE_METHOD_SELF,     /* base: a bound method, of Python or of C */
    SOURCE_METHOD_FUNCTION,
} source_kind;

enum { NO_SOURCE = -1 };

typedef struct path {
    uint8_t   kind;
    int32_t   base;         /* index of another source, NO_SOURCE for roots */
    int32_t   number;
    PyObject *key;          /* counted, may be NULL */
} path;

typedef enum guard_kind {
    GUARD_ID,               /* it is this object, of the class it had (seen[0]); number: its address */
    GUARD_TYPE,             /* its class is this object; number: its address */
    GUARD_EQUAL,            /* a constant: same class, same value */
    GUARD_TENSOR,           /* class, type, device, sizes, strides, requires_grad */
    GUARD_LENGTH,           /* number */
    GUARD_KEYS,             /* a dict: these keys in this order */
    GUARD_HAS,              /* a dict has (number 1) or lacks (0) the key `object` */
    GUARD_LACKS,            /* an instance has no attribute `object` of its own */
    GUARD_SAME,             /* it is what source `number` gives */
    GUARD_OTHER,            /* it is not */
    GUARD_CODE,             /* a function: its code is `object`, it has `number` defaults */
    GUARD_BUILTIN,          /* a dict of globals: it lacks, and the builtins have, object = (name, value, builtins) */
    GUARD_SETTINGS,         /* a module: it has `number` attributes of its own, and those of `object`, a dict of constants */
    GUARD_NO_HOOKS,         /* a module: no hook of any kind, its own or for all */
    GUARD_ANSWER,           /* a function that reads a setting: object is (arguments, what it answers) */
} guard_kind;

typedef struct tensor_facts {
    PyTypeObject *type;     /* borrowed: kept by the sources */
    uint8_t  dtype, ndim;
    tp_device device;
    bool     requires_grad;
    uint32_t keys;          /* of the layers that change what an op does */
    int64_t  dims[];        /* sizes, then strides */
} tensor_facts;

typedef struct guard {
    uint8_t   kind;
    bool      weak;         /* `object` is a weak reference to what is meant */
    int32_t   source;
    int64_t   number;
    PyObject *object;       /* counted, may be NULL */
    uint64_t  seen[2];      /* versions of the dicts in which it held last */
    tensor_facts *facts;    /* owned, may be NULL */
} guard;

/* What a call brings. */
typedef struct call_state {
    PyObject *const *argument;      /* by slot */
    PyObject *closure;              /* tuple or NULL */
    PyObject *globals;
} call_state;

typedef struct tp_sources {
    tp_array(path) path;
    tp_array(guard) guard;
    tp_map path_at, guard_at;       /* hash -> index, to find what is there; a rare collision makes a second one */
} tp_sources;

void tp_sources_fini(tp_sources *s);
/* The source with these parts, made when there is none; -1: exception set. */
int32_t tp_source_in(tp_sources *s, source_kind kind, int32_t base, int32_t number, PyObject *key);
/* Adds an assumption unless it is there; false: exception set. `object` may be NULL. */
bool tp_guard_add(tp_sources *s, guard_kind kind, int32_t source, PyObject *object, int64_t number);
bool tp_guard_tensor(tp_sources *s, int32_t source, PyObject *tensor);
bool tp_guard_settings(tp_sources *s, int32_t at, PyObject *module);    /* its mode and what it was made with */
PyObject *tp_guard_object(const guard *g);       /* borrowed: what is meant; NULL: nothing, or it is dead */
int tp_sources_traverse(const tp_sources *s, visitproc visit, void *arg);

/* The object at the end of a path; values[i] caches source i (owned, NULL: not yet). Borrowed from there; NULL: the path
 * leads nowhere now, no exception set. */
PyObject *tp_source_value(const tp_sources *s, int32_t source, const call_state *call, PyObject **values);
/* Do all guards hold? On failure *failed is the first that does not. `values` has room for path.count, all NULL; filled
 * entries are the caller's to drop. */
bool tp_guards_hold(const tp_sources *s, const call_state *call, PyObject **values, const guard **failed);

PyObject *tp_source_text(const tp_sources *s, int32_t source);      /* L['x'].weight */
PyObject *tp_guard_text(const tp_sources *s, const guard *g);

#endif
