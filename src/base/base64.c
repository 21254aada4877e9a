// SPDX-License-Identifier: Apache-2.0
// Decodes base64: files in load requests, binary metadata. Any thread.
#include "base/base64.h"

#include <stdint.h>

size_t base64_decoded_size(size_t text_size)
{
  return text_size / 4 * 3 + text_size % 4;
}

// The six bits of a character, or -1.
static int value_of(char c)
{
  if (c >= 'A' && c <= 'Z')
    return c - 'A';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 26;
  if (c >= '0' && c <= '9')
    return c - '0' + 52;
  if (c == '+')
    return 62;
  return c == '/' ? 63 : -1;
}

// Is everything from `i` on padding and line ends, with at most two '='?
static bool is_padding(slice text, size_t i)
{
  size_t count = 0;
  for (; i < text.size; i++) {
    if (text.data[i] == '=')
      count++;
    else if (text.data[i] != '\r' && text.data[i] != '\n')
      return false;
  }
  return count <= 2;
}

bool base64_decode(slice text, char *to, size_t *size)
{
  uint32_t bits = 0;
  unsigned count = 0; // characters in `bits`
  size_t written = 0;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] == '\r' || text.data[i] == '\n')
      continue;
    int value = value_of(text.data[i]);
    if (value < 0) {
      if (!is_padding(text, i))
        return false;
      break;
    }
    bits = bits << 6 | (uint32_t)value;
    if (++count < 4)
      continue;
    to[written++] = (char)(bits >> 16);
    to[written++] = (char)(bits >> 8);
    to[written++] = (char)bits;
    bits = 0;
    count = 0;
  }
  if (count == 1)
    return false;
  if (count >= 2)
    to[written++] = (char)(bits >> (count == 2 ? 4 : 10));
  if (count == 3)
    to[written++] = (char)(bits >> 2);
  *size = written;
  return true;
}
