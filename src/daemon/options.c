// SPDX-License-Identifier: Apache-2.0
// Sets flags by the table.
#include "daemon/options.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "config/suggestion.h"
#include "daemon/commands.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define READ_AS    "--%s: '%s' is read as "
#define MAX_DOUBLE 1e15 // doubles are converted to integers in places

void *option_field(daemon_options *options, const option *o)
{
  return (char *)options + o->field;
}

// Fields of listeners are unsigned, all others int64_t.
int64_t option_integer(const daemon_options *options, const option *o)
{
  const void *field = (const char *)options + o->field;
  return o->size == sizeof(unsigned) ? *(const unsigned *)field : *(const int64_t *)field;
}

static void set_integer(daemon_options *options, const option *o, int64_t value)
{
  void *field = option_field(options, o);
  if (o->size == sizeof(unsigned))
    *(unsigned *)field = (unsigned)value;
  else
    *(int64_t *)field = value;
}

const option *option_at(const struct command *command, size_t i)
{
  if (i < option_count)
    return &option_table[i];
  i -= option_count;
  return command != NULL && command->options != NULL && i < *command->option_count
             ? &command->options[i]
             : NULL;
}

error *daemon_options_init(daemon_options *options, const struct command *command, bool secure)
{
  const option *o;
  memset(options, 0, sizeof(*options));
  options->command = command;
  for (size_t i = 0; (o = option_at(command, i)) != NULL; i++)
    if (o->default_value != NULL)
      RETURN_IF_ERROR(option_set(options, o, o->default_value));
  for (size_t i = 0; secure && i < secure_setting_count; i++)
    RETURN_IF_ERROR(
        option_set(options, option_find(secure_settings[i].name), secure_settings[i].value));
  return NULL;
}

void daemon_options_fini(daemon_options *options)
{
  const option *o;
  for (size_t i = 0; (o = option_at(options->command, i)) != NULL; i++) {
    void *field = option_field(options, o);
    if (o->kind == OPTION_LIST) {
      string_list_fini(field);
    } else if (o->kind == OPTION_TEXT || o->kind == OPTION_CHOICE) {
      free(*(char **)field);
      *(char **)field = NULL;
    }
  }
  string_list_fini(&options->warnings);
  string_list_fini(&options->words);
  free(options->private_repository);
  options->private_repository = NULL;
}

const option *option_find(const char *name)
{
  for (size_t i = 0; i < option_count; i++)
    if (strcmp(option_table[i].name, name) == 0)
      return &option_table[i];
  return NULL;
}

error *option_unknown(const struct command *command, const char *dashes, const char *name)
{
  const option *o;
  suggestion nearest = suggestion_of(slice_of(name));
  for (size_t i = 0; (o = option_at(command, i)) != NULL; i++)
    suggestion_consider(&nearest, o->name);
  if (nearest.best == NULL)
    return error_new(ERROR_INVALID_ARG, "unrecognized option '%s%s', see --help", dashes, name);
  return error_new(ERROR_INVALID_ARG, "unrecognized option '%s%s', did you mean '%s%s'?", dashes,
                   name, dashes, nearest.best);
}

bool option_is_of_triton(const option *o)
{
  return strstr(o->help, "Not in Triton.") == NULL;
}

// ---- values ----

error *option_bad_value(const char *flag, const char *value, const char *expected)
{
  return error_new(ERROR_INVALID_ARG, "--%s: invalid value '%s', expected %s", flag, value,
                   expected);
}

error *options_warn(daemon_options *options, const char *format, ...)
{
  va_list arguments;
  char *line AUTO_FREE = NULL;
  va_start(arguments, format);
  bool printed = vasprintf(&line, format, arguments) >= 0;
  va_end(arguments);
  line = printed ? line : NULL;
  return printed && string_list_add(&options->warnings, line) ? NULL : error_no_memory();
}

static bool read_bool_word(const char *text, bool *value)
{
  static const char *const yes[] = {"true", "1", "on"};
  static const char *const no[] = {"false", "0", "off"};
  for (size_t i = 0; i < 3; i++) {
    if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
      *value = strcasecmp(text, yes[i]) == 0;
      return true;
    }
  }
  return false;
}

static error *read_integer_option(daemon_options *options, const option *o, const char *text)
{
  char expected[96];
  int64_t value;
  if (text_to_int64(slice_of(text), &value) && value >= o->least && value <= o->most) {
    set_integer(options, o, value);
    return NULL;
  }
  if (o->most == INT64_MAX)
    snprintf(expected, sizeof(expected), "an integer from %" PRId64, o->least);
  else
    snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64, o->least,
             o->most);
  return option_bad_value(o->name, text, expected);
}

// Triton takes any integer. This is the nearest valid value; for a port its lower 16 bits, as a
// socket reads it.
static int64_t sensible(const option *o, int64_t value)
{
  if (o->kind == OPTION_PORT)
    return (int64_t)((uint64_t)value & UINT16_MAX);
  if (value < o->least)
    return o->least;
  return value > o->most ? o->most : value;
}

static error *read_count_option(daemon_options *options, const option *o, const char *text)
{
  bool word;
  if (strcmp(o->name, "log-verbose") == 0 && strlen(text) > 1 && read_bool_word(text, &word)) {
    set_integer(options, o, word);
    return NULL;
  }
  int64_t value;
  const char *rest;
  if (!text_begins_int64(text, &value, &rest))
    return option_bad_value(o->name, text, "an integer");
  int64_t taken = sensible(o, value);
  set_integer(options, o, taken);
  return *rest == '\0' && taken == value
             ? NULL
             : options_warn(options, READ_AS "%" PRId64, o->name, text, taken);
}

static error *set_double(daemon_options *options, const option *o, const char *text, double *field)
{
  double value;
  const char *rest;
  if (!text_begins_double(text, &value, &rest))
    return option_bad_value(o->name, text, "a number");
  *field = value < 0 ? 0 : value <= MAX_DOUBLE ? value : MAX_DOUBLE;
  bool as_given = *rest == '\0' && value >= 0 && value <= MAX_DOUBLE;
  return as_given ? NULL : options_warn(options, READ_AS "%g", o->name, text, *field);
}

static error *set_text_option(char **field, slice value)
{
  char *copy = text_copy(value);
  if (copy == NULL)
    return error_no_memory();
  free(*field);
  *field = copy;
  return NULL;
}

// Takes one word of "one|two", in any case; keeps the table's spelling.
static error *set_choice(const option *o, const char *text, char **field)
{
  const char *word = o->value;
  for (;;) {
    size_t size = strcspn(word, "|");
    if (strlen(text) == size && strncasecmp(text, word, size) == 0)
      return set_text_option(field, (slice){word, size});
    if (word[size] == '\0')
      return option_bad_value(o->name, text, o->value);
    word += size + 1;
  }
}

error *option_set(daemon_options *options, const option *o, const char *value)
{
  void *field = option_field(options, o);
  switch (o->kind) {
  case OPTION_FLAG:
  case OPTION_BOOL:
    return read_bool_word(value, field) ? NULL : option_bad_value(o->name, value, "true or false");
  case OPTION_INTEGER:
    return read_integer_option(options, o, value);
  case OPTION_COUNT:
  case OPTION_PORT:
    return read_count_option(options, o, value);
  case OPTION_DOUBLE:
    return set_double(options, o, value, field);
  case OPTION_TEXT:
    return set_text_option(field, slice_of(value));
  case OPTION_CHOICE:
    return set_choice(o, value, field);
  case OPTION_LIST:
    break;
  }
  return string_list_add(field, value) ? NULL : error_no_memory();
}

// ---- what values mean ----

bool options_unix_mode(const char *text, unsigned *mode)
{
  *mode = 0;
  for (size_t i = 0; text[i] >= '0' && text[i] <= '7'; i++)
    *mode = *mode * 8 + (unsigned)(text[i] - '0');
  return strlen(text) == 3 && strspn(text, "01234567") == 3 && *mode != 0;
}

bool options_input_size(const daemon_options *o, int64_t *bytes, bool *whole_body)
{
  static const char total[] = "total:";
  const char *text = o->http_max_input_size;
  bool prefixed = strncmp(text, total, sizeof(total) - 1) == 0;
  *whole_body = prefixed || o->secure;
  return text_to_int64(slice_of(prefixed ? text + sizeof(total) - 1 : text), bytes) && *bytes > 0;
}

char *options_metrics_address(const daemon_options *o)
{
  return o->metrics.address[0] != '\0' ? o->metrics.address : o->http.listen.address;
}
