// SPDX-License-Identifier: Apache-2.0
// The last line of the start: how many models serve, which failed, the addresses, and the time
// taken. Main thread, after the start-up models have loaded.
#ifndef NEREID_DAEMON_START_SUMMARY_H
#define NEREID_DAEMON_START_SUMMARY_H

#include "base/buffer.h"
#include "base/string_list.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>

typedef struct start_summary {
  const string_list *wanted; // models that were asked for by name
  const char *http;          // the address; NULL: HTTP is off
  const char *grpc;
  const char *metrics;
  bool http_tls;
  bool grpc_tls;
  double seconds;
  bool gives_up; // the server stops because models failed
} start_summary;

// Appends the line. `index`: the repository index, a JSON array of models and their versions.
// Returns whether all models are ready. An `index` of another form counts as no models.
bool start_summary_print(const start_summary *s, const char *index, size_t size, buffer *out);

// Logs the line, as a warning when models failed.
void start_summary_log(const start_summary *s, TRITONSERVER_Server *server);

#endif
