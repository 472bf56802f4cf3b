/* print.c - repr of tensors: the numbers, then what is not the default: dtype, device, requires_grad, grad_fn. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "grad/tape.h"
#include "python/face.h"

static void print_element(const tp_tensor *t, const char *at, tp_text *out)
{
    tp_scalar s = tp_scalar_read(at, (tp_dtype)t->dtype);
    if (s.kind == TP_KIND_BOOL)
        tp_text_add(out, "%s", s.i ? "True" : "False");
    else if (s.kind == TP_KIND_INTEGER)
        tp_text_add(out, "%lld", LL(s.i));
    else if (s.kind == TP_KIND_FLOAT)
        tp_text_add(out, s.f == floor(s.f) && fabs(s.f) < 1e8 ? "%.0f." : "%.4f", s.f);
    else
        tp_text_add(out, "%.4f%+.4fj", s.c.re, s.c.im);
}

static void print_dim(const tp_tensor *t, int dim, const char *at, tp_text *out)
{
    if (dim == t->ndim) {
        print_element(t, at, out);
        return;
    }
    int64_t step = t->stride[dim] * (int64_t)tp_dtype_bytes((tp_dtype)t->dtype);
    tp_text_add(out, "[");
    for (int64_t i = 0; i < t->size[dim]; i++) {
        if (i)
            tp_text_add(out, dim + 1 == t->ndim ? ", " : ",\n%*s", dim + 1 == t->ndim ? 0 : 8 + dim, "");
        print_dim(t, dim + 1, at + i * step, out);
    }
    tp_text_add(out, "]");
}

static void print_suffix(tp_tensor *t, tp_text *out)
{
    char device[16];
    tp_grad_node *node = NULL;
    uint32_t slot;
    bool plain = t->dtype == tp_the_runtime.default_dtype || t->dtype == TP_i64 || t->dtype == TP_b8;
    if (t->device.type != TP_CPU)
        tp_text_add(out, ", device='%s', size=%s", tp_device_name(t->device, device), "");
    if (!plain)
        tp_text_add(out, ", dtype=%s.%s", face.package, tp_dtypes[t->dtype].python);
    if (!tp_grad_fn(t, &node, &slot))
        tp_error_clear();
    if (node)
        tp_text_add(out, ", grad_fn=<%s>", node->kind->name(node));
    else if (tp_requires_grad(t))
        tp_text_add(out, ", requires_grad=True");
}

PyObject *face_tensor_repr(PyObject *self)
{
    tp_tensor *t = face_tensor(self);
    tp_text out = { 0 };
    if (TP_UNLIKELY(face_overridden(self)))
        return face_override_method(self, "__repr__", NULL, 0, NULL);
    tp_text_add(&out, "tensor(");
    if (t->storage->kind == TP_MEMORY_NONE)
        tp_text_add(&out, "...");
    else
        print_dim(t, 0, tp_tensor_data(t), &out);
    print_suffix(t, &out);
    tp_text_add(&out, ")");
    PyObject *text = out.failed ? face_raise() : PyUnicode_FromStringAndSize(tp_text_read(&out), (Py_ssize_t)out.length);
    tp_text_fini(&out);
    return text;
}
