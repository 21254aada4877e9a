// SPDX-License-Identifier: Apache-2.0
// Libraries that the process's backends have opened to run models on (NEREID_BackendSetFramework).
// Such a library stays in the process, whatever becomes of its backend and its server, and so does
// what is said of it here. Any thread.
#ifndef NEREID_BACKEND_FRAMEWORKS_H
#define NEREID_BACKEND_FRAMEWORKS_H

#include "base/error.h"

#include <stdint.h>

typedef struct framework_record {
  const char *backend; // its name
  const char *name;    // "ONNX Runtime"
  const char *version;
  const char *path;
  uint64_t open_ns; // how long opening it took, the first time
} framework_record;

// Copies the record, unless the backend has told of this library before.
error *frameworks_add(const framework_record *record);

// In the order in which they were opened; under a lock that frameworks_add takes.
typedef void framework_visitor(void *context, const framework_record *record);
void frameworks_visit(framework_visitor *visit, void *context);

#endif
