// SPDX-License-Identifier: Apache-2.0
// Reads the bytes of a connection before libmicrohttpd does, as strictly as HTTP/1.1 lets a server:
// two servers on one way could read what is malformed differently, one request as two among others,
// and each version of that library takes other things. A scan knows where each request begins and
// ends, and what is wrong with the first one that is malformed; it changes no byte that anybody
// reads. One for each connection, on its loop's thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_REQUEST_SCAN_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_REQUEST_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_MAX_TARGET_BYTES 8192
#define SCAN_INLINE_REQUESTS  2

// What is wrong with a request; static.
typedef struct scan_fault {
  unsigned status; // of the reply
  const char *text;
} scan_fault;

// A request of which at least the first byte came.
typedef struct scanned_request {
  bool has_head;           // all of it came
  bool is_complete;        // the body too
  bool chunked;            // Transfer-Encoding: chunked
  uint64_t content_length; // 0 without one
  uint64_t body_bytes;     // that came so far, without the lines of chunks
} scanned_request;

// What the scan expects next.
typedef enum scan_state {
  SCAN_START, // of a request, or an empty line in front of it
  SCAN_START_LF,
  SCAN_METHOD,
  SCAN_BEFORE_TARGET,
  SCAN_TARGET,
  SCAN_QUERY,
  SCAN_BEFORE_VERSION,
  SCAN_VERSION,
  SCAN_LINE_LF,
  SCAN_FIELD, // or the empty line that ends them
  SCAN_NAME,
  SCAN_VALUE,
  SCAN_VALUE_LF,
  SCAN_FIELDS_LF,
  SCAN_BODY,
  SCAN_CHUNK_SIZE,
  SCAN_EXTENSION, // of a chunk's line
  SCAN_CHUNK_LF,
  SCAN_CHUNK_DATA,
  SCAN_CHUNK_END,
  SCAN_CHUNK_END_LF,
  SCAN_STATES,
} scan_state;

// Which value is being read: the two that say where a body ends are looked at.
typedef enum scan_value {
  SCAN_ANY_VALUE,
  SCAN_LENGTH_VALUE,
  SCAN_CODING_VALUE
} scan_value;

typedef struct request_scan {
  scan_state state;
  bool takes_extensions; // of chunks
  bool in_trailer;       // fields behind a body
  size_t count;          // bytes of the method, the target or a name; characters of the version;
                         // digits of a chunk's size; bytes of a coding that are right
  char name[18];         // of a field, as much as tells those that are looked at
  scan_value value;
  bool malformed;  // that value
  bool has_digits; // that length
  bool has_length; // Content-Length stood there
  uint64_t left;   // of a body or a chunk; the length or size that is being read
  const scan_fault *fault;
  bool lost; // memory was short: the request at fault is not among those below

  // Requests that were not dropped: `waiting` of them, from `first` on.
  scanned_request *requests;
  size_t first;
  size_t waiting;
  size_t room;
  scanned_request inline_requests[SCAN_INLINE_REQUESTS];
} request_scan;

// The scan must stay where it is.
void request_scan_init(request_scan *s, bool takes_extensions);
void request_scan_fini(request_scan *s);

// Looks at what came. Queries lose their '&', which libmicrohttpd 1.0.1 cannot bear and nobody here
// reads: they become ';'.
void request_scan_read(request_scan *s, char *data, size_t size);

// The first request that was not dropped; NULL: there is none. Until the next call.
const scanned_request *request_scan_first(const request_scan *s);

// What is wrong with that one; NULL: nothing so far.
const scan_fault *request_scan_first_fault(const request_scan *s);

// That one is answered.
void request_scan_drop_first(request_scan *s);

#endif
