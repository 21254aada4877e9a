// SPDX-License-Identifier: Apache-2.0
// The files of a model, below its directory and by the rules for its links. Any thread.
#include "core/model.h"

error *model_open_dir(const model *m, file_root *dir)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(files_open_root(m->repository, m->links, &root));
  return files_open_dir(&root, m->folder, dir);
}

error *model_open(const model *m, const char *path, bool is_dir, int *descriptor)
{
  AUTO_ROOT file_root dir = FILE_ROOT_CLOSED;
  RETURN_IF_ERROR(model_open_dir(m, &dir));
  return files_open(&dir, path, is_dir ? FILE_FOLDER : FILE_REGULAR, descriptor);
}
