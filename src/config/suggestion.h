// SPDX-License-Identifier: Apache-2.0
// Finds the name most like a wrong one among candidates given one after the other. Any thread;
// keeps no state.
#ifndef NEREID_CONFIG_SUGGESTION_H
#define NEREID_CONFIG_SUGGESTION_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct suggestion {
  slice wanted;
  const char *best; // borrowed from the candidates; NULL: none is close
  size_t distance;  // of the best; a better candidate has less
  bool whole;       // never matches a candidate's last words alone
} suggestion;

suggestion suggestion_of(slice name);
void suggestion_consider(suggestion *s, const char *candidate);

#endif
