// SPDX-License-Identifier: Apache-2.0
// The command lines with which `nereid serve` shows how to call its models, or why a model cannot
// be called. Main thread, after the start-up models have loaded.
#ifndef NEREID_DAEMON_CALL_LINES_H
#define NEREID_DAEMON_CALL_LINES_H

#include "base/buffer.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

typedef struct call_target {
  const char *http;        // address, as listener_where gives it; NULL: HTTP is off
  const char *certificate; // file of the server's TLS certificate; NULL: no TLS
} call_target;

// Appends a curl command, without a line end, that calls a model with zeros and short texts of the
// right shape. `metadata` and `config` are the model's, as JSON. Long tensors are binary, read from
// /dev/zero. False when the JSON is of another form or memory is short.
bool call_line_print(const call_target *target, slice metadata, slice config, buffer *out);

// Prints a command for each ready model to standard output, and a reason for each other model to
// standard error. With `target` NULL no model counts as ready: only reasons are printed.
void call_lines_say(const call_target *target, TRITONSERVER_Server *server);

#endif
