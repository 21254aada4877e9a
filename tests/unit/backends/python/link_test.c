// SPDX-License-Identifier: Apache-2.0
// A link (process/worker_link.c): replies that find the ring full, and control parts. The worker's
// side of the channel is in this process.
#include "codec/protocol.h"
#include "gpu/context.h"
#include "process/worker_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum {
  SHARED = 1 << 20,
  MAX_KEPT = 1 << 16 // replies beside those in the ring
};

static worker_link *own;
static channel *theirs;

static int set_up(void **state)
{
  (void)state;
  assert_null(worker_link_new(SHARED, -1, &own));
  assert_int_equal(channel_attach(channel_descriptor(own->channel), &theirs), 0);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  channel_free(theirs);
  worker_link_unref(own);
  return 0;
}

// ---- replies

static void reply(uint64_t from, uint64_t to)
{
  for (uint64_t id = from; id < to; id++)
    worker_link_reply(own, &(channel_message){.kind = CALL_IS_CANCELLED, .id = id});
}

static void expect_replies(uint64_t from, uint64_t to)
{
  channel_message message;
  for (uint64_t id = from; id < to; id++) {
    assert_int_equal(channel_receive(theirs, CHANNEL_REPLIES, 0, &message), CHANNEL_MESSAGE);
    assert_int_equal(message.id, id);
    channel_done(theirs, CHANNEL_REPLIES);
  }
}

static void replies_that_find_the_ring_full_come_later_in_their_order(void **state)
{
  (void)state;
  channel_message none;
  const uint64_t slots = CHANNEL_RING_SLOTS;
  reply(0, slots);
  assert_false(worker_link_flush(own)); // all are in the ring
  reply(slots, slots + 10);
  assert_true(worker_link_flush(own)); // there is no room yet
  expect_replies(0, 4);
  reply(slots + 10, slots + 11); // not before those that were kept
  expect_replies(4, slots + 4);
  assert_false(worker_link_flush(own));
  expect_replies(slots + 4, slots + 11);
  assert_int_equal(channel_receive(theirs, CHANNEL_REPLIES, 0, &none), CHANNEL_TIMEOUT);
}

static void a_worker_that_reads_no_replies_is_cut_off(void **state)
{
  (void)state;
  channel_message none;
  channel *ours = own->channel;
  reply(0, CHANNEL_RING_SLOTS + MAX_KEPT);
  assert_int_equal(channel_receive(ours, CHANNEL_ANSWERS, 0, &none), CHANNEL_TIMEOUT);
  reply(0, 1);
  assert_int_equal(channel_receive(ours, CHANNEL_ANSWERS, 0, &none), CHANNEL_CLOSED);
  expect_replies(0, CHANNEL_RING_SLOTS); // what it has is its own; the rest goes with the link
}

static void a_link_lives_until_its_last_user_lets_go(void **state)
{
  (void)state;
  assert_ptr_equal(worker_link_ref(own), own);
  worker_link_unref(own);
  reply(0, 1);
  expect_replies(0, 1);
  worker_link_unref(NULL);
}

// The played driver ends a process that calls it on a loop.
static void *let_go_on_a_loop(void *last)
{
  pthread_setname_np(pthread_self(), "http-loop");
  worker_link_unref(last);
  return NULL;
}

static void memory_of_devices_goes_though_a_loop_lets_go_last(void **state)
{
  (void)state;
  int ends[2];
  worker_link *with_devices;
  device_range range;
  pthread_t loop;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  assert_null(worker_link_new(SHARED, ends[0], &with_devices));
  assert_true(device_share_take(worker_link_devices(with_devices), 0, 4096, &range));
  assert_true(gpu_context_is_active(0));
  assert_int_equal(pthread_create(&loop, NULL, let_go_on_a_loop, with_devices), 0);
  pthread_join(loop, NULL);
  device_share_await_retired();
  assert_false(gpu_context_is_active(0));
  close(ends[1]);
}

// ---- control parts

static channel_message their_part(const char *text)
{
  channel_message message = {.size = strlen(text)};
  assert_true(channel_allocate(theirs, message.size, &message.offset));
  memcpy(channel_own(theirs, message.offset), text, message.size);
  return message;
}

static void a_control_part_that_was_copied_cannot_be_changed_any_more(void **state)
{
  (void)state;
  control_part part;
  channel_message message = their_part("\1abc");
  assert_true(control_part_copy(&part, own, &message));
  memset(channel_own(theirs, message.offset), 'x', message.size);
  assert_int_equal(wire_get_u8(&part.reader), 1);
  assert_int_equal(part.reader.end - part.reader.at, 3);
  assert_memory_equal(part.reader.at, "abc", 3);
  control_part_fini(&part);
  assert_null(part.bytes);
}

static void a_message_without_a_control_part_has_an_empty_one(void **state)
{
  (void)state;
  control_part part;
  assert_true(control_part_copy(&part, own, &(channel_message){.offset = UINT64_MAX}));
  assert_int_equal(wire_get_u8(&part.reader), 0);
  assert_true(part.reader.bad);
  control_part_fini(&part);
}

static void a_control_part_beyond_the_region_or_too_long_is_refused(void **state)
{
  (void)state;
  control_part part;
  assert_false(control_part_copy(&part, own, &(channel_message){.offset = UINT64_MAX, .size = 2}));
  assert_false(control_part_copy(&part, own, &(channel_message){.size = MAX_PROTOCOL_CONTROL + 1}));
  control_part_fini(&part);
}

static void put_number(wire_writer *writer, const void *number)
{
  wire_put_u64(writer, *(const uint64_t *)number);
  wire_put_string(writer, "text");
  wire_put_string(writer, NULL);
}

static void a_control_part_is_written_where_the_worker_reads_it(void **state)
{
  (void)state;
  const uint64_t number = 7;
  channel_message message = {.id = 5};
  size_t length;
  assert_true(control_part_make(own, put_number, &number, &message));
  assert_int_equal(message.id, 5);
  const uint8_t *bytes = channel_other(theirs, message.offset, message.size);
  wire_reader reader = {.at = bytes, .end = bytes + message.size};
  assert_int_equal(wire_get_u64(&reader), 7);
  assert_memory_equal(wire_get_text(&reader, &length), "text", 4);
  wire_get_text(&reader, &length);
  assert_int_equal(length, 0);
  assert_false(reader.bad);
  assert_ptr_equal(reader.at, reader.end);
  assert_true(channel_release(own->channel, message.offset));
}

static void put_much(wire_writer *writer, const void *text)
{
  wire_put_text(writer, text, SHARED);
}

static void a_control_part_without_room_names_nothing(void **state)
{
  (void)state;
  channel_message message = {0};
  char *text = calloc(1, SHARED);
  assert_false(control_part_make(own, put_much, text, &message)); // beyond what may be shared
  assert_int_equal(message.size, 0);
  free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_of_devices_goes_though_a_loop_lets_go_last),
      TEST(replies_that_find_the_ring_full_come_later_in_their_order),
      TEST(a_worker_that_reads_no_replies_is_cut_off),
      TEST(a_link_lives_until_its_last_user_lets_go),
      TEST(a_control_part_that_was_copied_cannot_be_changed_any_more),
      TEST(a_message_without_a_control_part_has_an_empty_one),
      TEST(a_control_part_beyond_the_region_or_too_long_is_refused),
      TEST(a_control_part_is_written_where_the_worker_reads_it),
      TEST(a_control_part_without_room_names_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
