// SPDX-License-Identifier: Apache-2.0
// One reply of Redis, read by hiredis: a text, a number, nothing, or a flat list of texts. Other
// forms (nested or long lists) count as damaged. One thread at a time.
#ifndef NEREID_CACHES_REDIS_REPLY_H
#define NEREID_CACHES_REDIS_REPLY_H

#include "base/buffer.h"
#include "base/slice.h"

#include <read.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST_REPLY_TEXTS 64
#define MOST_REPLY_BYTES ((size_t)1 << 30) // of one reply; Redis allows texts of half this size

typedef enum reply_kind {
  REPLY_TEXT,
  REPLY_NUMBER,
  REPLY_NOTHING,
  REPLY_LIST,
  REPLY_ERROR, // the error is texts[0]
} reply_kind;

typedef struct redis_reply {
  reply_kind kind;
  buffer bytes; // of the texts, each with a NUL
  size_t count; // of texts
  struct {
    size_t offset, size;
  } texts[MOST_REPLY_TEXTS];
} redis_reply;

typedef struct reply_reader {
  redisReader *reader;
  redis_reply *into; // while reading a reply
  size_t fed;        // bytes since the reply began
} reply_reader;

typedef enum reply_progress {
  REPLY_WANTS_MORE,
  REPLY_COMPLETE,
  REPLY_DAMAGED, // not a reply that we read; the rest of the stream is useless
} reply_progress;

bool reply_reader_init(reply_reader *r); // false: memory is short
void reply_reader_fini(reply_reader *r);

// Empties `reply`, to be filled.
void reply_reader_begin(reply_reader *r, redis_reply *reply);
// Takes received bytes; none checks whether a whole reply is there already.
reply_progress reply_reader_feed(reply_reader *r, const char *data, size_t size);

slice redis_reply_text(const redis_reply *reply, size_t index);
void redis_reply_fini(redis_reply *reply);

#endif
