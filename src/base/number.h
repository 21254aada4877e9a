// SPDX-License-Identifier: Apache-2.0
// Numbers as text, both ways, and the 16-bit floats. Fast, exact and independent of the locale.
// Pure functions; any thread. Readers may read NUMBER_BYTES_BEHIND bytes past the number: the text
// must be followed by as many readable bytes, and the first of them must not continue the number.
#ifndef NEREID_BASE_NUMBER_H
#define NEREID_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_TEXT_BYTES   32 // room that every print function needs at `out`
#define NUMBER_BYTES_BEHIND 16

// Each writes the text without a NUL and returns its size. Floats print as the shortest decimal in
// JSON's grammar that reads back to the same value of the same type, or as "NaN", "Infinity",
// "-Infinity" (the tokens that Triton, RapidJSON and Python's json agree on).
size_t number_print_u64(char *out, uint64_t value);
size_t number_print_i64(char *out, int64_t value);
size_t number_print_f64(char *out, double value);
size_t number_print_f32(char *out, float value);
size_t number_print_f16(char *out, uint16_t bits);
size_t number_print_bf16(char *out, uint16_t bits);

typedef enum number_status {
  NUMBER_READ_OK,
  NUMBER_READ_NOT_A_NUMBER, // *end is where it went wrong
  NUMBER_READ_NOT_INTEGER,  // has a fraction or an exponent that leaves one; *end is behind it
  NUMBER_READ_OUT_OF_RANGE, // of the type's range; *end is behind it
} number_status;

// Read JSON's number grammar (no leading '+', no leading zeroes). Integers take a fraction of
// zeroes and exponents ("1.0", "1e3") when the value is a whole number. Floats take NaN, Infinity,
// Inf and -Infinity, -Inf too, and round to nearest even; a number beyond the largest is
// OUT_OF_RANGE.
number_status number_read_i64(const char *text, const char **end, int64_t *value);
number_status number_read_u64(const char *text, const char **end, uint64_t *value);
number_status number_read_f64(const char *text, const char **end, double *value);
number_status number_read_f32(const char *text, const char **end, float *value);

// The C library's strtod in the C locale, whatever the process's own locale is.
double number_strtod(const char *text, char **end);

// Read up to max_count numbers separated by "," or ", ", as long as they have the usual form (sign,
// digits, fraction; 15 characters) and end at `limit` or before. Return how many were read, maybe
// 0; *end is behind the last of them.
size_t number_read_f32_run(const char *text, const char *limit, void *out, size_t max_count,
                           const char **end);
size_t number_read_f64_run(const char *text, const char *limit, void *out, size_t max_count,
                           const char **end);

// IEEE 754 binary16 and bfloat16, round to nearest even; overflow gives an infinity.
float number_f16_to_f32(uint16_t bits);
uint16_t number_f32_to_f16(float value);
float number_bf16_to_f32(uint16_t bits);
uint16_t number_f32_to_bf16(float value);

#endif
