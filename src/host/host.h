// SPDX-License-Identifier: Apache-2.0
// A process that serves one model for the server that started it (docs/internals/isolation.md).
#ifndef NEREID_HOST_HOST_H
#define NEREID_HOST_HOST_H

// NEREID_ModelHostRun. On the main thread.
int host_run(int socket);

#endif
