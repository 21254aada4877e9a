// SPDX-License-Identifier: Apache-2.0
// A connection to a Redis. No call waits beyond its deadline, whatever the other side does. One
// thread at a time.
#ifndef NEREID_CACHES_REDIS_LINK_H
#define NEREID_CACHES_REDIS_LINK_H

#include "caches/redis/redis_reply.h"
#include "caches/redis/redis_settings.h"

#include <gnutls/gnutls.h>

typedef struct redis_link redis_link;

// Shared by all connections to one Redis.
typedef struct redis_place {
  const redis_settings *settings;
  gnutls_certificate_credentials_t credentials; // with TLS
  int end;                                      // a wakeup: when signalled, all waits end; -1: none
} redis_place;

// Reads certificates. INVALID_ARG: they cannot be read. Call redis_place_fini even then.
TRITONSERVER_Error *redis_place_init(redis_place *place, const redis_settings *s);
void redis_place_fini(redis_place *place);

// Connects, logs in, and checks that Redis answers. Resolving the name may exceed the deadline, so
// call it where no request waits. The errors are texts for the log.
TRITONSERVER_Error *redis_link_open(const redis_place *place, uint64_t deadline_ns,
                                    redis_link **link);
void redis_link_close(redis_link *link); // NULL is allowed

// Sends a command of `count` words. Sizes may be NULL when all words are texts.
TRITONSERVER_Error *redis_link_send(redis_link *link, int count, const char **words,
                                    const size_t *sizes, uint64_t deadline_ns);
// Waits for the next reply. A refusal by Redis is a reply, not an error. After an error the link is
// unusable.
TRITONSERVER_Error *redis_link_receive(redis_link *link, redis_reply *reply, uint64_t deadline_ns);

#endif
