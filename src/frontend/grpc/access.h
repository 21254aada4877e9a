// Who may call what: keys, and admin methods from this machine only where that is asked for.
#ifndef NEREID_FRONTEND_GRPC_ACCESS_H
#define NEREID_FRONTEND_GRPC_ACCESS_H

typedef struct call call;

// Fails the call when its client may not make it. Loop thread, before the message comes.
void grpc_access_admit(call *c);

#endif
