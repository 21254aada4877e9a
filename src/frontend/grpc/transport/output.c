// SPDX-License-Identifier: Apache-2.0
// A queue of segments, written with as few calls as the socket allows.
#include "frontend/grpc/transport/output.h"

#include "base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WRITE_PARTS 64

void output_fini(output *o)
{
  for (size_t i = o->first; i < o->count; i++)
    if (o->segments[i].source != NULL)
      output_source_unref(o->segments[i].source);
  free(o->segments);
  buffer_fini(&o->text);
  *o = (output){0};
}

static segment *add_segment(output *o)
{
  if (o->count == o->capacity) {
    size_t capacity = o->capacity == 0 ? 16 : o->capacity * 2;
    size_t bytes;
    segment *grown = checked_multiply_size(capacity, sizeof(segment), &bytes)
                         ? realloc(o->segments, bytes)
                         : NULL;
    if (grown == NULL)
      return NULL;
    o->segments = grown;
    o->capacity = capacity;
  }
  segment *added = &o->segments[o->count++];
  *added = (segment){0};
  return added;
}

bool output_copy(output *o, const void *data, size_t size)
{
  segment *last = o->count > o->first ? &o->segments[o->count - 1] : NULL;
  if (last == NULL || last->data != NULL)
    last = add_segment(o);
  if (last == NULL)
    return false;
  buffer_append(&o->text, data, size);
  last->size += size;
  o->pending += size;
  return !o->text.failed;
}

bool output_refer(output *o, const char *data, size_t size, output_source *source)
{
  if (size <= OUTPUT_COPY_BYTES)
    return output_copy(o, data, size);
  segment *added = add_segment(o);
  if (added == NULL)
    return false;
  refcount_take(&source->references);
  *added = (segment){data, size, source};
  o->pending += size;
  return true;
}

static int list_parts(const output *o, struct iovec *parts)
{
  int count = 0;
  const char *text = o->text.data + o->text_sent;
  for (size_t i = o->first; i < o->count && count < WRITE_PARTS; i++) {
    const segment *s = &o->segments[i];
    parts[count++] =
        (struct iovec){.iov_base = (char *)(s->data != NULL ? s->data : text), .iov_len = s->size};
    if (s->data == NULL)
      text += s->size;
  }
  return count;
}

// Drops the sent part of both arrays once it is the larger one, because with a slow client the
// queue may never be empty.
static void make_room(output *o)
{
  size_t count = o->count - o->first;
  if (o->first > count) {
    memmove(o->segments, o->segments + o->first, count * sizeof(segment));
    o->first = 0;
    o->count = count;
  }
  size_t size = o->text.size - o->text_sent;
  if (o->text_sent > size) {
    memmove(o->text.data, o->text.data + o->text_sent, size);
    o->text_sent = 0;
    o->text.size = size;
  }
}

static void drop_sent(output *o, size_t sent)
{
  o->pending -= sent;
  while (o->first < o->count) {
    segment *s = &o->segments[o->first];
    size_t step = sent < s->size ? sent : s->size;
    s->size -= step;
    sent -= step;
    if (s->data != NULL)
      s->data += step;
    else
      o->text_sent += step;
    if (s->size > 0)
      break;
    if (s->source != NULL)
      output_source_unref(s->source);
    o->first++;
  }
  make_room(o);
}

output_result output_write(output *o, conn_wire *w, bool *moved)
{
  struct iovec parts[WRITE_PARTS];
  *moved = false;
  while (o->pending > 0) {
    ssize_t sent = conn_wire_write(w, parts, list_parts(o, parts));
    if (sent < 0)
      return errno == EAGAIN ? OUTPUT_BLOCKED : OUTPUT_FAILED;
    *moved = true;
    drop_sent(o, (size_t)sent);
  }
  return OUTPUT_EMPTY;
}
