// SPDX-License-Identifier: Apache-2.0
// The header fields of a request that the listener needs, read once when all headers are there.
// Pure functions on text, called on the loop thread that owns the request.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEADERS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEADERS_H

#include "base/slice.h"
#include "frontend/common/net/compress.h"
#include "frontend/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum header_number_state {
  NUMBER_ABSENT,
  NUMBER_VALID,
  NUMBER_MALFORMED,
  NUMBER_OUT_OF_RANGE
} header_number_state;

// A number in a field, or why there is none.
typedef struct header_number {
  header_number_state state;
  int64_t value;
  slice text; // the field's text; lives as long as the request's headers
} header_number;

typedef struct request_headers {
  size_t count;
  size_t hosts; // number of Host fields; 0 is allowed, since no server name is checked
  header_number content_length;
  header_number inference_header_length;
  bool chunked;           // Transfer-Encoding: chunked
  bool expects_continue;  // Expect: 100-continue
  content_coding coding;  // of the body
  content_coding accepts; // the coding that the client prefers for the reply
  trace_parent parent;    // W3C Trace Context; lives as long as the request's headers
  const char *fault;      // why the request cannot be trusted, else NULL; static
} request_headers;

// Takes one field; the case of its name does not matter. request_scan.h has checked the fields that
// delimit the body.
void headers_add(request_headers *headers, slice name, slice value);

// Reads a decimal integer, with an optional '-' only.
header_number headers_number(slice text);

// The supported coding with the largest weight; the first of equals. Ignores "*" and malformed
// elements.
content_coding headers_accepted_coding(slice accept_encoding);

#endif
