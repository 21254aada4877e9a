// SPDX-License-Identifier: Apache-2.0
// nereid check: everything that is wrong with repositories, models and configurations, found in one
// run, and a configuration as it is served with where each value is from. Called by the embedding
// program's thread; blocks. Needs no server, but to load.
#ifndef NEREID_CHECK_CHECK_H
#define NEREID_CHECK_CHECK_H

#include "base/buffer.h"
#include "core/server_options.h"

// Checks what `paths` name (repositories, models' directories, configurations), or without any the
// options' repositories, which are looked at beside the paths for names that are there twice. With
// `load` each model is loaded, too, in a server of its own. Appends the report (docs/check.md).
// Errors only end the check: INVALID_ARG for a path that is none of these, UNAVAILABLE for want of
// memory.
error *check_report_repositories(const server_options *options, const char *const *paths,
                                 size_t count, bool load, buffer *report);

// Appends the configuration of `model`, a name in the options' repositories or a directory or file
// as above, line by line with where it is from. Mistakes that a load would refuse are errors.
error *check_report_config(const server_options *options, const char *model, bool load,
                           buffer *report);

#endif
