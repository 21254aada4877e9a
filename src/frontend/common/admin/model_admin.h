// SPDX-License-Identifier: Apache-2.0
// Loading and unloading models for clients of any protocol, once their request is read, and what
// the core says of them. Threads that may wait for a model.
#ifndef NEREID_FRONTEND_COMMON_ADMIN_MODEL_ADMIN_H
#define NEREID_FRONTEND_COMMON_ADMIN_MODEL_ADMIN_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of a load request: "config" with the text of a configuration, or "file:<path>" with its content.
// Both are borrowed; a configuration ends with a NUL.
typedef struct load_parameter {
  const char *name;
  slice value;
} load_parameter;

bool load_parameter_is_config(const char *name);
bool load_parameter_is_file(const char *name);

error *model_admin_load(TRITONSERVER_Server *server, const char *model,
                        const load_parameter *parameters, size_t count);

// `dependents`: the models that an ensemble is made of, too.
error *model_admin_unload(TRITONSERVER_Server *server, const char *model, bool dependents);

// A model's configuration, in the one form that there is: asked for as metadata and statistics are.
TRITONSERVER_Error *model_admin_config(TRITONSERVER_Server *server, const char *model,
                                       int64_t version, TRITONSERVER_Message **message);

// Appends what the core said in JSON; the error and the message are released.
error *admin_take_json(TRITONSERVER_Error *failure_owned, TRITONSERVER_Message **response_owned,
                       buffer *json);

#endif
