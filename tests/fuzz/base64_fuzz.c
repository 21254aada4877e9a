// SPDX-License-Identifier: Apache-2.0
// Any text as base64 against a decoder that is slow and plain, and any bytes through an encoder.
#include "base/base64.h"
#include "fuzz.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(char c)
{
  const char *at = c == '\0' ? NULL : strchr(alphabet, c);
  return at == NULL ? -1 : (int)(at - alphabet);
}

// Takes line ends out, then up to two '=' off the end; what is left gives its bits, whole bytes of
// them. False when a character is none of the alphabet, or one alone is left over.
static bool decode_plainly(slice text, char *to, size_t *size)
{
  char *clean = fuzz_copy((slice){"", 0}, text.size);
  size_t count = 0;
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] != '\r' && text.data[i] != '\n')
      clean[count++] = text.data[i];
  for (int padding = 0; padding < 2 && count > 0 && clean[count - 1] == '='; padding++)
    count--;
  bool valid = count % 4 != 1;
  for (size_t i = 0; i < count; i++)
    valid = valid && value_of(clean[i]) >= 0;
  *size = count * 6 / 8;
  for (size_t bit = 0; valid && bit < *size * 8; bit++) {
    const int set = value_of(clean[bit / 6]) >> (5 - bit % 6) & 1;
    to[bit / 8] =
        (char)(bit % 8 == 0 ? set << 7 : (unsigned char)to[bit / 8] | set << (7 - bit % 8));
  }
  free(clean);
  return valid;
}

static void check_text(slice text)
{
  const size_t room = base64_decoded_size(text.size);
  char *decoded = malloc(room > 0 ? room : 1); // a sanitizer sees the end
  char *expected = malloc(text.size + 1);
  CHECK(decoded != NULL && expected != NULL);
  size_t size = 0, expected_size;
  const bool valid = base64_decode(text, decoded, &size);
  CHECK(valid == decode_plainly(text, expected, &expected_size));
  if (valid) {
    CHECK(size == expected_size && size <= room);
    CHECK(memcmp(decoded, expected, size) == 0);
  }
  free(expected);
  free(decoded);
}

// With padding, and a line end after each `line` characters.
static char *encode(slice bytes, size_t line, size_t *size)
{
  char *text = malloc(bytes.size * 4 + 8);
  CHECK(text != NULL);
  size_t written = 0, in_line = 0;
  for (size_t bit = 0; bit < bytes.size * 8 || in_line % 4 != 0; bit += 6) {
    unsigned value = 0;
    for (size_t b = bit; b < bit + 6; b++)
      value =
          value << 1 | (b < bytes.size * 8 ? (unsigned)bytes.data[b / 8] >> (7 - b % 8) & 1u : 0u);
    text[written++] = bit < bytes.size * 8 ? alphabet[value] : '=';
    if (++in_line == line)
      text[written++] = '\n';
    in_line %= line;
  }
  *size = written;
  return text;
}

static void check_bytes(slice bytes, size_t line)
{
  size_t text_size, size = 0;
  char *text = encode(bytes, line, &text_size);
  char *decoded = malloc(base64_decoded_size(text_size) + 1);
  CHECK(decoded != NULL);
  CHECK(base64_decode((slice){text, text_size}, decoded, &size));
  CHECK(size == bytes.size);
  CHECK(size == 0 || memcmp(decoded, bytes.data, size) == 0);
  free(decoded);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const slice input = {(const char *)data, size};
  check_text(input);
  check_bytes(input, 76);
  check_bytes(input, 4);
  return 0;
}
