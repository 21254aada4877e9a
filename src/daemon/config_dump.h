// SPDX-License-Identifier: Apache-2.0
// The values of all flags, for operators: as JSON at /v2/nereid/config_dump, and as a hash in the
// metrics (docs/operating.md). Main thread, at the start.
#ifndef NEREID_DAEMON_CONFIG_DUMP_H
#define NEREID_DAEMON_CONFIG_DUMP_H

#include "base/buffer.h"
#include "base/error.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

#define CONFIG_HASH_SIZE 65    // hexadecimal digits of a SHA-256, and the NUL
#define CONFIG_HIDDEN    "***" // replaces secrets

// Appends an object: "hash", "changed" (names of the flags that differ from their default), "flags"
// (name to value; a flag with two names is listed once). Keys of restricted APIs, passwords, tokens
// and the credentials of a URL are hidden, so they do not change the hash. A value that only names
// the secret's place ("file:", "cred:", "env:") is shown. Errors: out of memory.
error *config_dump_print(const daemon_options *options, buffer *out, char hash[CONFIG_HASH_SIZE]);

// Appends a flag's value as JSON, secrets hidden.
void config_dump_value(buffer *out, const option *o, const daemon_options *options);

// Whether the flag's value is another one in `options`, as far as config_dump_value shows. False
// for a second name of a flag.
bool config_dump_differs(const option *o, const daemon_options *options,
                         const daemon_options *other);

// The family nereid_config_info with one metric, whose label is the hash. {NULL}: none.
typedef struct config_metric {
  TRITONSERVER_MetricFamily *family; // owned
  TRITONSERVER_Metric *metric;       // owned
} config_metric;

error *config_metric_new(config_metric *made, const char *hash);
void config_metric_free(config_metric *made); // call it before the server is deleted

#endif
