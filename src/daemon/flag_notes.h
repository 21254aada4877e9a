// SPDX-License-Identifier: Apache-2.0
// Where a flag of Triton's means something else here: the one place that says so. nereid migrate
// prints it, the start refuses by it, and docs/compatibility.md has the same words
// (tests/e2e/test_migrate.py). Constants.
#ifndef NEREID_DAEMON_FLAG_NOTES_H
#define NEREID_DAEMON_FLAG_NOTES_H

#include "daemon/options.h"

typedef enum flag_effect {
  FLAG_SAME,
  FLAG_DIFFERS,
  FLAG_UNUSED,    // read, without effect
  FLAG_REFUSED,   // the note says what to do instead
  FLAG_NOT_GIVEN, // what differs where the flag is not given
} flag_effect;

typedef struct flag_note {
  const char *flag;
  const char *values; // how its value begins, "one|two"; NULL: any
  flag_effect effect;
  const char *text;
} flag_note;

extern const flag_note flag_notes[];
extern const size_t flag_note_count;

// Whether the note is of such a value; of a boolean "true" or "false", of a choice as the table
// spells it.
bool flag_note_fits(const flag_note *note, const char *value);

// What there is to say of a flag that is given with this value, or NULL.
const flag_note *flag_note_find(const option *o, const char *value);

// UNSUPPORTED when a value among the options is refused, with what to do instead.
error *flag_notes_check(const daemon_options *options);

#endif
