// SPDX-License-Identifier: Apache-2.0
// nereid check: finds all mistakes of repositories, models and configurations in one run, and
// prints a configuration as it is served with the source of each value. Called by the embedding
// program's thread; blocks. Needs a server only to load.
#ifndef NEREID_CHECK_CHECK_H
#define NEREID_CHECK_CHECK_H

#include "base/buffer.h"
#include "core/server_options.h"

// Checks `paths` (repositories, models' directories, configurations) or, without any, the options'
// repositories; these are also searched for duplicate names. With `load` each model is also loaded,
// in a separate server. Appends the report (docs/check.md). Errors only end the check: INVALID_ARG
// for a path that is none of these, UNAVAILABLE when memory is short.
error *check_report_repositories(const server_options *options, const char *const *paths,
                                 size_t count, bool load, buffer *report);

// Appends the configuration of `model` (a name in the options' repositories, or a directory or file
// as above) line by line with the source of each value. Mistakes that a load would refuse are
// errors.
error *check_report_config(const server_options *options, const char *model, bool load,
                           buffer *report);

#endif
