// SPDX-License-Identifier: Apache-2.0
// A directory of links.
#include "daemon/private_repository.h"

#include "base/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

error *private_repository_make(daemon_options *options, int *dir)
{
  *dir = -1;
  char *path = options->private_repository = dir_make_temporary("nereid-serve");
  if (path == NULL)
    return error_new(ERROR_UNAVAILABLE,
                     "failed to make a directory for links to the models in %s: %s",
                     dir_temporary(), strerror(errno));
  *dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (*dir < 0)
    return error_new(ERROR_UNAVAILABLE, "failed to open '%s': %s", path, strerror(errno));
  return string_list_add(&options->model_repositories, path) ? NULL : error_no_memory();
}

void private_repository_remove(const daemon_options *options)
{
  if (options->private_repository != NULL && !dir_remove_path(options->private_repository))
    fprintf(stderr, "warning: failed to remove '%s': %s\n", options->private_repository,
            strerror(errno));
}
