// SPDX-License-Identifier: Apache-2.0
// Configurations that come with a load request, and the code that they would have the model run
// (docs/security.md): for all front ends. Threads that may wait for a model's configuration.
#ifndef NEREID_FRONTEND_COMMON_POLICY_CODE_UPLOAD_H
#define NEREID_FRONTEND_COMMON_POLICY_CODE_UPLOAD_H

#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#define CODE_UPLOAD_TEXT_BYTES 128

// What of the load parameter `name` ("config", "file:<path>") brings other code than the model has
// now: *what says so, for the error, in `text` or static; NULL when nothing does. INVALID_ARG for a
// configuration that is no JSON.
error *code_upload_find(TRITONSERVER_Server *server, const char *model, const char *name,
                        slice value, char text[CODE_UPLOAD_TEXT_BYTES], const char **what);

#endif
