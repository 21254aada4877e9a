// SPDX-License-Identifier: Apache-2.0
// What remote clients, on other machines, can do at a listener, said in the log when it starts
// (docs/security.md). The thread that starts the listener.
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
  bool loopback_only;          // the address leaves out clients on other machines
} exposure;

// Logs a line with the admin categories that remote clients can use without a key at the listener,
// and warnings where these include code or memory. Of the admin address it says who gets to it.
// While the listener's socket is open. `memory` may be NULL.
exposure exposure_log(const access_policy *policy, const shared_memory *memory,
                      const listen_socket *s);

// Logs one line with what remote clients could do besides, if a proxy on this machine stood in
// front of these listeners. None when there is nothing. NULL stands for no listener.
void exposure_log_proxy(const exposure *const *listeners, size_t count);

#endif
