// SPDX-License-Identifier: Apache-2.0
// Tables and helpers of the extension.
#include "native.h"

channel *native_channel;
native_names names;
native_classes classes;

const datatype_row datatype_rows[DATATYPE_COUNT] = {
    [0] = {"INVALID", 0, 0, 0},
    [DATATYPE_BOOL] = {"BOOL", 'b', 1, 6},
    [DATATYPE_UINT8] = {"UINT8", 'u', 1, 1},
    [DATATYPE_UINT16] = {"UINT16", 'u', 2, 1},
    [DATATYPE_UINT32] = {"UINT32", 'u', 4, 1},
    [DATATYPE_UINT64] = {"UINT64", 'u', 8, 1},
    [DATATYPE_INT8] = {"INT8", 'i', 1, 0},
    [DATATYPE_INT16] = {"INT16", 'i', 2, 0},
    [DATATYPE_INT32] = {"INT32", 'i', 4, 0},
    [DATATYPE_INT64] = {"INT64", 'i', 8, 0},
    [DATATYPE_FP16] = {"FP16", 'f', 2, 2},
    [DATATYPE_FP32] = {"FP32", 'f', 4, 2},
    [DATATYPE_FP64] = {"FP64", 'f', 8, 2},
    [DATATYPE_BYTES] = {"BYTES", 'O', 0, 0},
    [DATATYPE_BF16] = {"BF16", 0, 2, 4},
};

PyObject *native_array_struct(PyObject *array, const array_struct **described)
{
  PyObject *capsule = PyObject_GetAttr(array, names.__array_struct__);
  if (capsule == NULL)
    return NULL;
  const array_struct *found = PyCapsule_GetPointer(capsule, NULL);
  if (found == NULL || found->two != 2) {
    Py_DECREF(capsule);
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "__array_struct__ is not NumPy's");
    return NULL;
  }
  *described = found;
  return capsule;
}

PyObject *native_text(const char *text, size_t length)
{
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape");
}

PyObject *native_utf8(PyObject *text)
{
  PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
  if (bytes == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
    PyErr_Clear();
    bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
  }
  return bytes;
}

int native_get_u64(PyObject *of, PyObject *name, uint64_t *value)
{
  PyObject *found = PyObject_GetAttr(of, name);
  if (found == NULL)
    return -1;
  *value = PyLong_AsUnsignedLongLong(found);
  Py_DECREF(found);
  return *value == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

PyObject *native_instance(PyObject *of)
{
  return PyType_GenericAlloc((PyTypeObject *)of, 0);
}
