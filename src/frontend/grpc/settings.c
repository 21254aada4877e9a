// Settings of traces and of the log.
#include "frontend/grpc/call.h"
#include "frontend/grpc/handlers.h"

void grpc_handle_trace_setting(call *c)
{
  call_fail(c, GRPC_UNIMPLEMENTED, "trace settings over gRPC are not supported by nereid yet");
}

void grpc_handle_log_settings(call *c)
{
  call_fail(c, GRPC_UNIMPLEMENTED, "log settings over gRPC are not supported by nereid yet");
}
