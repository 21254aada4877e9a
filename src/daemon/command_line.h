// The daemon's command line. Read once by the main thread before anything else runs.
#ifndef NEREID_DAEMON_COMMAND_LINE_H
#define NEREID_DAEMON_COMMAND_LINE_H

#include "base/buffer.h"
#include "daemon/options.h"

// Reads the command line, and before it the --config file that it names: what the command line says
// replaces what the file says, lists too. `options` needs no init, but fini, also after an error.
// Errors name the flag.
error *command_line_read(daemon_options *options, int argument_count, char **arguments);

void command_line_print_help(buffer *out);

#endif
