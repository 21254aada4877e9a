// SPDX-License-Identifier: Apache-2.0
// The format's structures, and the ownership of capsules that are given and taken.
#include "dlpack.h"

#include "block.h"
#include "device_region.h"
#include "native_device.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// The format's own structures: github.com/dmlc/dlpack, dlpack.h.
typedef struct dl_tensor {
  void *data;
  int32_t device_type;
  int32_t device_id;
  int32_t rank;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides; // NULL: C order
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *self);
} dl_managed;

// Version 1.x, with flags.
typedef struct dl_versioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct dl_versioned *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

#define DEVICE_CPU       1
#define DEVICE_CUDA      2
#define DEVICE_CUDA_HOST 3
#define FLAG_IS_COPIED   2
#define NO_STREAM        (-1) // the consumer needs no synchronization

static const char PLAIN[] = "dltensor", VERSIONED[] = "dltensor_versioned";

// --- Giving a tensor

// One allocation: the structure, its shape, and for a copy the data.
typedef struct given {
  union {
    dl_managed managed;
    dl_versioned versioned;
  };
  bool is_versioned;
  int device;      // -1: the CPU
  PyObject *keeps; // NULL: the data is a copy
  void *copy;
  int64_t shape[MAX_NATIVE_RANK];
} given;

static void delete_given(given *made)
{
  free(made->copy);
  if (made->keeps != NULL) {
    PyGILState_STATE state = PyGILState_Ensure(); // consumers may free on threads of their own
    Py_DECREF(made->keeps);
    PyGILState_Release(state);
  }
  free(made);
}

static void delete_managed(dl_managed *self)
{
  delete_given(self->context);
}

static void delete_versioned(dl_versioned *self)
{
  delete_given(self->context);
}

// A consumer that took the capsule has renamed it, and will call the deleter.
static void free_unused(PyObject *capsule)
{
  if (PyCapsule_IsValid(capsule, PLAIN)) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, PLAIN);
    managed->deleter(managed);
  } else if (PyCapsule_IsValid(capsule, VERSIONED)) {
    dl_versioned *versioned = PyCapsule_GetPointer(capsule, VERSIONED);
    versioned->deleter(versioned);
  }
}

static given *given_new(int rank, bool is_versioned)
{
  given *made = rank > MAX_NATIVE_RANK ? NULL : calloc(1, sizeof(*made));
  if (made == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  made->is_versioned = is_versioned;
  made->device = -1;
  (is_versioned ? &made->versioned.tensor : &made->managed.tensor)->rank = rank;
  return made;
}

static PyObject *give(given *made, unsigned datatype, void *data)
{
  const datatype_row *row = &datatype_rows[datatype];
  dl_tensor *tensor = made->is_versioned ? &made->versioned.tensor : &made->managed.tensor;
  tensor->data = data;
  tensor->device_type = made->device >= 0 ? DEVICE_CUDA : DEVICE_CPU;
  tensor->device_id = made->device >= 0 ? made->device : 0;
  tensor->code = row->dlpack;
  tensor->bits = (uint8_t)(row->size * 8);
  tensor->lanes = 1;
  tensor->shape = made->shape;
  if (made->is_versioned) {
    made->versioned.major = 1;
    made->versioned.flags = made->copy != NULL ? FLAG_IS_COPIED : 0;
    made->versioned.context = made;
    made->versioned.deleter = delete_versioned;
  } else {
    made->managed.context = made;
    made->managed.deleter = delete_managed;
  }
  PyObject *capsule = PyCapsule_New(made, made->is_versioned ? VERSIONED : PLAIN, free_unused);
  if (capsule == NULL)
    delete_given(made);
  return capsule;
}

static PyObject *give_array(PyObject *array, unsigned datatype, bool is_versioned)
{
  const array_struct *described;
  PyObject *keeps = native_array_struct(array, &described);
  if (keeps == NULL)
    return NULL;
  given *made = given_new(described->nd, is_versioned);
  if (made == NULL) {
    Py_DECREF(keeps);
    return NULL;
  }
  made->keeps = keeps;
  for (int i = 0; i < described->nd; i++)
    made->shape[i] = described->shape[i];
  return give(made, datatype, described->data);
}

// Makes the consumer's stream wait for the known work on the tensor.
static PyObject *give_device(given *made, PyObject *from, const buffer_view *view, int64_t stream)
{
  error *e = NULL;
  made->device = view->device;
  made->keeps = from;
  Py_INCREF(from);
  if (view->address == NULL && view->size > 0)
    e = error_new(ERROR_UNAVAILABLE, "the tensor cannot be reached: %s", device_why(view->device));
  else if (view->is_writable && stream != NO_STREAM) // foreign; the server's are complete
    e = device_order(view->device, stream);
  if (e != NULL) {
    delete_given(made);
    device_raise(e);
    return NULL;
  }
  buffer_lend_device(from);
  return give(made, view->datatype, view->address);
}

// The server's memory on the CPU is read-only, which a capsule of version 0 cannot say: consumers
// get a copy that they may change.
static PyObject *give_buffer(PyObject *from, const buffer_view *view, bool is_versioned,
                             int64_t stream)
{
  given *made = given_new((int)view->rank, is_versioned);
  if (made == NULL)
    return NULL;
  for (unsigned i = 0; i < view->rank; i++)
    made->shape[i] = view->shape[i];
  if (view->device >= 0)
    return give_device(made, from, view, stream);
  if (view->is_writable) {
    Py_INCREF(from);
    made->keeps = from;
    return give(made, view->datatype, view->address);
  }
  if (posix_memalign(&made->copy, 64, view->size == 0 ? 64 : view->size) != 0) {
    made->copy = NULL;
    delete_given(made);
    return PyErr_NoMemory();
  }
  memcpy(made->copy, view->address, view->size);
  return give(made, view->datatype, made->copy);
}

static PyObject *to_dlpack(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *from;
  unsigned datatype;
  int is_versioned;
  long long stream;
  if (!PyArg_ParseTuple(args, "OIpL", &from, &datatype, &is_versioned, &stream))
    return NULL;
  buffer_view view;
  return buffer_get(from, &view) ? give_buffer(from, &view, is_versioned != 0, stream)
                                 : give_array(from, datatype, is_versioned != 0);
}

// --- Taking one

static void release_managed(void *owner)
{
  dl_managed *managed = owner;
  if (managed->deleter != NULL)
    managed->deleter(managed);
}

static void release_versioned(void *owner)
{
  dl_versioned *versioned = owner;
  if (versioned->deleter != NULL)
    versioned->deleter(versioned);
}

PyObject *dlpack_behind(PyObject *buffer)
{
  const dl_managed *managed = buffer_owner(buffer, release_managed);
  if (managed != NULL)
    return managed->deleter == delete_managed ? ((given *)managed->context)->keeps : NULL;
  const dl_versioned *versioned = buffer_owner(buffer, release_versioned);
  if (versioned != NULL)
    return versioned->deleter == delete_versioned ? ((given *)versioned->context)->keeps : NULL;
  return NULL;
}

static unsigned datatype_of(const dl_tensor *tensor)
{
  for (unsigned i = 1; tensor->lanes == 1 && i < DATATYPE_COUNT; i++)
    if (datatype_rows[i].size != 0 && datatype_rows[i].dlpack == tensor->code &&
        datatype_rows[i].size * 8 == tensor->bits)
      return i;
  return 0;
}

#define ADDRESS_BITS 47 // of a process's addresses

// False: larger than any memory.
static bool size_of(const dl_tensor *tensor, unsigned datatype, size_t *size)
{
  *size = datatype_rows[datatype].size;
  for (int32_t i = 0; i < tensor->rank; i++)
    if (tensor->shape[i] < 0 || __builtin_mul_overflow(*size, (size_t)tensor->shape[i], size))
      return false;
  return *size >> ADDRESS_BITS == 0;
}

// A tensor without elements is contiguous, whatever its strides: NumPy's are 0 after a mask.
static bool is_contiguous(const dl_tensor *tensor)
{
  for (int32_t i = 0; i < tensor->rank; i++)
    if (tensor->shape[i] == 0)
      return true;
  int64_t stride = 1;
  for (int32_t i = tensor->rank; tensor->strides != NULL && i-- > 0;) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
      return false;
    if (__builtin_mul_overflow(stride, tensor->shape[i], &stride))
      return false;
  }
  return true;
}

// Checks the tensor. False with an exception set.
static bool check_taken(const dl_tensor *tensor, unsigned datatype)
{
  size_t size = 0;
  if (tensor->device_type != DEVICE_CPU && tensor->device_type != DEVICE_CUDA_HOST &&
      tensor->device_type != DEVICE_CUDA)
    PyErr_Format(classes.exception, "DLDevice type %d is not support by Python backend.",
                 (int)tensor->device_type);
  else if (tensor->device_type == DEVICE_CUDA &&
           (tensor->device_id < 0 || tensor->device_id >= MAX_GPUS))
    PyErr_Format(classes.exception, "DLPack tensor is on GPU %d, which is not there.",
                 (int)tensor->device_id);
  else if (tensor->rank < 0 || tensor->rank > MAX_NATIVE_RANK)
    PyErr_Format(classes.exception, "DLPack tensor has %d dimensions, at most %d are possible.",
                 (int)tensor->rank, MAX_NATIVE_RANK);
  else if (tensor->rank > 0 && tensor->shape == NULL)
    PyErr_Format(classes.exception, "DLPack tensor of %d dimensions has no shape.",
                 (int)tensor->rank);
  else if (!is_contiguous(tensor))
    PyErr_Format(classes.exception, "DLPack tensor is not contiguous. Only contiguous DLPack "
                                    "tensors that are stored in C-Order are supported.");
  else if (datatype == 0)
    PyErr_Format(classes.exception, "DLPack data type (code %d, %d bits) is not supported.",
                 (int)tensor->code, (int)tensor->bits);
  else if (!size_of(tensor, datatype, &size))
    PyErr_Format(classes.exception, "DLPack tensor has a shape that is not possible.");
  else if (size > 0 && tensor->data == NULL)
    PyErr_Format(classes.exception, "DLPack tensor of %zu bytes has no data.", size);
  else
    return true;
  return false;
}

// Returns (datatype, shape, Buffer).
static PyObject *take(const dl_tensor *tensor, unsigned datatype, void (*release)(void *),
                      void *owner)
{
  size_t size;
  const bool is_possible = size_of(tensor, datatype, &size);
  assert(is_possible);
  (void)is_possible;
  PyObject *shape = PyTuple_New(tensor->rank);
  for (int32_t i = 0; shape != NULL && i < tensor->rank; i++)
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(tensor->shape[i]));
  PyObject *buffer =
      shape == NULL
          ? NULL
          : buffer_new_foreign((uint8_t *)tensor->data + tensor->byte_offset,
                               tensor->device_type == DEVICE_CUDA ? tensor->device_id : -1, size,
                               datatype, (unsigned)tensor->rank, tensor->shape, release, owner);
  if (buffer != NULL)
    return Py_BuildValue("(INN)", datatype, shape, buffer);
  Py_XDECREF(shape);
  return NULL;
}

// from_dlpack(capsule, is_ordered): (datatype, shape, Buffer). If not ordered, waits for the
// device, because it is unknown when the data is ready.
static PyObject *from_dlpack(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *capsule;
  int is_ordered;
  if (!PyArg_ParseTuple(args, "Op", &capsule, &is_ordered))
    return NULL;
  const bool is_versioned = PyCapsule_IsValid(capsule, VERSIONED) != 0;
  void *found = PyCapsule_GetPointer(capsule, is_versioned ? VERSIONED : PLAIN);
  if (found == NULL)
    return NULL;
  const dl_versioned *versioned = found;
  if (is_versioned && versioned->major != 1)
    return PyErr_Format(classes.exception, "DLPack of version %u.%u is not known, 1.x is.",
                        versioned->major, versioned->minor);
  const dl_tensor *tensor = is_versioned ? &versioned->tensor : &((dl_managed *)found)->tensor;
  const unsigned datatype = datatype_of(tensor);
  if (!check_taken(tensor, datatype))
    return NULL;
  error *e = tensor->device_type == DEVICE_CUDA && !is_ordered
                 ? device_synchronize(tensor->device_id)
                 : NULL;
  if (e != NULL) {
    device_raise(e);
    return NULL;
  }
  PyObject *taken =
      take(tensor, datatype, is_versioned ? release_versioned : release_managed, found);
  if (taken != NULL)
    PyCapsule_SetName(capsule, is_versioned ? "used_dltensor_versioned" : "used_dltensor");
  return taken;
}

PyMethodDef dlpack_functions[] = {
    {"to_dlpack", to_dlpack, METH_VARARGS,
     "to_dlpack(array or Buffer, datatype, is_versioned, stream): a capsule"},
    {"from_dlpack", from_dlpack, METH_VARARGS,
     "from_dlpack(capsule, is_ordered): (datatype, shape, Buffer)"},
    {NULL, NULL, 0, NULL}};
