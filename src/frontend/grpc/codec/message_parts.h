// SPDX-License-Identifier: Apache-2.0
// A message in parts: its own text, and between it borrowed bytes that are sent from where they
// are. One owner. Appending does not report errors; message_parts_finish does.
#ifndef NEREID_FRONTEND_GRPC_CODEC_MESSAGE_PARTS_H
#define NEREID_FRONTEND_GRPC_CODEC_MESSAGE_PARTS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// Fewer bytes are copied into the text, because a part of their own costs more.
#define MESSAGE_PARTS_COPIED_BYTES 512

// Starts zeroed, except for `arena`.
typedef struct message_parts {
  arena *arena; // for `items`
  buffer text;  // owned; the writer appends its own bytes here
  slice *items; // the first is text; data NULL: text, until message_parts_finish
  size_t count;
  size_t text_used; // bytes of the text that are in items
  size_t size;      // bytes of all parts
  bool failed;      // memory was short
} message_parts;

// Appends `data` after the text so far, borrowed until the message is sent.
void message_parts_append(message_parts *p, slice data);

// Bytes of the message so far.
size_t message_parts_size(const message_parts *p);

// Puts `head` before everything.
void message_parts_prepend(message_parts *p, slice head);

// Completes the list: `items`, `count` and `size` are the message. The text must not change any
// more. False when memory was short.
bool message_parts_finish(message_parts *p);

#endif
