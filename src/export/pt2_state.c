/* pt2_state.c - weights and constants of .pt2 files: raw bytes, and a JSON page that says what they are.
 *
 *     data/weights/weight_0                    the elements, or the whole storage where tensors share it
 *     data/weights/model_weights_config.json   {"config": {"l.weight": {"path_name": "weight_0", …, "tensor_meta": META}}}
 *
 * A file is untrusted: every size, stride and offset is held against the bytes there are. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "export/pt2.h"
#include "grad/tape.h"
#include "ops/symbolic.h"
#include "trace/fake.h"

/* ---- META ---- */
static void put_device(tp_json_writer *w, tp_device d)
{
    char name[16];
    tp_device plain = { .type = d.type, .index = -1 };
    tp_json_open_object(w);
    tp_json_put_key(w, "type");
    tp_json_put_word(w, tp_device_name(plain, name));
    tp_json_put_key(w, "index");
    if (d.index < 0)
        tp_json_put_null(w);
    else
        tp_json_put_int(w, d.index);
    tp_json_close_object(w);
}

static bool put_syms(tp_json_writer *w, const char *key, const tp_tensor *t, bool strides)
{
    bool ok = true;
    tp_json_put_key(w, key);
    tp_json_open_list(w);
    for (int i = 0; i < t->ndim; i++)
        ok = tp_pt2_put_sym(w, strides ? tp_tensor_sym_stride(t, i) : tp_tensor_sym_size(t, i)) && ok;
    tp_json_close_list(w);
    return ok;
}

/* `offset`: of the tensor in what the file has of its storage. */
static bool put_meta(tp_json_writer *w, const tp_tensor *t, tp_sym offset)
{
    tp_json_open_object(w);
    tp_json_put_key(w, "dtype");
    tp_json_put_int(w, tp_pt2_dtype((tp_dtype)t->dtype));
    bool ok = put_syms(w, "sizes", t, false);
    tp_json_put_key(w, "requires_grad");
    tp_json_put_bool(w, tp_requires_grad(t));
    tp_json_put_key(w, "device");
    put_device(w, t->device);
    ok = put_syms(w, "strides", t, true) && ok;
    tp_json_put_key(w, "storage_offset");
    ok = tp_pt2_put_sym(w, offset) && ok;
    tp_json_put_key(w, "layout");
    tp_json_put_int(w, TP_PT2_STRIDED);
    tp_json_close_object(w);
    return ok;
}

bool tp_pt2_put_meta(tp_json_writer *w, const tp_tensor *t)
{
    return put_meta(w, t, tp_tensor_sym_offset(t));
}

static tp_device get_device(const tp_json *v)
{
    static const char *const names[] = { [TP_CPU] = "cpu", [TP_META] = "meta", [TP_CUDA] = "cuda", [TP_MPS] = "mps", [TP_XPU] = "xpu" };
    const char *type = tp_json_text(tp_json_get(v, "type"), "cpu");
    int64_t index = tp_json_int(tp_json_get(v, "index"), -1);
    tp_device d = { .type = TP_CPU, .index = index >= 0 && index < 128 ? (int8_t)index : (int8_t)-1 };
    for (size_t i = 0; i < TP_COUNT(names); i++)
        if (strcmp(names[i], type) == 0)
            d.type = (int8_t)i;
    return d;
}

/* The numbers of a META; symbolic sizes by their hints, or 2 where there is none. */
typedef struct geometry {
    tp_dtype dtype;
    int      ndim;
    bool     symbolic;
    tp_sym   sym[TP_MAX_DIMS];
    int64_t  size[TP_MAX_DIMS], stride[TP_MAX_DIMS], offset;
    bool     requires_grad;
    tp_device device;
} geometry;

enum { NO_HINT = 2 };

static int64_t number_of(tp_sym x)
{
    int64_t hint;
    return tp_sym_is_int(x) ? tp_sym_as_int(x) : tp_sym_hint(x, &hint) ? hint : NO_HINT;
}

static bool get_geometry(tp_shape_env *env, const tp_json *meta, geometry *g)
{
    const tp_json *sizes = tp_json_get(meta, "sizes"), *strides = tp_json_get(meta, "strides");
    *g = (geometry){ .dtype = tp_pt2_dtype_of(tp_json_int(tp_json_get(meta, "dtype"), 0)), .ndim = (int)tp_json_count(sizes),
                     .requires_grad = tp_json_bool(tp_json_get(meta, "requires_grad"), false),
                     .device = get_device(tp_json_get(meta, "device")) };
    if (g->dtype == TP_DTYPE_NONE)
        return tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: element type %lld is not implemented",
                       LL(tp_json_int(tp_json_get(meta, "dtype"), 0)));
    if (!tp_json_is(sizes, TP_JSON_LIST) || !tp_json_is(strides, TP_JSON_LIST) || strides->count != sizes->count || g->ndim > TP_MAX_DIMS)
        return tp_fail(TP_ERR_RUNTIME, "pt2: a tensor has no sizes and strides that fit");
    for (int i = 0; i < g->ndim; i++) {
        tp_sym stride = tp_pt2_get_sym(env, tp_json_at(strides, (size_t)i));
        g->sym[i] = tp_pt2_get_sym(env, tp_json_at(sizes, (size_t)i));
        if (tp_sym_is_failed(stride) || tp_sym_is_failed(g->sym[i]))
            return false;
        if (tp_sym_type_of(stride) != TP_SYM_INT || tp_sym_type_of(g->sym[i]) != TP_SYM_INT)
            return tp_fail(TP_ERR_RUNTIME, "pt2: a size or stride is no integer");
        g->symbolic = g->symbolic || !tp_sym_is_int(g->sym[i]);
        g->size[i] = number_of(g->sym[i]);
        g->stride[i] = number_of(stride);
        if (g->size[i] < 0 || g->stride[i] < 0)
            return tp_fail(TP_ERR_RUNTIME, "pt2: a tensor has a size or stride below zero");
    }
    tp_sym offset = tp_pt2_get_sym(env, tp_json_get(meta, "storage_offset"));
    g->offset = tp_sym_is_failed(offset) ? -1 : number_of(offset);
    if (g->offset < 0)
        return tp_sym_is_failed(offset) ? false : tp_fail(TP_ERR_RUNTIME, "pt2: a tensor begins before its storage");
    return true;
}

/* How many elements of the storage it reaches, -1: more than there can be. */
static int64_t reach(const geometry *g)
{
    int64_t last = g->offset, step;
    for (int i = 0; i < g->ndim; i++) {
        if (g->size[i] == 0)
            return 0;
        if (__builtin_mul_overflow(g->size[i] - 1, g->stride[i], &step) || __builtin_add_overflow(last, step, &last))
            return -1;
    }
    return last < INT64_MAX / 64 ? last + 1 : -1;
}

tp_tensor *tp_pt2_get_meta(tp_shape_env *env, const tp_json *meta)
{
    geometry g;
    if (!get_geometry(env, meta, &g))
        return NULL;
    int64_t count = reach(&g);
    if (count < 0 || tp_sizes_numel(g.ndim, g.size) < 0)
        return tp_fail(TP_ERR_RUNTIME, "pt2: a tensor is larger than memory can be");
    tp_storage *s = tp_storage_new_none((size_t)count * tp_dtype_bytes(g.dtype));
    tp_tensor *shape = s ? tp_tensor_take_storage(s, g.dtype, g.ndim, g.size, g.stride, g.offset) : NULL;
    if (!shape)
        return NULL;
    shape->device = g.device;
    tp_tensor *fake = g.symbolic ? tp_fake_symbolic(shape, env, g.sym) : tp_fake_of(shape);
    tp_tensor_unref(shape);
    if (fake && g.requires_grad && !tp_set_requires_grad(fake, true)) {
        tp_tensor_unref(fake);
        return NULL;
    }
    return fake;
}

/* ---- writing ---- */
static bool is_shared(const tp_state_row *row, size_t count, size_t i)
{
    for (size_t k = 0; k < count; k++)
        if (k != i && row[k].tensor->storage == row[i].tensor->storage)
            return true;
    return false;
}

static size_t first_with(const tp_state_row *row, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (row[k].tensor->storage == row[i].tensor->storage)
            return k;
    return i;
}

static bool write_rows(tp_zip_writer *z, const tp_state_row *row, size_t count, const char *folder, const char *prefix, const char *page)
{
    tp_text text = { 0 };
    tp_json_writer w;
    char name[128], path[64];
    bool ok = true;
    size_t *number = tp_alloc_array(count + 1, sizeof *number), next = 0;
    if (!number)
        return false;
    tp_json_writer_init(&w, &text);
    tp_json_open_object(&w);
    tp_json_put_key(&w, "config");
    tp_json_open_object(&w);
    for (size_t i = 0; ok && i < count; i++) {
        const tp_tensor *t = row[i].tensor;
        bool whole = is_shared(row, count, i) || !tp_tensor_is_contiguous(t);
        size_t first = first_with(row, i);
        number[i] = first < i ? number[first] : next++;
        snprintf(path, sizeof path, "%s_%zu", prefix, number[i]);
        snprintf(name, sizeof name, "%s/%s", folder, path);
        if (t->device.type != TP_CPU || t->storage->kind == TP_MEMORY_NONE) {
            ok = tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %s has no data to save", row[i].name);
            break;
        }
        if (tp_signs(t)) {
            ok = tp_fail(TP_ERR_UNIMPLEMENTED, "pt2: %s is a conjugate or negative view", row[i].name);
            break;
        }
        if (first == i)
            ok = whole ? tp_zip_add(z, name, t->storage->data, t->storage->bytes)
                       : tp_zip_add(z, name, tp_tensor_data(t), (size_t)t->numel * tp_dtype_bytes((tp_dtype)t->dtype));
        tp_json_put_key(&w, row[i].name);
        tp_json_open_object(&w);
        tp_json_put_key(&w, "path_name");
        tp_json_put_word(&w, path);
        tp_json_put_key(&w, "is_param");
        tp_json_put_bool(&w, row[i].parameter);
        tp_json_put_key(&w, "use_pickle");
        tp_json_put_bool(&w, false);
        tp_json_put_key(&w, "tensor_meta");
        ok = put_meta(&w, t, tp_sym_int(whole ? t->offset : 0)) && ok;
        tp_json_close_object(&w);
    }
    tp_free(number);
    if (ok) {
        tp_json_close_object(&w);
        tp_json_close_object(&w);
        ok = text.failed ? (bool)tp_fail_memory() : tp_zip_add(z, page, text.at, text.length);
    }
    tp_text_fini(&text);
    return ok;
}

bool tp_pt2_write_state(const tp_program *p, tp_zip_writer *w)
{
    return write_rows(w, p->state, p->state_count, "data/weights", "weight", "data/weights/model_weights_config.json") &&
           write_rows(w, p->constant, p->constant_count, "data/constants", "tensor", "data/constants/model_constants_config.json");
}

/* ---- reading ---- */
typedef struct loading {
    tp_zip *zip;                /* borrowed */
    const char *folder;
    struct { const char *path; tp_storage *storage; } *known;     /* owned; storages counted */
    size_t known_count;
} loading;

static void drop_zip(void *zip)
{
    tp_zip_unref(zip);
}

/* The bytes of an entry, looked at in place where they are a mapping's: the program may write to them. Counted. */
static tp_storage *load_storage(loading *l, const char *path)
{
    char name[512];
    for (size_t i = 0; i < l->known_count; i++)
        if (strcmp(l->known[i].path, path) == 0)
            return tp_storage_ref(l->known[i].storage);
    if ((size_t)snprintf(name, sizeof name, "%s/%s", l->folder, path) >= sizeof name)
        return tp_fail(TP_ERR_RUNTIME, "pt2: the name of a weight is too long");
    const tp_zip_entry *e = tp_zip_record(l->zip, name);
    if (!e)
        return NULL;
    void *bytes = tp_zip_is_mapped(l->zip) ? tp_zip_borrow(l->zip, e) : NULL;
    tp_storage *s;
    if (bytes && !tp_zip_check(l->zip, e))
        return NULL;
    if (bytes && (uintptr_t)bytes % 16 == 0)
        s = tp_storage_take_foreign(bytes, e->size, tp_zip_ref(l->zip), drop_zip);
    else if ((s = tp_storage_new(e->size)) && e->size && !tp_zip_read(l->zip, e, s->data)) {
        tp_storage_unref(s);
        s = NULL;
    }
    if (s) {
        l->known[l->known_count].path = path;
        l->known[l->known_count++].storage = tp_storage_ref(s);
    }
    return s;
}

/* A pickled tensor of a class, or an object: neither is built. */
static bool refuse_object(loading *l, const char *name, const char *path)
{
    char record[512];
    if ((size_t)snprintf(record, sizeof record, "%s/%s", l->folder, path) >= sizeof record)
        return tp_fail(TP_ERR_RUNTIME, "pt2: the name of a weight is too long");
    return tp_pt2_refuse_pickle(l->zip, name, record);
}

static tp_tensor *load_tensor(loading *l, tp_shape_env *env, const char *name, const tp_json *row)
{
    geometry g;
    const char *path = tp_json_text(tp_json_get(row, "path_name"), NULL);
    if (!path)
        return tp_fail(TP_ERR_RUNTIME, "pt2: a weight has no path");
    if (tp_json_bool(tp_json_get(row, "use_pickle"), false) || strncmp(path, "custom_obj", 10) == 0) {
        (void)refuse_object(l, name, path);
        return NULL;
    }
    if (!get_geometry(env, tp_json_get(row, "tensor_meta"), &g))
        return NULL;
    tp_storage *s = load_storage(l, path);
    if (!s)
        return NULL;
    int64_t count = g.symbolic ? -1 : reach(&g);
    if (count < 0 || (uint64_t)count > s->bytes / tp_dtype_bytes(g.dtype) || tp_sizes_numel(g.ndim, g.size) < 0) {
        tp_storage_unref(s);
        return tp_fail(TP_ERR_RUNTIME, "pt2: a tensor reaches beyond the bytes of %s", path);
    }
    tp_tensor *t = tp_tensor_take_storage(s, g.dtype, g.ndim, g.size, g.stride, g.offset);
    if (t && g.requires_grad && !tp_set_requires_grad(t, true)) {
        tp_tensor_unref(t);
        return NULL;
    }
    return t;
}

static bool load_rows(tp_program *p, loading *l, const tp_json *config, tp_state_row **out, size_t *out_count)
{
    size_t count = tp_json_is(config, TP_JSON_OBJECT) ? config->count : 0;
    tp_state_row *row = *out = tp_arena_take_array(&p->arena, count, sizeof *row);
    l->known = tp_alloc_array(count + 1, sizeof *l->known);
    bool ok = (row || !count) && l->known;
    for (size_t i = 0; ok && i < count; i++) {
        const tp_json *v = &config->item[i];
        row[i] = (tp_state_row){ .name = tp_text_in(&p->arena, config->key[i].text, config->key[i].length),
                                 .parameter = tp_json_bool(tp_json_get(v, "is_param"), false) };
        row[i].tensor = row[i].name ? load_tensor(l, p->graph->env, row[i].name, v) : NULL;
        ok = row[i].tensor != NULL;
        *out_count += ok;
    }
    for (size_t i = 0; i < l->known_count; i++)
        tp_storage_unref(l->known[i].storage);
    tp_free(l->known);
    return ok;
}

static bool read_page(tp_program *p, tp_zip *z, const char *folder, const char *page, tp_state_row **row, size_t *count)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", folder, page);
    if (!tp_zip_has_record(z, name))
        return true;
    const tp_zip_entry *e = tp_zip_record(z, name);
    char *text = e ? tp_zip_read_new(z, e) : NULL;
    if (!text)
        return false;
    tp_arena a;
    tp_arena_init(&a);
    const tp_json *v = tp_json_read_in(&a, text, e->size);
    loading l = { .zip = z, .folder = folder };
    bool ok = v && load_rows(p, &l, tp_json_get(v, "config"), row, count);
    tp_arena_fini(&a);
    tp_free(text);
    return ok;
}

bool tp_pt2_read_state(tp_program *p, tp_zip *z)
{
    return read_page(p, z, "data/weights", "model_weights_config.json", &p->state, &p->state_count) &&
           read_page(p, z, "data/constants", "model_constants_config.json", &p->constant, &p->constant_count);
}
