/* pt2_old.c - tensors of the layout of 2024: a torch.save of a dict inside the archive, read without Python.
 *
 * The pickle is a tree (format/pickle.h); what is a tensor in it is
 *     torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
 *     torch._utils._rebuild_parameter(tensor, requires_grad, hooks)
 * with the storage a persistent id ("storage", torch.FloatStorage, "0", "cpu", count). Values of other kinds are left out: the
 * constants of a program may be script objects, which nothing here can run. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "export/pt2.h"
#include "format/pickle.h"
#include "grad/tape.h"

typedef struct loading {
    tp_zip *zip;                /* borrowed: of the torch.save */
    struct { const char *key; tp_storage *storage; } *known;    /* owned; storages counted */
    size_t known_count, known_room;
} loading;

static bool broken(void)
{
    return tp_fail(TP_ERR_RUNTIME, "pt2: a saved dict of tensors is not one");
}

static tp_dtype dtype_of(const tp_pickle *class)
{
    static const struct { const char *name; tp_dtype dtype; } classes[] = {
        { "FloatStorage", TP_f32 }, { "DoubleStorage", TP_f64 }, { "HalfStorage", TP_f16 }, { "BFloat16Storage", TP_bf16 },
        { "LongStorage", TP_i64 }, { "IntStorage", TP_i32 }, { "ShortStorage", TP_i16 }, { "CharStorage", TP_i8 },
        { "ByteStorage", TP_u8 }, { "BoolStorage", TP_b8 }, { "ComplexFloatStorage", TP_c64 }, { "ComplexDoubleStorage", TP_c128 },
    };
    for (size_t i = 0; i < TP_COUNT(classes); i++)
        if (tp_pickle_is_global(class, "torch", classes[i].name))
            return classes[i].dtype;
    return TP_DTYPE_NONE;
}

/* Counted. */
static tp_storage *load_storage(loading *l, const tp_pickle *id, tp_dtype *dtype)
{
    char name[128];
    if (!id || id->kind != TP_PICKLE_PERSISTENT || id->item[0]->kind != TP_PICKLE_TUPLE || id->item[0]->count < 5 ||
        (*dtype = dtype_of(id->item[0]->item[1])) == TP_DTYPE_NONE || id->item[0]->item[2]->kind != TP_PICKLE_TEXT) {
        (void)broken();
        return NULL;
    }
    const char *key = id->item[0]->item[2]->text;
    for (size_t i = 0; i < l->known_count; i++)
        if (strcmp(l->known[i].key, key) == 0)
            return tp_storage_ref(l->known[i].storage);
    if (snprintf(name, sizeof name, "data/%s", key) >= (int)sizeof name || l->known_count >= l->known_room) {
        (void)broken();
        return NULL;
    }
    const tp_zip_entry *e = tp_zip_record(l->zip, name);
    tp_storage *s = e ? tp_storage_new(e->size) : NULL;
    if (s && e->size && !tp_zip_read(l->zip, e, s->data)) {
        tp_storage_unref(s);
        return NULL;
    }
    if (s) {
        l->known[l->known_count].key = key;
        l->known[l->known_count++].storage = tp_storage_ref(s);
    }
    return s;
}

static bool read_ints(const tp_pickle *v, int64_t *out, int *count)
{
    if (v->kind != TP_PICKLE_TUPLE || v->count > TP_MAX_DIMS)
        return broken();
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->item[i]->kind != TP_PICKLE_INT || v->item[i]->integer < 0)
            return broken();
        out[i] = v->item[i]->integer;
    }
    *count = (int)v->count;
    return true;
}

/* The last element lies inside the storage. */
static bool fits(int ndim, const int64_t *size, const int64_t *stride, int64_t offset, uint64_t room)
{
    int64_t last = offset, step;
    for (int i = 0; i < ndim; i++) {
        if (size[i] == 0)
            return true;
        if (__builtin_mul_overflow(size[i] - 1, stride[i], &step) || __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last >= 0 && (uint64_t)last < room;
}

static tp_tensor *load_tensor(loading *l, const tp_pickle *args)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    int ndim = 0, strides = 0;
    tp_dtype dtype;
    if (args->kind != TP_PICKLE_TUPLE || args->count < 5 || args->item[1]->kind != TP_PICKLE_INT || args->item[1]->integer < 0) {
        (void)broken();
        return NULL;
    }
    if (!read_ints(args->item[2], size, &ndim) || !read_ints(args->item[3], stride, &strides))
        return NULL;
    tp_storage *s = load_storage(l, args->item[0], &dtype);
    if (!s)
        return NULL;
    int64_t offset = args->item[1]->integer;
    if (ndim != strides || tp_sizes_numel(ndim, size) < 0 || !fits(ndim, size, stride, offset, s->bytes / tp_dtype_bytes(dtype))) {
        tp_storage_unref(s);
        (void)broken();
        return NULL;
    }
    return tp_tensor_take_storage(s, dtype, ndim, size, stride, offset);
}

/* NULL without an error: the value is no tensor. */
static tp_tensor *load_value(loading *l, const tp_pickle *v, bool *parameter)
{
    const tp_pickle *args = v->kind == TP_PICKLE_CALL && v->count >= 2 ? v->item[1] : NULL;
    *parameter = false;
    if (!args)
        return NULL;
    if (tp_pickle_is_global(v->item[0], "torch._utils", "_rebuild_tensor_v2"))
        return load_tensor(l, args);
    if (!tp_pickle_is_global(v->item[0], "torch._utils", "_rebuild_parameter") || args->kind != TP_PICKLE_TUPLE || args->count < 2)
        return NULL;
    const tp_pickle *inner = args->item[0];
    if (inner->kind != TP_PICKLE_CALL || inner->count < 2 || !tp_pickle_is_global(inner->item[0], "torch._utils", "_rebuild_tensor_v2"))
        return NULL;
    tp_tensor *t = load_tensor(l, inner->item[1]);
    *parameter = true;
    if (t && args->item[1]->kind == TP_PICKLE_BOOL && args->item[1]->truth && !tp_set_requires_grad(t, true)) {
        tp_tensor_unref(t);
        return NULL;
    }
    return t;
}

static bool add_row(tp_program *p, loading *l, const tp_pickle *key, const tp_pickle *value, tp_state_row *row, size_t *count)
{
    bool parameter;
    if (key->kind != TP_PICKLE_TEXT)
        return true;
    tp_tensor *t = load_value(l, value, &parameter);
    if (!t)
        return tp_error_kind() == TP_ERR_NONE;
    row[*count] = (tp_state_row){ .name = tp_text_in(&p->arena, key->text, key->length), .tensor = t, .parameter = parameter };
    (*count)++;
    return row[*count - 1].name != NULL;
}

/* A dict has its items inside; an OrderedDict is a call that items are set on afterwards. */
static bool load_dict(tp_program *p, loading *l, const tp_pickle *root, tp_state_row **out, size_t *count)
{
    size_t room = root->kind == TP_PICKLE_DICT ? root->count / 2 : 0;
    bool ordered = root->kind == TP_PICKLE_CALL && tp_pickle_is_global(root->item[0], "collections", "OrderedDict");
    if (!ordered && root->kind != TP_PICKLE_DICT)
        return broken();
    for (const tp_pickle_step *s = ordered ? root->step : NULL; s; s = s->next)
        room++;
    *out = tp_arena_take_array(&p->arena, room, sizeof **out);
    l->known = tp_alloc_array(room + 1, sizeof *l->known);
    l->known_room = room;
    bool ok = l->known && (*out || !room);
    for (uint32_t i = 0; ok && !ordered && i + 1 < root->count; i += 2)
        ok = add_row(p, l, root->item[i], root->item[i + 1], *out, count);
    for (const tp_pickle_step *s = ordered ? root->step : NULL; ok && s; s = s->next)
        if (s->act == TP_PICKLE_SET_ITEM)
            ok = add_row(p, l, s->a, s->b, *out, count);
    for (size_t i = 0; i < l->known_count; i++)
        tp_storage_unref(l->known[i].storage);
    tp_free(l->known);
    return ok;
}

static bool load_archive(tp_program *p, tp_zip *z, tp_state_row **row, size_t *count)
{
    const tp_zip_entry *e = tp_zip_record(z, "data.pkl");
    char *bytes = e ? tp_zip_read_new(z, e) : NULL;
    if (!bytes)
        return false;
    tp_arena a;
    tp_pickle_tree tree;
    loading l = { .zip = z };
    tp_arena_init(&a);
    bool ok = tp_pickle_read_in(&a, bytes, e->size, &tree) && load_dict(p, &l, tree.root, row, count);
    tp_arena_fini(&a);
    tp_free(bytes);
    return ok;
}

/* ---- values that are refused ---- */

/* What a pickle names besides the functions that build tensors: module and name of the first, NULL: nothing. */
static const tp_pickle *find_class(const tp_pickle_tree *tree)
{
    static const char *const plain[] = { "torch._utils", "torch._tensor", "torch.storage", "torch", "collections" };
    for (uint32_t i = 0; i < tree->global_count; i++) {
        size_t k = 0;
        while (k < TP_COUNT(plain) && strcmp(tree->global[i]->text, plain[k]) != 0)
            k++;
        if (k == TP_COUNT(plain))
            return tree->global[i];
    }
    return NULL;
}

static bool refuse_class(const char *name, const char *bytes, size_t count)
{
    tp_arena a;
    tp_pickle_tree tree;
    tp_arena_init(&a);
    const tp_pickle *class = tp_pickle_read_in(&a, bytes, count, &tree) ? find_class(&tree) : NULL;
    (void)tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %.80s is pickled%s%.80s%s%.80s, which is not implemented", name, class ? " and needs " : "",
                  class ? class->text : "", class ? "." : "", class ? class->name : "");
    tp_arena_fini(&a);
    return false;
}

bool tp_pt2_refuse_pickle(tp_zip *z, const char *name, const char *record)
{
    const tp_zip_entry *e = tp_zip_record(z, record);
    char *bytes = e ? tp_zip_read_new(z, e) : NULL;
    if (!bytes)
        return false;
    if (e->size > 4 && memcmp(bytes, "PK", 2) == 0) {
        tp_zip *inner = tp_zip_open_memory(bytes, e->size, TP_ZIP_NO_CRC, NULL, NULL);
        if (inner)
            (void)tp_pt2_refuse_pickle(inner, name, "data.pkl");
        tp_zip_unref(inner);
    } else {
        (void)refuse_class(name, bytes, e->size);
    }
    tp_free(bytes);
    return false;
}

bool tp_pt2_read_saved(tp_program *p, tp_zip *outer, const char *name, tp_state_row **row, size_t *count)
{
    char path[128];
    snprintf(path, sizeof path, "%s.pt", name);
    const tp_zip_entry *e = tp_zip_find(outer, path);
    if (!e) {
        snprintf(path, sizeof path, "%s.json", name);
        e = tp_zip_find(outer, path);
    }
    if (!e || !e->size)
        return true;
    char *bytes = tp_zip_read_new(outer, e);
    tp_zip *z = bytes ? tp_zip_open_memory(bytes, e->size, TP_ZIP_NO_CRC, NULL, NULL) : NULL;
    if (z)
        tp_error_clear();       /* add_row asks whether one was set since */
    bool ok = z && load_archive(p, z, row, count);
    tp_zip_unref(z);
    tp_free(bytes);
    return ok;
}
