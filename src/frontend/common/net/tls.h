// SPDX-License-Identifier: Apache-2.0
// TLS of a listener: its flags (the same for HTTP and gRPC) and the files that they name, which are
// read and checked before a port is opened.
#ifndef NEREID_FRONTEND_COMMON_NET_TLS_H
#define NEREID_FRONTEND_COMMON_NET_TLS_H

#include "base/error.h"

#include <stdbool.h>

// The values of the flags; "" for a flag that was not given.
typedef struct tls_flags {
  bool use;    // --<protocol>-use-ssl
  bool mutual; // --<protocol>-use-ssl-mutual, which implies `use`
  char *certificate_file;
  char *key_file;
  char *root_file;
} tls_flags;

// The contents of the files: PEM texts, owned. All NULL: no TLS.
typedef struct tls_identity tls_identity;
struct tls_identity {
  char *certificate; // with the certificates that lead from it to a root
  char *key;
  char *root; // must have signed clients' certificates; NULL: clients need none
  struct gnutls_certificate_credentials_st *credentials; // made of these
  tls_identity *_Atomic renewed;                         // for new connections; NULL: this one is
  tls_identity *older;                                   // of a renewed one: the one before
};

// TLS 1.2 and 1.3 with GnuTLS's choice of ciphers, as a GnuTLS priority string.
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

// Reads the files; `protocol` ("http") is part of the flags' names. Errors name flag and file: a
// missing flag, a file that cannot be read or is no certificate or key, a key of another
// certificate. `identity` needs tls_identity_fini even after an error.
error *tls_identity_read(const tls_flags *flags, const char *protocol, tls_identity *identity);
void tls_identity_fini(tls_identity *identity);

// Gives new connections what `fresh` has; the others keep theirs. *changed: it was something else.
// Takes the contents of `fresh` if so. One thread at a time; others may ask meanwhile.
error *tls_identity_renew(tls_identity *identity, tls_identity *fresh, bool *changed);

// For a new connection; they live as long as the identity. Any thread.
struct gnutls_certificate_credentials_st *tls_identity_credentials(const tls_identity *identity);

#endif
