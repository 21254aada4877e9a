// SPDX-License-Identifier: Apache-2.0
// A message in parts: text of its own, and between it bytes of others, which are sent from where
// they are. One owner. What appends to it does not fail: message_parts_finish tells, once.
#ifndef NEREID_FRONTEND_GRPC_CODEC_MESSAGE_PARTS_H
#define NEREID_FRONTEND_GRPC_CODEC_MESSAGE_PARTS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// Fewer bytes than these are copied into the text: a part of their own costs more.
#define MESSAGE_PARTS_COPIED_BYTES 512

// Zeroed, but for the arena, is empty.
typedef struct message_parts {
  arena *arena; // of the list
  buffer text;  // owned; whoever writes the message appends here
  slice *items; // the first is text; data NULL: text, until message_parts_finish
  size_t count;
  size_t text_used; // bytes of the text that are in parts
  size_t size;      // bytes of all parts
  bool failed;      // memory was short
} message_parts;

// Lets `data` follow what is in the text so far. It is borrowed until the message is sent.
void message_parts_append(message_parts *p, slice data);

// Bytes of the message so far.
size_t message_parts_size(const message_parts *p);

// Puts `head` before everything.
void message_parts_prepend(message_parts *p, slice head);

// Completes the list: `items`, `count` and `size` are the message, the text must not change any
// more. False when memory was short.
bool message_parts_finish(message_parts *p);

#endif
