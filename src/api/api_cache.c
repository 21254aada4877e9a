// SPDX-License-Identifier: Apache-2.0
// TRITONCACHE_*: called by a cache's library while it looks up or inserts, on that thread. Foreign
// libraries call these too, so NULL is an error, as in Triton.
#include "api/convert.h"
#include "core/cache_entry.h"
#include "request/buffer_attributes.h"

#include <assert.h>

static TRITONSERVER_Error *refuse(const char *what)
{
  return error_to_abi(error_new_text(ERROR_INVALID_ARG, what));
}

static bool is_host_memory(const buffer_attributes *a)
{
  return a->memory_type == TRITONSERVER_MEMORY_CPU ||
         a->memory_type == TRITONSERVER_MEMORY_CPU_PINNED;
}

#define NOT_HOST_MEMORY "Only buffers in CPU memory are allowed in cache currently"

TRITONSERVER_Error *TRITONCACHE_CacheEntryBufferCount(TRITONCACHE_CacheEntry *entry, size_t *count)
{
  if (entry == NULL)
    return refuse("entry was nullptr");
  assert(entry->count <= MAX_ENTRY_BUFFERS);
  *count = entry->count;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryAddBuffer(TRITONCACHE_CacheEntry *entry, void *base,
                                                    TRITONSERVER_BufferAttributes *attributes)
{
  if (entry == NULL || base == NULL || attributes == NULL)
    return refuse("entry, base, or attrs was nullptr");
  if (attributes->byte_size == 0)
    return refuse("Buffer byte size was zero");
  if (!is_host_memory(attributes))
    return refuse(NOT_HOST_MEMORY);
  if (entry->count == MAX_ENTRY_BUFFERS)
    return refuse("the entry has as many buffers as it may have");
  entry->buffers[entry->count++] = (cache_buffer){base, attributes->byte_size};
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntryGetBuffer(TRITONCACHE_CacheEntry *entry, size_t index,
                                                    void **base,
                                                    TRITONSERVER_BufferAttributes *attributes)
{
  if (entry == NULL || base == NULL || attributes == NULL)
    return refuse("entry, base, or attrs was nullptr");
  if (index >= entry->count)
    return refuse("index was greater than count");
  *base = entry->buffers[index].base;
  attributes->byte_size = entry->buffers[index].size;
  attributes->memory_type = TRITONSERVER_MEMORY_CPU;
  attributes->memory_type_id = 0;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_CacheEntrySetBuffer(TRITONCACHE_CacheEntry *entry, size_t index,
                                                    void *new_base,
                                                    TRITONSERVER_BufferAttributes *attributes)
{
  if (entry == NULL)
    return refuse("entry was nullptr");
  if (index >= entry->count)
    return refuse("index was greater than count");
  if (attributes != NULL && !is_host_memory(attributes))
    return refuse(NOT_HOST_MEMORY);
  entry->buffers[index].base = new_base;
  if (attributes != NULL)
    entry->buffers[index].size = attributes->byte_size;
  return NULL;
}

TRITONSERVER_Error *TRITONCACHE_Copy(TRITONCACHE_Allocator *allocator,
                                     TRITONCACHE_CacheEntry *entry)
{
  if (allocator == NULL || entry == NULL)
    return refuse("allocator or entry was nullptr");
  return error_to_abi(allocator->copy(allocator, entry));
}
