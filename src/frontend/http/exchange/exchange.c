// The life of one request on its loop thread: admitted by its headers, received, handled, answered.
// libmicrohttpd calls exchange_handle once when the headers are there, once for each piece of the
// body, once at the end, and again after a suspension.
#include "frontend/http/exchange/exchange.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/exchange/access_note.h"
#include "frontend/http/exchange/response.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/infer.h"
#include "frontend/http/transport/error_page.h"
#include "frontend/http/transport/head.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_MAX_BYTES     255   // of a model, a repository or a region
#define FAILURE_MAX_BYTES  2048  // of an error's text: it may repeat what the client sent
#define STATUS_NOT_SENT    499   // in the access log: the client left before the reply was made
#define DROPPED_BODY_BYTES 65536 // a refused request's body up to this size is read and dropped

// --- Memory

static exchange *exchange_new(loop *l, struct MHD_Connection *mhd)
{
  http_server *http = loop_server(l);
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  exchange *x = info->socket_context == NULL ? NULL : malloc(sizeof(*x) + EXCHANGE_ARENA_BYTES);
  if (x == NULL)
    return NULL;
  memset(x, 0, sizeof(*x));
  x->http = http;
  x->loop = l;
  x->mhd = mhd;
  x->connection = info->socket_context;
  refcount_init(&x->references);
  arena_init(&x->arena, x->arena_memory, EXCHANGE_ARENA_BYTES);
  if (trace_service_is_on(http->options.trace))
    x->received_ns = clock_monotonic_ns();
  body_init(&x->body, &http->budget, &x->arena, http->options.max_input_size);
  for (size_t i = 0; i < PARAMETER_COUNT; i++)
    x->parameters[i] = "";
  http_server_ref(http);
  http_server_request_began(http);
  connection_set_request(x->connection, x);
  return x;
}

void exchange_ref(exchange *x)
{
  refcount_take(&x->references);
}

void exchange_unref(exchange *x)
{
  if (!refcount_drop(&x->references))
    return;
  http_server *http = x->http;
  if (x->inference != NULL)
    inference_fini(x->inference);
  body_fini(&x->body);
  arena_fini(&x->arena);
  free(x);
  http_server_unref(http);
}

static bool is_shared(const exchange *x)
{
  return x->reply == x->http->empty_reply || x->reply == x->http->empty_json_reply;
}

// Until its headers are there a request has no exchange: its context is NULL, or what is wrong with
// its target.
static char target_faults[TARGET_MALFORMED + 1];

static void *began(const char *target)
{
  target_fault fault = target == NULL ? TARGET_GOOD : head_check_target(target);
  return fault == TARGET_GOOD ? NULL : &target_faults[fault];
}

static target_fault take_target_fault(void **context)
{
  for (target_fault fault = TARGET_TOO_LONG; fault <= TARGET_MALFORMED; fault++) {
    if (*context != &target_faults[fault])
      continue;
    *context = NULL;
    return fault;
  }
  return TARGET_GOOD;
}

static void note_moment(const exchange *x, const char *name)
{
  if (x->inference != NULL)
    trace_note_now(x->inference->trace, name);
}

// The client left after the exchange was resumed and before it was handled again: its last step
// releases what the core or a job gave, and the reply goes nowhere.
static void finish_unsent(exchange *x)
{
  x->phase = EXCHANGE_ANSWERED;
  loop_took_back(x->loop);
  x->next(x);
  if (x->reply != NULL && !is_shared(x))
    MHD_destroy_response(x->reply);
  http_server_handling_ended(x->http);
}

static void completed(void *loop_pointer, struct MHD_Connection *mhd, void **context,
                      enum MHD_RequestTerminationCode reason)
{
  (void)mhd;
  (void)reason;
  loop_progressed(loop_pointer);
  take_target_fault(context);
  exchange *x = *context;
  *context = NULL;
  if (x == NULL)
    return;
  if (x->inference != NULL)
    connection_set_exchange(x->connection, NULL);
  bool unsent = x->phase == EXCHANGE_WAITING || x->status == 0;
  if (x->phase == EXCHANGE_ANSWERED)
    note_moment(x, TRACE_HTTP_SEND_END);
  if (x->phase == EXCHANGE_WAITING)
    finish_unsent(x);
  access_note_over(x, unsent ? STATUS_NOT_SENT : x->status);
  connection_set_request(x->connection, NULL);
  connection_enter(x->connection, CONNECTION_IDLE);
  http_server_request_ended(x->http);
  exchange_unref(x);
}

NEREID_LogSubject exchange_subject(const exchange *x)
{
  if (x == NULL)
    return (NEREID_LogSubject){0};
  const char *model = x->parameters[PARAMETER_MODEL];
  int64_t version = 0;
  text_to_int64(slice_of(x->parameters[PARAMETER_VERSION]), &version);
  return (NEREID_LogSubject){.request_id = x->inference != NULL ? x->inference->request_id : NULL,
                             .model = model[0] != '\0' ? model : NULL,
                             .version = version};
}

// The client has left: tells the core that nobody waits for the response. Any thread that holds a
// reference.
static void cancel(exchange *x)
{
  if (x->inference != NULL)
    inference_cancel(x->inference);
}

// --- Replies

// Cuts a text off before byte `size`, behind a whole character.
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
  char text[FAILURE_MAX_BYTES + sizeof("…")];
  if (vsnprintf(text, sizeof(text), format, arguments) >= (int)sizeof(text))
    cut_text(text, FAILURE_MAX_BYTES);
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
  x->status = MHD_HTTP_SERVICE_UNAVAILABLE; // nobody can tell what else there was to say
  x->failure = "{\"error\":\"out of memory\"}";
}

void exchange_fail(exchange *x, unsigned status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fail_va(x, status, format, arguments);
  va_end(arguments);
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
  if (failure_owned == NULL)
    return false;
  exchange_fail(x, exchange_status_of(TRITONSERVER_ErrorCode(failure_owned)), "%s",
                TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
  return true;
}

bool exchange_fail_if_error(exchange *x, error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  exchange_fail(x, exchange_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned)), "%s",
                error_message(failure_owned));
  error_free(failure_owned);
  return true;
}

// Binary tensors behind a JSON part: --http-max-input-size is not about them.
static bool has_unlimited_part(const exchange *x)
{
  const request_headers *headers = &x->headers;
  const header_number *json_size = &headers->inference_header_length;
  return x->route->body == BODY_TENSORS && headers->coding == CODING_IDENTITY &&
         !x->http->options.limit_whole_body && json_size->state == NUMBER_VALID &&
         json_size->value > 0 &&
         (headers->chunked || json_size->value <= headers->content_length.value);
}

// In Triton's words, as far as it has any. `size` says how many bytes there are.
static void fail_too_large(exchange *x, const char *size)
{
  if (x->failure != NULL) // of a request that may have no route
    return;
  const unsigned status = MHD_HTTP_CONTENT_TOO_LARGE;
  const header_number *json_size = &x->headers.inference_header_length;
  size_t most = x->http->options.max_input_size;
  bool tensors = x->route->body == BODY_TENSORS;
  bool whole = x->http->options.limit_whole_body || x->route->body == BODY_IGNORED;
  if (has_unlimited_part(x) && (size_t)json_size->value <= most)
    exchange_fail(
        x, status,
        "request body size of %s bytes exceeds what the server holds of all requests, %zu "
        "bytes. Use --http-max-inflight-bytes to increase the limit.",
        size, x->http->options.max_inflight_bytes);
  else if (tensors && json_size->state == NUMBER_VALID && json_size->value == 0)
    exchange_fail(x, status,
                  "Raw input has a byte_size (%s bytes) that exceeds the maximum allowed value of "
                  "%zu bytes. Use --http-max-input-size to increase the limit.",
                  size, most);
  else
    exchange_fail(
        x, status,
        "request %s size of %s bytes exceeds the maximum allowed input size of %zu bytes. "
        "Use --http-max-input-size to increase the limit.",
        whole ? "body" : "JSON", size, most);
}

bool exchange_fail_if_body(exchange *x, body_result why)
{
  char size[40];
  switch (why) {
  case BODY_OK:
    break;
  case BODY_TOO_LARGE:
    snprintf(size, sizeof(size), "more than %zu", x->body.max_size);
    fail_too_large(x, size);
    break;
  case BODY_OVER_BUDGET:
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, BUDGET_REQUESTS_FULL);
    break;
  case BODY_NO_MEMORY:
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    break;
  case BODY_TOO_MANY_CHUNKS:
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "Chunked request body exceeds maximum of %d non-empty chunks. Send fewer or "
                  "larger HTTP chunks.",
                  BODY_MAX_CHUNKS);
    break;
  case BODY_CORRUPT:
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the request body is not valid %s data",
                  x->headers.coding == CODING_GZIP ? "gzip" : "deflate");
    break;
  }
  return why != BODY_OK;
}

void exchange_reply_with(exchange *x, struct MHD_Response *response_owned)
{
  if (response_owned == NULL) {
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    return;
  }
  x->status = MHD_HTTP_OK;
  x->reply = response_owned;
}

void exchange_reply_empty(exchange *x, unsigned status)
{
  x->status = status;
  x->reply =
      x->route->category == CATEGORY_HEALTH ? x->http->empty_reply : x->http->empty_json_reply;
}

static void delete_message(void *message)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
}

void exchange_reply_message(exchange *x, TRITONSERVER_Message *message_owned)
{
  const char *text;
  size_t size;
  if (exchange_fail_if(x, TRITONSERVER_MessageSerializeToJson(message_owned, &text, &size))) {
    delete_message(message_owned);
    return;
  }
  x->reply_bytes = size;
  // The text is the message's: the reply is sent from there.
  exchange_reply_with(x,
                      response_of(text, size, "application/json", delete_message, message_owned));
}

void exchange_reply_json(exchange *x, buffer *json)
{
  x->reply_bytes = json->size;
  buffer_append_char(json, '\0');
  exchange_reply_with(x, json->failed ? NULL : response_of_json_copy(json->data));
}

static struct MHD_Response *failure_response(exchange *x)
{
  x->reply_bytes = strlen(x->failure);
  struct MHD_Response *response = response_of_json_copy(x->failure);
  return x->failure_header == NULL ? response
                                   : response_with(response, x->failure_header, x->failure_value);
}

// Hands the reply to libmicrohttpd.
static enum MHD_Result send_reply(exchange *x)
{
  if (x->reply == NULL)
    x->reply = failure_response(x);
  if (x->reply == NULL)
    return MHD_NO;
  x->phase = EXCHANGE_ANSWERED;
  note_moment(x, TRACE_HTTP_SEND_START);
  connection_enter(x->connection, CONNECTION_REPLY);
  bool last = x->last || atomic_load_explicit(&x->http->leaving, memory_order_relaxed);
  if (last && !is_shared(x))
    MHD_add_response_header(x->reply, MHD_HTTP_HEADER_CONNECTION, "close");
  enum MHD_Result queued = MHD_queue_response(x->mhd, x->status, x->reply);
  if (!is_shared(x))
    MHD_destroy_response(x->reply); // libmicrohttpd has its own reference
  return queued;
}

// Answers while the request is still coming and gives the connection up. `more`: further fields, as
// lines; `announced`: its body's length, 0 when it is not known.
static void refuse_connection(connection *c, unsigned status, const char *more, const char *json,
                              uint64_t announced)
{
  char text[8 * FAILURE_MAX_BYTES]; // each byte may be escaped with six
  int size = snprintf(text, sizeof(text),
                      "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                      "Content-Length: %zu\r\n%s\r\n%s",
                      status, MHD_get_reason_phrase_for(status), strlen(json), more, json);
  if (size > 0 && size < (int)sizeof(text))
    connection_refuse(c, text, (size_t)size, announced);
}

static enum MHD_Result refuse(exchange *x)
{
  char more[128] = "";
  x->reply_bytes = strlen(x->failure);
  if (x->failure_header != NULL)
    snprintf(more, sizeof(more), "%s: %s\r\n", x->failure_header, x->failure_value);
  int64_t announced = x->headers.content_length.value;
  refuse_connection(x->connection, x->status, more, x->failure,
                    announced > 0 ? (uint64_t)announced : 0);
  return MHD_NO;
}

static bool reply_page(connection *c, unsigned status)
{
  exchange *x = connection_request(c);
  if (x != NULL && x->phase == EXCHANGE_ANSWERED)
    return false;
  bool in_chunk = x != NULL && status == MHD_HTTP_CONTENT_TOO_LARGE && x->body.chunked;
  bool in_body = x != NULL && status == MHD_HTTP_BAD_REQUEST;
  const char *why = in_chunk  ? "a chunk of the request's body is longer than fits in 64 bits"
                    : in_body ? "a chunk of the request's body is malformed, or a field behind it"
                              : error_page_text(status);
  if (x != NULL) {
    exchange_fail(x, status, "%s", why);
    refuse(x);
    return true;
  }
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  exchange_append_failure(&json, "%s", why);
  buffer_append_char(&json, '\0');
  frontend_log_verbose("HTTP request refused: %s", why);
  refuse_connection(c, status, "", json.failed ? "" : json.data, 0);
  return true;
}

// --- Admission: what the headers decide

// What the first line says.
typedef struct request_line {
  const char *method;
  const char *path;
  const char *version;
  target_fault fault;
} request_line;

static bool has_body(const request_headers *headers)
{
  return headers->chunked || headers->content_length.value > 0;
}

static bool check_head(exchange *x, const request_line *line)
{
  request_headers *headers = &x->headers;
  head_read_fields(x->mhd, headers);
  x->body.chunked = headers->chunked;
  if (line->fault == TARGET_MALFORMED)
    headers->fault = "the request's URL has a byte that must be encoded";
  if (line->fault == TARGET_TOO_LONG)
    exchange_fail(x, MHD_HTTP_URI_TOO_LONG, "the request's URL has more than %d bytes",
                  HEAD_MAX_TARGET_BYTES);
  else if (headers->fault != NULL)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "%s", headers->fault);
  return x->failure == NULL;
}

static bool find_route(exchange *x, const char *method, slice path)
{
  route_match match = routes_find(route_method_of(method), path);
  if (match.methods == 0) {
    exchange_fail(x, MHD_HTTP_NOT_FOUND, "Not Found");
    return false;
  }
  if (!access_check_key(x, match.category)) // as Triton does, before it looks at the method
    return false;
  if (match.route == NULL) {
    static const char *const allowed[] = {[METHOD_GET] = "GET, HEAD",
                                          [METHOD_POST] = "POST",
                                          [METHOD_GET | METHOD_POST] = "GET, HEAD, POST"};
    exchange_fail(x, MHD_HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed");
    exchange_fail_header(x, MHD_HTTP_HEADER_ALLOW, allowed[match.methods]);
    return false;
  }
  x->route = match.route;
  for (size_t i = 0; i < PARAMETER_COUNT; i++) {
    if (match.parameters[i].size == 0)
      continue;
    char *decoded = arena_allocate(&x->arena, match.parameters[i].size + 1);
    if (decoded == NULL) {
      exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
      return false;
    }
    if (!route_decode(match.parameters[i], decoded)) {
      exchange_fail(x, MHD_HTTP_NOT_FOUND, "Not Found");
      return false;
    }
    if (strlen(decoded) > NAME_MAX_BYTES) {
      exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the URL has a name of more than %d bytes",
                    NAME_MAX_BYTES);
      return false;
    }
    x->parameters[i] = decoded;
  }
  return true;
}

// When all connections are taken, those that came later are for whoever looks after the server.
static bool check_room(exchange *x)
{
  if (!connection_is_surplus(x->connection) || x->route->category == CATEGORY_HEALTH ||
      route_category_is_admin(x->route->category))
    return true;
  x->last = true;
  exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                "the server has as many connections as it may (%u), try again later",
                x->http->options.connection_limit);
  return false;
}

// Is the body as large as it may be? What comes without a length is told how large that is.
static bool check_size(exchange *x)
{
  const request_headers *headers = &x->headers;
  int64_t size = headers->content_length.value;
  size_t most = x->http->options.max_input_size;
  if (has_unlimited_part(x) && (uint64_t)headers->inference_header_length.value > most)
    size = headers->inference_header_length.value;
  else if (has_unlimited_part(x))
    most = x->body.max_size = x->http->options.max_inflight_bytes;
  if (size <= 0 || (uint64_t)size <= most)
    return true;
  char text[32];
  snprintf(text, sizeof(text), "%" PRId64, size);
  fail_too_large(x, text);
  return false;
}

static bool check_body(exchange *x)
{
  const request_headers *headers = &x->headers;
  if (!check_size(x))
    return false;
  if (headers->coding == CODING_UNKNOWN && x->route->body != BODY_IGNORED &&
      x->route->body != BODY_GENERATE) {
    exchange_fail(x, MHD_HTTP_NOT_IMPLEMENTED, "Unsupported compression type");
    exchange_fail_header(x, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
  } else if (x->route->body == BODY_TENSORS) {
    infer_admit(x);
  } else if (x->route->body == BODY_GENERATE) {
    generate_admit(x);
  }
  return x->failure == NULL;
}

static bool admit(exchange *x, const request_line *line)
{
  if (!check_head(x, line) || !find_route(x, line->method, routes_path_of(line->path)) ||
      !access_admit(x) || !check_room(x) || !check_body(x))
    return false;
  if (!has_body(&x->headers) || x->route->body == BODY_IGNORED)
    return true;
  bool compressed = x->headers.coding != CODING_IDENTITY;
  int64_t json_size = compressed ? 0 : x->headers.inference_header_length.value;
  exchange_fail_if_body(x, body_begin(&x->body, (size_t)x->headers.content_length.value,
                                      json_size > 0 ? (size_t)json_size : 0));
  return x->failure == NULL;
}

// May the rest of a refused request be read and dropped, so that the connection can live on?
static bool is_worth_dropping(const request_headers *headers)
{
  return headers->fault == NULL && !headers->chunked && !headers->expects_continue &&
         headers->content_length.value <= DROPPED_BODY_BYTES;
}

static enum MHD_Result begin(loop *l, struct MHD_Connection *mhd, const request_line *line,
                             void **context)
{
  exchange *x = exchange_new(l, mhd);
  if (x == NULL)
    return MHD_NO;
  *context = x;
  if (!connection_enter(x->connection, CONNECTION_BODY))
    return MHD_NO;
  x->method = route_method_of(line->method);
  x->is_http_1_0 = strcmp(line->version, MHD_HTTP_VERSION_1_0) == 0;
  access_note_began(x, line->method, line->path);
  bool admitted = admit(x, line);
  exchange_log_verbose(x, "HTTP request: %s %s", line->method, line->path);
  if (admitted) {
    connection_enter(x->connection, has_body(&x->headers) ? CONNECTION_BODY : CONNECTION_RUNNING);
    return MHD_YES;
  }
  if (!is_worth_dropping(&x->headers))
    return refuse(x);
  x->phase = EXCHANGE_DROPPING;
  connection_enter(x->connection, CONNECTION_BODY);
  return MHD_YES;
}

// --- Body and handling

static enum MHD_Result receive(exchange *x, const char *data, size_t size)
{
  connection_received(x->connection, size);
  access_note_received(x, size);
  body_result taken = BODY_OK;
  if (x->phase != EXCHANGE_DROPPING && x->route->body != BODY_IGNORED)
    taken = body_append(&x->body, data, size);
  else
    taken = body_drop(&x->body, size);
  if (taken == BODY_OK)
    return MHD_YES;
  exchange_fail_if_body(x, taken);
  return refuse(x);
}

static void inflate_body(exchange *x)
{
  int64_t json_size = x->headers.inference_header_length.value;
  x->body.aligned_at = json_size > 0 ? (size_t)json_size : 0;
  body_result unpacked = body_inflate(&x->body, x->headers.coding);
  if (unpacked == BODY_TOO_LARGE)
    exchange_fail(x, MHD_HTTP_CONTENT_TOO_LARGE,
                  "Decompressed data size exceeds the maximum allowed value of %zu bytes. Use "
                  "--http-max-input-size to increase the limit.",
                  x->body.max_size);
  exchange_fail_if_body(x, unpacked);
}

static void handle_inflated(exchange *x)
{
  if (x->failure == NULL && !exchange_is_abandoned(x))
    x->route->handle(x);
}

// The request is complete. False when it is to be dropped.
static bool handle(exchange *x)
{
  if (!http_server_handling_began(x->http))
    return false;
  connection_enter(x->connection, CONNECTION_RUNNING);
  if (x->route->body == BODY_IGNORED) {
    x->route->handle(x);
  } else if (x->headers.coding == CODING_IDENTITY) {
    exchange_fail_if_body(x, body_finish(&x->body));
    handle_inflated(x);
  } else {
    // A few bytes may unpack to many.
    exchange_run_job(x, JOB_COMPUTES, inflate_body, handle_inflated);
  }
  return true;
}

static enum MHD_Result handle_step(void *loop_pointer, struct MHD_Connection *mhd, const char *url,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_size, void **context)
{
  loop_progressed(loop_pointer);
  request_line line = {.method = method, .path = url, .version = version};
  line.fault = take_target_fault(context);
  exchange *x = *context;
  if (x == NULL)
    return begin(loop_pointer, mhd, &line, context);
  if (*upload_size > 0) {
    size_t size = *upload_size;
    *upload_size = 0;
    return receive(x, upload, size);
  }
  if (x->phase == EXCHANGE_ANSWERED)
    return MHD_YES;
  if (x->phase == EXCHANGE_DROPPING)
    return send_reply(x);
  if (x->phase == EXCHANGE_WAITING) {
    x->phase = EXCHANGE_RECEIVING;
    loop_took_back(x->loop);
    x->next(x);
  } else if (!handle(x)) {
    return MHD_NO;
  }
  if (x->phase == EXCHANGE_WAITING)
    return MHD_YES;
  http_server_handling_ended(x->http);
  return send_reply(x);
}

void exchange_suspend(exchange *x, exchange_step next)
{
  x->next = next;
  x->phase = EXCHANGE_WAITING;
  loop_handed_over(x->loop);
  MHD_suspend_connection(x->mhd);
}

void exchange_resume(exchange *x)
{
  exchange_ref(x); // as soon as it is resumed it may be over, and the listener with it
  MHD_resume_connection(x->mhd);
  loop_wake(x->loop);
  exchange_unref(x);
}

bool exchange_is_abandoned(const exchange *x)
{
  return x->phase == EXCHANGE_ANSWERED;
}

static void run_queued(job *queued)
{
  exchange *x = (exchange *)((char *)queued - offsetof(exchange, queued));
  x->job(x);
  exchange_resume(x);
}

error *exchange_submit_job(exchange *x, job_kind kind)
{
  x->queued.run = run_queued;
  return jobs_submit(x->http->options.jobs, kind, &x->queued);
}

void exchange_run_job(exchange *x, job_kind kind, void (*job)(exchange *x), exchange_step next)
{
  x->job = job;
  exchange_suspend(x, next);
  if (!exchange_fail_if_error(x, exchange_submit_job(x, kind)))
    return;
  exchange_resume(x);
}

const exchange_calls exchange_calls_of_loops = {
    .began = began,
    .handle = handle_step,
    .completed = completed,
    .reply_page = reply_page,
    .ref = exchange_ref,
    .unref = exchange_unref,
    .cancel = cancel,
    .subject = exchange_subject,
};
