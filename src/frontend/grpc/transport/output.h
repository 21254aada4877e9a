// SPDX-License-Identifier: Apache-2.0
// What waits to be written to a socket: short pieces are copied into one buffer, long ones are sent
// from where they are. One thread.
#ifndef NEREID_FRONTEND_GRPC_TRANSPORT_OUTPUT_H
#define NEREID_FRONTEND_GRPC_TRANSPORT_OUTPUT_H

#include "base/buffer.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/grpc/transport/conn_wire.h"

#include <stdbool.h>
#include <stddef.h>

// So many bytes may wait for the socket before HTTP/2 is asked for more.
#define OUTPUT_BYTES ((size_t)256 << 10)

#define OUTPUT_COPY_BYTES ((size_t)4 << 10) // up to here a piece is copied

// What long pieces are part of: referenced until they are sent.
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
  buffer text; // pieces that were copied
  size_t text_sent;
  segment *segments; // owned
  size_t first, count, capacity;
  size_t pending; // bytes
} output;

void output_fini(output *o);

// Appends a copy. False when memory is short, and then nothing more may be sent.
bool output_copy(output *o, const void *data, size_t size);

// Appends bytes of the source, which is referenced until they are sent.
bool output_refer(output *o, const char *data, size_t size, output_source *source);

typedef enum output_result {
  OUTPUT_EMPTY,   // all is written
  OUTPUT_BLOCKED, // the socket takes no more now
  OUTPUT_FAILED,  // nor ever
} output_result;

// Writes what the socket takes; *moved says whether it took anything.
output_result output_write(output *o, conn_wire *w, bool *moved);

#endif
