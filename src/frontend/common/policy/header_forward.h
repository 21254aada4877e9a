// SPDX-License-Identifier: Apache-2.0
// Which header (or metadata) fields of an inference become parameters of the request:
// --http-header-forward-pattern and --grpc-header-forward-pattern. A pattern is compiled once; any
// thread may ask.
#ifndef NEREID_FRONTEND_COMMON_POLICY_HEADER_FORWARD_H
#define NEREID_FRONTEND_COMMON_POLICY_HEADER_FORWARD_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

typedef struct header_forward header_forward;

// Compiles a Perl-compatible expression, which a field's name is searched for without regard to
// case ("(?-i)" at its front brings it back). An empty pattern forwards nothing: *result is NULL.
// INVALID_ARG, with the place and PCRE2's reason, when it is no expression.
error *header_forward_new(const char *pattern, header_forward **result);
void header_forward_free(header_forward *forward); // NULL is allowed

// Is the field to be forwarded? Errors (INVALID_ARG): its name is one of those that steer the
// server, in any case; or the search took too many steps.
error *header_forward_matches(const header_forward *forward, slice name, bool *matches);

#endif
