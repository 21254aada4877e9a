// SPDX-License-Identifier: Apache-2.0
// Prints the error that ends a command. Main thread.
#ifndef NEREID_DAEMON_ERROR_LINE_H
#define NEREID_DAEMON_ERROR_LINE_H

#include "base/error.h"

// "error: <text>" to stderr. Control characters, such as in file names, are escaped.
void error_line_print(const error *e);
// "error: <what>: <code> - <text>", as Triton ends. The text may come from outside, such as from a
// Redis server.
void error_line_print_end(const char *what, const error *e);

#endif
