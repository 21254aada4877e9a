// A call's life: from the header to the method, and its end. What a method does is in the files
// that methods.c names.
#include "frontend/grpc/call/call.h"

#include "base/checked.h"
#include "base/clock.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/access.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/timeout.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_OVERHEAD 32   // that HPACK counts for each field
#define FAILURE_BYTES  1024 // longer texts are cut
#define FIRST_METADATA 16

// ---- life ----

void call_set_state(call *c, call_state to)
{
  static const unsigned next[] = {
      [CALL_RECEIVING] = 1 << CALL_DISPATCHED | 1 << CALL_ENDED,
      [CALL_DISPATCHED] = 1 << CALL_ENDED,
      [CALL_ENDED] = 0,
  };
  assert((next[c->state] >> to & 1) != 0);
  c->state = to;
}

call *call_open(grpc_connection *connection, int32_t stream_id)
{
  call *c = malloc(sizeof(*c));
  if (c == NULL)
    return NULL;
  memset(c, 0, offsetof(call, arena));
  arena_init(&c->arena, c->arena_memory, sizeof(c->arena_memory));
  refcount_init(&c->references);
  c->server = connection->server;
  c->loop = connection->loop;
  c->connection = connection;
  c->kept_connection = connection;
  c->stream_id = stream_id;
  c->began_ns = grpc_loop_now_ns(c->loop);
  c->body.reader.budget = &c->server->budget;
  c->status = GRPC_UNDECIDED;
  grpc_connection_ref(connection);
  atomic_fetch_add_explicit(&connection->alive, 1, memory_order_relaxed);
  grpc_server_call_began(c->server);
  c->next = connection->calls;
  if (c->next != NULL)
    c->next->previous = c;
  connection->calls = c;
  connection->call_count++;
  connection->used++;
  grpc_connection_call_opened(connection);
  grpc_loop_request_began(c->loop);
  return c;
}

void call_ref(call *c)
{
  refcount_take(&c->references);
}
void call_unref(call *c)
{
  if (!refcount_drop(&c->references))
    return;
  assert(c->state == CALL_ENDED && atomic_load(&c->job.state) != CALL_JOB_RUNS);
  grpc_server *g = c->server;
  message_reader_fini(&c->body.reader);
  message_free(c->body.message);
  buffer_fini(&c->body.held);
  if (c->reply != NULL)
    outgoing_unref(c->reply);
  atomic_fetch_sub_explicit(&c->kept_connection->alive, 1, memory_order_relaxed);
  grpc_connection_unref(c->kept_connection);
  arena_fini(&c->arena);
  free(c);
  grpc_server_call_ended(g);
}

access_record call_access_record(const call *c, grpc_status status)
{
  return (access_record){.protocol = "grpc",
                         .peer = c->kept_connection->peer,
                         .route = c->path.data,
                         .status = (unsigned)status};
}

static void write_access_line(call *c)
{
  access_log *log = c->server->options.access_log;
  if (log == NULL)
    return;
  access_record record = call_access_record(c, c->replies.status);
  if (c->describe != NULL)
    c->describe(c, &record);
  record.total_ns = clock_monotonic_ns() - c->began_ns;
  record.bytes_in = c->body.bytes;
  record.bytes_out = c->replies.bytes;
  access_log_write(log, &record);
}

void call_close(call *c)
{
  grpc_connection *connection = c->connection;
  nghttp2_session_set_stream_user_data(connection->session, c->stream_id, NULL);
  if (c->previous != NULL)
    c->previous->next = c->next;
  else
    connection->calls = c->next;
  if (c->next != NULL)
    c->next->previous = c->previous;
  assert(connection->call_count > 0);
  connection->call_count--;
  c->connection = NULL;
  conn_timer_cancel(grpc_loop_timers(c->loop), &c->deadline);
  bool unheard = c->state != CALL_ENDED || c->replies.unsent_bytes > 0;
  if (c->state != CALL_ENDED) {
    c->replies.status = GRPC_CANCELLED;
    call_set_state(c, CALL_ENDED);
  }
  write_access_line(c);
  call_drop_replies(c);
  call_drop_held(c);
  if (unheard && c->cancelled != NULL)
    c->cancelled(c);
  if (c->closed != NULL)
    c->closed(c);
  call_unref(c);
}

// ---- the header ----

// False when memory is short: the call has failed.
static bool copy_field(call *c, slice from, slice *to)
{
  char *copy = arena_copy_text(&c->arena, from);
  *to = (slice){copy, from.size};
  if (copy == NULL)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
  return copy != NULL;
}

// "application/grpc", "application/grpc+proto"; "application/grpc-web" has other messages.
static bool is_grpc(slice content_type)
{
  const slice name = SLICE("application/grpc");
  return content_type.size >= name.size && memcmp(content_type.data, name.data, name.size) == 0 &&
         (content_type.size == name.size || content_type.data[name.size] == '+' ||
          content_type.data[name.size] == ';');
}

static void take_coding(call *c, slice value)
{
  c->coding = message_coding_of(value);
  if (c->coding == MESSAGE_UNKNOWN)
    copy_field(c, value, &c->odd_coding);
}

// Fields that steer the call; false for those that are the client's own.
static bool take_known(call *c, slice name, slice value)
{
  if (slice_equal(name, SLICE(":path")))
    copy_field(c, value, &c->path);
  else if (slice_equal(name, SLICE(":method")))
    c->is_post = slice_equal(value, SLICE("POST"));
  else if (slice_equal(name, SLICE(":authority")))
    copy_field(c, value, &c->authority);
  else if (slice_equal(name, SLICE("content-type")))
    c->is_grpc = is_grpc(value);
  else if (slice_equal(name, SLICE("grpc-timeout")))
    c->deadline_ns = timeout_deadline(value, grpc_loop_now_ns(c->loop));
  else if (slice_equal(name, SLICE("grpc-encoding")))
    take_coding(c, value);
  else if (slice_equal(name, SLICE("grpc-accept-encoding")))
    c->reply_coding = message_coding_is_listed(value, MESSAGE_GZIP)      ? MESSAGE_GZIP
                      : message_coding_is_listed(value, MESSAGE_DEFLATE) ? MESSAGE_DEFLATE
                                                                         : MESSAGE_IDENTITY;
  else
    return slice_equal(name, SLICE("te")) || (name.size > 0 && name.data[0] == ':');
  return true;
}

void call_take_header(call *c, slice name, slice value)
{
  c->metadata_bytes += name.size + value.size + FIELD_OVERHEAD;
  if (c->metadata_bytes > CONNECTION_HEADER_BYTES || take_known(c, name, value))
    return;
  metadata *fields =
      c->metadata_count == 0 ? arena_allocate_array(&c->arena, FIRST_METADATA, sizeof(metadata))
      : c->metadata_count < FIRST_METADATA
          ? c->metadata
          : arena_grow_array(&c->arena, c->metadata, c->metadata_count, sizeof(metadata));
  if (fields == NULL) {
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
    return;
  }
  c->metadata = fields;
  metadata *added = &fields[c->metadata_count];
  if (copy_field(c, name, &added->name) && copy_field(c, value, &added->value))
    c->metadata_count++;
}

slice call_metadata(const call *c, const char *name)
{
  for (size_t i = 0; i < c->metadata_count; i++)
    if (slice_equal_text(c->metadata[i].name, name))
      return c->metadata[i].value;
  return (slice){NULL, 0};
}

static void deadline_passed(conn_timer *elapsed)
{
  call *c = container_of(elapsed, call, deadline);
  call_end_early(c, GRPC_DEADLINE_EXCEEDED, "Deadline Exceeded");
}

// True when the call cannot be: it has failed then, and the text says why.
static bool is_refused(call *c)
{
  if (c->metadata_bytes > CONNECTION_HEADER_BYTES)
    call_fail(c, GRPC_RESOURCE_EXHAUSTED, "received metadata of %zu bytes, at most %u are taken",
              c->metadata_bytes, CONNECTION_HEADER_BYTES);
  else if (c->coding == MESSAGE_UNKNOWN)
    call_fail(c, GRPC_UNIMPLEMENTED,
              "grpc-encoding '%.*s' is not supported, expected identity, deflate or gzip",
              (int)(c->odd_coding.size < 256 ? c->odd_coding.size : 256), c->odd_coding.data);
  else if (c->method == NULL)
    call_fail(c, GRPC_UNIMPLEMENTED, "unknown method '%.*s'",
              (int)(c->path.size < 256 ? c->path.size : 256), c->path.data);
  else
    grpc_access_admit(c);
  return c->status != GRPC_UNDECIDED;
}

void call_begin(call *c)
{
  if (call_is_foreign(c)) { // it is told so when it has said everything
    c->status = GRPC_OK;
    return;
  }
  c->method = methods_find(c->path);
  if (is_refused(c)) {
    call_settle(c);
    return;
  }
  c->deadline.fire = deadline_passed;
  if (c->deadline_ns != 0)
    conn_timer_set(grpc_loop_timers(c->loop), &c->deadline, c->deadline_ns);
  if (c->server->options.compression_level == 0)
    c->reply_coding = MESSAGE_IDENTITY;
  if (c->method->streams) {
    c->method->handle(c);
    call_settle(c);
  }
}
// ---- for handlers ----

void call_fail(call *c, grpc_status status, const char *format, ...)
{
  char text[FAILURE_BYTES];
  if (c->status != GRPC_UNDECIDED)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  c->status = status;
  slice whole = slice_of(text);
  size_t most;
  char *escaped =
      checked_array_size(1, whole.size, 3, &most) ? arena_allocate(&c->arena, most) : NULL;
  if (escaped != NULL)
    escaped[grpc_status_escape(whole, escaped)] = '\0';
  c->failure = escaped;
}

bool call_fail_if(call *c, TRITONSERVER_Error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  call_fail(c, grpc_status_of(TRITONSERVER_ErrorCode(failure_owned)), "%s",
            TRITONSERVER_ErrorMessage(failure_owned));
  TRITONSERVER_ErrorDelete(failure_owned);
  return true;
}

bool call_fail_if_error(call *c, error *failure_owned)
{
  if (failure_owned == NULL)
    return false;
  call_fail(c, grpc_status_of((TRITONSERVER_Error_Code)error_get_code(failure_owned)), "%s",
            error_message(failure_owned));
  error_free(failure_owned);
  return true;
}
