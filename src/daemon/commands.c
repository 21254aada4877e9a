// SPDX-License-Identifier: Apache-2.0
// The table of commands.
#include "daemon/commands.h"

#include "daemon/check_command.h"
#include "daemon/migrate_command.h"
#include "daemon/operator_command.h"
#include "daemon/serve_command.h"

#include <stdlib.h>
#include <string.h>

const command command_table[] = {
    {.name = "serve",
     .words = "<file>...",
     .help = "Serve model files as they are: no repository, no configuration.",
     .long_help = SERVE_HELP,
     .usage_status = EXIT_FAILURE,
     .prepare = serve_prepare},
    {.name = "check",
     .words = "[<path>...]",
     .help = "Say everything that is wrong with repositories and configurations.",
     .long_help = CHECK_HELP,
     .options = check_options,
     .option_count = &check_option_count,
     .usage_status = CHECK_USAGE,
     .run = check_run},
    {.name = "migrate",
     .words = "-- <tritonserver's command line>",
     .help = "Say what differs when nereid takes the place of that Triton.",
     .long_help = MIGRATE_HELP,
     .options = migrate_options,
     .option_count = &migrate_option_count,
     .wraps = true,
     .usage_status = MIGRATE_USAGE,
     .run = migrate_run},
    {.name = "status",
     .words = "",
     .help = "Say how a running server is.",
     .long_help = STATUS_HELP,
     .options = status_options,
     .option_count = &status_option_count,
     .usage_status = OPERATOR_FAILED,
     .run = status_run},
    {.name = "drain",
     .words = "",
     .help = "Take a running server out of service, and wait for its requests.",
     .long_help = DRAIN_HELP,
     .options = drain_options,
     .option_count = &drain_option_count,
     .usage_status = OPERATOR_FAILED,
     .run = drain_run},
    {.name = "undrain",
     .words = "",
     .help = "Put it back into service.",
     .long_help = UNDRAIN_HELP,
     .options = status_options,
     .option_count = &status_option_count,
     .usage_status = OPERATOR_FAILED,
     .run = undrain_run},
    {.name = NULL},
};

const command *command_find(const char *name)
{
  for (const command *c = command_table; c->name != NULL; c++)
    if (strcmp(c->name, name) == 0)
      return c;
  return NULL;
}
