// SPDX-License-Identifier: Apache-2.0
// Searches names of header fields with PCRE2, in a bounded number of steps.
#include "frontend/common/policy/header_forward.h"

#include "frontend/common/json/request_parameter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#define MAX_STEPS    10000 // from each place in a name; plain patterns need a few for each byte
#define MAX_NAME     256   // longer names are refused
#define MAX_HEAP_KIB 64

struct header_forward {
  pcre2_code *code;
  pcre2_match_context *limits;
};

error *header_forward_new(const char *pattern, header_forward **result)
{
  *result = NULL;
  if (pattern[0] == '\0')
    return NULL;
  int failure = 0;
  PCRE2_SIZE place = 0;
  header_forward *forward = calloc(1, sizeof(*forward));
  if (forward == NULL)
    return error_no_memory();
  forward->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                PCRE2_CASELESS | PCRE2_NEVER_BACKSLASH_C, &failure, &place, NULL);
  if (forward->code == NULL) {
    PCRE2_UCHAR reason[128];
    header_forward_free(forward);
    pcre2_get_error_message(failure, reason, sizeof(reason));
    return error_new(ERROR_INVALID_ARG, "invalid pattern '%s': %s at byte %zu", pattern,
                     (const char *)reason, (size_t)place);
  }
  forward->limits = pcre2_match_context_create(NULL);
  if (forward->limits == NULL) {
    header_forward_free(forward);
    return error_no_memory();
  }
  pcre2_set_match_limit(forward->limits, MAX_STEPS);
  pcre2_set_heap_limit(forward->limits, MAX_HEAP_KIB);
  *result = forward;
  return NULL;
}

void header_forward_free(header_forward *forward)
{
  if (forward == NULL)
    return;
  pcre2_match_context_free(forward->limits);
  pcre2_code_free(forward->code);
  free(forward);
}

error *header_forward_matches(const header_forward *forward, slice name, bool *matches)
{
  *matches = false;
  pcre2_match_data *found = pcre2_match_data_create(1, NULL);
  if (found == NULL)
    return error_no_memory();
  int outcome = PCRE2_ERROR_MATCHLIMIT;
  if (name.size <= MAX_NAME)
    outcome =
        pcre2_match(forward->code, (PCRE2_SPTR)name.data, name.size, 0, 0, found, forward->limits);
  pcre2_match_data_free(found);
  if (outcome == PCRE2_ERROR_NOMATCH)
    return NULL;
  if (outcome < 0)
    return error_new(ERROR_INVALID_ARG,
                     "Header '%.*s' takes too long to be compared with the pattern of forwarded "
                     "headers.",
                     (int)(name.size < 64 ? name.size : 64), name.data);
  if (request_parameter_is_reserved(name))
    return error_new(ERROR_INVALID_ARG,
                     "Header '%.*s' is reserved for Triton usage and cannot be forwarded.",
                     (int)name.size, name.data);
  *matches = true;
  return NULL;
}
