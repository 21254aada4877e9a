// SPDX-License-Identifier: Apache-2.0
// What a cache's library may offer to nereid beyond Triton's ABI; other servers do not look for it.
#ifndef NEREID_CACHE_EXTENSION_H
#define NEREID_CACHE_EXTENSION_H

#include "triton/core/tritoncache.h"

// A promise, looked up by name: only this process sees the entries, and they end with it. The
// server may then make keys with a secret of the process. The value does not matter.
TRITONCACHE_ISPEC extern const char NEREID_CacheStaysInProcess;

// How many look-ups may wait at the same time, for example for a server on the network. The server
// then makes look-ups on that many threads of its own, never on a thread that serves clients. Asked
// once, after TRITONCACHE_CacheInitialize. Without this function, or with 0, look-ups must be as
// fast as memory.
TRITONCACHE_ISPEC unsigned NEREID_CacheLookupThreads(TRITONCACHE_Cache *cache);

#endif
