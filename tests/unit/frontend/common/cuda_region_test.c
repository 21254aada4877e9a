// SPDX-License-Identifier: Apache-2.0
// Regions of clients in memory of a GPU (frontend/common/tensor/shared_memory.h): which spans are
// taken, who closes a region, and threads that register, use and unregister one name. The client is
// this program again, told by its argument to offer memory over its standard input.
#include "gpu_peer.h"
#include "gpu_testing.h"

#include "base/buffer.h"
#include "base/thread.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/tensor/shared_memory.h"
#include "gpu/ipc.h"
#include "gpu/pool.h"

#include <stdlib.h>
#include <unistd.h>

#define BYTES  ((size_t)1 << 20)
#define DEVICE TRITONSERVER_MEMORY_GPU

static char offering[] = "offer";

static peer client;
static unsigned char handle[64]; // of BYTES bytes, of seed 1

static slice the_handle(void)
{
  return (slice){(const char *)handle, sizeof(handle)};
}

// ---- the client ----

static int offer(void)
{
  gpu_pool *pool;
  void *memory;
  size_t offset;
  char end;
  unsigned char *bytes = malloc(BYTES);
  assert_good(gpu_pool_new(ON(0), BYTES, &pool));
  assert_good(gpu_pool_take(pool, BYTES, &memory));
  fill_bytes(bytes, BYTES, 1);
  assert_good(gpu_copy_now(memory, ON(0), bytes, HOST, BYTES, "x"));
  free(bytes);
  assert_good(gpu_ipc_export(0, memory, handle, &offset));
  assert_int_equal(offset, 0);
  send_message(STDIN_FILENO, handle, sizeof(handle), -1);
  receive_message(STDIN_FILENO, &end, 1, NULL);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
  return 0;
}

static int start_client(void **state)
{
  (void)state;
  char program[] = "/proc/self/exe", *const command[] = {program, offering, NULL};
  find_devices();
  return peer_start(&client, command) && receive_message(client.socket, handle, 64, NULL) ? 0 : 1;
}

static int end_client(void **state)
{
  (void)state;
  return peer_end(&client) ? 0 : 1;
}

// ---- the tests ----

static shared_memory *registry(jobs *jobs)
{
  shared_memory *m = shared_memory_new(true, jobs);
  assert_non_null(m);
  return m;
}

static void end_registry(shared_memory *m)
{
  shared_memory_forget_jobs(m);
  shared_memory_free(m);
  assert_false(gpu_context_is_active(0)); // nothing is open
}

static void assert_count(shared_memory *m, size_t expected)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  size_t count = 0;
  assert_good(shared_memory_print(m, DEVICE, NULL, false, &json));
  for (size_t i = 0; i < json.size; i++)
    count += json.data[i] == '{';
  assert_int_equal(count, expected);
}

static void spans_are_taken_iff_they_are_inside(void **state)
{
  (void)state;
  const uint64_t size = BYTES - 100;
  const uint64_t near[] = {0, 1, 50, size - 1, size, size + 1, BYTES, UINT64_MAX - 1, UINT64_MAX};
  const size_t count = sizeof(near) / sizeof(near[0]);
  unsigned char *there = malloc(BYTES), *wanted = malloc(BYTES);
  fill_bytes(wanted, BYTES, 1);
  shared_memory *m = registry(NULL);
  assert_good(shared_memory_register_cuda(m, "r", the_handle(), 0, size));
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < count; k++) {
      shared_span span;
      uint64_t at = near[i], bytes = near[k];
      bool inside = at < size && (unsigned __int128)at + bytes <= size;
      error *e = shared_memory_take(m, "r", at, bytes, &span);
      assert_int_equal(e == NULL, inside);
      error_free(e);
      if (!inside)
        continue;
      assert_int_equal(span.device, 0);
      assert_memory_equal(span.handle, handle, sizeof(handle));
      assert_good(shared_span_read(&span, there));
      assert_memory_equal(there, wanted + at, bytes);
      assert_good(shared_span_check(&span));
      shared_span_give_back(&span);
    }
  free(there);
  free(wanted);
  end_registry(m);
}

static void a_region_is_at_most_the_allocation(void **state)
{
  (void)state;
  shared_memory *m = registry(NULL);
  slice longer = {(const char *)handle, sizeof(handle) - 1};
  assert_error(shared_memory_register_cuda(m, "r", longer, 0, 1), ERROR_INVALID_ARG,
               "expected 64 bytes, got 63");
  assert_error(shared_memory_register_cuda(m, "r", the_handle(), 0, BYTES + 1), ERROR_INVALID_ARG,
               "failed to register shared memory region 'r': invalid args: its size");
  assert_error(shared_memory_register_cuda(m, "r", the_handle(), -1, 1), ERROR_INVALID_ARG,
               "region 'r' is on GPU -1");
  assert_error(shared_memory_register_cuda(m, "r", the_handle(), INT64_MAX, 1), ERROR_INVALID_ARG,
               "failed to register shared memory region: invalid args: ");
  assert_count(m, 0);
  assert_false(gpu_context_is_active(0));
  assert_good(shared_memory_register_cuda(m, "r", the_handle(), 0, BYTES)); // the name is free
  assert_good(shared_memory_register_cuda(m, "nothing", the_handle(), 0, 0));
  assert_count(m, 2);
  assert_good(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, NULL)); // none of that kind
  assert_count(m, 2);
  end_registry(m);
}

static void the_last_user_leaves_the_closing_to_a_job(void **state)
{
  (void)state;
  jobs *jobs;
  shared_span span;
  assert_good(jobs_new(&jobs));
  shared_memory *m = registry(jobs);
  for (int i = 0; i < 20; i++) {
    assert_good(shared_memory_register_cuda(m, "r", the_handle(), 0, BYTES));
    assert_good(shared_memory_take(m, "r", 0, 1, &span));
    assert_good(shared_memory_unregister(m, DEVICE, i % 2 == 0 ? "r" : NULL));
    assert_count(m, 1);
    shared_span_give_back(&span);
    assert_count(m, 0);
  }
  assert_good(shared_memory_register_cuda(m, "r", the_handle(), 0, BYTES));
  assert_good(shared_memory_take(m, "r", 0, 1, &span));
  assert_good(shared_memory_unregister(m, DEVICE, NULL));
  shared_memory_forget_jobs(m);
  jobs_free(jobs);              // which ends what was queued
  shared_span_give_back(&span); // who comes now closes it here
  end_registry(m);
}

#define THREADS 4
#define ROUNDS  300

typedef struct racer {
  shared_memory *m;
  size_t taken;
} racer;

static void *race(void *pointer)
{
  racer *r = pointer;
  char byte;
  for (int i = 0; i < ROUNDS || r->taken == 0; i++) {
    shared_span span;
    error_free(shared_memory_register_cuda(r->m, "r", the_handle(), 0, BYTES));
    error *e = shared_memory_take(r->m, "r", 0, 1, &span);
    if (e == NULL) {
      r->taken++;
      error_free(shared_memory_unregister(r->m, DEVICE, i % 2 ? NULL : "r"));
      assert_good(shared_span_read(&span, &byte));
      shared_span_give_back(&span);
    }
    error_free(e);
  }
  return NULL;
}

static void threads_register_use_and_unregister_one_name(void **state)
{
  (void)state;
  jobs *jobs;
  pthread_t threads[THREADS];
  racer racers[THREADS];
  assert_good(jobs_new(&jobs));
  shared_memory *m = registry(jobs);
  for (int i = 0; i < THREADS; i++) {
    racers[i] = (racer){m, 0};
    assert_good(thread_start(&threads[i], "racer", race, &racers[i]));
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_good(shared_memory_unregister(m, DEVICE, NULL));
  assert_count(m, 0);
  shared_memory_forget_jobs(m);
  jobs_free(jobs);
  end_registry(m);
}

int main(int argc, char **argv)
{
  if (argc > 1 && strcmp(argv[1], offering) == 0)
    return offer();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_are_taken_iff_they_are_inside),
      cmocka_unit_test(a_region_is_at_most_the_allocation),
      cmocka_unit_test(the_last_user_leaves_the_closing_to_a_job),
      cmocka_unit_test(threads_register_use_and_unregister_one_name),
  };
  return cmocka_run_group_tests(tests, start_client, end_client);
}
