// SPDX-License-Identifier: Apache-2.0
// Entries in a Redis, which may be absent, slow, full or damaged: then there are no entries. A
// look-up waits for an answer up to the configured time. The store's own thread writes and
// reconnects. Any thread.
#ifndef NEREID_CACHES_REDIS_STORE_H
#define NEREID_CACHES_REDIS_STORE_H

#include "caches/redis/redis_entry.h"
#include "caches/redis/redis_settings.h"

typedef struct redis_store redis_store;

// Connects. Fails when Redis is absent, unless the settings allow that. Takes the settings in
// either case.
TRITONSERVER_Error *redis_store_new(redis_settings *settings_owned, redis_store **store);
void redis_store_free(redis_store *store); // unwritten entries are lost

// How many look-ups may wait at the same time.
unsigned redis_store_links(const redis_store *store);

// Asks for an entry: `reply` is HGETALL's. False: no answer.
bool redis_store_get(redis_store *store, const char *key, redis_reply *reply);

// Whether a new entry could be written now.
bool redis_store_takes(redis_store *store);
void redis_store_put(redis_store *store, redis_write *write_owned);

#endif
