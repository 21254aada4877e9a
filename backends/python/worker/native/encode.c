// SPDX-License-Identifier: Apache-2.0
// Collects data from Python objects, then writes it (outgoing.h).
#include "encode.h"

#include "channel/channel_wait.h"
#include "sole.h"

#include <stdlib.h>

// One collected response: its text and its share of the tensors.
typedef struct collected {
  uint8_t kind;
  uint32_t code;
  PyObject *text; // bytes: the parameters or the error's message
  size_t first;
  size_t count;
} collected;

typedef struct collection {
  collected *responses;
  uint32_t count;
  bool is_answer; // then:
  uint64_t begun_ns;
  uint64_t ended_ns;
} collection;

static bool collect_text(collected *into, PyObject *from, PyObject *name)
{
  PyObject *text = PyObject_GetAttr(from, name);
  into->text = text == NULL ? NULL : native_utf8(text);
  Py_XDECREF(text);
  return into->text != NULL;
}

static bool collect_error(collected *into, PyObject *error)
{
  uint64_t code;
  into->kind = RESPONSE_ERROR;
  if (native_get_u64(error, names._code, &code) != 0)
    return false;
  into->code = (uint32_t)code;
  return collect_text(into, error, names._message);
}

static PyObject *known_outputs; // a set of names, or NULL before the model is initialized

void encode_set_outputs(PyObject *names_of_outputs)
{
  Py_XDECREF(known_outputs);
  Py_INCREF(names_of_outputs);
  known_outputs = names_of_outputs;
}

// Whether the tensor is requested: 1, 0, or -1 with an exception set. An output unknown to the
// model's configuration is kept: the host answers with an error that names it.
static int is_requested(PyObject *tensor, PyObject *requested)
{
  if (PyTuple_Size(requested) == 0)
    return 1;
  PyObject *name = PyObject_GetAttr(tensor, names._name);
  int result = name == NULL ? -1 : PySequence_Contains(requested, name);
  if (result == 0 && known_outputs != NULL) {
    int is_known = PySet_Contains(known_outputs, name);
    result = is_known < 0 ? -1 : !is_known;
  }
  Py_XDECREF(name);
  return result;
}

static bool collect_tensors(collected *into, outgoing *made, PyObject *response,
                            PyObject *requested)
{
  into->kind = RESPONSE_TENSORS;
  into->first = made->count;
  PyObject *tensors = PyObject_GetAttr(response, names._tensors);
  Py_ssize_t count = tensors == NULL ? -1 : PyList_Size(tensors);
  bool is_good = count >= 0;
  for (Py_ssize_t i = 0; is_good && i < count; i++) {
    PyObject *tensor = PyList_GetItem(tensors, i);
    int is_wanted = is_requested(tensor, requested);
    is_good = is_wanted == 0 || (is_wanted > 0 && outgoing_add(made, tensor));
  }
  into->count = made->count - into->first;
  Py_XDECREF(tensors);
  return is_good && collect_text(into, response, names._parameters);
}

static bool collect(collected *into, outgoing *made, PyObject *response, PyObject *requested)
{
  if (response == Py_None)
    return true;
  if (response == Py_True) {
    into->kind = RESPONSE_RESCHEDULED;
    return true;
  }
  if (response == Py_False) {
    into->kind = RESPONSE_FAILED;
    return true;
  }
  PyObject *error = PyObject_GetAttr(response, names._error);
  if (error == NULL)
    return false;
  bool is_good = error == Py_None ? collect_tensors(into, made, response, requested)
                                  : collect_error(into, error);
  Py_DECREF(error);
  return is_good;
}

static void put_response(wire_writer *writer, const outgoing *made, const collected *response)
{
  wire_put_u8(writer, response->kind);
  if (response->kind != RESPONSE_ERROR && response->kind != RESPONSE_TENSORS)
    return;
  if (response->kind == RESPONSE_ERROR)
    wire_put_u32(writer, response->code);
  wire_put_text(writer, PyBytes_AsString(response->text), (size_t)PyBytes_Size(response->text));
  if (response->kind == RESPONSE_ERROR)
    return;
  wire_put_u32(writer, (uint32_t)response->count);
  for (size_t i = 0; i < response->count; i++)
    outgoing_put_tensor(writer, &made->tensors[response->first + i]);
}

static void put_collection(wire_writer *writer, const outgoing *made, const void *context)
{
  const collection *from = context;
  if (from->is_answer) {
    wire_put_u8(writer, 1);
    wire_put_u32(writer, from->count);
    wire_put_u64(writer, from->begun_ns);
    wire_put_u64(writer, from->ended_ns);
  }
  for (uint32_t i = 0; i < from->count; i++)
    put_response(writer, made, &from->responses[i]);
}

static bool finish(outgoing *made, collection *from, bool is_collected)
{
  bool is_made = is_collected && outgoing_make(made, put_collection, from);
  if (!is_collected)
    outgoing_clear(made);
  for (uint32_t i = 0; i < from->count; i++)
    Py_XDECREF(from->responses[i].text);
  return is_made;
}

bool encode_answer(outgoing *made, PyObject *requests, PyObject *responses, uint64_t begun_ns)
{
  Py_ssize_t count = PyList_Size(responses);
  if (count < 0 || PyList_Size(requests) != count)
    return PyErr_Format(PyExc_ValueError, "requests and responses are not as many") != NULL;
  collection all = {.responses = calloc((size_t)count + 1, sizeof(*all.responses)),
                    .count = (uint32_t)count,
                    .is_answer = true,
                    .begun_ns = begun_ns,
                    .ended_ns = (uint64_t)channel_now_ns()};
  if (all.responses == NULL)
    return PyErr_NoMemory() != NULL;
  bool is_collected = true;
  for (Py_ssize_t i = 0; is_collected && i < count; i++) {
    PyObject *requested = PyObject_GetAttr(PyList_GetItem(requests, i), names._requested);
    is_collected = requested != NULL &&
                   collect(&all.responses[i], made, PyList_GetItem(responses, i), requested);
    Py_XDECREF(requested);
  }
  is_collected = is_collected && sole_check(made, requests, responses);
  bool is_made = finish(made, &all, is_collected);
  free(all.responses);
  return is_made;
}

bool encode_response(outgoing *made, PyObject *requested, PyObject *response)
{
  collected one = {0};
  collection all = {.responses = &one, .count = 1};
  return finish(made, &all, collect(&one, made, response, requested));
}

static void put_infer(wire_writer *writer, const outgoing *made, const void *context)
{
  PyObject *head = (PyObject *)(uintptr_t)context;
  const char *bytes = PyBytes_AsString(head);
  for (Py_ssize_t i = 0; i < PyBytes_Size(head); i++)
    wire_put_u8(writer, (uint8_t)bytes[i]);
  wire_put_u32(writer, (uint32_t)made->count);
  for (size_t i = 0; i < made->count; i++)
    outgoing_put_tensor(writer, &made->tensors[i]);
}

bool encode_infer(outgoing *made, PyObject *head, PyObject *inputs)
{
  Py_ssize_t count = PyList_Size(inputs);
  bool is_collected = count >= 0;
  for (Py_ssize_t i = 0; is_collected && i < count; i++)
    is_collected = outgoing_add(made, PyList_GetItem(inputs, i));
  if (!is_collected) {
    outgoing_clear(made);
    return false;
  }
  return outgoing_make(made, put_infer, head);
}
