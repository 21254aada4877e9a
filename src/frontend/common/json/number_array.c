// SPDX-License-Identifier: Apache-2.0
// Reading: a stretch of text is cut into parts at commas. The commas of each part are counted
// first, so that each part knows where its elements go. If a part has anything but plain elements,
// the stretch ends there, and the caller continues. Printing: parts are printed with room between
// them, then moved together.
#include "frontend/common/json/number_array.h"

#include <string.h>

#define STRETCH_BYTES    (NUMBER_ARRAY_PARTS * NUMBER_ARRAY_PART_BYTES)
#define STRETCH_ELEMENTS (NUMBER_ARRAY_PARTS * NUMBER_ARRAY_PART_ELEMENTS)
#define BLOCK_ELEMENTS   256 // short arrays get room for this many at a time

// ---- reading ----

static bool begins_number(const char *text)
{
  return *text == '-' || (*text >= '0' && *text <= '9');
}

// number_array_read in one part.
static size_t read_plain(const number_array_reader *r, const char *text, const char *limit,
                         char *out, size_t max_count, const char **end)
{
  size_t count = 0;
  *end = text;
  while (count < max_count && text < limit) {
    const char *stop;
    size_t taken = r->form->read_run == NULL
                       ? 0
                       : r->form->read_run(text, limit, out, max_count - count, &stop);
    if (taken == 0 && (r->form->read(text, &stop, out) != NUMBER_READ_OK || stop > limit))
      break;
    taken += taken == 0;
    count += taken;
    out += taken * r->form->size;
    *end = stop;
    // The text is followed by zeroes, so reading beyond it is safe.
    text = stop + 1 + (stop[0] == ',' && stop[1] == ' ');
    if (*stop != ',' || text >= limit || !begins_number(text))
      break;
  }
  return count;
}

typedef struct read_part {
  const char *begin, *limit;
  size_t max_count; // commas + 1
  char *out;
  size_t count;
  const char *end;
} read_part;

typedef struct read_stretch {
  const number_array_reader *reader;
  read_part parts[NUMBER_ARRAY_PARTS];
} read_stretch;

// Counts in eight lanes at a time, each for up to 255 bytes.
static size_t count_commas(const char *text, const char *end)
{
  const uint64_t ones = 0x0101010101010101;
  const uint64_t low_bits = 0x7f * ones;
  size_t count = 0;
  while (end - text >= 8) {
    size_t words = (size_t)(end - text) / 8;
    uint64_t lanes = 0;
    for (size_t i = words < 255 ? words : 255; i > 0; i--, text += 8) {
      uint64_t word;
      memcpy(&word, text, 8);
      word ^= ',' * ones; // a comma is a zero byte now; no carry leaves a byte
      lanes += ~(((word & low_bits) + low_bits) | word | low_bits) >> 7;
    }
    for (; lanes != 0; lanes >>= 8)
      count += lanes & 0xff;
  }
  for (; text < end; text++)
    count += *text == ',';
  return count;
}

static void count_part(void *context, size_t index)
{
  read_part *part = &((read_stretch *)context)->parts[index];
  part->max_count = count_commas(part->begin, part->limit) + 1;
}

static void read_one_part(void *context, size_t index)
{
  read_stretch *s = context;
  read_part *part = &s->parts[index];
  part->count =
      read_plain(s->reader, part->begin, part->limit, part->out, part->max_count, &part->end);
}

// Returns how many parts there are.
static size_t cut(read_stretch *s, const char *text, const char *limit)
{
  size_t count = 0;
  while (count < NUMBER_ARRAY_PARTS && text < limit) {
    read_part *part = &s->parts[count++];
    const char *comma = NULL;
    if ((size_t)(limit - text) > NUMBER_ARRAY_PART_BYTES)
      comma = memchr(text + NUMBER_ARRAY_PART_BYTES, ',',
                     (size_t)(limit - text) - NUMBER_ARRAY_PART_BYTES);
    part->begin = text;
    part->limit = comma == NULL ? limit : comma;
    text = comma == NULL ? limit : comma + 1 + (comma[1] == ' ');
  }
  return count;
}

static size_t read_parts(read_stretch *s, size_t part_count, char *out, size_t room,
                         const char **end)
{
  const number_array_reader *r = s->reader;
  size_t count = 0;
  parallel_run(r->parallel, part_count, count_part, s);
  for (size_t i = 0; i < part_count; i++) { // parts beyond `room` read nothing
    read_part *part = &s->parts[i];
    part->max_count = part->max_count < room ? part->max_count : room;
    part->out = out;
    out += part->max_count * r->form->size;
    room -= part->max_count;
  }
  parallel_run(r->parallel, part_count, read_one_part, s);
  for (size_t i = 0; i < part_count; i++) {
    const read_part *part = &s->parts[i];
    count += part->count;
    if (part->count > 0)
      *end = part->end;
    if (part->count < part->max_count || part->end != part->limit)
      break; // what follows does not join on
  }
  return count;
}

size_t number_array_read(number_array_reader *r, const char *text, const char *limit, char *out,
                         size_t max_count, const char **end)
{
  if (limit - text > (ptrdiff_t)STRETCH_BYTES)
    limit = text + STRETCH_BYTES;
  if (r->plain || limit - text <= (ptrdiff_t)NUMBER_ARRAY_PART_BYTES)
    return read_plain(r, text, limit, out, max_count, end);
  const char *bracket = memchr(text, ']', (size_t)(limit - text));
  if (bracket != NULL)
    limit = bracket;
  read_stretch s = {.reader = r};
  size_t part_count = cut(&s, text, limit);
  *end = text;
  size_t count = part_count > 1 ? read_parts(&s, part_count, out, max_count, end)
                                : read_plain(r, text, limit, out, max_count, end);
  // Parts must not cost more than they bring: if less than half of the text was read, use one part
  // from now on.
  r->plain = (limit - *end) > (*end - text);
  return count;
}

// ---- printing ----

typedef struct print_stretch {
  const number_form *form;
  const char *in;
  size_t count;
  char *out;
  size_t text_sizes[NUMBER_ARRAY_PARTS];
} print_stretch;

// Room for `count` elements in the worst case.
static size_t room_for(size_t count)
{
  return count * (NUMBER_TEXT_BYTES + 1);
}

static void print_part(void *context, size_t index)
{
  print_stretch *s = context;
  size_t first = index * NUMBER_ARRAY_PART_ELEMENTS;
  size_t left = s->count - first;
  size_t count = left < NUMBER_ARRAY_PART_ELEMENTS ? left : NUMBER_ARRAY_PART_ELEMENTS;
  const char *in = s->in + first * s->form->size;
  char *const start = s->out + room_for(first);
  char *at = start;
  for (size_t i = 0; i < count; i++, in += s->form->size) {
    at += s->form->print(at, in);
    *at++ = ',';
  }
  s->text_sizes[index] = (size_t)(at - start);
}

// Returns the size of the text.
static size_t print_parts(print_stretch *s, const parallel *p)
{
  size_t parts = (s->count + NUMBER_ARRAY_PART_ELEMENTS - 1) / NUMBER_ARRAY_PART_ELEMENTS;
  parallel_run(parts == 1 ? NULL : p, parts, print_part, s);
  size_t size = s->text_sizes[0];
  for (size_t i = 1; i < parts; i++) {
    memmove(s->out + size, s->out + room_for(i * NUMBER_ARRAY_PART_ELEMENTS), s->text_sizes[i]);
    size += s->text_sizes[i];
  }
  return size;
}

bool number_array_print(const number_form *form, const parallel *p, const char *in, uint64_t count,
                        buffer *out)
{
  // A stretch needs room for several times its text, so only long arrays get it.
  size_t stretch = count <= STRETCH_ELEMENTS ? BLOCK_ELEMENTS : STRETCH_ELEMENTS;
  while (count > 0) {
    size_t block = count < stretch ? (size_t)count : stretch;
    print_stretch s = {.form = form, .in = in, .count = block};
    s.out = buffer_reserve(out, room_for(block));
    if (s.out == NULL)
      return false;
    out->size += print_parts(&s, p);
    in += block * form->size;
    count -= block;
  }
  return true;
}
