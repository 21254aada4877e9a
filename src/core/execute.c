// Executions: at once, or in two parts (backend_extension.h), of which several may be under way.
#include "core/execute.h"

#include "base/clock.h"
#include "core/refuse.h"

#include <assert.h>

#define BRIEFLY_US 50 // how long a thread that is not the instance's waits for the end

// Follows the durations of executions; one that is slow is believed at once.
static void record_duration(instance_shared *shared, uint64_t ns)
{
  uint64_t typical = atomic_load_explicit(&shared->typical_ns, memory_order_relaxed);
  typical = ns >= INSTANCE_SLOW_NS ? ns : typical - typical / 8 + ns / 8;
  atomic_store_explicit(&shared->typical_ns, typical, memory_order_relaxed);
}

// Moves the requests that are still wanted to the batch, from `first` on; cancelled ones are
// answered here and never reach the backend.
static uint32_t collect_batch(instance *i, size_t first, queue_item *const *items, size_t count)
{
  uint32_t kept = 0, rows = 0;
  uint64_t now = clock_monotonic_ns();
  for (size_t n = 0; n < count; n++) {
    request *r = request_of_item(items[n]);
    r->times.queue_start = r->item.enqueued_ns;
    r->times.compute_start = now;
    request_set_state(r, REQUEST_EXECUTING);
    r->factory->ordering = i->shared->ordering; // taking it reserved its slot
    r->factory->executed_ns = now;
    if (request_is_cancelled(r)) {
      refuse_item(NULL, &r->item, REFUSAL_CANCELLED);
      continue;
    }
    assert(first + kept < i->batch_capacity);
    r->slot = &i->executing[first + kept];
    atomic_store_explicit(r->slot, r, memory_order_relaxed);
    i->batch[first + kept++] = r;
    rows += request_rows(r);
  }
  for (uint32_t n = 0; n < kept; n++)
    i->batch[first + n]->factory->executed_rows = rows;
  return kept;
}

// The backend refused the batch as a whole: it owns no request of it. Those that it released all
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

static void execute_at_once(instance *i, size_t count)
{
  uint32_t kept = collect_batch(i, 0, i->items, count);
  if (kept == 0)
    return;
  uint64_t begin = clock_monotonic_ns();
  error *e = (error *)i->shared->backend->functions.model_instance_execute(
      i, (TRITONBACKEND_Request **)i->batch, kept);
  record_duration(i->shared, clock_monotonic_ns() - begin);
  if (e != NULL)
    fail_batch(i, 0, kept, e);
}

static bool in_two_parts(const instance *i)
{
  return i->shared->backend->functions.model_instance_execute_begin != NULL;
}

// Begins an execution behind those that have not ended.
static void begin(instance *i, queue_item *const *items, size_t count)
{
  size_t at = (i->first_begun + i->begun_count) % MAX_INSTANCE_BEGUN;
  assert(i->begun_count < MAX_INSTANCE_BEGUN && (i->begun_count == 0 || count == 1));
  uint32_t kept = collect_batch(i, at, items, count);
  if (kept == 0)
    return;
  bool pending = false;
  i->begun_ns[at] = clock_monotonic_ns();
  error *e = (error *)i->shared->backend->functions.model_instance_execute_begin(
      i, (TRITONBACKEND_Request **)&i->batch[at], kept, &pending);
  if (e != NULL)
    fail_batch(i, at, kept, e);
  else if (pending)
    i->begun_count++;
  else
    record_duration(i->shared, clock_monotonic_ns() - i->begun_ns[at]);
}

// Waits for the end of the first one. False: it has not come in time.
static bool end(instance *i, int64_t timeout_us)
{
  bool pending = true;
  assert(i->begun_count > 0);
  i->shared->backend->functions.model_instance_execute_end(i, timeout_us, &pending);
  if (pending)
    return false;
  uint64_t begun_ns = i->begun_ns[i->first_begun];
  uint64_t from_ns = begun_ns > i->ended_ns ? begun_ns : i->ended_ns;
  i->ended_ns = clock_monotonic_ns();
  record_duration(i->shared, i->ended_ns - from_ns);
  i->begun_count--;
  i->first_begun = i->begun_count == 0 ? 0 : (i->first_begun + 1) % MAX_INSTANCE_BEGUN;
  return true;
}

// Begins what waits, as far as the backend takes it before it has ended the execution under way.
static void begin_ahead(instance *i)
{
  uint32_t (*max_executions)(instance *) =
      i->shared->backend->functions.model_instance_max_executions;
  scheduler *s = i->shared->scheduler;
  while (max_executions != NULL && i->begun_count < MAX_INSTANCE_BEGUN &&
         scheduler_pending(s) > 0 && i->begun_count < max_executions(i)) {
    queue_item *item = scheduler_take_ahead(s, i->shared->instance_count - 1);
    if (item == NULL)
      return;
    begin(i, &item, 1);
  }
}

void execute(instance *i, size_t count)
{
  if (!in_two_parts(i)) {
    execute_at_once(i, count);
    return;
  }
  begin(i, i->items, count);
  execute_rest(i);
}

bool execute_briefly(instance *i)
{
  if (!in_two_parts(i)) {
    execute_at_once(i, 1);
    return true;
  }
  begin(i, i->items, 1);
  return i->begun_count == 0 || end(i, BRIEFLY_US);
}

void execute_rest(instance *i)
{
  while (i->begun_count > 0) {
    begin_ahead(i);
    end(i, -1);
  }
}
