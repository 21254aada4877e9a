// SPDX-License-Identifier: Apache-2.0
// Prints a finding's line of source with carets below the place, as compilers do. Used by the
// check, on one thread.
#ifndef NEREID_CHECK_EXCERPT_H
#define NEREID_CHECK_EXCERPT_H

#include "base/buffer.h"
#include "base/slice.h"
#include "config/diagnostics.h"

// A text, and the place of the last excerpt: findings come in the order of the text, so it is read
// once.
typedef struct excerpt_source {
  slice text;
  unsigned line;      // from 1; 0: none so far
  size_t line_offset; // of its first byte
  unsigned column;    // from 1, as the reader counts: bytes, and tabs to the next multiple of 8
  size_t offset;      // of the byte at `column`
} excerpt_source;

// Appends the line at `place`, and a line with ^~~~ below the bytes of the place. Tabs and terminal
// commands become blanks. Long lines are cut, marked by …. Appends nothing if the text has no such
// line.
void excerpt_print(excerpt_source *source, source_place place, buffer *line, buffer *carets);

#endif
