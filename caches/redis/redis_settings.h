// SPDX-License-Identifier: Apache-2.0
// The settings of --cache-config redis,…, with the names and meanings of Triton's Redis cache. Read
// once, at the start.
#ifndef NEREID_CACHES_REDIS_SETTINGS_H
#define NEREID_CACHES_REDIS_SETTINGS_H

#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#define MOST_REDIS_LINKS 64

typedef struct redis_settings {
  char *host, *port; // the port is digits
  char *user;        // NULL: Redis' default user
  char *password;    // NULL: none
  char *db;          // NULL: 0
  char *ttl;         // seconds as digits; NULL: entries stay
  uint64_t connect_timeout_ns, answer_timeout_ns;
  unsigned link_count;
  bool optional; // the server starts even without Redis
  bool tls, verify_host;
  char *cert, *key, *cacert, *cacert_dir, *sni; // NULL: not given
} redis_settings;

// INVALID_ARG names the missing or wrong setting. Call redis_settings_fini in either case.
TRITONSERVER_Error *redis_settings_read(const char *config, redis_settings *s);
void redis_settings_fini(redis_settings *s);

#endif
