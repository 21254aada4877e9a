// SPDX-License-Identifier: Apache-2.0
// Scans a connection's bytes before libmicrohttpd reads them, as strictly as HTTP/1.1 allows: a
// malformed request may be one request for one server and two for another, and each version of
// libmicrohttpd accepts other malformed requests. A scan knows where each request begins and ends,
// and the first fault. It changes no byte that is used. One for each connection, on its loop's
// thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_REQUEST_SCAN_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_REQUEST_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_MAX_TARGET_BYTES 8192
#define SCAN_INLINE_REQUESTS  2

// A fault of a request; static.
typedef struct scan_fault {
  unsigned status; // of the reply
  const char *text;
} scan_fault;

// A request whose first byte came.
typedef struct scanned_request {
  bool has_head;           // the head is complete
  bool is_complete;        // the body too
  bool chunked;            // Transfer-Encoding: chunked
  uint64_t content_length; // 0 without one
  uint64_t body_bytes;     // received so far, without the lines of chunks
} scanned_request;

// The next bytes that the scan expects.
typedef enum scan_state {
  SCAN_START, // a request, or an empty line before it
  SCAN_START_LF,
  SCAN_METHOD,
  SCAN_BEFORE_TARGET,
  SCAN_TARGET,
  SCAN_QUERY,
  SCAN_BEFORE_VERSION,
  SCAN_VERSION,
  SCAN_LINE_LF,
  SCAN_FIELD, // a field, or the empty line that ends them
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

// Values that are parsed: the two that delimit a body.
typedef enum scan_value {
  SCAN_ANY_VALUE,
  SCAN_LENGTH_VALUE,
  SCAN_CODING_VALUE
} scan_value;

typedef struct request_scan {
  scan_state state;
  bool takes_extensions; // of chunks
  bool in_trailer;       // fields behind a body
  size_t count;  // bytes of a method, target or name; characters of a version; digits of a chunk's
                 // size; matching bytes of a coding
  char name[18]; // of a field, as far as needed to recognize it
  scan_value value;
  bool malformed;  // the value is malformed
  bool has_digits; // the length has digits
  bool has_length; // a Content-Length came
  uint64_t left;   // bytes left of a body or chunk, or the number being read
  const scan_fault *fault;
  bool lost; // the request at fault is not in the list below: memory was short

  // Requests not yet dropped: `waiting` of them, from `first` on.
  scanned_request *requests;
  size_t first;
  size_t waiting;
  size_t room;
  scanned_request inline_requests[SCAN_INLINE_REQUESTS];
} request_scan;

// The scan must not be moved afterwards.
void request_scan_init(request_scan *s, bool takes_extensions);
void request_scan_fini(request_scan *s);

// Scans received bytes. In queries '&' becomes ';', because libmicrohttpd 1.0.1 crashes on many
// arguments, and the server reads none.
void request_scan_read(request_scan *s, char *data, size_t size);

// The first request not yet dropped, or NULL. Valid until the next call.
const scanned_request *request_scan_first(const request_scan *s);

// The fault of that request; NULL if there is none so far.
const scan_fault *request_scan_first_fault(const request_scan *s);

// Drops that request: it is answered.
void request_scan_drop_first(request_scan *s);

#endif
