// SPDX-License-Identifier: Apache-2.0
// The commands: words such as "check" after "nereid". One table. Without a command the daemon
// serves repositories. Main thread.
#ifndef NEREID_DAEMON_COMMANDS_H
#define NEREID_DAEMON_COMMANDS_H

#include "daemon/options.h"

typedef struct command {
  const char *name;
  const char *words;     // its arguments, as the usage line names them
  const char *help;      // one line, for nereid --help
  const char *long_help; // for the command's own --help
  const option *options; // its own, besides the daemon's; any of them may come before the words
  const size_t *option_count;
  bool wraps; // its words are another command line: no flag after the first word is read, and the
              // daemon's flags are refused
  int usage_status; // the exit status when flags or words are wrong
  // Exactly one of the two is set. `prepare` turns the words into flags; then the daemon runs.
  error *(*prepare)(daemon_options *options);
  int (*run)(daemon_options *options); // does everything; returns the exit status
} command;

extern const command command_table[]; // the last row has no name

const command *command_find(const char *name); // or NULL

#endif
