// The listener's lines in the server's log. Any thread.
#ifndef NEREID_FRONTEND_GRPC_LOG_H
#define NEREID_FRONTEND_GRPC_LOG_H

#include "triton/core/tritonserver.h"

void grpc_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

// Logs `failure_owned` as "<what>: <message>" when it is an error, and releases it.
void grpc_log_failure(const char *what, TRITONSERVER_Error *failure_owned);

#define GRPC_LOG_AT(level, ...)                                                                    \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      grpc_log_message(level, __FILE_NAME__, __LINE__, __VA_ARGS__);                               \
  } while (0)
#define grpc_log_info(...)    GRPC_LOG_AT(TRITONSERVER_LOG_INFO, __VA_ARGS__)
#define grpc_log_warning(...) GRPC_LOG_AT(TRITONSERVER_LOG_WARN, __VA_ARGS__)
#define grpc_log_error(...)   GRPC_LOG_AT(TRITONSERVER_LOG_ERROR, __VA_ARGS__)
#define grpc_log_verbose(...) GRPC_LOG_AT(TRITONSERVER_LOG_VERBOSE, __VA_ARGS__)

#endif
