// SPDX-License-Identifier: Apache-2.0
// What `nereid check` prints for people, made of the library's JSON. Main thread; keeps no state.
#ifndef NEREID_DAEMON_CHECK_PRINT_H
#define NEREID_DAEMON_CHECK_PRINT_H

#include "base/buffer.h"
#include "base/slice.h"

// Appends each problem of a report with its excerpt, and a last line that counts. Returns whether
// all is well: there are no errors, and when `strict` no warnings. `coloured` is for terminals.
bool check_print_report(slice json, bool strict, bool coloured, buffer *out);

// Appends the lines of a configuration, each with a comment where it is from. False when it is
// none.
bool check_print_config(slice json, bool coloured, buffer *out);

#endif
