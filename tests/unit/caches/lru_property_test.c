// SPDX-License-Identifier: Apache-2.0
// The local cache's policy against a plain model of it, over random histories: what is found, who
// leaves and in which order, and that the bytes are never more than the limit. NEREID_HISTORIES=n
// for more histories; says how many a minute.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "caches/local/lru.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS  24
#define STEPS 60

typedef struct item {
  lru_entry entry;
  char name[4];
  bool known;   // to the cache, as the model has it
  bool leaving; // evicted, and still read
} item;

typedef struct history {
  uint64_t random;
  lru lru;
  item items[KEYS];
  item *order[KEYS]; // the first was used last
  size_t count;
  size_t slots, promised; // bytes
} history;

static uint64_t draw(history *h, uint64_t below)
{
  h->random = h->random * 6364136223846793005u + 1442695040888963407u;
  return (h->random >> 33) % below;
}

static void move_to_front(history *h, item *used)
{
  size_t at = 0;
  while (at < h->count && h->order[at] != used)
    at++;
  if (at == h->count)
    h->count++;
  for (; at > 0; at--)
    h->order[at] = h->order[at - 1];
  h->order[0] = used;
}

static size_t bytes_of(const history *h)
{
  size_t bytes = h->slots;
  for (size_t i = 0; i < KEYS; i++)
    if (h->items[i].known || h->items[i].leaving)
      bytes += h->items[i].entry.bytes;
  return bytes;
}

static void check(const history *h)
{
  assert_int_equal(h->lru.bytes, bytes_of(h));
  assert_int_equal(h->lru.count, h->count);
  assert_true(h->lru.bytes <= h->lru.limit || h->count == 0);
}

// As the cache does: some hash values are the same.
static uint64_t hash_of(const item *it)
{
  return (uint64_t)(it->name[1] % 5) * 0x9e3779b97f4a7c15u;
}

static void find(history *h, item *it)
{
  lru_entry *found = lru_find(&h->lru, slice_of(it->name), hash_of(it));
  assert_ptr_equal(found, it->known ? &it->entry : NULL);
  if (found != NULL)
    move_to_front(h, it);
}

// The one that was used longest ago leaves; a reader may keep its bytes for a while.
static bool evict(history *h)
{
  lru_entry *left = lru_evict(&h->lru);
  assert_ptr_equal(left, h->count > 0 ? &h->order[h->count - 1]->entry : NULL);
  if (left == NULL)
    return false;
  item *it = h->order[--h->count];
  it->known = false;
  if (draw(h, 4) == 0)
    it->leaving = true;
  else
    lru_return(&h->lru, it->entry.bytes);
  return true;
}

static void insert(history *h, item *it)
{
  size_t bytes = 1 + draw(h, h->lru.limit / 2);
  bool fits = true;
  if (it->known || it->leaving)
    return;
  while (fits && !lru_promise(&h->lru, bytes)) {
    assert_true(bytes > h->lru.limit || bytes_of(h) > h->lru.limit - bytes);
    fits = evict(h);
  }
  if (!fits)
    return;              // what is read fills it
  if (draw(h, 8) == 0) { // the server could not fill it
    lru_return(&h->lru, bytes);
    return;
  }
  it->entry = (lru_entry){.hash = hash_of(it), .key = slice_of(it->name), .bytes = bytes};
  lru_add(&h->lru, &it->entry);
  it->known = true;
  move_to_front(h, it);
}

static void end_reading(history *h, item *it)
{
  if (it->leaving)
    lru_return(&h->lru, it->entry.bytes);
  it->leaving = false;
}

static void run(uint64_t seed)
{
  history h = {.random = seed};
  assert_true(lru_init(&h.lru, 64 + (seed % 7) * 4096));
  h.slots = h.lru.slot_count * sizeof(*h.lru.slots);
  for (size_t i = 0; i < KEYS; i++)
    snprintf(h.items[i].name, sizeof(h.items[i].name), "k%c", (char)('a' + i));
  for (int step = 0; step < STEPS; step++) {
    item *it = &h.items[draw(&h, KEYS)];
    switch (draw(&h, 4)) {
    case 0:
      end_reading(&h, it);
      break;
    case 1:
      find(&h, it);
      break;
    default:
      insert(&h, it);
    }
    check(&h);
  }
  while (evict(&h))
    ;
  for (size_t i = 0; i < KEYS; i++)
    end_reading(&h, &h.items[i]);
  check(&h);
  lru_fini(&h.lru);
}

static void the_least_recently_used_leave_and_the_bytes_stay_within_the_limit(void **state)
{
  (void)state;
  const char *asked = getenv("NEREID_HISTORIES");
  uint64_t histories = asked == NULL ? 20000 : strtoull(asked, NULL, 10);
  uint64_t begun = clock_monotonic_ns();
  for (uint64_t i = 0; i < histories; i++)
    run(i * 2654435761u + 1);
  double minutes = (double)(clock_monotonic_ns() - begun) / 6e10;
  printf("%.1f million histories a minute\n", (double)histories / minutes / 1e6);
}

static void a_cache_that_is_smaller_than_its_table_takes_nothing(void **state)
{
  (void)state;
  lru l;
  assert_true(lru_init(&l, 0));
  assert_int_equal(lru_room(&l), 0);
  assert_false(lru_promise(&l, 0));
  assert_null(lru_evict(&l));
  lru_fini(&l);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_least_recently_used_leave_and_the_bytes_stay_within_the_limit),
      cmocka_unit_test(a_cache_that_is_smaller_than_its_table_takes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
