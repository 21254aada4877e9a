// SPDX-License-Identifier: Apache-2.0
// Puts large bodies for models on GPUs into the server's pinned memory, from which GPUs copy at
// full speed. Loop threads.
#ifndef NEREID_FRONTEND_COMMON_NET_PINNED_BODY_H
#define NEREID_FRONTEND_COMMON_NET_PINNED_BODY_H

#include "frontend/common/net/body.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

#define PINNED_BODY_MIN_BYTES ((uint64_t)256 << 10) // of tensors

void pinned_body_ask(body *b, TRITONSERVER_Server *server, const char *model_name,
                     int64_t model_version);

// Call before body_begin, for a body that is not packed. If the body holds `tensor_bytes` for a
// model that wants pinned memory and the server has room, the body is received there.
static inline void pinned_body_prefer(body *b, TRITONSERVER_Server *server, const char *model_name,
                                      int64_t model_version, uint64_t tensor_bytes)
{
  if (tensor_bytes >= PINNED_BODY_MIN_BYTES)
    pinned_body_ask(b, server, model_name, model_version);
}

#endif
