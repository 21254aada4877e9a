// SPDX-License-Identifier: Apache-2.0
// Bounds the cost of a JSON text before it is parsed: jansson recurses as deep as the text nests,
// and a value of three bytes costs it some hundred.
#ifndef NEREID_BASE_JSON_BOUNDS_H
#define NEREID_BASE_JSON_BOUNDS_H

#include "base/error.h"
#include "base/slice.h"

#include <stddef.h>

#define JSON_BOUNDS_DEPTH 100

// INVALID_ARG when the text nests deeper than JSON_BOUNDS_DEPTH or has more than `max_values`
// values. The JSON may be invalid: a parser stays within the bounds until it finds the mistake.
error *json_bounds_check(slice json, size_t max_values);

#endif
