// SPDX-License-Identifier: Apache-2.0
// Entries in a Redis, which may be gone, slow, full or something else: then there are none. A
// look-up waits for an answer as long as is set; what is written is written by a thread of the
// store's own, which also reconnects. Any thread.
#ifndef NEREID_CACHES_REDIS_STORE_H
#define NEREID_CACHES_REDIS_STORE_H

#include "caches/redis/redis_entry.h"
#include "caches/redis/redis_settings.h"

typedef struct redis_store redis_store;

// Connects. An error, unless the settings say that the Redis may be absent. The settings are taken
// in either case.
TRITONSERVER_Error *redis_store_new(redis_settings *settings_owned, redis_store **store);
void redis_store_free(redis_store *store); // what is not written yet is lost

// How many look-ups may wait at the same time.
unsigned redis_store_links(const redis_store *store);

// Asks for an entry: `reply` is what HGETALL gave. False: there is no answer.
bool redis_store_get(redis_store *store, const char *key, redis_reply *reply);

// Whether what is handed in has a chance to be written.
bool redis_store_takes(redis_store *store);
void redis_store_put(redis_store *store, redis_write *write_owned);

#endif
