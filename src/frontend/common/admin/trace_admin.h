// Changing trace settings for clients of any protocol, once their request is read. Any thread.
#ifndef NEREID_FRONTEND_COMMON_ADMIN_TRACE_ADMIN_H
#define NEREID_FRONTEND_COMMON_ADMIN_TRACE_ADMIN_H

#include "frontend/trace/trace.h"

// A member of the request; no values clear the setting. Of several of a name the last counts.
typedef struct trace_member {
  const char *name;
  const slice *values;
  size_t count;
} trace_member;

// Changes the settings of `model`, or those of the server for "". What no setting is named is
// ignored, which the log is told. Errors: UNSUPPORTED for trace_file, INVALID_ARG for more than
// TRACE_VALUES_MAX values, and those of trace_update_read and trace_service_update.
error *trace_admin_change(trace_service *s, const char *model, const trace_member *members,
                          size_t count);

#endif
