// SPDX-License-Identifier: Apache-2.0
// Log lines about a request. Any thread that has the exchange.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_LOG_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_LOG_H

#include "frontend/common/observe/frontend_log.h"
#include "nereid/nereid.h"

struct exchange;

// Describes the exchange for a log line. NULL is allowed.
NEREID_LogSubject exchange_subject(const struct exchange *x);

// Writes a log line about the exchange, which may be NULL.
#define EXCHANGE_LOG_AT(level, x, ...)                                                             \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level)) {                                                        \
      const NEREID_LogSubject about_ = exchange_subject(x);                                        \
      frontend_log_message(level, __FILE_NAME__, __LINE__, &about_, __VA_ARGS__);                  \
    }                                                                                              \
  } while (0)
#define exchange_log_warning(x, ...) EXCHANGE_LOG_AT(TRITONSERVER_LOG_WARN, x, __VA_ARGS__)
#define exchange_log_verbose(x, ...) EXCHANGE_LOG_AT(TRITONSERVER_LOG_VERBOSE, x, __VA_ARGS__)

#endif
