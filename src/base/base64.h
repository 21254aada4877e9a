// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4). Pure.
#ifndef NEREID_BASE_BASE64_H
#define NEREID_BASE_BASE64_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// Most bytes that `text_size` characters can decode to.
size_t base64_decoded_size(size_t text_size);

// Decodes into `to`, which has room for base64_decoded_size bytes. Skips line ends; padding may be
// missing. False when another character is outside the alphabet.
bool base64_decode(slice text, char *to, size_t *size);

#endif
