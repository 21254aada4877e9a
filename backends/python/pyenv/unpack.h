// SPDX-License-Identifier: Apache-2.0
// Unpacks an archive (tar or zip, with any of the usual compressions) of a Python environment into
// a directory. The archive may be hostile: the kernel keeps every path beneath the directory, links
// lead nowhere else, and what is written is bounded. Load threads.
#ifndef NEREID_PYTHON_UNPACK_H
#define NEREID_PYTHON_UNPACK_H

#include "triton/core/tritonserver.h"

#include <stdint.h>

typedef struct unpack_limits {
  uint64_t bytes;   // of all files together
  uint64_t entries; // files, directories and links
} unpack_limits;

// `path` is what errors call the archive, open for reading as `file`. `directory` is open and
// empty. What an archive that is refused has left in it, is the caller's to remove.
TRITONSERVER_Error *unpack_archive(int file, const char *path, int dir,
                                   const unpack_limits *limits);

#endif
