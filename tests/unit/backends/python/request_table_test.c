// SPDX-License-Identifier: Apache-2.0
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

static open_request *add(request_table *table, uint64_t number)
{
  open_request *request;
  assert_true(request_table_add(table, &request, 1));
  request->exec_start_ns = number;
  return request;
}

static uint64_t add_unused(request_table *table, uint64_t number)
{
  open_request *request = add(table, number);
  uint64_t handle = request->handle;
  request_table_end(table, request);
  return handle;
}

// Closes all that are open, used or not.
static void end_with_all(request_table *table)
{
  for (uint32_t i = 0; i < table->slot_count; i++)
    if (table->slots[i]->state != REQUEST_FREE) {
      table->slots[i]->state = REQUEST_USED;
      request_table_close(table, table->slots[i]);
    }
  assert_int_equal(table->open_count, 0);
  request_table_fini(table);
}

static void a_handle_finds_its_request_until_that_is_closed(void **state)
{
  (void)state;
  request_table table;
  request_table_init(&table);
  uint64_t handles[MANY];
  for (uint64_t i = 0; i < MANY; i++)
    handles[i] = add_unused(&table, i);
  assert_int_equal(table.open_count, MANY);
  for (uint64_t i = 0; i < MANY; i++) {
    open_request *found = request_table_begin(&table, handles[i]);
    assert_non_null(found);
    assert_int_equal(request_table_close(&table, found).exec_start_ns, i);
    assert_null(request_table_begin(&table, handles[i]));
  }
  assert_int_equal(table.open_count, 0);
  request_table_fini(&table);
}

static void who_uses_a_request_can_change_it(void **state)
{
  (void)state;
  request_table table;
  request_table_init(&table);
  uint64_t first = add_unused(&table, 1), second = add_unused(&table, 2);
  open_request *found = request_table_begin(&table, first);
  found->exec_start_ns = 7;
  request_table_end(&table, found);
  for (int i = 0; i < MANY; i++) // it stays where it is while the table grows
    add_unused(&table, 3);
  assert_ptr_equal(request_table_begin(&table, first), found);
  assert_int_equal(request_table_close(&table, found).exec_start_ns, 7);
  assert_int_equal(request_table_begin(&table, second)->exec_start_ns, 2);
  end_with_all(&table);
}

static void a_handle_of_the_past_does_not_find_who_has_the_place_now(void **state)
{
  (void)state;
  request_table table;
  request_table_init(&table);
  uint64_t before = add_unused(&table, 1);
  request_table_close(&table, request_table_begin(&table, before));
  uint64_t now = add_unused(&table, 2);
  assert_int_equal((uint32_t)before, (uint32_t)now); // the same place
  assert_int_not_equal(before, now);
  assert_null(request_table_begin(&table, before));
  assert_int_equal(request_table_begin(&table, now)->exec_start_ns, 2);
  end_with_all(&table);
}

static void handles_that_are_made_up_find_nothing(void **state)
{
  (void)state;
  request_table table;
  request_table_init(&table);
  uint64_t handle = add_unused(&table, 1);
  for (uint64_t bit = 0; bit < 64; bit++)
    assert_null(request_table_begin(&table, handle ^ (uint64_t)1 << bit));
  assert_null(request_table_begin(&table, 0));
  assert_null(request_table_begin(&table, UINT64_MAX));
  open_request *found = request_table_begin(&table, handle);
  assert_non_null(found);
  request_table_close(&table, found);
  assert_null(request_table_begin(&table, handle + ((uint64_t)1 << 32))); // nobody has it yet
  end_with_all(&table);
}

static void what_is_added_has_nothing_of_who_was_there_before(void **state)
{
  (void)state;
  request_table table;
  request_table_init(&table);
  open_request *request = add(&table, 7);
  assert_null(request_table_begin(&table, request->handle)); // it is being filled
  request->factory = (TRITONBACKEND_ResponseFactory *)&table;
  request_table_close(&table, request);
  assert_ptr_equal(add(&table, 8), request);
  assert_null(request->factory);
  end_with_all(&table);
}

static void going_through_all_meets_each_once(void **state)
{
  (void)state;
  request_table table;
  open_request *found;
  bool met[MANY] = {false};
  uint32_t from = 0;
  request_table_init(&table);
  for (uint64_t i = 0; i < MANY; i++)
    add_unused(&table, i);
  while ((found = request_table_begin_next(&table, &from)) != NULL) {
    assert_false(met[found->exec_start_ns]);
    met[found->exec_start_ns] = true;
    request_table_close(&table, found);
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
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < MANY; i++) {
      open_request *found = request_table_begin(&self->table, self->handles[i]);
      if (found == NULL)
        continue;
      if (atomic_fetch_add(&self->users[i], 1) != 0)
        atomic_fetch_add(&self->crowds, 1);
      atomic_fetch_sub(&self->users[i], 1);
      if (round == 1)
        request_table_close(&self->table, found);
      else
        request_table_end(&self->table, found);
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_handle_finds_its_request_until_that_is_closed),
      cmocka_unit_test(who_uses_a_request_can_change_it),
      cmocka_unit_test(a_handle_of_the_past_does_not_find_who_has_the_place_now),
      cmocka_unit_test(handles_that_are_made_up_find_nothing),
      cmocka_unit_test(what_is_added_has_nothing_of_who_was_there_before),
      cmocka_unit_test(going_through_all_meets_each_once),
      cmocka_unit_test(one_thread_at_a_time_uses_a_request_and_one_closes_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
