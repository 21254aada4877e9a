// SPDX-License-Identifier: Apache-2.0
// Why a command ends, as people see it. Main thread.
#ifndef NEREID_DAEMON_ERROR_LINE_H
#define NEREID_DAEMON_ERROR_LINE_H

#include "base/error.h"

// "error: <text>" to stderr. Names of files in it steer no terminal.
void error_line_print(const error *e);
// "error: <what>: <code> - <text>", as Triton ends. The text may be a stranger's: what a Redis
// says.
void error_line_print_end(const char *what, const error *e);

#endif
