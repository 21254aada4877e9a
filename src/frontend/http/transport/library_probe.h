// SPDX-License-Identifier: Apache-2.0
// What the libmicrohttpd that is loaded does: found out at the start, by known requests, since one
// name stands for versions that differ (0.9.75 to 1.0).
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_PROBE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_PROBE_H

#include "base/error.h"

#include <stdbool.h>

typedef struct library_traits {
  bool reads_extensions; // of chunks: 1.0.0 and 1.0.1 lose a byte behind one
} library_traits;

// How lenient libmicrohttpd is to be asked to be (MHD_OPTION_STRICT_FOR_CLIENT): request_scan.h is
// strict in its place.
#define LIBRARY_STRICTNESS (-1)

// Tries it. UNAVAILABLE, with its version and what was wrong, when its bytes are not seen before it
// reads them, or when it reads a good request in another way than it is written.
error *library_probe(library_traits *traits);

#endif
