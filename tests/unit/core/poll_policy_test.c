// SPDX-License-Identifier: Apache-2.0
// What a poll does about one model: histories of looks with an injected clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/poll_policy.h"

static const poll_pace pace = {.settle_ns = 2, .first_retry_ns = 10, .last_retry_ns = 35};
static const poll_look absent = {0};

static poll_look with(uint64_t entries)
{
  return (poll_look){true, {.entries = entries, .targets = 1}};
}

// At *again, which is 0 where there is nothing to look at again.
static poll_verdict look(poll_memory *m, poll_look seen, uint64_t now, uint64_t *again)
{
  *again = 0;
  return poll_policy_decide(m, &seen, now, &pace, again);
}

#define EXPECT(verdict_, m, seen, now)                                                             \
  do {                                                                                             \
    uint64_t again_;                                                                               \
    assert_int_equal(look(m, seen, now, &again_), verdict_);                                       \
  } while (0)

static void what_has_not_changed_rests(void **state)
{
  (void)state;
  poll_memory m = {.taken = with(7)};
  for (uint64_t now = 1; now < 100; now++)
    EXPECT(POLL_REST, &m, with(7), now);
  poll_memory nothing = {0};
  EXPECT(POLL_REST, &nothing, absent, 1);
  EXPECT(POLL_REST, &nothing, absent, 100);
}

static void a_change_is_acted_on_when_two_looks_agree(void **state)
{
  (void)state;
  poll_memory m = {.taken = with(7)};
  uint64_t again;
  assert_int_equal(look(&m, with(8), 100, &again), POLL_LOOK_AGAIN);
  assert_int_equal(again, 102);
  assert_int_equal(look(&m, with(8), 101, &again), POLL_LOOK_AGAIN);
  assert_int_equal(again, 102);
  EXPECT(POLL_LOAD, &m, with(8), 102);
  EXPECT(POLL_REST, &m, with(8), 103);
  poll_policy_ended(&m, false, 104, &pace);
  EXPECT(POLL_REST, &m, with(8), 1000);
}

// However long it takes, and however far apart the looks are.
static void what_is_being_copied_waits(void **state)
{
  (void)state;
  poll_memory m = {0};
  for (uint64_t now = 1; now < 100; now++)
    EXPECT(POLL_LOOK_AGAIN, &m, with(now), now);
  for (uint64_t now = 100; now < 1000; now += 15)
    EXPECT(POLL_LOOK_AGAIN, &m, with(now), now);
  EXPECT(POLL_LOOK_AGAIN, &m, with(5), 1001);
  EXPECT(POLL_LOAD, &m, with(5), 1003);
}

static void what_comes_back_in_time_never_changed(void **state)
{
  (void)state;
  poll_memory m = {.taken = with(7)};
  EXPECT(POLL_LOOK_AGAIN, &m, absent, 10); // between two renames
  EXPECT(POLL_REST, &m, with(7), 11);
  EXPECT(POLL_REST, &m, with(7), 20);
  EXPECT(POLL_LOOK_AGAIN, &m, absent, 30);
  EXPECT(POLL_LOOK_AGAIN, &m, with(8), 31);
  EXPECT(POLL_LOAD, &m, with(8), 33);
}

static void what_is_gone_is_unloaded_once(void **state)
{
  (void)state;
  poll_memory m = {.taken = with(7)};
  EXPECT(POLL_LOOK_AGAIN, &m, absent, 10);
  EXPECT(POLL_UNLOAD, &m, absent, 12);
  EXPECT(POLL_REST, &m, absent, 14);
  EXPECT(POLL_LOOK_AGAIN, &m, with(7), 16);
  EXPECT(POLL_LOAD, &m, with(7), 18);
}

static void a_load_is_not_overtaken(void **state)
{
  (void)state;
  poll_memory m = {0};
  EXPECT(POLL_LOOK_AGAIN, &m, with(1), 10);
  EXPECT(POLL_LOAD, &m, with(1), 12);
  EXPECT(POLL_REST, &m, with(2), 14);
  EXPECT(POLL_REST, &m, absent, 16);
  EXPECT(POLL_REST, &m, with(3), 18);
  poll_policy_ended(&m, false, 19, &pace);
  EXPECT(POLL_LOAD, &m, with(3), 20); // settled meanwhile
}

static void a_failure_is_tried_again_ever_more_seldom(void **state)
{
  (void)state;
  poll_memory m = {0};
  static const uint64_t pauses[] = {10, 20, 35, 35, 35};
  EXPECT(POLL_LOOK_AGAIN, &m, with(1), 1);
  EXPECT(POLL_LOAD, &m, with(1), 3);
  uint64_t now = 3;
  for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
    poll_policy_ended(&m, true, now, &pace);
    EXPECT(POLL_REST, &m, with(1), now + pauses[i] - 1);
    EXPECT(POLL_LOAD, &m, with(1), now + pauses[i]);
    now += pauses[i];
  }
  poll_policy_ended(&m, false, now, &pace);
  EXPECT(POLL_REST, &m, with(1), now + 1000);
}

static void a_failure_is_tried_again_when_it_changes(void **state)
{
  (void)state;
  poll_memory m = {0};
  EXPECT(POLL_LOOK_AGAIN, &m, with(1), 1);
  EXPECT(POLL_LOAD, &m, with(1), 3);
  poll_policy_ended(&m, true, 3, &pace);
  EXPECT(POLL_LOOK_AGAIN, &m, with(2), 4);
  EXPECT(POLL_LOAD, &m, with(2), 6);
  poll_policy_ended(&m, true, 6, &pace);
  EXPECT(POLL_LOAD, &m, with(2), 16); // the first pause again
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_has_not_changed_rests),
      cmocka_unit_test(a_change_is_acted_on_when_two_looks_agree),
      cmocka_unit_test(what_is_being_copied_waits),
      cmocka_unit_test(what_comes_back_in_time_never_changed),
      cmocka_unit_test(what_is_gone_is_unloaded_once),
      cmocka_unit_test(a_load_is_not_overtaken),
      cmocka_unit_test(a_failure_is_tried_again_ever_more_seldom),
      cmocka_unit_test(a_failure_is_tried_again_when_it_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
