// SPDX-License-Identifier: Apache-2.0
// How a worker gets its channel, and how it ends when its host does.
#ifndef NEREID_ATTACH_H
#define NEREID_ATTACH_H

// Receives the memfd over `socket`, attaches native_channel to it and starts the watch thread. Does
// not need the GIL. NULL, or the name of what failed with errno set.
const char *attach_to_host(int socket);

#endif
