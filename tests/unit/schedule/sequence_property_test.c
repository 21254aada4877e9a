// SPDX-License-Identifier: Apache-2.0
// The table of sequences against a second statement of its rules, over random histories of
// arrivals, ends, cancellations, time and instances that come and go. The reference is slow and
// plain: arrays, walked. NEREID_HISTORIES=n runs so many; a failure names its seed, NEREID_SEED=n
// runs that one alone.
#include "base/clock.h"
#include "schedule/sequence_policy.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MAX_ITEMS     48
#define MAX_ROWS      4
#define MAX_INSTANCES 3
#define IDS           4
#define HISTORIES     40000
#define NONE          SIZE_MAX

typedef enum fate {
  UNSENT,
  WAITING,
  UNDER_WAY,
  RELEASED,
  REFUSED,
} fate;

typedef struct ref_item {
  queue_item item;
  size_t sequence; // in the reference
  fate fate;
  bool seen;  // in the outcome that is being checked
  bool taken; // it is executed
} ref_item;

typedef struct ref_sequence {
  unsigned id;
  bool known, over, has_slot, left_slot;
  size_t slot;        // row * MAX_INSTANCES + instance
  uint64_t due_ns;    // in the backlog: the earliest timeout
  uint64_t idle_from; // CLOCK_NEVER: it is not idle
  size_t idle_number; // who became idle first
  size_t under_way;
} ref_sequence;

typedef struct history {
  uint32_t random;
  uint64_t seed;
  sequence_config config;
  sequence_table *table;
  uint64_t now_ns;
  bool stopped;
  ref_item items[MAX_ITEMS]; // by arrival
  size_t item_count;
  ref_sequence sequences[MAX_ITEMS]; // by their beginning
  size_t sequence_count;
  bool slots[MAX_ROWS * MAX_INSTANCES]; // in use
  bool open[MAX_INSTANCES];
  size_t numbers;    // of instances, that were open once
  unsigned leaving;  // when an outcome was checked last
  size_t freed;      // sequences that outcomes gave back
  size_t idle_count; // times that a sequence became idle
} history;

#define CHECK(h, condition)                                                                        \
  do {                                                                                             \
    if (!(condition))                                                                              \
      fail_msg("%s:%d: %s (NEREID_SEED=%" PRIu64 ")", __FILE__, __LINE__, #condition, (h)->seed);  \
  } while (0)

static uint32_t draw(history *h, uint32_t below)
{
  h->random ^= h->random << 13;
  h->random ^= h->random >> 17;
  h->random ^= h->random << 5;
  return (uint32_t)((uint64_t)h->random * below >> 32);
}

// ---- the reference ----

static size_t first_waiting(const history *h, size_t sequence)
{
  for (size_t i = 0; i < h->item_count; i++)
    if (h->items[i].sequence == sequence && h->items[i].fate == WAITING)
      return i;
  return NONE;
}

static size_t known_sequence(const history *h, unsigned id)
{
  for (size_t s = 0; s < h->sequence_count; s++)
    if (h->sequences[s].id == id && h->sequences[s].known)
      return s;
  return NONE;
}

static size_t free_slot(const history *h)
{
  for (size_t row = 0; row < h->config.rows; row++)
    for (size_t instance = 0; instance < h->numbers; instance++)
      if (h->open[instance] && !h->slots[row * MAX_INSTANCES + instance])
        return row * MAX_INSTANCES + instance;
  return NONE;
}

static size_t inhabited(const history *h, size_t instance)
{
  size_t count = 0;
  for (size_t row = 0; row < h->config.rows; row++)
    count += h->slots[row * MAX_INSTANCES + instance];
  return count;
}

// A bit for each instance that is not open and has sequences.
static unsigned leaving(const history *h)
{
  unsigned bits = 0;
  for (size_t i = 0; i < h->numbers; i++)
    if (!h->open[i] && inhabited(h, i) > 0)
      bits |= 1u << i;
  return bits;
}

static void refuse_waiting(history *h, size_t sequence, size_t from)
{
  for (size_t i = from; i < h->item_count; i++)
    if (h->items[i].sequence == sequence && h->items[i].fate == WAITING)
      h->items[i].fate = REFUSED;
}

// What may happen now happens: sequences end, the backlog moves up, requests start.
static void settle(history *h)
{
  for (size_t s = 0; s < h->sequence_count; s++) {
    ref_sequence *q = &h->sequences[s];
    if (q->over || q->under_way != NONE || first_waiting(h, s) != NONE || q->known)
      continue;
    q->over = true;
    if (q->has_slot && !q->left_slot)
      h->slots[q->slot] = false;
  }
  for (size_t s = 0; s < h->sequence_count; s++) {
    ref_sequence *q = &h->sequences[s];
    if (q->over)
      continue;
    if (!q->has_slot && (q->slot = free_slot(h)) != NONE) {
      q->has_slot = h->slots[q->slot] = true;
      q->due_ns = CLOCK_NEVER;
    }
    size_t next = first_waiting(h, s);
    if (q->has_slot && q->under_way == NONE && next != NONE) {
      q->under_way = next;
      h->items[next].fate = UNDER_WAY;
    }
    bool idle = q->has_slot && q->under_way == NONE;
    if (idle && q->idle_from == CLOCK_NEVER)
      q->idle_number = h->idle_count++;
    q->idle_from = !idle ? CLOCK_NEVER : q->idle_from == CLOCK_NEVER ? h->now_ns : q->idle_from;
  }
}

// ---- the comparison ----

static sequence_outcome *fresh(sequence_outcome *o)
{
  sequence_outcome_init(o);
  return o;
}

static ref_item *item_at(list_node *node)
{
  return container_of(container_of(node, queue_item, node), ref_item, item);
}

static void take_start(history *h, list_node *node)
{
  ref_item *it = item_at(node);
  size_t number = (size_t)(it - h->items);
  const ref_sequence *q = &h->sequences[it->sequence];
  CHECK(h, it->fate == UNDER_WAY && q->under_way == number && !it->seen);
  const sequence_slot *slot = it->item.sequence->slot;
  CHECK(h, slot->row < h->config.rows && slot->instance < h->numbers);
  CHECK(h, slot->row * MAX_INSTANCES + slot->instance == q->slot);
  it->seen = true;
}

// Each item that changed in the reference, and no other, is in the outcome.
static void compare(history *h, sequence_outcome *o, const fate *before)
{
  list_node *node;
  while ((node = list_take_first(&o->start)) != NULL)
    take_start(h, node);
  while ((node = list_take_first(&o->refused)) != NULL) {
    ref_item *it = item_at(node);
    CHECK(h, it->fate == REFUSED && !it->seen && it->item.sequence == NULL);
    it->seen = true;
  }
  while ((node = list_take_first(&o->over)) != NULL) {
    sequence_free(container_of(node, sequence, node));
    h->freed++;
  }
  size_t waiting = 0, live = 0, backlog = 0, over = 0;
  for (size_t i = 0; i < h->item_count; i++) {
    ref_item *it = &h->items[i];
    bool changed = it->fate != before[i] && (it->fate == UNDER_WAY || it->fate == REFUSED);
    CHECK(h, it->seen == changed);
    it->seen = false;
    waiting += it->fate == WAITING;
  }
  for (size_t s = 0; s < h->sequence_count; s++) {
    const ref_sequence *q = &h->sequences[s];
    live += q->known && q->has_slot;
    backlog += !q->over && !q->has_slot;
    over += q->over;
  }
  CHECK(h, sequence_table_waiting(h->table) == waiting);
  CHECK(h, sequence_table_live(h->table) == live);
  CHECK(h, sequence_table_backlog(h->table) == backlog);
  CHECK(h, h->freed == over);
  for (uint32_t i = 0; i < h->numbers; i++)
    CHECK(h, sequence_table_inhabited(h->table, i) == inhabited(h, i));
  const unsigned leave = leaving(h);
  CHECK(h, o->vacated == ((h->leaving & ~leave) != 0));
  h->leaving = leave;
}

static void remember(const history *h, fate *before)
{
  for (size_t i = 0; i < MAX_ITEMS; i++)
    before[i] = h->items[i].fate;
}

// ---- what happens ----

static sequence_verdict expect_add(history *h, unsigned id, bool starts, bool ends)
{
  ref_item *it = &h->items[h->item_count];
  size_t s = known_sequence(h, id);
  bool was_known = s != NONE;
  if (h->stopped && starts)
    return SEQUENCE_STOPPED;
  if (!was_known && !starts)
    return SEQUENCE_NOT_STARTED;
  if (!was_known) {
    s = h->sequence_count++;
    h->sequences[s] = (ref_sequence){.id = id,
                                     .known = true,
                                     .due_ns = CLOCK_NEVER,
                                     .idle_from = CLOCK_NEVER,
                                     .under_way = NONE};
  }
  ref_sequence *q = &h->sequences[s];
  uint64_t due_ns = h->now_ns + it->item.timeout_us * 1000;
  it->sequence = s;
  it->fate = WAITING;
  h->item_count++;
  if (it->item.timeout_us != 0 && due_ns < q->due_ns)
    q->due_ns = due_ns;
  if (ends)
    q->known = false;
  settle(h);
  return was_known && starts ? SEQUENCE_RESTARTED : SEQUENCE_TAKEN;
}

static void add(history *h, bool starts, bool ends)
{
  static const char *const texts[IDS] = {"", "a", "1", NULL};
  if (h->item_count == MAX_ITEMS)
    return;
  fate before[MAX_ITEMS];
  sequence_outcome o;
  unsigned id = draw(h, IDS);
  const sequence_id given = {.text = texts[id] != NULL ? slice_of(texts[id]) : (slice){NULL, 0},
                             .number = 1};
  queue_item *item = &h->items[h->item_count].item;
  item->timeout_us = draw(h, 3) == 0 ? 1 + draw(h, 30) : 0;
  remember(h, before);
  sequence_verdict expected = expect_add(h, id, starts, ends);
  CHECK(h,
        sequence_table_add(h->table, item, given, starts, ends, h->now_ns, fresh(&o)) == expected);
  compare(h, &o, before);
}

// One of those with that fate, or NONE.
static size_t pick(history *h, fate wanted)
{
  size_t found = NONE;
  uint32_t seen = 0;
  for (size_t i = 0; i < h->item_count; i++)
    if (h->items[i].fate == wanted && draw(h, ++seen) == 0)
      found = i;
  return found;
}

static void take(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  size_t i = pick(h, UNDER_WAY);
  if (i == NONE || h->items[i].taken)
    return;
  ref_sequence *q = &h->sequences[h->items[i].sequence];
  remember(h, before);
  h->items[i].taken = true;
  if (!q->known && first_waiting(h, h->items[i].sequence) == NONE) {
    q->left_slot = true;
    h->slots[q->slot] = false;
  }
  settle(h);
  sequence_table_take(h->table, &h->items[i].item, fresh(&o));
  compare(h, &o, before);
}

static void end_under_way(history *h, bool withdrawn)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  size_t i = pick(h, UNDER_WAY);
  if (i == NONE || (withdrawn && h->items[i].taken))
    return;
  size_t s = h->items[i].sequence;
  remember(h, before);
  h->items[i].fate = before[i] = RELEASED;
  h->sequences[s].under_way = NONE;
  if (withdrawn && h->config.ends_with_cancelled) {
    refuse_waiting(h, s, 0);
    h->sequences[s].known = false;
  }
  settle(h);
  if (withdrawn)
    sequence_table_withdraw(h->table, &h->items[i].item, h->now_ns, fresh(&o));
  else
    sequence_table_release(h->table, &h->items[i].item, h->now_ns, fresh(&o));
  CHECK(h, h->items[i].item.sequence == NULL);
  compare(h, &o, before);
}

static void cut(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  size_t i = pick(h, WAITING);
  if (i == NONE)
    return;
  ref_sequence *q = &h->sequences[h->items[i].sequence];
  remember(h, before);
  refuse_waiting(h, h->items[i].sequence, q->has_slot ? i : 0);
  q->known = false;
  settle(h);
  CHECK(h, sequence_item_waits(&h->items[i].item));
  sequence_table_cut(h->table, &h->items[i].item, h->now_ns, fresh(&o));
  compare(h, &o, before);
}

static uint64_t next_due(const history *h)
{
  uint64_t next_ns = CLOCK_NEVER;
  for (size_t s = 0; s < h->sequence_count; s++) {
    const ref_sequence *q = &h->sequences[s];
    if (q->over)
      continue;
    if (q->due_ns < next_ns && !q->has_slot)
      next_ns = q->due_ns;
    if (q->idle_from != CLOCK_NEVER && q->idle_from + h->config.max_idle_ns < next_ns)
      next_ns = q->idle_from + h->config.max_idle_ns;
  }
  return next_ns;
}

// The one that is idle too long, for the longest time; or NONE.
static size_t first_idle(const history *h)
{
  size_t first = NONE;
  for (size_t s = 0; s < h->sequence_count; s++) {
    const ref_sequence *q = &h->sequences[s];
    bool idle = !q->over && q->idle_from != CLOCK_NEVER &&
                q->idle_from + h->config.max_idle_ns <= h->now_ns;
    if (idle && (first == NONE || q->idle_number < h->sequences[first].idle_number))
      first = s;
  }
  return first;
}

// Who waited too long goes before others get the slots of those that were idle too long.
static void expire(history *h)
{
  for (size_t s = 0; s < h->sequence_count; s++) {
    ref_sequence *q = &h->sequences[s];
    if (q->over || q->has_slot || q->due_ns > h->now_ns)
      continue;
    refuse_waiting(h, s, 0);
    q->known = false;
  }
  settle(h);
  for (size_t s; (s = first_idle(h)) != NONE;) {
    h->sequences[s].known = false;
    settle(h);
  }
}

static void tick(history *h, uint64_t ns)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  CHECK(h, sequence_table_next_ns(h->table) == next_due(h));
  h->now_ns += ns;
  remember(h, before);
  expire(h);
  sequence_table_tick(h->table, h->now_ns, fresh(&o));
  compare(h, &o, before);
  CHECK(h, sequence_table_next_ns(h->table) > h->now_ns);
}

static void abandon(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  remember(h, before);
  for (size_t s = 0; s < h->sequence_count; s++) {
    refuse_waiting(h, s, 0);
    h->sequences[s].known = false;
  }
  settle(h);
  sequence_table_abandon(h->table, fresh(&o));
  compare(h, &o, before);
}

static size_t longest_idle(const history *h)
{
  size_t first = NONE;
  for (size_t s = 0; s < h->sequence_count; s++) {
    const ref_sequence *q = &h->sequences[s];
    if (!q->over && q->known && q->idle_from != CLOCK_NEVER &&
        (first == NONE || q->idle_number < h->sequences[first].idle_number))
      first = s;
  }
  return first;
}

static void dismiss(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  remember(h, before);
  h->stopped = true;
  for (size_t s = 0; s < h->sequence_count; s++)
    h->sequences[s].known = h->sequences[s].known && h->sequences[s].idle_from != CLOCK_NEVER;
  for (size_t s; (s = longest_idle(h)) != NONE;) {
    h->sequences[s].known = false;
    settle(h);
  }
  sequence_table_dismiss(h->table, fresh(&o));
  compare(h, &o, before);
}

// New ones, and such as were closed and have no sequence any more.
static void open_instances(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  uint32_t numbers[MAX_INSTANCES];
  const size_t wanted = 1 + draw(h, 2);
  size_t count = 0;
  for (uint32_t i = 0; i < MAX_INSTANCES && count < wanted; i++)
    if (!h->open[i] && inhabited(h, i) == 0)
      numbers[count++] = i;
  remember(h, before);
  for (size_t i = 0; i < count; i++) {
    h->open[numbers[i]] = true;
    h->numbers = h->numbers > numbers[i] ? h->numbers : numbers[i] + 1;
  }
  settle(h);
  CHECK(h, sequence_table_open(h->table, numbers, count, fresh(&o)));
  compare(h, &o, before);
}

static void close_instance(history *h)
{
  fate before[MAX_ITEMS];
  sequence_outcome o;
  const uint32_t number = draw(h, (uint32_t)h->numbers);
  size_t open = 0;
  for (size_t i = 0; i < h->numbers; i++)
    open += h->open[i];
  if (!h->open[number] || open == 1)
    return;
  remember(h, before);
  h->open[number] = false;
  settle(h);
  sequence_table_close(h->table, number);
  compare(h, fresh(&o), before);
}

static void happen(history *h)
{
  switch (draw(h, 19)) {
  case 18:
    if (draw(h, 5) == 0)
      open_instances(h);
    else if (draw(h, 4) == 0)
      close_instance(h);
    break;
  case 0:
    cut(h);
    break;
  case 1:
    end_under_way(h, true);
    break;
  case 2:
  case 3:
    tick(h, draw(h, 12000));
    break;
  case 4:
  case 5:
  case 6:
  case 7:
    end_under_way(h, false);
    break;
  case 16:
  case 17:
    take(h);
    break;
  case 8:
    if (draw(h, 30) == 0)
      abandon(h);
    else if (draw(h, 100) == 0)
      dismiss(h);
    break;
  default:
    add(h, draw(h, 3) == 0, draw(h, 4) == 0);
    break;
  }
  CHECK(h, sequence_table_next_ns(h->table) == next_due(h));
}

// Requests end and time passes, until nothing is left: all slots are free then.
static void finish(history *h)
{
  if (draw(h, 2) == 0) {
    h->stopped = true;
    sequence_table_stop(h->table);
  }
  for (size_t left = 1; left > 0;) {
    while (pick(h, UNDER_WAY) != NONE)
      end_under_way(h, false);
    tick(h, h->config.max_idle_ns);
    left = 0;
    for (size_t s = 0; s < h->sequence_count; s++)
      left += !h->sequences[s].over;
  }
  for (size_t i = 0; i < h->item_count; i++)
    CHECK(h, h->items[i].fate == RELEASED || h->items[i].fate == REFUSED);
  CHECK(h, sequence_table_next_ns(h->table) == CLOCK_NEVER);
}

static void run_history(uint64_t seed)
{
  static history h;
  memset(&h, 0, sizeof(h));
  h.seed = seed;
  h.random = (uint32_t)(seed * 2654435761u) | 1;
  for (int i = 0; i < 8; i++)
    draw(&h, 2);
  h.config = (sequence_config){.instances = 1 + draw(&h, MAX_INSTANCES),
                               .rows = 1 + draw(&h, MAX_ROWS),
                               .max_idle_ns = 1 + draw(&h, 20000),
                               .ends_with_cancelled = draw(&h, 2) == 0};
  if (draw(&h, 2) == 0)
    h.config.instances = h.config.rows = 1;
  for (h.numbers = 0; h.numbers < h.config.instances; h.numbers++)
    h.open[h.numbers] = true;
  h.table = sequence_table_new(&h.config);
  assert_non_null(h.table);
  uint32_t steps = 1 + draw(&h, 60);
  for (uint32_t i = 0; i < steps; i++)
    happen(&h);
  finish(&h);
  sequence_table_free(h.table);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void random_histories_are_as_the_rules_say(void **state)
{
  (void)state;
  uint64_t only = setting("NEREID_SEED", 0), count = setting("NEREID_HISTORIES", HISTORIES);
  if (only != 0) {
    run_history(only);
    return;
  }
  clock_t begin = clock();
  for (uint64_t seed = 1; seed <= count; seed++)
    run_history(seed);
  double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
  print_message("%" PRIu64 " histories, %.0f a minute\n", count, (double)count / seconds * 60);
}

static void many_ids_are_told_apart(void **state)
{
  enum {
    COUNT = 1000
  };
  (void)state;
  const sequence_config config = {.instances = 1, .rows = COUNT, .max_idle_ns = 1000};
  static queue_item items[2][COUNT];
  sequence_table *t = sequence_table_new(&config);
  sequence_outcome o;
  sequence_outcome_init(&o);
  for (uint64_t n = 0; n < COUNT; n++)
    assert_int_equal(
        sequence_table_add(t, &items[0][n], (sequence_id){.number = n}, true, false, 0, &o),
        SEQUENCE_TAKEN);
  assert_int_equal(sequence_table_live(t), COUNT);
  for (uint64_t n = 0; n < COUNT; n++) {
    const sequence *mine = items[0][n].sequence;
    assert_int_equal(
        sequence_table_add(t, &items[1][n], (sequence_id){.number = n}, false, true, 0, &o),
        SEQUENCE_TAKEN);
    assert_ptr_equal(items[1][n].sequence, mine);
    assert_int_equal(mine->slot->row, n);
  }
  while (list_first(&o.start) != NULL) {
    queue_item *item = container_of(list_take_first(&o.start), queue_item, node);
    sequence_table_release(t, item, 1, &o);
  }
  for (list_node *node; (node = list_take_first(&o.over)) != NULL;)
    sequence_free(container_of(node, sequence, node));
  assert_int_equal(sequence_table_live(t), 0);
  assert_int_equal(sequence_table_next_ns(t), CLOCK_NEVER);
  sequence_table_free(t);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_histories_are_as_the_rules_say),
      cmocka_unit_test(many_ids_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
