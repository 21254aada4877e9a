// SPDX-License-Identifier: Apache-2.0
// The command lines with which `nereid serve` says how to call its models, and why one cannot be
// called. Main thread, when the start-up models are in.
#ifndef NEREID_DAEMON_CALL_LINES_H
#define NEREID_DAEMON_CALL_LINES_H

#include "base/buffer.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

typedef struct call_target {
  const char *http; // where it listens, as listener_where says; NULL: it does not
  const char
      *certificate; // file of the server's certificate, when it speaks TLS; NULL: it does not
} call_target;

// Appends the line of curl, without its end, that calls a model with zeros and short texts of the
// right shape. `metadata` and `config` are the model's, as JSON. Long tensors are binary and come
// from /dev/zero. False when they are no such JSON or memory is short.
bool call_line_print(const call_target *target, slice metadata, slice config, buffer *out);

// Prints a line for each model that serves to standard output, and a reason for each that does not
// to standard error. Without a target nothing serves: the reasons only.
void call_lines_say(const call_target *target, TRITONSERVER_Server *server);

#endif
