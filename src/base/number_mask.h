// SPDX-License-Identifier: Apache-2.0
// Tells which of sixteen bytes are no digits: by one comparison of SSE2 or NEON, or in words of
// eight bytes. For number_read.c; no state.
#ifndef NEREID_BASE_NUMBER_MASK_H
#define NEREID_BASE_NUMBER_MASK_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#include <arm_neon.h>
#endif

// The eight bytes at `text`, the first one lowest.
static inline uint64_t number_load_eight(const char *text)
{
  uint64_t word;
  memcpy(&word, text, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// Bit i of the result is set when byte i of the eight is not a decimal digit.
static inline uint32_t number_word_others(uint64_t word)
{
  const uint64_t low = 0x7f7f7f7f7f7f7f7f, sevenths = 0x7676767676767676;
  uint64_t values = word ^ 0x3030303030303030;
  // 0 to 9 stay below 128 with 0x76 added; no byte carries into the next.
  uint64_t tops = (((values & low) + sevenths) | values) >> 7 & 0x0101010101010101;
  return (uint32_t)(tops * 0x0102040810204080 >> 56);
}

// The same for sixteen bytes at `text`, on any machine.
static inline uint32_t number_words_others(const char *text)
{
  return number_word_others(number_load_eight(text)) |
         number_word_others(number_load_eight(text + 8)) << 8;
}

// The same, by the fastest way that this machine has.
static inline uint32_t number_mask_others(const char *text)
{
#if defined(__SSE2__)
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
  // '0' becomes the least signed byte, so that digits are the ten least values.
  __m128i shifted = _mm_sub_epi8(bytes, _mm_set1_epi8((char)('0' + 128)));
  return (uint32_t)_mm_movemask_epi8(_mm_cmpgt_epi8(shifted, _mm_set1_epi8(-128 + 9)));
#elif defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
  static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  uint8x16_t values = vsubq_u8(vld1q_u8((const uint8_t *)text), vdupq_n_u8('0'));
  uint8x16_t others = vandq_u8(vcgtq_u8(values, vdupq_n_u8(9)), vld1q_u8(bits));
  return (uint32_t)vaddv_u8(vget_low_u8(others)) | (uint32_t)vaddv_u8(vget_high_u8(others)) << 8;
#else
  return number_words_others(text);
#endif
}

#endif
