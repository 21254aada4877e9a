// SPDX-License-Identifier: Apache-2.0
// Records what the core reports. Any thread that works for the request.
#include "frontend/trace/record.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "frontend/trace/settings.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static _Atomic size_t all_bytes; // of all records

// ---- memory; the lock is held

// Limits all records together: many requests may be in flight, and a tensor's text is longer than
// the tensor.
static bool reserve_bytes(size_t size)
{
  if (atomic_fetch_add_explicit(&all_bytes, size, memory_order_relaxed) <=
      RECORDS_MAX_BYTES - RECORD_MAX_BYTES)
    return true;
  atomic_fetch_sub_explicit(&all_bytes, size, memory_order_relaxed);
  return false;
}

static void *allocate_counted(trace_record *r, size_t size)
{
  void *memory = NULL;
  assert(r->bytes <= RECORD_MAX_BYTES);
  if (!r->incomplete && size <= RECORD_MAX_BYTES - r->bytes && reserve_bytes(size)) {
    r->bytes += size;
    memory = arena_allocate(&r->memory, size);
  }
  r->incomplete = r->incomplete || memory == NULL;
  return memory;
}

static slice keep_bytes(trace_record *r, slice text)
{
  char *copy = text.size == 0 ? NULL : allocate_counted(r, text.size);
  return copy == NULL ? (slice){"", 0} : (slice){memcpy(copy, text.data, text.size), text.size};
}

static const char *keep_text(trace_record *r, const char *text)
{
  return keep_bytes(r, (slice){text, strlen(text) + 1}).data;
}

// ---- parts and events; the lock is held

static trace_part *begin_part(trace_record *r, uint64_t id)
{
  trace_part *part = allocate_counted(r, sizeof(*part));
  if (part == NULL)
    return NULL;
  *part = (trace_part){.id = id};
  part->end = &part->first;
  *r->end = part;
  r->end = &part->next;
  return part;
}

static trace_part *find_part(trace_record *r, uint64_t id)
{
  for (trace_part *part = r->first; part != NULL; part = part->next)
    if (part->id == id)
      return part;
  return begin_part(r, id);
}

// Appends an event, if there is memory.
static void append_event(trace_record *r, trace_part *part, int activity, const char *name,
                         uint64_t moment_ns, const trace_tensor *tensor)
{
  assert(lock_is_held(&r->lock));
  trace_event *event = part == NULL ? NULL : allocate_counted(r, sizeof(*event));
  if (event == NULL)
    return;
  *event = (trace_event){NULL, activity, name, moment_ns, tensor};
  *part->end = event;
  part->end = &event->next;
}

// ---- reports of the core

static void read_identity(trace_record *r, trace_part *part, TRITONSERVER_InferenceTrace *trace)
{
  const char *model_name = "", *request_id = "";
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceModelName(trace, &model_name));
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceModelVersion(trace, &part->model_version));
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceParentId(trace, &part->parent_id));
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceRequestId(trace, &request_id));
  part->model_name = keep_text(r, model_name);
  part->request_id = keep_text(r, request_id);
}

// Lets models, and servers that they call, add their own spans.
static void give_context(trace_record *r, trace_part *part, TRITONSERVER_InferenceTrace *trace)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  part->span = span_id_new();
  trace_context_print(r->context.trace, part->span, r->tracestate, &text);
  char *context = buffer_take_text(&text);
  if (context != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceSetContext(trace, context));
  free(context);
}

// The trace's part, whose identity is read at its first report.
static trace_part *part_of(trace_record *r, TRITONSERVER_InferenceTrace *trace)
{
  uint64_t id = 0;
  assert(lock_is_held(&r->lock));
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceId(trace, &id));
  trace_part *part = find_part(r, id);
  if (part == NULL || part->model_name != NULL)
    return part;
  read_identity(r, part, trace);
  if (r->spans)
    give_context(r, part, trace);
  return part;
}

// The last member's value in a context {"<moment>":"<name>"}, with quotes; empty if there is none.
static slice last_string(slice context)
{
  if (context.size < 4 || context.data[context.size - 1] != '}' ||
      context.data[context.size - 2] != '"')
    return (slice){"", 0};
  const char *end = context.data + context.size - 1, *start = end - 2;
  while (start > context.data && (*start != '"' || start[-1] == '\\'))
    start--;
  return (slice){start, (size_t)(end - start)};
}

static const char *read_custom_name(trace_record *r, TRITONSERVER_InferenceTrace *trace)
{
  const char *context = "";
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceContext(trace, &context));
  slice text = last_string(slice_of(context));
  json_t *string = json_loadb(text.data, text.size, JSON_DECODE_ANY, NULL);
  const char *name =
      json_is_string(string)
          ? keep_text(r, json_string_value(string))
          : TRITONSERVER_InferenceTraceActivityString(TRITONSERVER_TRACE_CUSTOM_ACTIVITY);
  json_decref(string);
  return name;
}

static void report_activity(TRITONSERVER_InferenceTrace *trace,
                            TRITONSERVER_InferenceTraceActivity activity, uint64_t moment_ns,
                            void *userp)
{
  trace_record *r = userp;
  LOCK_SCOPE(&r->lock);
  trace_part *part = part_of(r, trace);
  const char *name = activity == TRITONSERVER_TRACE_CUSTOM_ACTIVITY
                         ? read_custom_name(r, trace)
                         : TRITONSERVER_InferenceTraceActivityString(activity);
  append_event(r, part, (int)activity, name, moment_ns, NULL);
}

// ---- tensors

static trace_input *find_input(const trace_record *r, TRITONSERVER_DataType datatype,
                               const void *base, size_t size)
{
  for (trace_input *input = r->inputs; input != NULL; input = input->next)
    if (input->datatype == datatype && input->base == base && input->size == size)
      return input;
  return NULL;
}

bool trace_takes_gpu_inputs(const trace_record *r)
{
  return r != NULL && r->takes_tensors;
}

void trace_record_gpu_input(trace_record *r, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device)
{
  bool whole;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool is_read =
      gpu_tensor_text_append(&text, datatype, base, size, device, RECORD_MAX_BYTES, &whole);
  LOCK_SCOPE(&r->lock);
  r->incomplete = r->incomplete || (is_read && (!whole || text.failed));
  trace_input *input = allocate_counted(r, sizeof(*input));
  if (input == NULL)
    return;
  *input = (trace_input){.next = r->inputs, .datatype = datatype, .base = base, .size = size};
  if (is_read)
    input->text = keep_bytes(r, buffer_view(&text));
  r->inputs = input;
}

// Finds an input that was read before. False: the tensor must be read now. *text NULL: it could not
// be read, or the record is incomplete.
static bool find_text(trace_record *r, TRITONSERVER_InferenceTraceActivity activity,
                      TRITONSERVER_DataType datatype, const void *base, size_t size, slice *text)
{
  *text = (slice){NULL, 0};
  if (activity != TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT)
    return false;
  LOCK_SCOPE(&r->lock);
  const trace_input *input = find_input(r, datatype, base, size);
  if (input != NULL)
    *text = input->text;
  return input != NULL || r->incomplete;
}

// Reads a tensor; *text is in the record's memory or in `made`. False: it cannot be read. *whole:
// the text has all of it.
static bool read_tensor(trace_record *r, TRITONSERVER_InferenceTraceActivity activity,
                        TRITONSERVER_DataType datatype, const void *base, size_t size,
                        TRITONSERVER_MemoryType type, int64_t device, buffer *made, slice *text,
                        bool *whole)
{
  *whole = true;
  if (type == TRITONSERVER_MEMORY_GPU && find_text(r, activity, datatype, base, size, text))
    return text->data != NULL;
  bool is_read = true;
  if (type == TRITONSERVER_MEMORY_GPU)
    is_read = gpu_tensor_text_append(made, datatype, base, size, device, RECORD_MAX_BYTES, whole);
  else
    *whole = tensor_text_append(made, datatype, base, size, RECORD_MAX_BYTES);
  *text = buffer_view(made);
  return is_read;
}

static void report_tensor(TRITONSERVER_InferenceTrace *trace,
                          TRITONSERVER_InferenceTraceActivity activity, const char *name,
                          TRITONSERVER_DataType datatype, const void *base, size_t byte_size,
                          const int64_t *dims, uint64_t dim_count,
                          TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, void *userp)
{
  slice text;
  bool whole;
  trace_record *r = userp;
  AUTO_BUFFER buffer data = BUFFER_EMPTY;
  AUTO_BUFFER buffer shape = BUFFER_EMPTY;
  if (!read_tensor(r, activity, datatype, base, byte_size, memory_type, memory_type_id, &data,
                   &text, &whole))
    return;
  tensor_text_append(&shape, TRITONSERVER_TYPE_INT64, dims, dim_count * sizeof(*dims), SIZE_MAX);
  const bool is_kept = data.size == 0 && text.size > 0; // in the record's memory
  LOCK_SCOPE(&r->lock);
  trace_part *part = part_of(r, trace);
  trace_tensor *tensor = allocate_counted(r, sizeof(*tensor));
  if (tensor == NULL)
    return;
  *tensor =
      (trace_tensor){keep_bytes(r, slice_of(name)), is_kept ? text : keep_bytes(r, text),
                     keep_bytes(r, buffer_view(&shape)), TRITONSERVER_DataTypeString(datatype)};
  r->incomplete = r->incomplete || !whole || data.failed || shape.failed;
  append_event(r, part, (int)activity, TRITONSERVER_InferenceTraceActivityString(activity),
               clock_monotonic_ns(), tensor);
}

static void record_unref(trace_record *r)
{
  if (refcount_drop(&r->references))
    r->finished(r);
}

// The request's own trace is released after its children.
static void release_trace(TRITONSERVER_InferenceTrace *trace, void *userp)
{
  uint64_t id = 0;
  trace_record *r = userp;
  uint64_t root_id = r->root_id;
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceId(trace, &id));
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceDelete(trace));
  if (id == root_id)
    record_unref(r);
}

// ---- life

trace_record *record_new(trace_setting *setting)
{
  const int64_t level = setting->values[TRACE_KEY_LEVEL];
  trace_record *r = calloc(1, sizeof(*r));
  if (r == NULL)
    return NULL;
  refcount_init(&r->references); // the front end's
  refcount_take(&r->references); // the trace's
  pthread_mutex_init(&r->lock, NULL);
  arena_init(&r->memory, NULL, 0);
  r->setting = setting;
  r->end = &r->first;
  r->takes_moments = (level & TRITONSERVER_TRACE_LEVEL_TIMESTAMPS) != 0;
  r->takes_tensors = (level & TRITONSERVER_TRACE_LEVEL_TENSORS) != 0;
  r->began_ns = clock_monotonic_ns();
  r->realtime_offset_ns = (int64_t)(clock_realtime_ns() - r->began_ns);
  TRITONSERVER_Error *failure =
      TRITONSERVER_InferenceTraceTensorNew(&r->trace, (TRITONSERVER_InferenceTraceLevel)level, 0,
                                           report_activity, report_tensor, release_trace, r);
  if (failure == NULL)
    failure = TRITONSERVER_InferenceTraceId(r->trace, &r->root_id);
  if (failure == NULL && begin_part(r, r->root_id) != NULL)
    return r;
  TRITONSERVER_ErrorDelete(failure);
  if (r->trace != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceTraceDelete(r->trace));
  record_free(r);
  return NULL;
}

void record_free(trace_record *r)
{
  size_t all = atomic_fetch_sub_explicit(&all_bytes, r->bytes, memory_order_relaxed);
  assert(all >= r->bytes);
  (void)all;
  arena_fini(&r->memory);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

TRITONSERVER_InferenceTrace *trace_hand_over(trace_record *r)
{
  TRITONSERVER_InferenceTrace *trace = r->trace;
  r->trace = NULL;
  return trace;
}

void trace_record_moment(trace_record *r, const char *name, uint64_t moment_ns)
{
  if (r == NULL || !r->takes_moments)
    return;
  LOCK_SCOPE(&r->lock);
  append_event(r, r->first, MOMENT_OF_FRONT_END, name, moment_ns, NULL);
}

void trace_record_now(trace_record *r, const char *name)
{
  if (r != NULL)
    trace_record_moment(r, name, clock_monotonic_ns());
}

void trace_end(trace_record *r)
{
  if (r == NULL)
    return;
  r->ended_ns = clock_monotonic_ns();
  if (r->trace != NULL) // the core never got it
    release_trace(trace_hand_over(r), r);
  record_unref(r);
}

size_t record_span_count(const trace_record *r)
{
  size_t count = 1;
  for (const trace_part *part = r->first; part != NULL; part = part->next)
    count += 2; // the model's, and its compute span
  return count;
}
