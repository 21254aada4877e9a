// SPDX-License-Identifier: Apache-2.0
// Access control of methods (docs/security.md).
#ifndef NEREID_FRONTEND_GRPC_CALL_GRPC_ACCESS_H
#define NEREID_FRONTEND_GRPC_CALL_GRPC_ACCESS_H

typedef struct call call;

// Fails the call if its client may not make it. Loop thread, before the message comes.
void grpc_access_admit(call *c);

// Why the client may not bring code, or NULL. Any thread that has the call.
const char *grpc_access_remote_reason(const call *c);

#endif
