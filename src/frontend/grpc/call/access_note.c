// Gathers what the access log says of a call.
#include "frontend/grpc/call/access_note.h"

#include "base/clock.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/service/infer.h"
#include "frontend/grpc/transport/connection.h"

static access_record record_of(const call *c, grpc_status status)
{
  return (access_record){.protocol = "grpc",
                         .peer = c->kept_connection->peer,
                         .route = c->path.data,
                         .status = (unsigned)status};
}

static void add_inference(access_record *record, const grpc_inference *i)
{
  record->model = i->life.model_name;
  record->request_id = i->life.request_id;
  access_times_tell(&i->life.times, i->life.model_version, record);
}

void grpc_access_inference(grpc_inference *i, grpc_status status)
{
  call *c = i->call;
  if (c->server->options.access_log == NULL)
    return;
  access_record record = record_of(c, status);
  add_inference(&record, i);
  record.total_ns = clock_monotonic_ns() - i->began_ns;
  record.bytes_in = i->message->size;
  record.bytes_out = i->bytes_out;
  access_log_write(c->server->options.access_log, &record);
}

void grpc_access_call(call *c)
{
  if (c->server->options.access_log == NULL)
    return;
  access_record record = record_of(c, c->end_status);
  const grpc_inference *i = c->inference != NULL ? c->inference : c->answered;
  if (i != NULL)
    add_inference(&record, i);
  record.total_ns = clock_monotonic_ns() - c->began_ns;
  record.bytes_in = c->bytes_in;
  record.bytes_out = c->bytes_out;
  access_log_write(c->server->options.access_log, &record);
}
