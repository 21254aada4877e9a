// SPDX-License-Identifier: Apache-2.0
// Blocks of a region, against a model: a list of what is in use.
#include "channel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
  REGION = 64 << 20,
  MAX_BLOCKS = 3000,
  STEPS = 60000,
  LARGE = 64 << 10,
  PAGE = 4096
};

typedef struct block {
  uint64_t offset;
  uint64_t size;
} block;

static channel *new_channel(size_t region)
{
  channel *made;
  assert_int_equal(channel_new(region, &made), 0);
  return made;
}

// Bytes of memory behind the channel.
static size_t resident(const channel *self)
{
  struct stat status;
  assert_int_equal(fstat(channel_descriptor(self), &status), 0);
  return (size_t)status.st_blocks * 512;
}

static uint64_t random_next(uint64_t *random)
{
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return *random;
}

static uint64_t random_size(uint64_t *random)
{
  const uint64_t kind = random_next(random) % 16;
  const uint64_t most = kind < 10 ? 2000 : kind < 15 ? 40000 : 1 << 20;
  return random_next(random) % most;
}

static void assert_apart(const block *blocks, size_t count, uint64_t offset, uint64_t size)
{
  assert_true(offset <= REGION && size <= REGION - offset);
  for (size_t i = 0; i < count; i++)
    assert_true(offset + size <= blocks[i].offset || blocks[i].offset + blocks[i].size <= offset);
}

static void blocks_never_overlap(void **state)
{
  (void)state;
  channel *self = new_channel(REGION);
  static block blocks[MAX_BLOCKS];
  size_t count = 0, sum = 0, used, kept;
  uint64_t random = 88172645463325252;
  for (int step = 0; step < STEPS; step++) {
    const bool grow = random_next(&random) % 100 < (step / 4000 % 2 == 0 ? 70 : 30);
    if (grow && count < MAX_BLOCKS) {
      const uint64_t size = random_size(&random), rounded = size == 0 ? 64 : (size + 63) / 64 * 64;
      uint64_t offset;
      if (!channel_allocate(self, size, &offset))
        continue;
      assert_int_equal(offset % (size >= LARGE ? PAGE : CHANNEL_ALIGNMENT), 0);
      assert_apart(blocks, count, offset, rounded);
      blocks[count++] = (block){offset, rounded};
      sum += rounded;
    } else if (count > 0) {
      const size_t gone = random_next(&random) % count;
      assert_false(channel_release(self, blocks[gone].offset + 1 + random_next(&random) % 63));
      assert_true(channel_release(self, blocks[gone].offset));
      assert_false(channel_release(self, blocks[gone].offset));
      sum -= blocks[gone].size;
      blocks[gone] = blocks[--count];
    }
    if (step % 1000 == 0)
      channel_trim(self, 1 << 20);
    channel_memory(self, &used, &kept);
    assert_int_equal(used, sum);
  }
  while (count > 0)
    assert_true(channel_release(self, blocks[--count].offset));
  uint64_t whole;
  assert_true(channel_allocate(self, REGION, &whole)); // everything has come together again
  assert_int_equal(whole, 0);
  channel_free(self);
}

static void the_lowest_place_is_used_again(void **state)
{
  (void)state;
  channel *self = new_channel(REGION);
  uint64_t a, b, c, again;
  assert_true(channel_allocate(self, 1000, &a));
  assert_true(channel_allocate(self, 1000, &b));
  assert_true(channel_allocate(self, 1000, &c));
  assert_true(channel_release(self, a));
  assert_true(channel_allocate(self, 1000, &again));
  assert_int_equal(again, a);
  assert_true(channel_release(self, b));
  assert_true(channel_allocate(self, 1000, &again));
  assert_int_equal(again, b);
  channel_free(self);
}

static void what_does_not_fit_is_refused(void **state)
{
  (void)state;
  channel *self = new_channel(100 * PAGE);
  uint64_t offset = 1;
  assert_false(channel_allocate(self, 100 * PAGE + 1, &offset));
  assert_false(channel_allocate(self, SIZE_MAX, &offset));
  assert_true(channel_allocate(self, 100 * PAGE, &offset));
  assert_false(channel_allocate(self, 0, &offset));
  assert_true(channel_release(self, offset));
  for (uint64_t bad = 1; bad < 100 * PAGE; bad += 63)
    assert_false(channel_release(self, bad));
  assert_false(channel_release(self, UINT64_MAX));
  channel_free(self);
}

static void a_region_costs_what_is_touched(void **state)
{
  (void)state;
  channel *self = new_channel((size_t)8 << 30);
  assert_true(resident(self) < 1 << 20);
  uint64_t low, high;
  assert_true(channel_allocate(self, 16 << 20, &low));
  assert_true(channel_allocate(self, 16 << 20, &high));
  memset(channel_own(self, low), 1, 16 << 20);
  memset(channel_own(self, high), 2, 16 << 20);
  assert_true(resident(self) >= 32 << 20);

  size_t used, kept;
  assert_true(channel_release(self, low));
  channel_memory(self, &used, &kept);
  assert_int_equal(used, 16 << 20);
  assert_int_equal(kept, 16 << 20);
  assert_int_equal(channel_trim(self, 4 << 20), 12 << 20);
  assert_true(resident(self) < 21 << 20);
  const uint8_t *bytes = channel_own(self, high);
  for (size_t i = 0; i < 16 << 20; i++)
    assert_true(bytes[i] == 2); // what is in a block stays

  assert_true(channel_release(self, high));
  assert_int_equal(channel_trim(self, 0), 20 << 20);
  assert_int_equal(channel_trim(self, 0), 0);
  assert_true(resident(self) < 1 << 20);
  channel_memory(self, &used, &kept);
  assert_int_equal(used + kept, 0);
  channel_free(self);
}

static void a_page_that_a_block_shares_is_not_given_back(void **state)
{
  (void)state;
  channel *self = new_channel(REGION);
  uint64_t first, second, third;
  assert_true(channel_allocate(self, PAGE / 2, &first));
  assert_true(channel_allocate(self, 3 * PAGE, &second));
  assert_true(channel_allocate(self, PAGE / 2, &third));
  memset(channel_own(self, first), 1, PAGE / 2);
  memset(channel_own(self, second), 2, 3 * PAGE);
  memset(channel_own(self, third), 3, PAGE / 2);
  assert_true(channel_release(self, second));
  assert_int_equal(channel_trim(self, 0), 2 * PAGE);
  const uint8_t *a = channel_own(self, first), *c = channel_own(self, third);
  for (size_t i = 0; i < PAGE / 2; i++)
    assert_true(a[i] == 1 && c[i] == 3);
  channel_free(self);
}

static void blocks_together_are_limited(void **state)
{
  (void)state;
  channel *self = new_channel(REGION);
  uint64_t first, second, third;
  channel_limit(self, 4 * PAGE);
  assert_false(channel_allocate(self, 5 * PAGE, &first));
  assert_true(channel_allocate(self, 3 * PAGE, &first));
  assert_true(channel_allocate(self, PAGE, &second));
  assert_false(channel_allocate(self, 1, &third));
  assert_true(channel_release(self, first));
  assert_false(channel_allocate(self, 3 * PAGE + 1, &third));
  assert_true(channel_allocate(self, 3 * PAGE, &third));
  channel_free(self);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_never_overlap),
      cmocka_unit_test(the_lowest_place_is_used_again),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(blocks_together_are_limited),
      cmocka_unit_test(a_region_costs_what_is_touched),
      cmocka_unit_test(a_page_that_a_block_shares_is_not_given_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
