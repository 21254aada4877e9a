// SPDX-License-Identifier: Apache-2.0
// Null requests fill rows whose sequences have no request now, as in Triton: zeroed inputs of the
// same types and shapes, no outputs, READY false. Their answers are dropped.
#include "core/sequence_rows.h"

#include "base/checked.h"
#include "core/sequence_controls.h"
#include "gpu/copy.h"
#include "request/response_allocator.h"
#include "request/sequence_state.h"
#include "schedule/sequence_policy.h"

#include <assert.h>
#include <string.h>

static char zeros[65536]; // nobody writes to it; const data would be in the file

// ---- the client of null requests ----

static TRITONSERVER_Error *refuse_memory(struct TRITONSERVER_ResponseAllocator *allocator,
                                         const char *tensor, size_t size,
                                         TRITONSERVER_MemoryType preferred, int64_t preferred_id,
                                         void *context, void **data, void **data_context,
                                         TRITONSERVER_MemoryType *type, int64_t *id)
{
  (void)allocator, (void)tensor, (void)size, (void)preferred, (void)preferred_id, (void)context;
  (void)data, (void)data_context, (void)type, (void)id;
  return (TRITONSERVER_Error *)error_new(
      ERROR_INTERNAL, "unexpected allocation for null request, no output should be requested.");
}

static TRITONSERVER_Error *keep_memory(struct TRITONSERVER_ResponseAllocator *allocator, void *data,
                                       void *data_context, size_t size,
                                       TRITONSERVER_MemoryType type, int64_t id)
{
  (void)allocator, (void)data, (void)data_context, (void)size, (void)type, (void)id;
  return NULL;
}

static response_allocator allocator = {.allocate = refuse_memory, .release = keep_memory};

static void drop_response(response *r_owned, uint32_t flags, void *context)
{
  (void)flags, (void)context;
  response_free(r_owned);
}

static void drop_request(request *r_owned, uint32_t flags, void *context)
{
  (void)flags, (void)context;
  request_free(r_owned);
}

// ---- null requests ----

static error *append_zeros(request *r, const char *name, size_t size)
{
  for (size_t part; size > 0; size -= part) {
    part = size < sizeof(zeros) ? size : sizeof(zeros);
    RETURN_IF_ERROR(
        request_append_input_data(r, name, (input_segment){.base = zeros, .size = part}));
  }
  return NULL;
}

// A null request has the values of the batch's shape tensors.
static error *copy_data(request *r, const request_input *from)
{
  for (uint32_t i = 0; i < from->data.segment_count; i++) {
    const input_segment *segment = &from->data.segments[i];
    void *copy = arena_allocate(&r->input_memory, segment->size);
    if (copy == NULL)
      return error_no_memory();
    const gpu_place place = {(gpu_memory_kind)segment->memory_type, (int)segment->memory_type_id};
    RETURN_IF_ERROR(gpu_copy_now(copy, (gpu_place){GPU_MEMORY_HOST, 0}, segment->base, place,
                                 segment->size, from->name.data));
    RETURN_IF_ERROR(request_append_input_data(
        r, from->name.data, (input_segment){.base = copy, .size = segment->size}));
  }
  return NULL;
}

// Elements of BYTES are empty texts: their length is zero.
static error *copy_input(request *r, const request_input *from)
{
  int64_t elements;
  size_t size = from->data.byte_size;
  const char *name = from->name.data;
  RETURN_IF_ERROR(request_add_override(r, name, from->datatype, from->dims, from->dim_count));
  if (from->signature->is_shape_tensor)
    return copy_data(r, from);
  if (from->datatype == TRITONSERVER_TYPE_BYTES &&
      shape_element_count(from->dims, from->dim_count, &elements))
    size = (size_t)elements * sizeof(uint32_t);
  return append_zeros(r, name, size);
}

static error *add_states(request *r, const sequence_states *like)
{
  sequence_states *states;
  RETURN_IF_ERROR(sequence_states_new_null(like, &states));
  error *e = request_set_states(r, states);
  sequence_states_unref(states); // the request has its own reference
  return e;
}

static error *fill(request *r, const request *from, const sequence_controls *controls)
{
  r->is_null = true;
  r->batch_size = from->batch_size;
  r->allocator = &allocator;
  r->response_callback = drop_response;
  r->release_callback = drop_request;
  RETURN_IF_ERROR(request_renew_factory(r));
  uint32_t count;
  const request_input *inputs = request_given_inputs(from, &count);
  for (uint32_t i = 0; i < count; i++)
    RETURN_IF_ERROR(copy_input(r, &inputs[i]));
  RETURN_IF_ERROR(sequence_controls_add(controls, r));
  return from->states == NULL ? NULL : add_states(r, from->states);
}

static error *new_null_request(const request *from, const sequence_controls *controls, request **r)
{
  RETURN_IF_ERROR(request_new(from->target, r));
  (*r)->times = from->times;
  error *e = fill(*r, from, controls);
  if (e != NULL) {
    request_drop_states(*r);
    request_free(*r);
    *r = NULL;
    return e;
  }
  request_set_state(*r, REQUEST_PENDING);
  request_set_state(*r, REQUEST_EXECUTING);
  return NULL;
}

// ---- rows ----

// Sorts the requests by row into i->items; empty rows are NULL. Returns the number of rows.
static uint32_t sort(instance *i, size_t first, uint32_t count)
{
  uint32_t rows = 0;
  for (uint32_t n = 0; n < count; n++) {
    uint32_t row = i->batch[first + n]->item.sequence->slot->row;
    rows = row >= rows ? row + 1 : rows;
  }
  assert(first + rows <= i->batch_capacity);
  memset(i->items, 0, rows * sizeof(queue_item *));
  for (uint32_t n = 0; n < count; n++) {
    queue_item *item = &i->batch[first + n]->item;
    assert(i->items[item->sequence->slot->row] == NULL);
    i->items[item->sequence->slot->row] = item;
  }
  return rows;
}

static error *fill_gaps(instance *i, const request *from, uint32_t rows)
{
  error *e = NULL;
  for (uint32_t row = 0; e == NULL && row < rows; row++) {
    request *r;
    if (i->items[row] == NULL && (e = new_null_request(from, i->row_controls, &r)) == NULL)
      i->items[row] = &r->item;
  }
  for (uint32_t row = 0; e != NULL && row < rows; row++)
    if (i->items[row] != NULL && request_of_item(i->items[row])->is_null) {
      request_drop_states(request_of_item(i->items[row]));
      request_free(request_of_item(i->items[row]));
    }
  return e;
}

error *sequence_rows_arrange(instance *i, size_t first, uint32_t count, uint32_t *arranged)
{
  uint32_t rows = sort(i, first, count);
  *arranged = count;
  if (rows > count)
    RETURN_IF_ERROR(fill_gaps(i, i->batch[first], rows));
  for (uint32_t row = 0; row < rows; row++) {
    request *r = request_of_item(i->items[row]);
    r->slot = &i->executing[first + row];
    atomic_store_explicit(r->slot, r, memory_order_relaxed);
    r->factory->executed_rows = rows;
    i->batch[first + row] = r;
  }
  *arranged = rows;
  return NULL;
}
