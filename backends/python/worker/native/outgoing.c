// SPDX-License-Identifier: Apache-2.0
// Collects tensors, then puts control part and data into one block.
#include "outgoing.h"

#include "block.h"
#include "bytes_coding.h"
#include "device_region.h"
#include "native_device.h"

#include <stdlib.h>
#include <string.h>

#define GIL_WORTH   (256 << 10) // bytes: longer copies release the GIL
#define NAMED_LEAST (16 << 10)  // bytes: smaller arrays are cheaper to copy than to check (sole.h)

void outgoing_clear(outgoing *self)
{
  for (size_t i = 0; i < self->count; i++) {
    Py_XDECREF(self->tensors[i].name);
    Py_XDECREF(self->tensors[i].keeps);
    Py_XDECREF(self->tensors[i].items);
    Py_XDECREF(self->tensors[i].range);
  }
  free(self->tensors);
  self->tensors = NULL;
  self->count = self->room = 0;
}

static outgoing_tensor *next_tensor(outgoing *self)
{
  if (self->count == self->room) {
    size_t room = self->room == 0 ? 4 : self->room * 2;
    outgoing_tensor *grown = reallocarray(self->tensors, room, sizeof(*grown));
    if (grown == NULL) {
      PyErr_NoMemory();
      return NULL;
    }
    self->tensors = grown;
    self->room = room;
  }
  outgoing_tensor *added = &self->tensors[self->count++];
  memset(added, 0, offsetof(outgoing_tensor, dims));
  added->device = -1;
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
  tensor->device = view->size > 0 ? view->device : -1;
  if (tensor->device >= 0 && view->address == NULL)
    return PyErr_Format(classes.exception, "tensor '%s': %s", PyBytes_AsString(tensor->name),
                        device_why(view->device)) != NULL;
  return set_shape(tensor, view->rank, view->shape);
}

// False also when the array's dtype was changed after the tensor was made.
static bool has_datatype(const array_struct *described, unsigned datatype)
{
  return datatype != 0 && datatype < DATATYPE_COUNT && datatype != DATATYPE_BYTES &&
         described->typekind == datatype_rows[datatype].kind &&
         described->itemsize == datatype_rows[datatype].size &&
         (described->flags & ARRAY_NOTSWAPPED) != 0;
}

// The elements of a BYTES tensor, taken when it was made.
static bool from_elements(outgoing_tensor *tensor, PyObject *object, PyObject *items)
{
  PyObject *shape = PyObject_GetAttr(object, names._shape);
  const Py_ssize_t rank = shape == NULL ? -1 : PyTuple_Size(shape);
  Py_intptr_t dims[MAX_NATIVE_RANK];
  for (Py_ssize_t i = 0; i < rank && i < MAX_NATIVE_RANK; i++)
    dims[i] = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
  Py_XDECREF(shape);
  if (rank < 0 || !set_shape(tensor, (unsigned)rank, dims))
    return false;
  Py_INCREF(items);
  tensor->items = items;
  tensor->size = bytes_encoded_size(items);
  return true;
}

static bool from_array(outgoing_tensor *tensor, PyObject *array)
{
  const array_struct *described;
  tensor->keeps = native_array_struct(array, &described);
  if (tensor->keeps == NULL)
    return false;
  tensor->array = array;
  if ((described->flags & ARRAY_C_CONTIGUOUS) == 0) {
    PyErr_SetString(PyExc_ValueError, "the tensor's array is no longer contiguous");
    return false;
  }
  if (!has_datatype(described, tensor->datatype)) {
    PyErr_SetString(PyExc_ValueError, "the tensor's array is no longer of the tensor's datatype");
    return false;
  }
  if (!set_shape(tensor, (unsigned)described->nd, described->shape))
    return false;
  size_t count = 1;
  for (unsigned i = 0; i < tensor->rank; i++)
    count *= (size_t)tensor->dims[i];
  tensor->data = described->data;
  tensor->size = count * (size_t)described->itemsize;
  return true;
}

// The name as bytes. NULL with an exception set when the server would refuse it.
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
    tensor->array = tensor->device >= 0 ? from : NULL;
  } else if (PyTuple_Check(from)) {
    is_good = from_elements(tensor, object, from);
  } else {
    PyObject *array = PyObject_GetAttr(object, names._array);
    is_good = array != NULL && from_array(tensor, array);
    Py_XDECREF(array);
  }
  if (is_good && tensor->items == NULL && tensor->size >= NAMED_LEAST && tensor->device < 0)
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
  wire_put_u32(writer, tensor->datatype | (uint32_t)(tensor->moves ? 0 : tensor->device + 1)
                                              << PROTOCOL_DEVICE_SHIFT);
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
    if (!tensor->is_named && !tensor->moves && tensor->items == NULL && tensor->size > 0)
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

// ---- tensors on devices

// A range that this worker took.
typedef struct taken {
  int device;
  void *address;
} taken;

static void give_range_back(void *owner)
{
  const taken *self = owner;
  device_give_back(self->device, self->address);
  free(owner);
}

static PyObject *keep_range(const outgoing_tensor *tensor, void *address)
{
  taken *made = malloc(sizeof(*made));
  if (made == NULL) {
    device_give_back(tensor->device, address);
    return PyErr_NoMemory();
  }
  *made = (taken){.device = tensor->device, .address = address};
  PyObject *range = buffer_new_foreign(address, tensor->device, tensor->size, tensor->datatype, 0,
                                       NULL, give_range_back, made);
  if (range == NULL)
    give_range_back(made);
  return range;
}

static bool copy_on_device(const outgoing_tensor *tensor, void *to, gpu_memory_kind kind)
{
  char what[MAX_PROTOCOL_NAME + 16];
  const gpu_place from = {.kind = GPU_MEMORY_DEVICE, .device = tensor->device};
  snprintf(what, sizeof(what), "tensor '%s'", PyBytes_AsString(tensor->name));
  error *e = device_copy(tensor->device, to, (gpu_place){.kind = kind, .device = tensor->device},
                         tensor->data, from, tensor->size, what);
  if (e != NULL)
    device_raise(e);
  return e == NULL;
}

// Copies the tensor into the region, unless it is there already, or marks it to move to the CPU.
// The device may still be copying afterwards.
static bool place_on_device(outgoing_tensor *tensor)
{
  error *e;
  if (!tensor->is_open && device_is_shared(tensor->device, tensor->data, &tensor->offset)) {
    tensor->is_named = true;
    if ((e = device_follow(tensor->device)) != NULL)
      device_raise(e);
    return e == NULL;
  }
  void *address = device_take(tensor->device, tensor->size);
  tensor->moves = address == NULL;
  if (tensor->moves)
    return true;
  tensor->range = keep_range(tensor, address);
  tensor->is_named =
      tensor->range != NULL && device_is_shared(tensor->device, address, &tensor->offset);
  return tensor->is_named && copy_on_device(tensor, address, GPU_MEMORY_DEVICE);
}

// Waits for the copies of all tensors. The error names the first tensor of the failed device, some
// of whose copies may have succeeded.
static bool await_devices(const outgoing *self)
{
  error *failure = NULL;
  uint64_t awaited = 0;
  for (size_t i = 0; i < self->count; i++) {
    const outgoing_tensor *tensor = &self->tensors[i];
    if (tensor->device < 0 || (awaited >> tensor->device & 1) != 0)
      continue;
    awaited |= UINT64_C(1) << tensor->device;
    error *e = device_await(tensor->device);
    if (failure == NULL && e != NULL)
      failure = error_wrap(e, "tensor '%s'", PyBytes_AsString(tensor->name));
    else
      error_free(e);
  }
  if (failure != NULL && !PyErr_Occurred())
    device_raise(failure);
  else
    error_free(failure);
  return failure == NULL;
}

static bool place_all(outgoing *self)
{
  bool is_good = true;
  self->is_on_device = false;
  for (size_t i = 0; is_good && i < self->count; i++)
    if (self->tensors[i].device >= 0) {
      is_good = place_on_device(&self->tensors[i]);
      self->is_on_device = true;
    }
  if (!self->is_on_device)
    return true;
  is_good &= await_devices(self); // also after an error, because the destinations are freed
  for (size_t i = 0; i < self->count; i++) {
    outgoing_tensor *tensor = &self->tensors[i];
    if (!is_good || tensor->range == NULL)
      continue;
    Py_DECREF(tensor->keeps);
    tensor->keeps = tensor->range;
    tensor->range = NULL;
  }
  return is_good;
}

static bool move_to_cpu(const outgoing *self)
{
  bool is_good = true, moves = false;
  for (size_t i = 0; is_good && i < self->count; i++) {
    const outgoing_tensor *tensor = &self->tensors[i];
    if (!tensor->moves)
      continue;
    moves = true;
    is_good = copy_on_device(tensor, channel_own(native_channel, tensor->offset), GPU_MEMORY_HOST);
  }
  return !moves || (await_devices(self) && is_good);
}

// Puts the arrays that the message names into a list for the loan.
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
  if (!place_all(self))
    return false;
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
  return !self->is_on_device || move_to_cpu(self);
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
