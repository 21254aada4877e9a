// SPDX-License-Identifier: Apache-2.0
// What a model's process says of requests (isolated/protocol.h), done: responses, statistics,
// releases. Nothing of it is believed before it is checked. Any thread.
#ifndef NEREID_ISOLATED_EVENTS_H
#define NEREID_ISOLATED_EVENTS_H

#include "child.h"

// A private copy of a message's control part. False: it names none that can be.
typedef struct events_copy {
  uint8_t *bytes;
  size_t room;
  wire_reader reader;
} events_copy;

bool events_copy_take(events_copy *self, const isolated_child *child,
                      const channel_message *message);
void events_copy_fini(events_copy *self);

// Does all of them. False: what was read makes no sense; what was before it is done.
bool events_apply(isolated_child *child, wire_reader *reader);

// Answers the request, if it is not answered in full, and releases it, if it is not released; it
// stays the caller's to give back. The error stays the caller's.
void events_fail_request(isolated_child *child, open_request *r, TRITONSERVER_Error *error);

#endif
