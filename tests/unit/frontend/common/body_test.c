// SPDX-License-Identifier: Apache-2.0
// Where a body is received: in the arena, in a block, or in memory of a pool that has little of it.
#include "base/arena.h"
#include "frontend/common/net/body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

// A pool whose memory has what another one left there.
typedef struct test_pool {
  size_t room;
  size_t used;
  unsigned takes;
} test_pool;

static void *take(void *owner, size_t size)
{
  test_pool *p = owner;
  p->takes++;
  if (size > p->room - p->used)
    return NULL;
  p->used += size;
  void *memory = malloc(size); // the sanitizer sees where it ends
  assert_non_null(memory);
  return memset(memory, 0xa5, size);
}

static void give_back(void *owner, void *memory, size_t size)
{
  test_pool *p = owner;
  assert_in_range(size, 1, p->used);
  p->used -= size;
  free(memory);
}

static const body_pool functions = {take, give_back};

typedef struct fixture {
  byte_budget budget;
  test_pool pool;
  arena arena;
  body body;
} fixture;

// A body of up to `most` bytes that prefers a pool with `room`.
static void set_up(fixture *f, size_t most, size_t room)
{
  *f = (fixture){.budget = {.limit = 16 * MIB}, .pool = {.room = room}};
  arena_init(&f->arena, NULL, 0);
  body_init(&f->body, &f->budget, &f->arena, most);
  body_prefer(&f->body, &functions, &f->pool);
}

static void tear_down(fixture *f)
{
  body_fini(&f->body);
  assert_int_equal(f->pool.used, 0);
  assert_int_equal(f->budget.used, 0);
  arena_fini(&f->arena);
}

static void append(body *b, size_t size, char value)
{
  char *piece = malloc(size);
  memset(piece, value, size);
  assert_int_equal(body_append(b, piece, size), BODY_OK);
  free(piece);
}

static void a_body_that_is_announced_is_in_the_pool_aligned_and_counted(void **state)
{
  (void)state;
  fixture f;
  for (size_t at = 0; at < 130; at += 43) {
    set_up(&f, 8 * MIB, 2 * MIB);
    assert_int_equal(body_begin(&f.body, MIB, at), BODY_OK);
    assert_true(f.body.in_pool);
    assert_int_equal(f.budget.used, MIB);
    append(&f.body, MIB / 2, 'x');
    append(&f.body, MIB / 2, 'y');
    assert_int_equal(body_finish(&f.body), BODY_OK);
    assert_int_equal(((uintptr_t)f.body.data + at) % BODY_ALIGNMENT, 0);
    assert_int_equal(body_in_pool(&f.body).size, MIB);
    assert_true(f.body.data[0] == 'x' && f.body.data[MIB - 1] == 'y');
    for (size_t i = 0; i < BODY_ALIGNMENT; i++)
      assert_int_equal(f.body.data[MIB + i], 0);
    assert_int_equal(f.budget.used, MIB);
    tear_down(&f);
  }
}

static void a_body_that_is_shorter_has_what_came_and_nothing_of_another(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, 8 * MIB, 2 * MIB);
  assert_int_equal(body_begin(&f.body, MIB, 0), BODY_OK);
  append(&f.body, 100, 'x');
  assert_int_equal(body_finish(&f.body), BODY_OK);
  assert_int_equal(body_in_pool(&f.body).size, 100);
  for (size_t i = 0; i < BODY_ALIGNMENT; i++)
    assert_int_equal(f.body.data[100 + i], 0);
  tear_down(&f);
}

static void a_body_does_not_grow_in_the_pool(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, 8 * MIB, 4 * MIB);
  assert_int_equal(body_begin(&f.body, MIB, 0), BODY_OK);
  append(&f.body, MIB, 'x');
  assert_int_equal(body_append(&f.body, "y", 1), BODY_TOO_LARGE);
  tear_down(&f);
}

static void without_room_it_is_in_a_block(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, 8 * MIB, MIB); // and some bytes around it
  assert_int_equal(body_begin(&f.body, MIB, 0), BODY_OK);
  assert_true(f.pool.takes == 1 && !f.body.in_pool);
  append(&f.body, MIB + 1, 'x');
  assert_int_equal(body_finish(&f.body), BODY_OK);
  assert_int_equal(body_in_pool(&f.body).size, 0);
  tear_down(&f);
}

static void what_the_budget_does_not_take_as_a_whole_takes_nothing_of_the_pool(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, 16 * MIB, 32 * MIB);
  assert_int_equal(body_begin(&f.body, 9 * MIB, 0), BODY_OK); // more than half
  assert_true(f.pool.takes == 0 && !f.body.in_pool);
  append(&f.body, 9 * MIB, 'x');
  tear_down(&f);
}

static void what_is_small_or_of_an_unknown_length_is_not_in_the_pool(void **state)
{
  (void)state;
  fixture f;
  for (size_t expected = 0; expected <= 100; expected += 100) {
    set_up(&f, 8 * MIB, 4 * MIB);
    assert_int_equal(body_begin(&f.body, expected, 0), BODY_OK);
    append(&f.body, MIB, 'x');
    assert_int_equal(f.pool.takes, 0);
    tear_down(&f);
  }
}

static void what_is_discarded_stays_readable_there(void **state)
{
  (void)state;
  fixture f;
  set_up(&f, 8 * MIB, 8 * MIB);
  assert_int_equal(body_begin(&f.body, 4 * MIB, 0), BODY_OK);
  append(&f.body, 4 * MIB, 'x');
  body_discard(&f.body, 0, 4 * MIB); // the pages are the pool's
  assert_int_equal(f.body.data[2 * MIB], 'x');
  tear_down(&f);
}

static void what_it_unpacks_to_is_on_the_heap(void **state)
{
  (void)state;
  fixture f;
  const slice plain = SLICE("the same");
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  assert_true(compress_parts(CODING_GZIP, COMPRESS_FAST, &plain, 1, &packed));
  set_up(&f, 8 * MIB, 8 * MIB);
  f.body.arena = NULL;
  assert_int_equal(body_begin(&f.body, packed.size, 0), BODY_OK);
  assert_true(f.body.in_pool);
  assert_int_equal(body_append(&f.body, packed.data, packed.size), BODY_OK);
  f.body.max_size = MIB;
  assert_int_equal(body_inflate(&f.body, CODING_GZIP), BODY_OK);
  assert_true(!f.body.in_pool && f.pool.used == 0);
  assert_memory_equal(f.body.data, plain.data, plain.size);
  tear_down(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_body_that_is_announced_is_in_the_pool_aligned_and_counted),
      cmocka_unit_test(a_body_that_is_shorter_has_what_came_and_nothing_of_another),
      cmocka_unit_test(a_body_does_not_grow_in_the_pool),
      cmocka_unit_test(without_room_it_is_in_a_block),
      cmocka_unit_test(what_the_budget_does_not_take_as_a_whole_takes_nothing_of_the_pool),
      cmocka_unit_test(what_is_small_or_of_an_unknown_length_is_not_in_the_pool),
      cmocka_unit_test(what_is_discarded_stays_readable_there),
      cmocka_unit_test(what_it_unpacks_to_is_on_the_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
