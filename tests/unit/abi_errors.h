// Errors of the north seam for tests of front-end parts that run without a server behind it.
#ifndef NEREID_TESTS_UNIT_SEAM_ERRORS_H
#define NEREID_TESTS_UNIT_SEAM_ERRORS_H

#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  char text[];
};

TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *text)
{
  TRITONSERVER_Error *e = malloc(sizeof(*e) + strlen(text) + 1);
  e->code = code;
  memcpy(e->text, text, strlen(text) + 1);
  return e;
}

static inline void assert_refused(TRITONSERVER_Error *e, TRITONSERVER_Error_Code code,
                                  const char *text)
{
  assert_non_null(e);
  if (e->code != code || strstr(e->text, text) == NULL)
    fail_msg("%d: %s\nwithout: %s", (int)e->code, e->text, text);
  free(e);
}

static inline void assert_taken(TRITONSERVER_Error *e)
{
  if (e != NULL)
    fail_msg("refused: %s", e->text);
}

#endif
