// SPDX-License-Identifier: Apache-2.0
// Traces of requests; see request_trace.h. Requests without a trace never run this code.
#include "request/request_trace.h"

#include "base/buffer.h"
#include "base/text.h"
#include "request/request.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define OLD_LEVELS ((uint32_t)(TRITONSERVER_TRACE_LEVEL_MIN | TRITONSERVER_TRACE_LEVEL_MAX))

error *trace_new(uint32_t level, uint64_t parent_id, const trace_functions *functions,
                 trace **result)
{
  static _Atomic uint64_t last_id; // 0 means: no parent
  trace *t = calloc(1, sizeof(*t));
  if (t == NULL)
    return error_no_memory();
  if ((level & OLD_LEVELS) != 0)
    level = (level & ~OLD_LEVELS) | TRITONSERVER_TRACE_LEVEL_TIMESTAMPS;
  refcount_init(&t->users);
  t->level = level;
  t->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  t->parent_id = parent_id;
  t->functions = *functions;
  *result = t;
  return NULL;
}

error *trace_spawn(trace *parent, trace **child)
{
  RETURN_IF_ERROR(trace_new(parent->level, parent->id, &parent->functions, child));
  refcount_take(&parent->users);
  (*child)->parent = parent;
  return NULL;
}

static void destroy(trace *t)
{
  free(t->model_name);
  free(t->request_id);
  free(t->context);
  free(t);
}

static void drop_user(trace *t)
{
  if (!refcount_drop(&t->users))
    return;
  if (t->deleted)
    destroy(t);
  else
    t->functions.release(t, t->functions.context);
}

void trace_free(trace *t)
{
  if (t == NULL)
    return;
  trace *parent = t->parent;
  t->parent = NULL;
  t->deleted = true;
  if (refcount_peek(&t->users) == 0)
    destroy(t); // it was released
  else
    drop_user(t);
  if (parent != NULL)
    drop_user(parent);
}

static error *replace(char **field, const char *text)
{
  return text_replace(field, text) ? NULL : error_no_memory();
}

error *trace_set_context(trace *t, const char *context)
{
  return replace(&t->context, context);
}

error *trace_follow(trace *t, const request *r)
{
  t->model_version = r->target->version;
  RETURN_IF_ERROR(replace(&t->model_name, r->target->name));
  return replace(&t->request_id, r->id.data);
}

void trace_report(trace *t, TRITONSERVER_InferenceTraceActivity activity, uint64_t moment_ns)
{
  if ((t->level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) != 0 && t->functions.activity != NULL)
    t->functions.activity(t, activity, moment_ns, t->functions.context);
}

// Adds a member to the context; replaces a context that is no JSON object.
static error *name_in_context(trace *t, uint64_t moment_ns, const char *name)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const char *old = trace_text(t->context);
  size_t size = strlen(old);
  bool is_object = size > 2 && old[0] == '{' && old[size - 1] == '}';
  if (is_object)
    buffer_append(&text, old, size - 1);
  buffer_append_format(&text, "%c\"%" PRIu64 "\":", is_object ? ',' : '{', moment_ns);
  buffer_append_json_string(&text, slice_of(name));
  buffer_append_char(&text, '}');
  char *fresh = buffer_take_text(&text);
  if (fresh == NULL)
    return error_no_memory();
  free(t->context);
  t->context = fresh;
  return NULL;
}

error *trace_report_custom(trace *t, uint64_t moment_ns, const char *name)
{
  if ((t->level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) == 0)
    return NULL;
  RETURN_IF_ERROR(name_in_context(t, moment_ns, name));
  trace_report(t, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, moment_ns);
  return NULL;
}

static bool wants_tensors(const trace *t)
{
  return (t->level & TRITONSERVER_TRACE_LEVEL_TENSORS) != 0 && t->functions.tensor != NULL;
}

// NULL when memory is short, or the tensor is not in host memory.
static char *joined(const request_input *input)
{
  char *all = malloc(input->data.byte_size), *to = all;
  for (uint32_t i = 0; all != NULL && i < input->data.segment_count; i++) {
    const input_segment *segment = &input->data.segments[i];
    if (segment->memory_type == TRITONSERVER_MEMORY_GPU) {
      free(all);
      return NULL;
    }
    memcpy(to, segment->base, segment->size);
    to += segment->size;
  }
  return all;
}

static void report_input(trace *t, const request_input *input)
{
  if (input->data.segment_count == 0)
    return;
  input_segment all = input->data.segments[0];
  char *copy = input->data.segment_count == 1 ? NULL : joined(input);
  if (input->data.segment_count > 1) {
    if (copy == NULL)
      return;
    all = (input_segment){.base = copy, .size = input->data.byte_size};
  }
  t->functions.tensor(t, TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT, input->name.data, input->datatype,
                      all.base, all.size, input->dims, input->dim_count, all.memory_type,
                      all.memory_type_id, t->functions.context);
  free(copy);
}

void trace_report_inputs(trace *t, const request *r)
{
  for (uint32_t i = 0; wants_tensors(t) && i < r->input_count; i++)
    report_input(t, &r->inputs[i]);
}

void trace_report_outputs(trace *t, const response *r)
{
  if (!wants_tensors(t))
    return;
  for (const response_output *o = r->outputs; o != NULL; o = o->next)
    if (o->allocated)
      t->functions.tensor(t, TRITONSERVER_TRACE_TENSOR_BACKEND_OUTPUT, o->name.data, o->datatype,
                          o->buffer, o->attributes.byte_size, o->dims, o->dim_count,
                          o->attributes.memory_type, o->attributes.memory_type_id,
                          t->functions.context);
}

void trace_release(trace *t)
{
  drop_user(t);
}
