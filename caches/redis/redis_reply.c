// SPDX-License-Identifier: Apache-2.0
// hiredis calls the functions below for each item. They fill a redis_reply instead of building a
// tree, so that a malformed reply cannot make us allocate much memory.
#include "caches/redis/redis_reply.h"

#include <hiredis.h>
#include <stdint.h>

#define LARGEST_KEPT_BYTES (64 * 1024) // of a reply's memory, for the next one

static redis_reply *reply_of(const redisReadTask *task)
{
  return ((const reply_reader *)task->privdata)->into;
}

static void set_kind(const redisReadTask *task, redis_reply *reply, reply_kind kind)
{
  if (task->parent == NULL)
    reply->kind = kind;
}

static void *make_text(const redisReadTask *task, char *text, size_t size)
{
  redis_reply *reply = reply_of(task);
  if (reply->count == MOST_REPLY_TEXTS)
    return NULL;
  set_kind(task, reply, task->type == REDIS_REPLY_ERROR ? REPLY_ERROR : REPLY_TEXT);
  reply->texts[reply->count].offset = reply->bytes.size;
  reply->texts[reply->count++].size = size;
  buffer_append(&reply->bytes, text, size);
  buffer_append_char(&reply->bytes, '\0');
  return reply->bytes.failed ? NULL : reply;
}

// Redis 6 and hiredis 1 have additional types; both need an object for each item.
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *make_list(const redisReadTask *task, element_count count)
{
  redis_reply *reply = reply_of(task);
  if (task->parent != NULL || (intmax_t)count < 0 || (intmax_t)count > MOST_REPLY_TEXTS)
    return NULL;
  reply->kind = REPLY_LIST;
  return reply;
}

static void *make_number(const redisReadTask *task, long long number)
{
  (void)number;
  set_kind(task, reply_of(task), REPLY_NUMBER);
  return reply_of(task);
}

static void *make_nothing(const redisReadTask *task)
{
  set_kind(task, reply_of(task), REPLY_NOTHING);
  return reply_of(task);
}

static void keep(void *object)
{
  (void)object; // owned by the caller
}

static redisReplyObjectFunctions functions = {
    .createString = make_text,
    .createArray = make_list,
    .createInteger = make_number,
    .createNil = make_nothing,
    .freeObject = keep,
};

bool reply_reader_init(reply_reader *r)
{
  *r = (reply_reader){.reader = redisReaderCreateWithFunctions(&functions)};
  if (r->reader != NULL)
    r->reader->privdata = r;
  return r->reader != NULL;
}

void reply_reader_fini(reply_reader *r)
{
  if (r->reader != NULL)
    redisReaderFree(r->reader);
}

void reply_reader_begin(reply_reader *r, redis_reply *reply)
{
  if (reply->bytes.capacity > LARGEST_KEPT_BYTES || reply->bytes.failed)
    redis_reply_fini(reply);
  reply->kind = REPLY_NOTHING;
  reply->bytes.size = 0;
  reply->count = 0;
  r->into = reply;
  r->fed = 0;
}

reply_progress reply_reader_feed(reply_reader *r, const char *data, size_t size)
{
  void *object = NULL;
  r->fed += size;
  if (r->fed > MOST_REPLY_BYTES ||
      (size > 0 && redisReaderFeed(r->reader, data, size) != REDIS_OK) ||
      redisReaderGetReply(r->reader, &object) != REDIS_OK)
    return REPLY_DAMAGED;
  return object == NULL ? REPLY_WANTS_MORE : REPLY_COMPLETE;
}

slice redis_reply_text(const redis_reply *reply, size_t index)
{
  return (slice){reply->bytes.data + reply->texts[index].offset, reply->texts[index].size};
}

void redis_reply_fini(redis_reply *reply)
{
  buffer_fini(&reply->bytes);
  reply->bytes = BUFFER_EMPTY;
}
