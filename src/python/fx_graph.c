/* fx_graph.c - torch.fx.Graph: making, ordering and dropping nodes; the list of them.
 *
 * The package's fx.Graph derives from the type made here and adds what is about modules and code generation. */
#include <string.h>

#include "base/alloc.h"
#include "python/fx.h"

#include <structmember.h>

#define METHOD(f) ((PyCFunction)(void (*)(void))(f))
#define FAST (METH_FASTCALL | METH_KEYWORDS)

/* ---- making and letting go ---- */
static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    fx_graph *o = (fx_graph *)type->tp_alloc(type, 0);
    if (!o)
        return NULL;
    if (!(o->graph = tp_graph_new())) {
        Py_DECREF(o);
        return face_raise();
    }
    o->graph->wrapper = o;
    return (PyObject *)o;
}

PyObject *fx_wrap_graph(tp_graph *g)
{
    if (g->wrapper)
        return Py_NewRef((PyObject *)g->wrapper);
    if (!face.fx.graph_class) {         /* the engine made a graph before Python asked for fx */
        char name[96];
        PyOS_snprintf(name, sizeof name, "%s.fx", face.package);
        PyObject *module = PyImport_ImportModule(name);
        if (!module)
            return NULL;
        Py_DECREF(module);
    }
    PyObject *made = PyObject_CallNoArgs(face.fx.graph_class);
    if (!made)
        return NULL;
    fx_graph *o = (fx_graph *)made;
    o->graph->wrapper = NULL;
    tp_graph_unref(o->graph);
    o->graph = tp_graph_ref(g);
    g->wrapper = o;
    return made;
}

static void graph_dealloc(PyObject *self)
{
    fx_graph *o = (fx_graph *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (o->weakrefs)
        PyObject_ClearWeakRefs(self);
    Py_CLEAR(o->kept);
    Py_CLEAR(o->dict);
    Py_CLEAR(o->pending);
    if (o->graph) {
        o->graph->wrapper = NULL;
        o->graph->before_edit = NULL;
        tp_graph_unref(o->graph);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

typedef struct visiting { visitproc visit; void *arg; } visiting;

static int visit_handle(tp_handle *h, void *data)
{
    const visiting *v = data;
    return atomic_load(&h->refs) == 1 ? v->visit(h->object, v->arg) : 0;
}

static int graph_traverse(PyObject *self, visitproc visit, void *arg)
{
    fx_graph *o = (fx_graph *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->kept);
    Py_VISIT(o->dict);
    Py_VISIT(o->pending);
    if (!o->graph || atomic_load(&o->graph->refs) != 1)
        return 0;
    visiting v = { visit, arg };
    return tp_graph_each_handle(o->graph, visit_handle, &v);
}

static int graph_clear(PyObject *self)
{
    Py_CLEAR(((fx_graph *)self)->kept);
    Py_CLEAR(((fx_graph *)self)->dict);
    Py_CLEAR(((fx_graph *)self)->pending);
    return 0;
}

/* ---- text that waits ---- */

/* What write() raises it keeps for whoever asks for the text; the edit goes on. */
static void write_pending(tp_graph *g)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace, *pending = g->wrapper ? ((fx_graph *)g->wrapper)->pending : NULL;
    PyErr_Fetch(&type, &value, &trace);
    if (pending) {
        ((fx_graph *)g->wrapper)->pending = NULL;
        PyObject *done = PyObject_CallMethod(pending, "write", NULL);
        if (!done)
            PyErr_WriteUnraisable(pending);
        Py_XDECREF(done);
        Py_DECREF(pending);
    }
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

/* _before_edit(pending): its write() is called before the graph changes, once. */
static PyObject *before_edit(PyObject *self, PyObject *pending)
{
    fx_graph *o = (fx_graph *)self;
    write_pending(o->graph);
    o->pending = Py_NewRef(pending);
    o->graph->before_edit = write_pending;
    Py_RETURN_NONE;
}

/* ---- arguments of calls ---- */
bool fx_read_call(const char *function, const char *const *names, int count, int required, PyObject *const *args,
                  Py_ssize_t given,
                  PyObject *kwnames, PyObject **out)
{
    memset(out, 0, (size_t)count * sizeof *out);
    if (given > count) {
        PyErr_Format(PyExc_TypeError, "%s() takes from %d to %d positional arguments but %zd were given", function,
                     required, count, given);
        return false;
    }
    for (Py_ssize_t i = 0; i < given; i++)
        out[i] = args[i];
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        int i = 0;
        while (i < count && PyUnicode_CompareWithASCIIString(name, names[i]) != 0)
            i++;
        if (i == count || out[i]) {
            PyErr_Format(PyExc_TypeError,
                         i == count ? "%s() got an unexpected keyword argument '%U'"
                                    : "%s() got multiple values for argument '%U'", function, name);
            return false;
        }
        out[i] = args[given + k];
    }
    for (int i = 0; i < required; i++)
        if (!out[i]) {
            PyErr_Format(PyExc_TypeError, "%s() missing 1 required positional argument: '%s'", function, names[i]);
            return false;
        }
    for (int i = required; i < count; i++)
        if (out[i] == Py_None)
            out[i] = NULL;
    return true;
}

/* ---- targets ---- */
const tp_builtin *fx_builtin_of(PyObject *o)
{
    if (!PyCFunction_Check(o) && !PyFunction_Check(o))
        return NULL;
    PyObject *index = PyDict_GetItem(face.fx.builtins, o);
    return index ? &tp_builtins[PyLong_AsSize_t(index)] : NULL;
}

PyObject *fx_builtin_object(const tp_builtin *b)
{
    PyObject *o = PyList_GET_ITEM(face.fx.builtin_objects, b - tp_builtins);
    if (o == Py_None)
        return PyErr_Format(PyExc_NotImplementedError, "%s.%s is not implemented in Taper yet", b->module, b->name);
    return Py_NewRef(o);
}

/* Finds Python's faces of the builtins; those of the package itself are there once it is imported. */
static PyObject *find_builtins(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    for (size_t i = 0; i < tp_builtin_count; i++) {
        bool own = strcmp(tp_builtins[i].module, "torch") == 0;
        PyObject *place = PyImport_ImportModule(own ? face.package : tp_builtins[i].module);
        PyObject *o = place ? PyObject_GetAttrString(place, tp_builtins[i].name) : NULL,
                 *index = o ? PyLong_FromSize_t(i) : NULL;
        PyErr_Clear();
        int done = index ? PyDict_SetItem(face.fx.builtins, o, index) : 0;
        if (index && done == 0)
            PyList_SetItem(face.fx.builtin_objects, (Py_ssize_t)i, Py_NewRef(o));
        Py_XDECREF(place);
        Py_XDECREF(o);
        Py_XDECREF(index);
        if (done < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

bool fx_target_read(tp_node_kind kind, PyObject *o, tp_target *out)
{
    if (kind != TP_CALL_FUNCTION) {
        const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
        if (name)
            *out = tp_target_name(name);
        return name;
    }
    const tp_op *op = face_overload_op(o);
    const tp_builtin *builtin = op ? NULL : fx_builtin_of(o);
    if (op || builtin) {
        *out = op ? tp_target_op(op) : tp_target_builtin(builtin);
        return true;
    }
    tp_handle *h = face_handle_new(o);
    if (!h)
        return face_raise();
    *out = tp_target_handle(h);
    return true;
}

void fx_target_drop(tp_target t)
{
    if (t.kind == TP_TARGET_HANDLE)
        tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = t.handle });
}

PyObject *fx_target_object(const tp_node *n)
{
    switch ((tp_target_kind)n->target.kind) {
    case TP_TARGET_NAME: return PyUnicode_FromString(n->target.name);
    case TP_TARGET_OP: return face_overload(n->target.op);
    case TP_TARGET_BUILTIN: return fx_builtin_object(n->target.builtin);
    case TP_TARGET_HANDLE: return Py_NewRef((PyObject *)n->target.handle->object);
    }
    Py_UNREACHABLE();
}

static bool target_fits(fx_graph *g, tp_node_kind kind, PyObject *target, PyObject *name)
{
    bool function = kind == TP_CALL_FUNCTION;
    if (function ? PyCallable_Check(target) : PyUnicode_Check(target))
        return true;
    PyObject *text = fx_graph_str(g->graph);
    if (text)
        PyErr_Format(PyExc_ValueError, "Node [graph = %U, name = '%S'] target %S has type %s but a %s is expected",
                     text, name ? name : target, target,
                     Py_TYPE(target)->tp_name, function ? "Callable" : "str");
    Py_XDECREF(text);
    return false;
}

/* ---- creating nodes ---- */

/* Behind `after`, which may have been erased since: then where it stood. */
static void place_insertion(fx_graph *g)
{
    if (!g->after)
        return;
    tp_node *at = g->after->next;
    while (at->flags & TP_NODE_ERASED)
        at = at->next;
    g->graph->insert = at;
}

static bool set_type(tp_node *n, PyObject *type)
{
    tp_handle *h = face_handle_new(type);
    if (!h)
        return face_raise();
    tp_node_set_type(n, h);
    tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
    return true;
}

/* What FX would wish for, of functions whose name is at hand: "add_tensor" of add.Tensor. NULL: ask the longer way. */
static const char *quick_wish(tp_target t, char *out, size_t room)
{
    const char *part[2] = { NULL, "" };
    if (t.kind == TP_TARGET_BUILTIN)
        part[0] = t.builtin->name;
    else if (t.kind == TP_TARGET_OP)
        part[0] = t.op->name, part[1] = *t.op->overload ? t.op->overload : "default";
    else if (t.kind == TP_TARGET_HANDLE && PyCFunction_Check((PyObject *)t.handle->object))
        part[0] = ((PyCFunctionObject *)t.handle->object)->m_ml->ml_name;
    size_t length = 0;
    for (int i = 0; part[0] && i < 2; i++) {
        if (i && *part[1])
            out[length++] = '_';
        for (const char *c = part[i]; *c; c++) {
            if (length + 3 > room || (unsigned char)*c > 127)
                return NULL;
            if (Py_ISUPPER(*c) && c > part[i] && (Py_ISLOWER(c[-1]) || Py_ISDIGIT(c[-1])))
                out[length++] = '_';
            out[length++] = (char)Py_TOLOWER(*c);
        }
    }
    out[length] = 0;
    return length ? out : NULL;
}

/* A mistake of one node must not spoil the graph for the nodes to come. */
static PyObject *graph_error(tp_graph *g)
{
    g->failed = TP_ERR_NONE;
    return face_raise();
}

fx_node *fx_create(fx_graph *g, tp_node_kind kind, PyObject *target, PyObject *args, PyObject *kwargs, PyObject *name,
                   PyObject *type)
{
    fx_arguments a = { .value = a.few };
    tp_target t;
    tp_node *n = NULL;
    char quick[128];
    const char *wish = name ? PyUnicode_AsUTF8(name) : NULL;
    if ((name && !wish) || !target_fits(g, kind, target, name) || !fx_target_read(kind, target, &t))
        return NULL;
    if (fx_arguments_read(&a, g->graph, args, kwargs)) {
        place_insertion(g);
        n = tp_node_new(g->graph, kind, t, a.value, a.count, a.keywords,
                        wish ? wish : quick_wish(t, quick, sizeof quick));
        if (!n)
            graph_error(g->graph);
        else if (type && !set_type(n, type))
            n = NULL;
    }
    fx_arguments_fini(&a);
    fx_target_drop(t);
    return n ? (fx_node *)fx_wrap_node(n) : NULL;
}

static bool check_arguments(PyObject *args, PyObject *kwargs)
{
    if (args && !PyTuple_Check(args))
        return PyErr_Format(PyExc_AssertionError, "args must be a tuple, got %R", (PyObject *)Py_TYPE(args));
    if (kwargs && !PyDict_Check(kwargs))
        return PyErr_Format(PyExc_AssertionError, "kwargs must be a dict, got %R", (PyObject *)Py_TYPE(kwargs));
    return true;
}

int fx_kind_of(PyObject *op)
{
    const char *text = PyUnicode_Check(op) ? PyUnicode_AsUTF8(op) : NULL;
    for (int k = TP_PLACEHOLDER; text && k < TP_ROOT; k++)
        if (strcmp(text, tp_node_kind_names[k]) == 0)
            return k;
    PyErr_Format(PyExc_AssertionError, "op %R is not in _legal_ops", op);
    return -1;
}

static bool run_create_hooks(PyObject *self, PyObject *node)
{
    PyObject *owner = PyObject_GetAttrString(self, "owning_module");
    PyObject *hooks = owner && owner != Py_None ? PyObject_GetAttrString(owner, "_create_node_hooks") : NULL;
    PyErr_Clear();
    bool ok = true;
    for (Py_ssize_t i = 0; ok && hooks && PyList_Check(hooks) && i < PyList_GET_SIZE(hooks); i++) {
        PyObject *done = PyObject_CallOneArg(PyList_GET_ITEM(hooks, i), node);
        ok = done;
        Py_XDECREF(done);
    }
    Py_XDECREF(owner);
    Py_XDECREF(hooks);
    return ok;
}

static PyObject *finish(PyObject *self, fx_node *made)
{
    fx_graph *g = (fx_graph *)self;
    PyObject *owner = made && g->dict ? PyDict_GetItem(g->dict, face.fx.name_owner) : NULL;
    if (owner && owner != Py_None && !run_create_hooks(self, (PyObject *)made))
        Py_CLEAR(made);
    return (PyObject *)made;
}

static PyObject *create_node(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "op", "target", "args", "kwargs", "name", "type_expr" };
    PyObject *in[6];
    if (!fx_read_call("create_node", names, 6, 2, args, count, kwnames, in))
        return NULL;
    int kind = fx_kind_of(in[0]);
    if (kind < 0 || !check_arguments(in[2], in[3]))
        return NULL;
    return finish(self, fx_create((fx_graph *)self, (tp_node_kind)kind, in[1], in[2], in[3], in[4], in[5]));
}

/* Through create_node when a subclass may have its own. */
static PyObject *make(PyObject *self, tp_node_kind kind, PyObject *target, PyObject *args, PyObject *kwargs,
                      PyObject *name, PyObject *type)
{
    if (!check_arguments(args, kwargs))
        return NULL;
    if ((PyObject *)Py_TYPE(self) == face.fx.graph_class)
        return finish(self, fx_create((fx_graph *)self, kind, target, args, kwargs, name, type));
    return PyObject_CallMethod(self, "create_node", "sOOOOO", tp_node_kind_names[kind], target,
                               args ? args : face.empty_tuple,
                               kwargs ? kwargs : Py_None, name ? name : Py_None, type ? type : Py_None);
}

static PyObject *call_function(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "the_function", "args", "kwargs", "type_expr", "name" };
    PyObject *in[5];
    if (!fx_read_call("call_function", names, 5, 1, args, count, kwnames, in))
        return NULL;
    return make(self, TP_CALL_FUNCTION, in[0], in[1], in[2], in[4], in[3]);
}

static PyObject *call_named(PyObject *self, tp_node_kind kind, const char *what, PyObject *const *args,
                            Py_ssize_t count, PyObject *kwnames)
{
    const char *const names[] = { kind == TP_CALL_METHOD ? "method_name" : "module_name", "args", "kwargs",
                                  "type_expr" };
    PyObject *in[4];
    if (!fx_read_call(what, names, 4, 1, args, count, kwnames, in))
        return NULL;
    return make(self, kind, in[0], in[1], in[2], NULL, in[3]);
}

static PyObject *call_method(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return call_named(self, TP_CALL_METHOD, "call_method", args, count, kwnames);
}

static PyObject *call_module(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    return call_named(self, TP_CALL_MODULE, "call_module", args, count, kwnames);
}

static PyObject *get_attr(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "qualified_name", "type_expr" };
    PyObject *in[2];
    if (!fx_read_call("get_attr", names, 2, 1, args, count, kwnames, in))
        return NULL;
    return make(self, TP_GET_ATTR, in[0], NULL, NULL, NULL, in[1]);
}

/* A default of None is a default: only an absent one means that there is none. */
static PyObject *placeholder(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "type_expr", "default_value", NULL };
    PyObject *name, *type = NULL, *otherwise = NULL, *given = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO", names, &name, &type, &otherwise))
        return NULL;
    PyObject *module = otherwise && PyType_Check(otherwise) ? PyObject_GetAttrString(otherwise, "__module__") : NULL;
    PyErr_Clear();
    bool empty = !otherwise ||
        (module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "inspect") == 0);
    Py_XDECREF(module);
    if (!empty && !(given = PyTuple_Pack(1, otherwise)))
        return NULL;
    PyObject *made = make(self, TP_PLACEHOLDER, name, given, NULL, NULL, type == Py_None ? NULL : type);
    Py_XDECREF(given);
    return made;
}

static PyObject *output(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "result", "type_expr", NULL };
    PyObject *result, *type = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &result, &type))
        return NULL;
    PyObject *target = PyUnicode_FromString("output"), *given = target ? PyTuple_Pack(1, result) : NULL;
    PyObject *made = given ? make(self, TP_OUTPUT, target, given, NULL, NULL, type == Py_None ? NULL : type) : NULL;
    Py_XDECREF(target);
    Py_XDECREF(given);
    return made;
}

/* ---- copying ---- */
static PyObject *shallow_meta(tp_node *from, tp_node *to)
{
    PyObject *meta = fx_node_meta(from), *copy = meta ? PyDict_Copy(meta) : NULL;
    tp_handle *h = copy ? face_handle_new(copy) : NULL;
    if (copy && !h)
        face_raise();
    Py_XDECREF(copy);
    if (!h)
        return NULL;
    tp_node_set_meta(to, h);
    tp_value_unref((tp_value){ .tag = TP_HANDLE, .handle = h });
    return copy;
}

static PyObject *map_leaf(PyObject *o, void *function)
{
    return fx_is_node(o) && function ? PyObject_CallOneArg(function, o) : Py_NewRef(o);
}

static PyObject *copy_one(PyObject *self, tp_node *n, PyObject *(*leaf)(PyObject *o, void *data), void *data)
{
    PyObject *args = fx_args_tuple(n), *kwargs = args ? fx_kwargs_dict(n) : NULL, *made = NULL;
    PyObject *new_args = kwargs ? fx_map(args, leaf, data) : NULL,
             *new_kwargs = new_args ? fx_map(kwargs, leaf, data) : NULL;
    PyObject *target = new_kwargs ? fx_target_object(n) : NULL, *name = target ? PyUnicode_FromString(n->name) : NULL;
    if (name && n->kind == TP_ROOT)
        PyErr_SetString(PyExc_AssertionError, "op 'root' is not in _legal_ops");
    else if (name)
        made = make(self, (tp_node_kind)n->kind, target, new_args, new_kwargs, name, n->type ? n->type->object : NULL);
    if (made && fx_is_node(made)) {
        fx_node_of(made)->flags |= n->flags & TP_NODE_IMPURE;
        tp_node_set_fact(fx_node_of(made), n->fact);
        tp_node_set_origin(fx_node_of(made), n->origin);
        if (n->meta && !shallow_meta(n, fx_node_of(made)))
            Py_CLEAR(made);
    }
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(new_args);
    Py_XDECREF(new_kwargs);
    Py_XDECREF(target);
    Py_XDECREF(name);
    return made;
}

static PyObject *node_copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "node", "arg_transform" };
    PyObject *in[2];
    if (!fx_read_call("node_copy", names, 2, 1, args, count, kwnames, in))
        return NULL;
    if (!fx_is_node(in[0]))
        return PyErr_Format(PyExc_TypeError, "node_copy() needs a Node, not %R", (PyObject *)Py_TYPE(in[0]));
    return copy_one(self, fx_node_of(in[0]), map_leaf, in[1]);
}

static PyObject *look_up(PyObject *o, void *map)
{
    if (!fx_is_node(o))
        return Py_NewRef(o);
    PyObject *found = PyObject_GetItem(map, o);
    return found;
}

/* Copies nodes of `from` that `map` does not know yet; gives the mapped argument of its output. */
static PyObject *graph_copy(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames)
{
    static const char *const names[] = { "g", "val_map", "return_output_node" };
    PyObject *in[3];
    if (!fx_read_call("graph_copy", names, 3, 2, args, count, kwnames, in))
        return NULL;
    if (!fx_is_graph(in[0]))
        return PyErr_Format(PyExc_TypeError, "graph_copy() needs a Graph, not %R", (PyObject *)Py_TYPE(in[0]));
    PyObject *keep = Py_NewRef(in[0]), *result = Py_NewRef(Py_None);
    tp_graph *from = fx_graph_of(in[0]);
    int pair = in[2] ? PyObject_IsTrue(in[2]) : 0;
    for (tp_node *n = from->root.next; result && n != &from->root; n = n->next) {
        PyObject *o = fx_wrap_node(n), *made = NULL;
        int known = o ? PySequence_Contains(in[1], o) : -1;
        if (known < 0) {
            Py_CLEAR(result);
        } else if (!known && n->kind == TP_OUTPUT) {
            PyObject *given = n->arg_count ? fx_from_value(n->arg[0]) : Py_NewRef(Py_None);
            Py_SETREF(result, given ? fx_map(given, look_up, in[1]) : NULL);
            Py_XDECREF(given);
            if (result && pair)
                result = Py_BuildValue("(NO)", result, o);
            Py_DECREF(o);
            break;
        } else if (!known) {
            made = copy_one(self, n, look_up, in[1]);
            if (!made || PyObject_SetItem(in[1], o, made) < 0)
                Py_CLEAR(result);
        }
        Py_XDECREF(made);
        Py_XDECREF(o);
    }
    Py_DECREF(keep);
    return result;
}

/* A graph of the same class with the same nodes, names and all; meta dicts are copied one level deep. Its attributes
 * are the caller's business. */
static PyObject *copied(PyObject *self, PyObject *unused)
{
    PyObject *checked = fx_graph_lint(self, unused);        /* a copy follows the order of the nodes */
    if (!checked)
        return NULL;
    Py_DECREF(checked);
    fx_graph *o = (fx_graph *)Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (!o)
        return NULL;
    if (!(o->graph = tp_graph_copy(fx_graph_of(self)))) {
        Py_DECREF(o);
        return face_raise();
    }
    o->graph->wrapper = o;
    for (tp_node *n = o->graph->root.next; n != &o->graph->root; n = n->next)
        if (n->meta && !shallow_meta(n, n)) {
            Py_DECREF(o);
            return NULL;
        }
    return (PyObject *)o;
}

static PyObject *graph_str(PyObject *self)
{
    return fx_graph_str(fx_graph_of(self));
}

static PyObject *node_at(PyObject *module, PyObject *args)
{
    PyObject *graph;
    Py_ssize_t index;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!n", face.fx.graph, &graph, &index))
        return NULL;
    tp_graph *g = fx_graph_of(graph);
    for (tp_node *n = g->root.next; n != &g->root; n = n->next)
        if (index-- == 0)
            return fx_wrap_node(n);
    return PyErr_Format(PyExc_IndexError, "the graph has no such node");
}

/* ---- the type ---- */
static PyObject *get_root(PyObject *self, void *unused)
{
    (void)unused;
    return fx_wrap_node(&fx_graph_of(self)->root);
}

static PyObject *fresh_name(PyObject *self, PyObject *wish)
{
    const char *text = PyUnicode_Check(wish) ? PyUnicode_AsUTF8(wish) : NULL;
    if (!text)
        return PyErr_Format(PyExc_TypeError, "a name must be a string");
    const char *name = tp_graph_name(fx_graph_of(self), text);
    return name ? PyUnicode_FromString(name) : face_raise();
}

/* _child(name): the graph that get_attr nodes of this name read; None: there is none. */
static PyObject *child(PyObject *self, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    tp_graph *found = text ? tp_graph_child(fx_graph_of(self), text) : NULL;
    return !text ? NULL : found ? fx_wrap_graph(found) : Py_NewRef(Py_None);
}

/* _set_child(name, graph) */
static PyObject *set_child(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *graph;
    if (!PyArg_ParseTuple(args, "sO!", &name, face.fx.graph, &graph))
        return NULL;
    if (!tp_graph_set_child(fx_graph_of(self), name, fx_graph_of(graph)))
        return face_raise();
    Py_RETURN_NONE;
}

static PyMethodDef graph_methods[] = {
    { "_child", child, METH_O, NULL },
    { "_set_child", set_child, METH_VARARGS, NULL },
    { "_before_edit", before_edit, METH_O, NULL },
    { "create_node", METHOD(create_node), FAST, NULL },
    { "call_function", METHOD(call_function), FAST, NULL },
    { "call_method", METHOD(call_method), FAST, NULL },
    { "call_module", METHOD(call_module), FAST, NULL },
    { "get_attr", METHOD(get_attr), FAST, NULL },
    { "placeholder", METHOD(placeholder), METH_VARARGS | METH_KEYWORDS, NULL },
    { "output", METHOD(output), METH_VARARGS | METH_KEYWORDS, NULL },
    { "node_copy", METHOD(node_copy), FAST, NULL },
    { "graph_copy", METHOD(graph_copy), FAST, NULL },
    { "_copied", copied, METH_NOARGS, NULL },
    { "erase_node", fx_graph_erase_node, METH_O, NULL },
    { "eliminate_dead_code", METHOD(fx_graph_eliminate_dead_code), FAST, NULL },
    { "lint", fx_graph_lint, METH_NOARGS, NULL },
    { "find_nodes", METHOD(fx_graph_find_nodes), METH_VARARGS | METH_KEYWORDS, NULL },
    { "output_node", fx_graph_output_node, METH_NOARGS, NULL },
    { "inserting_before", METHOD(fx_inserting_before), FAST, NULL },
    { "inserting_after", METHOD(fx_inserting_after), FAST, NULL },
    { "_fresh_name", fresh_name, METH_O, NULL },
    { 0 },
};
static PyGetSetDef graph_attributes[] = {
    { "nodes", fx_graph_nodes, NULL, NULL, NULL },
    { "_root", get_root, NULL, NULL, NULL },
    { "__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL },
    { 0 },
};
static PyMemberDef graph_members[] = {
    { "__dictoffset__", T_PYSSIZET, offsetof(fx_graph, dict), READONLY, NULL },
    { "__weaklistoffset__", T_PYSSIZET, offsetof(fx_graph, weakrefs), READONLY, NULL },
    { 0 },
};
static PyType_Slot graph_slots[] = {
    { Py_tp_new, graph_new },           { Py_tp_dealloc, graph_dealloc }, { Py_tp_traverse, graph_traverse },
    { Py_tp_clear, graph_clear },       { Py_tp_str, graph_str },         { Py_tp_methods, graph_methods },
    { Py_tp_getset, graph_attributes }, { Py_tp_members, graph_members }, { 0, NULL },
};
static PyType_Spec graph_spec = {
    .name = "_C._FxGraph", .basicsize = sizeof(fx_graph),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, .slots = graph_slots,
};

/* What the package's fx defines and C makes or asks. */
static PyObject *register_fx(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "graph", "immutable_list", "immutable_dict", "side_effects", "tensor_meta", "graph_module", "tell_failure", NULL };
    PyObject *in[7] = { 0 };
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOO!O", names, &in[0], &in[1], &in[2], &in[3], &in[4], &PyType_Type, &in[5], &in[6]))
        return NULL;
    PyObject **field[7] = { &face.fx.graph_class, &face.fx.list, &face.fx.dict, &face.fx.side_effects,
                            &face.fx.tensor_meta, &face.fx.graph_module, &face.fx.tell_failure };
    for (int i = 0; i < 7; i++)
        if (in[i])
            Py_XSETREF(*field[i], Py_NewRef(in[i]));
    Py_RETURN_NONE;
}

/* What a node of this target would like to be named. */
static PyObject *wish_of(PyObject *module, PyObject *target)
{
    tp_target t;
    tp_text text = { 0 };
    (void)module;
    if (!fx_target_read(PyUnicode_Check(target) ? TP_GET_ATTR : TP_CALL_FUNCTION, target, &t))
        return NULL;
    PyObject *made = tp_target_wish(t, &text) ? PyUnicode_FromString(tp_text_read(&text)) : face_raise();
    tp_text_fini(&text);
    fx_target_drop(t);
    return made;
}

static PyMethodDef functions[] = {
    { "_fx_wish", wish_of, METH_O, NULL },
    { "_fx_register", METHOD(register_fx), METH_VARARGS | METH_KEYWORDS, NULL },
    { "_fx_node_at", node_at, METH_VARARGS, NULL },
    { "_fx_find_builtins", find_builtins, METH_NOARGS, NULL },
    { 0 },
};

static bool prepare_builtins(void)
{
    face.fx.builtins = PyDict_New();
    face.fx.builtin_objects = PyList_New((Py_ssize_t)tp_builtin_count);
    face.fx.name_owner = PyUnicode_InternFromString("_owning_module");
    for (size_t i = 0; face.fx.builtin_objects && i < tp_builtin_count; i++)
        PyList_SET_ITEM(face.fx.builtin_objects, i, Py_NewRef(Py_None));
    return face.fx.builtins && face.fx.builtin_objects && face.fx.name_owner;
}

bool face_fx_init(PyObject *module)
{
    if (!prepare_builtins())
        return false;
    return fx_node_types_init(module) && (face.fx.graph = fx_make_type(module, &graph_spec, "_FxGraph")) &&
           fx_order_init(module) && fx_arguments_init(module) &&
           fx_code_init(module) && fx_run_init(module) && fx_passes_init(module) && PyModule_AddFunctions(module, functions) == 0;
}
