// SPDX-License-Identifier: Apache-2.0
// The module `_nereid`: its functions and types. One file for every CPython from 3.8 on.
#include "block.h"
#include "bytes_coding.h"
#include "device_region.h"
#include "dlpack.h"
#include "link.h"
#include "native_device.h"
#include "numpy_memory.h"
#include "sole.h"

// use(Tensor, InferenceRequest, InferenceResponse, TritonError, TritonModelException)
static PyObject *use(PyObject *module, PyObject *args)
{
  (void)module;
  native_classes given;
  if (!PyArg_ParseTuple(args, "OOOOO", &given.tensor, &given.request, &given.response, &given.error,
                        &given.exception))
    return NULL;
  for (Py_ssize_t i = 0; i < PyTuple_Size(args); i++)
    Py_INCREF(PyTuple_GetItem(args, i));
  classes = given;
  Py_INCREF(Py_None);
  return Py_None;
}

// fill(array, buffer or bytes): writes the elements of a BYTES tensor into a contiguous array of
// objects. Returns their number, which may differ from the array's size.
static PyObject *fill(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *array, *from;
  if (!PyArg_ParseTuple(args, "OO", &array, &from))
    return NULL;
  const uint8_t *at;
  size_t size;
  buffer_view view;
  if (buffer_get(from, &view)) {
    at = view.address;
    size = view.size;
  } else if (PyBytes_Check(from)) {
    at = (const uint8_t *)PyBytes_AsString(from);
    size = (size_t)PyBytes_Size(from);
  } else {
    PyErr_SetString(PyExc_TypeError, "a BYTES tensor's data is bytes");
    return NULL;
  }
  const array_struct *described;
  PyObject *keeps = native_array_struct(array, &described);
  if (keeps == NULL)
    return NULL;
  if (described->typekind != 'O' || (described->flags & ARRAY_C_CONTIGUOUS) == 0) {
    Py_DECREF(keeps);
    PyErr_SetString(PyExc_TypeError, "fill() needs a contiguous array of objects");
    return NULL;
  }
  size_t room = 1;
  for (int i = 0; i < described->nd; i++)
    room *= (size_t)described->shape[i];
  Py_ssize_t count = bytes_decode(at, size, described->data, room);
  Py_DECREF(keeps);
  return count < 0 ? NULL : PyLong_FromSsize_t(count);
}

// elements(array of objects): a tuple of bytes
static PyObject *elements(PyObject *module, PyObject *array)
{
  (void)module;
  return bytes_elements(array);
}

// serialize(array of objects): Triton's form
static PyObject *serialize(PyObject *module, PyObject *array)
{
  (void)module;
  PyObject *taken = bytes_elements(array);
  if (taken == NULL)
    return NULL;
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes_encoded_size(taken));
  if (bytes != NULL)
    bytes_encode(taken, (uint8_t *)PyBytes_AsString(bytes));
  Py_DECREF(taken);
  return bytes;
}

static PyMethodDef own_functions[] = {
    {"use", use, METH_VARARGS, "Says which classes to make."},
    {"fill", fill, METH_VARARGS, "fill(array, data): a BYTES tensor's elements"},
    {"elements", elements, METH_O, "elements(array): a BYTES tensor's, as they are now"},
    {"serialize", serialize, METH_O, "serialize(array): a BYTES tensor's data"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_nereid",
                                        .m_doc = "The native part of nereid's Python worker.",
                                        .m_size = -1};

static bool intern_names(void)
{
#define NATIVE_INTERN(name)                                                                        \
  if ((names.name = PyUnicode_InternFromString(#name)) == NULL)                                    \
    return false;
  NATIVE_NAMES(NATIVE_INTERN)
#undef NATIVE_INTERN
  return true;
}

static bool add_type(PyObject *module, const char *name, PyObject *type)
{
  return type != NULL && PyModule_AddObject(module, name, type) == 0;
}

PyMODINIT_FUNC PyInit__nereid(void);
PyMODINIT_FUNC PyInit__nereid(void)
{
  PyObject *module = PyModule_Create(&definition);
  if (module == NULL || !intern_names() || !add_type(module, "Buffer", buffer_type()) ||
      !add_type(module, "Message", link_message_type()) ||
      PyModule_AddIntConstant(module, "PROTOCOL_VERSION", PROTOCOL_VERSION) != 0 ||
      PyModule_AddFunctions(module, own_functions) != 0 ||
      PyModule_AddFunctions(module, link_functions) != 0 ||
      PyModule_AddFunctions(module, dlpack_functions) != 0 ||
      PyModule_AddFunctions(module, device_functions) != 0 ||
      PyModule_AddFunctions(module, device_region_functions) != 0 ||
      PyModule_AddFunctions(module, numpy_memory_functions) != 0 ||
      PyModule_AddFunctions(module, sole_functions) != 0)
    return NULL;
  return module;
}
