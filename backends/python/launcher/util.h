// SPDX-License-Identifier: Apache-2.0
// Helpers of the launcher's steps.
#ifndef NEREID_PYTHON_LAUNCHER_UTIL_H
#define NEREID_PYTHON_LAUNCHER_UTIL_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_SETUP_FAILED   125 // exit statuses, as in env(1) and timeout(1)
#define LAUNCHER_NOT_EXECUTABLE 126
#define LAUNCHER_NOT_FOUND      127

// Ends the program; `number` is an errno, or 0 for none.
_Noreturn void launcher_fail(int number, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Reads an unsigned decimal number that fills the line.
bool launcher_number(const char *text, uint64_t *value);

// Writes `text` to a file of /proc or /sys. False: errno is set.
bool launcher_write(const char *path, const char *text);

#endif
