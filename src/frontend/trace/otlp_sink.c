// SPDX-License-Identifier: Apache-2.0
// OTLP over HTTP with protobuf bodies. Traces that the collector refuses are lost and counted; the
// log has one line until a request succeeds again. The exporter's thread.
//
// libcurl sends. It is loaded with the first sink and stays. Linking it would load 19 more
// libraries into each server, traced or not, and cost half as much memory again while idle
// (docs/tracing.md).
#include "base/container_of.h"
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/trace/exporter.h"
#include "frontend/trace/spans.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Collectors refuse requests of more than 20 MiB. A trace's share is estimated: its texts and
// events, and SPAN_BYTES for each span, mostly names and the client's tracestate.
#define REQUEST_MAX_BYTES (16u << 20)
#define SPAN_BYTES        1024

#define TIMEOUT_MS   10000L
#define CONTENT_TYPE "Content-Type: application/x-protobuf"

typedef struct otlp_sink {
  exporter exporter;
  const char *url; // the configuration's
  CURL *handle;
  struct curl_slist *headers;
  string_list resources; // the first of equal keys counts
  bool failed;           // the last request failed, and the log has a line
} otlp_sink;

// ---- libcurl

#define LIBRARY "libcurl.so.4"

// The functions used, without "curl_".
#define FUNCTIONS(X)                                                                               \
  X(global_init)                                                                                   \
  X(easy_init)                                                                                     \
  X(easy_setopt)                                                                                   \
  X(easy_perform)                                                                                  \
  X(easy_getinfo)                                                                                  \
  X(easy_strerror)                                                                                 \
  X(easy_cleanup)                                                                                  \
  X(slist_append)                                                                                  \
  X(slist_free_all)

static struct {
#define MEMBER(name) __typeof__(&curl_##name) name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  char failure[256]; // why the library cannot be used; "": it can
} curl;

static void open_curl(void)
{
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const char *reason = library == NULL ? dlerror() : NULL;
#define LOAD(name)                                                                                 \
  if (reason == NULL) {                                                                            \
    *(void **)&curl.name = dlsym(library, "curl_" #name);                                          \
    reason = curl.name == NULL ? "it has no curl_" #name : NULL;                                   \
  }
  FUNCTIONS(LOAD)
#undef LOAD
  if (reason == NULL && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    reason = "it cannot be initialized";
  if (reason != NULL)
    snprintf(curl.failure, sizeof(curl.failure), "%s", reason);
}

// ---- sending

// Sends the body and waits for the answer, TIMEOUT_MS at most.
static error *post(const otlp_sink *o, slice body)
{
  long status = 0;
  curl.easy_setopt(o->handle, CURLOPT_POSTFIELDS, body.data);
  curl.easy_setopt(o->handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
  CURLcode code = curl.easy_perform(o->handle);
  if (code != CURLE_OK)
    return error_new(ERROR_UNAVAILABLE, "%s", curl.easy_strerror(code));
  curl.easy_getinfo(o->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status < 200 || status > 299)
    return error_new(ERROR_UNAVAILABLE, "its answer has status %ld", status);
  return NULL;
}

static bool send_spans(otlp_sink *o, const buffer *spans)
{
  AUTO_BUFFER buffer body = BUFFER_EMPTY;
  spans_encode(spans, &o->resources, &body);
  AUTO_ERROR error *e = body.failed ? error_no_memory() : post(o, buffer_view(&body));
  if (e != NULL && !o->failed)
    frontend_log_error("cannot send traces to '%s': %s; they are dropped until it takes some",
                       o->url, error_message(e));
  o->failed = e != NULL;
  return e == NULL;
}

// Sends one batch of records, at least one, within the request's limit, and moves *first behind
// them. False: they are lost.
static bool send_batch(otlp_sink *o, const trace_record **first, size_t *count)
{
  AUTO_BUFFER buffer spans = BUFFER_EMPTY;
  const size_t batch = o->exporter.writer.enough;
  size_t planned = 0, bytes = 0;
  *count = 0;
  for (const trace_record *r = *first; r != NULL; r = r->next) {
    planned += record_span_count(r);
    bytes += r->bytes;
    if (*count > 0 && (planned > batch || bytes + planned * SPAN_BYTES > REQUEST_MAX_BYTES))
      break;
    spans_append(&spans, r);
    *first = r->next;
    (*count)++;
  }
  return send_spans(o, &spans);
}

// After a failure the rest of this call's records are dropped, because each would wait for a
// timeout.
static size_t send_records(exporter *e, const trace_record *first)
{
  otlp_sink *o = container_of(e, otlp_sink, exporter);
  size_t lost = 0, count;
  bool sent = true;
  while (first != NULL && sent) {
    sent = send_batch(o, &first, &count);
    lost = sent ? 0 : count;
  }
  for (; first != NULL; first = first->next)
    lost++;
  return lost;
}

// ---- making one

// Adds the comma-separated pairs of an environment variable; `separator` replaces the first "=" of
// each.
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

// Flags come before the environment. The last of equal flags counts, as in Triton, so they are
// added backwards.
static bool add_resources(string_list *list, const trace_config *c)
{
  bool whole = true;
  for (size_t i = c->resources.count; whole && i > 0; i--)
    whole = string_list_add(list, c->resources.items[i - 1]);
  return whole && string_list_add(list, "service.name=triton-inference-server") &&
         add_pairs(list, "OTEL_RESOURCE_ATTRIBUTES", "=");
}

static bool add_headers(otlp_sink *o)
{
  string_list lines = {0};
  bool whole = string_list_add(&lines, CONTENT_TYPE) &&
               add_pairs(&lines, "OTEL_EXPORTER_OTLP_HEADERS", ": ") &&
               add_pairs(&lines, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", ": ");
  for (size_t i = 0; i < lines.count && whole; i++) {
    struct curl_slist *longer = curl.slist_append(o->headers, lines.items[i]);
    whole = longer != NULL;
    o->headers = whole ? longer : o->headers;
  }
  string_list_fini(&lines);
  return whole;
}

// Sets PEM files, which are read for each connection. Named authorities replace the system's, for
// which libcurl has two options.
static bool set_tls(const otlp_sink *o)
{
  static const struct {
    CURLoption option;
    const char *of_traces, *of_all; // variables of the environment
  } files[] = {
      {CURLOPT_CAINFO, "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
      {CURLOPT_SSLCERT, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
       "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"},
      {CURLOPT_SSLKEY, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"}};
  bool taken = true;
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && taken; i++) {
    const char *own = getenv(files[i].of_traces);
    const char *path = own != NULL ? own : getenv(files[i].of_all);
    if (path == NULL || *path == '\0')
      continue;
    taken = curl.easy_setopt(o->handle, files[i].option, path) == CURLE_OK &&
            (files[i].option != CURLOPT_CAINFO ||
             curl.easy_setopt(o->handle, CURLOPT_CAPATH, NULL) == CURLE_OK);
  }
  return taken;
}

static size_t ignore_answer(char *data, size_t size, size_t count, void *context)
{
  (void)data;
  (void)context;
  return size * count;
}

static bool set_curl_options(otlp_sink *o)
{
  o->handle = curl.easy_init();
  return o->handle != NULL && curl.easy_setopt(o->handle, CURLOPT_URL, o->url) == CURLE_OK &&
         curl.easy_setopt(o->handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl.easy_setopt(o->handle, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl.easy_setopt(o->handle, CURLOPT_TIMEOUT_MS, TIMEOUT_MS) == CURLE_OK &&
         curl.easy_setopt(o->handle, CURLOPT_HTTPHEADER, o->headers) == CURLE_OK &&
         curl.easy_setopt(o->handle, CURLOPT_WRITEFUNCTION, ignore_answer) == CURLE_OK &&
         set_tls(o);
}

static void free_otlp_sink(exporter *e)
{
  otlp_sink *o = container_of(e, otlp_sink, exporter);
  if (o->handle != NULL)
    curl.easy_cleanup(o->handle);
  if (o->headers != NULL)
    curl.slist_free_all(o->headers);
  string_list_fini(&o->resources);
  free(o);
}

error *otlp_exporter_new(const trace_config *c, exporter **result)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_curl);
  if (curl.failure[0] != '\0')
    return error_new(ERROR_UNAVAILABLE, "%s is needed to send traces: %s", LIBRARY, curl.failure);
  otlp_sink *o = calloc(1, sizeof(*o));
  if (o == NULL)
    return error_no_memory();
  *o = (otlp_sink){
      .exporter = {.writer = {.most = (size_t)c->queue_size,
                              .enough = (size_t)c->batch_size,
                              .wait_ns = (uint64_t)c->delay_ms * UINT64_C(1000000)},
                   .weigh = record_span_count,
                   .write = send_records,
                   .free = free_otlp_sink},
      .url = c->url,
  };
  *result = &o->exporter;
  if (!add_resources(&o->resources, c) || !add_headers(o)) {
    free_otlp_sink(*result);
    return error_no_memory();
  }
  if (set_curl_options(o))
    return NULL;
  free_otlp_sink(*result);
  return error_new(ERROR_UNAVAILABLE, "cannot send traces to '%s' with %s", c->url, LIBRARY);
}
