// SPDX-License-Identifier: Apache-2.0
// Writes and reads values one after another in memory: the control part of a message. Integers are
// in the machine's byte order, unaligned; a text is its length (uint32_t) and its bytes. Both sides
// run on one machine. Neither reader nor writer ever goes past its end.
#ifndef NEREID_WIRE_H
#define NEREID_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Writes to [to, to + room). With `to` NULL nothing is written and `size` counts the bytes needed:
// call the same code twice, first to count.
typedef struct wire_writer {
  uint8_t *to;
  size_t room;
  size_t size; // so far; beyond `room` nothing is written
} wire_writer;

void wire_put_u8(wire_writer *writer, uint8_t value);
void wire_put_u32(wire_writer *writer, uint32_t value);
void wire_put_u64(wire_writer *writer, uint64_t value);
void wire_put_i64(wire_writer *writer, int64_t value);
void wire_put_f64(wire_writer *writer, double value);
void wire_put_text(wire_writer *writer, const char *text, size_t length);
void wire_put_string(wire_writer *writer, const char *text); // without a length; NULL: nothing

// Reads from [at, end). After a read beyond the end `bad` is set and all reads return zeros.
typedef struct wire_reader {
  const uint8_t *at;
  const uint8_t *end;
  bool bad;
} wire_reader;

uint8_t wire_get_u8(wire_reader *reader);
uint32_t wire_get_u32(wire_reader *reader);
uint64_t wire_get_u64(wire_reader *reader);
int64_t wire_get_i64(wire_reader *reader);
double wire_get_f64(wire_reader *reader);

// Returns the text in place, without a NUL. NULL with length 0 when bad.
const char *wire_get_text(wire_reader *reader, size_t *length);

// Reads a count of items that have at least `least` bytes each. Sets `bad` when they cannot fit in
// the rest. Use it before allocating by a count.
uint32_t wire_get_count(wire_reader *reader, size_t least);

#endif
