// SPDX-License-Identifier: Apache-2.0
// Applies the events that a model's process sends about requests (isolated/isolated_protocol.h):
// responses, statistics, releases. Each is checked first. Any thread.
#ifndef NEREID_ISOLATED_EVENTS_H
#define NEREID_ISOLATED_EVENTS_H

#include "child.h"

// A private copy of a message's control part. False: the message names invalid memory.
typedef struct events_copy {
  uint8_t *bytes;
  size_t room;
  wire_reader reader;
} events_copy;

bool events_copy_take(events_copy *self, const isolated_child *child,
                      const channel_message *message);
void events_copy_fini(events_copy *self);

// Applies all events. False: an invalid event; those before it are applied.
bool events_apply(isolated_child *child, wire_reader *reader);

// Answers the request unless it is fully answered, and releases it unless it is released. The
// caller still gives it back and keeps the error.
void events_fail_request(isolated_child *child, open_request *r, TRITONSERVER_Error *error);

#endif
