// Collects tensors, then puts control part and data into one block.
#include "outgoing.h"

#include "block.h"
#include "bytes_coding.h"

#include <stdlib.h>
#include <string.h>

enum {
  GIL_WORTH = 256 << 10 // bytes: copies longer than this let other threads run
};

void outgoing_clear(outgoing *self)
{
  for (size_t i = 0; i < self->count; i++) {
    Py_XDECREF(self->tensors[i].name);
    Py_XDECREF(self->tensors[i].keeps);
    Py_XDECREF(self->tensors[i].items);
  }
  free(self->tensors);
  self->tensors = NULL;
  self->count = self->room = 0;
}

static outgoing_tensor *next_tensor(outgoing *self)
{
  if (self->count == self->room) {
    size_t room = self->room == 0 ? 4 : self->room * 2;
    outgoing_tensor *grown = reallocarray(self->tensors, room, sizeof *grown);
    if (grown == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    self->tensors = grown;
    self->room = room;
  }
  outgoing_tensor *added = &self->tensors[self->count++];
  memset(added, 0, offsetof(outgoing_tensor, dims));
  return added;
}

static bool set_shape(outgoing_tensor *tensor, unsigned rank, const Py_intptr_t *shape)
{
  if (rank > MAX_NATIVE_RANK) {
    PyErr_Format(PyExc_ValueError, "a tensor has at most %d dimensions, not %u", MAX_NATIVE_RANK,
                 rank);
    return false;
  }
  tensor->rank = rank;
  for (unsigned i = 0; i < rank; i++)
    tensor->dims[i] = shape[i];
  return true;
}

static bool from_buffer(outgoing_tensor *tensor, const buffer_view *view)
{
  tensor->data = view->address;
  tensor->size = view->size;
  return set_shape(tensor, view->rank, view->shape);
}

static bool from_array(outgoing_tensor *tensor, PyObject *array)
{
  const array_struct *described;
  tensor->keeps = native_array_struct(array, &described);
  if (tensor->keeps == NULL)
    return false;
  if ((described->flags & ARRAY_C_CONTIGUOUS) == 0) {
    PyErr_SetString(PyExc_ValueError, "the tensor's array is no longer contiguous");
    return false;
  }
  if (!set_shape(tensor, (unsigned)described->nd, described->shape))
    return false;
  size_t count = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    count *= (size_t)tensor->dims[i];
  if (tensor->datatype == DATATYPE_BYTES) {
    tensor->items = bytes_items(described->data, count, &tensor->size);
    return tensor->items != NULL;
  }
  tensor->data = described->data;
  tensor->size = count * (size_t)described->itemsize;
  return true;
}

// The name as bytes; NULL with an exception when the server would refuse it.
static PyObject *name_bytes(PyObject *name)
{
  PyObject *bytes = native_utf8(name);
  if (bytes == NULL)
    return NULL;
  size_t length = (size_t)PyBytes_Size(bytes);
  if (length <= MAX_PROTOCOL_NAME && memchr(PyBytes_AsString(bytes), '\0', length) == NULL)
    return bytes;
  Py_DECREF(bytes);
  PyErr_Format(PyExc_ValueError, "a tensor's name has at most %d bytes and no NUL: %.100R of %zu",
               MAX_PROTOCOL_NAME, name, length);
  return NULL;
}

bool outgoing_add(outgoing *self, PyObject *object)
{
  outgoing_tensor *tensor = next_tensor(self);
  if (tensor == NULL)
    return false;
  uint64_t datatype;
  PyObject *name = PyObject_GetAttr(object, names._name);
  PyObject *from = PyObject_GetAttr(object, names._buffer);
  bool is_good = false;
  if (name == NULL || from == NULL || native_get_u64(object, names._dtype, &datatype) != 0)
    goto done;
  tensor->datatype = (unsigned)datatype;
  tensor->name = name_bytes(name);
  if (tensor->name == NULL)
    goto done;
  buffer_view view;
  if (buffer_get(from, &view)) {
    tensor->keeps = from;
    Py_INCREF(from);
    is_good = from_buffer(tensor, &view);
  } else {
    PyObject *array = PyObject_GetAttr(object, names._array);
    is_good = array != NULL && from_array(tensor, array);
    Py_XDECREF(array);
  }
  if (is_good && tensor->items == NULL && tensor->size > 0)
    tensor->is_named = channel_is_own(native_channel, tensor->data, &tensor->offset);
done:
  Py_XDECREF(name);
  Py_XDECREF(from);
  return is_good;
}

static void put_bytes(wire_writer *writer, PyObject *bytes)
{
  wire_put_text(writer, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
}

void outgoing_put_tensor(wire_writer *writer, const outgoing_tensor *tensor)
{
  put_bytes(writer, tensor->name);
  wire_put_u32(writer, tensor->datatype);
  wire_put_u32(writer, tensor->rank);
  for (unsigned i = 0; i < tensor->rank; i++)
    wire_put_i64(writer, tensor->dims[i]);
  wire_put_u64(writer, tensor->offset);
  wire_put_u64(writer, tensor->size);
}

static void copy_plain(const outgoing *self)
{
  for (size_t i = 0; i < self->count; i++) {
    const outgoing_tensor *tensor = &self->tensors[i];
    if (!tensor->is_named && tensor->items == NULL && tensor->size > 0)
      memcpy(channel_own(native_channel, tensor->offset), tensor->data, tensor->size);
  }
}

static void copy_all(const outgoing *self, size_t total)
{
  if (total > GIL_WORTH) {
    Py_BEGIN_ALLOW_THREADS copy_plain(self);
    Py_END_ALLOW_THREADS
  } else {
    copy_plain(self);
  }
  for (size_t i = 0; i < self->count; i++) {
    const outgoing_tensor *tensor = &self->tensors[i];
    if (tensor->items != NULL && tensor->size > 0)
      bytes_encode(tensor->items, channel_own(native_channel, tensor->offset));
  }
}

// The arrays that the message names, in a list, are the loan's.
static bool keep_named(outgoing *self)
{
  for (size_t i = 0; i < self->count; i++) {
    outgoing_tensor *tensor = &self->tensors[i];
    if (!tensor->is_named)
      continue;
    if (self->loan.keeps == NULL && (self->loan.keeps = PyList_New(0)) == NULL)
      return false;
    if (PyList_Append(self->loan.keeps, tensor->keeps) != 0)
      return false;
    self->names_arrays = true;
  }
  return true;
}

static bool make(outgoing *self, void (*put)(wire_writer *, const outgoing *, const void *),
                 const void *context)
{
  wire_writer counting = {.to = NULL};
  put(&counting, self, context);
  if (counting.size > MAX_PROTOCOL_CONTROL) {
    PyErr_SetString(PyExc_ValueError, "names and texts of a message are too long");
    return false;
  }
  self->control_size = counting.size;
  size_t total = channel_aligned(counting.size);
  for (size_t i = 0; i < self->count; i++)
    if (!self->tensors[i].is_named)
      total += channel_aligned(self->tensors[i].size);
  if (!keep_named(self) || !region_allocate(total, &self->loan.offset))
    return false;
  uint64_t at = self->loan.offset + channel_aligned(counting.size);
  for (size_t i = 0; i < self->count; i++) {
    if (self->tensors[i].is_named)
      continue;
    self->tensors[i].offset = at;
    at += channel_aligned(self->tensors[i].size);
  }
  wire_writer writer = {.to = channel_own(native_channel, self->loan.offset),
                        .room = counting.size};
  put(&writer, self, context);
  copy_all(self, total);
  return true;
}

bool outgoing_make(outgoing *self, void (*put)(wire_writer *, const outgoing *, const void *),
                   const void *context)
{
  self->loan = (region_loan){.offset = UINT64_MAX};
  bool is_made = make(self, put, context);
  outgoing_clear(self);
  if (!is_made) {
    region_end_loan(self->loan);
    self->loan = (region_loan){.offset = UINT64_MAX};
  }
  return is_made;
}
