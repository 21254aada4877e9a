// SPDX-License-Identifier: Apache-2.0
// The states of one sequence: makes them, attaches them to requests, and serves the backend's
// calls.
#include "request/sequence_state.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "gpu/copy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// ---- making ----

static error *set_shape(state_shape *shape, TRITONSERVER_DataType datatype, const int64_t *dims,
                        uint32_t dim_count)
{
  int64_t *copy = shape->dims;
  if (copy == NULL || shape->dim_count < dim_count) {
    copy = reallocarray(copy, dim_count > 0 ? dim_count : 1, sizeof(*copy));
    if (copy == NULL)
      return error_no_memory();
  }
  if (dim_count > 0)
    memcpy(copy, dims, dim_count * sizeof(*copy));
  *shape = (state_shape){datatype, copy, dim_count};
  return NULL;
}

static void free_memory(const state_source *source, state_memory *memory)
{
  if (memory->region != NULL)
    source->give_region_back(source->context, memory->region);
  else if (memory->type != TRITONSERVER_MEMORY_CPU)
    source->give_back(source->context, memory->data, memory->type, memory->id);
  else
    block_free(memory->data, memory->size);
  *memory = (state_memory){0};
}

static error *fill(state_tensor *s, const void *data, size_t size)
{
  s->memory.data = data == NULL ? block_allocate_zeroed(size) : block_allocate(size);
  if (s->memory.data == NULL)
    return error_no_memory();
  s->memory.size = size;
  if (data != NULL)
    memcpy(s->memory.data, data, size);
  return NULL;
}

static error *new_states(size_t count, sequence_states **result)
{
  size_t size;
  sequence_states *states = NULL;
  if (checked_array_size(sizeof(*states), count, sizeof(*states->items), &size))
    states = calloc(1, size);
  if (states == NULL)
    return error_no_memory();
  refcount_init(&states->references);
  states->count = count;
  *result = states;
  return NULL;
}

static error *init_by_rule(state_tensor *s, const state_rule *rule, const state_source *source)
{
  s->source = source;
  s->grows = rule->grows;
  s->input_name = rule->input_name;
  s->output_name = rule->output_name;
  s->same_buffer = rule->same_buffer;
  RETURN_IF_ERROR(set_shape(&s->shape, rule->datatype, rule->dims, rule->dim_count));
  return fill(s, rule->initial, rule->initial_size);
}

error *sequence_states_new(const state_rules *rules, sequence_states **result)
{
  sequence_states *states = NULL;
  RETURN_IF_ERROR(new_states(rules->count, &states));
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < rules->count; i++)
    e = init_by_rule(&states->items[i], &rules->items[i], &rules->source);
  if (e == NULL)
    *result = states;
  else
    sequence_states_unref(states);
  return e;
}

static error *init_as_null(state_tensor *s, const state_tensor *like)
{
  s->source = like->source;
  s->input_name = like->input_name;
  s->output_name = like->output_name;
  RETURN_IF_ERROR(
      set_shape(&s->shape, like->shape.datatype, like->shape.dims, like->shape.dim_count));
  if (like->shape.datatype != TRITONSERVER_TYPE_BYTES)
    return fill(s, NULL, like->memory.size);
  size_t size = 0; // of empty strings
  tensor_least_bytes(like->shape.datatype, like->shape.dims, like->shape.dim_count, &size);
  return fill(s, NULL, size);
}

error *sequence_states_new_null(const sequence_states *like, sequence_states **result)
{
  sequence_states *states = NULL;
  RETURN_IF_ERROR(new_states(like->count, &states));
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < like->count; i++)
    e = init_as_null(&states->items[i], &like->items[i]);
  if (e == NULL)
    *result = states;
  else
    sequence_states_unref(states);
  return e;
}

void sequence_states_unref(sequence_states *states)
{
  if (states == NULL || !refcount_drop(&states->references))
    return;
  buffer_fini(&states->batch_key);
  for (size_t i = 0; i < states->count; i++) {
    state_tensor *s = &states->items[i];
    free(s->shape.dims);
    free(s->next_shape.dims);
    free_memory(s->source, &s->memory);
    free_memory(s->source, &s->next);
    free_memory(s->source, &s->lent);
  }
  free(states);
}

// ---- requests ----

static error *show(request *r, state_tensor *s)
{
  free_memory(s->source, &s->lent);
  s->read = s->memory.data;
  const input_segment segment = {.base = s->memory.data,
                                 .size = s->memory.size,
                                 .memory_type = s->memory.type,
                                 .memory_type_id = s->memory.id};
  return request_set_override(r, s->input_name, s->shape.datatype, s->shape.dims,
                              s->shape.dim_count, segment);
}

static bool make_batch_key(const request *r, sequence_states *states)
{
  buffer *key = &states->batch_key;
  slice own = r->item.batch_key;
  if (r->states != NULL)
    own.size = r->states->own_key_size;
  if (r->states != states) {
    key->size = 0;
    buffer_append_slice(key, own);
    states->own_key_size = own.size;
  }
  key->failed = false;
  key->size = own.size;
  for (size_t i = 0; i < states->count; i++) {
    const state_shape *shape = &states->items[i].shape;
    buffer_append(key, &shape->dim_count, sizeof(shape->dim_count));
    buffer_append(key, shape->dims, shape->dim_count * sizeof(*shape->dims));
  }
  return !key->failed;
}

error *request_set_states(request *r, sequence_states *states)
{
  const bool batches = r->target->signature.max_batch_size > 0;
  if (batches && !make_batch_key(r, states))
    return error_no_memory();
  refcount_take(&states->references);
  request_drop_states(r);
  r->states = states;
  if (batches)
    r->item.batch_key = buffer_view(&states->batch_key);
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < states->count; i++)
    e = show(r, &states->items[i]);
  return e;
}

static error *place(request *r, state_tensor *s, int32_t device)
{
  state_memory on_device = {.size = s->memory.size, .type = TRITONSERVER_MEMORY_GPU, .id = device};
  RETURN_IF_ERROR(s->source->take_region(s->source->context, device, s->memory.data, s->memory.size,
                                         &on_device.region, &on_device.data));
  free_memory(s->source, &s->memory);
  s->memory = on_device;
  return show(r, s);
}

error *request_place_states(request *r, int32_t device)
{
  for (size_t i = 0; r->states != NULL && i < r->states->count; i++) {
    state_tensor *s = &r->states->items[i];
    if (s->grows && s->memory.region == NULL)
      RETURN_IF_ERROR(place(r, s, device));
  }
  return NULL;
}

void request_drop_states(request *r)
{
  if (r->states == NULL)
    return;
  r->item.batch_key = (slice){NULL, 0}; // it is the set's
  sequence_states_unref(r->states);
  r->states = NULL;
}

// ---- what backends call ----

error *state_tensor_find(const request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint32_t dim_count, state_tensor **state)
{
  if (r->states == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "unable to add state '%s'. State configuration is missing for model '%s'.",
                     name, r->target->name);
  for (size_t i = 0; i < r->states->count; i++) {
    state_tensor *s = &r->states->items[i];
    if (strcmp(s->output_name, name) != 0)
      continue;
    RETURN_IF_ERROR(set_shape(&s->next_shape, datatype, dims, dim_count));
    *state = s;
    return NULL;
  }
  return error_new(ERROR_INVALID_ARG, "state '%s' is not a valid state name.", name);
}

// Frees the memory, or keeps it if the request may still read it.
static void let_go(state_tensor *s, state_memory *memory)
{
  if (memory->data != s->read || memory->data == NULL) {
    free_memory(s->source, memory);
    return;
  }
  assert(s->lent.data == NULL);
  s->lent = *memory;
  *memory = (state_memory){0};
}

static error *clear(const state_tensor *s, const state_memory *memory, size_t from, size_t to)
{
  const gpu_place place = {(gpu_memory_kind)memory->type, (int)memory->id};
  return to <= from ? NULL
                    : gpu_clear_now((char *)memory->data + from, place, to - from, s->output_name);
}

static error *take(const state_tensor *s, state_memory *made)
{
  const state_source *source = s->source;
  if (made->type != TRITONSERVER_MEMORY_CPU)
    RETURN_IF_ERROR(source->take(source->context, made->size, &made->type, &made->id, &made->data));
  if (made->type == TRITONSERVER_MEMORY_CPU) {
    made->id = 0;
    made->data = block_allocate(made->size);
  }
  return made->data == NULL ? error_no_memory() : NULL;
}

// An overwritten state changes at once, and stays changed if the request fails.
static error *take_for(const state_tensor *s, state_memory *made)
{
  RETURN_IF_ERROR(take(s, made));
  if (!s->source->clears && !s->same_buffer)
    return NULL;
  error *e = clear(s, made, 0, made->size);
  if (e != NULL)
    free_memory(s->source, made);
  return e;
}

static error *grow(state_memory *memory, const state_tensor *s, size_t size)
{
  RETURN_IF_ERROR(s->source->grow_region(s->source->context, memory->region, size));
  if (s->source->clears)
    RETURN_IF_ERROR(clear(s, memory, memory->size, size)); // it may hold another sequence's data
  memory->size = size;
  return NULL;
}

error *state_tensor_allocate(state_tensor *s, size_t size, TRITONSERVER_MemoryType *type,
                             int64_t *id, void **data)
{
  state_memory *memory = s->same_buffer ? &s->memory : &s->next;
  if (memory->region != NULL) {
    RETURN_IF_ERROR(grow(memory, s, size));
  } else if (memory->data == NULL || memory->size != size || memory->type != *type ||
             memory->id != *id) {
    state_memory made = {.size = size, .type = *type, .id = *id};
    RETURN_IF_ERROR(take_for(s, &made));
    let_go(s, memory);
    *memory = made;
  }
  s->attributes = (buffer_attributes){
      .byte_size = size, .memory_type = memory->type, .memory_type_id = memory->id};
  *type = memory->type;
  *id = memory->id;
  *data = memory->data;
  return NULL;
}

error *state_tensor_update(state_tensor *s)
{
  const state_shape *next = &s->next_shape;
  RETURN_IF_ERROR(set_shape(&s->shape, next->datatype, next->dims, next->dim_count));
  if (s->same_buffer)
    return NULL;
  state_memory last = s->memory;
  s->memory = s->next;
  s->next = last;
  if (s->next.size != s->memory.size)
    let_go(s, &s->next);
  return NULL;
}
