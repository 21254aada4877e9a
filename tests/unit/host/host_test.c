// SPDX-License-Identifier: Apache-2.0
// What runs beside what in a model's own process (src/host): a cancellation and its batch come over
// two rings, and the server reads an answer while the instance is idle already. The server is the
// other end of the channels; no thread runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "channel_descriptor.h"
#include "host/host_state.h"

#include <stdlib.h>

typedef struct bench {
  model_host host;
  model model;
  channel *server, *server_ring; // its ends
  host_instance instance;
} bench;

static void unreferenced(request_target *target)
{
  (void)target;
}

static void new_channel(size_t size, channel **server, channel **process)
{
  assert_int_equal(channel_new(size, server), 0);
  assert_int_equal(channel_attach(channel_descriptor(*server), process), 0);
}

static int set_up(void **state)
{
  bench *b = calloc(1, sizeof(*b));
  assert_non_null(b);
  b->model.target.name = "played";
  b->model.target.unreferenced = unreferenced;
  refcount_init(&b->model.target.references);
  b->host.model = &b->model;
  pthread_mutex_init(&b->host.lock, NULL);
  list_init(&b->host.requests);
  list_init(&b->host.loans);
  b->instance.host = &b->host;
  new_channel(1 << 20, &b->server, &b->host.channel);
  new_channel(1, &b->server_ring, &b->instance.ring);
  *state = b;
  return 0;
}

static int tear_down(void **state)
{
  bench *b = *state;
  assert_true(list_is_empty(&b->host.requests));
  assert_int_equal(refcount_peek(&b->model.target.references), 1);
  free(b->instance.requests);
  free(b->instance.batch);
  buffer_fini(&b->instance.lent);
  channel_free(b->instance.ring);
  channel_free(b->server_ring);
  channel_free(b->host.channel);
  channel_free(b->server);
  pthread_mutex_destroy(&b->host.lock);
  free(b);
  return 0;
}

// A request without id, parameters, outputs and inputs.
static void put_request(buffer *to, uint64_t number)
{
  put_u64(to, number);
  put_text(to, "");
  put_u32(to, 0);
  put_u64(to, 0);
  put_text(to, "");
  put_u64(to, 0);
  for (int i = 0; i < 3; i++)
    put_u32(to, 0);
}

static void read_batch(bench *b, uint64_t first, uint32_t count)
{
  AUTO_BUFFER buffer control = BUFFER_EMPTY;
  uint32_t read;
  put_u32(&control, count);
  for (uint32_t i = 0; i < count; i++)
    put_request(&control, first + i);
  wire_reader reader = {.at = (uint8_t *)control.data,
                        .end = (uint8_t *)control.data + control.size};
  assert_null(host_requests_read(&b->instance, &reader, &read));
  assert_int_equal(read, count);
}

static bool is_cancelled(const bench *b, uint32_t index)
{
  return atomic_load(&b->instance.requests[index]->factory->cancelled);
}

static void end_batch(bench *b, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    host_request_take_back(b->instance.requests[i]);
    host_request_unref(b->instance.requests[i]);
  }
}

static void a_cancellation_may_overtake_its_batch(void **state)
{
  bench *b = *state;
  host_request_cancel(&b->host, 8);
  read_batch(b, 7, 3);
  assert_true(!is_cancelled(b, 0) && is_cancelled(b, 1) && !is_cancelled(b, 2));
  host_request_cancel(&b->host, 9); // which is known by now
  assert_true(!is_cancelled(b, 0) && is_cancelled(b, 2));
  end_batch(b, 3);
}

static void cancellations_of_requests_that_are_over_push_out_none_of_a_batch(void **state)
{
  bench *b = *state;
  enum {
    BATCH = 8
  };
  for (uint64_t number = 1; number <= 3 * HOST_EARLY_CANCELS; number++)
    host_request_cancel(&b->host, number); // the last ones are of the next batch
  read_batch(b, 3 * HOST_EARLY_CANCELS - BATCH + 1, BATCH);
  for (uint32_t i = 0; i < BATCH; i++)
    assert_true(is_cancelled(b, i));
  end_batch(b, BATCH);
}

static void an_answers_block_stays_while_the_server_reads_it(void **state)
{
  bench *b = *state;
  static const char text[] = "what became of the batch";
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  channel_message answer = {.kind = ISOLATED_EXECUTE}, read;
  size_t used, kept;
  buffer_append(&content, text, sizeof(text));
  assert_true(
      host_send(&b->host, b->instance.ring, CHANNEL_ANSWERS, &answer, &content, &b->instance.lent));
  assert_int_equal(channel_receive(b->server_ring, CHANNEL_ANSWERS, -1, &read), CHANNEL_MESSAGE);
  assert_false(host_instance_rest(&b->instance));
  channel_memory(b->host.channel, &used, &kept);
  assert_true(used > 0);
  assert_string_equal(channel_other(b->server, read.offset, read.size), text);
  channel_done(b->server_ring, CHANNEL_ANSWERS);
  assert_true(host_instance_rest(&b->instance));
  channel_memory(b->host.channel, &used, &kept);
  assert_int_equal(used, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_cancellation_may_overtake_its_batch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(
          cancellations_of_requests_that_are_over_push_out_none_of_a_batch, set_up, tear_down),
      cmocka_unit_test_setup_teardown(an_answers_block_stays_while_the_server_reads_it, set_up,
                                      tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
