// SPDX-License-Identifier: Apache-2.0
// Which calls of a worker are known, what a reply looks like, and what stays when the worker goes
// (calls/calls.c).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "python_host.h"

static void only_calls_of_these_kinds_are_handled(void **state)
{
  (void)state;
  static const uint32_t others[] = {
      0, CALL_RESPONSE, CALL_RELEASE, CALL_LOG, CALL_IS_CANCELLED, CALL_INFER_WAIT + 1, UINT32_MAX};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(host_call(others[i], 1, 0, 0));
  for (uint32_t kind = CALL_INFER; kind <= CALL_INFER_WAIT; kind++)
    assert_true(host_call(kind, 1, 0, 0));
}

// A control part that lies beyond the worker's region is as one that is damaged.
static void a_call_with_a_part_that_is_not_there_is_answered(void **state)
{
  (void)state;
  const channel_message call = {
      .kind = CALL_FAMILY_NEW, .id = 5, .offset = UINT64_MAX - 8, .size = 16};
  assert_true(CALLS.handle(host.calls, &call));
  assert_failed_reply(5, TRITONSERVER_ERROR_INVALID_ARG,
                      "a call for a custom metric cannot be read");
}

static void write_long(wire_writer *writer, const void *what)
{
  (void)what;
  for (int i = 0; i < 4 << 18; i++) // more than the host's region may hold
    wire_put_u64(writer, 0);
}

static void a_reply_without_room_says_that_it_failed(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  calls_reply_part(host.calls, &(channel_message){.kind = CALL_METRIC_VALUE, .id = 7}, write_long,
                   NULL);
  assert_true(host_reply(&reply, &reader));
  assert_true(reply.id == 7 && reply.flags == (REPLY_FINAL | REPLY_FAILED) && reply.size == 0);
}

static void texts_end_where_they_end(void **state)
{
  (void)state;
  wire_writer *said = host_say();
  wire_put_string(said, "text");
  wire_put_string(said, "");
  wire_put_text(said, "a\0b", 3);
  wire_reader reader = {.at = host_bytes, .end = host_bytes + said->size};
  char *text = calls_text(&reader), *empty = calls_text(&reader);
  assert_string_equal(text, "text");
  assert_string_equal(empty, "");
  assert_false(reader.bad);
  assert_null(calls_text(&reader));
  assert_true(reader.bad);
  free(text);
  free(empty);
}

// What is under way holds the object, and the backend waits for it.
static void nobody_is_replied_to_after_the_end(void **state)
{
  (void)state;
  calls *held = calls_ref(host.calls);
  calls_reply(held, &(channel_message){.kind = CALL_METRIC_SET, .id = 3}, 8);
  assert_reply(3, 8);
  assert_false(CALLS.are_under_way(held));
  host_end_calls();
  calls_reply(held, &(channel_message){.kind = CALL_METRIC_SET, .id = 4}, 8);
  calls_reply_error(held, &(channel_message){.kind = CALL_METRIC_SET, .id = 5},
                    TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "late"));
  assert_no_reply();
  assert_int_equal(host.backend.users, 1);
  calls_unref(held);
  assert_int_equal(host.backend.users, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(only_calls_of_these_kinds_are_handled, host_begin, host_end),
      cmocka_unit_test_setup_teardown(a_call_with_a_part_that_is_not_there_is_answered, host_begin,
                                      host_end),
      cmocka_unit_test_setup_teardown(a_reply_without_room_says_that_it_failed, host_begin,
                                      host_end),
      cmocka_unit_test_setup_teardown(texts_end_where_they_end, host_begin, host_end),
      cmocka_unit_test_setup_teardown(nobody_is_replied_to_after_the_end, host_begin, host_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
