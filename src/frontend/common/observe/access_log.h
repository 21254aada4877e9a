// SPDX-License-Identifier: Apache-2.0
// The access log: one line for each request, whatever protocol it came by. Front ends fill a record
// when a request is over; a thread of its own ("access-log") writes. Nobody who hands a record in
// waits for a disk: what the writer is behind with is bounded, and what does not fit, or cannot be
// written, is dropped and counted (nereid_access_log_dropped_lines_total).
//
// The daemon makes it before the front ends and closes it after them. NULL is no access log: who
// would fill a record asks for that first.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_LOG_H
#define NEREID_FRONTEND_COMMON_OBSERVE_ACCESS_LOG_H

#include "base/buffer.h"
#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct access_log access_log;

// Texts are borrowed for the call; NULL is an empty one. Numbers that nobody knows are 0.
typedef struct access_record {
  const char *protocol; // "http", "grpc"
  const char *peer;     // address and port, or "unix"
  const char *method;   // of HTTP; gRPC: NULL
  const char *route;    // a row of the route table or a gRPC method, else what the client asked for
  unsigned status;      // of HTTP, or the code of gRPC
  const char *model;
  int64_t version;
  const char *request_id; // cut behind 256 bytes
  uint32_t batch_size;    // rows of the execution that the request was part of
  uint64_t queue_ns;      // it waited for an instance
  uint64_t compute_ns;    // from there to its last response
  uint64_t total_ns;      // from its headers to the last byte of the reply
  uint64_t bytes_in;      // of the request's body, as sent
  uint64_t bytes_out;     // of the reply's body
} access_record;

// Appends to the file at `path`, "-" is standard output. `json`: a line is a
// JSON object, else key=value pairs. Errors: INVALID_ARG when the file cannot be opened,
// UNAVAILABLE without a thread.
error *access_log_open(const char *path, bool json, access_log **result);

// Writes what there is, or what a pipe takes in five seconds, and closes. Nobody may use it any
// more. NULL is allowed.
void access_log_close(access_log *log_owned);

// Any thread, never waits for the file.
void access_log_write(access_log *log, const access_record *record);

// The file was moved away: soon the same path is opened again, after what came before is written.
// Any thread.
void access_log_reopen(access_log *log);

// When a request waited and ran, as its responses tell. Responses come on any thread; of several
// the last one counts. Zeroed is nothing known.
typedef struct access_times {
  _Atomic uint64_t queue_ns;
  _Atomic uint64_t compute_ns;
  _Atomic uint32_t batch_size;
  _Atomic int64_t version; // of the model that answered
} access_times;

// The response is there. Any thread.
void access_times_record(access_times *t, TRITONSERVER_InferenceResponse *response);

// Puts them into a record. `version` is the one that was asked for, 0 or less for any: it stands
// where nobody answered.
void access_times_print(const access_times *t, int64_t version, access_record *record);

// A record as a line with its end, for tests. `time_ns`: since 1970.
void access_record_print(const access_record *record, uint64_t time_ns, bool json, buffer *line);

#endif
