// SPDX-License-Identifier: Apache-2.0
// How `nereid check` prints the library's JSON for people. Main thread; no state.
#ifndef NEREID_DAEMON_CHECK_PRINT_H
#define NEREID_DAEMON_CHECK_PRINT_H

#include "base/buffer.h"
#include "base/slice.h"

// Appends each problem of a report with its excerpt, then a line of totals. Returns whether there
// are no errors and, when `strict`, no warnings. `coloured` is for terminals.
bool check_print_report(slice json, bool strict, bool coloured, buffer *out);

// Appends the lines of a configuration, each with a comment that names its source. False when
// `json` is not a configuration.
bool check_print_config(slice json, bool coloured, buffer *out);

#endif
