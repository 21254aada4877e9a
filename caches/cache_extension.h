// SPDX-License-Identifier: Apache-2.0
// What a cache's library may offer to nereid beyond Triton's ABI; other servers do not look for it.
#ifndef NEREID_CACHE_EXTENSION_H
#define NEREID_CACHE_EXTENSION_H

#include "triton/core/tritoncache.h"

// A promise, looked up by name: entries are seen by this process only, and end with it. Keys may
// then be made with a secret of the process. The value does not matter.
TRITONCACHE_ISPEC extern const char NEREID_CacheStaysInProcess;

// That a look-up may wait for somebody, such as a server on the network: how many may do so at the
// same time. Look-ups then come from so many threads of the server's own, never from a thread that
// has other clients to serve. Asked once, after TRITONCACHE_CacheInitialize. Without it, or for 0,
// look-ups are expected to be as fast as memory.
TRITONCACHE_ISPEC unsigned NEREID_CacheLookupThreads(TRITONCACHE_Cache *cache);

#endif
