// SPDX-License-Identifier: Apache-2.0
// What stands behind "nereid" and is no flag: one table. Without a command the daemon serves
// repositories. Main thread.
#ifndef NEREID_DAEMON_COMMANDS_H
#define NEREID_DAEMON_COMMANDS_H

#include "daemon/options.h"

typedef struct command {
  const char *name;
  const char *words;     // as its usage calls them
  const char *help;      // one line, for nereid --help
  const char *long_help; // for its own
  const option *options; // that it has besides the daemon's; any of them may come before the words
  const size_t *option_count;
  bool wraps; // its words are another command line: nothing behind the first is a flag of its own,
              // and the daemon's flags are not taken
  int usage_status; // the exit status when flags or words are wrong
  // One of the two. `prepare` makes flags of its words; then the daemon runs.
  error *(*prepare)(daemon_options *options);
  int (*run)(daemon_options *options); // all of it; gives the exit status
} command;

extern const command command_table[]; // ended by one without a name

const command *command_find(const char *name); // or NULL

#endif
