// SPDX-License-Identifier: Apache-2.0
// The access log: one line for each request, in any protocol. A front end hands in a record when a
// request is over; the thread "access-log" writes it. Front ends never wait for a disk: lines
// beyond a bound, or that cannot be written, are dropped and counted
// (nereid_access_log_dropped_lines_total).
//
// The daemon makes the log before the front ends and closes it after them. NULL means no access
// log; a front end checks that before it fills a record.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_LOG_H
#define NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_LOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct access_log access_log;

// Texts are borrowed for the call; NULL is an empty text. Unknown numbers are 0.
typedef struct access_record {
  const char *protocol; // "http", "grpc"
  const char *peer;     // address and port, or "unix"
  const char *method;   // of HTTP; gRPC: NULL
  const char *route;    // a row of the route table or a gRPC method, else the client's path
  unsigned status;      // HTTP's, or gRPC's code
  const char *model;
  int64_t version;
  const char *request_id; // cut after 256 bytes
  uint32_t batch_size;    // rows of the execution that the request was part of
  uint64_t queue_ns;      // waiting for an instance
  uint64_t compute_ns;    // from then to its last response
  uint64_t total_ns;      // from its headers to the reply's last byte
  uint64_t bytes_in;      // of the request's body, as sent
  uint64_t bytes_out;     // of the reply's body
} access_record;

// Appends to the file `path`; "-" is standard output. With `json` a line is a JSON object, else
// key=value pairs. Errors: INVALID_ARG when the file cannot be opened, UNAVAILABLE when the thread
// cannot be started.
error *access_log_open(const char *path, bool json, access_log **result);

// Writes what waits, or as much as a pipe takes in five seconds, and closes. No thread may use the
// log any more. NULL is allowed.
void access_log_close(access_log *log_owned);

// Any thread; never waits for the file.
void access_log_write(access_log *log, const access_record *record);

// Opens the path again soon, after earlier lines are written: the file was moved away. Any thread.
void access_log_reopen(access_log *log);

// How long a request waited and ran, according to its responses. Responses come on any thread, and
// the last counts. {0}: unknown.
typedef struct access_times {
  _Atomic uint64_t queue_ns;
  _Atomic uint64_t compute_ns;
  _Atomic uint32_t batch_size;
  _Atomic int64_t version; // of the model version that answered
} access_times;

// Call when a response has come. Any thread.
void access_times_record(access_times *t, TRITONSERVER_InferenceResponse *response);

// Fills in the record's times and version. `version` is the one in the request, 0 or less for any;
// it is used if no response came.
void access_times_print(const access_times *t, int64_t version, access_record *record);

// Prints a record as a line with its end, for tests. `time_ns`: since 1970.
void access_record_print(const access_record *record, uint64_t time_ns, bool json, buffer *line);

#endif
