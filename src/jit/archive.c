/* archive.c - writing and reading TorchScript archives. */
#include "jit/archive.h"

#include <stdio.h>

#include "format/pickle.h"
#include "grad/tape.h"
#include "jit/code.h"
#include "jit/parse.h"

/* "__torch__.torch.nn.Linear": its package and its own name. */
static const char *last_name(const char *full)
{
    const char *dot = strrchr(full, '.');
    return dot ? dot + 1 : full;
}

static void package_of(const char *full, tp_text *out)
{
    size_t length = (size_t)(last_name(full) - full);
    tp_text_put(out, full, length ? length - 1 : 0);
}

/* ---- writing ---- */
typedef struct code_file {
    char   *package;                    /* owned */
    tp_text text;
} code_file;

typedef struct writer {
    tp_zip_writer *zip;                 /* borrowed */
    const char    *folder;              /* "data" or "constants" */
    tp_text        bytes;               /* the pickle under way */
    uint32_t       memo;                /* its next number */
    tp_map         storages;            /* storage -> number of its entry */
    tp_map         nodes;               /* tensor or module -> its number in the memo */
    tp_text_map    texts;               /* text or global -> the same */
    tp_array(code_file) files;
    tp_map         printed;             /* modules and functions that have their text */
    tp_jit_constants constants;
} writer;

/* PyTorch reads these pickles with a reader of its own, which knows a few opcodes only and takes a class for a number until
 * BUILD: objects are put into the memo behind BUILD, and globals, texts and storages where they first stand. */
static void byte(writer *w, char opcode) { tp_text_put(&w->bytes, &opcode, 1); }

static void put_word(writer *w, char opcode, uint32_t v)
{
    byte(w, opcode);
    for (int i = 0; i < 4; i++)
        byte(w, (char)(v >> 8 * i));
}

static void memo(writer *w, char small, char large, uint32_t number)
{
    if (number > 255) {
        put_word(w, large, number);
        return;
    }
    byte(w, small);
    byte(w, (char)number);
}

static void remember(writer *w) { memo(w, 'q', 'r', w->memo++); }

/* Was it written before? Then it is named by its number. */
static bool recalled(writer *w, const char *what)
{
    uint64_t number;
    if (!tp_text_map_get(&w->texts, what, &number))
        return false;
    memo(w, 'h', 'j', (uint32_t)number);
    return true;
}

static bool write_text(writer *w, const char *text)
{
    if (recalled(w, text))
        return true;
    put_word(w, 'X', (uint32_t)strlen(text));
    tp_text_put(&w->bytes, text, strlen(text));
    bool ok = tp_text_map_put(&w->texts, text, w->memo);
    remember(w);
    return ok;
}

static bool write_global(writer *w, const char *module, const char *name)
{
    tp_text full = { 0 };
    tp_text_add(&full, "c%s\n%s\n", module, name);
    bool ok = !full.failed;
    if (ok && !recalled(w, tp_text_read(&full))) {
        tp_text_put(&w->bytes, tp_text_read(&full), full.length);
        ok = tp_text_map_put(&w->texts, tp_text_read(&full), w->memo);
        remember(w);
    }
    tp_text_fini(&full);
    return ok;
}

static void write_int(writer *w, int64_t v)
{
    if (v >= 0 && v < 256) {
        byte(w, 'K');
        byte(w, (char)v);
    } else if (v == (int32_t)v) {
        put_word(w, 'J', (uint32_t)v);
    } else {
        byte(w, (char)0x8a);
        byte(w, 8);
        for (int i = 0; i < 8; i++)
            byte(w, (char)((uint64_t)v >> 8 * i));
    }
}

static void write_float(writer *w, double v)
{
    union { double f; uint64_t u; } bits = { v };
    byte(w, 'G');
    for (int i = 7; i >= 0; i--)
        byte(w, (char)(bits.u >> 8 * i));
}

static void write_ints(writer *w, const int64_t *v, int count)
{
    byte(w, '(');
    for (int i = 0; i < count; i++)
        write_int(w, v[i]);
    byte(w, 't');
}

static bool write_storage(writer *w, const tp_tensor *t)
{
    char name[64], key[32];
    uint64_t number = w->storages.count;
    const tp_storage *s = t->storage;
    if (!tp_map_get(&w->storages, (uint64_t)(uintptr_t)s, &number)) {
        snprintf(name, sizeof name, "%s/%llu", w->folder, (unsigned long long)number);
        if (!tp_map_put(&w->storages, (uint64_t)(uintptr_t)s, number) || !tp_zip_add(w->zip, name, s->data, s->bytes))
            return false;
    }
    snprintf(name, sizeof name, "%s", tp_dtypes[t->dtype].legacy);
    snprintf(name + strlen(name) - 6, 16, "Storage");       /* FloatTensor, FloatStorage */
    snprintf(key, sizeof key, "%llu", (unsigned long long)number);
    byte(w, '(');
    if (!write_text(w, "storage") || !write_global(w, "torch", name) || !write_text(w, key) || !write_text(w, "cpu"))
        return false;
    write_int(w, (int64_t)(s->bytes / tp_dtype_bytes((tp_dtype)t->dtype)));
    byte(w, 't');
    byte(w, 'Q');
    remember(w);
    return true;
}

static bool write_tensor(writer *w, const tp_tensor *t)
{
    if (!write_global(w, "torch._utils", "_rebuild_tensor_v2"))
        return false;
    byte(w, '(');
    if (!write_storage(w, t))
        return false;
    write_int(w, t->offset);
    write_ints(w, t->size, t->ndim);
    write_ints(w, t->stride, t->ndim);
    byte(w, tp_requires_grad(t) ? (char)0x88 : (char)0x89);
    if (!write_global(w, "collections", "OrderedDict"))
        return false;
    tp_text_put(&w->bytes, ")RtR", 4);
    return true;
}

static bool write_value(writer *w, tp_value v);

static bool write_module(writer *w, const tp_jit_module *m)
{
    tp_text package = { 0 };
    package_of(m->type->name, &package);
    bool ok = !package.failed && write_global(w, tp_text_read(&package), last_name(m->type->name));
    tp_text_fini(&package);
    tp_text_put(&w->bytes, ")\x81}(", 4);
    for (size_t i = 0; ok && i < m->slot.count; i++)
        ok = write_text(w, m->slot.item[i].name) && write_value(w, m->slot.item[i].value);
    tp_text_put(&w->bytes, "ub", 2);
    return ok;
}

static bool write_items(writer *w, tp_value v)
{
    byte(w, v.tag == TP_DICT ? '}' : v.tag == TP_LIST ? ']' : '(');
    if (v.tag != TP_TUPLE)
        byte(w, '(');
    for (uint32_t i = 0; i < v.list->count; i++)
        if (!write_value(w, v.list->item[i]))
            return false;
    byte(w, v.tag == TP_DICT ? 'u' : v.tag == TP_LIST ? 'e' : 't');
    return true;
}

/* A tensor or module: the second time by its number. */
static bool write_shared(writer *w, tp_value v)
{
    const tp_jit_module *m = tp_jit_as_module(v);
    uint64_t key = (uint64_t)(uintptr_t)(m ? (const void *)m : v.tensor), number;
    if (tp_map_get(&w->nodes, key, &number)) {
        memo(w, 'h', 'j', (uint32_t)number);
        return true;
    }
    if (!(m ? write_module(w, m) : write_tensor(w, v.tensor)) || !tp_map_put(&w->nodes, key, w->memo))
        return false;
    remember(w);
    return true;
}

static bool write_value(writer *w, tp_value v)
{
    if (v.tag == TP_TENSOR || tp_jit_as_module(v))
        return write_shared(w, v);
    switch ((tp_tag)v.tag) {
    case TP_NONE: byte(w, 'N'); return true;
    case TP_BOOL: byte(w, v.b ? (char)0x88 : (char)0x89); return true;
    case TP_INT: write_int(w, v.i); return true;
    case TP_FLOAT: write_float(w, v.f); return true;
    case TP_STRING: return write_text(w, v.string->text);
    case TP_LIST:
    case TP_TUPLE:
    case TP_DICT: return write_items(w, v);
    default: return tp_fail(TP_ERR_RUNTIME, "an attribute of this kind cannot be saved");
    }
}

/* One pickle, added to the archive under `name`; its storages are in `folder`. */
static bool write_pickle(writer *w, tp_value root, const char *name, const char *folder)
{
    w->folder = folder;
    w->memo = 0;
    tp_text_put(&w->bytes, "\x80\x02", 2);
    bool ok = write_value(w, root);
    byte(w, '.');
    ok = ok && (!w->bytes.failed || tp_fail_memory()) && tp_zip_add(w->zip, name, tp_text_read(&w->bytes), w->bytes.length);
    tp_text_fini(&w->bytes);
    tp_map_fini(&w->storages);
    tp_map_fini(&w->nodes);
    tp_text_map_fini(&w->texts);
    w->bytes = (tp_text){ 0 };
    w->storages = w->nodes = (tp_map){ 0 };
    w->texts = (tp_text_map){ 0 };
    return ok;
}

/* ---- the text of classes ---- */
static tp_text *file_for(writer *w, const char *full)
{
    tp_text package = { 0 };
    package_of(full, &package);
    for (size_t i = 0; i < w->files.count; i++)
        if (strcmp(w->files.item[i].package, tp_text_read(&package)) == 0) {
            tp_text_fini(&package);
            return &w->files.item[i].text;
        }
    code_file fresh = { .package = tp_alloc_text(tp_text_read(&package)) };
    tp_text_fini(&package);
    if (!fresh.package || !tp_array_push(&w->files, fresh)) {
        tp_free(fresh.package);
        return NULL;
    }
    return &w->files.item[w->files.count - 1].text;
}

static bool first_time(writer *w, const void *what, bool *fresh)
{
    uint64_t known;
    *fresh = !tp_map_get(&w->printed, (uint64_t)(uintptr_t)what, &known);
    return !*fresh || tp_map_put(&w->printed, (uint64_t)(uintptr_t)what, 1);
}

/* Functions that a graph calls stand before it, in the file of the root package. */
static bool print_called(writer *w, const tp_graph *g)
{
    tp_graph_each(g, n) {
        const tp_value *v = tp_jit_is(n, "prim::Constant") ? tp_node_keyword(n, "value") : NULL;
        const tp_jit_function *f = v ? tp_jit_as_function(*v) : NULL;
        bool fresh = false;
        if (!f)
            continue;
        if (!first_time(w, f, &fresh) || (fresh && !print_called(w, f->graph)))
            return false;
        tp_text *out = fresh ? file_for(w, "__torch__.f") : NULL;
        if (fresh && (!out || !tp_jit_code_print(f, &w->constants, 0, out)))
            return false;
    }
    return true;
}

static void print_names(const tp_jit_module *m, tp_jit_role role, const char *list, tp_text *out)
{
    tp_text_add(out, "  %s = [", list);
    for (size_t i = 0; i < m->slot.count; i++)
        if (m->slot.item[i].role == role)
            tp_text_add(out, "\"%s\", ", m->slot.item[i].name);
    tp_text_add(out, "]\n");
}

static bool is_identifier(const char *name)
{
    return *name && !(*name >= '0' && *name <= '9');
}

static bool print_slots(const tp_jit_module *m, tp_text *out)
{
    bool odd = false;
    for (size_t i = 0; i < m->slot.count; i++)
        odd = odd || !is_identifier(m->slot.item[i].name);
    if (odd)
        tp_text_add(out, "  __annotations__ = []\n");
    for (size_t i = 0; i < m->slot.count; i++) {
        const tp_jit_slot *s = &m->slot.item[i];
        tp_jit_type *type = tp_jit_type_of_member(s->value);
        if (!type)
            return false;
        tp_text_add(out, is_identifier(s->name) ? "  %s : " : "  __annotations__[\"%s\"] = ", s->name);
        tp_jit_type_print_python(type, out);
        tp_text_add(out, "\n");
        tp_jit_type_unref(type);
    }
    return true;
}

/* Submodules first: their classes are known when the text that calls them is read. */
static bool print_module(writer *w, const tp_jit_module *m)
{
    bool fresh;
    if (!first_time(w, m, &fresh) || !fresh)
        return !tp_error_kind();
    for (size_t i = 0; i < m->slot.count; i++)
        if (tp_jit_as_module(m->slot.item[i].value) && !print_module(w, tp_jit_as_module(m->slot.item[i].value)))
            return false;
    for (size_t i = 0; i < m->method.count; i++)
        if (!print_called(w, m->method.item[i]->graph))
            return false;
    tp_text *out = file_for(w, m->type->name);
    if (!out)
        return false;
    tp_text_add(out, "class %s(Module):\n", last_name(m->type->name));
    print_names(m, TP_JIT_PARAMETER, "__parameters__", out);
    print_names(m, TP_JIT_BUFFER, "__buffers__", out);
    if (!print_slots(m, out))
        return false;
    for (size_t i = 0; i < m->method.count; i++)
        if (!tp_jit_code_print(m->method.item[i], &w->constants, 2, out))
            return false;
    return !out->failed || tp_fail_memory();
}

static bool write_code(writer *w)
{
    for (size_t i = 0; i < w->files.count; i++) {
        tp_text name = { 0 };
        tp_text_add(&name, "code/%s.py", w->files.item[i].package);
        for (size_t k = 5; k + 3 < name.length; k++)
            if (name.at[k] == '.')
                name.at[k] = '/';
        bool ok = !name.failed && tp_zip_add(w->zip, tp_text_read(&name), tp_text_read(&w->files.item[i].text), w->files.item[i].text.length);
        tp_text_fini(&name);
        if (!ok)
            return false;
    }
    return true;
}

static bool write_constants(writer *w)
{
    size_t count = w->constants.item.count;
    tp_list *list = tp_list_new(count);
    for (size_t i = 0; list && i < count; i++)
        list->item[i] = tp_value_ref(tp_of_tensor(w->constants.item.item[i]));
    tp_value tuple = { .tag = TP_TUPLE, .list = list };
    bool ok = list && write_pickle(w, tuple, "constants.pkl", "constants");
    if (list)
        tp_value_unref(tuple);
    return ok;
}

bool tp_jit_save(tp_zip_writer *zip, tp_jit_module *m)
{
    writer w = { .zip = zip };
    bool ok = print_module(&w, m) && write_pickle(&w, tp_jit_of_module(m), "data.pkl", "data") && write_code(&w) && write_constants(&w) &&
              tp_zip_add_text(zip, "version", "3\n") && tp_zip_add_text(zip, "byteorder", "little") && tp_zip_add_id(zip);
    for (size_t i = 0; i < w.files.count; i++) {
        tp_free(w.files.item[i].package);
        tp_text_fini(&w.files.item[i].text);
    }
    tp_array_fini(&w.files);
    tp_map_fini(&w.printed);
    tp_jit_constants_fini(&w.constants);
    return ok;
}

tp_jit_module *tp_jit_module_of_function(tp_jit_function *f)
{
    tp_jit_module *m = tp_jit_module_new("__torch__.PlaceholderModule");
    tp_graph *g = m ? tp_jit_copy(f->graph) : NULL;
    tp_jit_function *method = NULL;
    tp_jit_names names = { 0 };
    bool ok = g && tp_jit_module_set(m, "training", TP_JIT_ATTRIBUTE, tp_bool(true));
    if (ok) {
        g->insert = g->root.next;
        ok = tp_jit_input(g, &names, "self", tp_jit_type_ref(m->type));
        g->insert = &g->root;
        ok = ok && (method = tp_jit_function_new("forward", g, true)) && tp_jit_module_define(m, method);
    }
    tp_jit_names_fini(&names);
    tp_jit_function_unref(method);
    tp_graph_unref(g);
    if (ok)
        return m;
    tp_jit_module_unref(m);
    return NULL;
}

/* ---- reading ---- */
typedef struct loader {
    tp_zip     *zip;                    /* borrowed */
    const char *folder;
    tp_arena    arena;
    tp_value   *made;                   /* owned, by pickle id, each owned; while `done` */
    uint8_t    *done;
    tp_map      storages;               /* hash of the key -> storage, counted */
    tp_array(tp_storage *) held;
    tp_text_map texts;                  /* package -> text */
    tp_array(char *) text;              /* each owned */
    tp_array(tp_jit_module *) modules;  /* borrowed: in the order they were made */
    tp_array(tp_jit_function *) functions;  /* each counted */
    tp_text_map function_names;         /* name -> tp_jit_function */
    tp_jit_reader reader;
    int         depth;
} loader;

static bool broken(const char *what)
{
    return tp_fail(TP_ERR_RUNTIME, "the TorchScript archive is broken: %s", what);
}

/* The text of a package; NULL: an error is set. */
static const char *code_of(loader *l, const char *package)
{
    uint64_t known;
    if (tp_text_map_get(&l->texts, package, &known))
        return (const char *)(uintptr_t)known;
    tp_text name = { 0 };
    tp_text_add(&name, "code/%s.py", package);
    for (size_t k = 5; k + 3 < name.length; k++)
        if (name.at[k] == '.')
            name.at[k] = '/';
    const tp_zip_entry *e = tp_zip_record(l->zip, tp_text_read(&name));
    char *text = e ? tp_zip_read_new(l->zip, e) : NULL;
    tp_text_fini(&name);
    if (!text || !tp_array_push(&l->text, text)) {
        tp_free(text);
        return NULL;
    }
    return tp_text_map_put(&l->texts, package, (uint64_t)(uintptr_t)text) ? text : NULL;
}

static tp_jit_module *class_of(void *user, const char *name)
{
    loader *l = user;
    for (size_t i = 0; i < l->modules.count; i++)
        if (strcmp(l->modules.item[i]->type->name, name) == 0)
            return l->modules.item[i];
    return NULL;
}

static tp_jit_function *function_of(void *user, const char *name)
{
    loader *l = user;
    uint64_t known;
    if (tp_text_map_get(&l->function_names, name, &known))
        return known ? (tp_jit_function *)(uintptr_t)known : (broken("a function calls itself"), NULL);
    tp_text package = { 0 };
    package_of(name, &package);
    const char *text = code_of(l, tp_text_read(&package)), *def = text ? tp_jit_find_def(text, last_name(name)) : NULL;
    tp_text_fini(&package);
    if (!def)
        return text ? (broken("a function is missing"), NULL) : NULL;
    if (!tp_text_map_put(&l->function_names, name, 0))
        return NULL;
    tp_jit_function *f = tp_jit_parse_function(&l->reader, def);
    if (!f || !tp_array_push(&l->functions, f)) {
        tp_jit_function_unref(f);
        return NULL;
    }
    return tp_text_map_put(&l->function_names, name, (uint64_t)(uintptr_t)f) ? f : NULL;
}

static tp_dtype dtype_of_storage(const char *name)
{
    size_t length = strlen(name);
    for (int d = 0; d < TP_DTYPE_COUNT && length > 7; d++)
        if (strncmp(tp_dtypes[d].legacy, name, length - 7) == 0 && strcmp(tp_dtypes[d].legacy + length - 7, "Tensor") == 0)
            return (tp_dtype)d;
    return TP_DTYPE_NONE;
}

/* The bytes behind a persistent id ('storage', type, key, place, count); borrowed from the loader. */
static tp_storage *storage_of(loader *l, const tp_pickle *id, tp_dtype *dtype)
{
    const tp_pickle *t = id->kind == TP_PICKLE_PERSISTENT ? id->item[0] : NULL;
    if (!t || t->kind != TP_PICKLE_TUPLE || t->count < 5 || t->item[1]->kind != TP_PICKLE_GLOBAL || t->item[2]->kind != TP_PICKLE_TEXT)
        return broken("a storage"), NULL;
    if ((*dtype = dtype_of_storage(t->item[1]->name)) == TP_DTYPE_NONE)
        return broken("an unknown type of storage"), NULL;
    tp_text name = { 0 };
    tp_text_add(&name, "%s/%s", l->folder, t->item[2]->text);
    const tp_zip_entry *e = name.failed ? NULL : tp_zip_record(l->zip, tp_text_read(&name));
    uint64_t known;
    tp_storage *s = NULL;
    if (e && tp_map_get(&l->storages, (uint64_t)(uintptr_t)e, &known)) {
        s = (tp_storage *)(uintptr_t)known;
    } else if (e && (s = tp_storage_new((size_t)e->size))) {
        bool ok = tp_zip_read(l->zip, e, s->data) && tp_array_push(&l->held, s);
        if (!ok)
            tp_storage_unref(s);
        s = ok && tp_map_put(&l->storages, (uint64_t)(uintptr_t)e, (uint64_t)(uintptr_t)s) ? s : NULL;
    }
    tp_text_fini(&name);
    return s;
}

static int read_ints(const tp_pickle *t, int64_t *out)
{
    if (t->kind != TP_PICKLE_TUPLE || t->count > TP_MAX_DIMS)
        return -1;
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->item[i]->kind != TP_PICKLE_INT || t->item[i]->integer < 0)
            return -1;
        out[i] = t->item[i]->integer;
    }
    return (int)t->count;
}

/* Does the last element lie in the storage? */
static bool inside(const tp_storage *s, tp_dtype d, int ndim, const int64_t *size, const int64_t *stride, int64_t offset)
{
    int64_t room = (int64_t)(s->bytes / tp_dtype_bytes(d)), last = offset, reach;
    for (int i = 0; i < ndim; i++)
        if (size[i] == 0)
            return offset >= 0 && offset <= room;
    for (int i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(size[i] - 1, stride[i], &reach) || __builtin_add_overflow(last, reach, &last))
            return false;
    return offset >= 0 && last < room;
}

static bool load_tensor(loader *l, const tp_pickle *args, tp_value *out)
{
    int64_t size[TP_MAX_DIMS], stride[TP_MAX_DIMS];
    tp_dtype dtype = TP_f32;
    if (args->kind != TP_PICKLE_TUPLE || args->count < 5 || args->item[1]->kind != TP_PICKLE_INT || args->item[4]->kind != TP_PICKLE_BOOL)
        return broken("a tensor");
    tp_storage *s = storage_of(l, args->item[0], &dtype);
    int ndim = read_ints(args->item[2], size);
    if (!s || ndim < 0 || read_ints(args->item[3], stride) != ndim)
        return s ? broken("the sizes of a tensor") : false;
    if (!inside(s, dtype, ndim, size, stride, args->item[1]->integer) || tp_sizes_numel(ndim, size) < 0)
        return broken("a tensor reaches past its storage");
    tp_tensor *t = tp_tensor_take_storage(tp_storage_ref(s), dtype, ndim, size, stride, args->item[1]->integer);
    if (!t || (args->item[4]->truth && !tp_set_requires_grad(t, true))) {
        tp_tensor_unref(t);
        return false;
    }
    *out = (tp_value){ .tag = TP_TENSOR, .tensor = t };
    return true;
}

static bool load_value(loader *l, const tp_pickle *n, tp_value *out);

static bool load_slots(loader *l, const tp_pickle *state, const char *class_text, tp_jit_module *m)
{
    for (uint32_t i = 0; i + 1 < state->count; i += 2) {
        const char *name = state->item[i]->kind == TP_PICKLE_TEXT ? state->item[i]->text : NULL;
        tp_value v;
        if (!name)
            return broken("an attribute without a name");
        if (!load_value(l, state->item[i + 1], &v))
            return false;
        tp_jit_role role = tp_jit_as_module(v) ? TP_JIT_MODULE : tp_jit_class_lists(class_text, "__parameters__", name) ? TP_JIT_PARAMETER
                         : tp_jit_class_lists(class_text, "__buffers__", name) ? TP_JIT_BUFFER : TP_JIT_ATTRIBUTE;
        bool ok = tp_jit_module_set(m, name, role, v);
        tp_value_unref(v);
        if (!ok)
            return false;
    }
    return true;
}

static bool load_module(loader *l, const tp_pickle *n, tp_value *out)
{
    const tp_pickle *class = n->item[0];
    if (class->kind != TP_PICKLE_GLOBAL || strncmp(class->text, "__torch__", 9) != 0)
        return broken("an object that is no module");
    const char *text = code_of(l, class->text), *found = text ? tp_jit_find_class(text, class->name) : NULL;
    if (!found)
        return text ? broken("a class is missing") : false;
    tp_text full = { 0 };
    tp_text_add(&full, "%s.%s", class->text, class->name);
    tp_jit_module *m = full.failed ? NULL : tp_jit_module_new(tp_text_read(&full));
    tp_text_fini(&full);
    bool ok = m;
    for (const tp_pickle_step *s = n->step; ok && s; s = s->next)
        if (s->act == TP_PICKLE_BUILD)
            ok = s->a->kind == TP_PICKLE_DICT ? load_slots(l, s->a, found, m) : broken("the state of a module");
    /* Modules of one class share its methods. */
    const tp_jit_module *twin = ok ? class_of(l, m->type->name) : NULL;
    for (size_t i = 0; ok && twin && i < twin->method.count; i++)
        ok = tp_jit_module_define(m, twin->method.item[i]);
    ok = ok && (twin || tp_jit_parse_methods(&l->reader, found, m)) && tp_array_push(&l->modules, m);
    if (ok)
        *out = tp_jit_of_module(m);
    else
        tp_jit_module_unref(m);
    return ok;
}

static bool load_list(loader *l, const tp_pickle *n, tp_tag tag, tp_value *out)
{
    tp_list *list = tp_list_new(n->count);
    for (uint32_t i = 0; list && i < n->count; i++)
        if (!load_value(l, n->item[i], &list->item[i])) {
            tp_value_unref(tp_of_list(list));
            return false;
        }
    *out = (tp_value){ .tag = (uint8_t)tag, .list = list };
    return list;
}

static bool load_call(loader *l, const tp_pickle *n, tp_value *out)
{
    const tp_pickle *f = n->item[0], *args = n->item[1];
    if (tp_pickle_is_global(f, "torch._utils", "_rebuild_tensor_v2"))
        return load_tensor(l, args, out);
    if (f->kind == TP_PICKLE_GLOBAL && strcmp(f->text, "torch.jit._pickle") == 0 && args->kind == TP_PICKLE_TUPLE && args->count > 0)
        return load_value(l, args->item[0], out);
    return broken("a call that archives do not make");
}

static bool load_fresh(loader *l, const tp_pickle *n, tp_value *out)
{
    switch ((tp_pickle_kind)n->kind) {
    case TP_PICKLE_NONE: *out = tp_none(); return true;
    case TP_PICKLE_BOOL: *out = tp_bool(n->truth); return true;
    case TP_PICKLE_INT: *out = tp_int(n->integer); return true;
    case TP_PICKLE_FLOAT: *out = tp_float(n->number); return true;
    case TP_PICKLE_TEXT: *out = tp_value_string(n->text, n->length); return out->tag != TP_NONE;
    case TP_PICKLE_LIST: return load_list(l, n, TP_LIST, out);
    case TP_PICKLE_TUPLE: return load_list(l, n, TP_TUPLE, out);
    case TP_PICKLE_DICT: return load_list(l, n, TP_DICT, out);
    case TP_PICKLE_NEW: return load_module(l, n, out);
    case TP_PICKLE_CALL: return load_call(l, n, out);
    default: return broken("a value of an unknown kind");
    }
}

static bool load_value(loader *l, const tp_pickle *n, tp_value *out)
{
    enum { DEEPEST = 500 };
    *out = tp_none();
    if (l->done[n->id] == 2) {
        *out = tp_value_ref(l->made[n->id]);
        return true;
    }
    if (l->done[n->id] == 1 || l->depth > DEEPEST)
        return broken("objects that hold themselves, or nest too deeply");
    l->done[n->id] = 1;
    l->depth++;
    bool ok = load_fresh(l, n, out);
    l->depth--;
    if (ok) {
        l->made[n->id] = tp_value_ref(*out);
        l->done[n->id] = 2;
    } else {
        *out = tp_none();               /* what was begun is gone */
    }
    return ok;
}

static bool load_pickle(loader *l, const char *name, const char *folder, tp_value *out)
{
    const tp_zip_entry *e = tp_zip_record(l->zip, name);
    char *bytes = e ? tp_zip_read_new(l->zip, e) : NULL;
    tp_pickle_tree tree;
    bool ok = bytes && tp_pickle_read_in(&l->arena, bytes, (size_t)e->size, &tree);
    l->folder = folder;
    l->made = ok ? tp_alloc_zero((tree.node_count + 1) * sizeof *l->made) : NULL;
    l->done = ok ? tp_alloc_zero(tree.node_count + 1) : NULL;
    ok = ok && l->made && l->done && load_value(l, tree.root, out);
    for (uint32_t i = 0; l->made && l->done && i < tree.node_count; i++)
        if (l->done[i] == 2)
            tp_value_unref(l->made[i]);
    tp_free(l->made);
    tp_free(l->done);
    tp_free(bytes);
    return ok;
}

tp_jit_module *tp_jit_load(tp_zip *zip)
{
    loader l = { .zip = zip };
    tp_value constants = tp_none(), root = tp_none();
    tp_arena_init(&l.arena);
    l.reader = (tp_jit_reader){ .user = &l, .class_of = class_of, .function = function_of };
    bool ok = !tp_zip_has_record(zip, "constants.pkl") || load_pickle(&l, "constants.pkl", "constants", &constants);
    if (ok && tp_length(constants)) {
        l.reader.constant = constants.list->item;
        l.reader.constant_count = constants.list->count;
    }
    ok = ok && load_pickle(&l, "data.pkl", "data", &root) && (tp_jit_as_module(root) || broken("its root is no module"));
    for (size_t i = 0; i < l.held.count; i++)
        tp_storage_unref(l.held.item[i]);
    for (size_t i = 0; i < l.text.count; i++)
        tp_free(l.text.item[i]);
    for (size_t i = 0; i < l.functions.count; i++)
        tp_jit_function_unref(l.functions.item[i]);
    tp_array_fini(&l.held);
    tp_array_fini(&l.text);
    tp_array_fini(&l.modules);
    tp_array_fini(&l.functions);
    tp_map_fini(&l.storages);
    tp_text_map_fini(&l.texts);
    tp_text_map_fini(&l.function_names);
    tp_arena_fini(&l.arena);
    tp_value_unref(constants);
    if (ok)
        return tp_jit_as_module(root);
    tp_value_unref(root);
    return NULL;
}
