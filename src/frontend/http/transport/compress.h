// Compresses replies. Pure; any thread.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_COMPRESS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_COMPRESS_H

#include "base/buffer.h"
#include "frontend/http/transport/headers.h"

#include <stdbool.h>
#include <stddef.h>

// Appends the parts, one after the other, to `to` in `coding` (gzip or deflate). False when memory
// is short.
bool compress_parts(content_coding coding, const slice *parts, size_t count, buffer *to);

#endif
