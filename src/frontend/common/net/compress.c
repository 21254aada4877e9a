// SPDX-License-Identifier: Apache-2.0
// gzip and deflate, by zlib.
#include "frontend/common/net/compress.h"

#include <zlib.h>

#define STEP_BYTES ((size_t)256 << 10) // input taken at a time

// Deflates the stream's input. With Z_FINISH it also writes what zlib holds back.
static bool deflate_step(z_stream *stream, int flush, buffer *to)
{
  int status;
  size_t room = (size_t)stream->avail_in / 2 + 512;
  do {
    char *out = buffer_reserve(to, room);
    if (out == NULL)
      return false;
    stream->next_out = (Bytef *)out;
    stream->avail_out = (uInt)room;
    status = deflate(stream, flush);
    if (status == Z_STREAM_ERROR)
      return false;
    to->size += room - stream->avail_out;
    room *= 2;
  } while (stream->avail_out == 0 && status != Z_STREAM_END);
  return true;
}

static bool deflate_part(z_stream *stream, slice part, buffer *to)
{
  while (part.size > 0) {
    size_t taken = part.size < STEP_BYTES ? part.size : STEP_BYTES;
    stream->next_in = (Bytef *)part.data;
    stream->avail_in = (uInt)taken;
    if (!deflate_step(stream, Z_NO_FLUSH, to))
      return false;
    part = (slice){part.data + taken, part.size - taken};
  }
  return true;
}

bool compress_parts(content_coding coding, int level, const slice *parts, size_t count, buffer *to)
{
  z_stream stream = {0};
  int window = MAX_WBITS + (coding == CODING_GZIP ? 16 : 0);
  if (deflateInit2(&stream, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return false;
  bool done = true;
  for (size_t i = 0; done && i < count; i++)
    done = deflate_part(&stream, parts[i], to);
  stream.avail_in = 0;
  done = done && deflate_step(&stream, Z_FINISH, to);
  deflateEnd(&stream);
  return done;
}
