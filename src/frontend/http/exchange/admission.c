// SPDX-License-Identifier: Apache-2.0
// Decides from a request's headers, before a byte of its body is taken, whether it is accepted and
// how large its body may be. Loop thread.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/text.h"
#include "frontend/common/infer/model_version.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/exchange/exchange_log.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/transport/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAME_BYTES 255 // of a model, repository or region

// --- Sizes

// Has the request binary tensors behind a JSON part? --http-max-input-size does not limit them.
static bool has_unlimited_part(const exchange *x)
{
  const request_headers *headers = &x->headers;
  const header_number *json_size = &headers->inference_header_length;
  return x->route->body == BODY_TENSORS && headers->coding == CODING_IDENTITY &&
         !x->http->options.limit_whole_body && json_size->state == NUMBER_VALID &&
         json_size->value > 0 &&
         (headers->chunked || json_size->value <= headers->content_length.value);
}

// Fails in Triton's words, where it has any. `size` is the number of bytes, as text.
static void fail_too_large(exchange *x, const char *size)
{
  if (x->failure != NULL) // it may have no route
    return;
  const unsigned status = MHD_HTTP_CONTENT_TOO_LARGE;
  const header_number *json_size = &x->headers.inference_header_length;
  size_t max_size = x->http->options.max_input_size;
  bool tensors = x->route->body == BODY_TENSORS;
  bool whole = x->http->options.limit_whole_body || x->route->body == BODY_IGNORED;
  if (has_unlimited_part(x) && (size_t)json_size->value <= max_size)
    exchange_fail(
        x, status,
        "request body size of %s bytes exceeds what the server holds of all requests, %zu "
        "bytes. Use --http-max-inflight-bytes to increase the limit.",
        size, x->http->options.max_inflight_bytes);
  else if (tensors && json_size->state == NUMBER_VALID && json_size->value == 0)
    exchange_fail(x, status,
                  "Raw input has a byte_size (%s bytes) that exceeds the maximum allowed value of "
                  "%zu bytes. Use --http-max-input-size to increase the limit.",
                  size, max_size);
  else
    exchange_fail(
        x, status,
        "request %s size of %s bytes exceeds the maximum allowed input size of %zu bytes. "
        "Use --http-max-input-size to increase the limit.",
        whole ? "body" : "JSON", size, max_size);
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

// --- Heads

void exchange_fail_as_misread(exchange *x)
{
  exchange_log_warning(x, "%s", "libmicrohttpd reads a request in another way than it is written");
  exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the server can read the request in more than one way");
}

// Do libmicrohttpd and the scan agree about the head?
static bool is_as_sent(const exchange *x)
{
  const scanned_request *sent = connection_scanned(x->connection);
  const request_headers *headers = &x->headers;
  return sent != NULL && sent->has_head && sent->chunked == headers->chunked &&
         sent->content_length == (uint64_t)headers->content_length.value;
}

static bool check_head(exchange *x)
{
  request_headers *headers = &x->headers;
  head_read_fields(x->mhd, headers);
  x->body.chunked = headers->chunked;
  const scan_fault *fault = connection_fault(x->connection);
  if (fault != NULL)
    headers->fault = fault->text;
  if (headers->fault != NULL)
    exchange_fail(x, fault != NULL ? fault->status : MHD_HTTP_BAD_REQUEST, "%s", headers->fault);
  else if (!is_as_sent(x))
    exchange_fail_as_misread(x);
  else
    return true;
  x->headers.fault = x->failure; // nothing after this head is read
  return false;
}

static bool take_parameters(exchange *x, const slice parameters[PARAMETER_COUNT])
{
  for (size_t i = 0; i < PARAMETER_COUNT && x->failure == NULL; i++) {
    if (parameters[i].size == 0)
      continue;
    char *decoded = arena_allocate(&x->arena, parameters[i].size + 1);
    if (decoded == NULL)
      exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    else if (!route_decode(parameters[i], decoded))
      exchange_fail(x, MHD_HTTP_NOT_FOUND, "Not Found");
    else if (strlen(decoded) > MAX_NAME_BYTES)
      exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the URL has a name of more than %d bytes",
                    MAX_NAME_BYTES);
    else
      x->parameters[i] = decoded;
  }
  return x->failure == NULL;
}

static bool read_version(exchange *x)
{
  const char *text = x->parameters[PARAMETER_VERSION];
  if (text[0] == '\0')
    return true;
  error *e = model_version_read(x->http->server, x->parameters[PARAMETER_MODEL], text, &x->version);
  if (e == NULL || (text[0] >= '0' && text[0] <= '9') || error_get_code(e) != ERROR_INVALID_ARG)
    return !exchange_fail_if_error(x, e);
  error_free(e); // a model without labels: Triton has no such path
  return exchange_fail(x, MHD_HTTP_NOT_FOUND, "Not Found");
}

static bool find_route(exchange *x, const char *method, slice path)
{
  route_match match = route_find(http_server_of(x->http)->routes, route_method_of(method), path);
  if (match.methods == 0)
    return exchange_fail(x, MHD_HTTP_NOT_FOUND, "Not Found");
  if (!access_check_key(x, match.category)) // before the method, as in Triton
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
  return take_parameters(x, match.parameters);
}

// Connections beyond the limit are for operators only.
static bool check_room(exchange *x)
{
  if (!connection_is_surplus(x->connection) || x->route->category == CATEGORY_HEALTH ||
      route_category_is_admin(x->route->category))
    return true;
  x->last = true;
  return exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                       "the server has as many connections as it may (%u), try again later",
                       x->http->options.connection_limit);
}

// Is the announced body too large? For a body without a length this sets the limit.
static bool check_size(exchange *x)
{
  const request_headers *headers = &x->headers;
  int64_t size = headers->content_length.value;
  size_t max_size = x->http->options.max_input_size;
  if (has_unlimited_part(x) && (uint64_t)headers->inference_header_length.value > max_size)
    size = headers->inference_header_length.value;
  else if (has_unlimited_part(x))
    max_size = x->body.max_size = x->http->options.max_inflight_bytes;
  if (size <= 0 || (uint64_t)size <= max_size)
    return true;
  char text[32];
  snprintf(text, sizeof(text), "%" PRId64, size);
  fail_too_large(x, text);
  return false;
}

static bool check_body(exchange *x)
{
  const route_table *routes = http_server_of(x->http)->routes;
  const request_headers *headers = &x->headers;
  if (!check_size(x))
    return false;
  if (headers->coding == CODING_UNKNOWN && x->route->body != BODY_IGNORED &&
      x->route->body != BODY_GENERATE) {
    exchange_fail(x, MHD_HTTP_NOT_IMPLEMENTED, "Unsupported compression type");
    exchange_fail_header(x, MHD_HTTP_HEADER_ACCEPT_ENCODING, "gzip, deflate");
  } else if (routes->admit[x->route->body] != NULL) {
    routes->admit[x->route->body](x);
  }
  return x->failure == NULL;
}

bool exchange_admit(exchange *x, const request_line *line)
{
  if (!check_head(x) || !find_route(x, line->method, route_path_of(line->path)) ||
      !access_admit(x, route_authority_of(line->path)) || !check_room(x) || !read_version(x) ||
      !check_body(x))
    return false;
  if (!exchange_has_body(x) || x->route->body == BODY_IGNORED)
    return true;
  bool compressed = x->headers.coding != CODING_IDENTITY;
  int64_t json_size = compressed ? 0 : x->headers.inference_header_length.value;
  exchange_fail_if_body(x, body_begin(&x->body, (size_t)x->headers.content_length.value,
                                      json_size > 0 ? (size_t)json_size : 0));
  return x->failure == NULL;
}
