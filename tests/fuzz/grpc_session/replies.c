// SPDX-License-Identifier: Apache-2.0
#include "replies.h"

#include "../fuzz.h"
#include "frontend/grpc/transport/connection.h"

#define FRAME_BYTES 9

typedef struct frame {
  uint8_t type, flags;
  uint32_t stream;
  size_t size;
  const uint8_t *payload;
} frame;

static uint32_t number(const uint8_t *at, size_t size)
{
  uint32_t value = 0;
  for (size_t i = 0; i < size; i++)
    value = value << 8 | at[i];
  return value;
}

static reply_stream *stream_of(replies *r, const frame *f)
{
  CHECK(f->stream % 2 == 1);
  return f->stream / 2 < REPLIES_STREAMS ? &r->streams[f->stream / 2] : NULL;
}

static void take_data(replies *r, reply_stream *s, const uint8_t *data, size_t size)
{
  while (size > 0 && !s->is_text) {
    if (s->missing == 0) {
      s->prefix[s->prefix_size++] = *data++;
      size--;
      s->is_text = s->prefix[0] == 'T';
      CHECK(s->is_text || s->prefix[0] <= 1);
      if (s->prefix_size == sizeof(s->prefix)) {
        s->missing = number(s->prefix + 1, 4);
        s->prefix_size = 0;
        s->messages++;
        r->bytes += s->missing;
      }
      continue;
    }
    size_t step = size < s->missing ? size : s->missing;
    if (r->text != NULL)
      buffer_append(r->text, data, step);
    s->missing -= step;
    data += step;
    size -= step;
  }
}

// A stream has a header, then messages, then a status; or just one of both; or it is reset.
static void take_of_stream(replies *r, const frame *f)
{
  reply_stream *s = stream_of(r, f);
  if (s == NULL)
    return;
  if (f->type == NGHTTP2_RST_STREAM) {
    CHECK(f->size == 4 && !s->reset);
    s->reset = true;
    return;
  }
  CHECK(!s->ended && !s->reset);
  CHECK(f->type == NGHTTP2_HEADERS || s->begun);
  if (f->type == NGHTTP2_DATA)
    take_data(r, s, f->payload, f->size);
  s->begun = true;
  if ((f->flags & NGHTTP2_FLAG_END_STREAM) == 0)
    return;
  CHECK(s->is_text || (s->missing == 0 && s->prefix_size == 0));
  s->ended = true;
  r->ended++;
}

static void take_frame(replies *r, const frame *f)
{
  CHECK(f->type == NGHTTP2_SETTINGS || r->frames > 0);
  r->frames++;
  switch (f->type) {
  case NGHTTP2_DATA:
  case NGHTTP2_HEADERS:
  case NGHTTP2_RST_STREAM:
    take_of_stream(r, f);
    break;
  case NGHTTP2_SETTINGS:
    CHECK(f->stream == 0 && f->size % 6 == 0);
    break;
  case NGHTTP2_PING:
    CHECK(f->stream == 0 && f->size == 8);
    break;
  case NGHTTP2_GOAWAY:
    CHECK(f->stream == 0 && f->size >= 8);
    break;
  case NGHTTP2_WINDOW_UPDATE:
    CHECK(f->size == 4 && number(f->payload, 4) > 0);
    break;
  default:
    CHECK(false); // a frame of a type that the server does not send
  }
}

void replies_take(replies *r, const char *data, size_t size)
{
  buffer_append(&r->unread, data, size);
  size_t at = 0;
  while (r->unread.size - at >= FRAME_BYTES) {
    const uint8_t *head = (const uint8_t *)r->unread.data + at;
    frame f = {head[3], head[4], number(head + 5, 4), number(head, 3), head + FRAME_BYTES};
    CHECK(f.size <= CONNECTION_FRAME_BYTES && f.stream >> 31 == 0);
    if (r->unread.size - at - FRAME_BYTES < f.size)
      break;
    take_frame(r, &f);
    at += FRAME_BYTES + f.size;
  }
  if (at == 0)
    return;
  memmove(r->unread.data, r->unread.data + at, r->unread.size - at);
  r->unread.size -= at;
}

void replies_fini(replies *r)
{
  buffer_fini(&r->unread);
}
