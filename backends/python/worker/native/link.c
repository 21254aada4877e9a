// SPDX-License-Identifier: Apache-2.0
// The module's functions for work, answers, calls and replies. They also give memory back.
#include "link.h"

#include "attach.h"
#include "block.h"
#include "channel/channel_wait.h"
#include "decode.h"
#include "encode.h"
#include "native_device.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define IDLE_US    (1000 * 1000) // without work, before free memory is given back
#define KEEP_BYTES (4 << 20)     // kept when idle
#define MUCH_BYTES (256 << 20)   // kept under load
#define LOOK_EVERY 256           // pieces of work between two looks at that

static block *work_block;      // of the current WORK_EXECUTE
static uint64_t work_begun_ns; // when it was taken; 0: other work was taken since

// --- Message: prepared data of a message. An unsent Message frees its memory with the object.

typedef struct message {
  PyObject_HEAD outgoing made;
  bool is_taken;
} message;

static PyTypeObject *message_type;

static void message_free(PyObject *object)
{
  message *self = (message *)object;
  if (!self->is_taken)
    region_end_loan(self->made.loan);
  freefunc give_back = (freefunc)PyType_GetSlot(message_type, Py_tp_free);
  give_back(object);
  Py_DECREF((PyObject *)message_type);
}

PyObject *link_message_type(void)
{
  static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)message_free}, {0, NULL}};
  static PyType_Spec spec = {"_nereid.Message", sizeof(message), 0, Py_TPFLAGS_DEFAULT, slots};
  message_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return (PyObject *)message_type;
}

static PyObject *message_new(const outgoing *made)
{
  message *self = (message *)PyType_GenericAlloc(message_type, 0);
  if (self == NULL)
    region_end_loan(made->loan);
  else
    self->made = *made;
  return (PyObject *)self;
}

static PyObject *make_answer(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *requests, *responses;
  outgoing made = {0};
  if (!PyArg_ParseTuple(args, "OO", &requests, &responses) ||
      !encode_answer(&made, requests, responses, work_begun_ns))
    return NULL;
  return message_new(&made);
}

static PyObject *make_response(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *requested, *response;
  outgoing made = {0};
  if (!PyArg_ParseTuple(args, "O!O", &PyTuple_Type, &requested, &response) ||
      !encode_response(&made, requested, response))
    return NULL;
  return message_new(&made);
}

static PyObject *set_outputs(PyObject *module, PyObject *set)
{
  (void)module;
  if (!PyFrozenSet_Check(set))
    return PyErr_Format(PyExc_TypeError, "expected a frozenset");
  encode_set_outputs(set);
  Py_INCREF(Py_None);
  return Py_None;
}

static PyObject *make_infer(PyObject *module, PyObject *args)
{
  (void)module;
  PyObject *head, *inputs;
  outgoing made = {0};
  if (!PyArg_ParseTuple(args, "SO", &head, &inputs) || !encode_infer(&made, head, inputs))
    return NULL;
  PyObject *kept = made.is_on_device && made.loan.keeps != NULL ? made.loan.keeps : Py_None;
  Py_INCREF(kept);
  PyObject *sent = message_new(&made);
  if (sent == NULL) {
    Py_DECREF(kept);
    return NULL;
  }
  return Py_BuildValue("(NN)", sent, kept);
}

// --- Sending

// Bytes as a message.
static bool make_plain(outgoing *made, const char *bytes, Py_ssize_t size)
{
  *made = (outgoing){.control_size = (uint64_t)size, .loan = {.offset = UINT64_MAX}};
  if (size == 0)
    return true;
  if (size > MAX_PROTOCOL_CONTROL) {
    PyErr_Format(PyExc_ValueError, "a message to the server has %zd bytes, at most %d can be sent",
                 size, MAX_PROTOCOL_CONTROL);
    return false;
  }
  if (!region_allocate((size_t)size, &made->loan.offset))
    return false;
  memcpy(channel_own(native_channel, made->loan.offset), bytes, (size_t)size);
  return true;
}

// `control`: a Message, whose loan is taken over, bytes or None.
static bool take_control(PyObject *control, outgoing *made)
{
  if (Py_TYPE(control) == message_type) {
    message *from = (message *)control;
    if (from->is_taken) {
      PyErr_SetString(PyExc_ValueError, "this message has been sent");
      return false;
    }
    from->is_taken = true;
    *made = from->made;
    return true;
  }
  if (control == Py_None)
    return make_plain(made, "", 0);
  if (!PyBytes_Check(control)) {
    PyErr_SetString(PyExc_TypeError, "a message's control part is bytes");
    return false;
  }
  return make_plain(made, PyBytes_AsString(control), PyBytes_Size(control));
}

static void name_control(channel_message *sent, const outgoing *made)
{
  sent->offset = made->loan.offset == UINT64_MAX ? 0 : made->loan.offset;
  sent->size = made->control_size;
}

static bool send_control(channel_ring ring, channel_message *sent, PyObject *control)
{
  outgoing made;
  if (!take_control(control, &made))
    return false;
  name_control(sent, &made);
  uint64_t count;
  if (made.control_size == 0)
    return region_send_plain(ring, sent);
  if (!region_send(ring, sent, made.loan, &count))
    return false;
  // After a call the caller may change its arrays, so wait until the host has read them. After an
  // answer the next work may already run, but an answer names only arrays that nothing else refers
  // to (sole.h).
  if (made.names_arrays && ring == CHANNEL_CALLS)
    region_await(ring, count);
  return true;
}

static PyObject *done(bool is_good)
{
  if (!is_good)
    return NULL;
  Py_INCREF(Py_None);
  return Py_None;
}

// All work on the device would fail from now on, so the process ends and the host starts the next
// worker.
static void end_with_dead_context(void)
{
  char text[256];
  if (!device_fault(false, text, sizeof(text)))
    return;
  fprintf(stderr, "%s: this worker ends, the next one has another context\n", text);
  fflush(stderr);
  _exit(1);
}

static PyObject *answer(PyObject *module, PyObject *args)
{
  (void)module;
  unsigned kind;
  unsigned long long id;
  PyObject *control;
  if (!PyArg_ParseTuple(args, "IKO", &kind, &id, &control))
    return NULL;
  channel_message sent = {.kind = kind, .id = id};
  if (work_block != NULL) {
    if (block_unref_silently(work_block))
      sent.flags = ANSWER_RELEASED;
    work_block = NULL;
  }
  work_begun_ns = 0;
  if (Py_TYPE(control) == message_type && ((message *)control)->made.is_on_device)
    sent.flags |= ANSWER_ON_DEVICE;
  const bool is_sent = send_control(CHANNEL_ANSWERS, &sent, control);
  end_with_dead_context();
  return done(is_sent);
}

static PyObject *call(PyObject *module, PyObject *args)
{
  (void)module;
  channel_message sent = {0};
  unsigned long long id, value;
  PyObject *control;
  if (!PyArg_ParseTuple(args, "IIKKO", &sent.kind, &sent.flags, &id, &value, &control))
    return NULL;
  sent.id = id;
  sent.value = value;
  return done(send_control(CHANNEL_CALLS, &sent, control));
}

// --- Receiving

static channel_result receive(channel_ring ring, int64_t timeout_us, channel_message *received)
{
  channel_result result;
  Py_BEGIN_ALLOW_THREADS result = channel_receive(native_channel, ring, timeout_us, received);
  Py_END_ALLOW_THREADS return result;
}

static void give_back_under_load(void)
{
  static unsigned works;
  if (++works % LOOK_EVERY != 0)
    return;
  size_t used, kept;
  channel_memory(native_channel, &used, &kept);
  if (kept > MUCH_BYTES)
    channel_trim(native_channel, MUCH_BYTES);
}

// Receives the next work. After a second without work, returns free memory to the system, then
// waits without limit.
static bool next_work(channel_message *received)
{
  static bool is_trimmed = true;
  region_reclaim();
  for (;;) {
    bool is_quiet = is_trimmed && !region_has_loans();
    channel_result result = receive(CHANNEL_WORK, is_quiet ? -1 : IDLE_US, received);
    region_reclaim();
    if (result == CHANNEL_TIMEOUT) {
      channel_trim(native_channel, KEEP_BYTES);
      is_trimmed = true;
      continue;
    }
    is_trimmed = false;
    give_back_under_load();
    return result == CHANNEL_MESSAGE;
  }
}

static PyObject *closed(void)
{
  PyErr_SetString(PyExc_ConnectionError, "the channel to the server is closed");
  return NULL;
}

static const void *control_of(const channel_message *received)
{
  return received->size == 0 ? "" : channel_other(native_channel, received->offset, received->size);
}

static PyObject *with_payload(const channel_message *received, PyObject *payload)
{
  if (payload == NULL)
    return NULL;
  return Py_BuildValue("[IIKKN]", received->kind, received->flags, (unsigned long long)received->id,
                       (unsigned long long)received->value, payload);
}

static PyObject *receive_work(PyObject *module, PyObject *nothing)
{
  (void)module;
  (void)nothing;
  channel_message received;
  if (!next_work(&received))
    return closed();
  const void *control = control_of(&received);
  PyObject *payload = NULL;
  if (control == NULL) {
    PyErr_SetString(PyExc_ValueError, "the server's message is outside of its memory");
  } else if (received.kind == WORK_EXECUTE) {
    assert(work_block == NULL); // the previous one has been answered
    work_begun_ns = (uint64_t)channel_now_ns();
    channel_look(native_channel, CHANNEL_WORK, (received.flags & WORK_CROWDED) == 0);
    work_block = block_new(received.offset);
    payload = work_block == NULL ? PyErr_NoMemory()
                                 : decode_requests(work_block, control, received.size,
                                                   (received.flags & WORK_DECOUPLED) != 0);
  } else {
    payload = PyBytes_FromStringAndSize(control, (Py_ssize_t)received.size);
  }
  channel_done(native_channel, CHANNEL_WORK);
  return with_payload(&received, payload);
}

static PyObject *receive_reply(PyObject *module, PyObject *nothing)
{
  (void)module;
  (void)nothing;
  channel_message received;
  channel_result result = receive(CHANNEL_REPLIES, -1, &received);
  region_reclaim();
  if (result != CHANNEL_MESSAGE)
    return closed();
  const void *control = control_of(&received);
  PyObject *payload = NULL;
  block *in = received.size == 0 ? NULL : block_new(received.offset);
  if (control == NULL || (in == NULL && received.size != 0))
    PyErr_SetString(PyExc_ValueError, "the server's message is outside of its memory");
  else if (received.kind == CALL_INFER && (received.flags & REPLY_FAILED) == 0 && in != NULL)
    payload = decode_response(in, control, received.size);
  else
    payload = PyBytes_FromStringAndSize(control, (Py_ssize_t)received.size);
  if (in != NULL)
    block_unref(in);
  channel_done(native_channel, CHANNEL_REPLIES);
  return with_payload(&received, payload);
}

// --- other functions

static PyObject *attach(PyObject *module, PyObject *args)
{
  (void)module;
  int socket;
  if (!PyArg_ParseTuple(args, "i", &socket))
    return NULL;
  const char *failed;
  Py_BEGIN_ALLOW_THREADS failed = attach_to_host(socket);
  Py_END_ALLOW_THREADS if (failed != NULL) return PyErr_SetFromErrnoWithFilename(PyExc_OSError,
                                                                                 failed);
  return done(true);
}

static PyObject *memory(PyObject *module, PyObject *nothing)
{
  (void)module;
  (void)nothing;
  size_t used, kept;
  channel_memory(native_channel, &used, &kept);
  return Py_BuildValue("(nn)", (Py_ssize_t)used, (Py_ssize_t)kept);
}

PyMethodDef link_functions[] = {
    {"attach", attach, METH_VARARGS, "attach(socket): takes the channel that comes over it."},
    {"receive_work", receive_work, METH_NOARGS,
     "The next work: [kind, flags, id, value, payload]."},
    {"receive_reply", receive_reply, METH_NOARGS, "The next reply, in the same form."},
    {"answer", answer, METH_VARARGS, "answer(kind, id, control)"},
    {"call", call, METH_VARARGS, "call(kind, flags, id, value, control)"},
    {"make_answer", make_answer, METH_VARARGS, "make_answer(requests, responses): a Message"},
    {"make_response", make_response, METH_VARARGS, "make_response(requested, response): a Message"},
    {"set_outputs", set_outputs, METH_O, "set_outputs(names): those of the model's configuration"},
    {"make_infer", make_infer, METH_VARARGS,
     "make_infer(head, inputs): a Message, and what is to be kept until the server does not read "
     "it any more, or None"},
    {"memory", memory, METH_NOARGS, "Bytes of the region in use and kept."},
    {NULL, NULL, 0, NULL}};
