// SPDX-License-Identifier: Apache-2.0
// The regions, by device. The watch thread receives the host's messages; they are used when a
// tensor needs them.
#include "device_region.h"

#include "native_device.h"
#include "native_region.h"

#include "base/thread.h"
#include "gpu/ipc.h"
#include "gpu/ranges.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEAST_ROOM   (2 << 20) // smallest request
#define MOST_DOUBLED (256 << 20)

// A message of the host that is not used yet.
typedef struct heard {
  struct heard *next;
  protocol_device said;
  int descriptor;
} heard;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all below
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static heard *first_heard;
static heard **last_heard = &first_heard;
// This worker's use of one region.
typedef struct own_region {
  gpu_region *region; // NULL: not mapped
  ranges *granted;
  size_t granted_bytes;
  bool is_asking; // a thread asks for room; guarded by `lock`
  bool is_broken; // a piece is missing: later pieces cannot be mapped
  bool is_told;   // the host knows that it cannot be mapped
  char why[200];
} own_region;

static own_region regions[MAX_GPUS];

// ---- the host's messages

void device_hear(const protocol_device *said, int descriptor)
{
  heard *made = malloc(sizeof(*made));
  if (made == NULL) { // the waiting thread must not wait for ever
    fputs("no memory for what the server says of a GPU\n", stderr);
    _exit(1);
  }
  *made = (heard){.said = *said, .descriptor = descriptor};
  pthread_mutex_lock(&lock);
  *last_heard = made;
  last_heard = &made->next;
  pthread_cond_broadcast(&arrived);
  pthread_mutex_unlock(&lock);
}

// With the lock held.
static heard **find_heard(int device, bool is_piece)
{
  assert(lock_is_held(&lock));
  for (heard **at = &first_heard; *at != NULL; at = &(*at)->next)
    if ((*at)->said.device == device && ((*at)->said.kind == DEVICE_PIECE) == is_piece)
      return at;
  return NULL;
}

// Waits for a piece, or an answer, for the device. The host sends pieces before the messages that
// need them.
static void await_heard(int device, bool is_piece)
{
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&lock);
  while (find_heard(device, is_piece) == NULL)
    pthread_cond_wait(&arrived, &lock);
  pthread_mutex_unlock(&lock);
  Py_END_ALLOW_THREADS;
}

// Takes the first one. NULL: another thread has taken it.
static heard *take_heard(int device, bool is_piece)
{
  pthread_mutex_lock(&lock);
  heard **at = find_heard(device, is_piece);
  heard *found = at == NULL ? NULL : *at;
  if (found != NULL && (*at = found->next) == NULL)
    last_heard = at;
  pthread_mutex_unlock(&lock);
  return found;
}

// ---- device numbers: the host uses those of its own environment

static const char VISIBLE[] = "CUDA_VISIBLE_DEVICES", ORDER[] = "CUDA_DEVICE_ORDER";
static char *visible_before, *order_before; // NULL: not set

static char *copy_of(const char *name)
{
  const char *value = getenv(name);
  return value == NULL ? NULL : strdup(value);
}

void device_keep_visible(void)
{
  visible_before = copy_of(VISIBLE);
  order_before = copy_of(ORDER);
}

static bool is_same(const char *a, const char *b)
{
  return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

// The name of device `number` in a list of visible devices.
static void name_in(const char *list, int number, char name[64])
{
  if (list == NULL) {
    snprintf(name, 64, "%d", number);
    return;
  }
  for (; number > 0 && list != NULL; number--)
    list = (list = strchr(list, ',')) == NULL ? NULL : list + 1;
  snprintf(name, 64, "%.*s", list == NULL ? 0 : (int)strcspn(list, ","), list == NULL ? "" : list);
}

static error *check_visible(int device)
{
  char before[64], now[64];
  const char *list = getenv(VISIBLE);
  if (is_same(list, visible_before) && is_same(getenv(ORDER), order_before))
    return NULL;
  name_in(visible_before, device, before);
  name_in(list, device, now);
  if (now[0] != '\0' && strcmp(before, now) == 0 && is_same(getenv(ORDER), order_before))
    return NULL;
  return error_new(ERROR_UNAVAILABLE, "the model has changed %s: GPU %d is another one for it",
                   VISIBLE, device);
}

// ---- regions

static error *open_region(int device)
{
  const gpu_devices *found;
  const char *why;
  own_region *self = &regions[device];
  if (self->region != NULL)
    return NULL;
  RETURN_IF_ERROR(check_visible(device));
  RETURN_IF_ERROR(device_open(device));
  RETURN_IF_ERROR(gpu_devices_find(&found, &why));
  return gpu_region_new(device, found->items[device].memory_bytes, &self->region);
}

// Maps pieces until the region has `end` bytes.
static error *map_to(int device, uint64_t end)
{
  own_region *self = &regions[device];
  RETURN_IF_ERROR(open_region(device));
  if (self->is_broken)
    return error_new(ERROR_UNAVAILABLE, "%s", self->why);
  while (gpu_region_bytes(self->region) < end) {
    await_heard(device, true);
    heard *piece = take_heard(device, true); // imported before another thread can take the GIL
    if (piece == NULL)
      continue;
    error *e = piece->said.offset == gpu_region_bytes(self->region)
                   ? gpu_region_import(self->region, piece->descriptor, piece->said.size)
                   : error_new(ERROR_INTERNAL, "a piece of GPU %d's memory is missing", device);
    close(piece->descriptor);
    free(piece);
    self->is_broken = e != NULL;
    RETURN_IF_ERROR(e);
  }
  return NULL;
}

// Makes the server send tensors in CPU memory from now on.
static void tell_unmapped(int device, error *e_owned)
{
  own_region *self = &regions[device];
  const size_t length = strlen(error_message(e_owned));
  snprintf(self->why, sizeof(self->why), "%s", error_message(e_owned));
  error_free(e_owned);
  channel_message message = {.kind = CALL_DEVICE_UNMAPPED, .flags = (uint32_t)device};
  region_loan loan = {0};
  uint64_t count;
  message.size = sizeof(uint32_t) + length;
  if (self->is_told || !channel_allocate(native_channel, message.size, &loan.offset))
    return;
  self->is_told = true;
  message.offset = loan.offset;
  wire_writer writer = {.to = channel_own(native_channel, loan.offset), .room = message.size};
  wire_put_text(&writer, self->why, strlen(self->why));
  message.size = writer.size;
  if (!region_send(CHANNEL_CALLS, &message, loan, &count))
    PyErr_Clear(); // the channel is closed: the process is about to end
}

void *device_map(int device, uint64_t offset, size_t size)
{
  error *e = device_is_possible(device) ? map_to(device, offset + size)
                                        : error_new(ERROR_INTERNAL, "there is no GPU %d", device);
  if (e == NULL)
    return (uint8_t *)gpu_region_base(regions[device].region) + offset;
  if (device_is_possible(device))
    tell_unmapped(device, e);
  else
    error_free(e);
  return NULL;
}

const char *device_why(int device)
{
  return device_is_possible(device) ? regions[device].why : "there is no such GPU";
}

bool device_is_shared(int device, const void *address, uint64_t *offset)
{
  if (!device_is_possible(device) || regions[device].region == NULL)
    return false;
  const uintptr_t base = (uintptr_t)gpu_region_base(regions[device].region);
  *offset = (uintptr_t)address - base;
  return (uintptr_t)address >= base && *offset < gpu_region_bytes(regions[device].region);
}

// ---- room for this worker's tensors

static error *ask_for_room(int device, size_t size)
{
  own_region *self = &regions[device];
  RETURN_IF_ERROR(open_region(device)); // ask only for memory that can be mapped
  size_t wanted = self->granted_bytes < MOST_DOUBLED ? self->granted_bytes : MOST_DOUBLED;
  wanted = wanted < size ? size : wanted;
  wanted = wanted < LEAST_ROOM ? LEAST_ROOM : wanted;
  wanted = (wanted + RANGES_ALIGNMENT - 1) & ~(size_t)(RANGES_ALIGNMENT - 1);
  const channel_message ask = {
      .kind = CALL_DEVICE_ROOM, .flags = (uint32_t)device, .value = wanted};
  if (!region_send_plain(CHANNEL_CALLS, &ask)) {
    PyErr_Clear();
    return error_new(ERROR_UNAVAILABLE, "the channel to the server is closed");
  }
  await_heard(device, false);
  heard *answer = take_heard(device, false); // no other thread asks
  error *e =
      answer->said.kind == DEVICE_GRANT
          ? map_to(device, answer->said.offset + answer->said.size)
          : error_new(ERROR_UNAVAILABLE, "%.*s", (int)sizeof(answer->said.text), answer->said.text);
  if (e == NULL && self->granted == NULL)
    e = ranges_new(&self->granted);
  if (e == NULL)
    e = ranges_add(self->granted, (uintptr_t)gpu_region_base(self->region) + answer->said.offset,
                   answer->said.size);
  if (e == NULL)
    self->granted_bytes += answer->said.size;
  free(answer);
  return e;
}

// Only one thread asks at a time.
static void begin_asking(own_region *self)
{
  Py_BEGIN_ALLOW_THREADS;
  pthread_mutex_lock(&lock);
  while (self->is_asking)
    pthread_cond_wait(&arrived, &lock);
  self->is_asking = true;
  pthread_mutex_unlock(&lock);
  Py_END_ALLOW_THREADS;
}

static void end_asking(own_region *self)
{
  pthread_mutex_lock(&lock);
  self->is_asking = false;
  pthread_cond_broadcast(&arrived);
  pthread_mutex_unlock(&lock);
}

static error *take_granted(own_region *self, size_t size, uintptr_t *address)
{
  *address = 0;
  return self->granted == NULL ? NULL : ranges_take(self->granted, size, address);
}

static error *take_room(int device, size_t size, uintptr_t *address)
{
  own_region *self = &regions[device];
  RETURN_IF_ERROR(take_granted(self, size, address));
  if (*address != 0)
    return NULL;
  begin_asking(self);
  error *e = take_granted(self, size, address); // the thread that asked before may have left some
  if (e == NULL && *address == 0)
    e = ask_for_room(device, size);
  if (e == NULL && *address == 0)
    e = take_granted(self, size, address);
  end_asking(self);
  return e;
}

void *device_take(int device, size_t size)
{
  uintptr_t address = 0;
  if (!device_is_possible(device) || regions[device].is_told)
    return NULL;
  error *e = take_room(device, size, &address);
  if (e != NULL && (regions[device].region == NULL || regions[device].is_broken))
    tell_unmapped(device, e);
  else
    error_free(e);
  return (void *)address;
}

void device_give_back(int device, void *address)
{
  ranges_give_back(regions[device].granted, (uintptr_t)address);
}

static PyObject *check(PyObject *module, PyObject *args)
{
  (void)module;
  int device;
  if (!PyArg_ParseTuple(args, "i", &device))
    return NULL;
  error *e = device_is_possible(device) ? check_visible(device) : NULL;
  if (e != NULL)
    tell_unmapped(device, e);
  Py_INCREF(Py_None);
  return Py_None;
}

PyMethodDef device_region_functions[] = {
    {"check_visible", check, METH_VARARGS,
     "check_visible(device): tells the server if that number means another device here"},
    {NULL, NULL, 0, NULL}};
