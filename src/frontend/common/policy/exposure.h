// SPDX-License-Identifier: Apache-2.0
// Logs what clients on other machines can do at a listener, when it starts (docs/security.md).
// Called on the thread that starts the listener.
#ifndef NEREID_FRONTEND_COMMON_POLICY_EXPOSURE_H
#define NEREID_FRONTEND_COMMON_POLICY_EXPOSURE_H

#include "frontend/common/net/listen.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/common/tensor/shared_memory.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct exposure {
  const access_policy *policy; // borrowed
  bool shares_memory;          // with clients
  bool loopback_only;          // clients on other machines cannot reach the address
} exposure;

// Logs a line with the admin categories that remote clients can use without a key, and warnings if
// these include code or memory. For the admin address it logs who can connect. The listener's
// socket must be open. `memory` may be NULL.
exposure exposure_log(const access_policy *policy, const shared_memory *memory,
                      const listen_socket *s);

// Logs one line with what remote clients could do in addition, if a proxy on this machine stood in
// front of these listeners; no line if there is nothing. NULL stands for no listener.
void exposure_log_proxy(const exposure *const *listeners, size_t count);

#endif
