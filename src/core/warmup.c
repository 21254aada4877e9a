// SPDX-License-Identifier: Apache-2.0
// Samples become requests that go to an instance past the queue. Load threads; answers may come on
// the backend's threads.
#include "core/warmup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/host_placement.h"
#include "core/load_memory.h"
#include "core/submit.h"
#include "core/warmup_samples.h"
#include "request/response_allocator.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define ASK_NS           UINT64_C(100000000) // how often is_wanted is asked while a sample runs
#define MAX_REASON_BYTES 4000

// One execution of a sample.
typedef struct warmup_run {
  pthread_mutex_t lock; // guards everything below
  pthread_cond_t ended;
  size_t open; // releases and final answers that are awaited
  bool failed;
  buffer reasons; // of failed answers, each followed by "; "
} warmup_run;

// ---- the client of samples ----

static TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *allocator,
                                    const char *tensor, size_t size,
                                    TRITONSERVER_MemoryType preferred, int64_t preferred_id,
                                    void *context, void **data, void **data_context,
                                    TRITONSERVER_MemoryType *type, int64_t *id)
{
  (void)allocator, (void)tensor, (void)preferred, (void)preferred_id, (void)context;
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  *data_context = NULL;
  *data = malloc(size + 1);
  return *data != NULL ? NULL : (TRITONSERVER_Error *)error_no_memory();
}

static TRITONSERVER_Error *release(struct TRITONSERVER_ResponseAllocator *allocator, void *data,
                                   void *data_context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator, (void)data_context, (void)size, (void)type, (void)id;
  free(data);
  return NULL;
}

static response_allocator allocator = {.allocate = allocate, .release = release};

// The lock is held.
static void close_one(warmup_run *run)
{
  assert(run->open > 0);
  run->open--;
  if (run->open == 0)
    pthread_cond_signal(&run->ended);
}

static void take_response(response *r_owned, uint32_t flags, void *context)
{
  warmup_run *run = context;
  pthread_mutex_lock(&run->lock);
  if (r_owned != NULL && r_owned->failure != NULL) {
    run->failed = true;
    if (run->reasons.size < MAX_REASON_BYTES)
      buffer_append_format(&run->reasons, "%s; ", error_message(r_owned->failure));
  }
  pthread_mutex_unlock(&run->lock);
  response_free(r_owned);
  LOCK_SCOPE(&run->lock);
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
    close_one(run);
}

static void take_back(request *r, uint32_t flags, void *context)
{
  (void)r, (void)flags; // the run frees it
  warmup_run *run = context;
  LOCK_SCOPE(&run->lock);
  close_one(run);
}

// ---- requests ----

// The batch dimension goes before the dims of the model's inputs, except shape tensors, and of
// other inputs, such as a sequence's controls.
static error *add_tensor(request *r, const warmup_tensor *t, bool is_own)
{
  const model_signature *s = &r->target->signature;
  const tensor_signature *own = signature_find_input(s, slice_of(t->name));
  if ((own != NULL) != is_own)
    return NULL;
  int64_t *dims AUTO_FREE = calloc(t->dim_count + 1, sizeof(*dims));
  if (dims == NULL)
    return error_no_memory();
  size_t batched = s->max_batch_size > 0 && !(is_own && own->is_shape_tensor);
  dims[0] = 1;
  for (size_t i = 0; i < t->dim_count; i++)
    dims[batched + i] = t->dims[i];
  RETURN_IF_ERROR(
      (is_own ? request_add_input(r, t->name, t->datatype, dims, t->dim_count + batched, false)
              : request_add_override(r, t->name, t->datatype, dims, t->dim_count + batched)));
  return request_append_input_data(r, t->name, (input_segment){.base = t->data, .size = t->size});
}

static error *add_tensors(request *r, const warmup_sample *sample, bool are_own)
{
  for (size_t i = 0; i < sample->tensor_count; i++)
    RETURN_IF_ERROR(add_tensor(r, &sample->tensors[i], are_own));
  return NULL;
}

static error *make_request(model *m, const warmup_sample *sample, warmup_run *run, request **r)
{
  RETURN_IF_ERROR(request_new(&m->target, r));
  (*r)->times.start = clock_monotonic_ns();
  (*r)->allocator = &allocator;
  (*r)->response_callback = take_response;
  (*r)->response_context = run;
  (*r)->release_callback = take_back;
  (*r)->release_context = run;
  RETURN_IF_ERROR(add_tensors(*r, sample, true));
  RETURN_IF_ERROR(request_prepare(*r));
  return add_tensors(*r, sample, false);
}

typedef struct warmup_batch {
  request **requests; // owned
  size_t count;
} warmup_batch;

static error *make_batch(model *m, const warmup_sample *sample, warmup_run *run,
                         warmup_batch *batch)
{
  *batch = (warmup_batch){.requests = calloc(sample->batch_size, sizeof(request *))};
  if (batch->requests == NULL)
    return error_no_memory();
  for (; batch->count < sample->batch_size; batch->count++) {
    error *e = make_request(m, sample, run, &batch->requests[batch->count]);
    if (e != NULL) {
      request_free(batch->requests[batch->count]);
      return error_wrap(e, "failed to prepare warmup sample '%s'", sample->name);
    }
  }
  return NULL;
}

static void free_batch(warmup_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    request_free(batch->requests[i]);
  free(batch->requests);
}

// ---- runs ----

static bool is_wanted(const warmup_wish *wish)
{
  return wish->is_wanted == NULL || wish->is_wanted(wish->context);
}

static void cancel(const warmup_batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    atomic_store_explicit(&batch->requests[i]->factory->cancelled, true, memory_order_relaxed);
}

static void await_end(warmup_run *run, const warmup_batch *batch, const warmup_wish *wish)
{
  pthread_mutex_lock(&run->lock);
  while (run->open > 0) {
    if (thread_wait(&run->ended, &run->lock, clock_monotonic_ns() + ASK_NS))
      continue;
    pthread_mutex_unlock(&run->lock);
    if (!is_wanted(wish))
      cancel(batch);
    pthread_mutex_lock(&run->lock);
  }
  pthread_mutex_unlock(&run->lock);
}

static error *outcome(warmup_run *run, const warmup_sample *sample)
{
  if (!run->failed)
    return NULL;
  return error_new(ERROR_INVALID_ARG, "failed to run warmup sample '%s': %.*s", sample->name,
                   (int)run->reasons.size, run->reasons.data);
}

static error *execute_sample(instance *i, const warmup_sample *sample, warmup_run *run,
                             const warmup_wish *wish)
{
  warmup_batch batch;
  error *e = make_batch(i->shared->model, sample, run, &batch);
  if (e == NULL && i->permit != NULL &&
      (rate_limiter_ask(i->permit), !rate_limiter_wait(i->permit)))
    e = error_new(ERROR_UNAVAILABLE, "the server ended before warmup sample '%s'", sample->name);
  if (e == NULL) {
    run->open = 2 * batch.count;
    submit_to_instance(i, batch.requests, batch.count);
    instance_give_back(i);
    await_end(run, &batch, wish);
    e = outcome(run, sample);
  }
  free_batch(&batch);
  return e;
}

static error *run_sample(instance *i, const warmup_sample *sample, const warmup_wish *wish)
{
  RETURN_IF_ERROR(instance_make_room(i, sample->batch_size));
  error *e = NULL;
  for (uint32_t n = 1; e == NULL && n <= sample->count; n++) {
    warmup_run run = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};
    const model *m = i->shared->model;
    if (!is_wanted(wish)) {
      e = error_new(ERROR_UNAVAILABLE, "the load was given up before warmup sample '%s'",
                    sample->name);
      break;
    }
    log_verbose(1, "model '%s' instance %s is running warmup sample '%s' for iteration %" PRIu32,
                m->name, i->name, sample->name, n);
    uint64_t begin = clock_monotonic_ns();
    e = execute_sample(i, sample, &run, wish);
    log_verbose(1, "model '%s' instance %s %s warmup sample '%s' in %.3f ms", m->name, i->name,
                e == NULL ? "ran" : "failed to run", sample->name,
                (double)(clock_monotonic_ns() - begin) / 1e6);
    buffer_fini(&run.reasons);
    pthread_cond_destroy(&run.ended);
    pthread_mutex_destroy(&run.lock);
  }
  instance_free_room(i);
  return e;
}

static error *warm_instance(instance *i, const warmup_samples *samples, const warmup_wish *wish)
{
  host_place before;
  if (i->group->passive)
    return NULL;
  RETURN_IF_ERROR(host_placement_enter(&i->placement, &before));
  error *e = NULL;
  for (size_t s = 0; e == NULL && s < samples->count; s++)
    e = run_sample(i, &samples->items[s], wish);
  host_placement_leave(&i->placement, &before);
  return e;
}

// First executions say nothing about later ones, so the typical duration is restored.
static error *warm_all(model *m, instance *const *instances, size_t count,
                       const warmup_samples *samples, const warmup_wish *wish)
{
  uint64_t typical = atomic_load_explicit(&m->shared.typical_ns, memory_order_relaxed);
  uint64_t begin = clock_monotonic_ns();
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < count; i++)
    e = warm_instance(instances[i], samples, wish);
  atomic_store_explicit(&m->shared.typical_ns, typical, memory_order_relaxed);
  if (e == NULL && samples->count > 0)
    log_info("warmed up '%s' version %" PRId64 " in %.1f ms: %zu samples, %zu instances", m->name,
             m->target.version, (double)(clock_monotonic_ns() - begin) / 1e6, samples->count,
             count);
  return e;
}

error *warmup_instances(model *m, instance *const *instances, size_t count, warmup_wish wish)
{
  warmup_samples samples;
  load_share share;
  if (m->config->n_model_warmup == 0)
    return NULL;
  load_memory_begin(load_memory_process(), &share, 0);
  error *e = warmup_samples_init(&samples, m);
  if (e == NULL)
    e = warm_all(m, instances, count, &samples, &wish);
  warmup_samples_fini(&samples);
  uint64_t bytes = load_memory_end(load_memory_process(), &share);
  atomic_fetch_add_explicit(&m->loaded_bytes, bytes, memory_order_relaxed);
  return e;
}
