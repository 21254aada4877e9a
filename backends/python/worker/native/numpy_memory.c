// SPDX-License-Identifier: Apache-2.0
// The memory functions for NumPy's arrays, and how they are installed.
#include "numpy_memory.h"

#include "fork.h"

#include <assert.h>
#include <string.h>

// NumPy's, from numpy/ndarraytypes.h.
typedef struct data_allocator {
  void *context;
  void *(*allocate)(void *context, size_t size);
  void *(*allocate_zeroed)(void *context, size_t count, size_t size);
  void *(*reallocate)(void *context, void *memory, size_t size);
  void (*release)(void *context, void *memory, size_t size);
} data_allocator;

typedef struct data_handler {
  char name[127];
  uint8_t version;
  data_allocator allocator;
} data_handler;

#define SET_HANDLER 304 // indices in numpy's table of functions
#define GET_HANDLER 305
#define MIN_BYTES   (64 << 10)        // smaller arrays are cheaper to copy
#define MAX_ZEROED  (64 << 20)        // larger zeroed arrays may be meant to stay untouched
#define HEAD        CHANNEL_ALIGNMENT // before the data

// The head before the data. No other process writes to this region.
typedef struct array_head {
  size_t size;
  fork_piece piece;
} array_head;

static_assert(sizeof(array_head) <= HEAD, "the head has no room");

static data_allocator usual; // NumPy's own, for all other arrays

// Any thread may call the functions below, with or without the GIL, as the channel's functions.

static void *take(size_t size)
{
  uint64_t offset;
  if (size < MIN_BYTES || size > SIZE_MAX - HEAD ||
      !channel_allocate(native_channel, size + HEAD, &offset))
    return NULL;
  uint8_t *block = channel_own(native_channel, offset);
  array_head *head = (array_head *)block;
  head->size = size;
  fork_track(&head->piece, block, size + HEAD);
  return block + HEAD;
}

// The head of an array in the region; NULL for others.
static array_head *head_of(void *memory)
{
  uint64_t offset;
  if (!channel_is_own(native_channel, memory, &offset))
    return NULL;
  return (array_head *)((uint8_t *)memory - HEAD);
}

static void give_back(array_head *head)
{
  uint64_t offset;
  fork_untrack(&head->piece);
  channel_is_own(native_channel, head, &offset);
  channel_release(native_channel, offset);
}

static void *allocate(void *context, size_t size)
{
  (void)context;
  void *taken = take(size);
  return taken != NULL ? taken : usual.allocate(usual.context, size);
}

static void *allocate_zeroed(void *context, size_t count, size_t size)
{
  (void)context;
  size_t total;
  if (__builtin_mul_overflow(count, size, &total) || total > MAX_ZEROED)
    return usual.allocate_zeroed(usual.context, count, size);
  void *taken = take(total);
  return taken != NULL ? memset(taken, 0, total)
                       : usual.allocate_zeroed(usual.context, count, size);
}

static void release(void *context, void *memory, size_t size)
{
  (void)context;
  array_head *head = head_of(memory);
  if (head != NULL)
    give_back(head);
  else
    usual.release(usual.context, memory, size);
}

static void *reallocate(void *context, void *memory, size_t size)
{
  array_head *head = head_of(memory);
  if (head == NULL)
    return usual.reallocate(usual.context, memory, size);
  void *moved = allocate(context, size);
  if (moved == NULL)
    return NULL;
  memcpy(moved, memory, head->size < size ? head->size : size);
  give_back(head);
  return moved;
}

static data_handler handler = {
    .name = "nereid",
    .version = 1,
    .allocator = {NULL, allocate, allocate_zeroed, reallocate, release},
};

// place_arrays(numpy's _ARRAY_API): installs the functions in this context, i.e. this thread
static PyObject *place_arrays(PyObject *module, PyObject *table)
{
  (void)module;
  void **functions = PyCapsule_GetPointer(table, NULL);
  if (functions == NULL)
    return NULL;
  PyObject *(*get)(void) = (PyObject * (*)(void)) functions[GET_HANDLER];
  PyObject *(*set)(PyObject *) = (PyObject * (*)(PyObject *)) functions[SET_HANDLER];
  PyObject *present = get();
  const data_handler *known = present == NULL ? NULL : PyCapsule_GetPointer(present, "mem_handler");
  bool is_usual = known != NULL && known != &handler && known->version == 1;
  if (is_usual)
    usual = known->allocator; // NumPy's own lives for ever
  Py_XDECREF(present);
  if (PyErr_Occurred())
    return NULL;
  if (is_usual) {
    PyObject *capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    PyObject *before = capsule == NULL ? NULL : set(capsule);
    Py_XDECREF(capsule);
    if (before == NULL)
      return NULL;
    Py_DECREF(before);
  }
  return PyBool_FromLong(is_usual);
}

PyMethodDef numpy_memory_functions[] = {
    {"place_arrays", place_arrays, METH_O,
     "place_arrays(_ARRAY_API): large arrays lie in the memory shared with the server."},
    {NULL, NULL, 0, NULL}};
