// SPDX-License-Identifier: Apache-2.0
// --config files.
#ifndef NEREID_DAEMON_YAML_CONFIG_H
#define NEREID_DAEMON_YAML_CONFIG_H

#include "daemon/options.h"

// Sets flags from a YAML mapping of flag names to values; a list sets its flag once for each item.
// Errors begin with "<path>:<line>: ".
error *yaml_config_read(daemon_options *options, const char *path);

#endif
