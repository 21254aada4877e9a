// Spans of records: see spans.h.
#include "frontend/trace/spans.h"

#include "base/text.h"
#include "frontend/trace/otlp.pb-c.h"

#include <string.h>

#define KIND_SERVER 2

// A span that is not over yet.
typedef struct open_span {
  struct open_span *outer;
  Otlp__Span *span;
} open_span;

// The work on one record. After the first failed allocation nothing more is added.
typedef struct builder {
  const trace_record *record;
  arena *memory;
  span_list *list;
  bool failed;
} builder;

static void *take(builder *b, size_t size)
{
  void *memory = arena_allocate(b->memory, size);
  b->failed = b->failed || memory == NULL;
  return memory;
}

// One more element behind `*count`; NULL when memory is short.
static void **grow(builder *b, void *items, size_t *count)
{
  void ***list = items;
  void *grown = arena_grow_array(b->memory, *list, *count, sizeof(void *));
  b->failed = b->failed || grown == NULL;
  if (grown == NULL)
    return NULL;
  *list = grown;
  return &(*list)[(*count)++];
}

static uint64_t real_time(const builder *b, uint64_t moment_ns)
{
  return moment_ns + (uint64_t)b->record->realtime_offset_ns;
}

static ProtobufCBinaryData bytes_of(const uint8_t *bytes, size_t size)
{
  return (ProtobufCBinaryData){size, (uint8_t *)bytes};
}

// ---- attributes

static Otlp__KeyValue *make_attribute(builder *b, const char *key)
{
  Otlp__KeyValue *pair = take(b, sizeof(*pair));
  Otlp__AnyValue *value = take(b, sizeof(*value));
  if (pair == NULL || value == NULL)
    return NULL;
  *pair = (Otlp__KeyValue)OTLP__KEY_VALUE__INIT;
  *value = (Otlp__AnyValue)OTLP__ANY_VALUE__INIT;
  pair->key = (char *)key;
  pair->value = value;
  return pair;
}

static void add_text(builder *b, Otlp__KeyValue ***list, size_t *count, const char *key,
                     const char *text)
{
  Otlp__KeyValue *pair = make_attribute(b, key);
  void **slot = pair == NULL ? NULL : grow(b, list, count);
  if (slot == NULL)
    return;
  pair->value->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
  pair->value->string_value = (char *)text;
  *slot = pair;
}

// A copy in protobuf's UTF-8: names of models and requests may be any bytes. NULL: no memory.
static char *clean_copy(builder *b, slice text)
{
  char *copy = arena_copy_text(b->memory, text);
  b->failed = b->failed || copy == NULL;
  for (size_t i = 0; copy != NULL && i < text.size;) {
    size_t length = text_utf8_length(copy + i, text.size - i);
    if (length == 0 || copy[i] == '\0')
      copy[i] = '?';
    i += length == 0 ? 1 : length;
  }
  return copy;
}

static void add_slice(builder *b, Otlp__KeyValue ***list, size_t *count, const char *key,
                      slice text)
{
  const char *copy = clean_copy(b, text);
  if (copy != NULL)
    add_text(b, list, count, key, copy);
}

static void add_integer(builder *b, Otlp__Span *span, const char *key, int64_t number)
{
  Otlp__KeyValue *pair = make_attribute(b, key);
  void **slot = pair == NULL ? NULL : grow(b, &span->attributes, &span->n_attributes);
  if (slot == NULL)
    return;
  pair->value->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
  pair->value->int_value = number;
  *slot = pair;
}

// ---- spans

// Opens a span inside *top and makes it the innermost one.
static Otlp__Span *open_inner(builder *b, open_span **top, const char *name, span_id id,
                              span_id parent, uint64_t moment_ns)
{
  Otlp__Span *span = take(b, sizeof(*span));
  open_span *frame = take(b, sizeof(*frame));
  uint8_t *ids = take(b, 2 * sizeof(id));
  void **slot = b->failed ? NULL : grow(b, &b->list->items, &b->list->count);
  if (slot == NULL)
    return NULL;
  *slot = span;
  *span = (Otlp__Span)OTLP__SPAN__INIT;
  memcpy(ids, id.bytes, sizeof(id));
  memcpy(ids + sizeof(id), parent.bytes, sizeof(parent));
  static const span_id none;
  bool has_parent = memcmp(&parent, &none, sizeof(none)) != 0;
  span->trace_id = bytes_of(b->record->context.trace, sizeof(b->record->context.trace));
  span->span_id = bytes_of(ids, sizeof(id));
  span->parent_span_id = bytes_of(ids + sizeof(id), has_parent ? sizeof(parent) : 0);
  if (b->record->tracestate.size > 0)
    span->trace_state = (char *)b->record->tracestate.data;
  span->name = (char *)name;
  span->kind = KIND_SERVER;
  span->start_time_unix_nano = real_time(b, moment_ns);
  *frame = (open_span){*top, span};
  *top = frame;
  return span;
}

static void close_top(const builder *b, open_span **top, uint64_t moment_ns)
{
  if (*top == NULL)
    return;
  (*top)->span->end_time_unix_nano = real_time(b, moment_ns);
  *top = (*top)->outer;
}

static void add_event(builder *b, Otlp__Span *span, const trace_event *event)
{
  Otlp__Event *made = take(b, sizeof(*made));
  void **slot = made == NULL ? NULL : grow(b, &span->events, &span->n_events);
  if (slot == NULL)
    return;
  *slot = made;
  *made = (Otlp__Event)OTLP__EVENT__INIT;
  made->time_unix_nano = real_time(b, event->moment_ns);
  made->name = (char *)event->name;
  const trace_tensor *tensor = event->tensor;
  if (tensor == NULL)
    return;
  add_slice(b, &made->attributes, &made->n_attributes, "triton.tensor.name", tensor->name);
  add_text(b, &made->attributes, &made->n_attributes, "triton.tensor.dtype", tensor->datatype);
  add_slice(b, &made->attributes, &made->n_attributes, "triton.tensor.shape", tensor->shape);
  add_slice(b, &made->attributes, &made->n_attributes, "triton.tensor.data", tensor->data);
}

// ---- parts

static span_id parent_of(const trace_record *r, const trace_part *part)
{
  for (const trace_part *other = r->first; other != NULL; other = other->next)
    if (part->parent_id != 0 && other->id == part->parent_id)
      return other->span;
  return r->root_span;
}

static void open_model(builder *b, open_span **top, const trace_part *part, uint64_t moment_ns)
{
  const char *name = clean_copy(b, slice_of(part->model_name));
  Otlp__Span *span = open_inner(b, top, name, part->span, parent_of(b->record, part), moment_ns);
  if (span == NULL)
    return;
  add_text(b, &span->attributes, &span->n_attributes, "triton.model_name", name);
  add_integer(b, span, "triton.model_version", part->model_version);
  add_integer(b, span, "triton.trace_id", (int64_t)part->id);
  add_integer(b, span, "triton.trace_parent_id", (int64_t)part->parent_id);
  if (part->request_id[0] != '\0')
    add_slice(b, &span->attributes, &span->n_attributes, "triton.request_id",
              slice_of(part->request_id));
}

// The name of the span that a backend's own activity begins: NAME_START. NULL: it begins none.
static const char *custom_span(builder *b, const char *activity)
{
  if (!text_ends_with(activity, "_START") || strlen(activity) == strlen("_START"))
    return NULL;
  char *name = arena_copy_text(b->memory, (slice){activity, strlen(activity) - strlen("_START")});
  b->failed = b->failed || name == NULL;
  return name;
}

static void begin_span(builder *b, open_span **top, const trace_part *part,
                       const trace_event *event)
{
  const char *name = NULL;
  if (event->activity == TRITONSERVER_TRACE_REQUEST_START)
    open_model(b, top, part, event->moment_ns);
  else if (event->activity == TRITONSERVER_TRACE_COMPUTE_START)
    name = "compute";
  else if (event->activity == TRITONSERVER_TRACE_CUSTOM_ACTIVITY)
    name = custom_span(b, event->name);
  if (name == NULL)
    return;
  span_id outer = part->span;
  if (*top != NULL)
    memcpy(outer.bytes, (*top)->span->span_id.data, sizeof(outer.bytes));
  open_inner(b, top, name, span_id_new(), outer, event->moment_ns);
}

static bool ends_span(const trace_event *event)
{
  return event->activity == TRITONSERVER_TRACE_REQUEST_END ||
         event->activity == TRITONSERVER_TRACE_COMPUTE_END ||
         (event->activity == TRITONSERVER_TRACE_CUSTOM_ACTIVITY &&
          text_ends_with(event->name, "_END") && strlen(event->name) > strlen("_END"));
}

static void add_part(builder *b, const trace_part *part, Otlp__Span *root)
{
  open_span *top = NULL;
  for (const trace_event *event = part->first; event != NULL && !b->failed; event = event->next) {
    if (event->activity == MOMENT_OF_FRONT_END) {
      add_event(b, root, event);
      continue;
    }
    begin_span(b, &top, part, event);
    add_event(b, top == NULL ? root : top->span, event);
    if (ends_span(event))
      close_top(b, &top, event->moment_ns);
  }
  while (top != NULL)
    close_top(b, &top, b->record->ended_ns);
}

// The request began before it was known that it is traced.
static uint64_t start_of(const trace_record *r)
{
  const trace_event *first = r->first == NULL ? NULL : r->first->first;
  return first != NULL && first->moment_ns < r->began_ns ? first->moment_ns : r->began_ns;
}

bool spans_add(span_list *list, const trace_record *r, arena *memory)
{
  builder b = {.record = r, .memory = memory, .list = list};
  const size_t count = list->count;
  open_span *top = NULL;
  Otlp__Span *root =
      open_inner(&b, &top, "InferRequest", r->root_span, r->context.parent, start_of(r));
  for (const trace_part *part = r->first; part != NULL && !b.failed; part = part->next)
    add_part(&b, part, root);
  close_top(&b, &top, r->ended_ns);
  if (b.failed)
    list->count = count;
  return !b.failed;
}

// ---- encoding

static void add_resource(builder *b, Otlp__Resource *resource, const char *text)
{
  const char *equals = strchr(text, '=');
  size_t size = equals == NULL ? 0 : (size_t)(equals - text);
  for (size_t i = 0; i < resource->n_attributes; i++)
    if (strlen(resource->attributes[i]->key) == size &&
        memcmp(resource->attributes[i]->key, text, size) == 0)
      return;
  char *key = size == 0 ? NULL : arena_copy_text(b->memory, (slice){text, size});
  if (key != NULL)
    add_slice(b, &resource->attributes, &resource->n_attributes, key, slice_of(equals + 1));
}

void spans_encode(const span_list *list, const string_list *resources, arena *memory, buffer *out)
{
  builder b = {.memory = memory};
  Otlp__Resource resource = OTLP__RESOURCE__INIT;
  for (size_t i = 0; i < resources->count; i++)
    add_resource(&b, &resource, resources->items[i]);
  Otlp__InstrumentationScope scope = OTLP__INSTRUMENTATION_SCOPE__INIT;
  scope.name = (char *)"triton-server";
  Otlp__ScopeSpans scope_spans = OTLP__SCOPE_SPANS__INIT;
  scope_spans.scope = &scope;
  scope_spans.n_spans = list->count;
  scope_spans.spans = list->items;
  Otlp__ScopeSpans *scopes[] = {&scope_spans};
  Otlp__ResourceSpans resource_spans = OTLP__RESOURCE_SPANS__INIT;
  resource_spans.resource = &resource;
  resource_spans.n_scope_spans = 1;
  resource_spans.scope_spans = scopes;
  Otlp__ResourceSpans *all[] = {&resource_spans};
  Otlp__ExportTraceServiceRequest request = OTLP__EXPORT_TRACE_SERVICE_REQUEST__INIT;
  request.n_resource_spans = 1;
  request.resource_spans = all;
  char *slot = buffer_reserve(out, otlp__export_trace_service_request__get_packed_size(&request));
  if (slot != NULL)
    out->size += otlp__export_trace_service_request__pack(&request, (uint8_t *)slot);
  out->failed = out->failed || b.failed;
}
