// OTLP over HTTP with protobuf bodies. What the collector does not take is lost: it is counted, and
// one line is logged until it takes something again. The exporter's thread.
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/trace/exporter.h"
#include "frontend/trace/http_post.h"
#include "frontend/trace/spans.h"

#include <stdlib.h>
#include <string.h>

// Collectors refuse requests of more than 20 MiB. What a trace takes in one is estimated: its texts
// and events, and for each span what else it has, mostly names and the client's tracestate.
#define REQUEST_MAX_BYTES (16u << 20)
#define SPAN_BYTES        1024

#define CONTENT_TYPE "Content-Type: application/x-protobuf"

typedef struct otlp_sink {
  trace_sink sink;
  http_post *post;
  char *url;             // owned
  string_list resources; // the first of equal keys counts
  size_t batch_size;     // spans
  bool failed;           // the last request did, and it was said
} otlp_sink;

static otlp_sink *of(trace_sink *sink)
{
  return (otlp_sink *)sink;
}

static bool send_spans(otlp_sink *o, const span_list *spans, arena *memory)
{
  AUTO_BUFFER buffer body = BUFFER_EMPTY;
  spans_encode(spans, &o->resources, memory, &body);
  AUTO_ERROR error *e =
      body.failed ? error_no_memory() : http_post_send(o->post, buffer_view(&body));
  if (e != NULL && !o->failed)
    frontend_log_error("cannot send traces to '%s': %s; they are dropped until it takes some",
                       o->url, error_message(e));
  o->failed = e != NULL;
  return e == NULL;
}

// Takes as many records as make a batch, or as much as a request may hold, at least one, and moves
// *first behind them. False: they are lost.
static bool send_batch(otlp_sink *o, const trace_record **first, size_t *count)
{
  arena memory;
  span_list spans = {0};
  size_t planned = 0, bytes = 0;
  bool whole = true;
  *count = 0;
  arena_init(&memory, NULL, 0);
  for (const trace_record *r = *first; r != NULL; r = r->next) {
    planned += record_span_count(r);
    bytes += r->bytes;
    if (*count > 0 && (planned > o->batch_size || bytes + planned * SPAN_BYTES > REQUEST_MAX_BYTES))
      break;
    whole = spans_add(&spans, r, &memory) && whole;
    *first = r->next;
    (*count)++;
  }
  bool sent = send_spans(o, &spans, &memory) && whole;
  arena_fini(&memory);
  return sent;
}

// After a failure the others of the same call are given up: they would wait for nothing.
static size_t write_all(trace_sink *sink, const trace_record *first)
{
  size_t lost = 0, count;
  bool sent = true;
  while (first != NULL && sent) {
    sent = send_batch(of(sink), &first, &count);
    lost = sent ? 0 : count;
  }
  for (; first != NULL; first = first->next)
    lost++;
  return lost;
}

static size_t retire(trace_sink *sink, trace_setting *setting)
{
  (void)sink;
  (void)setting;
  return 0;
}

static void free_sink(trace_sink *sink)
{
  otlp_sink *o = of(sink);
  http_post_free(o->post);
  string_list_fini(&o->resources);
  free(o->url);
  free(o);
}

// ---- making one

// Adds what stands between commas in a variable of the environment; `separator` takes the place of
// the first "=" of each, 0 leaves it.
static bool add_pairs(string_list *list, const char *variable, const char *separator)
{
  const char *text = getenv(variable);
  bool whole = true;
  while (whole && text != NULL && *text != '\0') {
    size_t size = strcspn(text, ",");
    const char *equals = memchr(text, '=', size);
    AUTO_BUFFER buffer pair = BUFFER_EMPTY;
    if (equals != NULL) {
      buffer_append(&pair, text, (size_t)(equals - text));
      buffer_append_text(&pair, separator);
      buffer_append(&pair, equals + 1, size - (size_t)(equals + 1 - text));
      char *copy = buffer_take_text(&pair);
      whole = copy != NULL && string_list_add(list, copy);
      free(copy);
    }
    text += size + (text[size] == ',');
  }
  return whole;
}

// Flags are before the environment, and the last of equal flags counts, as in Triton.
static bool add_resources(string_list *list, const trace_config *c)
{
  bool whole = true;
  for (size_t i = c->resources.count; whole && i > 0; i--)
    whole = string_list_add(list, c->resources.items[i - 1]);
  return whole && string_list_add(list, "service.name=triton-inference-server") &&
         add_pairs(list, "OTEL_RESOURCE_ATTRIBUTES", "=");
}

// A path from the environment; NULL: there is none.
static const char *file_of(const char *variable_of_traces, const char *variable)
{
  const char *path = getenv(variable_of_traces);
  if (path == NULL)
    path = getenv(variable);
  return path == NULL || *path == '\0' ? NULL : path;
}

static error *make_post(const char *url, http_post **post)
{
  const http_post_tls tls = {
      .authorities =
          file_of("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"),
      .certificate = file_of("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
                             "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
      .key = file_of("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
  };
  string_list lines = {0};
  error *e = error_no_memory();
  if (string_list_add(&lines, CONTENT_TYPE) &&
      add_pairs(&lines, "OTEL_EXPORTER_OTLP_HEADERS", ": ") &&
      add_pairs(&lines, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", ": ")) {
    const char **headers = calloc(lines.count + 1, sizeof(*headers));
    for (size_t i = 0; headers != NULL && i < lines.count; i++)
      headers[i] = lines.items[i];
    if (headers != NULL)
      e = http_post_new(url, headers, &tls, post);
    free(headers);
  }
  string_list_fini(&lines);
  return e;
}

error *otlp_sink_new(const trace_config *c, trace_sink **sink)
{
  otlp_sink *o = calloc(1, sizeof(*o));
  if (o == NULL)
    return error_no_memory();
  o->sink = (trace_sink){record_span_count, write_all, retire, free_sink};
  o->url = strdup(c->url);
  o->batch_size = c->batch_size;
  error *e = o->url != NULL && add_resources(&o->resources, c) ? make_post(c->url, &o->post)
                                                               : error_no_memory();
  if (e != NULL)
    free_sink(&o->sink);
  else
    *sink = &o->sink;
  return e;
}
