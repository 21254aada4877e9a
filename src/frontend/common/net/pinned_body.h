// SPDX-License-Identifier: Apache-2.0
// Large bodies for models on GPUs are received where GPUs copy from at full speed: the server's
// pinned memory. Loop threads.
#ifndef NEREID_FRONTEND_COMMON_NET_PINNED_BODY_H
#define NEREID_FRONTEND_COMMON_NET_PINNED_BODY_H

#include "frontend/common/net/body.h"
#include "triton/core/tritonserver.h"

#include <stdint.h>

#define PINNED_BODY_MIN_BYTES ((uint64_t)256 << 10) // of tensors: fewer are copied in no time

void pinned_body_ask(body *b, TRITONSERVER_Server *server, const char *model_name,
                     int64_t model_version);

// Before body_begin, of a body that is not packed: it is in pinned memory, where the server has
// some, if it holds `tensor_bytes` for a model that wants them there.
static inline void pinned_body_prefer(body *b, TRITONSERVER_Server *server, const char *model_name,
                                      int64_t model_version, uint64_t tensor_bytes)
{
  if (tensor_bytes >= PINNED_BODY_MIN_BYTES)
    pinned_body_ask(b, server, model_name, model_version);
}

#endif
