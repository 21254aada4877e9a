// gzip and deflate for replies. Loop threads, and those that make long replies.
#include "frontend/common/net/compress.h"

#include <zlib.h>

#define STEP_BYTES  ((size_t)256 << 10) // input taken at a time
#define GZIP_WINDOW (MAX_WBITS + 16)

// Takes what the stream has; room is made for the half of it at a time.
static bool deflate_step(z_stream *z, int flush, buffer *to)
{
  int status;
  do {
    size_t room = z->avail_in / 2 + 256;
    char *out = buffer_reserve(to, room);
    if (out == NULL)
      return false;
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)room;
    status = deflate(z, flush);
    if (status == Z_STREAM_ERROR)
      return false;
    to->size += room - z->avail_out;
  } while (z->avail_out == 0 && status != Z_STREAM_END);
  return true;
}

static bool deflate_part(z_stream *z, slice part, buffer *to)
{
  z->next_in = (Bytef *)part.data;
  while (part.size > 0) {
    z->avail_in = (uInt)(part.size < STEP_BYTES ? part.size : STEP_BYTES);
    part.size -= z->avail_in;
    if (!deflate_step(z, Z_NO_FLUSH, to))
      return false;
  }
  return true;
}

bool compress_parts(bool gzip, int level, const slice *parts, size_t count, buffer *to)
{
  z_stream z = {0};
  int window = gzip ? GZIP_WINDOW : MAX_WBITS;
  if (deflateInit2(&z, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  bool done = true;
  for (size_t i = 0; done && i < count; i++)
    done = deflate_part(&z, parts[i], to);
  done = done && deflate_step(&z, Z_FINISH, to);
  deflateEnd(&z);
  return done;
}
