// SPDX-License-Identifier: Apache-2.0
// The rate policy: Triton's rules in examples, and random histories of instances that come, ask,
// run, give up and go, each checked after every step. NEREID_HISTORIES says how many.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "errors.h"
#include "schedule/rate_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rate_member *grant_only(rate_policy *p)
{
  rate_member *m = rate_policy_grant(p);
  assert_null(rate_policy_grant(p));
  return m;
}

static void run(rate_policy *p, rate_member *m)
{
  rate_policy_ask(p, m);
  assert_ptr_equal(grant_only(p), m);
  rate_policy_release(p, m, true);
}

static rate_level found_level;
static size_t level_count;

static void note_level(void *name, const rate_level *level)
{
  level_count++;
  if (strcmp(level->name, name) == 0)
    found_level = *level;
}

static uint64_t maximum_of(const rate_policy *p, const char *name)
{
  found_level = (rate_level){0};
  level_count = 0;
  rate_policy_visit(p, note_level, (void *)name);
  return found_level.maximum;
}

// ---- examples ----

static void there_is_as_much_as_the_greediest_takes(void **state)
{
  (void)state;
  rate_policy p;
  rate_member small, great;
  const rate_wish two = {"r", 0, 2}, five = {"r", 0, 5};
  rate_policy_init(&p, NULL, 0);
  assert_null(rate_policy_join(&p, &small, 0, &two, 1));
  assert_int_equal(maximum_of(&p, "r"), 2);
  assert_null(rate_policy_join(&p, &great, 0, &five, 1));
  assert_int_equal(maximum_of(&p, "r"), 5);
  rate_policy_leave(&p, &great);
  assert_int_equal(maximum_of(&p, "r"), 2);
  rate_policy_leave(&p, &small);
  assert_int_equal(maximum_of(&p, "r"), 0);
  assert_int_equal(level_count, 0);
  rate_policy_fini(&p);
}

static void what_can_never_run_is_refused_and_changes_nothing(void **state)
{
  (void)state;
  const rate_supply given[] = {
      {"r", RATE_EACH_DEVICE, 3}, {"r", 1, 6}, {"g", 7, 2}, {"g", RATE_EACH_DEVICE, 1}};
  rate_policy p;
  rate_member m, other;
  rate_policy_init(&p, given, 4);
  const rate_wish four = {"r", 0, 4}, there = {"r", 1, 6}, shared = {"g", RATE_GLOBAL, 2},
                  unknown = {"x", 0, 1}, ambiguous = {"r", RATE_GLOBAL, 1};
  assert_refused(rate_policy_join(&p, &m, 0, &four, 1), ERROR_INVALID_ARG,
                 "Resource count for \"r\" is limited to 3 which will prevent scheduling of one or "
                 "more model instances, the minimum required count is 4");
  assert_refused(rate_policy_join(&p, &m, 0, &unknown, 1), ERROR_INVALID_ARG,
                 "Resource count for \"x\" is limited to 0 which will prevent scheduling of one or "
                 "more model instances, the minimum required count is 1");
  assert_null(rate_policy_join(&p, &m, 0, &there, 1));
  assert_refused(
      rate_policy_join(&p, &other, 0, &ambiguous, 1), ERROR_INVALID_ARG,
      "Resource \"r\" is present as both global and device-specific resource in the model "
      "configuration.");
  assert_null(rate_policy_join(&p, &other, 0, &shared, 1));
  assert_int_equal(maximum_of(&p, "r"), 6);
  assert_int_equal(maximum_of(&p, "g"), 2);
  assert_int_equal(level_count, 2);
  rate_policy_leave(&p, &m);
  rate_policy_leave(&p, &other);
  rate_policy_fini(&p);
}

static void of_two_wishes_for_one_resource_the_last_counts(void **state)
{
  (void)state;
  rate_policy p;
  rate_member m;
  const rate_wish wishes[] = {{"r", 0, 9}, {"r", 0, 2}};
  rate_policy_init(&p, NULL, 0);
  assert_null(rate_policy_join(&p, &m, 0, wishes, 2));
  assert_int_equal(maximum_of(&p, "r"), 2);
  run(&p, &m);
  rate_policy_leave(&p, &m);
}

static void who_has_priority_2_runs_half_as_often(void **state)
{
  (void)state;
  rate_policy p;
  rate_member often, seldom;
  const rate_wish one = {"r", 0, 1};
  int counts[2] = {0};
  rate_policy_init(&p, NULL, 0);
  assert_null(rate_policy_join(&p, &often, 0, &one, 1)); // 0 counts as 1
  assert_null(rate_policy_join(&p, &seldom, 2, &one, 1));
  rate_policy_ask(&p, &often);
  rate_policy_ask(&p, &seldom);
  for (int i = 0; i < 300; i++) {
    rate_member *m = grant_only(&p);
    counts[m == &seldom]++;
    rate_policy_release(&p, m, true);
    rate_policy_ask(&p, m);
  }
  assert_int_equal(counts[0], 200);
  assert_int_equal(counts[1], 100);
  rate_policy_withdraw(&p, &often);
  rate_policy_withdraw(&p, &seldom);
  rate_policy_leave(&p, &often);
  rate_policy_leave(&p, &seldom);
}

// A great one that waits keeps what it needs from those behind it, and only that.
static void who_is_first_is_not_passed_by_and_keeps_nobody_else(void **state)
{
  (void)state;
  const rate_supply given[] = {{"r", 0, 4}, {"s", 0, 1}};
  const rate_wish one = {"r", 0, 1}, four = {"r", 0, 4}, other = {"s", 0, 1};
  rate_policy p;
  rate_member running, great, small, elsewhere;
  rate_policy_init(&p, given, 2);
  assert_null(rate_policy_join(&p, &running, 1, &one, 1));
  assert_null(rate_policy_join(&p, &great, 1, &four, 1));
  assert_null(rate_policy_join(&p, &small, 1, &one, 1));
  assert_null(rate_policy_join(&p, &elsewhere, 1, &other, 1));
  rate_policy_ask(&p, &running);
  assert_ptr_equal(grant_only(&p), &running);
  rate_policy_ask(&p, &great);
  rate_policy_ask(&p, &small);
  assert_null(rate_policy_grant(&p)); // three are left, and kept for the great one
  rate_policy_ask(&p, &elsewhere);
  assert_ptr_equal(grant_only(&p), &elsewhere);
  rate_policy_release(&p, &running, true);
  assert_ptr_equal(grant_only(&p), &great);
  rate_policy_release(&p, &great, true);
  assert_ptr_equal(grant_only(&p), &small);
  rate_policy_release(&p, &small, false);
  rate_policy_release(&p, &elsewhere, true);
  rate_policy_leave(&p, &running);
  rate_policy_leave(&p, &great);
  rate_policy_leave(&p, &small);
  rate_policy_leave(&p, &elsewhere);
}

static void what_a_member_lacks_is_told(void **state)
{
  (void)state;
  rate_policy p;
  rate_member running, waiting;
  const rate_wish wishes[] = {{"a", 0, 1}, {"b", 0, 2}};
  rate_level level = {0};
  uint64_t wanted = 0;
  rate_policy_init(&p, NULL, 0);
  assert_null(rate_policy_join(&p, &running, 1, &wishes[1], 1));
  assert_null(rate_policy_join(&p, &waiting, 1, wishes, 2));
  assert_false(rate_policy_shortage(&waiting, &level, &wanted));
  rate_policy_ask(&p, &running);
  assert_ptr_equal(rate_policy_grant(&p), &running);
  rate_policy_ask(&p, &waiting);
  assert_null(rate_policy_grant(&p));
  assert_true(rate_policy_shortage(&waiting, &level, &wanted));
  assert_string_equal(level.name, "b");
  assert_int_equal(level.used, 2);
  assert_int_equal(level.maximum, 2);
  assert_int_equal(wanted, 2);
  rate_policy_withdraw(&p, &waiting);
  rate_policy_release(&p, &running, true);
  rate_policy_leave(&p, &running);
  rate_policy_leave(&p, &waiting);
  rate_policy_fini(&p);
}

static void who_is_new_does_not_keep_the_others_from_running(void **state)
{
  (void)state;
  rate_policy p;
  rate_member old, young;
  const rate_wish one = {"r", 0, 1};
  rate_policy_init(&p, NULL, 0);
  assert_null(rate_policy_join(&p, &old, 1, &one, 1));
  for (int i = 0; i < 100000; i++)
    run(&p, &old);
  assert_null(rate_policy_join(&p, &young, 1, &one, 1));
  rate_policy_ask(&p, &old);
  rate_policy_ask(&p, &young);
  int passed = 0;
  for (rate_member *m; (m = rate_policy_grant(&p)) == &young; passed++) {
    rate_policy_release(&p, m, true);
    rate_policy_ask(&p, m);
  }
  assert_in_range(passed, 1, RATE_CREDIT + 1);
  rate_policy_release(&p, &old, true);
  rate_policy_withdraw(&p, &young);
  rate_policy_leave(&p, &old);
  rate_policy_leave(&p, &young);
}

// ---- histories ----

#define MEMBERS   5
#define RESOURCES 3
#define STEPS     24

static uint64_t random_state;

static uint64_t random_below(uint64_t limit) // xorshift64*
{
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (random_state * UINT64_C(2685821657736338717)) % limit;
}

typedef struct history {
  rate_policy policy;
  rate_supply supplies[RESOURCES];
  uint64_t there[RESOURCES]; // by the supplies; 0 without
  rate_member members[MEMBERS];
  bool joined[MEMBERS];
  uint64_t takes[MEMBERS][RESOURCES];
  uint64_t asked_at[MEMBERS];
  uint64_t now;
} history;

static const char *const names[RESOURCES] = {"a", "b", "c"};

// What there is, by the rule in docs/scheduling.md.
static uint64_t available(const history *h, size_t r)
{
  uint64_t most = 0;
  for (size_t m = 0; m < MEMBERS; m++)
    if (h->joined[m] && h->takes[m][r] > most)
      most = h->takes[m][r];
  return h->policy.supply_count > 0 ? h->there[r] : most;
}

static uint64_t taken(const history *h, size_t r)
{
  uint64_t sum = 0;
  for (size_t m = 0; m < MEMBERS; m++)
    if (h->joined[m] && h->members[m].state == RATE_GRANTED)
      sum += h->takes[m][r];
  return sum;
}

static bool is_before(const history *h, size_t a, size_t b)
{
  const rate_member *left = &h->members[a], *right = &h->members[b];
  return left->pass != right->pass ? left->pass < right->pass : h->asked_at[a] < h->asked_at[b];
}

// Whether `m` could run beside what runs and what those before it need.
static bool could_run(const history *h, size_t m)
{
  for (size_t r = 0; r < RESOURCES; r++) {
    uint64_t kept = taken(h, r);
    for (size_t o = 0; o < MEMBERS; o++)
      if (o != m && h->joined[o] && h->members[o].state == RATE_WAITING && is_before(h, o, m))
        kept += h->takes[o][r];
    if (h->takes[m][r] > 0 && kept + h->takes[m][r] > available(h, r))
      return false;
  }
  return true;
}

// Each one that is granted is the first that could run; afterwards nobody is left that could.
static void grant_all(history *h)
{
  for (;;) {
    size_t first = MEMBERS;
    for (size_t m = 0; m < MEMBERS; m++)
      if (h->joined[m] && h->members[m].state == RATE_WAITING && could_run(h, m) &&
          (first == MEMBERS || is_before(h, m, first)))
        first = m;
    rate_member *granted = rate_policy_grant(&h->policy);
    if (granted != (first < MEMBERS ? &h->members[first] : NULL))
      fail_msg("granted %td, not %zu", granted != NULL ? granted - h->members : -1, first);
    if (granted == NULL)
      return;
    for (size_t r = 0; r < RESOURCES; r++)
      assert_true(taken(h, r) <= available(h, r) || h->takes[first][r] == 0);
  }
}

static void join(history *h, size_t m)
{
  rate_wish wishes[RESOURCES];
  size_t count = 0;
  bool possible = true;
  for (size_t r = 0; r < RESOURCES; r++) {
    h->takes[m][r] = random_below(4);
    if (h->takes[m][r] > 0)
      wishes[count++] = (rate_wish){names[r], RATE_GLOBAL, h->takes[m][r]};
    possible = possible && (h->policy.supply_count == 0 || h->takes[m][r] <= h->there[r]);
  }
  error *e = rate_policy_join(&h->policy, &h->members[m], (uint32_t)random_below(4), wishes, count);
  if ((e == NULL) != possible)
    fail_msg("joined: %d, possible: %d", e == NULL, possible);
  h->joined[m] = e == NULL;
  error_free(e);
}

static void step(history *h)
{
  size_t m = random_below(MEMBERS);
  h->now++;
  if (!h->joined[m]) {
    join(h, m);
  } else if (h->members[m].state == RATE_WAITING) {
    if (random_below(4) == 0)
      rate_policy_withdraw(&h->policy, &h->members[m]);
  } else if (h->members[m].state == RATE_GRANTED) {
    rate_policy_release(&h->policy, &h->members[m], random_below(8) > 0);
  } else if (random_below(8) == 0) {
    rate_policy_leave(&h->policy, &h->members[m]);
    h->joined[m] = false;
  } else {
    rate_policy_ask(&h->policy, &h->members[m]);
    h->asked_at[m] = h->now;
  }
  grant_all(h);
}

// Everybody who waits is served once those before it have run; then nothing is taken any more.
static void finish(history *h)
{
  for (size_t ended = 1; ended > 0;) {
    ended = 0;
    for (size_t m = 0; m < MEMBERS; m++)
      if (h->joined[m] && h->members[m].state == RATE_GRANTED) {
        rate_policy_release(&h->policy, &h->members[m], true);
        ended++;
      }
    grant_all(h);
  }
  for (size_t m = 0; m < MEMBERS; m++) {
    if (!h->joined[m])
      continue;
    assert_int_equal(h->members[m].state, RATE_IDLE); // nobody was forgotten
    rate_policy_leave(&h->policy, &h->members[m]);
  }
  level_count = 0;
  rate_policy_visit(&h->policy, note_level, (void *)"");
  assert_int_equal(level_count, 0);
  rate_policy_fini(&h->policy);
}

static void nothing_is_overdrawn_lost_or_out_of_order(void **state)
{
  (void)state;
  const char *wanted = getenv("NEREID_HISTORIES");
  size_t count = wanted != NULL ? strtoull(wanted, NULL, 10) : 20000;
  for (size_t seed = 1; seed <= count; seed++) {
    history h = {0};
    random_state = seed * UINT64_C(0x9E3779B97F4A7C15);
    bool supplied = random_below(2) == 0;
    for (size_t r = 0; r < RESOURCES; r++) {
      h.there[r] = 1 + random_below(6);
      h.supplies[r] = (rate_supply){names[r], RATE_EACH_DEVICE, h.there[r]};
    }
    rate_policy_init(&h.policy, h.supplies, supplied ? RESOURCES : 0);
    for (int i = 0; i < STEPS; i++)
      step(&h);
    finish(&h);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(there_is_as_much_as_the_greediest_takes),
      cmocka_unit_test(what_can_never_run_is_refused_and_changes_nothing),
      cmocka_unit_test(of_two_wishes_for_one_resource_the_last_counts),
      cmocka_unit_test(who_has_priority_2_runs_half_as_often),
      cmocka_unit_test(who_is_first_is_not_passed_by_and_keeps_nobody_else),
      cmocka_unit_test(what_a_member_lacks_is_told),
      cmocka_unit_test(who_is_new_does_not_keep_the_others_from_running),
      cmocka_unit_test(nothing_is_overdrawn_lost_or_out_of_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
