// SPDX-License-Identifier: Apache-2.0
// Connects the worker to its host, and ends it when the host ends.
#ifndef NEREID_ATTACH_H
#define NEREID_ATTACH_H

// Receives the memfd over `socket`, attaches native_channel to it and starts the watch thread.
// Works without the GIL. Returns NULL, or the name of the step that failed with errno set.
const char *attach_to_host(int socket);

#endif
