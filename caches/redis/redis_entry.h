// SPDX-License-Identifier: Apache-2.0
// An entry in the form of Triton's Redis cache: a hash. The fields for buffer 0 are "0:b" (its
// bytes), "0:s" (their number), "0:t" and "0:i" (memory type and id), and so on for further
// buffers.
#ifndef NEREID_CACHES_REDIS_ENTRY_H
#define NEREID_CACHES_REDIS_ENTRY_H

#include "base/list.h"
#include "caches/redis/redis_reply.h"
#include "triton/core/tritoncache.h"

#define MOST_BUFFERS 8

// A copy of an entry, to be written.
typedef struct redis_write {
  list_node node;
  size_t bytes; // the whole copy
  char *key;    // in `data`, as the buffers
  size_t count;
  struct {
    char *base;
    size_t size;
  } buffers[MOST_BUFFERS];
  char data[];
} redis_write;

// Copies the entry that the server inserts. For free().
TRITONSERVER_Error *redis_write_new(const char *key, TRITONCACHE_CacheEntry *entry,
                                    TRITONCACHE_Allocator *allocator, redis_write **write);

// The command that writes it, for hiredis. `space` contains some of the words.
#define WRITE_WORDS (2 + 8 * MOST_BUFFERS)
typedef struct write_command {
  int count;
  const char *words[WRITE_WORDS];
  size_t sizes[WRITE_WORDS];
  char space[MOST_BUFFERS][5][24];
} write_command;

void redis_write_command(const redis_write *write, write_command *command);

// Finds the buffers in a reply to HGETALL. False: some are missing or invalid.
bool redis_entry_read(const redis_reply *reply, slice buffers[MOST_BUFFERS], size_t *count);

#endif
