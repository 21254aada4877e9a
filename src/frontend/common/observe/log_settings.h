// SPDX-License-Identifier: Apache-2.0
// The log's settings as clients read and change them, for HTTP's /v2/logging and gRPC's
// LogSettings. Any thread.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_LOG_SETTINGS_H
#define NEREID_FRONTEND_COMMON_OBSERVE_LOG_SETTINGS_H

#include "base/buffer.h"
#include "base/error.h"
#include "nereid/nereid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum log_setting_kind {
  LOG_SETTING_BOOL,
  LOG_SETTING_INTEGER,
  LOG_SETTING_TEXT,
  LOG_SETTING_OTHER, // a value that fits no setting
} log_setting_kind;

// One setting of a request. The caller leaves out absent and null ones.
typedef struct log_setting {
  const char *name;
  log_setting_kind kind;
  union {
    bool boolean;
    int64_t integer;
    const char *text;
  } value;
} log_setting;

// Changes all of `settings`, or none. The first of equal names counts; unknown names are ignored
// with a log line. The error lists all faults in Triton's order, in the words of its HTTP:
// UNSUPPORTED for log_file; INVALID_ARG for a value of the wrong kind, out of range, or an unknown
// format. Its code is that of the first fault.
error *log_settings_change(const log_setting *settings, size_t count);

// The fault of one setting in the words of Triton's gRPC; NULL if it is fine.
error *log_settings_check_grpc(const log_setting *setting);

// One error with both texts; NULL if both are NULL.
error *log_settings_join(error *first_owned, error *second_owned);

// Finds the format of this name; false when there is none.
bool log_settings_format_of(const char *name, int *format);

// Prints all settings as {"log_file":…}, in Triton's order. With `typed` each value is
// {"string_param":…} and so on, as in gRPC's messages.
void log_settings_print(buffer *json, bool typed);

#endif
