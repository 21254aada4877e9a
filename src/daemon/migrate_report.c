// SPDX-License-Identifier: Apache-2.0
// Prints the report as text and as JSON.
#include "daemon/migrate_report.h"

#include "base/table.h"
#include "daemon/check_print.h"
#include "daemon/shell_words.h"

#include <stdlib.h>
#include <string.h>

static const char *const effects[] = {[FLAG_SAME] = "same",
                                      [FLAG_DIFFERS] = "differs",
                                      [FLAG_UNUSED] = "unused",
                                      [FLAG_REFUSED] = "refused"};

error *migrate_report_init(migrate_report *r, size_t most)
{
  memset(r, 0, sizeof(*r));
  r->models_load = true;
  r->flags = calloc(most, sizeof(*r->flags));
  return r->flags != NULL ? NULL : error_no_memory();
}

void migrate_report_fini(migrate_report *r)
{
  for (size_t i = 0; i < r->flag_count; i++) {
    free(r->flags[i].word);
    free(r->flags[i].note);
  }
  free(r->flags);
  string_list_fini(&r->before);
  string_list_fini(&r->given);
  string_list_fini(&r->command);
  buffer_fini(&r->models);
}

error *migrate_report_add(migrate_report *r, const char *word, const char *value,
                          flag_effect effect, const char *note)
{
  migrated_flag *f = &r->flags[r->flag_count++];
  *f = (migrated_flag){strdup(word), value, effect, strdup(note)};
  r->refused_count += effect == FLAG_REFUSED;
  return f->word != NULL && f->note != NULL ? NULL : error_no_memory();
}

// Whether the note is about a flag that is not given.
static bool is_left_out(const migrate_report *r, const flag_note *note)
{
  return note->effect == FLAG_NOT_GIVEN && !string_list_contains(&r->given, note->flag);
}

static void append_words(const string_list *words, buffer *out)
{
  for (size_t i = 0; i < words->count; i++) {
    buffer_append_text(out, i > 0 ? " " : "");
    shell_append_word(out, words->items[i]);
  }
}

// ---- for people ----

static void print_flag(const migrated_flag *f, buffer *out)
{
  AUTO_BUFFER buffer word = BUFFER_EMPTY;
  buffer_append_format(&word, "%s%s%s", f->word, f->value != NULL ? "=" : "",
                       f->value != NULL ? f->value : "");
  buffer_append_char(&word, '\0');
  buffer_append_format(out, "%-8s ", effects[f->effect]);
  out->failed = out->failed || word.failed;
  if (f->word[0] != '\0' && !word.failed)
    shell_append_word(out, word.data);
  buffer_append_text(out, f->word[0] != '\0' && f->note[0] != '\0' ? ": " : "");
  table_append_visible(out, slice_of(f->note));
  buffer_append_char(out, '\n');
}

void migrate_report_print(const migrate_report *r, buffer *out)
{
  if (r->before.count > 0) {
    buffer_append_text(out, "Not read: ");
    append_words(&r->before, out);
    buffer_append_text(out, "\n\n");
  }
  for (size_t i = 0; i < r->flag_count; i++)
    print_flag(&r->flags[i], out);
  buffer_append_text(out, "\nNot given, and different then:\n");
  for (size_t i = 0; i < flag_note_count; i++)
    if (is_left_out(r, &flag_notes[i]))
      buffer_append_format(out, "  --%s: %s\n", flag_notes[i].flag, flag_notes[i].text);
  if (r->models.size > 0) {
    buffer_append_text(out, "\nModels:\n");
    check_print_report(buffer_view(&r->models), false, false, out);
  }
  buffer_append_text(out, r->refused_count == 0 && r->models_load
                              ? "\nNothing is lost. "
                              : "\nWhat is refused or does not load is lost. ");
  buffer_append_text(out, "Start nereid by:\n");
  append_words(&r->command, out);
  buffer_append_char(out, '\n');
}

// ---- JSON ----

static void add_member(const char *before, const char *name, const char *text, buffer *out)
{
  buffer_append_format(out, "%s\"%s\":", before, name);
  buffer_append_json_string(out, slice_of(text));
}

static void add_flag(const migrated_flag *f, buffer *out)
{
  add_member("{", "flag", f->word, out);
  if (f->value != NULL)
    add_member(",", "value", f->value, out);
  add_member(",", "effect", effects[f->effect], out);
  if (f->note[0] != '\0')
    add_member(",", "note", f->note, out);
  buffer_append_char(out, '}');
}

static void add_left_out(const migrate_report *r, buffer *out)
{
  const char *separator = "";
  for (size_t i = 0; i < flag_note_count; i++) {
    if (!is_left_out(r, &flag_notes[i]))
      continue;
    buffer_append_format(out, "%s{\"flag\":\"--%s\"", separator, flag_notes[i].flag);
    add_member(",", "note", flag_notes[i].text, out);
    buffer_append_char(out, '}');
    separator = ",\n";
  }
}

static void add_words(const char *name, const string_list *words, buffer *out)
{
  buffer_append_format(out, "\"%s\":[", name);
  for (size_t i = 0; i < words->count; i++) {
    buffer_append_text(out, i > 0 ? "," : "");
    buffer_append_json_string(out, slice_of(words->items[i]));
  }
  buffer_append_text(out, "],\n");
}

void migrate_report_print_json(const migrate_report *r, buffer *out)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  buffer_append_char(out, '{');
  add_words("before", &r->before, out);
  buffer_append_text(out, "\"flags\":[");
  for (size_t i = 0; i < r->flag_count; i++) {
    buffer_append_text(out, i > 0 ? ",\n" : "");
    add_flag(&r->flags[i], out);
  }
  buffer_append_text(out, "],\n\"not_given\":[");
  add_left_out(r, out);
  buffer_append_text(out, "],\n\"models\":");
  buffer_append_slice(out, r->models.size > 0 ? buffer_view(&r->models) : slice_of("null"));
  buffer_append_text(out, ",\n");
  add_words("command", &r->command, out);
  append_words(&r->command, &line);
  out->failed = out->failed || line.failed;
  buffer_append_text(out, "\"command_line\":");
  buffer_append_json_string(out, buffer_view(&line));
  buffer_append_text(out, "}\n");
}
