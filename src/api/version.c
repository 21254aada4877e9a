// SPDX-License-Identifier: Apache-2.0
// The versions of the four interfaces. Called by programs and plug-ins before anything else, on
// any thread.
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"
#include "triton/core/tritonserver.h"

#define API_VERSION(function, prefix)                                                              \
  TRITONSERVER_Error *function(uint32_t *major, uint32_t *minor)                                   \
  {                                                                                                \
    *major = prefix##_API_VERSION_MAJOR;                                                           \
    *minor = prefix##_API_VERSION_MINOR;                                                           \
    return NULL;                                                                                   \
  }

API_VERSION(TRITONSERVER_ApiVersion, TRITONSERVER)
API_VERSION(TRITONBACKEND_ApiVersion, TRITONBACKEND)
API_VERSION(TRITONCACHE_ApiVersion, TRITONCACHE)
API_VERSION(TRITONREPOAGENT_ApiVersion, TRITONREPOAGENT)
