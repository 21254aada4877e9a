// The front end's lines in the server's log. Any thread.
#ifndef NEREID_FRONTEND_HTTP_LOG_H
#define NEREID_FRONTEND_HTTP_LOG_H

#include "triton/core/tritonserver.h"

typedef struct exchange exchange;

// `x` is the request that the line is about, or NULL.
void http_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const exchange *x,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));

// Logs `failure_owned` as "<what>: <message>" when it is an error, and releases it.
void http_log_failure(const exchange *x, const char *what, TRITONSERVER_Error *failure_owned);

#define HTTP_LOG_AT(level, x, ...)                                                                 \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      http_log_message(level, __FILE_NAME__, __LINE__, x, __VA_ARGS__);                            \
  } while (0)
#define http_log_info(...)             HTTP_LOG_AT(TRITONSERVER_LOG_INFO, NULL, __VA_ARGS__)
#define http_log_warning(...)          HTTP_LOG_AT(TRITONSERVER_LOG_WARN, NULL, __VA_ARGS__)
#define http_log_error(...)            HTTP_LOG_AT(TRITONSERVER_LOG_ERROR, NULL, __VA_ARGS__)
#define http_log_verbose(...)          HTTP_LOG_AT(TRITONSERVER_LOG_VERBOSE, NULL, __VA_ARGS__)
#define http_log_warning_about(x, ...) HTTP_LOG_AT(TRITONSERVER_LOG_WARN, x, __VA_ARGS__)
#define http_log_error_about(x, ...)   HTTP_LOG_AT(TRITONSERVER_LOG_ERROR, x, __VA_ARGS__)
#define http_log_verbose_about(x, ...) HTTP_LOG_AT(TRITONSERVER_LOG_VERBOSE, x, __VA_ARGS__)

#endif
