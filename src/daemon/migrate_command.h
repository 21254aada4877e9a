// SPDX-License-Identifier: Apache-2.0
// nereid migrate: reads a Triton command line flag by flag as this server would, has the library
// check the models that it names (nereid/nereid.h), and prints the differences. Main thread.
#ifndef NEREID_DAEMON_MIGRATE_COMMAND_H
#define NEREID_DAEMON_MIGRATE_COMMAND_H

#include "daemon/options.h"

#define MIGRATE_USAGE 2 // exit status

#define MIGRATE_HELP                                                                               \
  "Says of each flag whether it works the same, works with a difference, has no effect or is\n"    \
  "refused; then what is wrong with the models, and which of their backends are missing here.\n"   \
  "The last line starts nereid. What stands before the word tritonserver (docker run ...) is "     \
  "not\n"                                                                                          \
  "read. Opens no port.\n"                                                                         \
  "\n"                                                                                             \
  "Exit status: 0 when nothing is lost, 1 when something is refused or a model would not load, "   \
  "2\n"                                                                                            \
  "when it is not called rightly.\n"

int migrate_run(daemon_options *options);

#endif
