// SPDX-License-Identifier: Apache-2.0
// Small text helpers that every layer may use.
#ifndef NEREID_BASE_TEXT_H
#define NEREID_BASE_TEXT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Length in bytes (1-4) of the valid UTF-8 character at `text`, or 0 when the bytes there are not
// UTF-8 (overlong, surrogate, above U+10FFFF or cut off). `size` is the number of bytes available,
// at least 1.
size_t text_utf8_length(const char *text, size_t size);

// Is there one of the quotes “ ” „ ‟ ‘ ’ ‚ ‛, which word processors write in place of " and '?
bool text_begins_typographic_quote(const char *text, size_t size);

// Writes the character `code` as UTF-8; returns its size, 1 to 4 bytes.
size_t text_put_utf8(char *out, uint32_t code);

// Writes the bytes as lowercase hexadecimal digits, 2 * count of them, without a NUL.
void text_put_hex(char *out, const uint8_t *bytes, size_t count);

// Reads all of `text` as a decimal integer: optional sign, digits. False for anything else and out
// of range.
bool text_to_int64(slice text, int64_t *value);
bool text_to_uint64(slice text, uint64_t *value); // no sign allowed

// Reads a number of bytes; a suffix K, M, G or T, in any case, multiplies it by 1024, 1024² and so
// on.
bool text_to_bytes(slice text, uint64_t *bytes);

// Reads all of `text` as a finite decimal floating-point number.
bool text_to_double(slice text, double *value);

// Read the number that `text` begins with, as Triton does (std::stol, std::stod): blanks and a sign
// may come first, and *rest follows it. False when there is no number, or it does not fit.
bool text_begins_int64(const char *text, int64_t *value, const char **rest);
bool text_begins_double(const char *text, double *value, const char **rest);

// A copy that the caller frees; NULL when memory is short.
char *text_copy(slice text);

// Replaces the text at `target` (NULL or from malloc, which is freed) by a copy of `text`, which
// may be part of the old text. False when memory is short; nothing changes then.
bool text_replace(char **target, const char *text);

// The value of a hexadecimal digit, -1 for any other character.
int text_hex_digit(char c);

// Whether both are the same text, or both NULL.
bool text_same(const char *a, const char *b);
bool text_starts_with(const char *text, const char *prefix);
bool text_ends_with(const char *text, const char *suffix);

#endif
