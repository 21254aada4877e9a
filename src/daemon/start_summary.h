// SPDX-License-Identifier: Apache-2.0
// The last line of the start: how many models serve, which failed, where, and how long it took.
// Main thread, when the start-up models are in.
#ifndef NEREID_DAEMON_START_SUMMARY_H
#define NEREID_DAEMON_START_SUMMARY_H

#include "base/buffer.h"
#include "base/string_list.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>

typedef struct start_summary {
  const string_list *wanted; // models that were asked for by name
  const char *http;          // where it listens, NULL: it does not
  const char *grpc;
  const char *metrics;
  bool http_tls;
  bool grpc_tls;
  double seconds;
  bool gives_up; // as models failed
} start_summary;

// Appends the line. `index`: the repository index, a JSON array of models and their versions.
// Returns whether all models are well; what is no such array counts as no models.
bool start_summary_print(const start_summary *s, const char *index, size_t size, buffer *out);

// Logs it: a warning when models failed.
void start_summary_log(const start_summary *s, TRITONSERVER_Server *server);

#endif
