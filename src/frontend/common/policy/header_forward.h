// SPDX-License-Identifier: Apache-2.0
// Header (or metadata) fields of an inference that become parameters of its request, chosen by
// --http-header-forward-pattern and --grpc-header-forward-pattern. Constant once compiled; any
// thread may ask.
#ifndef NEREID_FRONTEND_COMMON_POLICY_HEADER_FORWARD_H
#define NEREID_FRONTEND_COMMON_POLICY_HEADER_FORWARD_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

typedef struct header_forward header_forward;

// Compiles a Perl-compatible expression, which is searched for in names of fields. Case does not
// matter, unless the expression begins with "(?-i)". With an empty pattern nothing is forwarded and
// *result is NULL. INVALID_ARG, with the place and PCRE2's reason, for a malformed expression.
error *header_forward_new(const char *pattern, header_forward **result);
void header_forward_free(header_forward *forward); // NULL is allowed

// Is the field to be forwarded? INVALID_ARG when its name is reserved (in any case of letters), or
// when the search takes too many steps.
error *header_forward_matches(const header_forward *forward, slice name, bool *matches);

#endif
