// SPDX-License-Identifier: Apache-2.0
// The table of sequences. Called by core/sequences.c with its lock held, and by tests.
#include "schedule/sequence_policy.h"

#include "base/clock.h"
#include "base/state.h"
#include "base/string_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64

typedef struct residence { // the slots of an instance
  bool is_open;            // its slots are given to sequences
  uint32_t made;           // number of slots made
  size_t inhabited;        // slots in use
  sequence_slot *newest;   // the highest row
} residence;

struct sequence_table {
  sequence_config config;
  residence *residences; // indexed by the instances' numbers
  size_t count;          // of residences
  bool stopped;
  sequence **buckets; // of known sequences, by the hash of their ids
  size_t bucket_count;
  size_t known;
  size_t live;
  size_t waiting;
  size_t backlog_count;
  list backlog;       // the oldest first
  heap expiries;      // of the backlog
  list busy;          // in no order
  list idle;          // the first due first
  heap ready;         // slots of open instances without a sequence: the lowest row first, then the
                      // lowest instance
  uint32_t made_rows; // of each open instance
};

// ---- making ----

sequence_table *sequence_table_new(const sequence_config *config)
{
  assert(config->instances > 0 && config->rows > 0);
  sequence_table *t = calloc(1, sizeof(*t));
  sequence **buckets = calloc(FIRST_BUCKETS, sizeof(*buckets));
  residence *residences = calloc(config->instances, sizeof(*residences));
  if (t == NULL || buckets == NULL || residences == NULL) {
    free(residences);
    free(buckets);
    free(t);
    return NULL;
  }
  t->config = *config;
  t->residences = residences;
  t->count = config->instances;
  for (size_t i = 0; i < t->count; i++)
    residences[i].is_open = true;
  t->buckets = buckets;
  t->bucket_count = FIRST_BUCKETS;
  list_init(&t->backlog);
  list_init(&t->busy);
  list_init(&t->idle);
  return t;
}

static void set_state(sequence *s, sequence_state to)
{
  static const unsigned allowed[] = {
      [SEQUENCE_BACKLOGGED] = STATE_BIT(SEQUENCE_BUSY) | STATE_BIT(SEQUENCE_OVER),
      [SEQUENCE_BUSY] =
          STATE_BIT(SEQUENCE_BUSY) | STATE_BIT(SEQUENCE_IDLE) | STATE_BIT(SEQUENCE_OVER),
      [SEQUENCE_IDLE] = STATE_BIT(SEQUENCE_BUSY) | STATE_BIT(SEQUENCE_OVER),
      [SEQUENCE_OVER] = 0,
  };
  state_assert(allowed, s->state, to);
  s->state = to;
}

void sequence_free(sequence *s_over)
{
  assert(s_over->state == SEQUENCE_OVER && !list_is_linked(&s_over->node));
  free(s_over);
}

static void free_slots(residence *of)
{
  for (sequence_slot *slot = of->newest, *next; slot != NULL; slot = next) {
    next = slot->next;
    free(slot);
  }
}

void sequence_table_free(sequence_table *t)
{
  assert(t->waiting == 0 && t->known == 0);
  for (size_t i = 0; i < t->count; i++) {
    assert(t->residences[i].inhabited == 0);
    free_slots(&t->residences[i]);
  }
  free(t->residences);
  free(t->buckets);
  free(t);
}

void sequence_outcome_init(sequence_outcome *o)
{
  list_init(&o->start);
  list_init(&o->refused);
  list_init(&o->over);
  o->vacated = false;
}

// ---- ids ----

static uint64_t hash_of(sequence_id id)
{
  return string_map_hash(
      id.text.data != NULL ? id.text : (slice){(const char *)&id.number, sizeof(id.number)});
}

static sequence **bucket_of(const sequence_table *t, uint64_t hash)
{
  return &t->buckets[hash >> 32 & (t->bucket_count - 1)];
}

static bool has_id(const sequence *s, sequence_id id)
{
  if (id.text.data == NULL)
    return s->text_size == SIZE_MAX && s->number == id.number;
  return s->text_size == id.text.size && memcmp(s->text, id.text.data, id.text.size) == 0;
}

static sequence *find(const sequence_table *t, sequence_id id, uint64_t hash)
{
  sequence *s = *bucket_of(t, hash);
  while (s != NULL && (s->hash != hash || !has_id(s, id)))
    s = s->next_of_bucket;
  return s;
}

static void count_live(sequence_table *t, const sequence *s, int change)
{
  if (s->known && s->slot != NULL)
    t->live = change > 0 ? t->live + 1 : t->live - 1;
}

// When memory is short the buckets stay as they are.
static void grow(sequence_table *t)
{
  size_t count = 2 * t->bucket_count;
  sequence **before = t->buckets, **buckets = calloc(count, sizeof(*buckets));
  if (buckets == NULL)
    return;
  size_t before_count = t->bucket_count;
  t->buckets = buckets;
  t->bucket_count = count;
  for (size_t i = 0; i < before_count; i++) {
    for (sequence *s = before[i], *next; s != NULL; s = next) {
      next = s->next_of_bucket;
      sequence **bucket = bucket_of(t, s->hash);
      s->next_of_bucket = *bucket;
      *bucket = s;
    }
  }
  free(before);
}

static void know(sequence_table *t, sequence *s)
{
  if (t->known >= t->bucket_count)
    grow(t);
  sequence **bucket = bucket_of(t, s->hash);
  s->next_of_bucket = *bucket;
  *bucket = s;
  s->known = true;
  t->known++;
}

// After its END, or when it is cut off: later requests with its id belong to another sequence.
static void forget(sequence_table *t, sequence *s)
{
  if (!s->known)
    return;
  sequence **link = bucket_of(t, s->hash);
  while (*link != s)
    link = &(*link)->next_of_bucket;
  *link = s->next_of_bucket;
  count_live(t, s, -1);
  s->known = false;
  t->known--;
}

static sequence *new_sequence(sequence_id id, uint64_t hash)
{
  size_t text_size = id.text.data != NULL ? id.text.size : 0;
  sequence *s = calloc(1, sizeof(*s) + text_size);
  if (s == NULL)
    return NULL;
  s->state = SEQUENCE_BACKLOGGED;
  s->hash = hash;
  s->number = id.number;
  s->text_size = id.text.data != NULL ? text_size : SIZE_MAX;
  if (text_size > 0)
    memcpy(s->text, id.text.data, text_size);
  list_init(&s->waiting);
  return s;
}

// ---- slots ----

static void slot_is_ready(sequence_table *t, sequence_slot *slot)
{
  slot->ready.when_ns = (uint64_t)slot->row << 32 | slot->instance;
  heap_insert(&t->ready, &slot->ready);
}

// Makes the instance's slots up to `rows`. False when memory is short; slots already made stay for
// the next call.
static bool make_slots(sequence_table *t, size_t instance, uint32_t rows)
{
  residence *r = &t->residences[instance];
  for (; r->made < rows; r->made++) {
    sequence_slot *slot = calloc(1, sizeof(*slot));
    if (slot == NULL)
      return false;
    *slot = (sequence_slot){.instance = (uint32_t)instance, .row = r->made, .next = r->newest};
    r->newest = slot;
  }
  return true;
}

// Makes one more row for each open instance, up to config.rows. False when memory is short.
static bool make_row(sequence_table *t)
{
  if (t->made_rows == t->config.rows)
    return true;
  for (size_t i = 0; i < t->count; i++)
    if (t->residences[i].is_open && !make_slots(t, i, t->made_rows + 1))
      return false;
  t->made_rows++;
  for (size_t i = 0; i < t->count; i++)
    if (t->residences[i].is_open)
      slot_is_ready(t, t->residences[i].newest);
  return true;
}

static void give_slot(sequence_table *t, sequence *s, const sequence_slot *slot)
{
  s->slot = slot;
  t->residences[slot->instance].inhabited++;
  count_live(t, s, 1);
}

// Puts its next request under way.
static void start_next(sequence_table *t, sequence *s, sequence_outcome *o)
{
  queue_item *item = container_of(list_take_first(&s->waiting), queue_item, node);
  t->waiting--;
  if (s->state != SEQUENCE_BUSY)
    list_append(&t->busy, &s->node);
  set_state(s, SEQUENCE_BUSY);
  s->under_way = item;
  list_append(&o->start, &item->node);
}

// Takes it out of the backlog, the idle or the busy.
static void unlist(sequence_table *t, sequence *s)
{
  list_remove(&s->node);
  if (s->state == SEQUENCE_BACKLOGGED)
    t->backlog_count--;
  if (heap_is_linked(&s->expiry))
    heap_remove(&t->expiries, &s->expiry);
}

// Gives free slots, the lowest first, to the sequences that waited longest.
static void serve_backlog(sequence_table *t, sequence_outcome *o)
{
  heap_node *ready;
  sequence *s;
  while ((ready = heap_first(&t->ready)) != NULL &&
         (s = container_of(list_first(&t->backlog), sequence, node)) != NULL) {
    heap_remove(&t->ready, ready);
    unlist(t, s);
    give_slot(t, s, container_of(ready, sequence_slot, ready));
    start_next(t, s, o);
  }
}

// The slot's sequence has left it.
static void pass_on(sequence_table *t, const sequence_slot *slot, sequence_outcome *o)
{
  residence *r = &t->residences[slot->instance];
  r->inhabited--;
  if (r->is_open) {
    slot_is_ready(t, (sequence_slot *)slot);
    serve_backlog(t, o);
  } else if (r->inhabited == 0) {
    o->vacated = true;
  }
}

// ---- instances ----

// Makes room for `count` instances; new ones are not open. False when memory is short.
static bool reserve(sequence_table *t, size_t count)
{
  if (count <= t->count)
    return true;
  residence *larger = calloc(count, sizeof(*larger));
  if (larger == NULL)
    return false;
  memcpy(larger, t->residences, t->count * sizeof(*larger));
  free(t->residences);
  t->residences = larger;
  t->count = count;
  return true;
}

// Further rows are made when they are needed, for all instances.
bool sequence_table_open(sequence_table *t, const uint32_t *numbers, size_t count,
                         sequence_outcome *o)
{
  for (size_t i = 0; i < count; i++)
    if (!reserve(t, (size_t)numbers[i] + 1) || !make_slots(t, numbers[i], t->made_rows))
      return false;
  for (size_t i = 0; i < count; i++) {
    residence *r = &t->residences[numbers[i]];
    assert(!r->is_open && r->inhabited == 0);
    r->is_open = true;
    for (sequence_slot *slot = r->newest; slot != NULL; slot = slot->next)
      if (slot->row < t->made_rows)
        slot_is_ready(t, slot);
  }
  serve_backlog(t, o);
  return true;
}

void sequence_table_close(sequence_table *t, uint32_t number)
{
  residence *r = &t->residences[number];
  assert(r->is_open);
  r->is_open = false;
  for (sequence_slot *slot = r->newest; slot != NULL; slot = slot->next)
    if (heap_is_linked(&slot->ready))
      heap_remove(&t->ready, &slot->ready);
}

// A number that no instance has had is not open.
bool sequence_table_is_open(const sequence_table *t, uint32_t number)
{
  return number < t->count && t->residences[number].is_open;
}

size_t sequence_table_inhabited(const sequence_table *t, uint32_t number)
{
  return t->residences[number].inhabited;
}

// ---- the way of a sequence ----

// Refuses `from` and all requests after it.
static void refuse_from(sequence_table *t, sequence *s, list_node *from, sequence_outcome *o)
{
  for (list_node *next; from != NULL; from = next) {
    next = list_next(&s->waiting, from);
    list_remove(from);
    container_of(from, queue_item, node)->sequence = NULL;
    t->waiting--;
    list_append(&o->refused, from);
  }
}

static void end(sequence_table *t, sequence *s, sequence_outcome *o)
{
  assert(list_is_empty(&s->waiting) && s->under_way == NULL);
  forget(t, s);
  unlist(t, s);
  set_state(s, SEQUENCE_OVER);
  list_append(&o->over, &s->node);
  if (s->slot != NULL && !s->left_slot)
    pass_on(t, s->slot, o);
}

// Continues a sequence that has no request under way.
static void go_on(sequence_table *t, sequence *s, uint64_t now_ns, sequence_outcome *o)
{
  if (!list_is_empty(&s->waiting)) {
    start_next(t, s, o);
  } else if (!s->known) {
    end(t, s, o);
  } else {
    unlist(t, s);
    set_state(s, SEQUENCE_IDLE);
    if (__builtin_add_overflow(now_ns, t->config.max_idle_ns, &s->idle_until_ns))
      s->idle_until_ns = CLOCK_NEVER;
    list_append(&t->idle, &s->node);
  }
}

static void expire_earlier(sequence_table *t, sequence *s, const queue_item *item, uint64_t now_ns)
{
  uint64_t after_ns, when_ns;
  if (item->timeout_us == 0 ||
      __builtin_mul_overflow(item->timeout_us, (uint64_t)1000, &after_ns) ||
      __builtin_add_overflow(now_ns, after_ns, &when_ns))
    return;
  if (heap_is_linked(&s->expiry)) {
    if (s->expiry.when_ns <= when_ns)
      return;
    heap_remove(&t->expiries, &s->expiry);
  }
  s->expiry.when_ns = when_ns;
  heap_insert(&t->expiries, &s->expiry);
}

// Starts a sequence in a slot, or at the end of the backlog. NULL when memory is short.
static sequence *begin(sequence_table *t, sequence_id id, uint64_t hash)
{
  if (heap_first(&t->ready) == NULL && list_is_empty(&t->backlog) && !make_row(t))
    return NULL;
  sequence *s = new_sequence(id, hash);
  if (s == NULL)
    return NULL;
  know(t, s);
  heap_node *ready = heap_first(&t->ready);
  if (ready == NULL) {
    list_append(&t->backlog, &s->node);
    t->backlog_count++;
    return s;
  }
  heap_remove(&t->ready, ready);
  give_slot(t, s, container_of(ready, sequence_slot, ready));
  return s;
}

sequence_verdict sequence_table_add(sequence_table *t, queue_item *item, sequence_id id,
                                    bool starts, bool ends, uint64_t now_ns, sequence_outcome *o)
{
  uint64_t hash = hash_of(id);
  sequence *s = find(t, id, hash);
  bool was_known = s != NULL;
  assert(item->sequence == NULL);
  if (t->stopped && starts)
    return SEQUENCE_STOPPED;
  if (!was_known && !starts)
    return SEQUENCE_NOT_STARTED;
  if (!was_known && (s = begin(t, id, hash)) == NULL)
    return SEQUENCE_NO_MEMORY;
  item->sequence = s;
  list_append(&s->waiting, &item->node);
  t->waiting++;
  if (s->slot == NULL)
    expire_earlier(t, s, item, now_ns);
  if (ends)
    forget(t, s);
  if (s->slot != NULL && s->under_way == NULL) {
    if (list_is_linked(&s->node))
      unlist(t, s); // it was idle
    start_next(t, s, o);
  }
  return was_known && starts ? SEQUENCE_RESTARTED : SEQUENCE_TAKEN;
}

static sequence *let_go(queue_item *item)
{
  sequence *s = item->sequence;
  assert(s->under_way == item);
  s->under_way = NULL;
  item->sequence = NULL;
  return s;
}

void sequence_table_take(sequence_table *t, queue_item *item, sequence_outcome *o)
{
  sequence *s = item->sequence;
  assert(s->under_way == item);
  if (s->known || s->left_slot || !list_is_empty(&s->waiting))
    return;
  s->left_slot = true;
  pass_on(t, s->slot, o);
}

void sequence_table_release(sequence_table *t, queue_item *item, uint64_t now_ns,
                            sequence_outcome *o)
{
  go_on(t, let_go(item), now_ns, o);
}

void sequence_table_finish(sequence_table *t, const queue_item *item)
{
  assert(item->sequence->under_way == item);
  forget(t, item->sequence);
}

void sequence_table_withdraw(sequence_table *t, queue_item *item, uint64_t now_ns,
                             sequence_outcome *o)
{
  sequence *s = let_go(item);
  if (t->config.ends_with_cancelled) {
    refuse_from(t, s, list_first(&s->waiting), o);
    forget(t, s);
  }
  go_on(t, s, now_ns, o);
}

void sequence_table_cut(sequence_table *t, queue_item *item, uint64_t now_ns, sequence_outcome *o)
{
  sequence *s = item->sequence;
  (void)now_ns;
  assert(sequence_item_waits(item));
  forget(t, s);
  refuse_from(t, s, s->slot == NULL ? list_first(&s->waiting) : &item->node, o);
  if (s->under_way == NULL)
    end(t, s, o);
}

// ---- time ----

uint64_t sequence_table_next_ns(const sequence_table *t)
{
  const sequence *idle = container_of(list_first(&t->idle), sequence, node);
  const heap_node *expiry = heap_first(&t->expiries);
  uint64_t next_ns = idle != NULL ? idle->idle_until_ns : CLOCK_NEVER;
  return expiry != NULL && expiry->when_ns < next_ns ? expiry->when_ns : next_ns;
}

static void drop(sequence_table *t, sequence *s, sequence_outcome *o)
{
  refuse_from(t, s, list_first(&s->waiting), o);
  end(t, s, o);
}

// Expired sequences are refused before idle ones free their slots: they are too late in any case.
void sequence_table_tick(sequence_table *t, uint64_t now_ns, sequence_outcome *o)
{
  for (heap_node *n; (n = heap_first(&t->expiries)) != NULL && n->when_ns <= now_ns;)
    drop(t, container_of(n, sequence, expiry), o);
  for (list_node *n; (n = list_first(&t->idle)) != NULL;) {
    sequence *s = container_of(n, sequence, node);
    if (s->idle_until_ns > now_ns)
      return;
    end(t, s, o);
  }
}

void sequence_table_stop(sequence_table *t)
{
  t->stopped = true;
}

static void end_idle(sequence_table *t, sequence_outcome *o)
{
  for (list_node *n; (n = list_first(&t->idle)) != NULL;)
    end(t, container_of(n, sequence, node), o);
}

void sequence_table_dismiss(sequence_table *t, sequence_outcome *o)
{
  sequence_table_stop(t);
  list_foreach (sequence, s, node, &t->busy)
    forget(t, s);
  list_foreach (sequence, s, node, &t->backlog)
    forget(t, s);
  end_idle(t, o);
}

void sequence_table_abandon(sequence_table *t, sequence_outcome *o)
{
  for (list_node *n; (n = list_first(&t->backlog)) != NULL;)
    drop(t, container_of(n, sequence, node), o);
  list_foreach (sequence, s, node, &t->busy) {
    refuse_from(t, s, list_first(&s->waiting), o);
    forget(t, s);
  }
  end_idle(t, o);
}

size_t sequence_table_waiting(const sequence_table *t)
{
  return t->waiting;
}

size_t sequence_table_live(const sequence_table *t)
{
  return t->live;
}

size_t sequence_table_backlog(const sequence_table *t)
{
  return t->backlog_count;
}
