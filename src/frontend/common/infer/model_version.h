// SPDX-License-Identifier: Apache-2.0
// A model's version as requests name it: a number or a label (docs/versions.md). For all front
// ends. Any thread.
#ifndef NEREID_FRONTEND_COMMON_INFER_MODEL_VERSION_H
#define NEREID_FRONTEND_COMMON_INFER_MODEL_VERSION_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

// Reads the version number that `text` means for `model`: -1 for "", and then the server chooses;
// below -1 for a label. Errors: INVALID_ARG in Triton's words, NOT_FOUND for a label that the model
// does not have.
error *model_version_read(TRITONSERVER_Server *server, const char *model, const char *text,
                          int64_t *version);

#endif
