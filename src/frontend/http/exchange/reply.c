// SPDX-License-Identifier: Apache-2.0
// An exchange's replies: failures, JSON, and how each is sent. Loop thread; jobs make failures and
// replies, too.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/observe/load_metrics.h"
#include "frontend/http/exchange/exchange_server.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define JSON_TYPE         "application/json"
#define MAX_FAILURE_BYTES 2048 // of an error's text, which may quote the client

// Cuts a text before byte `size`, at the begin of a character, and appends "…".
static void cut_text(char *text, size_t size)
{
  while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
    size--;
  memcpy(text + size, "…", sizeof("…"));
}

static void append_failure_va(buffer *json, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
static void append_failure_va(buffer *json, const char *format, va_list arguments)
{
  char text[MAX_FAILURE_BYTES + sizeof("…")];
  if (vsnprintf(text, sizeof(text), format, arguments) >= (int)sizeof(text))
    cut_text(text, MAX_FAILURE_BYTES);
  buffer_append_text(json, "{\"error\":");
  buffer_append_json_string(json, slice_of(text));
  buffer_append_char(json, '}');
}

void exchange_append_failure(buffer *json, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  append_failure_va(json, format, arguments);
  va_end(arguments);
}

static void fail_va(exchange *x, unsigned status, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
static void fail_va(exchange *x, unsigned status, const char *format, va_list arguments)
{
  if (x->reply != NULL || x->failure != NULL)
    return;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  append_failure_va(&json, format, arguments);
  x->status = status;
  x->failure = json.failed ? NULL : arena_copy_text(&x->arena, buffer_view(&json));
  if (x->failure != NULL)
    return;
  x->status = MHD_HTTP_SERVICE_UNAVAILABLE; // no memory for the original text
  x->failure = "{\"error\":\"out of memory\"}";
}

bool exchange_fail(exchange *x, unsigned status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fail_va(x, status, format, arguments);
  va_end(arguments);
  return false;
}

void exchange_fail_header(exchange *x, const char *name, const char *value)
{
  x->failure_header = name;
  x->failure_value = value;
}

unsigned exchange_status_of(TRITONSERVER_Error_Code code)
{
  switch (code) {
  case TRITONSERVER_ERROR_INTERNAL:
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
  case TRITONSERVER_ERROR_NOT_FOUND:
    return MHD_HTTP_NOT_FOUND;
  case TRITONSERVER_ERROR_UNAVAILABLE:
    return MHD_HTTP_SERVICE_UNAVAILABLE;
  case TRITONSERVER_ERROR_UNSUPPORTED:
    return MHD_HTTP_NOT_IMPLEMENTED;
  default:
    return MHD_HTTP_BAD_REQUEST;
  }
}

bool exchange_fail_if(exchange *x, TRITONSERVER_Error *failure_owned)
{
  return exchange_fail_if_error(x, error_from_abi(failure_owned));
}

// Retry-After is in seconds, rounded up.
__attribute__((noinline)) static void tell_retry(exchange *x, uint64_t after_ns)
{
  char text[24];
  int size = snprintf(text, sizeof(text), "%" PRIu64, (after_ns - 1) / 1000000000 + 1);
  const char *copy = arena_copy_text(&x->arena, (slice){text, (size_t)size});
  if (copy != NULL)
    exchange_fail_header(x, MHD_HTTP_HEADER_RETRY_AFTER, copy);
}

bool exchange_fail_if_error(exchange *x, error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  if (error_retry_ns(failure_owned) > 0)
    tell_retry(x, error_retry_ns(failure_owned));
  exchange_fail(x, exchange_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned)), "%s",
                error_message(failure_owned));
  error_free(failure_owned);
  return true;
}

void exchange_reply_with(exchange *x, struct MHD_Response *response_owned)
{
  if (response_owned == NULL) {
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    return;
  }
  assert(x->reply == NULL);
  x->status = MHD_HTTP_OK;
  x->reply = response_owned;
}

void exchange_reply_empty(exchange *x, unsigned status)
{
  const http_server *http = http_server_of(x->http);
  x->status = status;
  x->reply = x->route->category == CATEGORY_HEALTH ? http->empty_reply : http->empty_json_reply;
}

void exchange_reply_ok(exchange *x)
{
  if (x->failure == NULL)
    exchange_reply_empty(x, MHD_HTTP_OK);
}

// --- Responses

struct MHD_Response *response_with(struct MHD_Response *response_owned, const char *name,
                                   const char *value)
{
  if (response_owned == NULL || MHD_add_response_header(response_owned, name, value) == MHD_YES)
    return response_owned;
  MHD_destroy_response(response_owned);
  return NULL;
}

struct MHD_Response *response_with_load(struct MHD_Response *response_owned, const exchange *x)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const char *format =
      MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, LOAD_METRICS_REQUEST_HEADER);
  if (format == NULL || !load_metrics_write(x->http->server, slice_of(format), &text))
    return response_owned;
  AUTO_FREE char *value = buffer_take_text(&text);
  return value == NULL ? response_owned
                       : response_with(response_owned, LOAD_METRICS_REPLY_HEADER, value);
}

void exchange_note_body(exchange *x, size_t size)
{
  x->reply_bytes = size;
  x->is_short = size > 0 && size <= SHORT_REPLY_BYTES;
}

static void unref(void *exchange_pointer)
{
  exchange_unref(exchange_pointer);
}

// A response from text that lives as long as the exchange, which it references.
static struct MHD_Response *response_of_own(exchange *x, slice text, const char *content_type)
{
  exchange_note_body(x, text.size);
  exchange_ref(x);
  struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
      text.size, (void *)text.data, unref, x);
  if (response == NULL)
    exchange_unref(x);
  return response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
}

struct MHD_Response *response_of_text(exchange *x, const char *content_type)
{
  return x->text.failed ? NULL : response_of_own(x, buffer_view(&x->text), content_type);
}

// --- Replies

bool exchange_text_fits(exchange *x)
{
  if (x->text.failed || x->reserved > 0 || exchange_count_text(x))
    return true;
  exchange_drop_text(x);
  exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", BUDGET_ANSWERS_FULL);
  return false;
}

void exchange_reply_json(exchange *x)
{
  if (x->failure == NULL && exchange_text_fits(x))
    exchange_reply_with(x, response_of_text(x, JSON_TYPE));
}

static bool is_shared(const exchange *x)
{
  const http_server *http = http_server_of(x->http);
  return x->reply == http->empty_reply || x->reply == http->empty_json_reply;
}

void exchange_drop_reply(exchange *x)
{
  if (x->reply != NULL && !is_shared(x))
    MHD_destroy_response(x->reply);
}

static struct MHD_Response *failure_response(exchange *x)
{
  assert(x->failure != NULL);
  struct MHD_Response *response = response_of_own(x, slice_of(x->failure), JSON_TYPE);
  return x->failure_header == NULL ? response
                                   : response_with(response, x->failure_header, x->failure_value);
}

// Without memory for the header the client keeps its connection.
static void ask_to_close(exchange *x)
{
  static char nothing[1];
  if (is_shared(x)) {
    bool is_json = x->reply == http_server_of(x->http)->empty_json_reply;
    struct MHD_Response *own = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (is_json)
      own = response_with(own, MHD_HTTP_HEADER_CONTENT_TYPE, JSON_TYPE);
    if (own == NULL)
      return;
    x->reply = own;
  }
  MHD_add_response_header(x->reply, MHD_HTTP_HEADER_CONNECTION, "close");
}

enum MHD_Result exchange_send_reply(exchange *x)
{
  if (x->reply == NULL)
    x->reply = failure_response(x);
  if (x->reply == NULL)
    return MHD_NO;
  exchange_enter(x, EXCHANGE_REPLIED);
  exchange_record_moment(x, TRACE_HTTP_SEND_START);
  connection_enter(x->connection, CONNECTION_REPLY);
  if (x->last || listener_sends_away(x->http))
    ask_to_close(x);
  if (x->is_short && !x->is_head)
    connection_join_reply(x->connection);
  enum MHD_Result queued = MHD_queue_response(x->mhd, x->status, x->reply);
  exchange_drop_reply(x); // libmicrohttpd has its own reference
  return queued;
}

// Replies while the request is still coming, and gives up the connection. `more`: further header
// lines; `announced`: the body's length, 0 if unknown.
static void refuse_connection(connection *c, unsigned status, const char *more, const char *json,
                              uint64_t announced)
{
  char text[8 * MAX_FAILURE_BYTES]; // escaping makes at most six bytes of one
  int size = snprintf(text, sizeof(text),
                      "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n%s\r\n%s",
                      status, MHD_get_reason_phrase_for(status), strlen(json), more, json);
  if (size > 0 && size < (int)sizeof(text))
    connection_refuse(c, text, (size_t)size, announced);
}

enum MHD_Result exchange_refuse(exchange *x)
{
  char more[128] = "";
  assert(x->failure != NULL);
  x->reply_bytes = strlen(x->failure);
  if (x->failure_header != NULL)
    snprintf(more, sizeof(more), "%s: %s\r\n", x->failure_header, x->failure_value);
  int64_t announced = x->headers.content_length.value;
  refuse_connection(x->connection, x->status, more, x->failure,
                    announced > 0 ? (uint64_t)announced : 0);
  return MHD_NO;
}

// The error's text for a page of libmicrohttpd's, if no fault is known.
static const char *page_text(unsigned status)
{
  switch (status) {
  case MHD_HTTP_BAD_REQUEST:
    return "the request is malformed: expected a line 'METHOD URL HTTP/1.1', fields "
           "'name: value' and at most one length, in decimal digits";
  case MHD_HTTP_CONTENT_TOO_LARGE:
    return "the request's Content-Length is beyond 64 bits";
  case MHD_HTTP_URI_TOO_LONG:
    return "the request's URL is too long";
  case MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE:
    return "the request's header fields are too many or too long";
  case MHD_HTTP_HTTP_VERSION_NOT_SUPPORTED:
    return "expected a request of HTTP/1.0 or HTTP/1.1";
  default:
    return "the server cannot read the request";
  }
}

// Refuses a request before its exchange exists: its first line or a field is malformed or too long.
static void refuse_head(connection *c, unsigned status, const char *why)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  exchange_append_failure(&json, "%s", why);
  buffer_append_char(&json, '\0');
  frontend_log_verbose("HTTP request refused: %s", why);
  access_entry_refused(c, status);
  refuse_connection(c, status, "", json.failed ? "" : json.data, 0);
}

bool exchange_refuse_connection(connection *c, unsigned status)
{
  exchange *x = connection_request(c);
  const scan_fault *fault = connection_fault(c);
  if (x != NULL && x->phase == EXCHANGE_REPLIED)
    return false;
  if (fault != NULL)
    status = fault->status;
  if (status < MHD_HTTP_BAD_REQUEST)
    status = MHD_HTTP_BAD_REQUEST; // a redirecting page
  const char *why = fault != NULL ? fault->text : page_text(status);
  if (x == NULL) {
    refuse_head(c, status, why);
    return true;
  }
  exchange_fail(x, status, "%s", why);
  exchange_refuse(x);
  return true;
}
