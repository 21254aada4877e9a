// SPDX-License-Identifier: Apache-2.0
// What of the heap's growth each load is given.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/load_memory.h"

static int64_t heap;

static int64_t heap_now(void)
{
  return heap;
}

static void a_load_alone_gets_what_it_added(void **state)
{
  (void)state;
  load_memory account;
  load_share load;
  heap = 1000;
  load_memory_init(&account, heap_now);
  heap = 5000; // nobody's
  load_memory_begin(&account, &load, 7000);
  heap = 5300;
  assert_int_equal(load_memory_end(&account, &load), 300);
  heap = 9000;
  load_memory_begin(&account, &load, 0);
  assert_int_equal(load_memory_end(&account, &load), 0);
}

static void loads_at_once_share_by_weight_while_they_run(void **state)
{
  (void)state;
  load_memory account;
  load_share small, large;
  heap = 0;
  load_memory_init(&account, heap_now);
  load_memory_begin(&account, &large, 2 * 1024);
  heap += 100;
  load_memory_begin(&account, &small, 0);
  heap += 400;
  assert_int_equal(load_memory_end(&account, &small), 100);
  heap += 50;
  assert_int_equal(load_memory_end(&account, &large), 100 + 300 + 50);
}

static void what_an_unload_frees_is_not_taken_from_a_load(void **state)
{
  (void)state;
  load_memory account;
  load_share load;
  heap = 10000;
  load_memory_init(&account, heap_now);
  load_memory_begin(&account, &load, 0);
  load_memory_begin_free(&account);
  heap += 700 - 4000;
  load_memory_end_free(&account, 4000);
  assert_int_equal(load_memory_end(&account, &load), 700);
}

static void while_an_unload_frees_a_load_has_at_least_its_files(void **state)
{
  (void)state;
  load_memory account;
  load_share load, other;
  heap = 10000;
  load_memory_init(&account, heap_now);
  load_memory_begin_free(&account);
  load_memory_begin(&account, &load, 600);
  heap += 700 - 4000;
  assert_int_equal(load_memory_end(&account, &load), 600);
  load_memory_begin(&account, &other, 10);
  heap += 50;
  assert_int_equal(load_memory_end(&account, &other), 50);
  load_memory_end_free(&account, 4000);
}

static void a_load_that_frees_more_than_it_takes_has_nothing(void **state)
{
  (void)state;
  load_memory account;
  load_share load;
  heap = 10000;
  load_memory_init(&account, heap_now);
  load_memory_begin(&account, &load, 0);
  heap -= 10;
  assert_int_equal(load_memory_end(&account, &load), 0);
}

static void the_process_account_sees_the_heap(void **state)
{
  (void)state;
  load_share load;
  load_memory_begin(load_memory_process(), &load, 0);
  volatile char *large = test_malloc(10 << 20);
  large[0] = 1;
  uint64_t added = load_memory_end(load_memory_process(), &load);
  test_free((void *)large);
  assert_in_range(added, 10 << 20, 11 << 20);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_load_alone_gets_what_it_added),
      cmocka_unit_test(loads_at_once_share_by_weight_while_they_run),
      cmocka_unit_test(what_an_unload_frees_is_not_taken_from_a_load),
      cmocka_unit_test(while_an_unload_frees_a_load_has_at_least_its_files),
      cmocka_unit_test(a_load_that_frees_more_than_it_takes_has_nothing),
      cmocka_unit_test(the_process_account_sees_the_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
