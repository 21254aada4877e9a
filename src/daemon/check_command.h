// SPDX-License-Identifier: Apache-2.0
// nereid check: asks the library what is wrong (nereid/nereid.h) and prints it. Main thread.
#ifndef NEREID_DAEMON_CHECK_COMMAND_H
#define NEREID_DAEMON_CHECK_COMMAND_H

#include "daemon/options.h"

#define CHECK_USAGE 2 // exit status

#define CHECK_HELP                                                                                 \
  "Says everything that is wrong with the models at the paths, in one run: mistakes in\n"          \
  "configurations with their places, settings without effect, and files that are missing or\n"     \
  "misnamed. A <path> is a repository, a model's directory or a config.pbtxt;\n"                   \
  "--model-repository is one, too. Needs no framework and opens no port.\n"                        \
  "\n"                                                                                             \
  "Exit status: 0 without errors, 1 with errors (with --strict: or warnings), 2 when it is not\n"  \
  "called rightly.\n"

int check_run(daemon_options *options);

#endif
