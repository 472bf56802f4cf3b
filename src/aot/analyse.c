/* analyse.c - the facts of a program: one run on functional wrappers of fake tensors, then questions.
 *
 * An input that is no leaf gets a stand-in of a history, so that what the program may write it may also write here. */
#include "aot/facts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "gen/ops.h"
#include "trace/fake.h"

typedef struct study {
    tp_functional *functional;      /* owned */
    const tp_value *in;             /* borrowed: fakes */
    uint32_t  count;
    tp_value *wrapper;              /* owned array, tensors counted */
    tp_value *face;                 /* owned array of owned values: the wrappers, or views of them */
    tp_value *face_before;          /* owned array: their sizes before the program ran, as aliases without history; owned */
    uint32_t  face_count;
    tp_list  *out;                  /* owned: what the program gave */
    tp_array(const tp_tensor *) bases;  /* borrowed from `out`: intermediates that are returned too */
    tp_aot_facts *facts;
} study;

/* ---- a history for inputs that have one ---- */
static bool no_formula(tp_grad_node *n, const tp_value *g, tp_value *out)
{
    (void)n, (void)g, (void)out;
    return true;
}

static const char *stand_in_name(const tp_grad_node *n)
{
    (void)n;
    return "InputBackward";
}

static const tp_grad_kind stand_in = { .apply = no_formula, .name = stand_in_name };

bool tp_aot_stand_in(tp_tensor *t)
{
    tp_grad_node *n = tp_grad_node_new(&stand_in, sizeof *n, 0, 1);
    bool ok = n && tp_slot_describe(n, 0, t) && tp_set_history(t, n, 0);
    tp_grad_node_unref(n);
    return ok;
}

/* ---- running ---- */
static bool wrap_inputs(study *s, const tp_value *given)
{
    for (uint32_t i = 0; i < s->count; i++) {
        tp_aot_input *fact = &s->facts->input[i];
        s->wrapper[i] = s->in[i];
        if (s->in[i].tag != TP_TENSOR)
            continue;
        const tp_tensor *own = tp_as_tensor(given[i]);
        fact->tensor = true;
        fact->requires_grad = tp_requires_grad(own ? own : s->in[i].tensor);
        fact->leaf = tp_is_leaf(own ? own : s->in[i].tensor);
        tp_tensor *w = tp_functional_wrap(s->functional, s->in[i].tensor);
        s->wrapper[i] = tp_of_tensor(w);
        if (!w || (fact->requires_grad && !(fact->leaf ? tp_set_requires_grad(w, true) : tp_aot_stand_in(w))))
            return false;
    }
    return true;
}

/* What faces looked like before the program ran. */
static bool note_faces(study *s)
{
    for (uint32_t i = 0; i < s->face_count; i++) {
        if (s->face[i].tag != TP_TENSOR)
            continue;
        tp_tensor *before = tp_fake_of(s->face[i].tensor);
        if (!before)
            return false;
        s->face_before[i] = tp_of_tensor(before);
    }
    return true;
}

static bool run(study *s, const tp_aot_program *p)
{
    tp_functional_enter(s->functional, TP_LAYER_TRACE_R);
    bool ok = tp_aot_faces_show(&s->facts->faces, s->wrapper, s->face) && note_faces(s) &&
              p->call(p->context, s->face, s->face_count, &s->out);
    tp_functional_leave(s->functional);
    return ok;
}

/* ---- inputs ---- */
static bool same_geometry(const tp_tensor *a, const tp_tensor *b)
{
    size_t bytes = (size_t)a->ndim * sizeof *a->size;
    return a->ndim == b->ndim && a->offset == b->offset && memcmp(a->size, b->size, bytes) == 0 &&
           memcmp(a->stride, b->stride, bytes) == 0;
}

static void study_faces(study *s)
{
    for (uint32_t i = 0; s->facts->faces.item && i < s->face_count; i++) {
        tp_aot_face *f = &s->facts->faces.item[i];
        f->metadata = f->view && !same_geometry(s->face[i].tensor, s->face_before[i].tensor);
        s->facts->moved_count += f->metadata;
    }
}

static bool banned_write(const tp_aot_input *f, uint32_t i)
{
    if (!f->storage || f->in_graph)
        return false;
    (void)tp_fail(TP_ERR_ASSERTION, "Input %u received a set_() call, but the input has other mutations that we cannot keep in the graph.", i);
    return true;
}

static bool study_input(study *s, uint32_t i, const tp_aot_options *options)
{
    tp_aot_input *f = &s->facts->input[i];
    if (!f->tensor)
        return true;
    const tp_tensor *w = s->wrapper[i].tensor;
    tp_functional_changes c = tp_functional_changes_of(s->functional, w);
    f->data = c.data;
    f->storage = c.storage;
    f->hidden = c.hidden;
    f->no_grad = c.no_grad;
    f->metadata = !c.storage && !same_geometry(w, s->in[i].tensor);
    f->requires_grad_after = tp_requires_grad(w);
    if (!f->data && !f->metadata && !f->storage)
        return true;
    bool quiet = !f->requires_grad_after && !f->metadata;
    f->in_graph = options->keep_mutations && (f->data || f->storage) && (quiet || f->hidden || f->no_grad || (f->storage && !f->data));
    f->returned = !f->in_graph;
    s->facts->returned_count += f->returned;
    return !banned_write(f, i);
}

/* ---- outputs ---- */

/* Did one call make it together with other views? */
static bool is_of_many(tp_tensor *t)
{
    tp_grad_node *made_by;
    uint32_t slot;
    if (!tp_grad_fn(t, &made_by, &slot)) {
        tp_error_clear();
        return true;                /* only such a view refuses to say */
    }
    return made_by && made_by->kind == &tp_op_node_kind && ((tp_op_node *)(void *)made_by)->list_result;
}

/* How many outputs look into this memory and were not made by a call of many views. */
static uint32_t count_single(const study *s, const tp_storage *storage)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->out->count; i++) {
        tp_tensor *t = tp_as_tensor(s->out->item[i]);
        n += t && t->storage == storage && !is_of_many(t);
    }
    return n;
}

/* The face that an output is, or is a view of; -1: none. Among faces of one memory the one whose views lead to it. */
static int find_face(const study *s, const tp_tensor *t)
{
    int found = -1;
    for (uint32_t i = 0; i < s->face_count; i++)
        if (s->face[i].tag == TP_TENSOR && s->face[i].tensor == t)
            return (int)i;
    for (uint32_t i = 0; i < s->face_count; i++) {
        if (s->face[i].tag != TP_TENSOR || s->face[i].tensor->storage != t->storage)
            continue;
        if (found >= 0) {
            bool none;
            tp_recipe *r = tp_recipe_between(s->face[i].tensor, t, &none);
            tp_recipe_free(r);
            if (!r)
                continue;
        }
        found = (int)i;
    }
    return found;
}

static bool set_recipe(tp_aot_output *o, const tp_tensor *base, const tp_tensor *view)
{
    bool none;
    o->recipe = tp_recipe_between(base, view, &none);
    return o->recipe || none;
}

static bool study_view_of_input(study *s, tp_aot_output *o, tp_tensor *t, uint32_t face)
{
    o->base = face;
    if (s->face[face].tensor == t) {
        o->kind = TP_AOT_INPUT;
        return true;
    }
    if (o->requires_grad && is_of_many(t) && count_single(s, t->storage) == 0) {
        o->of_many = true;          /* autograd forbids writing to them anyway: no need to make them again */
        return true;
    }
    o->kind = TP_AOT_OF_INPUT;
    return set_recipe(o, s->face[face].tensor, t);
}

static bool study_view(study *s, tp_aot_output *o, tp_tensor *t, tp_tensor *base)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->out->count; i++)
        if (tp_as_tensor(s->out->item[i]) == base) {
            o->kind = TP_AOT_OF_OUTPUT;
            o->base = i;
            return set_recipe(o, base, t);
        }
    while (at < s->bases.count && s->bases.item[at] != base)
        at++;
    if (at == s->bases.count && !tp_array_push(&s->bases, base))
        return false;
    o->kind = TP_AOT_OF_BASE;
    o->base = at;
    return set_recipe(o, base, t);
}

static bool study_output(study *s, uint32_t i)
{
    tp_aot_output *o = &s->facts->output[i];
    tp_value v = s->out->item[i];
    tp_tensor *t = tp_as_tensor(v);
    o->constant = tp_none();
    if (!t) {
        o->symbol = v.tag == TP_SYM;
        o->kind = o->symbol ? TP_AOT_FRESH : TP_AOT_CONSTANT;
        o->constant = o->symbol ? tp_none() : tp_value_ref(v);
        return true;
    }
    o->kind = TP_AOT_FRESH;
    o->requires_grad = tp_requires_grad(t);
    int face = find_face(s, t);
    if (face >= 0)
        return study_view_of_input(s, o, t, (uint32_t)face);
    tp_tensor *base = tp_aot_view_base(t);
    if (!o->requires_grad || !base || !tp_requires_grad(base) || count_single(s, t->storage) <= 1)
        return true;
    return study_view(s, o, t, base);
}

/* ---- tangents ---- */

/* A fake of the form that gradients of `t` have: row by row. */
static tp_tensor *gradient_like(const tp_tensor *t)
{
    tp_tensor *bare = tp_fake_of(t);
    tp_value arg[2] = { tp_of_tensor(bare), tp_of_format(TP_FORMAT_CONTIGUOUS) }, out;
    bool ok = bare && tp_call(&tp_op_clone, arg, &out);
    tp_tensor_unref(bare);
    return ok ? out.tensor : NULL;
}

static bool add_tangent(tp_aot_facts *f, uint32_t result, const tp_tensor *t)
{
    tp_tensor *like = gradient_like(t);
    if (!like)
        return false;
    f->tangent[f->tangent_count] = result;
    f->tangent_like[f->tangent_count++] = like;
    return true;
}

static bool list_tangents(study *s)
{
    tp_aot_facts *f = s->facts;
    uint32_t room = tp_aot_result_count(f) + 1, at = 0;
    if (!(f->tangent = tp_alloc_array(room, sizeof *f->tangent)) ||
        !(f->tangent_like = tp_alloc_array(room, sizeof *f->tangent_like)))
        return false;
    for (uint32_t i = 0; i < f->input_count; i++) {
        const tp_aot_input *in = &f->input[i];
        if (in->returned && in->data && in->requires_grad_after && !in->hidden && !in->no_grad && !add_tangent(f, at, s->wrapper[i].tensor))
            return false;
        at += in->returned;
    }
    for (uint32_t i = 0; i < f->output_count; i++, at++)
        if (f->output[i].kind == TP_AOT_FRESH && f->output[i].requires_grad && !add_tangent(f, at, s->out->item[i].tensor))
            return false;
    at += f->moved_count;
    for (uint32_t i = 0; i < f->base_count; i++, at++)
        if (!add_tangent(f, at, s->bases.item[i]))
            return false;
    return true;
}

static bool wants_training(const tp_aot_facts *f)
{
    bool asked = false, given = false;
    for (uint32_t i = 0; i < f->input_count; i++) {
        asked |= f->input[i].requires_grad;
        given |= (f->input[i].data || f->input[i].metadata) && f->input[i].requires_grad_after;
    }
    for (uint32_t i = 0; i < f->output_count; i++)
        given |= f->output[i].requires_grad;
    return tp_self.grad_mode && asked && given;
}

/* ---- the whole ---- */
static bool study_all(study *s, const tp_aot_program *p, const tp_value *given, const tp_aot_options *options)
{
    tp_aot_facts *f = s->facts;
    if (!wrap_inputs(s, given) || !run(s, p))
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        if (!study_input(s, i, options))
            return false;
    study_faces(s);
    if (!(f->output = tp_alloc_zero((s->out->count + 1) * sizeof *f->output)))
        return false;
    f->output_count = s->out->count;
    for (uint32_t i = 0; i < s->out->count; i++)
        if (!study_output(s, i))
            return false;
    f->base_count = (uint32_t)s->bases.count;
    f->training = wants_training(f);
    return !f->training || list_tangents(s);
}

static void study_fini(study *s)
{
    for (uint32_t i = 0; s->wrapper && i < s->count; i++)
        if (s->wrapper[i].tag == TP_TENSOR)
            tp_tensor_unref(s->wrapper[i].tensor);
    if (s->out)
        tp_value_unref(tp_of_list(s->out));
    if (s->face)
        tp_values_unref(s->face, s->face_count);
    if (s->face_before)
        tp_values_unref(s->face_before, s->face_count);
    tp_array_fini(&s->bases);
    tp_free(s->face);
    tp_free(s->face_before);
    tp_free(s->wrapper);
    tp_functional_free(s->functional);
}

bool tp_aot_analyse(const tp_aot_program *p, tp_aot_faces faces, const tp_value *in, const tp_value *given, uint32_t count,
                    const tp_aot_options *options, tp_aot_facts *out)
{
    if (!faces.item)
        faces.count = count;
    *out = (tp_aot_facts){ .input_count = count, .faces = faces };
    study s = { .functional = tp_functional_new(), .in = in, .count = count, .face_count = faces.count, .facts = out };
    s.wrapper = tp_alloc_zero((count + 1) * sizeof *s.wrapper);
    s.face = tp_alloc_zero((faces.count + 1) * sizeof *s.face);
    s.face_before = tp_alloc_zero((faces.count + 1) * sizeof *s.face_before);
    out->input = tp_alloc_zero((count + 1) * sizeof *out->input);
    bool ok = s.functional && s.wrapper && s.face && s.face_before && out->input && study_all(&s, p, given, options);
    study_fini(&s);
    if (!ok)
        tp_aot_facts_fini(out);
    return ok;
}

void tp_aot_facts_fini(tp_aot_facts *f)
{
    for (uint32_t i = 0; f->output && i < f->output_count; i++) {
        tp_recipe_free(f->output[i].recipe);
        tp_value_unref(f->output[i].constant);
    }
    for (uint32_t i = 0; f->tangent_like && i < f->tangent_count; i++)
        tp_tensor_unref(f->tangent_like[i]);
    tp_aot_faces_fini(&f->faces);
    tp_free(f->input);
    tp_free(f->output);
    tp_free(f->tangent);
    tp_free(f->tangent_like);
    *f = (tp_aot_facts){ 0 };
}
