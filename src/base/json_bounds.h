// SPDX-License-Identifier: Apache-2.0
// How much a JSON text can make of itself, told before anything is built from it: jansson recurses
// as deep as the text nests, and a value of three bytes costs it some hundred.
#ifndef NEREID_BASE_JSON_BOUNDS_H
#define NEREID_BASE_JSON_BOUNDS_H

#include "base/error.h"
#include "base/slice.h"

#include <stddef.h>

#define JSON_BOUNDS_DEPTH 100

// INVALID_ARG when the text nests deeper than JSON_BOUNDS_DEPTH or has more than `max_values`
// values. Needs no valid JSON: what a parser reads before it finds a mistake is within the bounds.
error *json_bounds_check(slice json, size_t max_values);

#endif
