// SPDX-License-Identifier: Apache-2.0
// What a gRPC connection is made of: timers, deadlines, statuses, output.
#include "frontend/grpc/codec/status.h"
#include "frontend/grpc/transport/conn_timer.h"
#include "frontend/grpc/transport/output.h"
#include "frontend/grpc/transport/timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

// ---- timers ----

#define TIMERS 500

static conn_timer clocks[TIMERS];
static uint64_t last_fired_ns;
static size_t fired;

static void record_fired(conn_timer *elapsed)
{
  assert_true(elapsed->node.when_ns >= last_fired_ns);
  assert_false(conn_timer_is_set(elapsed));
  last_fired_ns = elapsed->node.when_ns;
  fired++;
}

// Sets, moves and cancels at random, beside a plain list of what is set.
static void timers_fire_in_order_however_they_are_moved(void **state)
{
  (void)state;
  conn_timers all = {0};
  unsigned seed = 42;
  for (size_t i = 0; i < TIMERS; i++)
    clocks[i] = (conn_timer){.fire = record_fired};
  for (int round = 0; round < 20000; round++) {
    conn_timer *t = &clocks[rand_r(&seed) % TIMERS];
    if (rand_r(&seed) % 3 == 0)
      conn_timer_cancel(&all, t);
    else
      conn_timer_set(&all, t, 1 + (uint64_t)rand_r(&seed) % 1000);
    uint64_t soonest = UINT64_MAX;
    for (size_t i = 0; i < TIMERS; i++)
      if (conn_timer_is_set(&clocks[i]) && clocks[i].node.when_ns < soonest)
        soonest = clocks[i].node.when_ns;
    assert_int_equal(conn_timers_next(&all), soonest);
  }
  size_t due = 0;
  for (size_t i = 0; i < TIMERS; i++)
    due += conn_timer_is_set(&clocks[i]) && clocks[i].node.when_ns <= 500;
  conn_timers_run(&all, 500);
  assert_int_equal(fired, due);
  assert_true(conn_timers_next(&all) > 500);
}

static conn_timers eager_timers;

static void set_in_the_past(conn_timer *elapsed)
{
  fired++;
  conn_timer_set(&eager_timers, elapsed, 1);
}

static void a_timer_that_is_set_in_the_past_leaves_the_loop_its_pass(void **state)
{
  (void)state;
  conn_timer eager = {.fire = set_in_the_past}, other = {.fire = record_fired};
  conn_timer_set(&eager_timers, &eager, 1);
  conn_timer_set(&eager_timers, &other, 2);
  fired = 0;
  last_fired_ns = 0;
  conn_timers_run(&eager_timers, 5);
  assert_int_equal(fired, 2);
  assert_false(conn_timer_is_set(&other));
  assert_int_equal(conn_timers_next(&eager_timers), 5);
  conn_timers_run(&eager_timers, 5);
  assert_int_equal(fired, 3);
}

// ---- deadlines ----

static void a_timeout_is_1_to_8_digits_and_a_unit(void **state)
{
  (void)state;
  const struct {
    slice text;
    uint64_t deadline;
  } rows[] = {
      {SLICE("1n"), 1001},
      {SLICE("2u"), 3000},
      {SLICE("3m"), 3001000},
      {SLICE("4S"), 4000001000},
      {SLICE("1M"), 60000001000},
      {SLICE("1H"), 3600000001000},
      {SLICE("00000001n"), 1001},
      {SLICE("0n"), 1000},
      {SLICE("123456789n"), 0},
      {SLICE("99999999H"), 0}, // beyond the clock's end
      {SLICE("n"), 0},
      {SLICE("1"), 0},
      {SLICE(""), 0},
      {SLICE("1x"), 0},
      {SLICE("-1n"), 0},
      {SLICE("+1n"), 0},
      {SLICE(" 1n"), 0},
      {SLICE("1.5S"), 0},
      {SLICE("1\0n"), 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    assert_int_equal(timeout_deadline(rows[i].text, 1000), rows[i].deadline);
}

// ---- statuses ----

static void a_status_text_is_printable(void **state)
{
  (void)state;
  char to[3 * 256];
  assert_int_equal(grpc_status_escape(SLICE("a b%\n\x80~"), to), 13);
  assert_memory_equal(to, "a b%25%0A%80~", 13);
}

static void each_byte_of_a_status_text_comes_back(void **state)
{
  (void)state;
  char all[256], to[3 * 256];
  for (int i = 0; i < 256; i++)
    all[i] = (char)i;
  size_t size = grpc_status_escape((slice){all, 256}, to), at = 0;
  for (int i = 0; i < 256; i++) {
    assert_true(at < size && to[at] >= 0x20 && to[at] < 0x7f);
    char digits[3] = {0};
    if (to[at] == '%') {
      memcpy(digits, to + at + 1, 2);
      assert_int_equal(strtoul(digits, NULL, 16), i);
      at += 3;
    } else {
      assert_int_equal(to[at++], i);
    }
  }
  assert_int_equal(at, size);
}

// ---- output ----

#define LONG_BYTES ((size_t)100 << 10)

// Short pieces and long ones in turn, to a socket that takes a little at a time.
static void output_arrives_in_order_and_once(void **state)
{
  (void)state;
  int ends[2];
  int small = 4096;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  conn_wire w;
  assert_true(conn_wire_init(&w, ends[0], NULL));
  char *large = malloc(LONG_BYTES);
  memset(large, 'L', LONG_BYTES);
  output_source held = {0}; // never freed: one reference is this function's
  refcount_init(&held.references);
  output o = {0};
  size_t sent = 0, received = 0;
  for (int i = 0; i < 50; i++) {
    assert_true(output_copy(&o, "0123456789", 10));
    assert_true(output_refer(&o, large, LONG_BYTES, &held));
    assert_true(output_refer(&o, "abc", 3, &held)); // short: copied
    sent += 13 + LONG_BYTES;
  }
  assert_int_equal(o.pending, sent);
  char buffer[10000];
  bool moved;
  while (received < sent) {
    assert_int_not_equal(output_write(&o, &w, &moved), OUTPUT_FAILED);
    ssize_t size = read(ends[1], buffer, sizeof(buffer));
    assert_true(size > 0);
    for (ssize_t i = 0; i < size; i++) {
      size_t place = (received + (size_t)i) % (13 + LONG_BYTES);
      char expected = place < 10                ? (char)('0' + place)
                      : place < 10 + LONG_BYTES ? 'L'
                                                : (char)('a' + place - 10 - LONG_BYTES);
      assert_int_equal(buffer[i], expected);
    }
    received += (size_t)size;
  }
  assert_int_equal(o.pending, 0);
  assert_int_equal(output_write(&o, &w, &moved), OUTPUT_EMPTY);
  output_fini(&o);
  close(ends[1]);
  assert_true(output_copy(&o, "x", 1));
  assert_int_equal(output_write(&o, &w, &moved), OUTPUT_FAILED);
  output_fini(&o);
  conn_wire_fini(&w);
  free(large);
}

#define WAITING_BYTES ((size_t)64 << 10)
#define PASSED_BYTES  ((size_t)8 << 20)

// A client that is always behind: 64 KiB wait before each write, and some after it.
static void output_that_is_never_empty_does_not_grow(void **state)
{
  (void)state;
  int ends[2];
  int small = 4096;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  conn_wire w;
  assert_true(conn_wire_init(&w, ends[0], NULL));
  static char large[OUTPUT_COPY_BYTES + 1], buffer[10000];
  memset(large, 'L', sizeof(large));
  output_source held = {0};
  refcount_init(&held.references);
  output o = {0};
  const size_t round = 10 + sizeof(large);
  for (size_t received = 0; received < PASSED_BYTES;) {
    while (o.pending < WAITING_BYTES) {
      assert_true(output_copy(&o, "0123456789", 10));
      assert_true(output_refer(&o, large, sizeof(large), &held));
    }
    bool moved;
    assert_int_equal(output_write(&o, &w, &moved), OUTPUT_BLOCKED);
    assert_true(o.pending > 0);
    ssize_t size = read(ends[1], buffer, sizeof(buffer));
    assert_true(size > 0);
    for (ssize_t i = 0; i < size; i++) {
      size_t place = (received + (size_t)i) % round;
      assert_int_equal(buffer[i], place < 10 ? (char)('0' + place) : 'L');
    }
    received += (size_t)size;
  }
  assert_in_range(o.capacity, 1, 256);       // of 4,000 segments
  assert_in_range(o.text.capacity, 1, 4096); // of 20,000 bytes
  output_fini(&o);
  close(ends[1]);
  conn_wire_fini(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(timers_fire_in_order_however_they_are_moved),
      cmocka_unit_test(a_timer_that_is_set_in_the_past_leaves_the_loop_its_pass),
      cmocka_unit_test(a_timeout_is_1_to_8_digits_and_a_unit),
      cmocka_unit_test(a_status_text_is_printable),
      cmocka_unit_test(each_byte_of_a_status_text_comes_back),
      cmocka_unit_test(output_arrives_in_order_and_once),
      cmocka_unit_test(output_that_is_never_empty_does_not_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
