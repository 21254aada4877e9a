// SPDX-License-Identifier: Apache-2.0
// A list in an arena. Text moves while it grows, so its items get their addresses last.
#include "frontend/grpc/codec/message_parts.h"

#include "base/checked.h"

#include <string.h>

static void add(message_parts *p, slice item)
{
  p->items = p->failed ? NULL : arena_grow_array(p->arena, p->items, p->count, sizeof(slice));
  if (p->items == NULL || !checked_add_size(p->size, item.size, &p->size)) {
    p->failed = true;
    return;
  }
  p->items[p->count++] = item;
}

// Makes an item of the text that is in none yet.
static void add_text(message_parts *p)
{
  size_t size = p->text.size - p->text_used;
  if (size > 0 || p->count == 0)
    add(p, (slice){NULL, size});
  p->text_used = p->text.size;
}

void message_parts_append(message_parts *p, slice data)
{
  if (data.size < MESSAGE_PARTS_COPIED_BYTES) {
    buffer_append_slice(&p->text, data);
    return;
  }
  add_text(p);
  add(p, data);
}

size_t message_parts_size(const message_parts *p)
{
  return p->size + p->text.size - p->text_used;
}

void message_parts_prepend(message_parts *p, slice head)
{
  size_t before = p->text.size;
  add_text(p);
  if (p->failed || head.size == 0 || buffer_reserve(&p->text, head.size) == NULL)
    return;
  memmove(p->text.data + head.size, p->text.data, before);
  memcpy(p->text.data, head.data, head.size);
  p->text.size += head.size;
  p->text_used = p->text.size;
  p->items[0].size += head.size;
  p->size += head.size;
}

bool message_parts_finish(message_parts *p)
{
  add_text(p);
  if (p->failed || p->text.failed)
    return false;
  const char *text = p->text.data != NULL ? p->text.data : "";
  for (size_t i = 0; i < p->count; i++) {
    if (p->items[i].data != NULL)
      continue;
    p->items[i].data = text;
    text += p->items[i].size;
  }
  return true;
}
