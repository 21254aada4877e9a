// SPDX-License-Identifier: Apache-2.0
// What the flags say about access to each listener: keys, forwarded headers, TLS. The main thread
// reads them before any port opens; the listeners borrow the result.
#ifndef NEREID_DAEMON_ACCESS_RULES_H
#define NEREID_DAEMON_ACCESS_RULES_H

#include "daemon/options.h"
#include "frontend/common/net/tls.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/common/policy/header_forward.h"

typedef struct listener_rules {
  access_policy access;
  header_forward *forward; // NULL: none
  tls_identity tls;
} listener_rules;

typedef struct access_rules {
  listener_rules http;
  listener_rules grpc;
  access_policy admin; // at --admin-address and --admin-grpc-address
} access_rules;

// Errors name the flag. Call access_rules_fini on `rules` even after an error.
error *access_rules_read(daemon_options *options, access_rules *rules);
void access_rules_fini(access_rules *rules);

// Warns about categories that need a key at one listener and none at another open listener. Logs
// which files of keys every user may read.
void access_rules_warn(const daemon_options *options, const access_rules *rules);

#endif
