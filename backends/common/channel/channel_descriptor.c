// SPDX-License-Identifier: Apache-2.0
// See channel_descriptor.h.
#include "channel_descriptor.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

typedef union control {
  struct cmsghdr header;
  char space[CMSG_SPACE(sizeof(int))];
} control;

int channel_send_with_descriptor(int socket, const void *data, size_t size, int descriptor,
                                 int flags)
{
  struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  control with = {0};
  if (descriptor >= 0) {
    message.msg_control = &with;
    message.msg_controllen = sizeof(with.space);
    with.header.cmsg_level = SOL_SOCKET;
    with.header.cmsg_type = SCM_RIGHTS;
    with.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&with.header), &descriptor, sizeof(descriptor));
  }
  ssize_t sent;
  do
    sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : (size_t)sent == size ? 0 : EAGAIN;
}

ssize_t channel_receive_with_descriptor(int socket, void *data, size_t size, int *descriptor,
                                        int flags)
{
  struct iovec part = {.iov_base = data, .iov_len = size};
  control with;
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &with,
                           .msg_controllen = CMSG_LEN(sizeof(int))}; // a second one would leak
  ssize_t count;
  *descriptor = -1;
  do
    count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  while (count < 0 && errno == EINTR);
  const struct cmsghdr *header = count > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
    memcpy(descriptor, CMSG_DATA(header), sizeof(*descriptor));
  return count;
}

int channel_send_descriptor(int socket, int descriptor)
{
  return channel_send_with_descriptor(socket, "", 1, descriptor, 0);
}

int channel_receive_descriptor(int socket)
{
  char byte;
  int descriptor;
  if (channel_receive_with_descriptor(socket, &byte, sizeof(byte), &descriptor, 0) < 0)
    return -1;
  if (descriptor < 0)
    errno = EPROTO;
  return descriptor;
}
