// What whoever has a JSON text read lends for it.
#ifndef NEREID_FRONTEND_COMMON_JSON_JSON_HOST_H
#define NEREID_FRONTEND_COMMON_JSON_JSON_HOST_H

#include "base/parallel.h"

// For long arrays of numbers.
typedef struct json_host {
  const parallel *parallel; // reads parts of them at once; NULL: nobody helps
  // Called with text, inside of an array, that is read and will not be looked at again; it may
  // begin with what was told before. NULL: nobody wants to know.
  void (*release_text)(void *context, const char *begin, const char *end);
  void *context;
} json_host;

#endif
