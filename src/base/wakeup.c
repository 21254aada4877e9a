// SPDX-License-Identifier: Apache-2.0
// Wakes threads by an eventfd.
#include "base/wakeup.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

int wakeup_new(void)
{
  return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wakeup_signal(int descriptor)
{
  const uint64_t one = 1;
  while (write(descriptor, &one, sizeof(one)) < 0 && errno == EINTR)
    ; // a full counter (EAGAIN) wakes just as well
}

uint64_t wakeup_take(int descriptor)
{
  uint64_t count = 0;
  ssize_t got;
  do
    got = read(descriptor, &count, sizeof(count));
  while (got < 0 && errno == EINTR);
  return got == (ssize_t)sizeof(count) ? count : 0;
}
