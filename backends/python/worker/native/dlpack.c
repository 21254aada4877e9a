// The format's structures, and who frees what: capsules that are given, and capsules that are
// taken.
#include "dlpack.h"

#include "block.h"

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

enum {
  DEVICE_CPU = 1,
  DEVICE_CUDA_HOST = 3
};

// --- Giving a tensor

// One allocation: the structure, its shape, and for a copy the data.
typedef struct given {
  dl_managed managed;
  PyObject *keeps; // NULL: the data is a copy
  void *copy;
  int64_t shape[MAX_NATIVE_RANK];
} given;

static void delete_given(dl_managed *self)
{
  given *made = self->context;
  free(made->copy);
  if (made->keeps != NULL) {
    PyGILState_STATE state = PyGILState_Ensure(); // consumers let go on threads of their own
    Py_DECREF(made->keeps);
    PyGILState_Release(state);
  }
  free(made);
}

static void free_unused(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, "dltensor"))
    return; // a consumer has it and will delete it
  dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
  managed->deleter(managed);
}

static PyObject *give(given *made, unsigned datatype, void *data)
{
  const datatype_row *row = &datatype_rows[datatype];
  made->managed.context = made;
  made->managed.deleter = delete_given;
  made->managed.tensor.data = data;
  made->managed.tensor.device_type = DEVICE_CPU;
  made->managed.tensor.code = row->dlpack;
  made->managed.tensor.bits = (uint8_t)(row->size * 8);
  made->managed.tensor.lanes = 1;
  made->managed.tensor.shape = made->shape;
  PyObject *capsule = PyCapsule_New(&made->managed, "dltensor", free_unused);
  if (capsule == NULL)
    delete_given(&made->managed);
  return capsule;
}

static PyObject *give_array(PyObject *array, unsigned datatype)
{
  const array_struct *described;
  PyObject *keeps = native_array_struct(array, &described);
  if (keeps == NULL)
    return NULL;
  given *made = calloc(1, sizeof *made);
  if (made == NULL || described->nd > MAX_NATIVE_RANK) {
    free(made);
    Py_DECREF(keeps);
    return PyErr_NoMemory();
  }
  made->keeps = keeps;
  made->managed.tensor.rank = described->nd;
  for (int i = 0; i < described->nd; i++)
    made->shape[i] = described->shape[i];
  return give(made, datatype, described->data);
}

// Memory of the server is read-only, which a capsule cannot say: consumers get a copy that they may
// change.
static PyObject *give_buffer(PyObject *from, const buffer_view *view)
{
  given *made = calloc(1, sizeof *made);
  if (made == NULL)
    return PyErr_NoMemory();
  made->managed.tensor.rank = (int32_t)view->rank;
  for (unsigned i = 0; i < view->rank; i++)
    made->shape[i] = view->shape[i];
  if (view->is_writable) {
    Py_INCREF(from);
    made->keeps = from;
    return give(made, view->datatype, view->address);
  }
  if (posix_memalign(&made->copy, 64, view->size == 0 ? 64 : view->size) != 0) {
    made->copy = NULL;
    delete_given(&made->managed);
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
  if (!PyArg_ParseTuple(args, "OI", &from, &datatype))
    return NULL;
  buffer_view view;
  return buffer_get(from, &view) ? give_buffer(from, &view) : give_array(from, datatype);
}

// --- Taking one

static void release_taken(void *owner)
{
  dl_managed *managed = owner;
  if (managed->deleter != NULL)
    managed->deleter(managed);
}

static unsigned datatype_of(const dl_tensor *tensor)
{
  for (unsigned i = 1; tensor->lanes == 1 && i < DATATYPE_COUNT; i++)
    if (datatype_rows[i].size != 0 && datatype_rows[i].dlpack == tensor->code &&
        datatype_rows[i].size * 8 == tensor->bits)
      return i;
  return 0;
}

static bool is_contiguous(const dl_tensor *tensor)
{
  int64_t stride = 1;
  for (int32_t i = tensor->rank; tensor->strides != NULL && i-- > 0;) {
    if (tensor->shape[i] == 0)
      return true;
    if (tensor->shape[i] != 1 && tensor->strides[i] != stride)
      return false;
    if (__builtin_mul_overflow(stride, tensor->shape[i], &stride))
      return false;
  }
  return true;
}

// from_dlpack(capsule): (datatype, shape, Buffer)
static PyObject *from_dlpack(PyObject *module, PyObject *capsule)
{
  (void)module;
  dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
  if (managed == NULL)
    return NULL;
  const dl_tensor *tensor = &managed->tensor;
  if (tensor->device_type != DEVICE_CPU && tensor->device_type != DEVICE_CUDA_HOST)
    return PyErr_Format(classes.exception, "DLDevice type %d is not support by Python backend.",
                        (int)tensor->device_type);
  if (tensor->rank > MAX_NATIVE_RANK)
    return PyErr_Format(classes.exception,
                        "DLPack tensor has %d dimensions, at most %d are possible.",
                        (int)tensor->rank, MAX_NATIVE_RANK);
  if (!is_contiguous(tensor))
    return PyErr_Format(classes.exception,
                        "DLPack tensor is not contiguous. Only contiguous DLPack "
                        "tensors that are stored in C-Order are supported.");
  unsigned datatype = datatype_of(tensor);
  if (datatype == 0)
    return PyErr_Format(classes.exception, "DLPack data type (code %d, %d bits) is not supported.",
                        (int)tensor->code, (int)tensor->bits);
  size_t size = datatype_rows[datatype].size;
  PyObject *shape = PyTuple_New(tensor->rank);
  for (int32_t i = 0; shape != NULL && i < tensor->rank; i++) {
    size *= (size_t)tensor->shape[i];
    PyTuple_SetItem(shape, i, PyLong_FromLongLong(tensor->shape[i]));
  }
  PyObject *buffer =
      shape == NULL
          ? NULL
          : buffer_new_foreign((uint8_t *)tensor->data + tensor->byte_offset, size, datatype,
                               (unsigned)tensor->rank, tensor->shape, release_taken, managed);
  if (buffer == NULL) {
    Py_XDECREF(shape);
    return NULL;
  }
  PyCapsule_SetName(capsule, "used_dltensor");
  return Py_BuildValue("(INN)", datatype, shape, buffer);
}

PyMethodDef dlpack_functions[] = {
    {"to_dlpack", to_dlpack, METH_VARARGS, "to_dlpack(array or Buffer, datatype): a capsule"},
    {"from_dlpack", from_dlpack, METH_O, "from_dlpack(capsule): (datatype, shape, Buffer)"},
    {NULL, NULL, 0, NULL}};
