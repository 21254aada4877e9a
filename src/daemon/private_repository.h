// SPDX-License-Identifier: Apache-2.0
// The model repository that `nereid serve FILE` makes: a directory of links below TMPDIR, mode
// 0700. The main thread makes it, before other threads run, and removes it at the end.
#ifndef NEREID_DAEMON_PRIVATE_REPOSITORY_H
#define NEREID_DAEMON_PRIVATE_REPOSITORY_H

#include "daemon/options.h"

// Makes it and adds it to the repositories. The caller closes *dir, also after an error.
error *private_repository_make(daemon_options *options, int *dir);

// Removes it, if there is one. Called before every exit except a crash; may be called again.
void private_repository_remove(const daemon_options *options);

#endif
