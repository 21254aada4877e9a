// SPDX-License-Identifier: Apache-2.0
// Unpacks an archive (tar or zip, with any of the usual compressions) of a Python environment into
// a directory. The archive may be hostile: the kernel keeps every path and link beneath the
// directory, and limits bound what is written. Load threads.
#ifndef NEREID_PYTHON_UNPACK_H
#define NEREID_PYTHON_UNPACK_H

#include "triton/core/tritonserver.h"

#include <stdint.h>

typedef struct unpack_limits {
  uint64_t bytes;   // of all files together
  uint64_t entries; // files, directories and links
} unpack_limits;

// `path` is the archive's name in errors; `file` is open for reading. `dir` is open and empty.
// After an error the caller removes what is in it.
TRITONSERVER_Error *unpack_archive(int file, const char *path, int dir,
                                   const unpack_limits *limits);

#endif
