// SPDX-License-Identifier: Apache-2.0
// See sequences.h. The table decides under the lock; the outcome is carried out after it: requests
// go to their instances' schedulers or are refused. Only one request of a sequence is under way, so
// that none overtakes another meanwhile.
#include "core/sequences.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/batch_step.h"
#include "core/cancelled.h"
#include "core/refuse.h"
#include "core/sequence_batches.h"
#include "core/sequence_controls.h"
#include "schedule/sequence_policy.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

// The queue that an instance pulls from.
typedef struct instance_queue {
  scheduler *scheduler;
  ordering *ordering; // NULL: without preserve_ordering
} instance_queue;

typedef struct queue_set {
  struct queue_set *former;
  size_t count;
  instance_queue list[];
} queue_set;

typedef enum tenancy {
  TENANT_STAYS,
  TENANT_LEAVES, // after its last sequence
  TENANT_LEFT,   // it has no sequence
} tenancy;

typedef struct tenant {
  instance *instance; // NULL: the queue waits for a new instance
  tenancy tenancy;
} tenant;

struct sequences {
  // Constant once all instances are made:
  timekeeper *timekeeper;
  const state_rules *states; // NULL: there are none
  sequence_controls controls;
  bool has_rows;            // direct: each sequence has a row of the batch
  bool is_iterative;        // a request is a sequence, and may be released with RESCHEDULE
  scheduler_config batches; // of each instance's scheduler
  uint32_t *preferred;      // its preferred batch sizes
  bool is_ordered;          // preserve_ordering
  // Replaced by a larger set when instances come. Readers need no lock; former sets stay.
  _Atomic(queue_set *) queues;

  pthread_mutex_t lock; // guards all below
  tenant *tenants;      // one for each queue
  void (*vacated)(instance *i);
  sequence_table *table;
  sequence_outcome later; // of cancellations, carried out by the timer: a cancel calls nobody back
  uint64_t timer_at_ns;   // the timer fires at this moment at the latest
  uint64_t last_made_id;  // for requests that are sequences of their own
  timer timer;            // guarded by the timekeeper
};

// ---- making ----

static uint64_t to_ns(uint64_t us)
{
  uint64_t ns;
  return __builtin_mul_overflow(us, (uint64_t)1000, &ns) ? CLOCK_NEVER : ns;
}

static error *make_queue(sequences *s, instance_queue *q)
{
  scheduler_config config = s->batches;
  if (s->is_ordered)
    RETURN_IF_ERROR(ordering_new(response_send_ordered, NULL, &q->ordering));
  config.ordering = q->ordering;
  return scheduler_new(&config, clock_system(), s->timekeeper, refuse_item, NULL, &q->scheduler);
}

static void free_queues(queue_set *set, size_t from)
{
  for (size_t i = from; i < set->count; i++) {
    if (set->list[i].scheduler != NULL)
      scheduler_free(set->list[i].scheduler);
    if (set->list[i].ordering != NULL)
      ordering_free(set->list[i].ordering);
  }
  free(set);
}

static queue_set *queues_of(const sequences *s)
{
  return atomic_load_explicit(&s->queues, memory_order_acquire);
}

static error *grow_tenants(sequences *s, size_t present, size_t count)
{
  tenant *tenants = calloc(count, sizeof(*tenants));
  if (tenants == NULL)
    return error_no_memory();
  LOCK_SCOPE(&s->lock);
  for (size_t i = 0; i < present; i++)
    tenants[i] = s->tenants[i];
  free(s->tenants);
  s->tenants = tenants;
  return NULL;
}

// Makes queues up to `count`.
static error *grow_queues(sequences *s, size_t count)
{
  queue_set *former = queues_of(s);
  const size_t present = former != NULL ? former->count : 0;
  if (count <= present)
    return NULL;
  RETURN_IF_ERROR(grow_tenants(s, present, count));
  size_t size;
  queue_set *set = checked_array_size(sizeof(*set), count, sizeof(instance_queue), &size)
                       ? calloc(1, size)
                       : NULL;
  if (set == NULL)
    return error_no_memory();
  *set = (queue_set){.former = former, .count = count};
  for (size_t i = 0; i < present; i++)
    set->list[i] = former->list[i];
  for (size_t i = present; i < count; i++) {
    error *e = make_queue(s, &set->list[i]);
    if (e != NULL) {
      free_queues(set, present);
      return e;
    }
  }
  atomic_store_explicit(&s->queues, set, memory_order_release);
  return NULL;
}

static size_t active_instances(const Inference__ModelConfig *config)
{
  size_t count = 0;
  for (size_t g = 0; g < config->n_instance_group; g++)
    if (!config->instance_group[g]->passive)
      count += config_group_instances(config->instance_group[g]);
  return count;
}

static error *check_count(size_t active)
{
  if (active > 0)
    return NULL;
  return error_new(ERROR_INTERNAL,
                   "Initialization failed for all sequence-batch scheduler threads");
}

static uint64_t on_timer(void *context, uint64_t now_ns);

static error *init(sequences *s, const Inference__ModelConfig *config)
{
  const Inference__ModelSequenceBatching *batching = config->sequence_batching;
  s->has_rows =
      batching->strategy_choice_case != INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST;
  s->is_iterative = batching->iterative_sequence;
  const size_t count = active_instances(config);
  RETURN_IF_ERROR(check_count(count));
  uint32_t rows = sequence_batches_slots(config, s->has_rows);
  RETURN_IF_ERROR(sequence_controls_init(&s->controls, config));
  s->is_ordered = !s->has_rows && batching->oldest->preserve_ordering;
  RETURN_IF_ERROR(sequence_batches_read(config, s->has_rows, rows, &s->batches, &s->preferred));
  RETURN_IF_ERROR(grow_queues(s, count));
  const sequence_config table = {.instances = count,
                                 .rows = rows,
                                 .max_idle_ns = to_ns(batching->max_sequence_idle_microseconds),
                                 .ends_with_cancelled = s->has_rows || s->is_iterative};
  s->table = sequence_table_new(&table);
  return s->table == NULL ? error_no_memory() : NULL;
}

error *sequences_new(const Inference__ModelConfig *config, const state_rules *states,
                     timekeeper *keeper, sequences **result)
{
  sequences *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  *result = s;
  s->timekeeper = keeper;
  s->states = states;
  s->timer_at_ns = CLOCK_NEVER;
  sequence_outcome_init(&s->later);
  pthread_mutex_init(&s->lock, NULL);
  timer_init(&s->timer, on_timer, s);
  return init(s, config);
}

void sequences_free(sequences *s)
{
  queue_set *set = queues_of(s);
  for (queue_set *former = set != NULL ? set->former : NULL, *next; former != NULL; former = next) {
    next = former->former;
    free(former);
  }
  if (set != NULL)
    free_queues(set, 0);
  if (s->table != NULL)
    sequence_table_free(s->table);
  sequence_controls_fini(&s->controls);
  pthread_mutex_destroy(&s->lock);
  free(s->tenants);
  free(s->preferred);
  free(s);
}

// The number of the instance's queue, or, for NULL, of a queue that waits for an instance; the
// number of queues when there is none. The lock is held.
static size_t number_of(const sequences *s, const instance *i)
{
  assert(lock_is_held(&s->lock));
  const size_t count = queues_of(s)->count;
  size_t number = 0;
  while (number < count && s->tenants[number].instance != i)
    number++;
  return number;
}

void sequences_attach(sequences *s, instance *i)
{
  if (i->group->passive)
    return;
  LOCK_SCOPE(&s->lock);
  const queue_set *set = queues_of(s);
  const size_t number = number_of(s, NULL);
  assert(number < set->count);
  s->tenants[number] = (tenant){.instance = i, .tenancy = TENANT_STAYS};
  i->scheduler = set->list[number].scheduler;
  i->ordering = set->list[number].ordering;
  i->row_controls = s->has_rows && i->shared->max_batch_size > 0 ? &s->controls : NULL;
}

void sequences_detach(sequences *s, const instance *i)
{
  LOCK_SCOPE(&s->lock);
  const size_t number = number_of(s, i);
  if (number < queues_of(s)->count) // else the instance is passive
    s->tenants[number].instance = NULL;
}

// ---- outcomes, carried out without the lock ----

// The next moment for the timer, unless it is armed for an earlier one. The lock is held.
static uint64_t next_alarm(sequences *s)
{
  assert(lock_is_held(&s->lock));
  uint64_t next_ns = sequence_table_next_ns(s->table);
  if (next_ns >= s->timer_at_ns)
    return CLOCK_NEVER;
  s->timer_at_ns = next_ns;
  return next_ns;
}

static void arm(sequences *s, uint64_t alarm_ns)
{
  if (alarm_ns != CLOCK_NEVER)
    timekeeper_arm(s->timekeeper, &s->timer, alarm_ns);
}

// Gives the request the states of its sequence; a request that starts one gets first states.
static error *give_states(const sequences *s, request *r)
{
  sequence *of = r->item.sequence;
  if ((r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0) {
    sequence_states_unref(of->states);
    of->states = NULL;
  }
  if (of->states == NULL)
    RETURN_IF_ERROR(sequence_states_new(s->states, &of->states));
  return request_set_states(r, of->states);
}

static error *start(sequences *s, request *r)
{
  const sequence_slot *slot = r->item.sequence->slot;
  assert(!sequence_item_waits(&r->item)); // no other request of its sequence is under way
  refusal reason;
  bool has_place = r->factory->ordering != NULL; // it is executed again
  const instance_queue *queue = &queues_of(s)->list[slot->instance];
  r->item.slot = queue->ordering != NULL && !has_place ? &r->factory->slot : NULL;
  RETURN_IF_ERROR(sequence_controls_add(&s->controls, r));
  if (s->states != NULL)
    RETURN_IF_ERROR(give_states(s, r));
  return scheduler_enqueue(queue->scheduler, &r->item, &reason) ? NULL : refusal_error(r, reason);
}

static void free_all(list *over)
{
  list_node *node;
  while ((node = list_take_first(over)) != NULL) {
    sequence *s = container_of(node, sequence, node);
    sequence_states_unref(s->states);
    sequence_free(s);
  }
}

// The request of a sequence is over; adds what follows to `o`.
static void release(sequences *s, request *r, sequence_outcome *o)
{
  pthread_mutex_lock(&s->lock);
  if (s->is_iterative)
    sequence_table_finish(s->table, &r->item);
  sequence_table_release(s->table, &r->item, clock_monotonic_ns(), o);
  uint64_t alarm_ns = next_alarm(s);
  pthread_mutex_unlock(&s->lock);
  arm(s, alarm_ns);
}

// An instance that leaves and has no sequence any more; each is returned once.
static instance *take_vacated(sequences *s)
{
  LOCK_SCOPE(&s->lock);
  const size_t count = queues_of(s)->count;
  for (size_t n = 0; n < count; n++) {
    tenant *t = &s->tenants[n];
    if (t->tenancy != TENANT_LEAVES || sequence_table_inhabited(s->table, (uint32_t)n) > 0)
      continue;
    t->tenancy = TENANT_LEFT;
    return t->instance;
  }
  return NULL;
}

// Called before requests are refused or given back, as long as these keep `s` alive.
static void tell_vacated(sequences *s, sequence_outcome *o)
{
  instance *i;
  if (!o->vacated)
    return;
  o->vacated = false;
  while ((i = take_vacated(s)) != NULL)
    s->vacated(i);
}

// Hands requests to their instances. A request that cannot go is refused, and its sequence
// continues.
static void start_all(sequences *s, sequence_outcome *o)
{
  list_node *node;
  while ((node = list_take_first(&o->start)) != NULL) {
    request *r = request_of_item(container_of(node, queue_item, node));
    error *e = start(s, r);
    if (e == NULL)
      continue;
    release(s, r, o);
    tell_vacated(s, o);
    refuse_request(r, e, FAILURE_REJECTED);
  }
}

static void refuse_all(list *items, refusal reason)
{
  list_node *node;
  while ((node = list_take_first(items)) != NULL)
    refuse_item(NULL, container_of(node, queue_item, node), reason);
}

// The last refused request may be the model's last reference.
static void carry_out(sequences *s, sequence_outcome *o, refusal reason)
{
  tell_vacated(s, o);
  start_all(s, o);
  free_all(&o->over);
  refuse_all(&o->refused, reason);
}

static void move_outcome(sequence_outcome *to, sequence_outcome *from)
{
  list_append_all(&to->start, &from->start);
  list_append_all(&to->refused, &from->refused);
  list_append_all(&to->over, &from->over);
  to->vacated = from->vacated;
  from->vacated = false;
}

static uint64_t on_timer(void *context, uint64_t now_ns)
{
  sequences *s = context;
  sequence_outcome expired, cancelled;
  sequence_outcome_init(&expired);
  sequence_outcome_init(&cancelled);
  pthread_mutex_lock(&s->lock);
  move_outcome(&cancelled, &s->later);
  sequence_table_tick(s->table, now_ns, &expired);
  uint64_t next_ns = s->timer_at_ns = sequence_table_next_ns(s->table);
  pthread_mutex_unlock(&s->lock);
  carry_out(s, &cancelled, REFUSAL_CANCELLED);
  carry_out(s, &expired, REFUSAL_SEQUENCE_TIMEOUT);
  return next_ns;
}

// ---- what the threads call ----

// The sequence's name as text; `number` has room for a numeric one.
static const char *name_of(const request *r, char number[24])
{
  snprintf(number, 24, "%" PRIu64, r->correlation_id);
  return r->correlation_text != NULL ? r->correlation_text : number;
}

static void warn_of_restart(const request *r)
{
  const log_subject subject = {
      .request_id = r->id.data, .model = r->target->name, .version = r->target->version};
  char number[24];
  log_warning_about(&subject,
                    "sequence %s for model '%s' has a conflict. The previous sequence did not end "
                    "before this sequence start. Previous sequence will be terminated early.",
                    name_of(r, number), r->target->name);
}

static refusal refusal_of(sequence_verdict verdict)
{
  switch (verdict) {
  case SEQUENCE_NOT_STARTED:
    return REFUSAL_NOT_STARTED;
  case SEQUENCE_STOPPED:
    return REFUSAL_STOPPED;
  default:
    return REFUSAL_NO_MEMORY;
  }
}

// From here on the request is the client's.
static void give_back(request *r)
{
  request_drop_states(r);
  request_drop_overrides(r);
  if (!r->in_own_sequence)
    return;
  r->correlation_id = 0;
  r->flags = 0;
  r->in_own_sequence = false;
}

// Once the lock is free, the request may be executed and gone.
static sequence_verdict add(sequences *s, request *r, sequence_outcome *o, uint64_t *alarm_ns)
{
  LOCK_SCOPE(&s->lock);
  if (r->in_own_sequence) {
    r->correlation_id = ++s->last_made_id;
    r->flags = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START;
  }
  const sequence_id id = {.text = r->correlation_text != NULL ? slice_of(r->correlation_text)
                                                              : (slice){NULL, 0},
                          .number = r->correlation_id};
  bool starts = (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0;
  bool ends = (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
  uint64_t now_ns = clock_monotonic_ns();
  r->times.queue_start = r->item.enqueued_ns = now_ns;
  sequence_verdict verdict = sequence_table_add(s->table, &r->item, id, starts, ends, now_ns, o);
  if (verdict == SEQUENCE_RESTARTED)
    warn_of_restart(r);
  *alarm_ns = next_alarm(s);
  return verdict;
}

bool sequences_add(sequences *s, request *r, refusal *reason)
{
  bool has_id =
      r->correlation_text != NULL ? r->correlation_text[0] != '\0' : r->correlation_id != 0;
  uint64_t alarm_ns = CLOCK_NEVER;
  sequence_outcome o;
  if (r->batch_size > 1 || (!has_id && !s->is_iterative)) {
    *reason = r->batch_size > 1 ? REFUSAL_BATCH : REFUSAL_NO_SEQUENCE;
    return false;
  }
  r->in_own_sequence = !has_id;
  sequence_outcome_init(&o);
  sequence_verdict verdict = add(s, r, &o, &alarm_ns);
  if (verdict != SEQUENCE_TAKEN && verdict != SEQUENCE_RESTARTED) {
    *reason = refusal_of(verdict);
    give_back(r);
    return false;
  }
  arm(s, alarm_ns);
  carry_out(s, &o, REFUSAL_STOPPED);
  return true;
}

// Queues the request again, without START and END, behind what waits for its instance.
static void go_again(sequences *s, request *r)
{
  uint64_t now_ns = clock_monotonic_ns();
  request_set_state(r, REQUEST_PENDING);
  r->flags = 0;
  r->times.queue_start = r->item.enqueued_ns = now_ns;
  if (r->factory->trace != NULL)
    trace_report(r->factory->trace, TRITONSERVER_TRACE_QUEUE_START, now_ns);
  error *e = start(s, r);
  if (e != NULL)
    refuse_request(r, e, FAILURE_REJECTED);
}

// One request of a sequence is under way at a time, so its `life` needs no lock.
static error *go_on_in(request *r, void *life)
{
  sequence *s = r->item.sequence;
  const uint64_t now = *(const uint64_t *)life;
  char number[24];
  if ((r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0)
    s->life = now;
  if (s->life == now)
    return NULL;
  return request_error(r, ERROR_INTERNAL,
                       "the state of sequence %s of model '%s' is lost, because the process that "
                       "had it has ended: the sequence must begin again, with the START flag",
                       name_of(r, number), r->target->name);
}

uint32_t sequences_refuse_lost(const sequences *s, instance *i, size_t first, uint32_t count)
{
  uint64_t (*life_of)(instance *) = i->shared->backend->functions.model_instance_life;
  if (life_of == NULL || s->states != NULL)
    return count;
  uint64_t life = life_of(i);
  return batch_do(i, first, count, go_on_in, &life);
}

static bool ends(const request *r)
{
  return r->item.sequence != NULL && (r->flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
}

// As in Triton, the slot is free before a client can learn of the end.
void sequences_taken(sequences *s, request *const *batch, uint32_t count)
{
  sequence_outcome o;
  uint32_t first = 0;
  while (first < count && !ends(batch[first]))
    first++;
  if (first == count || s->is_iterative) // an iterative sequence ends at its release
    return;
  sequence_outcome_init(&o);
  pthread_mutex_lock(&s->lock);
  for (uint32_t n = first; n < count; n++)
    if (ends(batch[n]))
      sequence_table_take(s->table, &((request *)batch[n])->item, &o);
  pthread_mutex_unlock(&s->lock);
  carry_out(s, &o, REFUSAL_STOPPED);
}

bool sequences_released(void *sequences_pointer, request *r, uint32_t flags)
{
  sequences *s = sequences_pointer;
  sequence_outcome o;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) != 0) {
    go_again(s, r);
    return true;
  }
  give_back(r);
  if (r->item.sequence == NULL)
    return false;
  sequence_outcome_init(&o);
  release(s, r, &o);
  carry_out(s, &o, REFUSAL_STOPPED);
  return false;
}

// Takes out a request that waits for its turn, and the requests that followed it. If the request is
// under way, returns the scheduler that has it, which decides.
static scheduler *cut(sequences *s, request *r, bool *was_cut)
{
  LOCK_SCOPE(&s->lock);
  *was_cut = sequence_item_waits(&r->item);
  if (r->item.sequence == NULL)
    return NULL;
  if (!*was_cut)
    return queues_of(s)->list[r->item.sequence->slot->instance].scheduler;
  sequence_table_cut(s->table, &r->item, clock_monotonic_ns(), &s->later);
  list_remove(&r->item.node); // the caller has the request
  s->timer_at_ns = 0;
  return NULL;
}

static void withdraw(sequences *s, request *r)
{
  LOCK_SCOPE(&s->lock);
  sequence_table_withdraw(s->table, &r->item, clock_monotonic_ns(), &s->later);
  s->timer_at_ns = 0;
}

bool sequences_cancel(sequences *s, request *r)
{
  bool taken;
  scheduler *queue = cut(s, r, &taken);
  if (queue != NULL && scheduler_cancel(queue, &r->item)) {
    withdraw(s, r);
    taken = true;
  }
  if (taken)
    arm(s, 0);
  return taken;
}

// ---- other instances ----

static size_t free_queues_of(sequences *s)
{
  LOCK_SCOPE(&s->lock);
  const size_t count = queues_of(s)->count;
  size_t found = 0;
  for (size_t n = 0; n < count; n++)
    found += s->tenants[n].instance == NULL;
  return found;
}

error *sequences_prepare(sequences *s, const Inference__ModelConfig *config, size_t added)
{
  const size_t present = free_queues_of(s);
  RETURN_IF_ERROR(check_count(active_instances(config)));
  return added > present ? grow_queues(s, queues_of(s)->count + added - present) : NULL;
}

// Opens slots in the table for attached instances that have none. False: memory is short.
static bool open_attached(sequences *s, uint32_t *numbers, sequence_outcome *o)
{
  assert(lock_is_held(&s->lock));
  const size_t count = queues_of(s)->count;
  size_t found = 0;
  for (size_t n = 0; n < count; n++)
    if (s->tenants[n].instance != NULL && s->tenants[n].tenancy == TENANT_STAYS &&
        !sequence_table_is_open(s->table, (uint32_t)n))
      numbers[found++] = (uint32_t)n;
  return sequence_table_open(s->table, numbers, found, o);
}

error *sequences_open(sequences *s)
{
  sequence_outcome o;
  uint32_t *numbers AUTO_FREE = calloc(queues_of(s)->count, sizeof(*numbers));
  if (numbers == NULL)
    return error_no_memory();
  sequence_outcome_init(&o);
  pthread_mutex_lock(&s->lock);
  const bool opened = open_attached(s, numbers, &o);
  uint64_t alarm_ns = next_alarm(s);
  pthread_mutex_unlock(&s->lock);
  if (!opened)
    return error_no_memory();
  arm(s, alarm_ns);
  carry_out(s, &o, REFUSAL_STOPPED);
  return NULL;
}

bool sequences_leave(sequences *s, const instance *i, void (*vacated)(instance *i))
{
  LOCK_SCOPE(&s->lock);
  const size_t number = number_of(s, i);
  if (number == queues_of(s)->count)
    return true; // a passive instance
  s->vacated = vacated;
  sequence_table_close(s->table, (uint32_t)number);
  const bool left = sequence_table_inhabited(s->table, (uint32_t)number) == 0;
  s->tenants[number].tenancy = left ? TENANT_LEFT : TENANT_LEAVES;
  return left;
}

// ---- the end ----

void sequences_stop(sequences *s)
{
  LOCK_SCOPE(&s->lock);
  sequence_table_stop(s->table);
}

void sequences_dismiss(sequences *s)
{
  sequence_outcome o;
  sequence_outcome_init(&o);
  pthread_mutex_lock(&s->lock);
  sequence_table_dismiss(s->table, &o);
  pthread_mutex_unlock(&s->lock);
  carry_out(s, &o, REFUSAL_STOPPED);
}

void sequences_abandon(sequences *s)
{
  sequence_outcome o;
  sequence_outcome_init(&o);
  pthread_mutex_lock(&s->lock);
  sequence_table_stop(s->table);
  sequence_table_abandon(s->table, &o);
  pthread_mutex_unlock(&s->lock);
  carry_out(s, &o, REFUSAL_STOPPED);
  const queue_set *set = queues_of(s);
  for (size_t i = 0; i < set->count; i++) {
    scheduler_stop(set->list[i].scheduler); // so iterative requests are not queued again
    scheduler_abandon(set->list[i].scheduler);
  }
}

void sequences_close(sequences *s)
{
  if (s->table == NULL)
    return; // sequences_new failed
  timekeeper_cancel(s->timekeeper, &s->timer);
  assert(list_is_empty(&s->later.start) && list_is_empty(&s->later.refused));
  sequence_table_abandon(s->table, &s->later);
  free_all(&s->later.over);
  const queue_set *set = queues_of(s);
  for (size_t i = 0; i < set->count; i++)
    scheduler_stop(set->list[i].scheduler);
}

// ---- counts ----

size_t sequences_pending(sequences *s)
{
  size_t count = 0;
  const queue_set *set = queues_of(s);
  for (size_t i = 0; i < set->count; i++)
    count += scheduler_pending(set->list[i].scheduler);
  LOCK_SCOPE(&s->lock);
  return count + sequence_table_waiting(s->table);
}

size_t sequences_live(sequences *s)
{
  LOCK_SCOPE(&s->lock);
  return sequence_table_live(s->table);
}

uint64_t sequences_closed_batches(const sequences *s, batch_close_reason reason)
{
  uint64_t count = 0;
  const queue_set *set = queues_of(s);
  for (size_t i = 0; i < set->count; i++)
    count += scheduler_closed_batches(set->list[i].scheduler, reason);
  return count;
}
