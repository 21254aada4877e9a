// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a Redis sends, in any pieces. A reply that is complete has its texts within
// what came; an entry found in one has its buffers within the reply.
#include "caches/redis/redis_entry.h"
#include "fuzz.h"

static void check_reply(const redis_reply *reply)
{
  slice buffers[MOST_BUFFERS];
  size_t count;
  CHECK(reply->count <= MOST_REPLY_TEXTS);
  for (size_t i = 0; i < reply->count; i++) {
    const slice text = redis_reply_text(reply, i);
    CHECK(reply->texts[i].offset + text.size < reply->bytes.size && text.data[text.size] == '\0');
  }
  if (!redis_entry_read(reply, buffers, &count))
    return;
  CHECK(reply->kind == REPLY_LIST && count > 0 && count <= MOST_BUFFERS);
  for (size_t i = 0; i < count; i++)
    CHECK(buffers[i].size > 0 && buffers[i].data >= reply->bytes.data &&
          buffers[i].data + buffers[i].size < reply->bytes.data + reply->bytes.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  redis_reply reply = {0};
  reply_reader reader;
  size_t step = 1 + fuzz_byte(&input);
  CHECK(reply_reader_init(&reader));
  reply_reader_begin(&reader, &reply);
  while (input.size > 0) {
    const slice piece = fuzz_take(&input, step);
    reply_progress progress = reply_reader_feed(&reader, piece.data, piece.size);
    while (progress == REPLY_COMPLETE) { // and what came behind it
      check_reply(&reply);
      reply_reader_begin(&reader, &reply);
      progress = reply_reader_feed(&reader, NULL, 0);
    }
    if (progress == REPLY_DAMAGED)
      break;
  }
  reply_reader_fini(&reader);
  redis_reply_fini(&reply);
  return 0;
}
