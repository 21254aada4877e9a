// SPDX-License-Identifier: Apache-2.0
// TLS of a listener: the flags (alike for HTTP and gRPC) and the files that they name, read and
// checked before a port is opened.
#ifndef NEREID_FRONTEND_COMMON_NET_TLS_H
#define NEREID_FRONTEND_COMMON_NET_TLS_H

#include "base/error.h"

#include <stdbool.h>

// What the flags say; "" where a flag was not given.
typedef struct tls_flags {
  bool use;    // --<protocol>-use-ssl
  bool mutual; // --<protocol>-use-ssl-mutual, which implies `use`
  char *certificate_file;
  char *key_file;
  char *root_file;
} tls_flags;

// What they come to: PEM texts, owned. All NULL: no TLS.
typedef struct tls_identity {
  char *certificate; // and those that lead from it to a root
  char *key;
  char *root; // whom certificates of clients must come from; NULL: clients need none
} tls_identity;

// TLS 1.2 and 1.3 with GnuTLS's choice of ciphers, in the form of its priority strings.
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

// Reads the files; `protocol` ("http") is part of the flags' names. Errors name flag and file: a
// flag that is missing, a file that cannot be read or is no certificate or key, a key of another
// certificate. `identity` needs tls_identity_fini whatever happens.
error *tls_identity_read(const tls_flags *flags, const char *protocol, tls_identity *identity);
void tls_identity_fini(tls_identity *identity);

#endif
