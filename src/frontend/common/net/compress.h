// Compresses replies. Pure; any thread.
#ifndef NEREID_FRONTEND_COMMON_NET_COMPRESS_H
#define NEREID_FRONTEND_COMMON_NET_COMPRESS_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

// Appends the parts, one after the other, to `to`, in the format gzip or deflate (zlib's). `level`
// is zlib's. False when memory is short.
bool compress_parts(bool gzip, int level, const slice *parts, size_t count, buffer *to);

#endif
