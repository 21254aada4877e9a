// SPDX-License-Identifier: Apache-2.0
// An HTTP/2 stream as its connection knows it, and the functions that the connection calls for it.
// A call embeds one (call.h). Loop thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_HTTP2_STREAM_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_HTTP2_STREAM_H

#include "base/list.h"
#include "base/mpsc.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc_connection grpc_connection;
typedef struct output output;

typedef struct grpc_stream {
  list_node node;              // in the connection's streams
  mpsc_node woken;             // in the loop's woken streams
  grpc_connection *connection; // NULL once the stream is closed
  int32_t id;
  bool half_closed; // the client sends no more
} grpc_stream;

typedef struct stream_handlers {
  // A stream began. NULL when there is no room or memory for it.
  grpc_stream *(*open)(grpc_connection *c, int32_t id);
  void (*take_header)(grpc_stream *s, slice name, slice value);
  void (*begin)(grpc_stream *s); // the header is complete
  // False: the bytes do not count as taken yet, so the client's window stays smaller.
  bool (*take_data)(grpc_stream *s, const char *data, size_t size);
  void (*half_close)(grpc_stream *s);
  // Moves `size` bytes of replies to `to`. False when memory is short.
  bool (*give_data)(grpc_stream *s, output *to, size_t size);
  // Ends the stream if its message is overdue. Returns when to check again; UINT64_MAX: never.
  uint64_t (*check)(grpc_stream *s, uint64_t now_ns);
  void (*woken)(grpc_stream *s); // grpc_loop_wake_stream
  void (*close)(grpc_stream *s); // the last call for this stream
} stream_handlers;

#endif
