// Reply messages. Made by the thread that has the call, released by the loop.
#include "frontend/grpc/call/reply.h"

#include "base/checked.h"
#include "base/container_of.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/call/call.h"

#include <stdlib.h>
#include <string.h>

void reply_sources_fini(reply_sources *s)
{
  if (s->response != NULL)
    frontend_log_failure(NULL, "deleting a response",
                         TRITONSERVER_InferenceResponseDelete(s->response));
  buffer_fini(&s->text);
  arena_fini(&s->memory);
}

static void free_reply(output_source *source)
{
  grpc_reply *o = container_of(source, grpc_reply, source);
  reply_sources_fini(&o->from);
  if (o->reserved > 0)
    budget_give_back(&o->call->server->budget, o->reserved);
  call_unref(o->call);
  free(o);
}

grpc_reply *grpc_reply_new(call *c, const slice *parts, size_t count, reply_sources *from_owned,
                           bool compressed)
{
  size_t bytes;
  grpc_reply *o =
      checked_array_size(sizeof(grpc_reply) + sizeof(slice), count, sizeof(slice), &bytes)
          ? malloc(bytes)
          : NULL;
  if (o == NULL) {
    reply_sources_fini(from_owned);
    return NULL;
  }
  *o = (grpc_reply){.parts = (slice *)(o + 1), .part_count = count + 1, .from = *from_owned};
  refcount_init(&o->source.references);
  o->source.free = free_reply;
  size_t size = 0;
  for (size_t i = 0; i < count; i++) {
    o->parts[i + 1] = parts[i];
    size += parts[i].size;
  }
  o->prefix[0] = compressed ? 1 : 0;
  for (int i = 0; i < 4; i++)
    o->prefix[i + 1] = (char)(size >> (24 - 8 * i));
  o->parts[0] = (slice){o->prefix, sizeof(o->prefix)};
  o->size = size + sizeof(o->prefix);
  o->call = c;
  call_ref(c);
  return o;
}

void grpc_reply_unref(grpc_reply *o)
{
  output_source_unref(&o->source);
}
