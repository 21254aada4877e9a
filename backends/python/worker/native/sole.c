// SPDX-License-Identifier: Apache-2.0
// Counts the answer's own references in a table by object, and compares them with the objects'
// reference counts. Walks the same paths twice: first to count, then to find objects held
// elsewhere.
#include "sole.h"

#include "block.h"
#include "dlpack.h"

#include <stdlib.h>

typedef struct holding {
  PyObject *object;
  uint32_t found; // the answer's own references
  bool is_held;   // another holder has it, or an object above it
} holding;

// Open addressing, never more than half full.
typedef struct sole_table {
  holding *entries;
  size_t room; // a power of two
  size_t count;
  bool is_telling; // the second walk
} sole_table;

static PyTypeObject *array_type;
static PyObject *count_weak; // weakref.getweakrefcount

static holding *find(const sole_table *self, const PyObject *object)
{
  size_t at = ((uintptr_t)object >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
  for (;; at++) {
    holding *entry = &self->entries[at & (self->room - 1)];
    if (entry->object == object || entry->object == NULL)
      return entry;
  }
}

static bool reserve(sole_table *self)
{
  if (self->count * 2 < self->room)
    return true;
  sole_table grown = {.room = self->room == 0 ? 64 : self->room * 2, .count = self->count};
  grown.entries = calloc(grown.room, sizeof(*grown.entries));
  if (grown.entries == NULL)
    return PyErr_NoMemory() != NULL;
  for (size_t i = 0; i < self->room; i++)
    if (self->entries[i].object != NULL)
      *find(&grown, self->entries[i].object) = self->entries[i];
  free(self->entries);
  self->entries = grown.entries;
  self->room = grown.room;
  return true;
}

// CPython's reference count; the stable ABI of 3.14 keeps it in the lower half.
static uint32_t references(PyObject *object)
{
  return (uint32_t)Py_REFCNT(object);
}

// The walk reaches `object` from an object that is held elsewhere or not. `ours`: references that
// the walk itself has now. `*is_new`: the objects below it must be walked too. False with an
// exception set.
static bool reach(sole_table *self, PyObject *object, bool *is_held, uint32_t ours, bool *is_new)
{
  if (!self->is_telling && !reserve(self))
    return false;
  holding *entry = find(self, object);
  *is_new = self->is_telling || entry->object == NULL;
  if (self->is_telling) {
    entry->is_held |= *is_held || references(object) != entry->found + ours;
    *is_held = entry->is_held;
    return true;
  }
  if (entry->object == NULL) {
    entry->object = object;
    self->count++;
  }
  entry->found++;
  return true;
}

// The object that an array is a view of, or the Buffer behind a Buffer taken from this worker's own
// capsule: a new reference; NULL with an exception set. None: there is none, or it is unknown.
static PyObject *below(PyObject *array)
{
  if (Py_TYPE(array) == array_type)
    return PyObject_GetAttr(array, names.base);
  buffer_view view;
  PyObject *found = buffer_get(array, &view) ? dlpack_behind(array) : NULL;
  found = found == NULL ? Py_None : found;
  Py_INCREF(found);
  return found;
}

// Whether the references to the object and to the objects below it are all that can lead to its
// memory.
static bool is_understood(PyObject *array)
{
  buffer_view view;
  if (!buffer_get(array, &view))
    return Py_TYPE(array) == array_type;
  return !view.is_writable || dlpack_behind(array) != NULL; // not a framework's memory
}

// Walks an array, the object that it is a view of, and so on to the owner of the memory. Takes over
// the reference `array`.
static bool reach_array(sole_table *self, PyObject *array, bool is_held)
{
  for (;;) {
    bool is_new;
    PyObject *base = NULL;
    bool is_good = reach(self, array, &is_held, 1, &is_new);
    if (is_good && is_new)
      is_good = (base = below(array)) != NULL;
    Py_DECREF(array);
    if (base == NULL || base == Py_None) {
      Py_XDECREF(base);
      return is_good;
    }
    array = base;
  }
}

// Walks a tensor's array or Buffer, if it has one.
static bool reach_part(sole_table *self, PyObject *tensor, PyObject *name, bool is_held)
{
  PyObject *part = PyObject_GetAttr(tensor, name);
  if (part != NULL && part != Py_None)
    return reach_array(self, part, is_held);
  Py_XDECREF(part);
  return part != NULL;
}

static bool reach_tensors(sole_table *self, PyObject *of, PyObject *name, bool is_held)
{
  PyObject *tensors = PyObject_GetAttr(of, name);
  bool is_new = false, is_good = tensors != NULL && reach(self, tensors, &is_held, 1, &is_new);
  const Py_ssize_t count = is_good && is_new ? PyList_Size(tensors) : 0;
  for (Py_ssize_t i = 0; is_good && i < count; i++) {
    PyObject *tensor = PyList_GetItem(tensors, i);
    bool is_tensor_held = is_held, is_first;
    is_good = reach(self, tensor, &is_tensor_held, 0, &is_first);
    if (!is_good || !is_first)
      continue;
    is_good = reach_part(self, tensor, names._array, is_tensor_held) &&
              reach_part(self, tensor, names._buffer, is_tensor_held);
  }
  Py_XDECREF(tensors);
  return is_good && count >= 0;
}

static bool reach_all(sole_table *self, PyObject *list, PyObject *name)
{
  const Py_ssize_t count = PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *of = PyList_GetItem(list, i);
    bool is_held = false, is_new;
    if (of == Py_None || of == Py_True || of == Py_False)
      continue;
    if (!reach(self, of, &is_held, 0, &is_new) ||
        (is_new && !reach_tensors(self, of, name, is_held)))
      return false;
  }
  return count >= 0;
}

// Whether another holder could reach the array or Buffer, which has been walked: 1, 0, or -1 with
// an exception set. A weak reference counts; memory that no array owns may be held by anything.
static int is_open(const sole_table *self, PyObject *array)
{
  const holding *entry = find(self, array);
  if (entry->object == NULL || entry->is_held || !is_understood(array))
    return 1;
  PyObject *weak = PyObject_CallFunctionObjArgs(count_weak, array, NULL);
  const long count = weak == NULL ? -1 : PyLong_AsLong(weak);
  Py_XDECREF(weak);
  if (count != 0)
    return count < 0 ? -1 : 1;
  PyObject *base = below(array);
  if (base == NULL)
    return -1;
  const int is_base_open = base == Py_None ? 0 : is_open(self, base);
  Py_DECREF(base);
  return is_base_open;
}

// Tensors on devices count, because their place is decided later.
static bool may_be_named(const outgoing_tensor *tensor)
{
  return tensor->is_named || tensor->device >= 0;
}

static bool check(sole_table *self, outgoing *made, PyObject *requests, PyObject *responses)
{
  for (int time = 0; time < 2; time++) {
    self->is_telling = time == 1;
    if (!reach_all(self, responses, names._tensors) || !reach_all(self, requests, names._inputs))
      return false;
    for (size_t i = 0; time == 0 && i < made->count; i++)
      if (made->tensors[i].array != NULL)
        find(self, made->tensors[i].array)->found++; // the collected tensor holds a reference
  }
  for (size_t i = 0; i < made->count; i++) {
    outgoing_tensor *tensor = &made->tensors[i];
    if (!may_be_named(tensor))
      continue;
    const int others = tensor->array == NULL ? 1 : is_open(self, tensor->array);
    if (others < 0)
      return false;
    tensor->is_open = others > 0;
    tensor->is_named &= !tensor->is_open;
  }
  return true;
}

bool sole_check(outgoing *made, PyObject *requests, PyObject *responses)
{
  bool names_any = false;
  for (size_t i = 0; i < made->count; i++)
    names_any |= may_be_named(&made->tensors[i]);
  if (!names_any)
    return true;
  sole_table table = {.entries = NULL};
  const bool is_good = check(&table, made, requests, responses);
  free(table.entries);
  return is_good;
}

// look_into(numpy.ndarray, weakref.getweakrefcount)
static PyObject *look_into(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *type, *count;
  if (!PyArg_ParseTuple(args, "OO", &type, &count))
    return NULL;
  Py_INCREF(type);
  Py_INCREF(count);
  array_type = (PyTypeObject *)type;
  count_weak = count;
  Py_INCREF(Py_None);
  return Py_None;
}

PyMethodDef sole_functions[] = {
    {"look_into", look_into, METH_VARARGS,
     "look_into(numpy.ndarray, weakref.getweakrefcount): what telling who holds an array needs"},
    {NULL, NULL, 0, NULL}};
