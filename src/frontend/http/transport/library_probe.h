// SPDX-License-Identifier: Apache-2.0
// Finds out what the loaded libmicrohttpd does, with known requests at the start: versions from
// 0.9.75 to 1.0 have the same soname but differ.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_PROBE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_PROBE_H

#include "base/error.h"

#include <stdbool.h>

typedef struct library_traits {
  bool reads_extensions; // of chunks; 1.0.0 and 1.0.1 lose a byte behind one
} library_traits;

// The lowest strictness of libmicrohttpd (MHD_OPTION_STRICT_FOR_CLIENT): request_scan.h is strict
// instead.
#define LIBRARY_STRICTNESS (-1)

// Tries the library. UNAVAILABLE, with its version and the fault, when the scan does not see its
// bytes first, or when it misreads a valid request.
error *library_probe(library_traits *traits);

#endif
