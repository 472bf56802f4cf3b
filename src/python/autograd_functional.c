/* autograd_functional.c - autograd.functional: products with Jacobians and Hessians, and these themselves, by the tape.
 *
 * The inputs are made leaves, the function runs once, and gradients of what it gave are taken: once for v J, twice for J v (what
 * a gradient makes of u is linear in u, so its gradient along v is J v) and for v H, three times for H v. Strict mode refuses
 * what is independent of an input; otherwise that is zeros. */
#include "python/transforms.h"

#include "grad/tape.h"

typedef struct study {
    const char *who;                    /* the function's name, for messages */
    bool      create, strict;
    PyObject *inputs, *outputs;         /* counted tuples of tensors */
    bool      one_input, one_output;    /* they were given alone, not in a tuple */
} study;

static void study_fini(study *s)
{
    Py_CLEAR(s->inputs);
    Py_CLEAR(s->outputs);
}

/* ---- checks, in PyTorch's words ---- */
#define OUTPUTS "outputs of the user-provided function"
#define OF_FUNCTION "of the user-provided function"
#define NOT_STRICT "This is not allowed in strict mode"

static PyObject *as_tuple(PyObject *o, const char *what, const char *who, bool *alone)
{
    PyObject *all = face_is_tensor(o) ? PyTuple_Pack(1, o) : PyTuple_Check(o) ? Py_NewRef(o) : NULL;
    *alone = face_is_tensor(o);
    if (!all && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "The %s given to %s must be either a Tensor or a tuple of Tensors but the given %s has type %R.", what, who, what,
                     (PyObject *)Py_TYPE(o));
    for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(all); i++)
        if (!face_is_tensor(PyTuple_GET_ITEM(all, i))) {
            PyErr_Format(PyExc_TypeError, "The %s given to %s must be either a Tensor or a tuple of Tensors but the value at index %zd has type %R.", what, who,
                         i, (PyObject *)Py_TYPE(PyTuple_GET_ITEM(all, i)));
            Py_CLEAR(all);
        }
    return all;
}

/* The vectors v as a tuple, one for each of `like`, of its sizes. */
static PyObject *vectors(PyObject *v, PyObject *like, bool like_alone, const char *who)
{
    bool alone;
    PyObject *all = as_tuple(v, "v", who, &alone);
    Py_ssize_t count = PyTuple_GET_SIZE(like);
    if (!all)
        return NULL;
    if (PyTuple_GET_SIZE(all) != count) {
        if (like_alone)
            PyErr_SetString(PyExc_RuntimeError, "The given v should contain a single Tensor.");
        else
            PyErr_Format(PyExc_RuntimeError, "v is a tuple of invalid length: should be %zd but got %zd.", count, PyTuple_GET_SIZE(all));
        Py_CLEAR(all);
    }
    for (Py_ssize_t i = 0; all && i < count; i++) {
        const tp_tensor *x = face_tensor(PyTuple_GET_ITEM(like, i)), *t = face_tensor(PyTuple_GET_ITEM(all, i));
        if (x->ndim == t->ndim && memcmp(x->size, t->size, (size_t)x->ndim * sizeof *x->size) == 0)
            continue;
        PyObject *entry = like_alone ? PyUnicode_FromString("v") : PyUnicode_FromFormat("Entry %zd in v", i);
        PyObject *want = face_size(x->ndim, x->size), *have = face_size(t->ndim, t->size);
        if (entry && want && have)
            PyErr_Format(PyExc_RuntimeError, "%U has invalid size: should be %R but got %R.", entry, want, have);
        Py_XDECREF(entry);
        Py_XDECREF(want);
        Py_XDECREF(have);
        Py_CLEAR(all);
    }
    return all;
}

static bool single_element(PyObject *all)
{
    return PyTuple_GET_SIZE(all) == 1 && face_tensor(PyTuple_GET_ITEM(all, 0))->numel == 1;
}

static bool need_outputs_tracked(const study *s)
{
    for (Py_ssize_t i = 0; s->strict && i < PyTuple_GET_SIZE(s->outputs); i++)
        if (!tp_requires_grad(face_tensor(PyTuple_GET_ITEM(s->outputs, i)))) {
            PyErr_Format(PyExc_RuntimeError, "Output %zd " OF_FUNCTION " does not require gradients. The outputs must be computed in a differentiable manner from the "
                         "input when running in strict mode.", i);
            return false;
        }
    return true;
}

static bool need_jacobian_tracked(const study *s, PyObject *jacobian)
{
    for (Py_ssize_t i = 0; s->strict && i < PyTuple_GET_SIZE(jacobian); i++)
        if (!tp_requires_grad(face_tensor(PyTuple_GET_ITEM(jacobian, i)))) {
            PyErr_Format(PyExc_RuntimeError, "While computing the hessian, found that the jacobian " OF_FUNCTION " with respect to input %zd is independent of the "
                         "input. " NOT_STRICT ". You should ensure that your function is twice differentiable and that the jacobian depends on the inputs (this "
                         "would be violated by a linear function for example).", i);
            return false;
        }
    return true;
}

/* ---- the function's one run ---- */

/* A leaf, or, where somebody wants the graph back to the input, a view of it. */
static PyObject *prepared(PyObject *x, bool create)
{
    if (create && tp_requires_grad(face_tensor(x)))
        return face_call_method("view_as", x, &x, 1);
    PyObject *leaf = face_call_method("detach", x, NULL, 0);
    if (leaf && !tp_set_requires_grad(face_tensor(leaf), true)) {
        Py_DECREF(leaf);
        return face_raise();
    }
    return leaf;
}

static bool prepare(study *s, PyObject *inputs)
{
    PyObject *given = as_tuple(inputs, "inputs", s->who, &s->one_input);
    s->inputs = given ? PyTuple_New(PyTuple_GET_SIZE(given)) : NULL;
    for (Py_ssize_t i = 0; s->inputs && i < PyTuple_GET_SIZE(given); i++) {
        PyObject *x = prepared(PyTuple_GET_ITEM(given, i), s->create);
        if (x)
            PyTuple_SET_ITEM(s->inputs, i, x);
        else
            Py_CLEAR(s->inputs);
    }
    Py_XDECREF(given);
    return s->inputs;
}

static bool run(study *s, PyObject *function)
{
    PyObject *made = PyObject_CallObject(function, s->inputs);
    s->outputs = made ? as_tuple(made, OUTPUTS, s->who, &s->one_output) : NULL;
    Py_XDECREF(made);
    return s->outputs && need_outputs_tracked(s);
}

/* The same of a function to which Hessians are asked: one output of one element. */
static bool run_scalar(study *s, PyObject *function)
{
    if (!run(s, function))
        return false;
    if (!s->one_output)
        PyErr_Format(PyExc_RuntimeError, "The function given to %s should return a single Tensor", s->who);
    else if (!single_element(s->outputs))
        PyErr_Format(PyExc_RuntimeError, "The Tensor returned by the function given to %s should contain a single element", s->who);
    return s->one_output && single_element(s->outputs);
}

/* ---- gradients ---- */

/* Of `roots` (given `seeds`, NULL: ones) by `by`: a tuple, None where nothing flows. */
static PyObject *gradients(PyObject *roots, PyObject *by, PyObject *seeds, bool create)
{
    PyObject *used = PyList_New(0), *along = PyList_New(0), *out = NULL;
    bool ok = used && along;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(roots); i++) {
        PyObject *root = PyTuple_GET_ITEM(roots, i);
        if (face_is_tensor(root) && tp_requires_grad(face_tensor(root)))
            ok = PyList_Append(used, root) == 0 && PyList_Append(along, seeds ? PyTuple_GET_ITEM(seeds, i) : Py_None) == 0;
    }
    if (ok && PyList_GET_SIZE(used) == 0) {
        out = PyTuple_New(PyTuple_GET_SIZE(by));
        for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(by); i++)
            PyTuple_SET_ITEM(out, i, Py_NewRef(Py_None));
    } else if (ok) {
        PyObject *a = PyList_AsTuple(used), *b = PyList_AsTuple(along);
        out = a && b ? face_run_backward(a, b, true, create, by) : NULL;
        Py_XDECREF(a);
        Py_XDECREF(b);
    }
    Py_XDECREF(used);
    Py_XDECREF(along);
    return out;
}

/* Zeros in the place of None, and what strict mode says of it. Takes `found`. */
static PyObject *filled(const study *s, PyObject *found, PyObject *like, const char *missing, const char *untracked)
{
    PyObject *out = found ? PyTuple_New(PyTuple_GET_SIZE(found)) : NULL;
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *g = PyTuple_GET_ITEM(found, i);
        bool none = g == Py_None, bare = !none && s->create && untracked && !tp_requires_grad(face_tensor(g));
        if (s->strict && (none || bare)) {
            PyErr_Format(PyExc_RuntimeError, none ? "The %s " OF_FUNCTION " is independent of input %zd. " NOT_STRICT "." :
                         "The %s " OF_FUNCTION " is independent of input %zd. " NOT_STRICT " when create_graph=True.", none ? missing : untracked, i);
            Py_CLEAR(out);
            break;
        }
        PyObject *own = none ? face_call_function("zeros_like", Py_BuildValue("(O)", PyTuple_GET_ITEM(like, i)), NULL) : Py_NewRef(g);
        if (own)
            PyTuple_SET_ITEM(out, i, own);
        else
            Py_CLEAR(out);
    }
    Py_XDECREF(found);
    return out;
}

/* Zeros to be differentiated by, one for each. */
static PyObject *dummies(PyObject *like)
{
    PyObject *out = PyTuple_New(PyTuple_GET_SIZE(like));
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(like); i++) {
        PyObject *zero = face_call_function("zeros_like", Py_BuildValue("(O)", PyTuple_GET_ITEM(like, i)), NULL);
        if (zero && tp_set_requires_grad(face_tensor(zero), true)) {
            PyTuple_SET_ITEM(out, i, zero);
            continue;
        }
        Py_CLEAR(out);
        if (zero) {
            Py_DECREF(zero);
            (void)face_raise();
        }
    }
    return out;
}

/* What the caller gets: alone as it came, without history unless a graph was asked for. Takes `all`. */
static PyObject *handed(const study *s, PyObject *all, bool alone)
{
    PyObject *out = all ? PyTuple_New(PyTuple_GET_SIZE(all)) : NULL;
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(all); i++) {
        PyObject *t = PyTuple_GET_ITEM(all, i), *own = s->create ? Py_NewRef(t) : face_call_method("detach", t, NULL, 0);
        if (own)
            PyTuple_SET_ITEM(out, i, own);
        else
            Py_CLEAR(out);
    }
    Py_XDECREF(all);
    if (out && alone)
        Py_SETREF(out, Py_NewRef(PyTuple_GET_ITEM(out, 0)));
    return out;
}

/* (outputs, product); takes `product`. */
static PyObject *answer(study *s, PyObject *product, bool alone)
{
    PyObject *made = handed(s, product, alone), *outputs = made ? handed(s, Py_NewRef(s->outputs), s->one_output) : NULL;
    PyObject *out = outputs ? PyTuple_Pack(2, outputs, made) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(outputs);
    return out;
}

/* ---- products ---- */
#define NO_VECTOR "The vector v can only be None if the %s single Tensor with a single element."

/* v as given, or none for a single element; false: an exception is set. */
static bool read_vectors(const study *s, PyObject *v, bool of_outputs, PyObject **out)
{
    PyObject *like = of_outputs ? s->outputs : s->inputs;
    bool alone = of_outputs ? s->one_output : s->one_input;
    *out = NULL;
    if (v != Py_None)
        return (*out = vectors(v, like, alone, s->who)) != NULL;
    if (alone && single_element(like))
        return of_outputs || (*out = Py_BuildValue("(N)", face_call_function("ones_like", Py_BuildValue("(O)", PyTuple_GET_ITEM(like, 0)), NULL)));
    PyErr_Format(PyExc_RuntimeError, NO_VECTOR, of_outputs ? "user-provided function returns a" : "input to the user-provided function is a");
    return false;
}

static PyObject *product_vjp(study *s, PyObject *along)
{
    return filled(s, gradients(s->outputs, s->inputs, along, s->create), s->inputs, "output", "jacobian");
}

/* J v of `roots` by the inputs, through the gradient of their gradient. */
static PyObject *forward_product(const study *s, PyObject *roots, PyObject *along, const char *missing, const char *untracked)
{
    PyObject *u = dummies(roots), *back = u ? gradients(roots, s->inputs, u, true) : NULL;
    back = filled(s, back, s->inputs, missing, NULL);
    PyObject *found = back ? gradients(back, u, along, s->create) : NULL, *out = NULL;
    if (found) {
        study quiet = *s;                   /* a root that depends on one input need not depend on the others */
        quiet.strict = s->strict && s->create;
        out = filled(&quiet, found, roots, missing, untracked);
    }
    Py_XDECREF(u);
    Py_XDECREF(back);
    return out;
}

static PyObject *product_jvp(study *s, PyObject *along)
{
    return forward_product(s, s->outputs, along, "output", "jacobian");
}

static PyObject *tracked_jacobian(const study *s)
{
    PyObject *jacobian = filled(s, gradients(s->outputs, s->inputs, NULL, true), s->inputs, "output", NULL);
    if (jacobian && !need_jacobian_tracked(s, jacobian))
        Py_CLEAR(jacobian);
    return jacobian;
}

static PyObject *product_vhp(study *s, PyObject *along)
{
    PyObject *jacobian = tracked_jacobian(s), *found = jacobian ? gradients(jacobian, s->inputs, along, s->create) : NULL;
    Py_XDECREF(jacobian);
    return filled(s, found, s->inputs, "jacobian", "hessian");
}

static PyObject *product_hvp(study *s, PyObject *along)
{
    PyObject *jacobian = tracked_jacobian(s), *found = jacobian ? forward_product(s, jacobian, along, "jacobian", "hessian") : NULL;
    Py_XDECREF(jacobian);
    return found;
}

static const struct product {
    const char *who;
    PyObject *(*work)(study *s, PyObject *along);
    bool scalar, of_outputs;            /* the function gives one element; v is as the outputs, not as the inputs */
} products[] = {
    { "vjp", product_vjp, false, true }, { "jvp", product_jvp, false, false }, { "vhp", product_vhp, true, false }, { "hvp", product_hvp, true, false },
};

static PyObject *multiply(study *s, const struct product *p, PyObject *function, PyObject *inputs, PyObject *v)
{
    PyObject *along = NULL, *found = NULL;
    bool ok = prepare(s, inputs) && (p->of_outputs || read_vectors(s, v, false, &along)) && (p->scalar ? run_scalar : run)(s, function) &&
              (!p->of_outputs || read_vectors(s, v, true, &along));
    if (ok)
        found = p->work(s, along);
    Py_XDECREF(along);
    return found ? answer(s, found, p->work == product_jvp ? s->one_output : s->one_input) : NULL;
}

/* _functional_product(who, function, inputs, v, create_graph, strict) */
static PyObject *functional_product(PyObject *module, PyObject *all)
{
    study s = { 0 };
    PyObject *function, *inputs, *v, *out = NULL;
    int create, strict;
    (void)module;
    if (!PyArg_ParseTuple(all, "sOOOpp", &s.who, &function, &inputs, &v, &create, &strict))
        return NULL;
    s.create = create;
    s.strict = strict;
    bool mode = tp_self.grad_mode;
    tp_self.grad_mode = true;
    for (size_t i = 0; i < TP_COUNT(products); i++)
        if (strcmp(products[i].who, s.who) == 0)
            out = multiply(&s, &products[i], function, inputs, v);
    tp_self.grad_mode = mode;
    study_fini(&s);
    return out;
}

/* ---- Jacobians ---- */

/* Strict mode looks at one element: all elements of an output depend on the same inputs, or are taken to. */
static bool strict_about(const study *s, PyObject *output, Py_ssize_t number)
{
    PyObject *roots = PyTuple_Pack(1, output), *seeds = Py_BuildValue("(N)", face_call_function("ones_like", Py_BuildValue("(O)", output), NULL));
    PyObject *found = roots && seeds ? gradients(roots, s->inputs, seeds, s->create) : NULL;
    bool ok = found != NULL;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *g = PyTuple_GET_ITEM(found, i);
        if (g != Py_None && (!s->create || tp_requires_grad(face_tensor(g))))
            continue;
        ok = false;
        if (g == Py_None)
            PyErr_Format(PyExc_RuntimeError, "Output %zd " OF_FUNCTION " is independent of input %zd. " NOT_STRICT ".", number, i);
        else
            PyErr_Format(PyExc_RuntimeError, "The jacobian " OF_FUNCTION " is independent of input %zd. " NOT_STRICT " when create_graph=True.", i);
    }
    Py_XDECREF(roots);
    Py_XDECREF(seeds);
    Py_XDECREF(found);
    return ok;
}

/* A gradient for each element of an output, by all inputs: a list of lists of rows. */
static PyObject *rows_of(const study *s, PyObject *output)
{
    PyObject *roots = PyTuple_Pack(1, output), *one = PyLong_FromLong(1), *out = PyList_New(0);
    bool ok = roots && one && out;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(s->inputs); i++) {
        PyObject *rows = PyList_New(0);
        ok = rows && PyList_Append(out, rows) == 0;
        Py_XDECREF(rows);
    }
    for (int64_t k = 0; ok && k < face_tensor(output)->numel; k++) {
        PyObject *seed = face_unit_vector(output, k, one), *seeds = seed ? PyTuple_Pack(1, seed) : NULL;
        study lax = *s;
        lax.strict = false;
        PyObject *found = seeds ? filled(&lax, gradients(roots, s->inputs, seeds, s->create), s->inputs, "", NULL) : NULL;
        ok = found != NULL;
        for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(found); i++)
            ok = PyList_Append(PyList_GET_ITEM(out, i), PyTuple_GET_ITEM(found, i)) == 0;
        Py_XDECREF(seed);
        Py_XDECREF(seeds);
        Py_XDECREF(found);
    }
    Py_XDECREF(roots);
    Py_XDECREF(one);
    if (!ok)
        Py_CLEAR(out);
    return out;
}

/* Rows as one tensor, with the sizes of the output, then of the input; of an empty output there are none to stack. */
static PyObject *stacked(PyObject *rows, PyObject *output, PyObject *input)
{
    const tp_tensor *o = face_tensor(output), *x = face_tensor(input);
    int64_t size[2 * TP_MAX_DIMS];
    memcpy(size, o->size, (size_t)o->ndim * sizeof *size);
    memcpy(size + o->ndim, x->size, (size_t)x->ndim * sizeof *size);
    if (PyList_GET_SIZE(rows) == 0)
        return face_invoke(input, "new_zeros", Py_BuildValue("(N)", face_size(o->ndim + x->ndim, size)));
    PyObject *all = face_call_function("stack", Py_BuildValue("(O)", rows), NULL);
    PyObject *out = face_invoke(all, "view", Py_BuildValue("(N)", face_size(o->ndim + x->ndim, size)));
    Py_XDECREF(all);
    return out;
}

static PyObject *jacobian_of(const study *s, Py_ssize_t number)
{
    PyObject *output = PyTuple_GET_ITEM(s->outputs, number);
    PyObject *rows = !s->strict || strict_about(s, output, number) ? rows_of(s, output) : NULL, *all = rows ? PyTuple_New(PyList_GET_SIZE(rows)) : NULL;
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(rows); i++) {
        PyObject *whole = stacked(PyList_GET_ITEM(rows, i), output, PyTuple_GET_ITEM(s->inputs, i));
        if (whole)
            PyTuple_SET_ITEM(all, i, whole);
        else
            Py_CLEAR(all);
    }
    Py_XDECREF(rows);
    return handed(s, all, s->one_input);
}

/* _functional_jacobian(who, function, inputs, create_graph, strict) */
static PyObject *functional_jacobian(PyObject *module, PyObject *all)
{
    study s = { 0 };
    PyObject *function, *inputs, *out = NULL;
    int create, strict;
    (void)module;
    if (!PyArg_ParseTuple(all, "sOOpp", &s.who, &function, &inputs, &create, &strict))
        return NULL;
    s.create = create;
    s.strict = strict;
    bool mode = tp_self.grad_mode;
    tp_self.grad_mode = true;
    if (prepare(&s, inputs) && run(&s, function))
        out = PyTuple_New(PyTuple_GET_SIZE(s.outputs));
    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(s.outputs); i++) {
        PyObject *one = jacobian_of(&s, i);
        if (one)
            PyTuple_SET_ITEM(out, i, one);
        else
            Py_CLEAR(out);
    }
    tp_self.grad_mode = mode;
    if (out && s.one_output)
        Py_SETREF(out, Py_NewRef(PyTuple_GET_ITEM(out, 0)));
    study_fini(&s);
    return out;
}

/* ---- Hessians ---- */

/* _functional_gradient(who, function, inputs, strict): the gradient of a scalar, as a function of the inputs to differentiate again. */
static PyObject *functional_gradient(PyObject *module, PyObject *all)
{
    study s = { .create = true };
    PyObject *function, *inputs, *out = NULL;
    int strict;
    (void)module;
    if (!PyArg_ParseTuple(all, "sOO!p", &s.who, &function, &PyTuple_Type, &inputs, &strict))
        return NULL;
    s.strict = strict;
    bool mode = tp_self.grad_mode;
    tp_self.grad_mode = true;
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < PyTuple_GET_SIZE(inputs); i++) {   /* tangents go through views, not through detached leaves */
        PyObject *x = PyTuple_GET_ITEM(inputs, i);
        if (face_is_tensor(x) && tp_is_leaf(face_tensor(x)) && !(ok = tp_set_requires_grad(face_tensor(x), true)))
            (void)face_raise();
    }
    if (ok && prepare(&s, inputs) && run_scalar(&s, function))
        out = tracked_jacobian(&s);
    tp_self.grad_mode = mode;
    study_fini(&s);
    return out;
}

static PyMethodDef functions[] = {
    { "_functional_product", functional_product, METH_VARARGS, NULL },
    { "_functional_jacobian", functional_jacobian, METH_VARARGS, NULL },
    { "_functional_gradient", functional_gradient, METH_VARARGS, NULL },
    { 0 },
};

bool face_functional_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) == 0;
}
