// SPDX-License-Identifier: Apache-2.0
// Which addresses are taken (src/gpu/ranges.h) against a plain model, one byte for each unit, over
// random histories. NEREID_HISTORIES=n for more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/ranges.h"

#include <stdlib.h>

#define PIECES 3
#define UNITS  2048 // of the largest piece
#define TAKEN  256
#define STEPS  400
#define FIRST  ((uintptr_t)0x7f0000000000) // nobody's memory

static bool no_memory; // calloc fails

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
  return no_memory ? NULL : __real_calloc(count, size);
}

typedef struct part {
  uintptr_t address;
  size_t units;
} part;

typedef struct history {
  uint64_t random;
  ranges *ranges;
  size_t piece_units[PIECES];
  unsigned char used[PIECES][UNITS];
  part parts[TAKEN];
  size_t count, used_units;
} history;

static uint64_t draw(history *h, uint64_t below)
{
  h->random = h->random * 6364136223846793005u + 1442695040888963407u;
  return (h->random >> 33) % below;
}

// Pieces touch: what is free in two of them is still no one block.
static uintptr_t piece_base(size_t piece)
{
  return FIRST + piece * UNITS * RANGES_ALIGNMENT;
}

static size_t longest_free(const history *h)
{
  size_t most = 0;
  for (size_t p = 0; p < PIECES; p++)
    for (size_t i = 0, run = 0; i < h->piece_units[p]; i++) {
      run = h->used[p][i] ? 0 : run + 1;
      most = run > most ? run : most;
    }
  return most;
}

static void set_used(history *h, part taken, unsigned char used)
{
  size_t piece = (taken.address - FIRST) / RANGES_ALIGNMENT / UNITS;
  size_t first = (taken.address - piece_base(piece)) / RANGES_ALIGNMENT;
  assert_int_equal(taken.address % RANGES_ALIGNMENT, 0);
  assert_true(piece < PIECES && first + taken.units <= h->piece_units[piece]);
  for (size_t i = first; i < first + taken.units; i++) {
    assert_int_equal(h->used[piece][i], !used); // nobody else's
    h->used[piece][i] = used;
  }
}

static void take(history *h)
{
  if (h->count == TAKEN)
    return;
  size_t most = draw(h, 4) == 0 ? UNITS * RANGES_ALIGNMENT : 64 * RANGES_ALIGNMENT;
  size_t bytes = draw(h, most + 1);
  size_t longest = longest_free(h);
  part taken = {.units = bytes == 0 ? 1 : (bytes + RANGES_ALIGNMENT - 1) / RANGES_ALIGNMENT};
  assert_null(ranges_take(h->ranges, bytes, &taken.address));
  assert_int_equal(taken.address != 0, taken.units <= longest); // what fits is found
  if (taken.address == 0)
    return;
  set_used(h, taken, 1);
  h->parts[h->count++] = taken;
  h->used_units += taken.units;
}

static void give_back(history *h)
{
  if (h->count == 0)
    return;
  size_t at = draw(h, h->count);
  part given = h->parts[at];
  h->parts[at] = h->parts[--h->count];
  set_used(h, given, 0);
  h->used_units -= given.units;
  ranges_give_back(h->ranges, given.address);
}

static void check(const history *h)
{
  assert_int_equal(ranges_used(h->ranges), h->used_units * RANGES_ALIGNMENT);
  assert_int_equal(ranges_largest_free(h->ranges), longest_free(h) * RANGES_ALIGNMENT);
}

static void run(uint64_t seed)
{
  history h = {.random = seed};
  size_t total = 0;
  assert_null(ranges_new(&h.ranges));
  for (size_t p = 0; p < PIECES; p++) {
    h.piece_units[p] = p == 0 ? UNITS : 1 + draw(&h, UNITS);
    total += h.piece_units[p] * RANGES_ALIGNMENT;
    assert_null(ranges_add(h.ranges, piece_base(p), h.piece_units[p] * RANGES_ALIGNMENT));
  }
  assert_int_equal(ranges_total(h.ranges), total);
  for (int step = 0; step < STEPS; step++) {
    if (draw(&h, 5) < (step % 100 < 60 ? 3 : 2))
      take(&h);
    else
      give_back(&h);
    check(&h);
  }
  while (h.count > 0)
    give_back(&h);
  check(&h);
  ranges_free(h.ranges);
}

static void what_fits_is_found_and_nothing_is_handed_out_twice(void **state)
{
  (void)state;
  const char *asked = getenv("NEREID_HISTORIES");
  uint64_t histories = asked == NULL ? 30 : strtoull(asked, NULL, 10);
  for (uint64_t i = 0; i < histories; i++)
    run(i * 2654435761u + 1);
}

static void a_piece_can_be_taken_whole_again_and_again(void **state)
{
  (void)state;
  ranges *r;
  uintptr_t whole, other;
  assert_null(ranges_new(&r));
  assert_null(ranges_add(r, FIRST, (size_t)1 << 40));
  for (int i = 0; i < 3; i++) {
    assert_null(ranges_take(r, (size_t)1 << 40, &whole));
    assert_int_equal(whole, FIRST);
    assert_null(ranges_take(r, 1, &other));
    assert_int_equal(other, 0);
    ranges_give_back(r, whole);
  }
  ranges_free(r);
}

static void sizes_that_no_machine_has_find_no_room(void **state)
{
  (void)state;
  ranges *r;
  uintptr_t address;
  assert_null(ranges_new(&r));
  assert_null(ranges_take(r, 1, &address));
  assert_int_equal(address, 0); // nothing was added
  assert_null(ranges_add(r, FIRST + 1, 3 * RANGES_ALIGNMENT));
  assert_int_equal(ranges_total(r), 2 * RANGES_ALIGNMENT); // the ends are no whole unit
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX - RANGES_ALIGNMENT, SIZE_MAX / 2 + 1,
                          2 * RANGES_ALIGNMENT + 1};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
    assert_null(ranges_take(r, sizes[i], &address));
    assert_int_equal(address, 0);
  }
  ranges_free(r);
}

static void without_memory_for_the_books_nothing_is_taken(void **state)
{
  (void)state;
  ranges *r;
  uintptr_t address = 1;
  size_t taken = 0;
  no_memory = true;
  error *e = ranges_new(&r);
  no_memory = false;
  assert_non_null(e);
  error_free(e);
  assert_null(ranges_new(&r));
  assert_null(ranges_add(r, FIRST, 1000 * RANGES_ALIGNMENT));
  no_memory = true;
  while ((e = ranges_take(r, 1, &address)) == NULL && address != 0)
    taken++;
  no_memory = false;
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_UNAVAILABLE);
  error_free(e);
  assert_int_equal(ranges_used(r), taken * RANGES_ALIGNMENT);
  assert_null(ranges_take(r, (1000 - taken) * RANGES_ALIGNMENT, &address));
  assert_int_equal(address, FIRST + taken * RANGES_ALIGNMENT);
  ranges_free(r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_fits_is_found_and_nothing_is_handed_out_twice),
      cmocka_unit_test(a_piece_can_be_taken_whole_again_and_again),
      cmocka_unit_test(sizes_that_no_machine_has_find_no_room),
      cmocka_unit_test(without_memory_for_the_books_nothing_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
