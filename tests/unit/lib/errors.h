// SPDX-License-Identifier: Apache-2.0
// Errors of a front end's parts as a test expects them.
#ifndef NEREID_TESTS_UNIT_ERRORS_H
#define NEREID_TESTS_UNIT_ERRORS_H

#include "base/error.h"

#include <string.h>

static inline void assert_refused(error *e, error_code code, const char *text)
{
  assert_non_null(e);
  if (error_get_code(e) != code || strstr(error_message(e), text) == NULL)
    fail_msg("%d: %s\nwithout: %s", (int)error_get_code(e), error_message(e), text);
  error_free(e);
}

static inline void assert_taken(error *e)
{
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
}

#endif
