// SPDX-License-Identifier: Apache-2.0
// Checked size arithmetic. Sizes from outside are added and multiplied only here. Each function
// returns true on success and stores the result; on overflow it returns false and leaves *result
// unspecified.
#ifndef NEREID_BASE_CHECKED_H
#define NEREID_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool checked_add_size(size_t a, size_t b, size_t *result)
{
  return !__builtin_add_overflow(a, b, result);
}

static inline bool checked_multiply_size(size_t a, size_t b, size_t *result)
{
  return !__builtin_mul_overflow(a, b, result);
}

// The size of a head followed by an array.
static inline bool checked_array_size(size_t head, size_t count, size_t size, size_t *result)
{
  return checked_multiply_size(count, size, result) && checked_add_size(head, *result, result);
}

static inline bool checked_multiply_int64(int64_t a, int64_t b, int64_t *result)
{
  return !__builtin_mul_overflow(a, b, result);
}

#endif
