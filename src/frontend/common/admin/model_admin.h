// SPDX-License-Identifier: Apache-2.0
// Loads and unloads models for clients of any protocol, once their request is read, and asks the
// core about models. Called on threads that may wait for a model.
#ifndef NEREID_FRONTEND_COMMON_ADMIN_MODEL_ADMIN_H
#define NEREID_FRONTEND_COMMON_ADMIN_MODEL_ADMIN_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A parameter of a load request: "config" with a configuration's text, which ends with a NUL, or
// "file:<path>" with a file's content. Both are borrowed.
typedef struct load_parameter {
  const char *name;
  slice value;
} load_parameter;

bool load_parameter_is_config(const char *name);
bool load_parameter_is_file(const char *name);

error *model_admin_load(TRITONSERVER_Server *server, const char *model,
                        const load_parameter *parameters, size_t count);

// With `dependents` also unloads the models that an ensemble is made of.
error *model_admin_unload(TRITONSERVER_Server *server, const char *model, bool dependents);

// Asks for a model's configuration in the only JSON form that there is.
TRITONSERVER_Error *model_admin_config(TRITONSERVER_Server *server, const char *model,
                                       int64_t version, TRITONSERVER_Message **message);

// Appends the core's JSON, and releases the error and the message.
error *admin_take_json(TRITONSERVER_Error *failure_owned, TRITONSERVER_Message **response_owned,
                       buffer *json);

#endif
