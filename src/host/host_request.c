// SPDX-License-Identifier: Apache-2.0
// Makes requests from a batch's control part: the backend reads the same values as in the server,
// and tensors are views of the server's region.
#include "host/host_state.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>

// The server's texts include their NUL.
static const char *get_text(wire_reader *reader)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  return text != NULL && length > 0 ? text : "";
}

static error *read_parameters(wire_reader *reader, request *r)
{
  uint32_t count = wire_get_u32(reader);
  for (uint32_t i = 0; i < count && !reader->bad; i++) {
    const char *name = get_text(reader);
    parameter p = {.type = wire_get_u8(reader), .byte_size = sizeof(int64_t)};
    if (p.type == TRITONSERVER_PARAMETER_STRING)
      p = parameter_of_string(get_text(reader));
    else if (p.type == TRITONSERVER_PARAMETER_BYTES)
      p.value.bytes = wire_get_text(reader, &p.byte_size);
    else if (p.type == TRITONSERVER_PARAMETER_BOOL)
      p = parameter_of_bool(wire_get_u64(reader) != 0);
    else
      p.value.integer = wire_get_i64(reader); // a double as its bits
    RETURN_IF_ERROR(request_set_parameter(r, name, p));
  }
  return NULL;
}

// The server names all outputs; a null request has none.
static error *read_outputs(wire_reader *reader, request *r)
{
  uint32_t count = wire_get_u32(reader);
  r->is_null = count == 0;
  for (uint32_t i = 0; i < count && !reader->bad; i++)
    RETURN_IF_ERROR(request_add_output(r, get_text(reader)));
  return NULL;
}

static error *read_input(const host_instance *of, wire_reader *reader, request *r)
{
  const char *name = get_text(reader);
  TRITONSERVER_DataType datatype = (TRITONSERVER_DataType)wire_get_u32(reader);
  uint32_t rank = wire_get_u32(reader);
  int64_t *dims = arena_allocate_array(&r->input_memory, rank, sizeof(*dims));
  if (dims == NULL)
    return error_no_memory();
  for (uint32_t d = 0; d < rank; d++)
    dims[d] = wire_get_i64(reader);
  uint64_t offset = of->block + wire_get_u64(reader), size = wire_get_u64(reader);
  RETURN_IF_ERROR(request_add_input(r, name, datatype, dims, rank, false));
  request_input *input = &r->inputs[r->input_count - 1];
  input->dims = (int64_t *)input->given_dims; // checked and completed by the server
  input->dim_count = rank;
  input->signature = signature_find_input(&r->target->signature, input->name);
  const input_segment segment = {.base = channel_other(of->host->channel, offset, size),
                                 .size = size};
  if (size > 0 && segment.base == NULL)
    return error_new(ERROR_INTERNAL, "input '%s' lies outside of the channel", name);
  return request_append_input_data(r, name, segment);
}

static error *read_inputs(const host_instance *of, wire_reader *reader, request *r)
{
  uint32_t count = wire_get_u32(reader);
  for (uint32_t i = 0; i < count && !reader->bad; i++)
    RETURN_IF_ERROR(read_input(of, reader, r));
  bool batches = r->target->signature.max_batch_size > 0;
  if (batches && count > 0 && r->inputs[0].dim_count > 0)
    r->batch_size = (uint32_t)r->inputs[0].dims[0];
  return NULL;
}

static error *read_request(const host_instance *of, wire_reader *reader, request *r)
{
  RETURN_IF_ERROR(request_set_id(r, get_text(reader)));
  r->flags = wire_get_u32(reader);
  r->correlation_id = wire_get_u64(reader);
  const char *correlation = get_text(reader);
  if (correlation[0] != '\0')
    RETURN_IF_ERROR(request_set_correlation_text(r, correlation));
  r->timeout_us = wire_get_u64(reader);
  RETURN_IF_ERROR(read_parameters(reader, r));
  RETURN_IF_ERROR(read_outputs(reader, r));
  return read_inputs(of, reader, r);
}

// ---- cancellations

void host_request_cancel(model_host *host, uint64_t number)
{
  LOCK_SCOPE(&host->lock);
  list_foreach (host_request, r, node, &host->requests)
    if (r->number == number) {
      atomic_store_explicit(&r->factory->cancelled, true, memory_order_relaxed);
      return;
    }
  host->early_cancels[host->early_cancel_count++ % HOST_EARLY_CANCELS] = number;
}

static bool was_cancelled_early(const model_host *host, uint64_t number)
{
  assert(lock_is_held(&host->lock));
  size_t count = host->early_cancel_count;
  for (size_t i = 0; i < count && i < HOST_EARLY_CANCELS; i++)
    if (host->early_cancels[i] == number)
      return true;
  return false;
}

// ---- a batch

static error *make_request(host_instance *of, wire_reader *reader, host_request **made)
{
  model_host *host = of->host;
  host_request *h = calloc(1, sizeof(*h));
  if (h == NULL)
    return error_no_memory();
  *made = h;
  refcount_init(&h->references); // the execution's reference
  h->host = host;
  h->number = wire_get_u64(reader);
  RETURN_IF_ERROR(request_new(&host->model->target, &h->request));
  request *r = h->request;
  r->allocator = &host->allocator;
  r->response_callback = host_on_response;
  r->release_callback = host_on_release;
  r->response_context = r->release_context = h;
  r->times.start = 1; // not cancelled by a client
  RETURN_IF_ERROR(read_request(of, reader, r));
  RETURN_IF_ERROR(request_renew_factory(r));
  r->factory->answer_owed = true;
  h->factory = r->factory;
  refcount_take(&h->references);
  refcount_take(&h->references);
  request_set_state(r, REQUEST_PENDING);
  request_set_state(r, REQUEST_EXECUTING);
  LOCK_SCOPE(&host->lock);
  list_append(&host->requests, &h->node);
  if (was_cancelled_early(host, h->number))
    atomic_store_explicit(&h->factory->cancelled, true, memory_order_relaxed);
  return NULL;
}

void host_request_unref(host_request *r)
{
  if (refcount_drop(&r->references))
    free(r);
}

void host_request_take_back(host_request *h)
{
  request *r = h->request;
  if (r == NULL)
    return;
  h->request = NULL;
  if (h->factory == NULL) { // making it failed halfway
    request_free(r);
    return;
  }
  bool answered = atomic_load_explicit(&h->factory->finished, memory_order_acquire);
  h->factory->answer_owed = false;
  if (!answered) {
    LOCK_SCOPE(&h->host->lock);
    list_remove(&h->node);
  }
  request_free(r);
  host_request_unref(h);
  if (!answered)
    host_request_unref(h);
}

static error *grow(host_instance *h, uint32_t count)
{
  if (count <= h->capacity)
    return NULL;
  host_request **requests = reallocarray(h->requests, count, sizeof(*requests));
  if (requests != NULL)
    h->requests = requests;
  request **batch = reallocarray(h->batch, count, sizeof(*batch));
  if (batch != NULL)
    h->batch = batch;
  if (requests == NULL || batch == NULL)
    return error_no_memory();
  h->capacity = count;
  return NULL;
}

error *host_requests_read(host_instance *h, wire_reader *reader, uint32_t *count)
{
  uint32_t wanted = wire_get_count(reader, sizeof(uint64_t));
  *count = 0;
  RETURN_IF_ERROR(grow(h, wanted));
  for (uint32_t i = 0; i < wanted; i++) {
    h->requests[i] = NULL;
    error *e = make_request(h, reader, &h->requests[i]);
    *count += h->requests[i] != NULL;
    RETURN_IF_ERROR(e);
    h->batch[i] = h->requests[i]->request;
  }
  return reader->bad ? error_new(ERROR_INTERNAL, "a batch of the server cannot be read") : NULL;
}
