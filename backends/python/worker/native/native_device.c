// SPDX-License-Identifier: Apache-2.0
// A stream and an event for each device, and checks of contexts.
#include "native_device.h"

#include "gpu/context.h"
#include "gpu/health.h"

#include <dlfcn.h>

// This worker's use of one device.
typedef struct own_device {
  gpu_stream *stream; // holds the context
  gpu_event *event;
} own_device;

static own_device devices[MAX_GPUS];

bool device_is_possible(int device)
{
  return device >= 0 && device < MAX_GPUS;
}

error *device_open(int device)
{
  const gpu_devices *found;
  const char *why;
  own_device *self = &devices[device];
  if (self->event != NULL)
    return NULL;
  RETURN_IF_ERROR(gpu_devices_find(&found, &why));
  if (self->stream == NULL) // makes the context too
    RETURN_IF_ERROR(gpu_stream_new(device, 0, &self->stream));
  return gpu_event_new(device, &self->event);
}
// ---- copies

gpu_stream *device_stream(int device)
{
  error *e = device_is_possible(device)
                 ? device_open(device)
                 : error_new(ERROR_INVALID_ARG, "there is no GPU %d", device);
  if (e == NULL)
    return devices[device].stream;
  device_raise(e);
  return NULL;
}

// Makes `stream` wait for the current work of `before`.
static error *follow(own_device *self, gpu_stream *stream, gpu_stream *before)
{
  RETURN_IF_ERROR(gpu_event_record(self->event, before));
  return gpu_stream_await(stream, self->event);
}

static gpu_stream legacy_of(int device)
{
  return (gpu_stream){.device = device, .handle = NULL};
}

error *device_follow(int device)
{
  own_device *self = &devices[device];
  gpu_stream legacy = legacy_of(device);
  RETURN_IF_ERROR(device_open(device));
  return follow(self, self->stream, &legacy);
}

error *device_copy(int device, void *to, gpu_place to_place, const void *from, gpu_place from_place,
                   size_t size, const char *what)
{
  bool done;
  error *e = device_follow(device);
  if (e != NULL)
    return error_wrap(e, "%s", what);
  return gpu_copy(to, to_place, from, from_place, size, devices[device].stream, what, &done);
}

error *device_await(int device)
{
  error *e;
  if (devices[device].stream == NULL)
    return NULL;
  Py_BEGIN_ALLOW_THREADS;
  e = gpu_stream_synchronize(devices[device].stream);
  Py_END_ALLOW_THREADS;
  return e;
}

error *device_synchronize(int device)
{
  error *e;
  CUcontext before;
  CUresult code = CUDA_SUCCESS;
  if (!device_is_possible(device))
    return NULL;
  RETURN_IF_ERROR(device_open(device));
  Py_BEGIN_ALLOW_THREADS;
  e = gpu_context_visit(device, &before);
  if (e == NULL) {
    code = gpu_driver_opened()->cuCtxSynchronize();
    gpu_context_leave(before);
    e = gpu_error_on(device, code, "GPU %d: what it was to do failed", device);
  }
  Py_END_ALLOW_THREADS;
  return e;
}

// Streams in the protocol of __dlpack__, by number.
#define STREAM_LEGACY     1
#define STREAM_PER_THREAD 2 // the thread is unknown

error *device_order(int device, int64_t consumer)
{
  own_device *self = &devices[device];
  gpu_stream theirs = {.device = device,
                       .handle = consumer <= STREAM_LEGACY ? NULL : (CUstream)(intptr_t)consumer};
  RETURN_IF_ERROR(device_follow(device));
  return consumer == STREAM_PER_THREAD ? device_await(device) : follow(self, &theirs, self->stream);
}

void device_raise(error *e_owned)
{
  PyErr_SetString(classes.exception != NULL ? classes.exception : PyExc_RuntimeError,
                  error_message(e_owned));
  error_free(e_owned);
}

// ---- faults

// A framework may have opened the driver or a device that this worker did not.
static void look_at_all(void)
{
  const gpu_devices *found;
  const char *why;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (library == NULL)
    return;
  dlclose(library);
  error *e = gpu_devices_find(&found, &why);
  for (int device = 0; e == NULL && device < (int)found->count; device++)
    if (gpu_context_is_active(device)) {
      error_free(device_open(device)); // gpu_health learns from a dead context's answer
      gpu_health_tell(device, gpu_context_ask(device));
    }
  error_free(e);
}

bool device_fault(bool looks, char *text, size_t size)
{
  if (looks)
    look_at_all();
  if (gpu_driver_opened() == NULL)
    return false;
  for (int device = 0; device < MAX_GPUS; device++)
    if (gpu_health_of(device) != GPU_HEALTH_GOOD) {
      gpu_health_text(device, text, size);
      return true;
    }
  return false;
}

// device_stream(device): the handle of the stream on which a producer must make its tensor ready
static PyObject *stream_handle(PyObject *module, PyObject *args)
{
  (void)module;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device))
    return NULL;
  const gpu_stream *stream = device_stream(device);
  return stream == NULL ? NULL : PyLong_FromVoidPtr(stream->handle);
}

// device_check(): a text when a context of this process is dead
static PyObject *check(PyObject *module, PyObject *nothing)
{
  (void)module;
  (void)nothing;
  char text[256];
  if (device_fault(true, text, sizeof(text)))
    return PyUnicode_FromString(text);
  Py_INCREF(Py_None);
  return Py_None;
}

PyMethodDef device_functions[] = {
    {"device_stream", stream_handle, METH_VARARGS, "device_stream(device): the handle of a stream"},
    {"device_check", check, METH_NOARGS, "What is wrong with the devices in use, or None."},
    {NULL, NULL, 0, NULL}};
