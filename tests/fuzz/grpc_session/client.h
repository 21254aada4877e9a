// SPDX-License-Identifier: Apache-2.0
// A client of the listener: what it sends, in frames and messages, and what it is answered. Between
// two pieces of what it sends the listener has a pass.
#ifndef NEREID_TESTS_GRPC_CLIENT_H
#define NEREID_TESTS_GRPC_CLIENT_H

#include "base/buffer.h"
#include "base/slice.h"
#include "replies.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_END_STREAM  1
#define CLIENT_END_HEADERS 4

typedef struct client {
  int fd;       // -1: closed
  size_t piece; // bytes that are sent at once
  size_t most;  // that are sent at all
  size_t pieces;
  bool deaf; // reads nothing
  replies replies;
} client;

void client_open(client *c, size_t piece, size_t most);
// Preface and settings, its own and that it got the server's; with a window that takes all replies,
// or HTTP/2's of 64 KiB.
void client_greet(client *c, bool wide);
void client_pass(client *c);
void client_send(client *c, slice bytes);
void client_leave(client *c);
// Leaves, and has whatever is left of its calls end: jobs run, the core answers.
void client_end(client *c);

// --- What it may send

void put_number(buffer *to, size_t value, int bytes);
void put_frame(buffer *to, uint8_t type, uint8_t flags, uint32_t stream, slice payload);

enum { // fields of a request besides those that it must have
  REQUEST_GZIP = 1,
  REQUEST_DEFLATE = 2,
  REQUEST_TAKES_PACKED = 4,
  REQUEST_TIMEOUT = 8, // 50 ms
  REQUEST_GRPC_ERROR = 16,
};
void put_request(buffer *to, const char *path, unsigned extras, uint32_t stream);

// A gRPC message in as many frames as it takes; `flags` are the last one's.
void put_message(buffer *to, uint32_t stream, uint8_t flags, uint8_t packed, slice payload);

// A ModelInferRequest with `count` zeroes of INT64, as raw or typed contents.
void put_infer(buffer *to, const char *model, const char *id, size_t count, bool typed);

#endif
