// SPDX-License-Identifier: Apache-2.0
// Makes a server late. Its thread sleeps NEREID_LATE_MS milliseconds after each send to a socket,
// so that clients have a reply before the server does what comes next, and before each write to a
// file, so that logs and traces are behind. With NEREID_LATE_MS in the environment of pytest all
// servers have it (tests/e2e/conftest.py): a test that fails then bets on time.
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static void be_late(void)
{
  const char *ms = getenv("NEREID_LATE_MS");
  const long late = ms == NULL ? 0 : atol(ms);
  const int before = errno;
  nanosleep(&(struct timespec){.tv_sec = late / 1000, .tv_nsec = late % 1000 * 1000000}, NULL);
  errno = before;
}

static void be_late_to_a_file(int fd)
{
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
    be_late();
}

EXPORT ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
  const ssize_t sent = NEXT(send)(fd, bytes, size, flags);
  be_late();
  return sent;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  const ssize_t sent = NEXT(sendmsg)(fd, message, flags);
  be_late();
  return sent;
}

EXPORT ssize_t write(int fd, const void *bytes, size_t size)
{
  be_late_to_a_file(fd);
  return NEXT(write)(fd, bytes, size);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
  be_late_to_a_file(fd);
  return NEXT(writev)(fd, parts, count);
}
