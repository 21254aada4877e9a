// The table of open requests: handles that a worker makes up, generations, and threads that want
// the same request.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "instance/request_table.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  MANY = 1000
};

static open_request numbered(uint64_t number)
{
  return (open_request){.exec_start_ns = number};
}

static uint64_t add_unused(request_table *table, uint64_t number)
{
  uint64_t handle;
  open_request request = numbered(number);
  assert_true(request_table_add(table, &request, 1, &handle));
  request_table_end(table, handle, false);
  return handle;
}

static void a_handle_finds_its_request_until_that_is_closed(void **state)
{
  (void)state;
  request_table table;
  open_request found;
  request_table_init(&table);
  uint64_t handles[MANY];
  for (uint64_t i = 0; i < MANY; i++)
    handles[i] = add_unused(&table, i);
  assert_int_equal(table.open_count, MANY);
  for (uint64_t i = 0; i < MANY; i++) {
    assert_true(request_table_begin(&table, handles[i], &found));
    assert_int_equal(found.exec_start_ns, i);
    request_table_end(&table, handles[i], true);
    assert_false(request_table_begin(&table, handles[i], &found));
  }
  assert_int_equal(table.open_count, 0);
  request_table_fini(&table);
}

static void who_uses_a_request_can_change_it(void **state)
{
  (void)state;
  request_table table;
  open_request found, changed = numbered(7);
  request_table_init(&table);
  uint64_t first = add_unused(&table, 1), second = add_unused(&table, 2);
  assert_true(request_table_begin(&table, first, &found));
  request_table_change(&table, first, &changed);
  request_table_end(&table, first, false);
  assert_true(request_table_begin(&table, first, &found));
  assert_int_equal(found.exec_start_ns, 7);
  request_table_end(&table, first, true);
  assert_true(request_table_begin(&table, second, &found));
  assert_int_equal(found.exec_start_ns, 2);
  request_table_end(&table, second, true);
  request_table_fini(&table);
}

static void a_handle_of_the_past_does_not_find_who_has_the_place_now(void **state)
{
  (void)state;
  request_table table;
  open_request found;
  request_table_init(&table);
  uint64_t before = add_unused(&table, 1);
  assert_true(request_table_begin(&table, before, &found));
  request_table_end(&table, before, true);
  uint64_t now = add_unused(&table, 2);
  assert_int_equal((uint32_t)before, (uint32_t)now); // the same place
  assert_int_not_equal(before, now);
  assert_false(request_table_begin(&table, before, &found));
  assert_true(request_table_begin(&table, now, &found));
  assert_int_equal(found.exec_start_ns, 2);
  request_table_end(&table, now, true);
  request_table_fini(&table);
}

static void handles_that_are_made_up_find_nothing(void **state)
{
  (void)state;
  request_table table;
  open_request found;
  request_table_init(&table);
  uint64_t handle = add_unused(&table, 1);
  for (uint64_t bit = 0; bit < 64; bit++)
    assert_false(request_table_begin(&table, handle ^ (uint64_t)1 << bit, &found));
  assert_false(request_table_begin(&table, 0, &found));
  assert_false(request_table_begin(&table, UINT64_MAX, &found));
  assert_true(request_table_begin(&table, handle, &found));
  request_table_end(&table, handle, true);
  request_table_fini(&table);
}

static void going_through_all_meets_each_once(void **state)
{
  (void)state;
  request_table table;
  open_request found;
  bool met[MANY] = {false};
  uint32_t from = 0;
  uint64_t handle;
  request_table_init(&table);
  for (uint64_t i = 0; i < MANY; i++)
    add_unused(&table, i);
  while (request_table_begin_next(&table, &from, &handle, &found)) {
    assert_false(met[found.exec_start_ns]);
    met[found.exec_start_ns] = true;
    request_table_end(&table, handle, true);
  }
  for (size_t i = 0; i < MANY; i++)
    assert_true(met[i]);
  request_table_fini(&table);
}

// ---- threads

typedef struct race {
  request_table table;
  uint64_t handles[MANY];
  atomic_int users[MANY]; // at a time
  atomic_int closed;
  atomic_int crowds; // times that two were there at once
} race;

static void *use_and_close_all(void *argument)
{
  race *self = argument;
  open_request found;
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < MANY; i++) {
      if (!request_table_begin(&self->table, self->handles[i], &found))
        continue;
      if (atomic_fetch_add(&self->users[i], 1) != 0)
        atomic_fetch_add(&self->crowds, 1);
      atomic_fetch_sub(&self->users[i], 1);
      request_table_end(&self->table, self->handles[i], round == 1);
      atomic_fetch_add(&self->closed, round);
    }
  return NULL;
}

static void one_thread_at_a_time_uses_a_request_and_one_closes_it(void **state)
{
  (void)state;
  static race self;
  pthread_t threads[4];
  request_table_init(&self.table);
  for (uint64_t i = 0; i < MANY; i++)
    self.handles[i] = add_unused(&self.table, i);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, use_and_close_all, &self), 0);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&self.crowds), 0);
  assert_int_equal(atomic_load(&self.closed), MANY);
  assert_int_equal(self.table.open_count, 0);
  request_table_fini(&self.table);
}

static void a_request_that_was_started_says_when(void **state)
{
  (void)state;
  request_table table;
  uint64_t handle;
  open_request found, request = {.exec_start_ns = 1, .compute_start_ns = 1};
  request_table_init(&table);
  assert_true(request_table_add(&table, &request, 1, &handle));
  request_table_start(&table, handle, 2);
  assert_true(request_table_begin(&table, handle, &found));
  assert_int_equal(found.exec_start_ns, 1);
  assert_int_equal(found.compute_start_ns, 2);
  request_table_end(&table, handle, true);
  request_table_fini(&table);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_handle_finds_its_request_until_that_is_closed),
      cmocka_unit_test(who_uses_a_request_can_change_it),
      cmocka_unit_test(a_handle_of_the_past_does_not_find_who_has_the_place_now),
      cmocka_unit_test(handles_that_are_made_up_find_nothing),
      cmocka_unit_test(a_request_that_was_started_says_when),
      cmocka_unit_test(going_through_all_meets_each_once),
      cmocka_unit_test(one_thread_at_a_time_uses_a_request_and_one_closes_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
