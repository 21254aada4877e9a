// Assembles and unpacks request messages. Loop threads; workers unpack what is long.
#include "frontend/grpc/call/grpc_message.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "frontend/common/net/jobs.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define AT_ONCE_BYTES ((size_t)64 << 20) // a message up to here has its memory at once
#define FIRST_BYTES   ((size_t)1 << 20)  // of others: the rest is taken as it comes
#define SMALL_BYTES   ((size_t)16 << 10) // the same, of one that the budget has no room for yet
#define COUNTED_BYTES ((size_t)8 << 10)  // messages from here on count for the budget
#define GZIP_WINDOW   (MAX_WBITS + 16)

static const char *const coding_names[] = {
    [CODING_IDENTITY] = "identity",
    [CODING_GZIP] = "gzip",
    [CODING_DEFLATE] = "deflate",
};

content_coding message_coding_of(slice name)
{
  for (int i = CODING_IDENTITY; i < CODING_UNKNOWN; i++)
    if (slice_equal_text(name, coding_names[i]))
      return (content_coding)i;
  return CODING_UNKNOWN;
}

bool message_coding_is_listed(slice list, content_coding coding)
{
  while (list.size > 0) {
    const char *comma = memchr(list.data, ',', list.size);
    size_t size = comma == NULL ? list.size : (size_t)(comma - list.data);
    slice item = {list.data, size};
    while (item.size > 0 && *item.data == ' ')
      item = (slice){item.data + 1, item.size - 1};
    while (item.size > 0 && item.data[item.size - 1] == ' ')
      item.size--;
    if (slice_equal_text(item, coding_names[coding]))
      return true;
    size_t skipped = comma == NULL ? list.size : size + 1;
    list = (slice){list.data + skipped, list.size - skipped};
  }
  return false;
}

// --- One message

void grpc_message_free(grpc_message *m)
{
  if (m == NULL)
    return;
  if (m->reserved > 0)
    budget_give_back(m->budget, m->reserved);
  block_free(m->memory, m->memory_size);
  free(m);
}

static size_t padding_before(size_t size)
{
  return (MESSAGE_ALIGNMENT - size % MESSAGE_ALIGNMENT) % MESSAGE_ALIGNMENT;
}

static bool reserve(grpc_message *m, size_t size)
{
  if (size < COUNTED_BYTES || size <= m->reserved)
    return true;
  if (!budget_take_input(m->budget, size - m->reserved))
    return false;
  m->reserved = size;
  return true;
}

// Makes the block `capacity` bytes large; what is in it stays.
static message_fault resize(grpc_message *m, size_t capacity)
{
  void *grown = m->memory == NULL ? block_allocate(capacity)
                                  : block_grow(m->memory, m->memory_size, capacity);
  if (grown == NULL)
    return MESSAGE_NO_MEMORY;
  m->memory = grown;
  m->memory_size = capacity;
  m->data = (char *)grown + padding_before(m->size);
  return MESSAGE_OK;
}

// A message of `size` bytes with room for the first `expected` of them at least.
static message_fault make_message(byte_budget *budget, size_t size, size_t expected,
                                  grpc_message **made)
{
  size_t padding = padding_before(size);
  grpc_message *m = calloc(1, sizeof(*m));
  if (m == NULL)
    return MESSAGE_NO_MEMORY;
  m->budget = budget;
  m->size = size;
  message_fault fault = resize(m, padding + (expected < size ? expected : size) + 1);
  if (fault == MESSAGE_OK)
    *made = m;
  else
    grpc_message_free(m);
  return fault;
}

// Room for `needed` bytes of it, which have come.
static message_fault make_room(grpc_message *m, size_t needed)
{
  size_t padding = padding_before(m->size);
  size_t whole = padding + m->size + 1;
  if (!reserve(m, needed))
    return MESSAGE_OVER_BUDGET;
  if (padding + needed < m->memory_size)
    return MESSAGE_OK;
  size_t doubled = m->memory_size > whole / 2 ? whole : m->memory_size * 2;
  size_t wanted = padding + needed + 1;
  return resize(m, doubled > wanted ? doubled : wanted);
}

// --- Unpacking

// A packed message, and what is unpacked of it.
typedef struct unpacking {
  z_stream z;
  grpc_message *packed; // owned
  byte_budget *budget;
  buffer out;
  size_t most;     // bytes that it may become
  size_t reserved; // from the budget, for `out`
} unpacking;

static void unpacking_free(unpacking *u)
{
  if (u == NULL)
    return;
  inflateEnd(&u->z);
  budget_give_back(u->budget, u->reserved);
  buffer_fini(&u->out);
  grpc_message_free(u->packed);
  free(u);
}

static size_t most_of(size_t packed_size)
{
  size_t most;
  if (!checked_multiply_size(packed_size, MESSAGE_UNPACKED_TIMES, &most) ||
      most < MESSAGE_UNPACKED_BYTES)
    most = MESSAGE_UNPACKED_BYTES;
  return most < MESSAGE_MAX_BYTES ? most : MESSAGE_MAX_BYTES;
}

// Owns the message if it succeeds. NULL when memory is short.
static unpacking *unpacking_new(byte_budget *budget, content_coding coding,
                                grpc_message *packed_owned)
{
  unpacking *u = calloc(1, sizeof(*u));
  if (u == NULL)
    return NULL;
  if (inflateInit2(&u->z, coding == CODING_GZIP ? GZIP_WINDOW : MAX_WBITS) != Z_OK) {
    free(u);
    return NULL;
  }
  u->budget = budget;
  u->packed = packed_owned;
  u->most = most_of(packed_owned->size);
  u->z.next_in = (unsigned char *)packed_owned->data;
  u->z.avail_in = (unsigned)packed_owned->size;
  return u;
}

// Unpacks until there is enough, or *done.
static message_fault inflate_some(unpacking *u, size_t enough, bool *done)
{
  buffer *out = &u->out;
  *done = false;
  while (out->size < enough) {
    size_t step = out->size < FIRST_BYTES / 4 ? FIRST_BYTES / 4 : out->size;
    if (step > u->most - out->size)
      step = u->most - out->size + 1;
    if (!budget_take_input(u->budget, step))
      return MESSAGE_OVER_BUDGET;
    u->reserved += step;
    char *to = buffer_reserve(out, step);
    if (to == NULL)
      return MESSAGE_NO_MEMORY;
    u->z.next_out = (unsigned char *)to;
    u->z.avail_out = (unsigned)step;
    int result = inflate(&u->z, Z_NO_FLUSH);
    out->size += step - u->z.avail_out;
    if (out->size > u->most)
      return u->most == MESSAGE_MAX_BYTES ? MESSAGE_TOO_LARGE : MESSAGE_BOMB;
    *done = result == Z_STREAM_END;
    if (*done)
      return u->z.avail_in == 0 ? MESSAGE_OK : MESSAGE_CORRUPT;
    if (result != Z_OK || (u->z.avail_in == 0 && u->z.avail_out > 0))
      return MESSAGE_CORRUPT;
  }
  return MESSAGE_OK;
}

// The message that it has become.
static message_fault take_unpacked(unpacking *u, grpc_message **complete)
{
  grpc_message *plain;
  message_fault fault = make_message(u->budget, u->out.size, u->out.size, &plain);
  if (fault != MESSAGE_OK)
    return fault;
  plain->reserved = u->out.size;
  u->reserved -= u->out.size;
  if (u->out.size > 0)
    memcpy(plain->data, u->out.data, u->out.size);
  *complete = plain;
  return MESSAGE_OK;
}

bool message_reader_is_unpacking(const message_reader *r)
{
  return r->unpacking != NULL;
}

// Up to `enough` bytes of it.
static message_fault unpack(message_reader *r, size_t enough, grpc_message **complete)
{
  bool done = false;
  message_fault fault = inflate_some(r->unpacking, enough, &done);
  if (fault == MESSAGE_OK && !done)
    return MESSAGE_OK;
  if (fault == MESSAGE_OK)
    fault = take_unpacked(r->unpacking, complete);
  unpacking_free(r->unpacking);
  r->unpacking = NULL;
  return fault;
}

message_fault message_reader_unpack(message_reader *r, grpc_message **complete)
{
  *complete = NULL;
  return unpack(r, SIZE_MAX, complete);
}

// --- Reading

void message_reader_fini(message_reader *r)
{
  grpc_message_free(r->current);
  r->current = NULL;
  unpacking_free(r->unpacking);
  r->unpacking = NULL;
}

bool message_reader_is_inside(const message_reader *r)
{
  return r->current != NULL || r->prefix_size > 0 || r->unpacking != NULL;
}

// The prefix is complete: checks it and makes the message.
static message_fault begin(message_reader *r, content_coding coding)
{
  uint32_t size = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
                  (uint32_t)r->prefix[3] << 8 | r->prefix[4];
  r->compressed = r->prefix[0] == 1;
  r->received = 0;
  if (r->prefix[0] > 1)
    return MESSAGE_BAD_FLAG;
  if (r->compressed && coding == CODING_IDENTITY)
    return MESSAGE_NO_CODING;
  if (size > MESSAGE_MAX_BYTES)
    return MESSAGE_TOO_LARGE;
  if (!budget_has_room(r->budget, size))
    return MESSAGE_OVER_BUDGET;
  // Announcing is free: beyond half of the budget bytes count, and get memory, as they come.
  bool announced = size >= COUNTED_BYTES && budget_take_announced(r->budget, size);
  message_fault fault = make_message(r->budget, size,
                                     !announced              ? SMALL_BYTES
                                     : size <= AT_ONCE_BYTES ? size
                                                             : FIRST_BYTES,
                                     &r->current);
  if (fault == MESSAGE_OK && announced)
    r->current->reserved = size;
  else if (announced)
    budget_give_back(r->budget, size);
  return fault;
}

static message_fault finish(message_reader *r, content_coding coding, grpc_message **complete)
{
  grpc_message *m = r->current;
  r->current = NULL;
  r->prefix_size = 0;
  if (!r->compressed) {
    *complete = m;
    return MESSAGE_OK;
  }
  r->unpacking = unpacking_new(r->budget, coding, m);
  if (r->unpacking == NULL) {
    grpc_message_free(m);
    return MESSAGE_NO_MEMORY;
  }
  return m->size > JOBS_LOOP_BYTES ? MESSAGE_OK : unpack(r, JOBS_LOOP_BYTES, complete);
}

message_fault message_reader_take(message_reader *r, content_coding coding, const char *data,
                                  size_t size, size_t *taken, grpc_message **complete)
{
  *taken = 0;
  *complete = NULL;
  while (r->current == NULL) {
    if (*taken == size)
      return MESSAGE_OK;
    r->prefix[r->prefix_size++] = (unsigned char)data[(*taken)++];
    message_fault fault = r->prefix_size == MESSAGE_PREFIX_BYTES ? begin(r, coding) : MESSAGE_OK;
    if (fault != MESSAGE_OK)
      return fault;
  }
  size_t missing = r->current->size - r->received;
  size_t step = size - *taken < missing ? size - *taken : missing;
  message_fault fault = make_room(r->current, r->received + step);
  if (fault != MESSAGE_OK)
    return fault;
  if (step > 0)
    memcpy(r->current->data + r->received, data + *taken, step);
  *taken += step;
  r->received += step;
  return r->received == r->current->size ? finish(r, coding, complete) : MESSAGE_OK;
}
