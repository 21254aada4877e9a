#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints src/base/number_powers.h: powers of ten as 128-bit significands.

Row k holds 10^k / 2^e with 2^127 <= row < 2^128. Positive powers are cut off, negative ones are the next larger
integer, as Lemire, "Number parsing at a gigabyte per second" (Software: Practice and Experience 51(8), 2021),
section 6, asks for; number_print.c rounds the inexact positive ones up itself.
"""
FIRST, LAST = -342, 324


def significand(k):
    if k >= 0:
        power = 5**k
        shift = power.bit_length() - 128
        return power >> shift if shift > 0 else power << -shift
    power = 5**-k
    shift = power.bit_length() + 127
    return (1 << shift) // power + 1


def main():
    print("// Made by number_powers.py; its text says what the rows mean.")
    print("#ifndef NEREID_BASE_NUMBER_POWERS_H\n#define NEREID_BASE_NUMBER_POWERS_H\n")
    print("#include <stdint.h>\n")
    print(f"#define NUMBER_POWERS_FIRST ({FIRST})\n#define NUMBER_POWERS_LAST  {LAST}\n")
    print("typedef struct number_power {\n  uint64_t high, low;\n} number_power;\n")
    print("extern const number_power number_powers[NUMBER_POWERS_LAST - NUMBER_POWERS_FIRST + 1];\n")
    print("#ifdef NUMBER_POWERS_DEFINE")
    print("const number_power number_powers[] = {")
    for k in range(FIRST, LAST + 1):
        value = significand(k)
        assert 2**127 <= value < 2**128, k
        print(f"    {{0x{value >> 64:016x}, 0x{value & (2**64 - 1):016x}}}, // {k}")
    print("};\n#endif\n\n#endif")


main()
