// SPDX-License-Identifier: Apache-2.0
// What flags came to, for whoever has to know how a server was started: as JSON at
// /v2/nereid/config_dump, and as a hash in the metrics (docs/operating.md). Main thread, at the
// start.
#ifndef NEREID_DAEMON_CONFIG_DUMP_H
#define NEREID_DAEMON_CONFIG_DUMP_H

#include "base/buffer.h"
#include "base/error.h"
#include "daemon/options.h"
#include "triton/core/tritonserver.h"

#define CONFIG_HASH_SIZE 65    // hexadecimal digits of a SHA-256, and the end
#define CONFIG_HIDDEN    "***" // in place of what is secret

// Appends an object: "hash", "changed" (the names of flags whose value is not the default), "flags"
// (name to value; a flag with two names has one). Keys of restricted APIs, passwords, tokens and
// who logs in at a URL are hidden, and so they change no hash; where a value only says where the
// secret lies ("file:", "cred:", "env:") it is shown. Errors: out of memory.
error *config_dump_print(const daemon_options *options, buffer *out, char hash[CONFIG_HASH_SIZE]);

// The family nereid_config_info with one metric, whose label is the hash. {NULL} is none.
typedef struct config_metric {
  TRITONSERVER_MetricFamily *family; // owned
  TRITONSERVER_Metric *metric;       // owned
} config_metric;

error *config_metric_new(config_metric *made, const char *hash);
void config_metric_free(config_metric *made); // before the server goes

#endif
