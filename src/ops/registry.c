/* registry.c - finding ops by name, and adding ops at run time.
 *
 * The table that opgen writes is sorted by space and name; overloads of one name stand together in the order of their
 * definition, so an overload set is a slice of it. Run-time ops are kept beside it in the same order. */
#include "ops/op.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/runtime.h"
#include "ops/registry.h"

struct tp_registry {
    pthread_mutex_t lock;
    tp_array(tp_op *) added;            /* owned run-time ops, sorted like the table */
    tp_array(tp_op *) retired;          /* owned: found by no name, read by who still holds them */
};

static int by_name(const tp_op *op, const char *space, const char *name)
{
    int order = strcmp(op->space, space);
    return order ? order : strcmp(op->name, name);
}

/* The first of `count` ops that is not below (space, name). */
static size_t first_at(const tp_op *const *op, size_t count, const char *space, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (by_name(op[middle], space, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t slice(const tp_op *const *op, size_t count, const char *space, const char *name, const tp_op *const **out)
{
    size_t first = first_at(op, count, space, name), n = 0;
    while (first + n < count && by_name(op[first + n], space, name) == 0)
        n++;
    *out = op + first;
    return n;
}

static const struct tp_registry *registry(void)
{
    return tp_the_runtime.registry;
}

size_t tp_op_overloads(const char *space, const char *name, const tp_op *const **out)
{
    size_t n = slice(tp_op_table, tp_op_table_count, space, name, out);
    if (!n && registry())
        n = slice((const tp_op *const *)registry()->added.item, registry()->added.count, space, name, out);
    return n;
}

const tp_op *tp_op_find(const char *space, const char *name, const char *overload)
{
    const tp_op *const *found;
    size_t n = slice(tp_op_table, tp_op_table_count, space, name, &found);
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i]->overload, overload) == 0)
            return found[i];
    n = registry() ? slice((const tp_op *const *)registry()->added.item, registry()->added.count, space, name, &found) : 0;
    for (size_t i = 0; i < n; i++)
        if (strcmp(found[i]->overload, overload) == 0)
            return found[i];
    return NULL;
}

void tp_op_each(bool (*visit)(const tp_op *op, void *user), void *user)
{
    for (size_t i = 0; i < tp_op_table_count; i++)
        if (!visit(tp_op_table[i], user))
            return;
    for (size_t i = 0; registry() && i < registry()->added.count; i++)
        if (!registry()->added.item[i]->rare->of && !visit(registry()->added.item[i], user))
            return;
}

const tp_work     tp_no_work;
const tp_gradient tp_no_gradient;
const tp_rare     tp_no_rare;

void tp_op_schema(const tp_op *op, tp_text *out)
{
    tp_text_add(out, "%s::%s%s%s%s", op->space, op->name, *op->overload ? "." : "", op->overload, op->signature);
}

const char *tp_op_full_name(const tp_op *op, char out[128])
{
    snprintf(out, 128, "%s::%s%s%s", op->space, op->name, *op->overload ? "." : "", op->overload);
    return out;
}

void *tp_fail_op(tp_err kind, const tp_op *op)
{
    char name[128];
    return tp_fail(kind, "%s", tp_op_full_name(op, name));
}

int tp_op_arg_index(const tp_op *op, const char *name)
{
    for (int i = 0; i < op->arg_count; i++)
        if (strcmp(op->arg[i].name, name) == 0)
            return i;
    return -1;
}

bool tp_registry_add(tp_op *op)
{
    struct tp_registry *r = tp_the_runtime.registry;
    if (!r) {
        if (!(r = tp_alloc_zero(sizeof *r)))
            return false;
        pthread_mutex_init(&r->lock, NULL);
        tp_the_runtime.registry = r;
    }
    pthread_mutex_lock(&r->lock);
    bool ok = tp_array_reserve(&r->added, r->added.count + 1);
    if (ok) {
        size_t at = first_at((const tp_op *const *)r->added.item, r->added.count, op->space, op->name);
        while (at < r->added.count && by_name(r->added.item[at], op->space, op->name) == 0)
            at++;
        memmove(r->added.item + at + 1, r->added.item + at, (r->added.count - at) * sizeof *r->added.item);
        r->added.item[at] = op;
        r->added.count++;
    }
    pthread_mutex_unlock(&r->lock);
    return ok;
}

bool tp_registry_retire(tp_op *op)
{
    struct tp_registry *r = tp_the_runtime.registry;
    pthread_mutex_lock(&r->lock);
    bool ok = tp_array_push(&r->retired, op);
    pthread_mutex_unlock(&r->lock);
    if (ok)
        tp_registry_remove(op);
    return ok;
}

void tp_registry_remove(tp_op *op)
{
    struct tp_registry *r = tp_the_runtime.registry;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->added.count; i++)
        if (r->added.item[i] == op) {
            memmove(r->added.item + i, r->added.item + i + 1, (r->added.count - i - 1) * sizeof *r->added.item);
            r->added.count--;
            break;
        }
    if (!r->added.count)
        tp_array_fini(&r->added);
    pthread_mutex_unlock(&r->lock);
}
