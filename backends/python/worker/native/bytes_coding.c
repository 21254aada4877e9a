// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes, element by element.
#include "bytes_coding.h"

#include <string.h>

Py_ssize_t bytes_decode(const uint8_t *at, size_t size, PyObject **into, size_t room)
{
  size_t count = 0;
  const uint8_t *end = at + size;
  while (at < end) {
    uint32_t length;
    if ((size_t)(end - at) < sizeof(length)) {
      PyErr_SetString(PyExc_ValueError, "Invalid bytes tensor data: incomplete length field");
      return -1;
    }
    memcpy(&length, at, sizeof(length));
    at += sizeof(length);
    if ((size_t)(end - at) < length) {
      PyErr_SetString(PyExc_ValueError, "Invalid bytes tensor data: string extends beyond buffer");
      return -1;
    }
    if (count < room) {
      PyObject *element = PyBytes_FromStringAndSize((const char *)at, length);
      if (element == NULL)
        return -1;
      PyObject *before = into[count];
      into[count] = element;
      Py_XDECREF(before);
    }
    count++;
    at += length;
  }
  return (Py_ssize_t)count;
}

static PyObject *element_of(PyObject *object)
{
  if (PyBytes_Check(object)) {
    Py_INCREF(object);
    return object;
  }
  Py_INCREF(object); // its own str() may remove it from the array
  PyObject *text = PyObject_Str(object);
  Py_DECREF(object);
  if (text == NULL)
    return NULL;
  PyObject *bytes = PyUnicode_AsUTF8String(text);
  Py_DECREF(text);
  return bytes;
}

static PyObject *elements_of(PyObject *const *objects, size_t count)
{
  PyObject *elements = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; elements != NULL && i < count; i++) {
    PyObject *element = element_of(objects[i] == NULL ? Py_None : objects[i]);
    if (element != NULL && (uint64_t)PyBytes_Size(element) > UINT32_MAX) {
      PyErr_Format(PyExc_ValueError, "an element of %zd bytes is too long for a BYTES tensor",
                   PyBytes_Size(element));
      Py_DECREF(element);
      element = NULL;
    }
    if (element == NULL) {
      Py_DECREF(elements);
      return NULL;
    }
    PyTuple_SetItem(elements, (Py_ssize_t)i, element);
  }
  return elements;
}

PyObject *bytes_elements(PyObject *array)
{
  const array_struct *described;
  PyObject *keeps = native_array_struct(array, &described);
  if (keeps == NULL)
    return NULL;
  PyObject *elements = NULL;
  size_t count = 1;
  for (int i = 0; i < described->nd; i++)
    count *= (size_t)described->shape[i];
  if (described->typekind != 'O' || (described->flags & ARRAY_C_CONTIGUOUS) == 0)
    PyErr_SetString(PyExc_TypeError, "expected a contiguous array of objects");
  else
    elements = elements_of(described->data, count);
  Py_DECREF(keeps);
  return elements;
}

size_t bytes_encoded_size(PyObject *elements)
{
  const Py_ssize_t count = PyTuple_Size(elements);
  size_t size = (size_t)count * sizeof(uint32_t);
  for (Py_ssize_t i = 0; i < count; i++)
    size += (size_t)PyBytes_Size(PyTuple_GetItem(elements, i));
  return size;
}

void bytes_encode(PyObject *elements, uint8_t *to)
{
  Py_ssize_t count = PyTuple_Size(elements);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *element = PyTuple_GetItem(elements, i);
    uint32_t length = (uint32_t)PyBytes_Size(element);
    memcpy(to, &length, sizeof(length));
    memcpy(to + sizeof(length), PyBytes_AsString(element), length);
    to += sizeof(length) + length;
  }
}
