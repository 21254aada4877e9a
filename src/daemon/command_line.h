// SPDX-License-Identifier: Apache-2.0
// The daemon's command line. The main thread reads it once, before other threads run.
#ifndef NEREID_DAEMON_COMMAND_LINE_H
#define NEREID_DAEMON_COMMAND_LINE_H

#include "base/buffer.h"
#include "daemon/options.h"

// Reads the --config file, if the command line names one, then the command line. A flag on the
// command line replaces the file's, lists too. `options` needs no init, but fini, also after an
// error. Errors name the flag.
error *command_line_read(daemon_options *options, int argument_count, char **arguments);

// Reads a flag of the daemon at words[*at], and its value, which may be the next word. Moves *at
// behind them, also after an error. *value is borrowed.
error *command_line_read_flag(char *const *words, int count, int *at, const option **o,
                              const char **value);

// Prints the help of a command; of the daemon where `command` is NULL.
void command_line_print_help(const struct command *command, buffer *out);

#endif
