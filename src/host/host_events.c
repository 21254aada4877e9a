// SPDX-License-Identifier: Apache-2.0
// Writes a backend's actions on requests as events (isolated/isolated_protocol.h). Events from the
// instance's thread during the execution go with the answer to the batch, if they end the request;
// all others are sent in messages of their own.
#include "host/host_state.h"

#include "base/cleanup.h"
#include "base/log.h"

#include <stdlib.h>

static _Thread_local host_instance *executing;

void host_give_up(const char *why)
{
  log_error("the model's process ends: %s", why);
  _exit(1);
}

void host_events_begin(host_instance *h)
{
  executing = h;
}

void host_events_end(void)
{
  executing = NULL;
}

// ---- blocks that the server reads

typedef struct host_loan {
  list_node node;
  uint64_t number; // of the message on CHANNEL_CALLS
  uint64_t offset;
} host_loan;

void host_release_lent(model_host *host, buffer *lent)
{
  for (size_t at = 0; at < lent->size; at += sizeof(uint64_t)) {
    uint64_t offset;
    memcpy(&offset, lent->data + at, sizeof(offset));
    channel_release(host->channel, offset);
  }
  lent->size = 0;
}

static void collect_loans_locked(model_host *host)
{
  uint64_t finished = channel_finished(host->channel, CHANNEL_CALLS);
  list_foreach_safe (host_loan, loan, node, &host->loans) {
    if (loan->number > finished)
      return;
    channel_release(host->channel, loan->offset);
    list_remove(&loan->node);
    free(loan);
  }
}

void host_collect_loans(model_host *host)
{
  LOCK_SCOPE(&host->lock);
  collect_loans_locked(host);
}

static void lend_locked(model_host *host, const buffer *lent)
{
  uint64_t number = channel_sent(host->channel, CHANNEL_CALLS);
  for (size_t at = 0; at < lent->size; at += sizeof(uint64_t)) {
    host_loan *loan = calloc(1, sizeof(*loan));
    if (loan == NULL)
      host_give_up("no memory");
    memcpy(&loan->offset, lent->data + at, sizeof(loan->offset));
    loan->number = number;
    list_append(&host->loans, &loan->node);
  }
}

bool host_send(model_host *host, channel *to, channel_ring ring, channel_message *message,
               const buffer *content, buffer *lent)
{
  if (content->failed)
    return false;
  if (content->size > 0) {
    if (!channel_allocate(host->channel, content->size, &message->offset))
      return false;
    message->size = content->size;
    memcpy(channel_own(host->channel, message->offset), content->data, content->size);
    put_u64(lent, message->offset);
  }
  return !lent->failed && channel_send(to, ring, message);
}

// ---- events

// The destination of an event. `apart`: a message of its own, with the blocks that it names.
typedef struct event {
  model_host *host;
  buffer *to;
  buffer *lent;
  bool apart;
  buffer own, own_lent;
} event;

// `of` is NULL for an event about no request. `together`: it may go with the answer.
static void begin_event(event *out, model_host *host, host_request *of, bool together)
{
  *out = (event){.host = host};
  out->apart = !together || executing == NULL ||
               (of != NULL && atomic_load_explicit(&of->apart, memory_order_acquire));
  if (out->apart && of != NULL)
    atomic_store_explicit(&of->apart, true, memory_order_release);
  out->to = out->apart ? &out->own : &executing->events;
  out->lent = out->apart ? &out->own_lent : &executing->lent;
}

static void end_event(event *out)
{
  if (out->to->failed)
    host_give_up("no memory");
  if (!out->apart)
    return;
  model_host *host = out->host;
  channel_message message = {.kind = ISOLATED_EVENTS};
  pthread_mutex_lock(&host->lock);
  collect_loans_locked(host);
  if (!host_send(host, host->channel, CHANNEL_CALLS, &message, &out->own, &out->own_lent))
    host_give_up("what the model answered later cannot be sent");
  lend_locked(host, &out->own_lent);
  pthread_mutex_unlock(&host->lock);
  buffer_fini(&out->own);
  buffer_fini(&out->own_lent);
}

static void put_parameter(buffer *to, const parameter *p)
{
  put_text(to, p->name);
  put_u8(to, (uint8_t)p->type);
  if (p->type == TRITONSERVER_PARAMETER_STRING)
    put_text(to, p->value.string);
  else if (p->type == TRITONSERVER_PARAMETER_BOOL)
    put_u64(to, p->value.boolean);
  else
    put_u64(to, (uint64_t)p->value.integer); // a double as its bits
}

// Lends the output's block to the server.
static void put_output(event *out, response_output *output)
{
  buffer *to = out->to;
  uint64_t offset = (uint64_t)(uintptr_t)output->buffer_context;
  put_text(to, output->name.data);
  put_u32(to, (uint32_t)output->datatype);
  put_u32(to, output->dim_count);
  buffer_append(to, output->dims, output->dim_count * sizeof(int64_t));
  put_u64(to, offset > 0 ? offset - 1 : 0);
  put_u64(to, output->attributes.byte_size);
  if (offset > 0)
    put_u64(out->lent, offset - 1);
  output->buffer_context = NULL;
}

void host_put_failure(buffer *to, error *e_owned)
{
  put_u32(to, e_owned == NULL ? 0 : (uint32_t)error_get_code(e_owned) + 1);
  put_text(to, e_owned == NULL ? "" : error_message(e_owned));
  error_free(e_owned);
}

static void put_response(event *out, response *r)
{
  buffer *to = out->to;
  error *failure = r->failure;
  r->failure = NULL;
  host_put_failure(to, failure);
  put_u32(to, r->parameter_count);
  for (uint32_t i = 0; i < r->parameter_count; i++)
    put_parameter(to, &r->parameters[i]);
  put_u32(to, r->output_count);
  for (response_output *output = r->outputs; output != NULL; output = output->next)
    put_output(out, output);
}

static void forget(host_request *of)
{
  pthread_mutex_lock(&of->host->lock);
  list_remove(&of->node);
  pthread_mutex_unlock(&of->host->lock);
  host_request_unref(of);
}

void host_on_response(TRITONSERVER_InferenceResponse *r, uint32_t flags, void *user)
{
  host_request *of = user;
  event e;
  bool final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  begin_event(&e, of->host, of, final);
  put_u8(e.to, r == NULL ? EVENT_FLAGS : EVENT_RESPONSE);
  put_u64(e.to, of->number);
  put_u32(e.to, flags);
  if (r != NULL)
    put_response(&e, r);
  end_event(&e);
  if (final)
    forget(of); // first, because the response may have the last reference to the factory
  response_free(r);
}

void host_on_release(TRITONSERVER_InferenceRequest *r, uint32_t flags, void *user)
{
  host_request *of = user;
  event e;
  begin_event(&e, of->host, of, true);
  put_u8(e.to, EVENT_RELEASE);
  put_u64(e.to, of->number);
  put_u32(e.to, flags);
  of->request = NULL;
  end_event(&e);
  request_free(r);
  host_request_unref(of);
}

static void report_request(instance *i, request *r, bool success, const uint64_t moments[4])
{
  host_request *of = r->release_context;
  event e;
  (void)i;
  begin_event(&e, of->host, of, true);
  put_u8(e.to, EVENT_STATISTICS);
  put_u64(e.to, of->number);
  put_u8(e.to, success);
  buffer_append(e.to, moments, 4 * sizeof(*moments));
  end_event(&e);
}

static void report_response(response_factory *f, response_outcome outcome,
                            const response_times *times)
{
  host_request *of = f->callback_context;
  const uint64_t moments[] = {times->start, times->output_start, times->end};
  event e;
  if (atomic_load_explicit(&f->finished, memory_order_acquire))
    return; // the request is fully answered
  begin_event(&e, of->host, of, false);
  put_u8(e.to, EVENT_RESPONSE_STATISTICS);
  put_u64(e.to, of->number);
  put_u8(e.to, (uint8_t)outcome);
  buffer_append(e.to, moments, sizeof(moments));
  end_event(&e);
}

static void report_batch(instance *i, uint64_t rows, const uint64_t moments[4])
{
  model_host *host = container_of(i->shared->reports, model_host, reports);
  uint32_t index = 0;
  event e;
  while (host->instances[index].instance != i)
    index++;
  begin_event(&e, host, NULL, true);
  put_u8(e.to, EVENT_BATCH);
  put_u32(e.to, index);
  put_u64(e.to, rows);
  buffer_append(e.to, moments, 4 * sizeof(*moments));
  end_event(&e);
}

const instance_reports host_reports = {
    .request = report_request, .batch = report_batch, .response = report_response};

// ---- memory of outputs: blocks of this process's region. A block that was never sent is freed
// with its response.

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t type_id,
                                    void *user, void **data, void **context,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  const model_host *host = container_of(allocator, model_host, allocator);
  uint64_t offset;
  (void)type;
  (void)type_id;
  (void)user;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  *data = *context = NULL;
  if (size == 0)
    return NULL;
  if (!channel_allocate(host->channel, size, &offset))
    return (TRITONSERVER_Error *)error_new(
        ERROR_UNAVAILABLE, "no shared memory for the %zu bytes of output '%s'", size, name);
  *data = channel_own(host->channel, offset);
  memset(*data, 0, size); // unfilled parts must not show data of other requests
  *context = (void *)(uintptr_t)(offset + 1);
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *data,
                                   void *context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t type_id)
{
  const model_host *host = container_of(allocator, model_host, allocator);
  (void)data;
  (void)size;
  (void)type;
  (void)type_id;
  if (context != NULL)
    channel_release(host->channel, (uint64_t)(uintptr_t)context - 1);
  return NULL;
}

const struct TRITONSERVER_ResponseAllocator host_allocator = {.allocate = allocate,
                                                              .release = release};
