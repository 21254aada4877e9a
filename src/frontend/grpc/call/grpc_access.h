// Who may call what (docs/security.md).
#ifndef NEREID_FRONTEND_GRPC_CALL_GRPC_ACCESS_H
#define NEREID_FRONTEND_GRPC_CALL_GRPC_ACCESS_H

#include <stdbool.h>

typedef struct call call;

// Fails the call when its client may not make it. Loop thread, before the message comes.
void grpc_access_admit(call *c);

// Does the client bring code from another machine, and is that not allowed (docs/security.md)? Any
// thread that has the call.
bool grpc_access_is_code_refused(const call *c);

// Then: fails the call. `what` is named.
void grpc_access_refuse_code(call *c, const char *what);

#endif
