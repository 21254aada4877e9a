// SPDX-License-Identifier: Apache-2.0
// The codings of bodies and messages, and compression. Pure; any thread.
#ifndef NEREID_FRONTEND_COMMON_NET_COMPRESS_H
#define NEREID_FRONTEND_COMMON_NET_COMPRESS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum content_coding {
  CODING_IDENTITY,
  CODING_GZIP,
  CODING_DEFLATE,
  CODING_UNKNOWN, // not supported, or several codings on top of each other
} content_coding;

#define COMPRESS_FAST 1 // zlib's level: the loop must get back to its other clients

// Compresses the parts, in order, and appends the result to `to`. `coding` is gzip or deflate;
// `level` is zlib's. False when memory is short.
bool compress_parts(content_coding coding, int level, const slice *parts, size_t count, buffer *to);

#endif
