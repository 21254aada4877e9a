// SPDX-License-Identifier: Apache-2.0
// The line of a source that a finding is about, and carets below what is meant, as compilers print
// them. Used by the check, on one thread.
#ifndef NEREID_CHECK_EXCERPT_H
#define NEREID_CHECK_EXCERPT_H

#include "base/buffer.h"
#include "base/slice.h"
#include "config/diagnostics.h"

// A text, and where the last excerpt was: findings come in the order of the text, which is gone
// through once.
typedef struct excerpt_source {
  slice text;
  unsigned line;      // from 1; 0: none so far
  size_t line_offset; // of its first byte
  unsigned column;    // from 1, as the reader counts: bytes, and tabs to the next multiple of 8
  size_t offset;      // of the byte there
} excerpt_source;

// Appends the line at `place`, and a line with ^~~~ below the bytes that the place has. Tabs become
// blanks, as does what a terminal could take for a command, and of a long line a part is
// shown, with … where it is cut. Nothing where the text has no such line.
void excerpt_print(excerpt_source *source, source_place place, buffer *line, buffer *carets);

#endif
