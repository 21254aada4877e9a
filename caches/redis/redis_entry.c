// SPDX-License-Identifier: Apache-2.0
// The data comes from another machine, where others may write it: nothing read here is trusted.
#include "caches/redis/redis_entry.h"

#include "backend_error.h"
#include "base/checked.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- writing ----

static TRITONSERVER_Error *read_sizes(TRITONCACHE_CacheEntry *entry, size_t *sizes, size_t count,
                                      size_t *sum)
{
  TRITONSERVER_BufferAttributes *attributes;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_BufferAttributesNew(&attributes));
  TRITONSERVER_Error *e = NULL;
  for (size_t i = 0; e == NULL && i < count; i++) {
    void *base;
    e = TRITONCACHE_CacheEntryGetBuffer(entry, i, &base, attributes);
    if (e == NULL)
      e = TRITONSERVER_BufferAttributesByteSize(attributes, &sizes[i]);
    if (e == NULL && (sizes[i] == 0 || !checked_add_size(*sum, sizes[i], sum)))
      e = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "Buffer size was zero");
  }
  TRITONSERVER_ErrorDelete(TRITONSERVER_BufferAttributesDelete(attributes));
  return e;
}

TRITONSERVER_Error *redis_write_new(const char *key, TRITONCACHE_CacheEntry *entry,
                                    TRITONCACHE_Allocator *allocator, redis_write **result)
{
  size_t count, sizes[MOST_BUFFERS], sum = sizeof(redis_write) + strlen(key) + 1;
  BACKEND_RETURN_IF_ERROR(TRITONCACHE_CacheEntryBufferCount(entry, &count));
  if (count > MOST_BUFFERS)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "too many buffers");
  BACKEND_RETURN_IF_ERROR(read_sizes(entry, sizes, count, &sum));
  redis_write *write = malloc(sum);
  if (write == NULL)
    return backend_error_no_memory("an entry of the response cache");
  *write = (redis_write){.bytes = sum, .count = count, .key = write->data};
  memcpy(write->key, key, strlen(key) + 1);
  char *at = write->data + strlen(key) + 1;
  TRITONSERVER_Error *e = NULL;
  for (size_t i = 0; e == NULL && i < count; at += sizes[i++]) {
    write->buffers[i].base = at;
    write->buffers[i].size = sizes[i];
    e = TRITONCACHE_CacheEntrySetBuffer(entry, i, at, NULL);
  }
  if (e == NULL)
    e = TRITONCACHE_Copy(allocator, entry);
  if (e != NULL) {
    free(write);
    return e;
  }
  *result = write;
  return NULL;
}

static void add_word(write_command *command, const char *word, size_t size)
{
  command->words[command->count] = word;
  command->sizes[command->count++] = size;
}

static void add_text(write_command *command, const char *text)
{
  add_word(command, text, strlen(text));
}

// The names of a buffer's fields, and its size as digits.
static void print_names(size_t index, size_t size, char names[5][24])
{
  static const char letters[] = "bsti";
  for (size_t n = 0; n < 4; n++)
    snprintf(names[n], sizeof(names[n]), "%zu:%c", index, letters[n]);
  snprintf(names[4], sizeof(names[4]), "%zu", size);
}

void redis_write_command(const redis_write *write, write_command *command)
{
  command->count = 0;
  add_text(command, "HSET");
  add_text(command, write->key);
  for (size_t i = 0; i < write->count; i++) {
    print_names(i, write->buffers[i].size, command->space[i]);
    add_text(command, command->space[i][0]);
    add_word(command, write->buffers[i].base, write->buffers[i].size);
    add_text(command, command->space[i][1]);
    add_text(command, command->space[i][4]);
    add_text(command, command->space[i][2]);
    add_text(command, "0");
    add_text(command, command->space[i][3]);
    add_text(command, "0");
  }
}

// ---- reading ----

// The value of a field; false when absent.
static bool find_field(const redis_reply *reply, const char *name, slice *value)
{
  for (size_t i = 0; i + 1 < reply->count; i += 2) {
    if (slice_equal_text(redis_reply_text(reply, i), name)) {
      *value = redis_reply_text(reply, i + 1);
      return true;
    }
  }
  return false;
}

static bool is_host_memory(slice type)
{
  return slice_equal_text(type, "0") || slice_equal_text(type, "1"); // plain, pinned
}

bool redis_entry_read(const redis_reply *reply, slice buffers[MOST_BUFFERS], size_t *count)
{
  char names[5][24];
  slice data, size, type;
  uint64_t bytes;
  if (reply->kind != REPLY_LIST || reply->count % 2 != 0)
    return false;
  for (*count = 0; *count < MOST_BUFFERS; (*count)++) {
    print_names(*count, 0, names);
    if (!find_field(reply, names[0], &data))
      break;
    if (data.size == 0 || !find_field(reply, names[1], &size) ||
        !find_field(reply, names[2], &type) || !text_to_uint64(size, &bytes) ||
        bytes != data.size || !is_host_memory(type))
      return false;
    buffers[*count] = data;
  }
  return *count > 0;
}
