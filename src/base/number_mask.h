// SPDX-License-Identifier: Apache-2.0
// Where the digits of sixteen bytes end, for number_read.c. NUMBER_MASK is 1 where the processor
// tells with one comparison; elsewhere the reader takes eight bytes at a time without this.
#ifndef NEREID_BASE_NUMBER_MASK_H
#define NEREID_BASE_NUMBER_MASK_H

#if defined(__SSE2__)
#define NUMBER_MASK 1

#include <emmintrin.h>
#include <stdint.h>

// Bit i is set when byte i of the 16 at `text` is not a decimal digit.
static inline uint32_t number_mask_others(const char *text)
{
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)text);
  // '0' becomes the least signed byte, so that digits are the ten least values.
  __m128i shifted = _mm_sub_epi8(bytes, _mm_set1_epi8((char)('0' + 128)));
  return (uint32_t)_mm_movemask_epi8(_mm_cmpgt_epi8(shifted, _mm_set1_epi8(-128 + 9)));
}

#else
#define NUMBER_MASK 0
#endif

#endif
