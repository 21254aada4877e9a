// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats: conversions (IEEE 754-2019, 3.6; bfloat16 is the upper half of a binary32) and
// text. The shortest text is found by trying 1 to 5 digits.
#include "base/number.h"

#include <string.h>

static float float_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static uint32_t bits_of(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float number_f16_to_f32(uint16_t bits)
{
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = bits >> 10 & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f)
    return float_of(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0)
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t number_f32_to_f16(float value)
{
  uint32_t bits = bits_of(value);
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) // NaN stays one
    return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) // 65520 and more round to infinity
    return (uint16_t)(sign | 0x7c00);
  if (magnitude < 0x38800000) { // subnormal: the sum leaves the rounded fraction in the low bits
    uint32_t rounded = bits_of(float_of(magnitude) + 0.5f);
    return (uint16_t)(sign | (rounded - bits_of(0.5f)));
  }
  uint32_t odd = magnitude >> 13 & 1;
  return (uint16_t)(sign | (magnitude - (112u << 23) + 0xfff + odd) >> 13);
}

float number_bf16_to_f32(uint16_t bits)
{
  return float_of((uint32_t)bits << 16);
}

uint16_t number_f32_to_bf16(float value)
{
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounds to `digits` significant digits and prints that as a float.
static size_t print_rounded(char *out, float value, int digits)
{
  double scale = 1;
  double magnitude = value < 0 ? -(double)value : (double)value;
  int exponent = 0;
  for (; magnitude / scale >= 10; exponent++)
    scale *= 10;
  for (; magnitude / scale < 1; exponent--)
    scale /= 10;
  for (int i = 1; i < digits; i++, exponent--)
    scale /= 10;
  uint64_t rounded = (uint64_t)(magnitude / scale + 0.5);
  char text[NUMBER_TEXT_BYTES + 16] = {'-'};
  size_t size = value < 0;
  size += number_print_u64(text + size, rounded);
  text[size++] = 'e';
  size += number_print_i64(text + size, exponent);
  memset(text + size, 0, 8);
  const char *end;
  double read;
  number_read_f64(text, &end, &read);
  return number_print_f64(out, read);
}

static size_t print_half(char *out, float value, uint16_t bits, uint16_t (*convert)(float))
{
  if (value - value != 0 || value == 0) // not finite, or zero
    return number_print_f32(out, value);
  for (int digits = 1; digits <= 5; digits++) {
    const char *end;
    float read;
    size_t size = print_rounded(out, value, digits);
    memset(out + size, 0, 8);
    if (size + 8 <= NUMBER_TEXT_BYTES && number_read_f32(out, &end, &read) == NUMBER_READ_OK &&
        convert(read) == bits)
      return size;
  }
  return number_print_f32(out, value);
}

size_t number_print_f16(char *out, uint16_t bits)
{
  return print_half(out, number_f16_to_f32(bits), bits, number_f32_to_f16);
}

size_t number_print_bf16(char *out, uint16_t bits)
{
  return print_half(out, number_bf16_to_f32(bits), bits, number_f32_to_bf16);
}
