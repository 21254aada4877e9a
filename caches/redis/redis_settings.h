// SPDX-License-Identifier: Apache-2.0
// What --cache-config redis,… says, with the names and meanings of Triton's Redis cache. Read once,
// at the start.
#ifndef NEREID_CACHES_REDIS_SETTINGS_H
#define NEREID_CACHES_REDIS_SETTINGS_H

#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>

#define MOST_REDIS_LINKS 64

typedef struct redis_settings {
  char *host, *port; // the port is digits
  char *user;        // NULL: that of all who give none
  char *password;    // NULL: none is asked for
  char *db;          // NULL: 0
  char *ttl;         // seconds as digits; NULL: entries stay
  uint64_t connect_timeout_ns, answer_timeout_ns;
  unsigned link_count;
  bool optional; // the server starts without it
  bool tls, verify_host;
  char *cert, *key, *cacert, *cacert_dir, *sni; // NULL: not given
} redis_settings;

// INVALID_ARG names what is missing or wrong. What was read is freed by redis_settings_fini in
// either case.
TRITONSERVER_Error *redis_settings_read(const char *config, redis_settings *s);
void redis_settings_fini(redis_settings *s);

#endif
