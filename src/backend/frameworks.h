// SPDX-License-Identifier: Apache-2.0
// Libraries that the process's backends opened to run models (NEREID_BackendSetFramework). A
// library and its record stay in the process even after its backend and its server. Any thread.
#ifndef NEREID_BACKEND_FRAMEWORKS_H
#define NEREID_BACKEND_FRAMEWORKS_H

#include "base/error.h"

#include <stdint.h>

typedef struct framework_record {
  const char *backend; // its name
  const char *name;    // "ONNX Runtime"
  const char *version;
  const char *path;
  uint64_t open_ns; // duration of the first opening
} framework_record;

// Copies the record, unless the backend has reported this library before.
error *frameworks_add(const framework_record *record);

// Called in the order of opening, under a lock that frameworks_add takes too.
typedef void framework_visitor(void *context, const framework_record *record);
void frameworks_visit(framework_visitor *visit, void *context);

#endif
