// SPDX-License-Identifier: Apache-2.0
// Both ways, element by element.
#include "bytes_coding.h"

#include <string.h>

Py_ssize_t bytes_decode(const uint8_t *at, size_t size, PyObject **into, size_t room)
{
  size_t count = 0;
  const uint8_t *end = at + size;
  while (at < end) {
    uint32_t length;
    if ((size_t)(end - at) < sizeof length) {
      PyErr_SetString(PyExc_ValueError, "Invalid bytes tensor data: incomplete length field");
      return -1;
    }
    memcpy(&length, at, sizeof length);
    at += sizeof length;
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

static PyObject *item_of(PyObject *object)
{
  if (PyBytes_Check(object)) {
    Py_INCREF(object);
    return object;
  }
  PyObject *text = PyObject_Str(object);
  if (text == NULL)
    return NULL;
  PyObject *bytes = PyUnicode_AsUTF8String(text);
  Py_DECREF(text);
  return bytes;
}

PyObject *bytes_items(PyObject *const *objects, size_t count, size_t *size)
{
  PyObject *items = PyTuple_New((Py_ssize_t)count);
  if (items == NULL)
    return NULL;
  *size = 0;
  for (size_t i = 0; i < count; i++) {
    PyObject *item = item_of(objects[i] == NULL ? Py_None : objects[i]);
    if (item == NULL) {
      Py_DECREF(items);
      return NULL;
    }
    PyTuple_SetItem(items, (Py_ssize_t)i, item);
    Py_ssize_t length = PyBytes_Size(item);
    if ((uint64_t)length > UINT32_MAX) {
      PyErr_Format(PyExc_ValueError, "an element of %zd bytes is too long for a BYTES tensor",
                   length);
      Py_DECREF(items);
      return NULL;
    }
    *size += sizeof(uint32_t) + (size_t)length;
  }
  return items;
}

void bytes_encode(PyObject *items, uint8_t *to)
{
  Py_ssize_t count = PyTuple_Size(items);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PyTuple_GetItem(items, i);
    uint32_t length = (uint32_t)PyBytes_Size(item);
    memcpy(to, &length, sizeof length);
    memcpy(to + sizeof length, PyBytes_AsString(item), length);
    to += sizeof length + length;
  }
}
