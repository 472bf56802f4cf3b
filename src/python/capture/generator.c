/* generator.c - generators of captured code: real iterators whose body the capture runs, so any(...) or list(...) may take
 * them; and the note of the place where a capture had to stop. */
#include "base/alloc.h"
#include "python/capture/instructions.h"

typedef struct generator {
    PyObject_HEAD
    frame *frame;               /* owned; NULL: finished */
    capture *capture;           /* borrowed; NULL: over */
    struct generator *next, **link;     /* the capture's list of live ones */
    bool running;
} generator;

static void unlink_generator(generator *g)
{
    if (!g->link)
        return;
    *g->link = g->next;
    if (g->next)
        g->next->link = g->link;
    g->link = NULL;
}

static void end(generator *g)
{
    frame *f = g->frame;
    unlink_generator(g);
    g->frame = NULL;
    g->capture = NULL;
    frame_free(f);
}

PyObject *capture_generator(capture *c, frame *taken)
{
    generator *g = (generator *)face.capture_generator->tp_alloc(face.capture_generator, 0);
    if (!g) {
        frame_free(taken);
        return NULL;
    }
    g->frame = taken;
    g->capture = c;
    g->next = c->generators;
    g->link = &c->generators;
    if (g->next)
        g->next->link = &g->next;
    c->generators = g;
    return (PyObject *)g;
}

void capture_end_generators(capture *c)
{
    while (c->generators)
        end(c->generators);
}

static void generator_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    generator *g = (generator *)self;
    if (g->frame)
        end(g);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Runs to the next yield. The first value sent is dropped, as the body has not begun. */
static PySendResult generator_send(PyObject *self, PyObject *value, PyObject **result)
{
    generator *g = (generator *)self;
    frame *f = g->frame;
    *result = NULL;
    if (!f) {
        *result = Py_NewRef(Py_None);
        return PYGEN_RETURN;
    }
    if (g->running) {
        PyErr_SetString(PyExc_ValueError, "generator already executing");
        return PYGEN_ERROR;
    }
    if (f->taken) {                     /* it waits at a yield: what is sent is that expression's value */
        Py_CLEAR(f->taken);
        f->stack[f->depth++] = Py_NewRef(value);
    }
    g->running = true;
    frame_end how = frame_run(f);
    g->running = false;
    if (how == FRAME_YIELDED) {
        *result = Py_NewRef(f->taken);
        return PYGEN_NEXT;
    }
    if (how == FRAME_RETURNED)
        *result = Py_NewRef(f->taken);
    if (g->frame)
        end(g);
    return how == FRAME_RETURNED ? PYGEN_RETURN : PYGEN_ERROR;
}

static PyObject *generator_next(PyObject *self)
{
    PyObject *result;
    if (generator_send(self, Py_None, &result) == PYGEN_NEXT)
        return result;
    Py_XDECREF(result);
    return NULL;
}

static PyType_Slot generator_slots[] = {
    { Py_tp_dealloc, generator_dealloc }, { Py_tp_iter, PyObject_SelfIter },  { Py_tp_iternext, generator_next },
    { Py_am_send, generator_send },       { 0, NULL },
};
static PyType_Spec generator_spec = { "_captured_generator", sizeof(generator), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                      generator_slots };

bool capture_generator_init(PyObject *module)
{
    return (face.capture_generator = face_make_type(module, &generator_spec, NULL));
}

/* ---- where it stopped ---- */
void capture_note_place(capture *c)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && !PyObject_HasAttrString(value, "real_stack_text")) {
        tp_text place = { 0 };
        capture_user_stack(c, &place);
        PyObject *text = PyUnicode_FromFormat("%S\n\nfrom user code:%s", value, tp_text_read(&place));
        PyObject *args = text ? PyTuple_Pack(1, text) : NULL, *where = PyUnicode_FromString(tp_text_read(&place));
        if (args && where) {
            (void)PyObject_SetAttrString(value, "args", args);
            (void)PyObject_SetAttrString(value, "real_stack_text", where);
        }
        PyErr_Clear();
        Py_XDECREF(text);
        Py_XDECREF(args);
        Py_XDECREF(where);
        tp_text_fini(&place);
    }
    PyErr_Restore(type, value, trace);
}

PyObject *capture_inline(capture *c, PyObject *function, PyObject **slot)
{
    frame *f = frame_new(c, function, slot, false);
    if (!f)
        return NULL;
    int flags = ((PyCodeObject *)PyFunction_GET_CODE(function))->co_flags;
    if (flags & CO_GENERATOR)
        return capture_generator(c, f);
    if (flags & (CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        frame_free(f);
        return capture_unsupported("a coroutine");
    }
    PyObject *result = frame_run(f) == FRAME_RETURNED ? Py_NewRef(f->taken) : NULL;
    frame_free(f);
    return result;
}
