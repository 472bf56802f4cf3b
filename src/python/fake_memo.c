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
static PyObject *alive(const fake_row *r, PyObject *reference)
{
    PyObject *o = r->held ? reference : PyWeakref_GET_OBJECT(reference);
    return o == Py_None ? NULL : o;
}

PyObject *fake_memo_get(const fake_memo *m, PyObject *real)
{
    uint64_t at;
    if (!tp_map_get(&m->of_tensor, (uint64_t)(uintptr_t)real, &at))
        return NULL;
    const fake_row *r = &m->rows.item[at];
    return alive(r, r->real) == real ? alive(r, r->fake) : NULL;
}

PyObject *fake_memo_beside(const fake_memo *m, PyObject *real)
{
    const tp_storage *storage = face_tensor(real)->storage;
    uint64_t at;
    if (!tp_map_get(&m->of_storage, (uint64_t)(uintptr_t)storage, &at))
        return NULL;
    for (uint64_t i = at + 1; i; i = m->rows.item[i - 1].same) {
        const fake_row *r = &m->rows.item[i - 1];
        PyObject *sharer = alive(r, r->real), *fake = alive(r, r->fake);
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
    PyObject *real = alive(&row, row.real);
    row.same = tp_map_get(&m->of_storage, (uint64_t)(uintptr_t)row.storage, &before) ? (uint32_t)before + 1 : 0;
    if (tp_map_put(&m->of_tensor, (uint64_t)(uintptr_t)real, m->rows.count) &&
        tp_map_put(&m->of_storage, (uint64_t)(uintptr_t)row.storage, m->rows.count) && tp_array_push(&m->rows, row)) {
        m->held += row.held;
        return true;
    }
    tp_map_remove(&m->of_tensor, (uint64_t)(uintptr_t)real);
    tp_map_remove(&m->of_storage, (uint64_t)(uintptr_t)row.storage);
    row_fini(&row);
    return face_raise() != NULL;
}

/* Keeps the living, of those held only if asked to. */
static bool sift(fake_memo *m, bool keep_held)
{
    fake_memo old = *m;
    bool ok = true;
    *m = (fake_memo){ 0 };
    for (size_t i = 0; i < old.rows.count; i++) {
        fake_row *r = &old.rows.item[i];
        if (ok && alive(r, r->real) && alive(r, r->fake) && (keep_held || !r->held))
            ok = add(m, *r);
        else
            row_fini(r);
    }
    old.rows.count = 0;
    fake_memo_fini(&old);
    m->live = m->rows.count;
    return ok;
}

bool fake_memo_reserve(fake_memo *m, size_t count)
{
    return (tp_map_reserve(&m->of_tensor, count) && tp_map_reserve(&m->of_storage, count) && tp_array_reserve(&m->rows, m->rows.count + count)) ||
           face_raise();
}

bool fake_memo_let_go(fake_memo *m)
{
    return !m->held || sift(m, false);
}

/* A weak reference without a callback refers to nothing that the collector could free, yet is tracked: two for each input made the
 * collector look through all modules of a program. */
static PyObject *reference_to(PyObject *o)
{
    PyObject *reference = PyWeakref_NewRef(o, NULL);
    if (reference)
        PyObject_GC_UnTrack(reference);
    return reference;
}

bool fake_memo_put(fake_memo *m, PyObject *real, PyObject *fake, bool held)
{
    if (m->rows.count >= FEW_ROWS && m->rows.count >= 2 * m->live + m->held && !sift(m, true))
        return false;
    fake_row row = { .storage = face_tensor(real)->storage, .held = held };
    row.real = held ? Py_NewRef(real) : reference_to(real);
    row.fake = held ? Py_NewRef(fake) : reference_to(fake);
    if (row.real && row.fake)
        return add(m, row);
    Py_XDECREF(row.real);
    Py_XDECREF(row.fake);
    return false;
}
