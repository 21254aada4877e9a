// SPDX-License-Identifier: Apache-2.0
// Where a flag means something else here than in Triton: the only list. nereid migrate prints it,
// the start refuses flags by it, and docs/compatibility.md has the same words
// (tests/e2e/command/test_migrate.py). Constants.
#ifndef NEREID_DAEMON_FLAG_NOTES_H
#define NEREID_DAEMON_FLAG_NOTES_H

#include "daemon/options.h"

typedef enum flag_effect {
  FLAG_SAME,
  FLAG_DIFFERS,
  FLAG_UNUSED,    // read, without effect
  FLAG_REFUSED,   // the note says what to do instead
  FLAG_NOT_GIVEN, // applies while the flag is not given
} flag_effect;

typedef struct flag_note {
  const char *flag;
  const char *values; // beginnings of the values that the note is about, "one|two"; NULL: all
  flag_effect effect;
  const char *text;
} flag_note;

extern const flag_note flag_notes[];
extern const size_t flag_note_count;

// The note about this flag with this value, or NULL.
const flag_note *flag_note_find(const option *o, const char *value);

// UNSUPPORTED for the first value that is refused, with advice.
error *flag_notes_check(const daemon_options *options);

#endif
