// SPDX-License-Identifier: Apache-2.0
// The findings of nereid migrate, and how they are printed. One owner.
#ifndef NEREID_DAEMON_MIGRATE_REPORT_H
#define NEREID_DAEMON_MIGRATE_REPORT_H

#include "base/buffer.h"
#include "base/string_list.h"
#include "daemon/flag_notes.h"

// One flag or word of the command line.
typedef struct migrated_flag {
  char *word;        // owned; "--http-port"; "" for a finding about several flags together
  const char *value; // borrowed from the command line; NULL: none
  flag_effect effect;
  char *note; // owned; "": none
} migrated_flag;

typedef struct migrate_report {
  string_list before; // words before the program's name, which are not read
  migrated_flag *flags;
  size_t flag_count, refused_count;
  string_list given;   // names of the flags that the command line gives
  string_list command; // the words that start nereid
  buffer models;       // the check's report, JSON; empty when no model was checked
  bool models_load;    // as far as the check knows
} migrate_report;

// Sets all members to 0 and makes room for `most` flags.
error *migrate_report_init(migrate_report *r, size_t most);
void migrate_report_fini(migrate_report *r);

error *migrate_report_add(migrate_report *r, const char *word, const char *value,
                          flag_effect effect, const char *note);

// For people: a line for each flag, the models as nereid check prints them, then the command line.
void migrate_report_print(const migrate_report *r, buffer *out);
// docs/migrating.md lists the members.
void migrate_report_print_json(const migrate_report *r, buffer *out);

#endif
