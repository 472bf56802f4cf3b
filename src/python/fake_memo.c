/* fake_memo.c - rows of weak references, found by address and proved by the reference itself: an address may come again. */
#include "python/fake_memo.h"

enum { FEW_ROWS = 64 };

static void row_fini(fake_row *r)
{
    Py_DECREF(r->real);
    Py_DECREF(r->fake);
}

void fake_memo_fini(fake_memo *m)
{
    for (size_t i = 0; i < m->rows.count; i++)
        row_fini(&m->rows.item[i]);
    tp_array_fini(&m->rows);
    tp_map_fini(&m->of_tensor);
    tp_map_fini(&m->of_storage);
    *m = (fake_memo){ 0 };
}

/* ---- finding ---- */
static PyObject *alive(PyObject *reference)
{
    PyObject *o = PyWeakref_GET_OBJECT(reference);
    return o == Py_None ? NULL : o;
}

PyObject *fake_memo_get(const fake_memo *m, PyObject *real)
{
    uint64_t at;
    if (!tp_map_get(&m->of_tensor, (uint64_t)(uintptr_t)real, &at) || alive(m->rows.item[at].real) != real)
        return NULL;
    return alive(m->rows.item[at].fake);
}

PyObject *fake_memo_beside(const fake_memo *m, PyObject *real)
{
    const tp_storage *storage = face_tensor(real)->storage;
    uint64_t at;
    if (!tp_map_get(&m->of_storage, (uint64_t)(uintptr_t)storage, &at))
        return NULL;
    for (uint64_t i = at + 1; i; i = m->rows.item[i - 1].same) {
        const fake_row *r = &m->rows.item[i - 1];
        PyObject *sharer = alive(r->real), *fake = alive(r->fake);
        if (sharer && fake && face_tensor(sharer)->storage == storage)
            return fake;
    }
    return NULL;
}

/* ---- keeping ---- */

/* Takes the row, also when it fails. */
static bool add(fake_memo *m, fake_row row)
{
    uint64_t before;
    PyObject *real = alive(row.real);
    row.same = tp_map_get(&m->of_storage, (uint64_t)(uintptr_t)row.storage, &before) ? (uint32_t)before + 1 : 0;
    if (tp_map_put(&m->of_tensor, (uint64_t)(uintptr_t)real, m->rows.count) &&
        tp_map_put(&m->of_storage, (uint64_t)(uintptr_t)row.storage, m->rows.count) && tp_array_push(&m->rows, row))
        return true;
    tp_map_remove(&m->of_tensor, (uint64_t)(uintptr_t)real);
    tp_map_remove(&m->of_storage, (uint64_t)(uintptr_t)row.storage);
    row_fini(&row);
    return face_raise() != NULL;
}

static bool drop_dead(fake_memo *m)
{
    fake_memo old = *m;
    bool ok = true;
    *m = (fake_memo){ 0 };
    for (size_t i = 0; i < old.rows.count; i++) {
        if (ok && alive(old.rows.item[i].real) && alive(old.rows.item[i].fake))
            ok = add(m, old.rows.item[i]);
        else
            row_fini(&old.rows.item[i]);
    }
    old.rows.count = 0;
    fake_memo_fini(&old);
    m->live = m->rows.count;
    return ok;
}

/* A weak reference without a callback refers to nothing that the collector could free, yet is tracked: two for each input of a capture were what
 * made the collector look through all modules of the program. */
static PyObject *reference_to(PyObject *o)
{
    PyObject *reference = PyWeakref_NewRef(o, NULL);
    if (reference)
        PyObject_GC_UnTrack(reference);
    return reference;
}

bool fake_memo_put(fake_memo *m, PyObject *real, PyObject *fake)
{
    if (m->rows.count >= FEW_ROWS && m->rows.count >= 2 * m->live && !drop_dead(m))
        return false;
    fake_row row = { reference_to(real), reference_to(fake), face_tensor(real)->storage, 0 };
    if (row.real && row.fake)
        return add(m, row);
    Py_XDECREF(row.real);
    Py_XDECREF(row.fake);
    return false;
}
