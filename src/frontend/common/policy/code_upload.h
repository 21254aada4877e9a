// SPDX-License-Identifier: Apache-2.0
// Finds code that a load request would make a model run (docs/security.md); for all front ends.
// Called on threads that may wait for a model's configuration.
#ifndef NEREID_FRONTEND_COMMON_POLICY_CODE_UPLOAD_H
#define NEREID_FRONTEND_COMMON_POLICY_CODE_UPLOAD_H

#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#define CODE_UPLOAD_TEXT_BYTES 128

// Does the load parameter `name` ("config", "file:<path>") bring code that the model does not have
// now? Then *what describes it for the error, in `text` or static; else *what is NULL. INVALID_ARG
// for a configuration that is no JSON.
error *code_upload_find(TRITONSERVER_Server *server, const char *model, const char *name,
                        slice value, char text[CODE_UPLOAD_TEXT_BYTES], const char **what);

#endif
