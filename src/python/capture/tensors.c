/* tensors.c - what becomes a node: functions, methods and modules that take or give tensors.
 *
 * The operation is done first, on fake tensors, so its result tells what it was: with tensors in the result it is a node,
 * without any it was a question about sizes and types whose answer is a constant. */
#include <string.h>

#include "base/alloc.h"
#include "python/capture/capture.h"

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Methods that look at data. */
static const char *const data_names[] = { "item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__", "__complex__",
                                          "backward", "register_hook", "requires_grad_", "data_ptr", "untyped_storage", "storage",
                                          "equal", "allclose", "is_nonzero", "nonzero", "unique", "unique_consecutive", "masked_select", "set_",
                                          "resize_" };

/* What a tensor from outside has and its stand-in has not: a history, a base, writes made to it before. */
static const char *const own_names[] = { "_version", "is_leaf", "_is_view", "is_inference", "retains_grad", "output_nr", "_cdata",
                                         "storage_offset" };

static bool asks_itself(capture *c, const char *name, PyObject *tensor)
{
    const record *r = capture_record(c, tensor);
    return r && r->source != NO_SOURCE && is_among(name, own_names, TP_COUNT(own_names));
}

/* Methods that change what a tensor is, has or belongs to, beside its values. */
static const char *const state_names[] = { "detach_", "retain_grad", "register_post_accumulate_grad_hook", "share_memory_", "pin_memory", "apply_",
                                           "map_", "map2_", "resize_as_", "rename_", "is_set_to", "is_shared", "is_pinned", "__setattr__",
                                           "__delattr__", "__setstate__", "__reduce__", "__reduce_ex__", "__deepcopy__", "__dlpack__",
                                           "__array__", "__dir__", "__init__", "_typed_storage", "as_subclass" };

/* ---- literals ---- */

/* What a graph's code can spell: no object is written into it by its repr. */
static bool is_literal(PyObject *o)
{
    PyTypeObject *t = Py_TYPE(o);
    return o == Py_None || o == Py_Ellipsis || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) ||
           PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyRange_Check(o) || t == face.dtype || t == face.device || t == face.layout ||
           t == face.format || face_is_tensor(o);
}

static bool are_literals(PyObject *o, int depth)
{
    if (is_literal(o))
        return true;
    if (depth > 50)
        return capture_unsupported("an argument of an operation that is nested too deeply");
    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            if (!are_literals(PySequence_Fast_GET_ITEM(o, i), depth + 1))
                return false;
        return true;
    }
    if (PyDict_CheckExact(o)) {
        Py_ssize_t at = 0;
        PyObject *key, *value;
        while (PyDict_Next(o, &at, &key, &value))
            if (!are_literals(key, depth + 1) || !are_literals(value, depth + 1))
                return false;
        return true;
    }
    const PySliceObject *s = (PySliceObject *)o;
    if (PySlice_Check(o))
        return are_literals(s->start, depth + 1) && are_literals(s->stop, depth + 1) && are_literals(s->step, depth + 1);
    return capture_unsupported("an argument of an operation that is a %s: a graph has no way to spell it", Py_TYPE(o)->tp_name);
}

/* ---- arguments ---- */
tp_node *capture_node(capture *c, PyObject *tensor)
{
    record *r = capture_record(c, tensor);
    if (r && r->node)
        return r->node;
    return capture_unsupported("a tensor that was not made by captured code");
}

static bool to_value(capture *c, PyObject *o, tp_value *out);

static bool to_list(capture *c, PyObject *o, tp_tag tag, tp_value *out)
{
    bool dict = tag == TP_DICT;
    Py_ssize_t count = dict ? 2 * PyDict_GET_SIZE(o) : PySequence_Fast_GET_SIZE(o), at = 0, i = 0;
    tp_list *l = tp_list_new((size_t)count);
    if (!l) {
        face_raise();
        return false;
    }
    *out = (tp_value){ .tag = (uint8_t)tag, .list = l };
    bool ok = true;
    PyObject *key, *value;
    while (ok && dict && PyDict_Next(o, &at, &key, &value)) {
        ok = to_value(c, key, &l->item[i]) && to_value(c, value, &l->item[i + 1]);
        i += 2;
    }
    for (; ok && !dict && i < count; i++)
        ok = to_value(c, PySequence_Fast_GET_ITEM(o, i), &l->item[i]);
    if (!ok) {
        tp_value_unref(*out);
        *out = tp_none();                   /* it may stand in a list that is dropped too */
    }
    return ok;
}

static bool to_slice(capture *c, PyObject *o, tp_value *out)
{
    const PySliceObject *s = (PySliceObject *)o;
    tp_list *l = tp_list_new(3);
    if (!l) {
        face_raise();
        return false;
    }
    *out = (tp_value){ .tag = TP_SLICE, .list = l };
    if (to_value(c, s->start, &l->item[0]) && to_value(c, s->stop, &l->item[1]) && to_value(c, s->step, &l->item[2]))
        return true;
    tp_value_unref(*out);
    *out = tp_none();
    return false;
}

static bool to_value_inside(capture *c, PyObject *o, tp_value *out)
{
    if (face_is_tensor(o)) {
        tp_node *n = capture_node(c, o);
        *out = tp_of_node(n);
        return n;
    }
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o) || Py_IS_TYPE(o, face.size))
        return to_list(c, o, PyList_Check(o) ? TP_LIST : TP_TUPLE, out);
    if (PyDict_CheckExact(o))
        return to_list(c, o, TP_DICT, out);
    if (PySlice_Check(o))
        return to_slice(c, o, out);
    if (!c->takes_objects && !are_literals(o, 0))
        return false;
    return fx_to_value(c->graph, o, out);
}

static bool to_value(capture *c, PyObject *o, tp_value *out)
{
    *out = tp_none();
    if (Py_EnterRecursiveCall(" while capturing an argument"))
        return false;
    bool ok = to_value_inside(c, o, out);
    Py_LeaveRecursiveCall();
    return ok;
}

/* ---- results ---- */
static bool give_node(capture *c, PyObject *tensor, tp_node *node)
{
    record *r = capture_record(c, tensor);
    if (r && r->node)
        return true;                    /* written in place: it is the tensor it was */
    if (!r && !(r = capture_note(c, tensor, NO_SOURCE, false)))
        return false;
    r->node = node;
    tp_node_set_fact(node, tp_of_tensor(face_tensor(tensor)));
    return true;
}

static bool give_nodes(capture *c, PyObject *result, tp_node *node)
{
    if (face_is_tensor(result))
        return give_node(c, result, node);
    if (!PyTuple_Check(result) && !PyList_Check(result))
        return capture_unsupported("an operation on tensors that gives a %s", Py_TYPE(result)->tp_name);
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(result, i);
        if (!capture_has_tensor(item))
            continue;
        tp_node *part = tp_graph_getitem(c->graph, node, i);
        if (!part) {
            capture_graph_error(c);
            return false;
        }
        if (!give_nodes(c, item, part))
            return false;
    }
    return true;
}

/* Several results may come as a struct sequence, which is a tuple; iterators of tensors are not followed. */
static bool add_node(capture *c, tp_node_kind kind, tp_target target, PyObject *args, PyObject *kwargs, PyObject *result, bool impure)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args), keywords = kwargs ? PyDict_GET_SIZE(kwargs) : 0, done = 0, at = 0;
    tp_value *value = tp_alloc_array((size_t)(count + 2 * keywords + 1), sizeof *value);
    if (!value) {
        face_raise();
        return false;
    }
    bool ok = true;
    for (; ok && done < count; done += ok)
        ok = to_value(c, PyTuple_GET_ITEM(args, done), &value[done]);
    PyObject *key, *item;
    while (ok && keywords && PyDict_Next(kwargs, &at, &key, &item)) {
        Py_ssize_t length;
        const char *name = PyUnicode_AsUTF8AndSize(key, &length);
        ok = name && (value[done] = tp_value_string(name, (size_t)length)).tag == TP_STRING;
        done += ok;
        if (ok && (ok = to_value(c, item, &value[done])))
            done++;
    }
    tp_node *node = NULL;
    if (ok && !(node = tp_node_new(c->graph, kind, target, value, (uint32_t)count, (uint32_t)keywords, NULL)))
        capture_graph_error(c);
    tp_values_unref(value, (size_t)done);
    tp_free(value);
    if (!node)
        return false;
    if (impure)
        node->flags |= TP_NODE_IMPURE;
    return !capture_has_tensor(result) || give_nodes(c, result, node);
}

/* Does it write to one of its arguments? Then the node stays though nobody reads it. */
static bool writes(PyObject *args, PyObject *kwargs, PyObject *result)
{
    if (kwargs && PyDict_GetItemString(kwargs, "out"))
        return true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++)
        if (PyTuple_GET_ITEM(args, i) == result)
            return true;
    return false;
}

/* ---- calls ---- */
static PyObject *all_inside(capture *c, PyObject *args, PyObject **kwargs)
{
    PyObject *inside = capture_inside(c, args);
    if (inside && *kwargs && !(*kwargs = capture_inside(c, *kwargs)))
        Py_CLEAR(inside);
    return inside;
}

PyObject *capture_call_function(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    PyObject *own = kwargs && PyDict_GET_SIZE(kwargs) ? kwargs : NULL, *inside = all_inside(c, args, &own);
    if (!inside)
        return NULL;
    PyObject *leaf = own ? PyDict_GetItemString(own, "requires_grad") : NULL;
    if (leaf && leaf != Py_False) {                 /* a graph gives results: none is a leaf that gradients end in */
        Py_DECREF(inside);
        Py_DECREF(own);
        return capture_unsupported("a tensor made with requires_grad=True");
    }
    bool grad = tp_self.grad_mode, op = Py_IS_TYPE(callable, face.op_function) || Py_IS_TYPE(callable, face.overload);
    op |= PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && Py_IS_TYPE(PyCFunction_GET_SELF(callable), face.op_function);
    PyObject *result = op && !(are_literals(inside, 0) && (!own || are_literals(own, 0))) ? NULL : PyObject_Call(callable, inside, own);
    tp_target target;
    bool ok = result;
    bool acts = grad != tp_self.grad_mode || callable == capture_the_words()->setitem;
    if (ok && (capture_has_tensor(result) || acts)) {
        if ((ok = fx_target_read(TP_CALL_FUNCTION, callable, &target))) {
            ok = add_node(c, TP_CALL_FUNCTION, target, inside, own, result, acts || writes(inside, own, result));
            fx_target_drop(target);
        }
    } else if (ok && capture_has_tensor(inside) && (PyIter_Check(result) || result == Py_None)) {
        ok = capture_unsupported("%R, which gives %s", callable, Py_TYPE(result)->tp_name);
    }
    Py_DECREF(inside);
    Py_XDECREF(own);
    if (!ok)
        Py_CLEAR(result);
    return result;
}

PyObject *capture_call_acting(capture *c, PyObject *callable, PyObject *args, PyObject *kwargs)
{
    bool switches_grad = callable == capture_the_words()->set_grad_enabled, grad = tp_self.grad_mode;
    PyObject *result = PyObject_Call(callable, args, kwargs);
    tp_target target;
    if (!result || (switches_grad && grad == tp_self.grad_mode))
        return result;
    bool ok = fx_target_read(TP_CALL_FUNCTION, callable, &target);
    if (ok) {
        ok = add_node(c, TP_CALL_FUNCTION, target, args, kwargs, result, true);
        fx_target_drop(target);
    }
    if (!ok)
        Py_CLEAR(result);
    return result;
}

PyObject *capture_two(capture *c, PyObject *function, PyObject *a, PyObject *b)
{
    PyObject *args = PyTuple_Pack(2, a, b), *result = args ? capture_call_function(c, function, args, NULL) : NULL;
    Py_XDECREF(args);
    return result;
}

/* What may be known of a tensor without its values. */
static bool is_answer(PyObject *o)
{
    return capture_is_constant(o) ? o != Py_None : PyTuple_Check(o) || PyList_Check(o) || PyType_Check(o);
}

PyObject *capture_call_method(capture *c, const char *name, PyObject *args, PyObject *kwargs)
{
    if (is_among(name, data_names, TP_COUNT(data_names)))
        return capture_unsupported("Tensor.%s: the capture has no data", name);
    if (is_among(name, state_names, TP_COUNT(state_names)))
        return capture_unsupported("Tensor.%s: the capture has stand-ins for tensors", name);
    if (asks_itself(c, name, PyTuple_GET_ITEM(args, 0)))
        return capture_unsupported("Tensor.%s of a tensor from outside", name);
    PyObject *own = kwargs && PyDict_GET_SIZE(kwargs) ? kwargs : NULL, *inside = all_inside(c, args, &own), *result = NULL;
    if (!inside)
        return NULL;
    PyObject *method = PyObject_GetAttrString(PyTuple_GET_ITEM(inside, 0), name);
    PyObject *rest = method ? PyTuple_GetSlice(inside, 1, PyTuple_GET_SIZE(inside)) : NULL;
    if (rest && are_literals(rest, 0) && (!own || are_literals(own, 0)))
        result = PyObject_Call(method, rest, own);
    if (result && capture_has_tensor(result) &&
        !add_node(c, TP_CALL_METHOD, tp_target_name(name), inside, own, result, writes(inside, own, result)))
        Py_CLEAR(result);
    else if (result && !capture_has_tensor(result) && !is_answer(result)) {
        Py_CLEAR(result);
        capture_unsupported("Tensor.%s", name);
    }
    Py_XDECREF(method);
    Py_XDECREF(rest);
    Py_DECREF(inside);
    Py_XDECREF(own);
    return result;
}

PyObject *capture_call_module(capture *c, PyObject *module, PyObject *args, PyObject *kwargs)
{
    const record *r = capture_record(c, module);
    if (!r || r->source == NO_SOURCE)
        return capture_unsupported("a call of a module made inside the captured code");
    PyObject *name = capture_attribute_name(c, module, r->source);
    PyObject *own = kwargs && PyDict_GET_SIZE(kwargs) ? kwargs : NULL, *inside = name ? all_inside(c, args, &own) : NULL;
    PyObject *result = inside ? PyObject_Call(module, inside, own) : NULL;
    if (result && !capture_has_tensor(result)) {
        Py_CLEAR(result);
        capture_unsupported("a module that gives no tensor");
    }
    if (result && !add_node(c, TP_CALL_MODULE, tp_target_name(PyUnicode_AsUTF8(name)), inside, own, result, true))
        Py_CLEAR(result);
    Py_XDECREF(name);
    if (inside)
        Py_XDECREF(own);
    Py_XDECREF(inside);
    return result;
}

bool capture_note_grad_mode(capture *c, bool before)
{
    if (before == tp_self.grad_mode)
        return true;
    tp_target target;
    PyObject *args = PyTuple_Pack(1, tp_self.grad_mode ? Py_True : Py_False);
    bool ok = args && fx_target_read(TP_CALL_FUNCTION, capture_the_words()->set_grad_enabled, &target);
    if (ok) {
        ok = add_node(c, TP_CALL_FUNCTION, target, args, NULL, Py_None, true);
        fx_target_drop(target);
    }
    Py_XDECREF(args);
    return ok;
}

/* ---- attributes and rows ---- */
PyObject *capture_real_tensor(capture *c, PyObject *o)
{
    const record *r = face_is_tensor(o) ? capture_record(c, o) : NULL;
    for (size_t i = 0; r && !r->outside && r->source != NO_SOURCE && i < c->record.count; i++)
        if (c->record.item[i].shadow == o)
            return c->record.item[i].object;
    return o;
}

/* What the program stored in a tensor: a stand-in has none of it. */
static PyObject *own_attribute(capture *c, PyObject *tensor, PyObject *name)
{
    PyObject *real = NULL, *value = NULL;
    int32_t source = NO_SOURCE;
    for (size_t i = 0; i < c->record.count && !real; i++) {
        const record *r = &c->record.item[i];
        if (r->outside && face_is_tensor(r->object) && (r->object == tensor || r->shadow == tensor)) {
            real = r->object;
            source = r->source;
        }
    }
    PyObject *own = real && source != NO_SOURCE ? PyObject_GenericGetDict(real, NULL) : NULL;
    if (own && (value = Py_XNewRef(PyDict_GetItemWithError(own, name)))) {
        PyObject *inside = capture_wrap(c, value, tp_source_in(c->sources, SOURCE_ATTRIBUTE, source, 0, name));
        Py_SETREF(value, inside);
    } else if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        if (!real || source == NO_SOURCE || tp_guard_add(c->sources, GUARD_LACKS, source, name, 0))
            PyErr_Format(PyExc_AttributeError, "'%.100s' object has no attribute '%U'", Py_TYPE(tensor)->tp_name, name);
    }
    Py_XDECREF(own);
    return value;
}

PyObject *capture_tensor_attribute(capture *c, PyObject *tensor, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8(name);
    if (!text)
        return NULL;
    if (!strcmp(text, "grad") || !strcmp(text, "grad_fn") || !strcmp(text, "_grad") || !strcmp(text, "_backward_hooks") || !strcmp(text, "_base") || !strcmp(text, "__dict__"))
        return capture_unsupported("Tensor.%s", text);
    if (asks_itself(c, text, tensor))
        return capture_unsupported("Tensor.%s of a tensor from outside", text);
    if (!strcmp(text, "__class__"))
        return Py_NewRef((PyObject *)Py_TYPE(capture_real_tensor(c, tensor)));
    if (!_PyType_Lookup(Py_TYPE(capture_real_tensor(c, tensor)), name))
        return own_attribute(c, tensor, name);
    PyObject *value = PyObject_GetAttr(tensor, name);
    const record *r = capture_record(c, tensor);
    if (!value && r && r->source != NO_SOURCE && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();                      /* the program may have given one to the real tensor, or will */
        return capture_unsupported("an attribute of a tensor from outside that tensors have not, %s", text);
    }
    if (value && face_is_tensor(value) && value != tensor) {
        Py_DECREF(value);
        return capture_two(c, capture_the_words()->getattr, tensor, name);
    }
    return value;
}

PyObject *capture_tensor_items(capture *c, PyObject *tensor)
{
    const tp_tensor *t = face_tensor(tensor);
    if (t->ndim == 0)
        return PyErr_Format(PyExc_TypeError, "iteration over a 0-d tensor");
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < t->size[0]; i++) {
        PyObject *key = PyLong_FromLongLong(i), *row = key ? capture_two(c, capture_the_words()->getitem, tensor, key) : NULL;
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(key);
        Py_XDECREF(row);
    }
    return list;
}
