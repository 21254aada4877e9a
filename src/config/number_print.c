// Floating-point numbers as text, for the configuration's printers: short, not fast.
#include "config/number_print.h"

#include <stdio.h>
#include <stdlib.h>

void number_print(buffer *out, double value, bool single)
{
  char text[40];
  int last = single ? 9 : 17; // digits that always suffice
  for (int digits = single ? 6 : 15; digits <= last; digits++) {
    snprintf(text, sizeof(text), "%.*g", digits, value);
    if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
      break;
  }
  buffer_append_text(out, text);
}
