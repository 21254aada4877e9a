// SPDX-License-Identifier: Apache-2.0
// Enqueues and ends the copies of an execution.
#include "backend_transfer.h"

#include "backend_copy.h"
#include "backend_error.h"
#include "gpu/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// A run of host memory is sent to the device when it reaches this length. The next part is copied
// to pinned memory meanwhile.
#define RUN_BYTES ((size_t)4 << 20)
#define LOOK_US   500000 // while a device does not finish, its health is checked this often

// Host memory that is not pinned, to be copied to or from the device.
typedef struct piece {
  char *host;
  size_t bytes;
  uint32_t request;
  const char *name;
} piece;

// Pieces that are adjacent on the device and not enqueued yet.
typedef struct run {
  gpu_direction direction;
  char *device;
  size_t bytes;
  piece *pieces;
  size_t count, capacity;
} run;

// A copy from pinned memory to its destination, done after the stream has finished.
typedef struct late_copy {
  void *to;
  const void *from;
  size_t bytes;
} late_copy;

typedef struct failure {
  uint32_t request;
  TRITONSERVER_Error *error; // owned
} failure;

typedef struct late_state {
  uint32_t request;
  TRITONBACKEND_State *state;
} late_state;

typedef enum transfer_stage {
  TRANSFER_IDLE,
  TRANSFER_OPEN,   // copies are enqueued
  TRANSFER_CLOSED, // its event is recorded, or there is nothing to wait for
} transfer_stage;

struct backend_transfer {
  backend_device *device;
  backend_batch *batch;
  gpu_event *event;
  transfer_stage stage;
  bool enqueued; // there is work that the event must wait for
  run run;
  TRITONSERVER_Error *failed; // fails all requests; owned
  // These lists keep their capacity.
  backend_block *blocks;
  size_t block_count, block_capacity;
  late_copy *copies;
  size_t copy_count, copy_capacity;
  failure *failures;
  size_t failure_count, failure_capacity;
  late_state *states;
  size_t state_count, state_capacity;
};

// Makes room for one more item; false: no memory.
static bool make_room(void *list, size_t count, size_t *capacity, size_t item_size)
{
  void **items = list;
  if (count < *capacity)
    return true;
  size_t more = *capacity == 0 ? 16 : 2 * *capacity;
  void *grown = reallocarray(*items, more, item_size);
  if (grown == NULL)
    return false;
  *items = grown;
  *capacity = more;
  return true;
}

#define MAKE_ROOM(list, count, capacity) make_room(&(list), (count), &(capacity), sizeof(*(list)))

TRITONSERVER_Error *backend_transfer_new(backend_device *device, backend_transfer **transfer)
{
  backend_transfer *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a model instance");
  self->device = device;
  TRITONSERVER_Error *error = backend_error_of(gpu_event_new(device->ordinal, &self->event));
  if (error == NULL)
    *transfer = self;
  else
    free(self);
  return error;
}

void backend_transfer_free(backend_transfer *self)
{
  if (self == NULL)
    return;
  assert(self->stage == TRANSFER_IDLE);
  gpu_event_free(self->event);
  free(self->run.pieces);
  free(self->blocks);
  free(self->copies);
  free(self->failures);
  free(self->states);
  free(self);
}

void backend_transfer_begin(backend_transfer *self, backend_batch *batch)
{
  assert(self->stage == TRANSFER_IDLE && self->block_count == 0);
  self->stage = TRANSFER_OPEN;
  self->batch = batch;
  self->enqueued = false;
  error *e = gpu_context_enter(self->device->ordinal);
  if (e != NULL)
    backend_transfer_fail_all(self, backend_error_of(e));
}

// ---- failures ----

void backend_transfer_fail_all(backend_transfer *self, TRITONSERVER_Error *error_owned)
{
  if (self->failed == NULL)
    self->failed = error_owned;
  else
    TRITONSERVER_ErrorDelete(error_owned);
}

void backend_transfer_fail(backend_transfer *self, uint32_t request,
                           TRITONSERVER_Error *error_owned)
{
  if (error_owned == NULL)
    return;
  if (!MAKE_ROOM(self->failures, self->failure_count, self->failure_capacity)) {
    backend_transfer_fail_all(self, error_owned);
    return;
  }
  self->failures[self->failure_count++] = (failure){request, error_owned};
}

// `copied`: the tensor's name in the copy's error, which is the first piece's.
static void fail_piece(backend_transfer *self, const piece *p, const error *cause,
                       const char *copied)
{
  const char *text = error_message(cause);
  const size_t length = strlen(copied);
  const bool has_name = strncmp(text, copied, length) == 0 && text[length] == ':';
  backend_transfer_fail(self, p->request,
                        backend_error((TRITONSERVER_Error_Code)error_get_code(cause), "%s%s",
                                      has_name ? p->name : "", has_name ? text + length : text));
}

// ---- memory ----

static bool keep_block(backend_transfer *self, const backend_block *block)
{
  if (!MAKE_ROOM(self->blocks, self->block_count, self->block_capacity))
    return false;
  self->blocks[self->block_count++] = *block;
  return true;
}

static void *take_pinned(backend_transfer *self, size_t bytes)
{
  backend_block block = backend_device_take_pinned(self->device, bytes);
  if (block.memory == NULL || keep_block(self, &block))
    return block.memory;
  backend_device_give_back(self->device, &block);
  return NULL;
}

TRITONSERVER_Error *backend_transfer_take(backend_transfer *self, size_t bytes, void **memory)
{
  backend_block block;
  BACKEND_RETURN_IF_ERROR(backend_device_take(self->device, bytes, &block));
  *memory = block.memory;
  if (keep_block(self, &block))
    return NULL;
  backend_device_give_back(self->device, &block);
  return backend_error_no_memory("a tensor");
}

// ---- copies ----

static const gpu_place host = {.kind = GPU_MEMORY_HOST};
static const gpu_place pinned = {.kind = GPU_MEMORY_PINNED};

static bool is_ours(const backend_transfer *self, gpu_place place)
{
  return place.kind == GPU_MEMORY_DEVICE && place.device == self->device->ordinal;
}

// Work that the device refused is not awaited: a lost device may never answer.
static error *note(backend_transfer *self, error *e)
{
  self->enqueued = self->enqueued || e == NULL;
  return e;
}

static TRITONSERVER_Error *fill_zeros(backend_transfer *self, void *to, size_t bytes)
{
  return backend_error_of(
      note(self, gpu_fill(to, self->device->ordinal, 0, bytes, self->device->stream)));
}

// After a failed copy the device must not keep old data there: a model may use it as indices.
static void clear(backend_transfer *self, void *to, size_t bytes)
{
  TRITONSERVER_Error *error = fill_zeros(self, to, bytes);
  if (error != NULL)
    backend_transfer_fail_all(self, error);
}

static error *enqueue(backend_transfer *self, void *to, gpu_place to_place, const void *from,
                      gpu_place from_place, size_t bytes, const char *name)
{
  bool done = false;
  return note(self,
              gpu_copy(to, to_place, from, from_place, bytes, self->device->stream, name, &done));
}

// Used without pinned memory: the driver copies, and this thread waits.
static void copy_piece(backend_transfer *self, const piece *p, char *device,
                       gpu_direction direction)
{
  const gpu_place ours = backend_device_place(self->device);
  AUTO_ERROR error *e = direction == GPU_COPY_TO_DEVICE
                            ? enqueue(self, device, ours, p->host, host, p->bytes, p->name)
                            : enqueue(self, p->host, host, device, ours, p->bytes, p->name);
  if (e == NULL)
    return;
  fail_piece(self, p, e, p->name);
  if (direction == GPU_COPY_TO_DEVICE)
    clear(self, device, p->bytes);
}

static void send_to_device(backend_transfer *self, char *staged)
{
  run *r = &self->run;
  size_t at = 0;
  for (size_t i = 0; i < r->count; i++) {
    memcpy(staged + at, r->pieces[i].host, r->pieces[i].bytes);
    at += r->pieces[i].bytes;
  }
  AUTO_ERROR error *e = enqueue(self, r->device, backend_device_place(self->device), staged, pinned,
                                r->bytes, r->pieces[0].name);
  if (e == NULL)
    return;
  for (size_t i = 0; i < r->count; i++)
    fail_piece(self, &r->pieces[i], e, r->pieces[0].name);
  clear(self, r->device, r->bytes);
}

static void fetch_from_device(backend_transfer *self, const char *staged)
{
  run *r = &self->run;
  AUTO_ERROR error *e = enqueue(self, (char *)staged, pinned, r->device,
                                backend_device_place(self->device), r->bytes, r->pieces[0].name);
  for (size_t i = 0, at = 0; i < r->count; at += r->pieces[i++].bytes) {
    const piece *p = &r->pieces[i];
    if (e != NULL)
      fail_piece(self, p, e, r->pieces[0].name);
    else if (MAKE_ROOM(self->copies, self->copy_count, self->copy_capacity))
      self->copies[self->copy_count++] = (late_copy){p->host, staged + at, p->bytes};
    else
      backend_transfer_fail(self, p->request, backend_error_no_memory("a tensor"));
  }
}

static void flush(backend_transfer *self)
{
  run *r = &self->run;
  char *staged = r->count == 0 ? NULL : take_pinned(self, r->bytes);
  if (staged == NULL)
    for (size_t i = 0, at = 0; i < r->count; at += r->pieces[i++].bytes)
      copy_piece(self, &r->pieces[i], r->device + at, r->direction);
  else if (r->direction == GPU_COPY_TO_DEVICE)
    send_to_device(self, staged);
  else
    fetch_from_device(self, staged);
  r->count = r->bytes = 0;
}

static void add_to_run(backend_transfer *self, gpu_direction direction, char *device,
                       const piece *p)
{
  run *r = &self->run;
  if (r->count > 0 && (r->direction != direction || r->device + r->bytes != device))
    flush(self);
  if (!MAKE_ROOM(r->pieces, r->count, r->capacity)) {
    flush(self);
    if (r->capacity == 0) {
      backend_transfer_fail(self, p->request, backend_error_no_memory("a tensor"));
      return;
    }
  }
  if (r->count == 0) {
    r->device = device;
    r->direction = direction;
  }
  r->pieces[r->count++] = *p;
  r->bytes += p->bytes;
}

// Sends long pieces in parts, so that the transfer starts before the last byte is staged.
static void add_to_device(backend_transfer *self, char *device, piece p)
{
  while (p.bytes > 0) {
    piece part = p;
    size_t room = RUN_BYTES - (self->run.direction == GPU_COPY_TO_DEVICE ? self->run.bytes : 0);
    if (part.bytes > room)
      part.bytes = room;
    add_to_run(self, GPU_COPY_TO_DEVICE, device, &part);
    if (self->run.bytes >= RUN_BYTES)
      flush(self);
    device += part.bytes;
    p.host += part.bytes;
    p.bytes -= part.bytes;
  }
}

static error *copy_direct(backend_transfer *self, void *to, gpu_place to_place, const void *from,
                          gpu_place from_place, size_t bytes, const char *name)
{
  flush(self);
  if (to_place.kind == GPU_MEMORY_DEVICE && !is_ours(self, to_place))
    RETURN_IF_ERROR(backend_device_reach(to_place.device));
  if (from_place.kind == GPU_MEMORY_DEVICE && !is_ours(self, from_place))
    RETURN_IF_ERROR(backend_device_reach(from_place.device));
  if (is_ours(self, to_place) || is_ours(self, from_place))
    return enqueue(self, to, to_place, from, from_place, bytes, name);
  return gpu_copy_now(to, to_place, from, from_place, bytes, name); // this stream is not needed
}

void backend_transfer_copy(backend_transfer *self, uint32_t request, void *to, gpu_place to_place,
                           const void *from, gpu_place from_place, size_t bytes, const char *name)
{
  assert(self->stage == TRANSFER_OPEN);
  if (bytes == 0)
    return;
  if (to == NULL || from == NULL) {
    backend_transfer_fail(
        self, request,
        backend_error_internal("%s: attempted a copy of %zu Bytes %s an uninitialized memory", name,
                               bytes, from == NULL ? "from" : "to"));
    return;
  }
  if (is_ours(self, to_place) && from_place.kind == GPU_MEMORY_HOST) {
    add_to_device(self, to, (piece){(char *)from, bytes, request, name});
    return;
  }
  if (is_ours(self, from_place) && to_place.kind == GPU_MEMORY_HOST) {
    add_to_run(self, GPU_COPY_TO_HOST, (char *)from, &(piece){to, bytes, request, name});
    return;
  }
  error *e = copy_direct(self, to, to_place, from, from_place, bytes, name);
  if (e != NULL && is_ours(self, to_place))
    clear(self, to, bytes);
  backend_transfer_fail(self, request, backend_error_of(e));
}

// ---- tensors ----

TRITONSERVER_Error *backend_transfer_zeros(backend_transfer *self, size_t bytes, const void **zeros)
{
  static const char nothing[1];
  void *memory;
  *zeros = nothing;
  if (bytes == 0)
    return NULL;
  BACKEND_RETURN_IF_ERROR(backend_transfer_take(self, bytes, &memory));
  *zeros = memory;
  return fill_zeros(self, memory, bytes);
}

static TRITONSERVER_Error *copy_input(backend_transfer *self, uint32_t request,
                                      const backend_input *input, char *to)
{
  uint64_t copied = 0;
  for (uint32_t i = 0; i < input->buffer_count; i++) {
    backend_piece p;
    BACKEND_RETURN_IF_ERROR(backend_input_piece(input, i, copied, &p));
    backend_transfer_copy(self, request, to + copied, backend_device_place(self->device), p.data,
                          p.place, p.byte_size, input->name);
    copied += p.byte_size;
  }
  return backend_input_complete(input, copied);
}

// As peek in backend_tensor.c, for the device.
static TRITONSERVER_Error *peek(const backend_transfer *self, const backend_input *input,
                                size_t alignment, const void **data)
{
  backend_piece p;
  *data = NULL;
  if (input->buffer_count != 1)
    return NULL;
  BACKEND_RETURN_IF_ERROR(backend_input_piece(input, 0, 0, &p));
  if (is_ours(self, p.place) && p.byte_size == input->byte_size &&
      (uintptr_t)p.data % alignment == 0)
    *data = p.data;
  return NULL;
}

TRITONSERVER_Error *backend_transfer_gather(backend_transfer *self, const backend_input *inputs,
                                            size_t alignment, const void **data, size_t *byte_size)
{
  static const char nothing[1];
  uint32_t first = 0;
  uint32_t present = backend_inputs_measure(self->batch, inputs, &first, byte_size);
  *data = nothing;
  if (*byte_size == 0)
    return NULL;
  if (present == 1) {
    BACKEND_RETURN_IF_ERROR(peek(self, &inputs[first], alignment, data));
    if (*data != NULL)
      return NULL;
  }
  void *gathered = NULL;
  BACKEND_RETURN_IF_ERROR(backend_transfer_take(self, *byte_size, &gathered));
  char *to = gathered;
  *data = gathered;
  for (uint32_t i = 0; i < self->batch->count; i++) {
    if (inputs[i].input == NULL)
      continue;
    TRITONSERVER_Error *error = copy_input(self, i, &inputs[i], to);
    if (error != NULL) {
      flush(self);
      clear(self, to, inputs[i].byte_size);
      backend_transfer_fail(self, i, error);
    }
    to += inputs[i].byte_size;
  }
  flush(self);
  return NULL;
}

void backend_transfer_output(backend_transfer *self, uint32_t request, const char *name,
                             TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                             const void *from, size_t byte_size)
{
  const gpu_place ours = backend_device_place(self->device);
  backend_room room;
  TRITONSERVER_Error *error = backend_batch_alive(self->batch, request)
                                  ? backend_output_ask(self->batch->responses[request], name,
                                                       datatype, dims, rank, byte_size, ours, &room)
                                  : backend_error_internal("the request has failed already");
  if (error == NULL)
    backend_transfer_copy(self, request, room.data, room.place, from, ours, byte_size, name);
  backend_transfer_fail(self, request, error);
}

void backend_transfer_state(backend_transfer *self, uint32_t request, const char *name,
                            TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                            const void *from, size_t byte_size)
{
  const gpu_place ours = backend_device_place(self->device);
  TRITONBACKEND_State *state = NULL;
  backend_room room;
  TRITONSERVER_Error *error = backend_state_ask(self->batch->requests[request], name, datatype,
                                                dims, rank, byte_size, ours, &state, &room);
  if (error == NULL && !MAKE_ROOM(self->states, self->state_count, self->state_capacity))
    error = backend_error_no_memory("a state");
  if (error == NULL) {
    self->states[self->state_count++] = (late_state){request, state};
    backend_transfer_copy(self, request, room.data, room.place, from, ours, byte_size, name);
  }
  backend_transfer_fail(self, request, error);
}

// ---- the end ----

void backend_transfer_expect(backend_transfer *self)
{
  assert(self->stage == TRANSFER_OPEN);
  self->enqueued = true;
}

void backend_transfer_close(backend_transfer *self)
{
  assert(self->stage == TRANSFER_OPEN);
  flush(self);
  self->stage = TRANSFER_CLOSED;
  if (!self->enqueued)
    return;
  error *e = gpu_event_record(self->event, self->device->stream);
  if (e == NULL)
    return;
  backend_transfer_fail_all(self, backend_error_of(e));
  self->enqueued = false;
  // No memory may be given back before the stream has finished; a dead stream has.
  error_free(gpu_stream_synchronize(self->device->stream));
}

// False: not finished yet. An error of the wait fails all requests.
static bool await_stream(backend_transfer *self, int64_t timeout_us)
{
  char text[256];
  while (self->enqueued) {
    bool done = false;
    int64_t slice = timeout_us < 0 || timeout_us > LOOK_US ? LOOK_US : timeout_us;
    error *e = gpu_event_wait(self->event, slice, &done);
    if (e != NULL) {
      backend_transfer_fail_all(self, backend_error_of(e));
      error_free(gpu_stream_synchronize(self->device->stream));
    } else if (!done && backend_device_fault(self->device, text, sizeof(text))) {
      backend_transfer_fail_all(self, backend_error_unavailable("%s", text));
    } else if (!done && timeout_us >= 0) {
      return false;
    } else if (!done) {
      continue;
    }
    self->enqueued = false;
  }
  return true;
}

static void update_states(backend_transfer *self)
{
  for (size_t i = 0; i < self->state_count; i++) {
    const late_state *s = &self->states[i];
    if (backend_batch_alive(self->batch, s->request)) {
      TRITONSERVER_Error *error = TRITONBACKEND_StateUpdate(s->state);
      if (error != NULL)
        backend_batch_fail(self->batch, s->request, error);
    }
  }
}

bool backend_transfer_end(backend_transfer *self, int64_t timeout_us)
{
  assert(self->stage == TRANSFER_CLOSED);
  if (!await_stream(self, timeout_us))
    return false;
  for (size_t i = 0; i < self->copy_count && self->failed == NULL; i++)
    memcpy(self->copies[i].to, self->copies[i].from, self->copies[i].bytes);
  for (size_t i = 0; i < self->failure_count; i++)
    backend_batch_fail(self->batch, self->failures[i].request, self->failures[i].error);
  if (self->failed != NULL)
    backend_batch_fail_all(self->batch, self->failed);
  update_states(self);
  for (size_t i = 0; i < self->block_count; i++)
    backend_device_give_back(self->device, &self->blocks[i]);
  self->failed = NULL;
  self->copy_count = self->failure_count = self->state_count = self->block_count = 0;
  self->stage = TRANSFER_IDLE;
  return true;
}
