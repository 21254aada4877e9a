// SPDX-License-Identifier: Apache-2.0
// The reader shared by text_read.c and text_recover.c, which lets it continue after a mistake.
// Private to src/config; on its caller's thread.
#ifndef NEREID_CONFIG_TEXT_READER_H
#define NEREID_CONFIG_TEXT_READER_H

#include "base/buffer.h"
#include "config/diagnostics.h"
#include "config/reflection.h"
#include "config/source_map.h"
#include "config/text_lexer.h"

#define TEXT_MAX_SHOWN 100 // bytes of a token that a message quotes

// A message that is being read; on the C stack.
typedef struct text_scope {
  const struct text_scope *outer; // NULL: this is the whole
  const ProtobufCMessageDescriptor *descriptor;
  token opened; // the name of the message's field
} text_scope;

typedef struct text_reader {
  text_lexer lexer;
  int depth; // of messages being read
  const text_scope *scope;
  source_map *map;    // places of fields; or NULL
  buffer path;        // of the field that is being read; with a map only
  diagnostics *found; // of a reader that continues after mistakes (it has a map too); or NULL
  // Used by that reader only:
  const text_scope *closing; // a '}' is missing: messages inside this one end
  const char *noted;         // place of the last mistake: one for each token is enough
  char fix[160];             // for the mistake that is reported next
} text_reader;

// printf arguments for a token with %.*s
#define SHOWN(token)                                                                               \
  (int)((token).text.size > TEXT_MAX_SHOWN ? TEXT_MAX_SHOWN : (token).text.size), (token).text.data

static inline const token *text_current(const text_reader *reader)
{
  return &reader->lexer.current;
}

static inline bool text_at_symbol(const text_reader *reader, char symbol)
{
  return text_current(reader)->kind == TOKEN_SYMBOL && text_current(reader)->text.data[0] == symbol;
}

static inline bool text_goes_on(const text_reader *reader)
{
  return reader->found != NULL;
}

// Whether a mistake's text is wanted: once the list is full, mistakes are only counted.
static inline bool text_is_told(const text_reader *reader)
{
  return !text_goes_on(reader) || !diagnostics_are_full(reader->found);
}

// Moves to the next token. A reader that continues notes text that is no token and gets TOKEN_BAD
// for it.
error *text_next(text_reader *reader);

static inline bool text_tracks(const text_reader *reader)
{
  return reader->map != NULL;
}

// ---- for a reader that continues after mistakes; without effect for others ----

// Sets the fix of the next reported mistake.
void text_set_fix(text_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Sets the fix: close the bracket of the message that `opened` names; `where` follows.
void text_set_fix_close(text_reader *reader, const token *opened, const char *where);

// Adds the mistake to the findings, unless they have one at the same token. False: the error is not
// about the text, and reading ends.
bool text_note(text_reader *reader, const error *e);

// ---- for a reader with a map; without effect for others ----

// Adds a field or an index to the path; returns the size to give to text_path_cut afterwards.
size_t text_path_add(text_reader *reader, const char *name);
size_t text_path_add_index(text_reader *reader, size_t index);
void text_path_cut(text_reader *reader, size_t size);

// Records `first` as the place of the path's value (a number with its sign). Returns the index of
// the place in the map.
size_t text_place(text_reader *reader, const token *first);

// In the places from `first_place` on, those of the last entry of the map `field`, replaces the
// entry's index by its key.
void text_name_entry(text_reader *reader, size_t first_place, const ProtobufCMessage *parent,
                     field_ref field);

// ---- stepping over ----

// Whether a field seems to begin here: a name and a token that may follow it.
bool text_at_field(const text_reader *reader);

// Whether the text after the current name looks like a value of `field`.
bool text_fits(const text_reader *reader, field_ref field);

// Steps over one value, brackets and all; over nothing at a closing bracket.
error *text_skip_value(text_reader *reader);

// After a mistake in a field that began at `start`: moves to where the next field may begin.
error *text_skip_field(text_reader *reader, const token *start);

// Whether a ']' follows although a message of the list is not closed.
bool text_ends_list(const text_reader *reader);

// Whether an unknown name belongs to an outer message, so that this one was not closed. `closing`
// is then the outer one.
bool text_closes_outer(text_reader *reader, const token *name);

#endif
