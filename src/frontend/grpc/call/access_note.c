// Gathers what the access log says of a call.
#include "frontend/grpc/call/access_note.h"

#include "base/clock.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/service/infer.h"

void grpc_access_describe(const grpc_inference *i, access_record *record)
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
  access_record record = call_access_record(c, status);
  grpc_access_describe(i, &record);
  record.total_ns = clock_monotonic_ns() - i->began_ns;
  record.bytes_in = i->message->size;
  record.bytes_out = i->bytes_out;
  access_log_write(c->server->options.access_log, &record);
}
