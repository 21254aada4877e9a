// Configurations that come with a load request, and the code that they would have the model run
// (docs/security.md): for all front ends. Threads that may wait for a model's configuration.
#ifndef NEREID_FRONTEND_PROTOCOL_CODE_UPLOAD_H
#define NEREID_FRONTEND_PROTOCOL_CODE_UPLOAD_H

#include "base/error.h"
#include "base/slice.h"
#include "triton/core/tritonserver.h"

#define CODE_UPLOAD_TEXT_BYTES 128

// Finds in a configuration in JSON what names other code than the model has now: *field is static,
// NULL when there is nothing. INVALID_ARG when the text is no JSON.
error *code_upload_find(TRITONSERVER_Server *server, const char *model, slice config,
                        const char **field);

// Says in `text` what such a configuration does, for the error; returns it.
const char *code_upload_text(const char *field, char text[CODE_UPLOAD_TEXT_BYTES]);

#endif
