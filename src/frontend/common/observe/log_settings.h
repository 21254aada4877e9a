// SPDX-License-Identifier: Apache-2.0
// The log's settings as clients see and change them: what HTTP's /v2/logging and gRPC's LogSettings
// have in common. Any thread.
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
  LOG_SETTING_OTHER, // a value that no setting has
} log_setting_kind;

// One setting of a request. Absent and null ones are left out by the caller.
typedef struct log_setting {
  const char *name;
  log_setting_kind kind;
  union {
    bool boolean;
    int64_t integer;
    const char *text;
  } value;
} log_setting;

// Changes what `settings` name; of equal names the first counts, unknown ones are ignored, which
// the log is told. All or none: the error says all that is wrong with them, in Triton's order and
// the words of its HTTP. UNSUPPORTED for log_file, INVALID_ARG for a value of the wrong kind, out
// of range, or that names no format; the code is that of the first.
error *log_settings_change(const log_setting *settings, size_t count);

// What is wrong with one of them in the words of Triton's gRPC.
error *log_settings_check_grpc(const log_setting *setting);

// One error that says both; NULL is none.
error *log_settings_join(error *first_owned, error *second_owned);

// False when there is no format of this name.
bool log_settings_format_of(const char *name, int *format);

// What is set now as {"log_file":…}, in Triton's order. `typed`: each is {"string_param":…} and so
// on, as gRPC's messages have it.
void log_settings_print(buffer *json, bool typed);

#endif
