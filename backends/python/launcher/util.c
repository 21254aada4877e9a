// SPDX-License-Identifier: Apache-2.0
// Failing, reading and writing for the launcher's steps.
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Noreturn void launcher_fail(int number, const char *format, ...)
{
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "nereid-worker-launcher: %s%s%s\n", text, number == 0 ? "" : ": ",
          number == 0 ? "" : strerror(number));
  _exit(LAUNCHER_SETUP_FAILED);
}

bool launcher_write(const char *path, const char *text)
{
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  size_t length = strlen(text);
  ssize_t written = write(file, text, length);
  int failure = errno;
  close(file);
  errno = failure;
  return written == (ssize_t)length;
}

bool launcher_number(const char *text, uint64_t *value)
{
  const char *at = text;
  *value = 0;
  for (; *at >= '0' && *at <= '9'; at++)
    if (__builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
      return false;
  return at != text && (*at == '\0' || *at == '\n');
}
