// SPDX-License-Identifier: Apache-2.0
// nereid status, drain and undrain: ask a running server at its admin address (--admin-address, on
// the command line or in the --config file) and print its answer. Main thread.
#ifndef NEREID_DAEMON_OPERATOR_COMMAND_H
#define NEREID_DAEMON_OPERATOR_COMMAND_H

#include "daemon/options.h"

#define OPERATOR_FAILED 2 // exit status

#define OPERATOR_ADDRESS_HELP                                                                      \
  "The server is the one at --admin-address=unix:/<path>, which may come from the --config file\n" \
  "that the server was started with.\n"                                                            \
  "\n"

#define STATUS_HELP                                                                                \
  "Says whether a running server is ready, whether it is drained, and how many requests it\n"      \
  "holds.\n"                                                                                       \
  "\n" OPERATOR_ADDRESS_HELP                                                                       \
  "Exit status: 0 when it is ready, 1 when it is not, 2 when it cannot be asked.\n"

#define DRAIN_HELP                                                                                 \
  "The server says from now on that it is not ready, so that load balancers send clients\n"        \
  "elsewhere, and asks HTTP clients with each reply to close. It goes on to answer every\n"        \
  "request. Waits until it holds none.\n"                                                          \
  "\n" OPERATOR_ADDRESS_HELP                                                                       \
  "Exit status: 0 when the server holds no request, or with --wait=0; 1 when the time is over;\n"  \
  "2 when it cannot be asked.\n"

#define UNDRAIN_HELP                                                                               \
  "Takes a drain back: the server is ready as its models are.\n"                                   \
  "\n" OPERATOR_ADDRESS_HELP                                                                       \
  "Exit status: 0 when it is ready, 1 when it is not, 2 when it cannot be asked.\n"

int status_run(daemon_options *options);
int drain_run(daemon_options *options);
int undrain_run(daemon_options *options);

#endif
