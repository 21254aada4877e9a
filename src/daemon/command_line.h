// SPDX-License-Identifier: Apache-2.0
// The daemon's command line. Read once by the main thread before anything else runs.
#ifndef NEREID_DAEMON_COMMAND_LINE_H
#define NEREID_DAEMON_COMMAND_LINE_H

#include "base/buffer.h"
#include "daemon/options.h"

// Reads the command line, and before it the --config file that it names: what the command line says
// replaces what the file says, lists too. `options` needs no init, but fini, also after an error.
// Errors name the flag.
error *command_line_read(daemon_options *options, int argument_count, char **arguments);

// Reads the flag at words[*at], one of the daemon's, and its value, which may be the next word.
// Then, also after an error, *at is behind them; the value is borrowed.
error *command_line_read_flag(char *const *words, int count, int *at, const option **o,
                              const char **value);

// Of the daemon (NULL), or of a command.
void command_line_print_help(const struct command *command, buffer *out);

#endif
