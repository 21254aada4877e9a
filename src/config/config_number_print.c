// SPDX-License-Identifier: Apache-2.0
// Floating-point numbers for the configuration's printers.
#include "config/config_number_print.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

void number_print(buffer *out, double value, bool single)
{
  char text[NUMBER_TEXT_BYTES];
  size_t size = single ? number_print_f32(text, (float)value) : number_print_f64(text, value);
  bool whole = size > 2 && memcmp(text + size - 2, ".0", 2) == 0;
  if (whole &&
      !(value == 0 && signbit(value))) // "-0" would be read as an integer and lose its sign
    size -= 2;                         // whole numbers have no point in protobuf's JSON
  buffer_append(out, text, size);
}
