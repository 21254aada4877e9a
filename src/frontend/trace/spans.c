// SPDX-License-Identifier: Apache-2.0
// Encodes a record's spans in protobuf. See spans.h. Messages and field numbers are OTLP 1.x's
// (https://opentelemetry.io/docs/specs/otlp/).
#include "frontend/trace/spans.h"

#include "base/proto_write.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_RESOURCE_SPANS     1
#define RESOURCE_SPANS_RESOURCE    1
#define RESOURCE_SPANS_SCOPE_SPANS 2
#define RESOURCE_ATTRIBUTES        1
#define SCOPE_SPANS_SCOPE          1
#define SCOPE_SPANS_SPANS          2
#define SCOPE_NAME                 1
#define SPAN_TRACE_ID              1
#define SPAN_ID                    2
#define SPAN_TRACE_STATE           3
#define SPAN_PARENT_ID             4
#define SPAN_NAME                  5
#define SPAN_KIND                  6 // an enum
#define SPAN_KIND_SERVER           2
#define SPAN_START                 7
#define SPAN_END                   8
#define SPAN_ATTRIBUTES            9
#define SPAN_EVENTS                11
#define EVENT_TIME                 1
#define EVENT_NAME                 2
#define EVENT_ATTRIBUTES           3
#define ATTRIBUTE_KEY              1
#define ATTRIBUTE_VALUE            2
#define VALUE_TEXT                 1
#define VALUE_INTEGER              3

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct span {
  struct span *outer; // the next outer open span
  slice name;
  span_id id, parent;
  uint64_t start_ns, end_ns; // on the monotonic clock
  buffer content;            // attributes and events, encoded
} span;

// The encoding of one record. The first span is the request's.
typedef struct builder {
  const trace_record *record;
  span *spans;
  size_t count;
} builder;

static uint64_t real_time(const trace_record *r, uint64_t moment_ns)
{
  return moment_ns + (uint64_t)r->realtime_offset_ns;
}

// ---- attributes

// Appends text as UTF-8, which protobuf requires: names may have any bytes.
static void append_clean(buffer *out, uint32_t number, slice text)
{
  proto_append_bytes(out, number, text);
  char *copy = out->failed ? NULL : out->data + out->size - text.size;
  for (size_t i = 0; copy != NULL && i < text.size;) {
    size_t length = text_utf8_length(copy + i, text.size - i);
    if (length == 0 || copy[i] == '\0')
      copy[i] = '?';
    i += length == 0 ? 1 : length;
  }
}

typedef struct attribute {
  slice key;
  slice text; // `data` NULL: use `integer`
  uint64_t integer;
} attribute;

static void append_attributes(buffer *out, uint32_t number, const attribute *all, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t begin = proto_begin(out, number);
    proto_append_bytes(out, ATTRIBUTE_KEY, all[i].key);
    size_t value = proto_begin(out, ATTRIBUTE_VALUE);
    if (all[i].text.data != NULL)
      append_clean(out, VALUE_TEXT, all[i].text);
    else
      proto_append_integer(out, VALUE_INTEGER, all[i].integer);
    proto_end(out, value);
    proto_end(out, begin);
  }
}

// ---- spans

static span *add_span(builder *b, span *outer, slice name, span_id id, span_id parent,
                      uint64_t start_ns)
{
  span *s = &b->spans[b->count++];
  *s = (span){.outer = outer, .name = name, .id = id, .parent = parent, .start_ns = start_ns};
  return s;
}

static void print_span_event(const trace_record *r, span *s, const trace_event *event)
{
  const trace_tensor *tensor = event->tensor;
  size_t begin = proto_begin(&s->content, SPAN_EVENTS);
  proto_append_fixed64(&s->content, EVENT_TIME, real_time(r, event->moment_ns));
  proto_append_text(&s->content, EVENT_NAME, event->name);
  if (tensor != NULL) {
    const attribute all[] = {
        {.key = SLICE("triton.tensor.name"), .text = tensor->name},
        {.key = SLICE("triton.tensor.dtype"), .text = slice_of(tensor->datatype)},
        {.key = SLICE("triton.tensor.shape"), .text = tensor->shape},
        {.key = SLICE("triton.tensor.data"), .text = tensor->data}};
    append_attributes(&s->content, EVENT_ATTRIBUTES, all, COUNT(all));
  }
  proto_end(&s->content, begin);
}

static span_id parent_of(const trace_record *r, const trace_part *part)
{
  for (const trace_part *other = r->first; other != NULL; other = other->next)
    if (part->parent_id != 0 && other->id == part->parent_id)
      return other->span;
  return r->root_span;
}

static span *add_model_span(builder *b, span *outer, const trace_part *part, uint64_t start_ns)
{
  slice model = slice_of(part->model_name), request = slice_of(part->request_id);
  const attribute all[] = {
      {.key = SLICE("triton.model_name"), .text = model},
      {.key = SLICE("triton.model_version"), .integer = (uint64_t)part->model_version},
      {.key = SLICE("triton.trace_id"), .integer = part->id},
      {.key = SLICE("triton.trace_parent_id"), .integer = part->parent_id},
      {.key = SLICE("triton.request_id"), .text = request},
  };
  span *s = add_span(b, outer, model, part->span, parent_of(b->record, part), start_ns);
  append_attributes(&s->content, SPAN_ATTRIBUTES, all, COUNT(all) - (request.size == 0));
  return s;
}

// ---- parts

// NAME of a backend's activity NAME<suffix>; else empty.
static slice activity_stem(const trace_event *event, const char *suffix)
{
  size_t size = strlen(event->name), tail = strlen(suffix);
  if (event->activity != TRITONSERVER_TRACE_CUSTOM_ACTIVITY || size <= tail ||
      !text_ends_with(event->name, suffix))
    return (slice){NULL, 0};
  return (slice){event->name, size - tail};
}

// The name of the span that an event begins; `data` NULL: none.
static slice begun_span(const trace_part *part, const trace_event *event)
{
  if (event->activity == TRITONSERVER_TRACE_REQUEST_START)
    return slice_of(part->model_name);
  if (event->activity == TRITONSERVER_TRACE_COMPUTE_START)
    return SLICE("compute");
  return activity_stem(event, "_START");
}

static bool ends_span(const trace_event *event)
{
  return event->activity == TRITONSERVER_TRACE_REQUEST_END ||
         event->activity == TRITONSERVER_TRACE_COMPUTE_END ||
         activity_stem(event, "_END").data != NULL;
}

static size_t count_spans(const trace_record *r)
{
  size_t count = 1;
  for (const trace_part *part = r->first; part != NULL; part = part->next)
    for (const trace_event *event = part->first; event != NULL; event = event->next)
      count += begun_span(part, event).data != NULL;
  return count;
}

static void add_part_spans(builder *b, const trace_part *part)
{
  span *root = b->spans, *top = NULL;
  for (const trace_event *event = part->first; event != NULL; event = event->next) {
    slice name = begun_span(part, event);
    if (event->activity == TRITONSERVER_TRACE_REQUEST_START)
      top = add_model_span(b, top, part, event->moment_ns);
    else if (name.data != NULL)
      top = add_span(b, top, name, span_id_new(), top == NULL ? part->span : top->id,
                     event->moment_ns);
    bool inner = top != NULL && event->activity != MOMENT_OF_FRONT_END;
    print_span_event(b->record, inner ? top : root, event);
    if (top != NULL && ends_span(event)) {
      top->end_ns = event->moment_ns;
      top = top->outer;
    }
  }
  for (; top != NULL; top = top->outer)
    top->end_ns = b->record->ended_ns;
}

// The first event may be older than the record, which begins when the request is chosen.
static uint64_t start_of(const trace_record *r)
{
  const trace_event *first = r->first == NULL ? NULL : r->first->first;
  return first != NULL && first->moment_ns < r->began_ns ? first->moment_ns : r->began_ns;
}

// ---- messages

static void print_span(const trace_record *r, const span *s, buffer *out)
{
  static const span_id none;
  size_t begin = proto_begin(out, SCOPE_SPANS_SPANS);
  proto_append_bytes(out, SPAN_TRACE_ID,
                     (slice){(const char *)r->context.trace, sizeof(r->context.trace)});
  proto_append_bytes(out, SPAN_ID, (slice){(const char *)s->id.bytes, sizeof(s->id)});
  if (r->tracestate.size > 0)
    proto_append_bytes(out, SPAN_TRACE_STATE, r->tracestate);
  if (memcmp(&s->parent, &none, sizeof(none)) != 0)
    proto_append_bytes(out, SPAN_PARENT_ID,
                       (slice){(const char *)s->parent.bytes, sizeof(s->parent)});
  append_clean(out, SPAN_NAME, s->name);
  proto_append_integer(out, SPAN_KIND, SPAN_KIND_SERVER);
  proto_append_fixed64(out, SPAN_START, real_time(r, s->start_ns));
  proto_append_fixed64(out, SPAN_END, real_time(r, s->end_ns));
  buffer_append_slice(out, buffer_view(&s->content));
  proto_end(out, begin);
  out->failed = out->failed || s->content.failed;
}

void spans_append(buffer *spans, const trace_record *r)
{
  builder b = {.record = r, .spans = calloc(count_spans(r), sizeof(*b.spans))};
  if (b.spans == NULL) {
    spans->failed = true;
    return;
  }
  span *root =
      add_span(&b, NULL, SLICE("InferRequest"), r->root_span, r->context.parent, start_of(r));
  root->end_ns = r->ended_ns;
  for (const trace_part *part = r->first; part != NULL; part = part->next)
    add_part_spans(&b, part);
  for (size_t i = 0; i < b.count; i++) {
    print_span(r, &b.spans[i], spans);
    buffer_fini(&b.spans[i].content);
  }
  free(b.spans);
}

static void append_resources(const string_list *resources, buffer *out)
{
  for (size_t i = 0; i < resources->count; i++) {
    const char *text = resources->items[i], *equals = strchr(text, '=');
    size_t size = equals == NULL ? 0 : (size_t)(equals - text);
    bool first = size > 0;
    for (size_t k = 0; k < i && first; k++)
      first = strncmp(resources->items[k], text, size + 1) != 0;
    if (first) {
      const attribute resource = {.key = {text, size}, .text = slice_of(equals + 1)};
      append_attributes(out, RESOURCE_ATTRIBUTES, &resource, 1);
    }
  }
}

void spans_encode(const buffer *spans, const string_list *resources, buffer *out)
{
  size_t resource_spans = proto_begin(out, REQUEST_RESOURCE_SPANS);
  size_t resource = proto_begin(out, RESOURCE_SPANS_RESOURCE);
  append_resources(resources, out);
  proto_end(out, resource);
  size_t scope_spans = proto_begin(out, RESOURCE_SPANS_SCOPE_SPANS);
  size_t scope = proto_begin(out, SCOPE_SPANS_SCOPE);
  proto_append_text(out, SCOPE_NAME, "triton-server");
  proto_end(out, scope);
  buffer_append_slice(out, buffer_view(spans));
  proto_end(out, scope_spans);
  proto_end(out, resource_spans);
  out->failed = out->failed || spans->failed;
}
