// Reading of numbers; see option_number.h.
#include "daemon/option_number.h"

#include "base/text.h"

#include <string.h>

#define BLANKS " \t\n\v\f\r"
#define DIGITS "0123456789"

static const char *behind_sign(const char *text)
{
  return text + (*text == '+' || *text == '-');
}

static const char *behind_digits(const char *text)
{
  return text + strspn(text, DIGITS);
}

// What stands behind the exponent at `text`, or `text` when there is none.
static const char *behind_exponent(const char *text)
{
  if (*text != 'e' && *text != 'E')
    return text;
  const char *digits = behind_sign(text + 1);
  const char *end = behind_digits(digits);
  return end == digits ? text : end;
}

bool option_number_integer(const char *text, int64_t *value, const char **rest)
{
  const char *start = text + strspn(text, BLANKS);
  *rest = behind_digits(behind_sign(start));
  return text_to_int64((slice){start, (size_t)(*rest - start)}, value);
}

bool option_number_double(const char *text, double *value, const char **rest)
{
  const char *start = text + strspn(text, BLANKS);
  const char *end = behind_digits(behind_sign(start));
  if (*end == '.')
    end = behind_digits(end + 1);
  *rest = behind_exponent(end);
  return text_to_double((slice){start, (size_t)(*rest - start)}, value);
}
