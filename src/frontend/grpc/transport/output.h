// SPDX-License-Identifier: Apache-2.0
// A queue of bytes for a socket. Short pieces are copied into one buffer, long ones are sent from
// where they are. One thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_OUTPUT_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_OUTPUT_H

#include "base/buffer.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/grpc/transport/conn_wire.h"

#include <stdbool.h>
#include <stddef.h>

// HTTP/2 is asked for more until this many bytes wait for the socket.
#define OUTPUT_BYTES ((size_t)256 << 10)

#define OUTPUT_COPY_BYTES ((size_t)4 << 10) // a longer piece is not copied

// The owner of long pieces, referenced until they are sent.
typedef struct output_source output_source;
struct output_source {
  refcount references;
  void (*free)(output_source *s); // the last reference is gone
};

static inline void output_source_unref(output_source *s)
{
  if (refcount_drop(&s->references))
    s->free(s);
}

typedef struct segment {
  const char *data; // NULL: the next `size` bytes of the text
  size_t size;
  output_source *source; // referenced, for `data`
} segment;

typedef struct output {
  buffer text; // copied pieces
  size_t text_sent;
  segment *segments; // owned
  size_t first, count, capacity;
  size_t pending; // bytes
} output;

void output_fini(output *o);

// Appends a copy. False when memory is short: then nothing more may be sent.
bool output_copy(output *o, const void *data, size_t size);

// Appends bytes that belong to the source, referenced until they are sent.
bool output_refer(output *o, const char *data, size_t size, output_source *source);

typedef enum output_result {
  OUTPUT_EMPTY,   // all is written
  OUTPUT_BLOCKED, // the socket takes no more for now
  OUTPUT_FAILED,  // the socket has failed
} output_result;

// Writes what the socket takes; *moved: it took something.
output_result output_write(output *o, conn_wire *w, bool *moved);

#endif
