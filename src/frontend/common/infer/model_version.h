// SPDX-License-Identifier: Apache-2.0
// The version of a model as requests name it: a number, or a label (docs/versions.md). For all
// front ends. Any thread.
#ifndef NEREID_FRONTEND_COMMON_INFER_MODEL_VERSION_H
#define NEREID_FRONTEND_COMMON_INFER_MODEL_VERSION_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

// What `text` means to functions that take a version of `model`; -1 for "", which leaves the choice
// to the server. INVALID_ARG in Triton's words, NOT_FOUND for a label that the model does not have.
error *model_version_read(TRITONSERVER_Server *server, const char *model, const char *text,
                          int64_t *version);

#endif
