// SPDX-License-Identifier: Apache-2.0
// core/version_policy: shares are kept to the request, sequences stay, numbers of names are apart.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/version_policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const bool both[] = {true, true}, first[] = {true, false}, none[] = {false, false};

static version_rules split_of(uint32_t a, uint32_t b)
{
  version_rules split = {.items = {{.version = 3, .share = a}, {.version = 4, .share = b}},
                         .count = 2};
  return split;
}

static void each_gets_its_share_of_every_hundred(void **state)
{
  (void)state;
  version_rules split = split_of(90, 10);
  int since = 0, gap = 0;
  for (int round = 0; round < 5; round++) {
    int canaries = 0;
    for (int i = 0; i < 100; i++) {
      bool canary = version_policy_split(&split, both, (slice){0})->version == 4;
      canaries += canary;
      since = canary ? 0 : since + 1;
      gap = since > gap ? since : gap;
    }
    assert_int_equal(canaries, 10);
  }
  assert_int_equal(gap, 9); // spread: never ten of the other at once
}

static void who_is_not_ready_gets_none(void **state)
{
  (void)state;
  version_rules split = split_of(10, 90);
  for (int i = 0; i < 50; i++)
    assert_int_equal(version_policy_split(&split, first, (slice){0})->version, 3);
  assert_null(version_policy_split(&split, none, (slice){0}));
  int canaries = 0; // once it is ready it has its share, and does not catch up
  for (int i = 0; i < 100; i++)
    canaries += version_policy_split(&split, both, (slice){0})->version == 4;
  assert_in_range(canaries, 89, 91);
}

static void a_weight_of_zero_gets_none(void **state)
{
  (void)state;
  version_rules split = split_of(1, 0);
  for (int i = 0; i < 20; i++)
    assert_int_equal(version_policy_split(&split, both, (slice){0})->version, 3);
  const bool second[] = {false, true};
  assert_null(version_policy_split(&split, second, (slice){0}));
  assert_null(version_policy_split(&split, second, SLICE("sequence")));
  assert_null(version_policy_main(&split, second));
}

static void sequences_stay(void **state)
{
  (void)state;
  version_rules split = split_of(70, 30);
  int moved = 0, of_second = 0;
  for (int i = 0; i < 1000; i++) {
    char text[16];
    snprintf(text, sizeof(text), "s%d", i);
    int64_t version = version_policy_split(&split, both, slice_of(text))->version;
    assert_int_equal(version_policy_split(&split, both, slice_of(text))->version, version);
    int64_t alone = version_policy_split(&split, first, slice_of(text))->version;
    assert_int_equal(alone, 3);
    of_second += version == 4;
    moved += version == 3 && alone != 3;
  }
  assert_int_equal(moved, 0);
  assert_in_range(of_second, 240, 360);
  assert_int_equal(split.items[0].credit, 0); // they take nobody's turn
}

static void the_main_version_is_the_heaviest(void **state)
{
  (void)state;
  version_rules split = split_of(90, 10);
  assert_int_equal(version_policy_main(&split, both)->version, 3);
  split = split_of(10, 90);
  assert_int_equal(version_policy_main(&split, both)->version, 4);
  assert_int_equal(version_policy_main(&split, first)->version, 3);
  split = split_of(5, 5);
  assert_int_equal(version_policy_main(&split, both)->version, 4);
  assert_null(version_policy_main(&split, none));
}

static void shadows_get_their_share(void **state)
{
  (void)state;
  version_rule rule = {.version = 4, .share = 25000}; // 2.5 %
  int copies = 0;
  for (int i = 0; i < 2000; i++)
    copies += version_policy_shadows(&rule, 3, (slice){0});
  assert_int_equal(copies, 50);
  assert_false(version_policy_shadows(&(version_rule){.version = 4, .share = VERSION_SHARE_ALL}, 4,
                                      (slice){0})); // its own requests
  version_rule all = {.version = 4, .share = VERSION_SHARE_ALL};
  version_rule nothing = {.version = 4, .share = 0};
  for (int i = 0; i < 10; i++) {
    assert_true(version_policy_shadows(&all, 3, (slice){0}));
    assert_true(version_policy_shadows(&all, 3, SLICE("sequence")));
    assert_false(version_policy_shadows(&nothing, 3, (slice){0}));
    assert_false(version_policy_shadows(&nothing, 3, SLICE("sequence")));
  }
}

static void numbers_of_names_are_apart(void **state)
{
  (void)state;
  int64_t stable = version_number_of_label(SLICE("stable"));
  assert_int_equal(stable, version_number_of_label(SLICE("stable")));
  assert_int_not_equal(stable, version_number_of_label(SLICE("canary")));
  assert_true(version_number_is_label(stable) && version_chosen(stable) == 0);
  assert_false(version_number_is_label(-1) || version_number_is_label(VERSION_LATEST) ||
               version_number_is_label(3));
  const int64_t versions[] = {1, 4, ((int64_t)1 << 61) - 1};
  for (size_t i = 0; i < 3; i++) {
    int64_t number = version_number_of_choice(versions[i]);
    assert_true(number < -1 && !version_number_is_label(number));
    assert_int_equal(version_chosen(number), versions[i]);
  }
  assert_int_equal(version_number_of_choice(INT64_MAX), INT64_MAX);
  assert_int_equal(version_chosen(-1), 0);
  assert_int_equal(version_chosen(7), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_gets_its_share_of_every_hundred),
      cmocka_unit_test(who_is_not_ready_gets_none),
      cmocka_unit_test(a_weight_of_zero_gets_none),
      cmocka_unit_test(sequences_stay),
      cmocka_unit_test(the_main_version_is_the_heaviest),
      cmocka_unit_test(shadows_get_their_share),
      cmocka_unit_test(numbers_of_names_are_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
