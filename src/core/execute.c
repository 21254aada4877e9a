// SPDX-License-Identifier: Apache-2.0
// Executions: at once, or in two parts (backend_extension.h), of which several may be under way.
#include "core/execute.h"

#include "base/clock.h"
#include "core/batch_padding.h"
#include "core/batch_step.h"
#include "core/follow_up.h"
#include "core/gpu_watch.h"
#include "core/refuse.h"
#include "core/sequence_rows.h"
#include "core/sequences.h"
#include "request/device_inputs.h"
#include "request/sequence_state.h"

#include <assert.h>

#define BRIEFLY_US 50 // how long another thread than the instance's waits for the end

// The typical duration follows those of executions; a slow execution counts at once.
static void follow_duration(instance_shared *shared, uint64_t ns)
{
  uint64_t typical = atomic_load_explicit(&shared->typical_ns, memory_order_relaxed);
  typical = ns >= INSTANCE_SLOW_NS ? ns : typical - typical / 8 + ns / 8;
  atomic_store_explicit(&shared->typical_ns, typical, memory_order_relaxed);
}

// With a latency objective: notes what the batcher must know of the batch, before the requests are
// gone.
static void note_batch(instance *i, size_t count)
{
  executed_batch *b = &i->on_time;
  *b = (executed_batch){.requests = count, .left_rows = i->items[0]->left_rows};
  for (size_t n = 0; n < count; n++) {
    i->arrived_ns[n] = i->items[n]->enqueued_ns;
    b->rows += queue_item_rows(i->items[n]);
  }
}

static void report_batch(instance *i, uint64_t ns)
{
  executed_batch *b = &i->on_time;
  uint64_t now = clock_monotonic_ns();
  b->duration_ns = ns;
  for (size_t n = 0; n < b->requests; n++)
    b->late += now - i->arrived_ns[n] > i->shared->objective_ns;
  scheduler_executed(i->scheduler, b);
}

static inline void record_duration(instance *i, uint64_t ns)
{
  follow_duration(i->shared, ns);
  if (i->shared->objective_ns != 0)
    report_batch(i, ns);
}

// Moves the requests that are still wanted to the batch, from `first` on. Cancelled requests are
// answered here and never reach the backend.
static uint32_t collect_batch(instance *i, size_t first, queue_item *const *items, size_t count)
{
  uint32_t kept = 0, rows = 0;
  uint64_t now = clock_monotonic_ns();
  for (size_t n = 0; n < count; n++) {
    request *r = request_of_item(items[n]);
    if (r->times.queue_start == 0) // else it waited in another place before
      r->times.queue_start = r->item.enqueued_ns;
    r->times.compute_start = now;
    request_set_state(r, REQUEST_EXECUTING);
    if (r->item.slot != NULL)
      r->factory->ordering = i->ordering; // reserved when taken
    r->factory->executed_ns = now;
    if (request_is_cancelled(r)) {
      refuse_item(NULL, &r->item, REFUSAL_CANCELLED);
      continue;
    }
    error *e = r->on_device ? device_inputs_fetch(r, i->host_policy) : NULL;
    if (e != NULL) {
      refuse_request(r, e, FAILURE_OTHER);
      continue;
    }
    assert(first + kept < i->batch_capacity);
    r->slot = &i->executing[first + kept];
    atomic_store_explicit(r->slot, r, memory_order_relaxed);
    i->batch[first + kept++] = r;
    rows += request_rows(r);
  }
  if (i->shared->target->signature.padding != NULL) {
    kept = pad_batch(i, first, kept);
    rows = 0;
    for (uint32_t n = 0; n < kept; n++)
      rows += request_rows(i->batch[first + n]);
  }
  for (uint32_t n = 0; n < kept; n++)
    i->batch[first + n]->factory->executed_rows = rows;
  return kept;
}

// The backend refused the batch as a whole and owns no request of it. Requests that it released all
// the same are gone.
static void fail_batch(instance *i, size_t first, uint32_t count, error *e_owned)
{
  for (uint32_t n = 0; n < count; n++) {
    request *r = atomic_exchange_explicit(&i->executing[first + n], NULL, memory_order_acq_rel);
    if (r != NULL)
      refuse_request(r, error_new(error_get_code(e_owned), "%s", error_message(e_owned)),
                     FAILURE_BACKEND);
  }
  error_free(e_owned);
}

// Moves states that grow to the GPU of their backend. A request whose states cannot move is
// refused.
static error *place_states(request *r, void *context)
{
  const instance *i = context;
  return request_place_states(r, i->device_id);
}

// Makes the batch that the backend gets of `items`. 0: nothing is left.
static uint32_t make_batch(instance *i, size_t first, queue_item *const *items, size_t count)
{
  uint32_t kept = collect_batch(i, first, items, count);
  error *refused = kept > 0 ? instance_gpu_refusal(i) : NULL;
  if (refused != NULL) {
    fail_batch(i, first, kept, refused);
    return 0;
  }
  if (i->shared->sequences == NULL || kept == 0 || i->batch[first]->item.sequence == NULL)
    return kept; // no sequences; or a warm-up, whose requests have none
  if ((kept = sequences_refuse_lost(i->shared->sequences, i, first, kept)) == 0)
    return 0;
  if (i->uses_gpu && (kept = batch_do(i, first, kept, place_states, i)) == 0)
    return 0;
  error *e = i->row_controls != NULL ? sequence_rows_arrange(i, first, kept, &kept) : NULL;
  if (e != NULL) {
    fail_batch(i, first, kept, e);
    return 0;
  }
  sequences_taken(i->shared->sequences, &i->batch[first], kept);
  return kept;
}

// The ensemble's step that is executed alone, or NULL. Once `execute` has returned, this thread
// does what the end of such a request made due.
static const request *lone_step(const instance *i, size_t first, uint32_t count)
{
  return count == 1 && i->batch[first]->is_step ? i->batch[first] : NULL;
}

static void open_scope(follow_up_scope *scope, const request *step)
{
  if (step != NULL)
    follow_up_open(scope, step);
}

static void close_scope(const instance *i, follow_up_scope *scope, const request *step)
{
  if (step == NULL)
    return;
  follow_up *due = follow_up_close(scope); // has_time only without a permit and more work
  if (due != NULL)
    due->run(due, i->permit == NULL && i->begun_count == 0 && scheduler_pending(i->scheduler) == 0);
}

static void execute_at_once(instance *i, size_t count)
{
  follow_up_scope scope;
  uint32_t kept = make_batch(i, 0, i->items, count);
  if (kept == 0)
    return;
  const request *step = lone_step(i, 0, kept);
  open_scope(&scope, step);
  uint64_t begin = clock_monotonic_ns();
  error *e = (error *)i->shared->backend->functions.model_instance_execute(
      i, (TRITONBACKEND_Request **)i->batch, kept);
  record_duration(i, clock_monotonic_ns() - begin);
  if (e != NULL)
    fail_batch(i, 0, kept, e);
  close_scope(i, &scope, step);
}

// A backend that computes on a CPU has nothing to wait for between the parts.
static bool in_two_parts(const instance *i)
{
  const backend *b = i->shared->backend;
  return b->functions.model_instance_execute_begin != NULL &&
         !(b->computes && i->kind == TRITONSERVER_INSTANCEGROUPKIND_CPU);
}

// Begins an execution behind those under way.
static void begin(instance *i, queue_item *const *items, size_t count)
{
  size_t at = (i->first_begun + i->begun_count) % MAX_INSTANCE_BEGUN;
  assert(i->begun_count < MAX_INSTANCE_BEGUN && (i->begun_count == 0 || count == 1));
  uint32_t kept = make_batch(i, at, items, count);
  if (kept == 0)
    return;
  bool pending = false;
  follow_up_scope scope;
  const request *step = i->begun_steps[at] = lone_step(i, at, kept);
  open_scope(&scope, step);
  i->begun_ns[at] = clock_monotonic_ns();
  error *e = (error *)i->shared->backend->functions.model_instance_execute_begin(
      i, (TRITONBACKEND_Request **)&i->batch[at], kept, &pending);
  if (e != NULL)
    fail_batch(i, at, kept, e);
  else if (pending)
    i->begun_count++;
  else
    record_duration(i, clock_monotonic_ns() - i->begun_ns[at]);
  close_scope(i, &scope, step);
}

static bool end_first(instance *i, int64_t timeout_us)
{
  bool pending = true;
  assert(i->begun_count > 0);
  i->shared->backend->functions.model_instance_execute_end(i, timeout_us, &pending);
  if (pending)
    return false;
  uint64_t begun_ns = i->begun_ns[i->first_begun];
  uint64_t from_ns = begun_ns > i->ended_ns ? begun_ns : i->ended_ns;
  i->ended_ns = clock_monotonic_ns();
  record_duration(i, i->ended_ns - from_ns);
  i->begun_count--;
  i->first_begun = i->begun_count == 0 ? 0 : (i->first_begun + 1) % MAX_INSTANCE_BEGUN;
  return true;
}

// Waits for the end of the first execution. False: it has not ended in time.
static bool end(instance *i, int64_t timeout_us)
{
  follow_up_scope scope;
  const request *step = i->begun_steps[i->first_begun];
  open_scope(&scope, step);
  bool ended = end_first(i, timeout_us);
  close_scope(i, &scope, step);
  return ended;
}

// How many other instances take requests from the same queue. A model with sequences has a queue
// for each instance.
static size_t others_at_queue(const instance *i)
{
  const instance_shared *shared = i->shared;
  return i->scheduler != shared->scheduler
             ? 0
             : atomic_load_explicit(&shared->instance_count, memory_order_relaxed) - 1;
}

// Begins queued requests, as many as the backend takes while an execution is under way.
static void begin_ahead(instance *i)
{
  uint32_t (*max_executions)(instance *) =
      i->shared->backend->functions.model_instance_max_executions;
  scheduler *s = i->scheduler;
  if (i->permit != NULL)
    return; // its permit is for one execution
  while (max_executions != NULL && i->begun_count < MAX_INSTANCE_BEGUN &&
         scheduler_pending(s) > 0 && i->begun_count < max_executions(i)) {
    queue_item *item = scheduler_take_ahead(s, others_at_queue(i));
    if (item == NULL)
      return;
    begin(i, &item, 1);
  }
}

static void begin_batch(instance *i, size_t count)
{
  if (i->shared->objective_ns != 0)
    note_batch(i, count);
  if (in_two_parts(i))
    begin(i, i->items, count);
  else
    execute_at_once(i, count);
}

void execute(instance *i, size_t count)
{
  begin_batch(i, count);
  execute_rest(i);
}

void execute_alone(instance *i, size_t count)
{
  begin_batch(i, count);
  while (i->begun_count > 0)
    end(i, -1);
}

bool execute_briefly(instance *i)
{
  begin_batch(i, 1);
  return i->begun_count == 0 || end(i, BRIEFLY_US);
}

void execute_rest(instance *i)
{
  while (i->begun_count > 0) {
    begin_ahead(i);
    end(i, -1);
  }
}
