// SPDX-License-Identifier: Apache-2.0
// Counts references to blocks, and tells the host when a block has none left.
#include "block.h"

#include "fork.h"
#include "native_device.h"
#include "writable.h"

#include <stdlib.h>
#include <string.h>

struct block {
  uint64_t offset;
  size_t count;
  uint64_t lent_devices; // one bit per device whose memory other libraries were given
  struct block *next;    // list of blocks whose release waits for room in the ring
};

static block *waiting;

block *block_new(uint64_t offset)
{
  block *made = malloc(sizeof(*made));
  if (made != NULL)
    *made = (block){.offset = offset, .count = 1};
  return made;
}

static void block_ref(block *self)
{
  self->count++;
}

static bool tell_host(const block *self)
{
  channel_message message = {.kind = CALL_RELEASE, .value = self->offset};
  return channel_try_send(native_channel, CHANNEL_CALLS, &message);
}

void block_flush(void)
{
  while (waiting != NULL && tell_host(waiting)) {
    block *sent = waiting;
    waiting = sent->next;
    free(sent);
  }
}

// Waits for devices, because other libraries' work may still read the memory. Without the GIL.
static void await_devices(block *self)
{
  const uint64_t lent = self->lent_devices;
  self->lent_devices = 0;
  for (int device = 0; device < MAX_GPUS && lent >> device != 0; device++)
    if ((lent >> device & 1) != 0)
      error_free(device_synchronize(device)); // device_fault reports faults
}

void block_unref(block *self)
{
  if (self->count == 1 && self->lent_devices != 0)
    await_devices(self);
  if (--self->count > 0)
    return;
  self->next = waiting;
  waiting = self;
  block_flush();
}

bool block_unref_silently(block *self)
{
  if (self->count == 1 && self->lent_devices != 0)
    await_devices(self);
  if (--self->count > 0)
    return false;
  free(self);
  return true;
}

// --- Buffer

typedef struct buffer {
  PyObject_VAR_HEAD block *in; // NULL: foreign memory
  void (*release)(void *);     // frees foreign memory
  void *owner;
  int device;       // -1: the CPU
  fork_piece piece; // for a tensor in a block
  void *writable;   // a writable view of the same tensor; NULL: not requested, or not possible
  fork_piece writable_piece;
  void *address;
  size_t size;
  unsigned datatype;
  unsigned rank;
  Py_intptr_t sizes[]; // shape[rank], then strides[rank]
} buffer;

static PyTypeObject *type;

static buffer *make(void *address, size_t size, unsigned datatype, unsigned rank,
                    const int64_t *dims)
{
  buffer *made = (buffer *)PyType_GenericAlloc(type, 2 * (Py_ssize_t)rank);
  if (made == NULL)
    return NULL;
  made->device = -1;
  made->address = address;
  made->size = size;
  made->datatype = datatype;
  made->rank = rank;
  Py_intptr_t stride = datatype_rows[datatype].size;
  for (unsigned i = rank; i-- > 0;) {
    made->sizes[i] = (Py_intptr_t)dims[i];
    made->sizes[rank + i] = stride;
    stride = (Py_intptr_t)((size_t)stride * (size_t)dims[i]); // irrelevant when a dimension is 0
  }
  return made;
}

PyObject *buffer_new(block *in, const void *address, size_t size, unsigned datatype, unsigned rank,
                     const int64_t *dims)
{
  buffer *made = make((void *)(uintptr_t)address, size, datatype, rank, dims);
  if (made != NULL && in != NULL) {
    made->in = in;
    block_ref(in);
    fork_track(&made->piece, made->address, size);
  }
  return (PyObject *)made;
}

PyObject *buffer_new_on_device(block *in, int device, void *address, size_t size, unsigned datatype,
                               unsigned rank, const int64_t *dims)
{
  buffer *made = make(address, size, datatype, rank, dims);
  if (made != NULL) {
    made->device = device;
    made->in = in;
    block_ref(in);
  }
  return (PyObject *)made;
}

void buffer_lend_device(PyObject *object)
{
  buffer *self = (buffer *)object;
  if (self->in != NULL)
    self->in->lent_devices |= UINT64_C(1) << self->device;
}

PyObject *buffer_new_foreign(void *address, int device, size_t size, unsigned datatype,
                             unsigned rank, const int64_t *dims, void (*release)(void *),
                             void *owner)
{
  buffer *made = make(address, size, datatype, rank, dims);
  if (made != NULL) {
    made->device = device;
    made->release = release;
    made->owner = owner;
  }
  return (PyObject *)made;
}

void *buffer_owner(PyObject *object, void (*release)(void *))
{
  const buffer *self = (buffer *)object;
  return self->release == release ? self->owner : NULL;
}

bool buffer_get(PyObject *object, buffer_view *view)
{
  if (Py_TYPE(object) != type)
    return false;
  const buffer *self = (buffer *)object;
  *view = (buffer_view){self->address,         self->size,   self->datatype, self->rank,
                        self->release != NULL, self->device, self->sizes};
  return true;
}

static void buffer_free(PyObject *object)
{
  buffer *self = (buffer *)object;
  if (self->writable != NULL) {
    fork_untrack(&self->writable_piece);
    writable_give_back(self->writable, self->size);
  }
  if (self->in != NULL && self->device < 0)
    fork_untrack(&self->piece);
  if (self->in != NULL)
    block_unref(self->in);
  if (self->release != NULL)
    self->release(self->owner);
  freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
  give_back(object);
  Py_DECREF((PyObject *)type);
}

static void array_struct_free(PyObject *capsule)
{
  free(PyCapsule_GetPointer(capsule, NULL));
  Py_DECREF((PyObject *)PyCapsule_GetContext(capsule));
}

// The address for NumPy, and whether NumPy may write there.
static void *array_address(buffer *self, bool *may_write)
{
  if (self->in != NULL && self->writable == NULL) {
    self->writable = writable_take(self->address, self->size);
    if (self->writable != NULL)
      fork_track(&self->writable_piece, self->writable, self->size);
  }
  *may_write = self->in == NULL || self->writable != NULL;
  return self->writable != NULL ? self->writable : self->address;
}

// The capsule keeps this Buffer, and NumPy takes the capsule as the array's base.
static PyObject *buffer_array_struct(PyObject *object, void *closure)
{
  (void)closure;
  buffer *self = (buffer *)object;
  const datatype_row *row = &datatype_rows[self->datatype];
  if (row->kind == 0 || row->size == 0 || self->device >= 0) {
    PyErr_Format(PyExc_AttributeError, "a tensor of %s is no plain array", row->name);
    return NULL;
  }
  array_struct *given = malloc(sizeof(*given));
  if (given == NULL)
    return PyErr_NoMemory();
  int flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_NOTSWAPPED;
  bool may_write;
  void *address = array_address(self, &may_write);
  if ((uintptr_t)address % row->size != 0)
    flags &= ~ARRAY_ALIGNED;
  *given = (array_struct){.two = 2,
                          .nd = (int)self->rank,
                          .typekind = row->kind,
                          .itemsize = row->size,
                          .flags = flags | (may_write ? ARRAY_WRITEABLE : 0),
                          .shape = self->sizes,
                          .strides = self->sizes + self->rank,
                          .data = address};
  PyObject *capsule = PyCapsule_New(given, NULL, array_struct_free);
  if (capsule == NULL) {
    free(given);
    return NULL;
  }
  Py_INCREF(object);
  PyCapsule_SetContext(capsule, object);
  return capsule;
}

static PyObject *buffer_device(PyObject *object, void *closure)
{
  (void)closure;
  return PyLong_FromLong(((buffer *)object)->device);
}

static PyGetSetDef getters[] = {
    {"device", buffer_device, NULL, "The device that it is on; -1: the CPU can read it.", NULL},
    {"__array_struct__", buffer_array_struct, NULL, "NumPy's array interface.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

PyObject *buffer_type(void)
{
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, (void *)buffer_free}, {Py_tp_getset, getters}, {0, NULL}};
  static PyType_Spec spec = {"_nereid.Buffer", sizeof(buffer), sizeof(Py_intptr_t),
                             Py_TPFLAGS_DEFAULT, slots};
  type = (PyTypeObject *)PyType_FromSpec(&spec);
  return (PyObject *)type;
}
