// SPDX-License-Identifier: Apache-2.0
// Passes descriptors over a socket between two processes: a worker's process gets the memfd of its
// channel and memory of devices this way. Used when a channel begins or grows, never per request.
#ifndef NEREID_CHANNEL_DESCRIPTOR_H
#define NEREID_CHANNEL_DESCRIPTOR_H

#include <sys/types.h>

// Sends `size` bytes with a descriptor (-1: without). `flags`: MSG_DONTWAIT, or 0. Returns 0 or an
// errno, EAGAIN also when only a part was sent.
int channel_send_with_descriptor(int socket, const void *data, size_t size, int descriptor,
                                 int flags);

// Returns how many bytes came, or -1 with errno. The caller owns *descriptor; -1: none came.
ssize_t channel_receive_with_descriptor(int socket, void *data, size_t size, int *descriptor,
                                        int flags);

// Sends only a descriptor. Returns 0 or an errno.
int channel_send_descriptor(int socket, int descriptor);

// Waits for a descriptor, which the caller owns. -1 with errno; EPROTO: something else came.
int channel_receive_descriptor(int socket);

#endif
