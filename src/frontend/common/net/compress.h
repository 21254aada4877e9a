// SPDX-License-Identifier: Apache-2.0
// Codings of bodies and messages, and compressing into them. Pure; any thread.
#ifndef NEREID_FRONTEND_COMMON_NET_COMPRESS_H
#define NEREID_FRONTEND_COMMON_NET_COMPRESS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum content_coding {
  CODING_IDENTITY,
  CODING_GZIP,
  CODING_DEFLATE,
  CODING_UNKNOWN, // one that the server does not speak, or several on top of each other
} content_coding;

#define COMPRESS_FAST 1 // level: a loop serves other clients, too

// Appends the parts, one after the other, to `to` in `coding` (gzip or deflate). `level` is zlib's.
// False when memory is short.
bool compress_parts(content_coding coding, int level, const slice *parts, size_t count, buffer *to);

#endif
