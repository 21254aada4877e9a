// The version of a model as requests name it. Pure, any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_MODEL_VERSION_H
#define NEREID_FRONTEND_GRPC_CODEC_MODEL_VERSION_H

#include "base/error.h"

#include <stdint.h>

// -1 for "", which leaves the choice to the server. INVALID_ARG in Triton's words.
error *model_version_read(const char *text, int64_t *version);

#endif
