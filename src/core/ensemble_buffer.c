// SPDX-License-Identifier: Apache-2.0
// Memory of tensors. Memory from malloc has no context; the client's and the pools' have a
// buffer_owner. What a step writes on a GPU stays there for the steps that read it. Only the answer
// is copied, once it is complete and without the run's lock.
#include "core/ensemble_buffer.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "core/gpus.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The owner of a buffer: the client, for one of its outputs, or a pool.
typedef struct buffer_owner {
  ensemble_run *run; // for the client's; NULL: a pool's
  void *context;     // the client's
  bool handed_over;
  gpus *gpus; // for a pool's
  gpu_place place;
} buffer_owner;

// ---- allocation ----

static bool is_read(const ensemble_run *run, const ensemble_tensor *tensor)
{
  for (uint32_t i = 0; i < tensor->reader_count; i++)
    if (run->plan->needs[tensor->readers[i]])
      return true;
  return false;
}

// The ensemble's output that the step writes, if the client may be asked for its memory now. A
// tensor that other steps read too stays on the GPU that it is written on.
static const ensemble_tensor *find_output(const ensemble_step *s, const char *name,
                                          TRITONSERVER_MemoryType preferred)
{
  const ensemble_run *run = s->wave->run;
  const ensemble_graph_step *step = &run->graph->steps[s->index];
  uint32_t index = ensemble_graph_find_output(step, slice_of(name));
  if (run->has_waves || index == ENSEMBLE_NONE)
    return NULL;
  const ensemble_tensor *tensor = &run->graph->tensors[step->outputs[index].tensor];
  bool stays = preferred == TRITONSERVER_MEMORY_GPU && is_read(run, tensor);
  return run->plan->wants[step->outputs[index].tensor] && !stays ? tensor : NULL;
}

static error *begin_answer(ensemble_run *run)
{
  assert(lock_is_held(&run->lock));
  return run->answer != NULL ? NULL : response_new(run->request->factory, &run->answer);
}

static error *ask_client(ensemble_run *run, const char *name, buffer_attributes *a, void **memory,
                         void **context)
{
  const response_factory *f = run->request->factory;
  buffer_owner *b = calloc(1, sizeof(*b));
  if (b == NULL)
    return error_no_memory();
  b->run = run;
  pthread_mutex_lock(&run->lock);
  error *e = begin_answer(run);
  if (e == NULL)
    e = response_allocate(f, name, a, memory, &b->context);
  pthread_mutex_unlock(&run->lock);
  if (e != NULL)
    free(b);
  else
    *context = b;
  return e;
}

static gpus *gpus_of(const ensemble_run *run)
{
  gpus *g = run->model->environment.gpus;
  return g != NULL && gpus_devices(g)->count > 0 ? g : NULL;
}

// A step that is an ensemble passes the memory on to its own steps.
static bool leaves_gaps(const ensemble_step *s)
{
  const model *m = ensemble_step_model(s->wave->run, s->index);
  return m->runner != NULL || m->target.leaves_gaps;
}

// Pinned memory needs no clearing here: all steps clear it where they get it.
static error *clear(const ensemble_step *s, void *memory, gpu_place place, size_t size,
                    const char *name)
{
  char what[128];
  if (place.kind == GPU_MEMORY_PINNED || !leaves_gaps(s))
    return NULL;
  snprintf(what, sizeof(what), "output '%.100s'", name);
  return gpu_clear_now(memory, place, size, what);
}

// Takes memory of a pool, where it is wanted or as near as there is room.
static error *take(const ensemble_step *s, const char *name, size_t size, gpu_place place,
                   void **memory, void **context, TRITONSERVER_MemoryType *type, int64_t *id)
{
  ensemble_run *run = s->wave->run;
  buffer_owner *b = calloc(1, sizeof(*b));
  if (b == NULL)
    return error_no_memory();
  *b = (buffer_owner){.gpus = gpus_of(run), .place = place};
  error *e = gpus_take_any(b->gpus, &b->place, size, memory);
  if (e == NULL && (e = clear(s, *memory, b->place, size, name)) != NULL)
    gpus_give_back(b->gpus, b->place, *memory);
  if (e != NULL) {
    free(b);
    return e;
  }
  *context = b;
  *type = (TRITONSERVER_MemoryType)b->place.kind;
  *id = b->place.kind == GPU_MEMORY_DEVICE ? b->place.device : 0;
  if (b->place.kind == GPU_MEMORY_DEVICE)
    atomic_store_explicit(&run->has_gpu_tensors, true, memory_order_relaxed);
  return NULL;
}

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType preferred,
                                    int64_t preferred_id, void *step, void **memory, void **context,
                                    TRITONSERVER_MemoryType *type, int64_t *id)
{
  (void)allocator;
  const ensemble_step *s = step;
  const ensemble_tensor *output = find_output(s, name, preferred);
  *context = NULL;
  if (output != NULL && s->wave->run->request->allocator != NULL) {
    buffer_attributes a = {
        .byte_size = size, .memory_type = preferred, .memory_type_id = preferred_id};
    error *e = ask_client(s->wave->run, output->name, &a, memory, context);
    *type = a.memory_type;
    *id = a.memory_type_id;
    return (TRITONSERVER_Error *)e;
  }
  if (preferred != TRITONSERVER_MEMORY_CPU && size > 0 && gpus_of(s->wave->run) != NULL)
    return (TRITONSERVER_Error *)take(s, name, size,
                                      (gpu_place){(gpu_memory_kind)preferred, (int)preferred_id},
                                      memory, context, type, id);
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  *memory = size == 0 ? NULL : leaves_gaps(s) ? calloc(1, size) : malloc(size);
  return *memory == NULL && size > 0 ? (TRITONSERVER_Error *)error_no_memory() : NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *memory,
                                   void *context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator;
  buffer_owner *b = context;
  if (b == NULL) {
    free(memory);
    return NULL;
  }
  if (b->run == NULL) {
    gpus_give_back(b->gpus, b->place, memory);
  } else if (!b->handed_over) {
    LOCK_SCOPE(&b->run->lock);
    response_allocator *client = b->run->request->allocator;
    error_free((error *)client->release(client, memory, b->context, size, type, id));
  }
  free(b);
  return NULL;
}

static error *query_client(ensemble_run *run, const char *name, size_t *size,
                           TRITONSERVER_MemoryType *type, int64_t *id)
{
  response_allocator *client = run->request->allocator;
  LOCK_SCOPE(&run->lock);
  return (error *)client->query(client, run->request->factory->allocator_context, name, size, type,
                                id);
}

// Between steps any place will do, as in Triton; for the client's memory, the client says.
static TRITONSERVER_Error *query(TRITONSERVER_ResponseAllocator *allocator, void *step,
                                 const char *name, size_t *size, TRITONSERVER_MemoryType *type,
                                 int64_t *id)
{
  (void)allocator;
  const ensemble_step *s = step;
  ensemble_run *run = s->wave->run;
  if (*type != TRITONSERVER_MEMORY_CPU && gpus_of(run) != NULL) {
    const ensemble_tensor *output = name != NULL ? find_output(s, name, *type) : NULL;
    bool asks = output != NULL && run->request->allocator != NULL;
    if (!asks)
      return NULL;
    if (run->request->allocator->query != NULL)
      return (TRITONSERVER_Error *)query_client(run, output->name, size, type, id);
  }
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return NULL;
}

response_allocator ensemble_allocator = {.allocate = allocate, .release = release, .query = query};

// ---- shapes ----

static bool dims_match(const tensor_signature *config, const int64_t *dims, uint32_t count)
{
  const int64_t *own = config->has_reshape ? config->reshape : config->dims;
  uint32_t own_count = config->has_reshape ? config->reshape_count : config->dim_count;
  return own_count == count && signature_dims_match(own, dims, count);
}

const int64_t *ensemble_shape(const tensor_signature *config, bool batches, uint32_t batch_size,
                              const int64_t *dims, uint32_t *dim_count, int64_t *room)
{
  if (batches == (batch_size > 0) || config == NULL)
    return dims;
  if (!batches) {
    bool strips = batch_size == 1 && *dim_count > 0 && !dims_match(config, dims, *dim_count);
    *dim_count -= strips;
    return dims + strips;
  }
  if (!dims_match(config, dims, *dim_count))
    return dims;
  room[0] = 1;
  if (*dim_count > 0)
    memcpy(room + 1, dims, *dim_count * sizeof(int64_t));
  (*dim_count)++;
  return room;
}

// ---- the answer ----

static uint32_t batch_size_of(const ensemble_wave *w, const ensemble_tensor *t)
{
  return t->source == ENSEMBLE_NONE ? w->run->request->batch_size : w->steps[t->source].batch_size;
}

static error *add_output(const ensemble_wave *w, const ensemble_tensor *t, response *answer,
                         response_output **added)
{
  const ensemble_run *run = w->run;
  const ensemble_value *v = &w->values[t - run->graph->tensors];
  const model_signature *signature = &run->request->target->signature;
  const int64_t *dims = v->output != NULL ? v->output->dims : v->input->dims;
  uint32_t count = v->output != NULL ? v->output->dim_count : v->input->dim_count;
  int64_t *room = arena_allocate_array(&answer->memory, count + 1, sizeof(*room));
  if (room == NULL)
    return error_no_memory();
  dims = ensemble_shape(&signature->outputs[t->output], run->request->batch_size > 0,
                        batch_size_of(w, t), dims, &count, room);
  return response_add_output(answer, t->name,
                             v->output != NULL ? v->output->datatype : v->input->datatype, dims,
                             count, added);
}

// A copy from or to a GPU, done after the run's lock is released.
typedef struct late_copy {
  struct late_copy *next;
  char *to;
  const void *from;
  gpu_place to_place, from_place;
  size_t size;
  const char *output;
} late_copy;

static gpu_place place_of(TRITONSERVER_MemoryType type, int64_t id)
{
  return (gpu_place){(gpu_memory_kind)type, (int)id};
}

// Copies now, or adds the copy to *late.
static error *copy_piece(response_output *to, char *memory, gpu_place place,
                         const input_segment *from, late_copy **late)
{
  if (place.kind != GPU_MEMORY_DEVICE && from->memory_type != TRITONSERVER_MEMORY_GPU) {
    memcpy(memory, from->base, from->size);
    return NULL;
  }
  late_copy *c = arena_allocate_array(&to->response->memory, 1, sizeof(*c));
  if (c == NULL)
    return error_no_memory();
  *c = (late_copy){.next = *late,
                   .to = memory,
                   .from = from->base,
                   .to_place = place,
                   .from_place = place_of(from->memory_type, from->memory_type_id),
                   .size = from->size,
                   .output = to->name.data};
  *late = c;
  return NULL;
}

static error *copy_late(const late_copy *c)
{
  error *e = NULL;
  for (; e == NULL && c != NULL; c = c->next) {
    char what[128];
    snprintf(what, sizeof(what), "output '%.100s'", c->output);
    e = gpu_copy_now(c->to, c->to_place, c->from, c->from_place, c->size, what);
  }
  return e;
}

static error *copy(const ensemble_value *v, response_output *to, late_copy **late)
{
  void *memory;
  int64_t id = 0;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  size_t size = v->output != NULL ? v->output->attributes.byte_size : v->input->data.byte_size;
  RETURN_IF_ERROR(response_output_allocate(to, size, &type, &id, &memory));
  if (size == 0)
    return NULL;
  if (memory == NULL)
    return error_new(ERROR_INTERNAL, "failed to allocate buffer for output '%s'", to->name.data);
  const gpu_place place = place_of(type, id);
  if (v->output != NULL) {
    const buffer_attributes *a = &v->output->attributes;
    const input_segment whole = {.base = v->output->buffer,
                                 .size = size,
                                 .memory_type = a->memory_type,
                                 .memory_type_id = a->memory_type_id};
    return copy_piece(to, memory, place, &whole, late);
  }
  char *next = memory;
  for (uint32_t i = 0; i < v->input->data.segment_count; i++) {
    RETURN_IF_ERROR(copy_piece(to, next, place, &v->input->data.segments[i], late));
    next += v->input->data.segments[i].size;
  }
  return NULL;
}

static error *write_output(const ensemble_wave *w, const ensemble_tensor *t, response *answer,
                           late_copy **late)
{
  response_output *to;
  const ensemble_value *v = &w->values[t - w->run->graph->tensors];
  if (v->output == NULL && v->input == NULL)
    return NULL; // left out, as in Triton
  RETURN_IF_ERROR(add_output(w, t, answer, &to));
  buffer_owner *b = v->output != NULL ? v->output->buffer_context : NULL;
  if (b == NULL || b->run == NULL)
    return copy(v, to, late);
  response_output_take_over(to, v->output, b->context);
  b->handed_over = true;
  return NULL;
}

// Adds the parameters of the tensor's sequence, as Triton's answers have them.
static error *add_sequence(const ensemble_wave *w, const ensemble_tensor *t, response *answer)
{
  if (t->source == ENSEMBLE_NONE)
    return NULL;
  const ensemble_step *s = &w->steps[t->source];
  parameter id = s->sequence.text != NULL ? parameter_of_string(s->sequence.text)
                                          : parameter_of_int((int64_t)s->sequence.number);
  bool starts = (s->sequence.flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0;
  bool ends = (s->sequence.flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0;
  RETURN_IF_ERROR(response_set_parameter(answer, "sequence_id", id));
  RETURN_IF_ERROR(response_set_parameter(answer, "sequence_start", parameter_of_bool(starts)));
  return response_set_parameter(answer, "sequence_end", parameter_of_bool(ends));
}

static error *write_outputs(const ensemble_wave *w, response *answer, late_copy **late)
{
  const ensemble_run *run = w->run;
  for (uint32_t i = 0; i < run->graph->output_count; i++) {
    uint32_t tensor = run->graph->output_tensors[i];
    if (!run->plan->wants[tensor])
      continue;
    RETURN_IF_ERROR(write_output(w, &run->graph->tensors[tensor], answer, late));
    RETURN_IF_ERROR(add_sequence(w, &run->graph->tensors[tensor], answer));
  }
  return NULL;
}

static error *write_locked(ensemble_wave *w, response **answer, late_copy **late)
{
  ensemble_run *run = w->run;
  LOCK_SCOPE(&run->lock); // steps of other waves may be under way
  RETURN_IF_ERROR(begin_answer(run));
  error *e = write_outputs(w, run->answer, late);
  *answer = run->answer;
  run->answer = NULL;
  return e;
}

error *ensemble_write_answer(ensemble_wave *w, response **answer)
{
  late_copy *late = NULL;
  *answer = NULL;
  error *e = write_locked(w, answer, &late);
  if (e == NULL)
    e = copy_late(late);
  if (e != NULL) {
    response_free(*answer);
    *answer = NULL;
  }
  return e;
}
