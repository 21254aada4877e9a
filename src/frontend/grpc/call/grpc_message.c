// SPDX-License-Identifier: Apache-2.0
// Assembles and unpacks request messages. Loop threads; workers unpack long ones.
#include "frontend/grpc/call/grpc_message.h"

#include "base/checked.h"
#include "frontend/common/net/jobs.h"

#include <stdlib.h>
#include <string.h>

#define UNPACKED_FIRST_BYTES ((size_t)256 << 10)

// Bytes of a message count, and get memory, as they come.
static const body_rules message_rules = {
    .counted_from = MESSAGE_COUNTED_BYTES, .count_step = 1, .unannounced_room = 16u << 10};

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
  while (list.size > 0)
    if (slice_equal_text(slice_trim(slice_take_until(&list, ',')), coding_names[coding]))
      return true;
  return false;
}

void grpc_message_free(grpc_message *m)
{
  if (m == NULL)
    return;
  body_fini(m);
  free(m);
}

// --- Unpacking

static size_t most_of(size_t packed_size)
{
  size_t most;
  if (!checked_multiply_size(packed_size, MESSAGE_UNPACKED_TIMES, &most) ||
      most < MESSAGE_UNPACKED_BYTES)
    most = MESSAGE_UNPACKED_BYTES;
  return most < MESSAGE_MAX_BYTES ? most : MESSAGE_MAX_BYTES;
}

bool message_reader_is_unpacking(const message_reader *r)
{
  return r->unpacking != NULL;
}

// Drops the current message.
static message_fault drop(message_reader *r, message_fault fault)
{
  message_reader_fini(r);
  return fault;
}

static message_fault give(message_reader *r, grpc_message **complete)
{
  *complete = r->current;
  r->current = NULL;
  return MESSAGE_OK;
}

// Unpacks up to `enough` bytes.
static message_fault unpack(message_reader *r, size_t enough, grpc_message **complete)
{
  bool done;
  size_t most = most_of(r->current->size);
  body_result result = unpacking_run(r->unpacking, enough, &done);
  if (result == BODY_OK && !done)
    return MESSAGE_OK;
  unpacking_free(r->unpacking);
  r->unpacking = NULL;
  if (result == BODY_OK)
    result = body_fit(r->current);
  if (result == BODY_OK)
    return give(r, complete);
  bool is_bomb = result == BODY_TOO_LARGE && most < MESSAGE_MAX_BYTES;
  return drop(r, is_bomb ? MESSAGE_BOMB : (message_fault)result);
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

// The prefix is complete: checks it and makes the message; `first` are its first bytes.
static message_fault begin(message_reader *r, content_coding coding, slice first)
{
  uint32_t size = (uint32_t)r->prefix[1] << 24 | (uint32_t)r->prefix[2] << 16 |
                  (uint32_t)r->prefix[3] << 8 | r->prefix[4];
  r->compressed = r->prefix[0] == 1;
  if (r->prefix[0] > 1)
    return MESSAGE_BAD_FLAG;
  if (r->compressed && coding == CODING_IDENTITY)
    return MESSAGE_NO_CODING;
  if (size > MESSAGE_MAX_BYTES)
    return MESSAGE_TOO_LARGE;
  grpc_message *m = r->current = malloc(sizeof(*m));
  if (m == NULL)
    return MESSAGE_NO_MEMORY;
  body_init(m, r->budget, NULL, size);
  m->rules = &message_rules;
  if (r->begins != NULL && !r->compressed)
    r->begins(r->begins_context, m, first);
  body_result begun = body_begin(m, size, size);
  return begun == BODY_OK ? MESSAGE_OK : drop(r, (message_fault)begun);
}

static message_fault finish(message_reader *r, content_coding coding, grpc_message **complete)
{
  r->prefix_size = 0;
  if (!r->compressed)
    return give(r, complete);
  size_t most = most_of(r->current->size);
  body_result begun =
      unpacking_new(r->current, coding, true, most, UNPACKED_FIRST_BYTES, &r->unpacking);
  if (begun != BODY_OK)
    return drop(r, (message_fault)begun);
  return r->current->size > JOBS_LOOP_BYTES ? MESSAGE_OK : unpack(r, JOBS_LOOP_BYTES, complete);
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
    const slice first = {data + *taken, size - *taken};
    message_fault fault =
        r->prefix_size == MESSAGE_PREFIX_BYTES ? begin(r, coding, first) : MESSAGE_OK;
    if (fault != MESSAGE_OK)
      return fault;
  }
  grpc_message *m = r->current;
  size_t missing = m->max_size - m->size;
  size_t step = size - *taken < missing ? size - *taken : missing;
  body_result appended = body_append(m, data + *taken, step);
  if (appended != BODY_OK)
    return (message_fault)appended;
  *taken += step;
  return m->size == m->max_size ? finish(r, coding, complete) : MESSAGE_OK;
}
