// SPDX-License-Identifier: Apache-2.0
// Reads a control part field by field; a bad one raises an exception.
#include "decode.h"

#include "device_region.h"

#include <string.h>

// Bytes of a request and of a tensor with empty texts and lists.
#define REQUEST_LEAST (8 + 4 + 5 + 4 + 8 + 4 + 4 + 4 + 4)
#define TENSOR_LEAST  (4 + 4 + 4 + 8 + 8)

// Sets an attribute and takes over the value. False with an exception set, also for a NULL value.
static bool set_owned(PyObject *object, PyObject *name, PyObject *value)
{
  if (value == NULL)
    return false;
  int result = PyObject_SetAttr(object, name, value);
  Py_DECREF(value);
  return result == 0;
}

static PyObject *get_text(wire_reader *reader)
{
  size_t length = 0;
  const char *text = wire_get_text(reader, &length);
  return native_text(text == NULL ? "" : text, length);
}

static PyObject *get_correlation(wire_reader *reader)
{
  if (wire_get_u8(reader) != 0)
    return get_text(reader);
  return PyLong_FromUnsignedLongLong(wire_get_u64(reader));
}

// Requests mostly ask for the same outputs, so one tuple is reused while the names' bytes are
// equal.
static PyObject *get_names(wire_reader *reader)
{
  static char last[512];
  static size_t last_size;
  static PyObject *last_names;

  const uint8_t *start = reader->at;
  uint32_t count = wire_get_count(reader, 4);
  wire_reader ahead = *reader;
  for (uint32_t i = 0; i < count; i++) {
    size_t length;
    wire_get_text(&ahead, &length);
  }
  size_t size = (size_t)(ahead.at - start);
  if (last_names != NULL && size == last_size && memcmp(last, start, size) == 0) {
    *reader = ahead;
    Py_INCREF(last_names);
    return last_names;
  }
  PyObject *texts = PyTuple_New(count);
  if (texts == NULL)
    return NULL;
  for (uint32_t i = 0; i < count; i++) {
    PyObject *text = get_text(reader);
    if (text == NULL) {
      Py_DECREF(texts);
      return NULL;
    }
    PyTuple_SetItem(texts, i, text);
  }
  if (size <= sizeof(last)) {
    memcpy(last, start, size);
    last_size = size;
    Py_XDECREF(last_names);
    Py_INCREF(texts);
    last_names = texts;
  }
  return texts;
}

static PyObject *malformed(void)
{
  PyErr_SetString(PyExc_ValueError, "the server's message cannot be read");
  return NULL;
}

static PyObject *shape_tuple(const int64_t *dims, uint32_t rank)
{
  PyObject *shape = PyTuple_New(rank);
  for (uint32_t i = 0; shape != NULL && i < rank; i++) {
    PyObject *dim = PyLong_FromLongLong(dims[i]);
    if (dim == NULL) {
      Py_DECREF(shape);
      return NULL;
    }
    PyTuple_SetItem(shape, i, dim);
  }
  return shape;
}

// The Buffer of a tensor on a device. If the device cannot be reached, the model gets an error when
// it uses the tensor.
static PyObject *device_buffer(block *in, int device, uint64_t offset, size_t size,
                               unsigned datatype, unsigned rank, const int64_t *dims)
{
  if (offset > SIZE_MAX - size || datatype == DATATYPE_BYTES)
    return malformed();
  return buffer_new_on_device(in, device, device_map(device, offset, size), size, datatype, rank,
                              dims);
}

// The Buffer of a tensor's data: in `message`, the block of its message, or in a block of its own.
static PyObject *data_buffer(block *message, bool has_own_block, int device, uint64_t offset,
                             size_t size, unsigned datatype, unsigned rank, const int64_t *dims)
{
  block *in = has_own_block ? NULL : message;
  if (device >= 0 && size > 0)
    return device_buffer(message, device, offset, size, datatype, rank, dims);
  const void *address = size == 0 ? "" : channel_other(native_channel, offset, size);
  if (address == NULL)
    return malformed();
  if (in != NULL || size == 0)
    return buffer_new(in, address, size, datatype, rank, dims);
  block *own = block_new(offset);
  if (own == NULL)
    return PyErr_NoMemory();
  PyObject *made = buffer_new(own, address, size, datatype, rank, dims);
  block_unref(own);
  return made;
}

static bool fill_tensor(PyObject *tensor, wire_reader *reader, block *in, bool has_own_block)
{
  if (!set_owned(tensor, names._name, get_text(reader)))
    return false;
  const uint32_t where = wire_get_u32(reader);
  const uint32_t datatype = where & ((1u << PROTOCOL_DEVICE_SHIFT) - 1);
  const int device = (int)(where >> PROTOCOL_DEVICE_SHIFT) - 1;
  uint32_t rank = wire_get_u32(reader);
  if (rank > MAX_NATIVE_RANK || datatype == 0 || datatype >= DATATYPE_COUNT)
    return malformed() != NULL;
  int64_t dims[MAX_NATIVE_RANK] = {0};
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = wire_get_i64(reader);
  uint64_t offset = wire_get_u64(reader);
  uint64_t size = wire_get_u64(reader);
  if (reader->bad)
    return malformed() != NULL;
  Py_INCREF(Py_None);
  return set_owned(tensor, names._dtype, PyLong_FromUnsignedLong(datatype)) &&
         set_owned(tensor, names._shape, shape_tuple(dims, rank)) &&
         set_owned(tensor, names._array, Py_None) &&
         set_owned(tensor, names._buffer,
                   data_buffer(in, has_own_block, device, offset, size, datatype, rank, dims));
}

// `has_own_blocks`: each tensor has a block, except those on devices, which use the message's.
static PyObject *get_tensors(wire_reader *reader, block *in, bool has_own_blocks)
{
  uint32_t count = wire_get_count(reader, TENSOR_LEAST);
  PyObject *list = PyList_New(count);
  for (uint32_t i = 0; list != NULL && i < count; i++) {
    PyObject *tensor = native_instance(classes.tensor);
    if (tensor == NULL || !fill_tensor(tensor, reader, in, has_own_blocks)) {
      Py_XDECREF(tensor);
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, tensor);
  }
  return list;
}

static PyObject *none(void)
{
  Py_INCREF(Py_None);
  return Py_None;
}

static bool fill_request(PyObject *request, wire_reader *reader, block *in, PyObject *decoupled)
{
  Py_INCREF(decoupled);
  return set_owned(request, names._handle, PyLong_FromUnsignedLongLong(wire_get_u64(reader))) &&
         set_owned(request, names._request_id, get_text(reader)) &&
         set_owned(request, names._correlation_id, get_correlation(reader)) &&
         set_owned(request, names._flags, PyLong_FromUnsignedLong(wire_get_u32(reader))) &&
         set_owned(request, names._timeout, PyLong_FromUnsignedLongLong(wire_get_u64(reader))) &&
         set_owned(request, names._parameters, get_text(reader)) &&
         set_owned(request, names._trace, get_text(reader)) &&
         set_owned(request, names._requested, get_names(reader)) &&
         set_owned(request, names._inputs, get_tensors(reader, in, false)) &&
         set_owned(request, names._sender, none()) &&
         set_owned(request, names._decoupled, decoupled) && (!reader->bad || malformed() != NULL);
}

PyObject *decode_requests(block *in, const uint8_t *at, size_t size, bool is_decoupled)
{
  wire_reader reader = {.at = at, .end = at + size};
  uint32_t count = wire_get_count(&reader, REQUEST_LEAST);
  if (reader.bad)
    return malformed();
  PyObject *list = PyList_New(count);
  for (uint32_t i = 0; list != NULL && i < count; i++) {
    PyObject *request = native_instance(classes.request);
    if (request == NULL || !fill_request(request, &reader, in, is_decoupled ? Py_True : Py_False)) {
      Py_XDECREF(request);
      Py_DECREF(list);
      return NULL;
    }
    PyList_SetItem(list, i, request);
  }
  return list;
}

static PyObject *get_error(wire_reader *reader)
{
  PyObject *error = native_instance(classes.error);
  if (error != NULL &&
      (!set_owned(error, names._code, PyLong_FromUnsignedLong(wire_get_u32(reader))) ||
       !set_owned(error, names._message, get_text(reader)))) {
    Py_DECREF(error);
    return NULL;
  }
  return error;
}

PyObject *decode_response(block *in, const uint8_t *at, size_t size)
{
  wire_reader reader = {.at = at, .end = at + size};
  uint8_t kind = wire_get_u8(&reader);
  if (kind == RESPONSE_NONE)
    return none();
  PyObject *response = native_instance(classes.response);
  if (response == NULL)
    return NULL;
  bool is_good;
  if (kind == RESPONSE_ERROR)
    is_good = set_owned(response, names._error, get_error(&reader)) &&
              set_owned(response, names._parameters, native_text("", 0)) &&
              set_owned(response, names._tensors, PyList_New(0));
  else
    is_good = set_owned(response, names._error, none()) &&
              set_owned(response, names._parameters, get_text(&reader)) &&
              set_owned(response, names._tensors, get_tensors(&reader, in, true));
  if (!is_good || (reader.bad && malformed() == NULL)) {
    Py_DECREF(response);
    return NULL;
  }
  return response;
}
