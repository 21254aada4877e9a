// SPDX-License-Identifier: Apache-2.0
// Long messages are read by workers: what the loop does meanwhile, and what becomes of the call.
// The listener is one without threads (tests/fuzz/grpc_session): a worker comes when a test says
// so.
#include "../../../fuzz/grpc_session/client.h"
#include "../../../fuzz/grpc_session/core.h"
#include "../../../fuzz/grpc_session/listener.h"
#include "frontend/common/net/jobs.h"
#include "frontend/common/tensor/shared_memory.h"
#include "frontend/grpc/call/grpc_message.h"

#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define INFER        "/inference.GRPCInferenceService/ModelInfer"
#define STREAM_INFER "/inference.GRPCInferenceService/ModelStreamInfer"
#define LONG_COUNT   ((size_t)JOBS_LOOP_BYTES + 1)
#define SHORT_COUNT  ((size_t)16)
#define BUDGET       ((size_t)64 << 20)
#define MS           UINT64_C(1000000)

static shared_memory *memory;

static void begin_with(unsigned most_age_ms)
{
  memory = shared_memory_new(false, NULL);
  const listener_options options = {.max_connection_age_ms = most_age_ms,
                                    .max_ping_strikes = 2,
                                    .min_ping_interval_ms = 300000,
                                    .handshake_timeout_ms = 10000,
                                    .body_timeout_ms = 30000,
                                    .write_timeout_ms = 30000,
                                    .shared_memory = memory};
  listener_begin(&options, BUDGET, core_get());
}

static void begin(void)
{
  begin_with(0);
}

// Nothing may be left.
static void end(void)
{
  listener_end();
  shared_memory_free(memory);
}

static client join(void)
{
  client c;
  client_open(&c, SIZE_MAX, SIZE_MAX);
  client_greet(&c, true);
  return c;
}

static void send_infer(client *c, uint32_t stream, uint8_t flags, const char *id, size_t count,
                       bool typed, bool packed)
{
  AUTO_BUFFER buffer request = BUFFER_EMPTY, bytes = BUFFER_EMPTY, small = BUFFER_EMPTY;
  put_infer(&request, "identity", id, count, typed);
  slice text = buffer_view(&request);
  if (packed)
    assert_true(compress_parts(CODING_GZIP, 1, &text, 1, &small));
  put_message(&bytes, stream, flags, packed, packed ? buffer_view(&small) : text);
  client_send(c, buffer_view(&bytes));
}

static void open_call(client *c, const char *path, uint32_t stream, unsigned extras)
{
  AUTO_BUFFER buffer bytes = BUFFER_EMPTY;
  put_request(&bytes, path, extras, stream);
  client_send(c, buffer_view(&bytes));
}

static void call_infer(client *c, uint32_t stream, size_t count, bool typed)
{
  open_call(c, INFER, stream, 0);
  send_infer(c, stream, CLIENT_END_STREAM, "id", count, typed, false);
}

static const reply_stream *answer_of(client *c, uint32_t stream)
{
  return &c->replies.streams[stream / 2];
}

// The core may need its own threads. Nobody does jobs.
static void await_messages(client *c, uint32_t stream, size_t count)
{
  for (int i = 0; answer_of(c, stream)->messages < count || answer_of(c, stream)->missing > 0;
       i++) {
    assert_true(i < 10000);
    listener_wait();
    client_pass(c);
  }
}

static void await_end(client *c, uint32_t stream)
{
  for (int i = 0; !answer_of(c, stream)->ended; i++) {
    assert_true(i < 10000);
    listener_wait();
    client_pass(c);
  }
}

static void others_are_answered_while_a_worker_has_a_long_message(void **state)
{
  (void)state;
  begin();
  client slow = join(), other = join();
  call_infer(&slow, 1, LONG_COUNT, true);
  for (uint32_t stream = 1; stream < 9; stream += 2) {
    call_infer(&other, stream, SHORT_COUNT, false);
    await_end(&other, stream);
    call_infer(&slow, stream + 2, SHORT_COUNT, true); // on the same connection
    await_end(&slow, stream + 2);
  }
  assert_false(answer_of(&slow, 1)->begun);
  assert_true(listener_run_job());
  await_end(&slow, 1);
  assert_int_equal(answer_of(&slow, 1)->messages, 1);
  assert_true(slow.replies.bytes > LONG_COUNT * sizeof(int64_t));
  assert_false(listener_run_job());
  client_leave(&other);
  client_end(&slow);
  client_end(&other);
  end();
}

// Raw contents are not read, whatever their size.
static void the_loop_reads_what_is_not_long(void **state)
{
  (void)state;
  begin();
  client c = join();
  call_infer(&c, 1, SHORT_COUNT, true);
  call_infer(&c, 3, JOBS_LOOP_BYTES - 100, true);
  call_infer(&c, 5, LONG_COUNT, false);
  open_call(&c, INFER, 7, REQUEST_GZIP);
  send_infer(&c, 7, CLIENT_END_STREAM, "id", JOBS_LOOP_BYTES - 100, true, true);
  for (uint32_t stream = 1; stream < 9; stream += 2) {
    await_end(&c, stream);
    assert_int_equal(answer_of(&c, stream)->messages, 1);
  }
  assert_false(listener_run_job());
  client_end(&c);
  end();
}

// It is unpacked, and then read.
static void a_long_packed_message_goes_to_workers_twice(void **state)
{
  (void)state;
  begin();
  client slow = join(), other = join();
  open_call(&slow, INFER, 1, REQUEST_GZIP);
  send_infer(&slow, 1, CLIENT_END_STREAM, "id", LONG_COUNT, true, true);
  for (uint32_t stream = 1; stream < 5; stream += 2) {
    call_infer(&other, stream, SHORT_COUNT, false);
    await_end(&other, stream);
    assert_false(answer_of(&slow, 1)->begun);
    assert_true(listener_run_job());
    client_pass(&slow);
  }
  await_end(&slow, 1);
  assert_int_equal(answer_of(&slow, 1)->messages, 1);
  assert_false(listener_run_job());
  client_leave(&other);
  client_end(&slow);
  client_end(&other);
  end();
}

static const char *find(const buffer *text, const char *id)
{
  return memmem(text->data, text->size, id, strlen(id));
}

// Also those that came in the same piece; and the client need not have said all.
static void a_stream_goes_on_in_order_behind_a_long_message(void **state)
{
  (void)state;
  begin();
  client c = join();
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  c.replies.text = &text;
  open_call(&c, STREAM_INFER, 1, REQUEST_GZIP);
  send_infer(&c, 1, 0, "first", SHORT_COUNT, true, false);
  await_messages(&c, 1, 1);
  send_infer(&c, 1, 0, "second", LONG_COUNT, true, false);
  send_infer(&c, 1, 0, "third", SHORT_COUNT, true, false);
  send_infer(&c, 1, 0, "fourth", LONG_COUNT, true, true);
  send_infer(&c, 1, CLIENT_END_STREAM, "fifth", SHORT_COUNT, true, false);
  assert_int_equal(answer_of(&c, 1)->messages, 1);
  assert_true(listener_run_job());
  await_messages(&c, 1, 3);
  assert_false(answer_of(&c, 1)->ended);
  assert_true(listener_run_job()); // unpacked
  client_pass(&c);
  assert_int_equal(answer_of(&c, 1)->messages, 3);
  assert_true(listener_run_job()); // read
  await_end(&c, 1);
  assert_int_equal(answer_of(&c, 1)->messages, 5);
  assert_true(find(&text, "first") < find(&text, "second"));
  assert_true(find(&text, "second") < find(&text, "third"));
  assert_true(find(&text, "third") < find(&text, "fourth"));
  assert_true(find(&text, "fourth") < find(&text, "fifth"));
  client_end(&c);
  end();
}

static void reset(client *c)
{
  AUTO_BUFFER buffer bytes = BUFFER_EMPTY;
  put_frame(&bytes, NGHTTP2_RST_STREAM, 0, 1, (slice){"\0\0\0\x08", 4});
  client_send(c, buffer_view(&bytes));
}

static void let_the_deadline_pass(client *c)
{
  listener_advance(51 * MS);
  client_pass(c);
  assert_true(answer_of(c, 1)->ended);
}

// Whenever that is: at once, when it is unpacked, when it is read. Then the worker's end finds
// nobody, and another call is as ever.
static void calls_that_end_while_a_worker_has_their_message(void **state)
{
  (void)state;
  void (*const ways[])(client * c) = {client_leave, reset, let_the_deadline_pass};
  const char *const paths[] = {INFER, STREAM_INFER};
  for (size_t at = 0; at < 2 * 3 * 2; at++) {
    begin();
    client c = join();
    open_call(&c, paths[at % 2], 1, REQUEST_GZIP | REQUEST_TIMEOUT);
    if (at % 2 == 1)
      send_infer(&c, 1, 0, "held", SHORT_COUNT, true, false);
    send_infer(&c, 1, CLIENT_END_STREAM, "id", LONG_COUNT, true, true);
    if (at / 6 == 1) {
      assert_true(listener_run_job());
      client_pass(&c);
    }
    ways[at / 2 % 3](&c);
    assert_true(listener_run_job());
    client_pass(&c);
    if (c.fd >= 0) {
      call_infer(&c, 3, SHORT_COUNT, true);
      await_end(&c, 3);
    }
    client_end(&c);
    end();
  }
}

// What cannot be is told by the worker's hand as by the loop's.
static void long_messages_that_cannot_be_are_refused(void **state)
{
  (void)state;
  begin();
  client c = join();
  AUTO_BUFFER buffer text = BUFFER_EMPTY, packed = BUFFER_EMPTY, bytes = BUFFER_EMPTY;
  put_infer(&text, "identity", "id", LONG_COUNT, true);
  text.data[text.size - 1] = (char)0x80; // a number that goes on
  open_call(&c, INFER, 1, 0);
  put_message(&bytes, 1, CLIENT_END_STREAM, 0, buffer_view(&text));
  slice whole = buffer_view(&text);
  assert_true(compress_parts(CODING_GZIP, 1, &whole, 1, &packed));
  packed.data[packed.size - 1] ^= 1; // the length at its end is wrong
  client_send(&c, buffer_view(&bytes));
  bytes.size = 0;
  open_call(&c, INFER, 3, REQUEST_GZIP);
  put_message(&bytes, 3, CLIENT_END_STREAM, 1, buffer_view(&packed));
  client_send(&c, buffer_view(&bytes));
  assert_int_equal(c.replies.ended, 0);
  for (int jobs = 2; jobs > 0; jobs--)
    assert_true(listener_run_job());
  client_pass(&c);
  for (uint32_t stream = 1; stream < 5; stream += 2) {
    assert_true(answer_of(&c, stream)->ended);
    assert_int_equal(answer_of(&c, stream)->messages, 0);
  }
  client_end(&c);
  end();
}

// The timer of its age finds a connection that has failed in the same pass, and leaves it alone.
static void a_client_that_errs_when_its_connection_is_old_is_let_go(void **state)
{
  (void)state;
  begin_with(1000);
  client c = join();
  AUTO_BUFFER buffer bytes = BUFFER_EMPTY;
  for (int pings = 0; pings < 4; pings++)
    put_frame(&bytes, NGHTTP2_PING, 0, 0, SLICE("too soon"));
  listener_advance(1000 * MS);
  client_send(&c, buffer_view(&bytes));
  for (int passes = 0; passes < 3; passes++)
    client_pass(&c);
  char byte;
  assert_int_equal(recv(c.fd, &byte, 1, MSG_DONTWAIT), 0); // the end
  client_end(&c);
  end();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(others_are_answered_while_a_worker_has_a_long_message),
      cmocka_unit_test(the_loop_reads_what_is_not_long),
      cmocka_unit_test(a_long_packed_message_goes_to_workers_twice),
      cmocka_unit_test(a_stream_goes_on_in_order_behind_a_long_message),
      cmocka_unit_test(calls_that_end_while_a_worker_has_their_message),
      cmocka_unit_test(long_messages_that_cannot_be_are_refused),
      cmocka_unit_test(a_client_that_errs_when_its_connection_is_old_is_let_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
