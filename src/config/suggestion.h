// SPDX-License-Identifier: Apache-2.0
// The name most like a wrong one, among candidates that are shown to it one after the other.
// Any thread; keeps no state.
#ifndef NEREID_CONFIG_SUGGESTION_H
#define NEREID_CONFIG_SUGGESTION_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct suggestion {
  slice wanted;
  const char *best; // borrowed from the candidates; NULL: none is close
  size_t distance;  // of the best; a candidate must be nearer
  bool whole;       // a candidate's last words alone are not like it
} suggestion;

suggestion suggestion_of(slice name);
void suggestion_consider(suggestion *s, const char *candidate);

#endif
