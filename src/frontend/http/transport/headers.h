// SPDX-License-Identifier: Apache-2.0
// What the listener needs to know of a request's header fields, read once when they are complete.
// Pure functions on text; the loop thread that owns the request calls them.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEADERS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEADERS_H

#include "base/slice.h"
#include "frontend/common/net/compress.h"
#include "frontend/trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A number in a field, as far as the field allows one to be read.
typedef struct header_number {
  enum {
    NUMBER_ABSENT,
    NUMBER_VALID,
    NUMBER_MALFORMED,
    NUMBER_OUT_OF_RANGE
  } state;
  int64_t value;
  slice text; // what stands there; lives as long as the request's headers
} header_number;

typedef struct request_headers {
  size_t count;
  size_t hosts; // fields of the name Host: none is as good as one, since no name of a server counts
  header_number content_length;
  header_number inference_header_length;
  bool chunked;           // Transfer-Encoding: chunked
  bool expects_continue;  // Expect: 100-continue
  content_coding coding;  // of the body
  content_coding accepts; // the coding that the client likes best in a reply
  trace_parent parent;    // W3C Trace Context; lives as long as the request's headers
  const char *fault;      // a reason not to trust the request, else NULL; static
} request_headers;

// Takes one field. Names are compared without regard to case. What says where a body ends was
// judged before (request_scan.h).
void headers_add(request_headers *headers, slice name, slice value);

// Reads a decimal integer, with an optional '-' only.
header_number headers_number(slice text);

// The coding with the largest weight among those that the server speaks; the first of equals, "*"
// is ignored, a malformed element is skipped.
content_coding headers_accepted_coding(slice accept_encoding);

#endif
