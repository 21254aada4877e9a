// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers for the printers of this directory. Private to src/config.
#ifndef NEREID_CONFIG_CONFIG_NUMBER_PRINT_H
#define NEREID_CONFIG_CONFIG_NUMBER_PRINT_H

#include "base/buffer.h"

#include <stdbool.h>

// Appends the shortest decimal text that reads back as the same number; `single` when the number is
// a float. It must be finite.
void number_print(buffer *out, double value, bool single);

#endif
