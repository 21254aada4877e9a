// SPDX-License-Identifier: Apache-2.0
// KServe v2's GRPCInferenceService and gRPC's health service on one port (docs/grpc.md).
#ifndef NEREID_FRONTEND_GRPC_GRPC_SERVER_H
#define NEREID_FRONTEND_GRPC_GRPC_SERVER_H

#include "frontend/common/net/listener.h"

extern const listener_protocol grpc_protocol;

#endif
