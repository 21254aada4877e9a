// SPDX-License-Identifier: Apache-2.0
// A shadow ends after its submission has returned, its final response and its release, in any
// order.
#include "core/shadow.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/submit.h"
#include "request/response_allocator.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_ALIGNMENT 64

const char *const shadow_outcome_names[SHADOW_OUTCOMES] = {
    [SHADOW_SUCCEEDED] = "success",           [SHADOW_FAILED] = "failure",
    [SHADOW_CANCELLED] = "cancelled",         [SHADOW_REFUSED] = "refused",
    [SHADOW_BUSY] = "dropped_busy",           [SHADOW_TOO_LARGE] = "dropped_large",
    [SHADOW_ELSEWHERE] = "dropped_gpu",       [SHADOW_NOT_READY] = "dropped_not_ready",
    [SHADOW_NO_MEMORY] = "dropped_no_memory",
};

struct shadow {
  list_node node; // in all->sent, guarded by all->lock
  shadows *all;
  shadow_counts *counts;
  request *request; // owned
  size_t bytes;     // of `inputs`
  uint64_t cancels; // all->cancels when the shadow was made
  uint64_t begun_ns;
  _Atomic int awaited; // submission, final response, release
  _Atomic int outcome; // shadow_outcome
  _Alignas(INPUT_ALIGNMENT) char inputs[];
};

void shadows_init(shadows *all)
{
  *all = (shadows){.in_flight = 0};
  pthread_mutex_init(&all->lock, NULL);
  list_init(&all->sent);
}

void shadows_fini(shadows *all)
{
  assert(all->in_flight == 0 && all->bytes == 0 && list_is_empty(&all->sent));
  pthread_mutex_destroy(&all->lock);
}

// ---- the end ----

static void end(shadow *s)
{
  shadows *all = s->all;
  pthread_mutex_lock(&all->lock);
  if (list_is_linked(&s->node))
    list_remove(&s->node);
  assert(all->in_flight > 0 && all->bytes >= s->bytes);
  all->in_flight--;
  all->bytes -= s->bytes;
  pthread_mutex_unlock(&all->lock);
  request_free(s->request);
  free(s);
}

static void leave(shadow *s)
{
  int before = atomic_fetch_sub_explicit(&s->awaited, 1, memory_order_acq_rel);
  assert(before > 0);
  if (before > 1)
    return;
  shadow_outcome outcome = (shadow_outcome)atomic_load_explicit(&s->outcome, memory_order_relaxed);
  shadow_count(s->counts, outcome);
  if (outcome == SHADOW_SUCCEEDED)
    atomic_fetch_add_explicit(&s->counts->ns, clock_monotonic_ns() - s->begun_ns,
                              memory_order_relaxed);
  end(s);
}

static void released(TRITONSERVER_InferenceRequest *r, const uint32_t flags, void *shadow_pointer)
{
  (void)r;
  if ((flags & TRITONSERVER_REQUEST_RELEASE_ALL) != 0)
    leave(shadow_pointer);
}

static void take_failure(shadow *s, const error *failure)
{
  shadow_outcome outcome =
      error_get_code(failure) == ERROR_CANCELLED ? SHADOW_CANCELLED : SHADOW_FAILED;
  atomic_store_explicit(&s->outcome, (int)outcome, memory_order_relaxed);
  log_verbose(1, "a shadow of model '%s' (version %" PRId64 ") failed: %s",
              s->request->target->name, s->counts->version, error_message(failure));
}

static void responded(TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                      void *shadow_pointer)
{
  shadow *s = shadow_pointer;
  if (response != NULL && response->failure != NULL)
    take_failure(s, response->failure);
  if (response != NULL)
    response_free(response);
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
    leave(s);
}

// ---- outputs, which nobody reads ----

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType preferred,
                                    int64_t preferred_id, void *context, void **memory,
                                    void **memory_context, TRITONSERVER_MemoryType *type,
                                    int64_t *id)
{
  (void)allocator;
  (void)name;
  (void)preferred;
  (void)preferred_id;
  (void)context;
  *memory_context = NULL;
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  *memory = size == 0 ? NULL : malloc(size);
  return *memory == NULL && size > 0 ? (TRITONSERVER_Error *)error_no_memory() : NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *memory,
                                   void *memory_context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator;
  (void)memory_context;
  (void)size;
  (void)type;
  (void)id;
  free(memory);
  return NULL;
}

static response_allocator nowhere = {.allocate = allocate, .release = release};

// ---- the copy ----

static size_t padded(size_t size)
{
  return (size + INPUT_ALIGNMENT - 1) / INPUT_ALIGNMENT * INPUT_ALIGNMENT;
}

static bool is_readable(const input_data *data)
{
  for (uint32_t i = 0; i < data->segment_count; i++)
    if (data->segments[i].memory_type == TRITONSERVER_MEMORY_GPU)
      return false;
  return true;
}

// SHADOW_SUCCEEDED: the inputs may be copied, and take *bytes.
static shadow_outcome measure(const request *r, size_t *bytes)
{
  *bytes = 0;
  for (uint32_t i = 0; i < r->input_count; i++) {
    const input_data *data = &r->inputs[i].data;
    if (!is_readable(data))
      return SHADOW_ELSEWHERE;
    if (data->byte_size > SHADOW_MAX_INPUT_BYTES)
      return SHADOW_TOO_LARGE;
    *bytes += padded(data->byte_size);
    if (*bytes > SHADOW_MAX_INPUT_BYTES)
      return SHADOW_TOO_LARGE;
  }
  return SHADOW_SUCCEEDED;
}

static bool reserve(shadows *all, size_t bytes, uint64_t *cancels)
{
  LOCK_SCOPE(&all->lock);
  if (all->in_flight >= SHADOWS_MAX_IN_FLIGHT || all->bytes + bytes > SHADOWS_MAX_BYTES)
    return false;
  all->in_flight++;
  all->bytes += bytes;
  *cancels = all->cancels;
  return true;
}

static error *copy_input(shadow *s, const request_input *from, size_t *at)
{
  const char *name = from->name.data;
  char *base = s->inputs + *at;
  size_t size = 0;
  RETURN_IF_ERROR(request_add_input(s->request, name, from->datatype, from->given_dims,
                                    from->given_dim_count, from->raw));
  for (uint32_t i = 0; i < from->data.segment_count; i++) {
    memcpy(base + size, from->data.segments[i].base, from->data.segments[i].size);
    size += from->data.segments[i].size;
  }
  *at += padded(size);
  return request_append_input_data(s->request, name, (input_segment){.base = base, .size = size});
}

static error *copy_request(shadow *s, const request *from, model *to)
{
  size_t at = 0;
  RETURN_IF_ERROR(request_new(&to->target, &s->request));
  request *r = s->request;
  RETURN_IF_ERROR(request_set_id(r, from->id.data));
  r->flags = from->flags;
  r->priority = from->priority;
  r->timeout_us = from->timeout_us;
  r->correlation_id = from->correlation_id;
  if (from->correlation_text != NULL)
    RETURN_IF_ERROR(request_set_correlation_text(r, from->correlation_text));
  for (uint32_t i = 0; i < from->parameter_count; i++)
    RETURN_IF_ERROR(request_set_parameter(r, from->parameters[i].name, from->parameters[i]));
  for (uint32_t i = 0; i < from->input_count; i++)
    RETURN_IF_ERROR(copy_input(s, &from->inputs[i], &at));
  for (uint32_t i = 0; i < from->requested_output_count; i++)
    RETURN_IF_ERROR(request_add_output(r, from->requested_outputs[i].data));
  assert(at == s->bytes);
  r->allocator = &nowhere;
  r->response_callback = responded;
  r->release_callback = released;
  r->response_context = r->release_context = s;
  return NULL;
}

// Frees a shadow that was never submitted.
static void give_up(shadow *s)
{
  if (s->request != NULL)
    s->request->times.start = 1; // else it would count as a request that its client failed to write
  end(s);
}

static shadow *make(shadows *all, const request *r, model *to, size_t bytes, uint64_t cancels)
{
  shadow *s = aligned_alloc(INPUT_ALIGNMENT, padded(sizeof(*s) + bytes));
  if (s == NULL) {
    LOCK_SCOPE(&all->lock);
    all->in_flight--;
    all->bytes -= bytes;
    return NULL;
  }
  memset(s, 0, sizeof(*s));
  s->all = all;
  s->bytes = bytes;
  s->cancels = cancels;
  AUTO_ERROR error *e = copy_request(s, r, to);
  if (e == NULL)
    return s;
  give_up(s);
  return NULL;
}

shadow *shadow_new(shadows *all, shadow_counts *counts, const request *r, model *to)
{
  size_t bytes;
  uint64_t cancels = 0;
  shadow *s = NULL;
  shadow_outcome outcome = measure(r, &bytes);
  if (outcome == SHADOW_SUCCEEDED && !reserve(all, bytes, &cancels))
    outcome = SHADOW_BUSY;
  if (outcome == SHADOW_SUCCEEDED && (s = make(all, r, to, bytes, cancels)) == NULL)
    outcome = SHADOW_NO_MEMORY;
  if (s == NULL)
    shadow_count(counts, outcome);
  else
    s->counts = counts;
  model_unref(to);
  return s;
}

void shadow_drop(shadow *s)
{
  give_up(s);
}

// ---- sent, and cancelled ----

static void cancel(shadow *s)
{
  atomic_store_explicit(&s->outcome, SHADOW_CANCELLED, memory_order_relaxed);
  error_free(submit_cancel(s->request)); // it was submitted
}

void shadow_send(shadow *s)
{
  shadows *all = s->all;
  s->begun_ns = clock_monotonic_ns();
  atomic_store_explicit(&s->awaited, 3, memory_order_relaxed);
  AUTO_ERROR error *e = submit_request(s->request, NULL);
  if (e != NULL) {
    shadow_count(s->counts, SHADOW_REFUSED);
    log_verbose(1, "a shadow of model '%s' (version %" PRId64 ") is refused: %s",
                s->request->target->name, s->counts->version, error_message(e));
    end(s);
    return;
  }
  pthread_mutex_lock(&all->lock);
  list_append(&all->sent, &s->node);
  if (s->cancels != all->cancels)
    cancel(s);
  pthread_mutex_unlock(&all->lock);
  leave(s);
}

void shadows_cancel(shadows *all)
{
  LOCK_SCOPE(&all->lock);
  all->cancels++;
  for (list_node *node = list_first(&all->sent); node != NULL; node = list_next(&all->sent, node))
    cancel(container_of(node, shadow, node));
}
