// SPDX-License-Identifier: Apache-2.0
// Descriptors over a socket that two processes have in common: how a worker's process gets the
// memfd of its channel and memory of devices. Where the channel begins or grows, never by request.
#ifndef NEREID_CHANNEL_DESCRIPTOR_H
#define NEREID_CHANNEL_DESCRIPTOR_H

#include <sys/types.h>

// Sends `size` bytes with a descriptor, -1: without one. `flags`: MSG_DONTWAIT, or 0. 0, or an
// errno: EAGAIN also when not all went.
int channel_send_with_descriptor(int socket, const void *data, size_t size, int descriptor,
                                 int flags);

// How many bytes came; *descriptor is the caller's, -1: none. -1: an errno says why.
ssize_t channel_receive_with_descriptor(int socket, void *data, size_t size, int *descriptor,
                                        int flags);

// A descriptor alone. 0, or an errno.
int channel_send_descriptor(int socket, int descriptor);

// Waits for it; it is the caller's. -1: an errno says why; EPROTO: what came was none.
int channel_receive_descriptor(int socket);

#endif
