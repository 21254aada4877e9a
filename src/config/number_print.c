// Floating-point numbers for the configuration's printers.
#include "config/number_print.h"

#include "base/number.h"

void number_print(buffer *out, double value, bool single)
{
  char text[NUMBER_TEXT_BYTES];
  buffer_append(out, text,
                single ? number_print_f32(text, (float)value) : number_print_f64(text, value));
}
