// SPDX-License-Identifier: Apache-2.0
// The table of commands.
#include "daemon/commands.h"

#include "daemon/check_command.h"
#include "daemon/migrate_command.h"
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
    {.name = NULL},
};

const command *command_find(const char *name)
{
  for (const command *c = command_table; c->name != NULL; c++)
    if (strcmp(c->name, name) == 0)
      return c;
  return NULL;
}
