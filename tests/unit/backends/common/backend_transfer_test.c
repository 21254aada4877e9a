// SPDX-License-Identifier: Apache-2.0
// The copies of an execution on a GPU: inputs in every place to the device, outputs from there to
// every place. The server's side is the test's own; the driver is played, or the machine's.
#include "backend_transfer.h"

#include "backend_copy.h"
#include "gpu/context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define REQUESTS 3
#define PIECES   2
#define MIB      ((size_t)1 << 20)

// ---- the server ----

static gpu_pool *pools[3]; // pinned memory, and two devices; NULL: refused

static gpu_pool **pool_of(TRITONSERVER_MemoryType type, int64_t id)
{
  return &pools[type == TRITONSERVER_MEMORY_GPU ? 1 + id : 0];
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager *manager,
                                                        void **buffer, TRITONSERVER_MemoryType type,
                                                        int64_t id, uint64_t size)
{
  gpu_pool *pool = *pool_of(type, id);
  (void)manager;
  if (pool == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "no pool");
  assert_null(gpu_pool_take(pool, size, buffer));
  return *buffer == NULL ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no room") : NULL;
}

TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *manager,
                                                    void *buffer, TRITONSERVER_MemoryType type,
                                                    int64_t id)
{
  (void)manager;
  gpu_pool_give_back(*pool_of(type, id), buffer);
  return NULL;
}

typedef struct input {
  backend_piece pieces[PIECES];
} input;

TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(TRITONBACKEND_Input *i,
                                                           const char *policy, uint32_t index,
                                                           const void **data, uint64_t *size,
                                                           TRITONSERVER_MemoryType *type,
                                                           int64_t *id)
{
  const backend_piece *piece = &((input *)i)->pieces[index];
  (void)policy;
  *data = piece->data;
  *size = piece->byte_size;
  *type = (TRITONSERVER_MemoryType)piece->place.kind;
  *id = piece->place.device;
  return NULL;
}

typedef struct response {
  backend_room room; // what an output is given
  TRITONSERVER_Error_Code code;
  char error[256];
} response;

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *r,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *dims,
                                                 uint32_t rank)
{
  (void)name, (void)type, (void)dims, (void)rank;
  *output = (TRITONBACKEND_Output *)r;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **data,
                                               uint64_t size, TRITONSERVER_MemoryType *type,
                                               int64_t *id)
{
  const backend_room *room = &((response *)output)->room;
  (void)size;
  assert_int_equal(*type, TRITONSERVER_MEMORY_GPU); // what is asked for
  assert_int_equal(*id, 0);
  *data = room->data;
  *type = (TRITONSERVER_MemoryType)room->place.kind;
  *id = room->place.device;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *r, const uint32_t flags,
                                               TRITONSERVER_Error *error)
{
  (void)flags;
  assert_non_null(error); // who succeeds is answered by backend_batch_finish
  ((response *)r)->code = TRITONSERVER_ErrorCode(error);
  snprintf(((response *)r)->error, sizeof(((response *)r)->error), "%s",
           TRITONSERVER_ErrorMessage(error));
  return NULL;
}

// ---- an instance on device 0, and a batch ----

typedef struct world {
  backend_device device;
  backend_transfer *transfer;
  backend_batch batch;
  TRITONBACKEND_Request *requests[REQUESTS];
  TRITONBACKEND_Response *answers[REQUESTS];
  response responses[REQUESTS];
  input inputs[REQUESTS];
  backend_input described[REQUESTS];
} world;

static const gpu_place places[] = {{.kind = GPU_MEMORY_HOST},
                                   {.kind = GPU_MEMORY_PINNED},
                                   {.kind = GPU_MEMORY_DEVICE, .device = 0},
                                   {.kind = GPU_MEMORY_DEVICE, .device = 1}};
enum {
  HOST,
  PINNED,
  HERE,
  THERE,
  PLACES
};

static world w;

static int set_up(void **state)
{
  (void)state;
  memset(&w, 0, sizeof(w));
  assert_null(gpu_context_hold(0));
  assert_null(gpu_context_hold(1));
  assert_null(gpu_pool_new(places[PINNED], 32 * MIB, &pools[0]));
  assert_null(gpu_pool_new(places[HERE], 32 * MIB, &pools[1]));
  assert_null(gpu_pool_new(places[THERE], 32 * MIB, &pools[2]));
  assert_null(gpu_stream_new(0, 0, &w.device.stream));
  assert_null(backend_transfer_new(&w.device, &w.transfer));
  w.batch = (backend_batch){.requests = w.requests, .count = REQUESTS, .responses = w.answers};
  for (int i = 0; i < REQUESTS; i++)
    w.answers[i] = (TRITONBACKEND_Response *)&w.responses[i];
  backend_transfer_begin(w.transfer, &w.batch);
  return 0;
}

static int tear_down(void **state)
{
  gpu_pool_counts counts;
  (void)state;
  backend_transfer_free(w.transfer);
  gpu_stream_free(w.device.stream);
  gpu_pool_free(w.device.spare);
  gpu_pool_count(pools[1], &counts);
  assert_int_equal(counts.used_bytes, 0); // what was taken is given back
  for (int i = 0; i < 3; i++) {
    gpu_pool_free(pools[i]);
    pools[i] = NULL;
  }
  backend_devices_leave();
  gpu_context_release(0);
  gpu_context_release(1);
  return 0;
}

static void *memory_at(int place, size_t size)
{
  void *memory = NULL;
  if (place == HOST)
    memory = malloc(size);
  else
    assert_null(gpu_pool_take(pools[place - PINNED], size, &memory));
  assert_non_null(memory);
  return memory;
}

static void give_back(int place, const void *memory)
{
  if (place == HOST)
    free((void *)memory);
  else
    gpu_pool_give_back(pools[place - PINNED], (void *)memory);
}

static char byte_at(size_t position)
{
  return (char)(position * 31 + position / 251);
}

// A piece at a place, of `size` bytes of which the first is number `first` of the tensor.
static backend_piece piece_at(int place, size_t first, size_t size)
{
  void *memory = memory_at(place, size);
  char *text = malloc(size);
  for (size_t i = 0; i < size; i++)
    text[i] = byte_at(first + i);
  assert_null(gpu_copy_now(memory, places[place], text, places[HOST], size, "test"));
  free(text);
  return (backend_piece){.data = memory, .byte_size = size, .place = places[place]};
}

static void describe(int request, uint32_t pieces)
{
  backend_input *d = &w.described[request];
  *d = (backend_input){
      .input = (TRITONBACKEND_Input *)&w.inputs[request], .name = "IN", .buffer_count = pieces};
  for (uint32_t i = 0; i < pieces; i++)
    d->byte_size += w.inputs[request].pieces[i].byte_size;
}

static void end(void)
{
  backend_transfer_close(w.transfer);
  while (!backend_transfer_end(w.transfer, 1000))
    ;
}

static void check_at(const void *memory, int place, size_t first, size_t size)
{
  char *text = malloc(size);
  assert_null(gpu_copy_now(text, places[HOST], memory, places[place], size, "test"));
  for (size_t i = 0; i < size; i++)
    assert_int_equal(text[i], byte_at(first + i));
  free(text);
}

// Not the server's.
void NEREID_GpuCopied(int direction, uint64_t bytes)
{
  gpu_copy_add((gpu_direction)direction, bytes);
}

static gpu_copy_counts counted(void)
{
  gpu_copy_counts counts;
  gpu_copy_count(&counts);
  return counts;
}

// ---- inputs ----

static void pieces_in_every_place_are_gathered_in_order(void **state)
{
  static const int at[REQUESTS][PIECES] = {{HOST, PINNED}, {HERE, HOST}, {THERE, HOST}};
  const void *data = NULL;
  size_t size = 0, first = 0;
  (void)state;
  for (int i = 0; i < REQUESTS; i++) {
    for (int k = 0; k < PIECES; k++) {
      w.inputs[i].pieces[k] = piece_at(at[i][k], first, (size_t)(100 + 7 * i + k));
      first += w.inputs[i].pieces[k].byte_size;
    }
    describe(i, PIECES);
  }
  assert_null(backend_transfer_gather(w.transfer, w.described, 1, &data, &size));
  assert_int_equal(size, first);
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at(data, HERE, 0, size);
  end();
  for (int i = 0; i < REQUESTS; i++)
    for (int k = 0; k < PIECES; k++)
      give_back(at[i][k], w.inputs[i].pieces[k].data);
}

static void pieces_of_plain_memory_are_one_copy(void **state)
{
  const void *data = NULL;
  size_t size = 0;
  (void)state;
  for (int i = 0; i < REQUESTS; i++) {
    for (int k = 0; k < PIECES; k++)
      w.inputs[i].pieces[k] = piece_at(HOST, (size_t)(2 * i + k) * 1000, 1000);
    describe(i, PIECES);
  }
  uint64_t before = counted().copies[GPU_COPY_TO_DEVICE];
  assert_null(backend_transfer_gather(w.transfer, w.described, 1, &data, &size));
  assert_int_equal(counted().copies[GPU_COPY_TO_DEVICE] - before, 1);
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at(data, HERE, 0, 6000);
  end();
  for (int i = 0; i < REQUESTS; i++)
    for (int k = 0; k < PIECES; k++)
      give_back(HOST, w.inputs[i].pieces[k].data);
}

static void what_is_there_already_is_not_copied_unless_it_must_be_aligned(void **state)
{
  const void *data = NULL;
  size_t size = 0;
  (void)state;
  backend_piece piece = w.inputs[1].pieces[0] = piece_at(HERE, 0, 1000);
  describe(1, 1); // the others do not have it
  gpu_copy_counts before = counted();
  assert_null(backend_transfer_gather(w.transfer, w.described, 256, &data, &size));
  assert_ptr_equal(data, piece.data);
  w.inputs[1].pieces[0].data = (const char *)piece.data + 1;
  w.inputs[1].pieces[0].byte_size = w.described[1].byte_size = 999;
  assert_null(backend_transfer_gather(w.transfer, w.described, 256, &data, &size));
  assert_ptr_not_equal(data, w.inputs[1].pieces[0].data);
  assert_int_equal((uintptr_t)data % 256, 0);
  gpu_copy_counts after = counted();
  assert_int_equal(after.copies[GPU_COPY_ON_DEVICE] - before.copies[GPU_COPY_ON_DEVICE], 1);
  assert_int_equal(after.copies[GPU_COPY_TO_DEVICE], before.copies[GPU_COPY_TO_DEVICE]);
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at(data, HERE, 1, 999);
  end();
  give_back(HERE, piece.data);
}

static void long_inputs_go_in_parts_with_pinned_memory_and_without(void **state)
{
  const void *data = NULL;
  size_t size = 0;
  gpu_pool *kept = pools[0];
  (void)state;
  w.inputs[0].pieces[0] = piece_at(HOST, 0, 9 * MIB + 5);
  describe(0, 1);
  uint64_t before = counted().copies[GPU_COPY_TO_DEVICE];
  assert_null(backend_transfer_gather(w.transfer, w.described, 1, &data, &size));
  assert_int_equal(counted().copies[GPU_COPY_TO_DEVICE] - before, 3);
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at(data, HERE, 0, size);
  pools[0] = NULL;
  assert_null(backend_transfer_gather(w.transfer, w.described, 1, &data, &size));
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at(data, HERE, 0, size);
  pools[0] = kept;
  end();
  give_back(HOST, w.inputs[0].pieces[0].data);
}

static void a_request_whose_data_is_not_what_was_said_fails_alone_and_is_zeros(void **state)
{
  const void *data = NULL;
  char zeros[100] = {0}, found[100];
  size_t size = 0;
  (void)state;
  for (int i = 0; i < REQUESTS; i++) {
    w.inputs[i].pieces[0] = piece_at(HOST, (size_t)i * 100, 100);
    describe(i, 1);
  }
  w.inputs[0].pieces[0].byte_size = 50;
  assert_null(backend_transfer_gather(w.transfer, w.described, 1, &data, &size));
  assert_null(gpu_stream_synchronize(w.device.stream));
  check_at((const char *)data + 100, HERE, 100, 200);
  assert_null(gpu_copy_now(found, places[HOST], data, places[HERE], 100, "test"));
  assert_memory_equal(found, zeros, 100);
  assert_non_null(w.batch.responses[0]); // answered at the end: its memory may be in use
  end();
  assert_null(w.batch.responses[0]);
  assert_string_equal(w.responses[0].error,
                      "input 'IN' has 50 bytes in its buffers, 100 were announced");
  assert_non_null(w.batch.responses[1]);
  assert_non_null(w.batch.responses[2]);
  for (int i = 0; i < REQUESTS; i++)
    give_back(HOST, w.inputs[i].pieces[0].data);
}

// ---- outputs ----

static void give(uint32_t request, int place, const char *from, size_t size)
{
  const int64_t dims[] = {(int64_t)size};
  w.responses[request].room = (backend_room){memory_at(place, size), places[place]};
  backend_transfer_output(w.transfer, request, "OUT", TRITONSERVER_TYPE_UINT8, dims, 1, from, size);
}

static void outputs_get_where_the_server_wants_them(void **state)
{
  (void)state;
  backend_piece all = piece_at(HERE, 0, 3000);
  for (int round = 0; round < PLACES; round++) {
    if (round > 0)
      backend_transfer_begin(w.transfer, &w.batch);
    for (int i = 0; i < REQUESTS; i++)
      give((uint32_t)i, (round + i) % PLACES, (const char *)all.data + 1000 * i, 1000);
    end();
    for (int i = 0; i < REQUESTS; i++) {
      check_at(w.responses[i].room.data, (round + i) % PLACES, (size_t)i * 1000, 1000);
      give_back((round + i) % PLACES, w.responses[i].room.data);
    }
  }
  give_back(HERE, all.data);
}

static void plain_outputs_side_by_side_are_one_copy(void **state)
{
  (void)state;
  backend_piece all = piece_at(HERE, 0, 3000);
  uint64_t before = counted().copies[GPU_COPY_TO_HOST];
  for (int i = 0; i < REQUESTS; i++)
    give((uint32_t)i, HOST, (const char *)all.data + 1000 * i, 1000);
  end();
  assert_int_equal(counted().copies[GPU_COPY_TO_HOST] - before, 1);
  for (int i = 0; i < REQUESTS; i++) {
    check_at(w.responses[i].room.data, HOST, (size_t)i * 1000, 1000);
    give_back(HOST, w.responses[i].room.data);
  }
  give_back(HERE, all.data);
}

static void an_output_without_memory_fails_by_name(void **state)
{
  const int64_t dims[] = {8};
  (void)state;
  backend_piece all = piece_at(HERE, 0, 8);
  w.responses[1].room = (backend_room){NULL, places[HOST]};
  backend_transfer_output(w.transfer, 1, "OUT", TRITONSERVER_TYPE_UINT8, dims, 1, all.data, 8);
  end();
  assert_string_equal(w.responses[1].error,
                      "OUT: attempted a copy of 8 Bytes to an uninitialized memory");
  assert_non_null(w.batch.responses[0]);
  give_back(HERE, all.data);
}

// They are one copy, of what is no memory of a device.
static void outputs_of_a_copy_that_fails_fail_by_their_own_names(void **state)
{
  static const char *const names[] = {"FIRST", "SECOND", "THIRD"};
  const int64_t dims[] = {8};
  (void)state;
  for (uint32_t i = 0; i < REQUESTS; i++) {
    w.responses[i].room = (backend_room){memory_at(HOST, 8), places[HOST]};
    backend_transfer_output(w.transfer, i, names[i], TRITONSERVER_TYPE_UINT8, dims, 1,
                            (const char *)4096 + (size_t)8 * i, 8);
  }
  end();
  for (uint32_t i = 0; i < REQUESTS; i++) {
    char wanted[64];
    snprintf(wanted, sizeof(wanted), "%s: failed to perform CUDA copy: ", names[i]);
    assert_int_equal(strncmp(w.responses[i].error, wanted, strlen(wanted)), 0);
    give_back(HOST, w.responses[i].room.data);
  }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      CASE(pieces_in_every_place_are_gathered_in_order),
      CASE(pieces_of_plain_memory_are_one_copy),
      CASE(what_is_there_already_is_not_copied_unless_it_must_be_aligned),
      CASE(long_inputs_go_in_parts_with_pinned_memory_and_without),
      CASE(a_request_whose_data_is_not_what_was_said_fails_alone_and_is_zeros),
      CASE(outputs_get_where_the_server_wants_them),
      CASE(plain_outputs_side_by_side_are_one_copy),
      CASE(an_output_without_memory_fails_by_name),
      CASE(outputs_of_a_copy_that_fails_fail_by_their_own_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
