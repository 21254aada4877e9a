// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648, section 4). Pure.
#ifndef NEREID_BASE_BASE64_H
#define NEREID_BASE_BASE64_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// Most bytes that `text_size` characters can stand for.
size_t base64_decoded_size(size_t text_size);

// Decodes into `to`, which has room for base64_decoded_size bytes. Line ends are skipped, padding
// may be missing. False when anything else is not of the alphabet.
bool base64_decode(slice text, char *to, size_t *size);

#endif
