// SPDX-License-Identifier: Apache-2.0
// The flags, as words of a command line (an input that begins with "--": one a line) or as a YAML
// file. Whatever is taken can be written as YAML and gives the same flags again.
#include "base/text.h"
#include "daemon/command_line.h"
#include "daemon/yaml_config.h"
#include "fuzz.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_WORDS 64

static const void *field_of(const daemon_options *options, const option *o)
{
  return (const char *)options + o->field;
}

static error *read_yaml(daemon_options *options, slice text)
{
  const int fd = memfd_create("options", MFD_CLOEXEC);
  CHECK(fd >= 0);
  CHECK(write(fd, text.data, text.size) == (ssize_t)text.size);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  error *e = yaml_config_read(options, path);
  close(fd);
  return e;
}

// ---- the command line ----

// A word that names a file of flags would read this machine's.
static bool names_a_file(const char *word)
{
  const size_t size = strcspn(word, "=");
  return size > 2 && strncmp(word, "--config", size) == 0;
}

static error *read_words(daemon_options *options, fuzz_input input)
{
  char *words[MAX_WORDS] = {0};
  int count = 1;
  words[0] = fuzz_copy(SLICE("nereid"), 0);
  while (input.size > 0 && count < MAX_WORDS) {
    char *word = fuzz_copy(fuzz_take_until(&input, '\n'), 0);
    if (names_a_file(word))
      free(word);
    else
      words[count++] = word;
  }
  error *e = command_line_read(options, count, words);
  for (int i = 0; i < count; i++)
    free(words[i]);
  return e;
}

// ---- writing YAML ----

static bool is_utf8(const char *text)
{
  for (size_t left = strlen(text), size; left > 0; left -= size, text += size)
    if ((size = text_utf8_length(text, left)) == 0)
      return false;
  return true;
}

// In double quotes, everything but plain letters escaped.
static void append_quoted(buffer *out, const char *text)
{
  buffer_append_char(out, '"');
  for (const unsigned char *t = (const unsigned char *)text; *t != '\0'; t++) {
    if (*t >= 0x80) {
      const size_t size = text_utf8_length((const char *)t, strlen((const char *)t));
      uint32_t code = *t & (0xffu >> (size + 1));
      for (size_t i = 1; i < size; i++)
        code = code << 6 | (*++t & 0x3fu);
      buffer_append_format(out, "\\U%08x", (unsigned)code);
    } else if (*t < 0x20 || *t == '"' || *t == '\\' || *t == 0x7f) {
      buffer_append_format(out, "\\x%02x", (unsigned)*t);
    } else {
      buffer_append_char(out, (char)*t);
    }
  }
  buffer_append_char(out, '"');
}

// False for what YAML cannot say: text that is no UTF-8.
static bool append_value(buffer *out, const daemon_options *options, const option *o)
{
  const void *field = field_of(options, o);
  const string_list *list = field;
  bool utf8 = true;
  switch (o->kind) {
  case OPTION_FLAG:
  case OPTION_BOOL:
    buffer_append_text(out, *(const bool *)field ? "true" : "false");
    break;
  case OPTION_INTEGER:
  case OPTION_COUNT:
  case OPTION_PORT:
    buffer_append_format(out, "%" PRId64, option_integer(options, o));
    break;
  case OPTION_DOUBLE:
    buffer_append_format(out, "%.17g", *(const double *)field);
    break;
  case OPTION_TEXT:
  case OPTION_CHOICE:
    utf8 = is_utf8(*(char *const *)field);
    if (utf8)
      append_quoted(out, *(char *const *)field);
    break;
  case OPTION_LIST:
    buffer_append_char(out, '[');
    for (size_t i = 0; utf8 && i < list->count; i++) {
      utf8 = is_utf8(list->items[i]);
      if (utf8)
        append_quoted(out, list->items[i]);
      buffer_append_char(out, ',');
    }
    buffer_append_char(out, ']');
    break;
  }
  return utf8;
}

// Another name of the same flag.
static bool is_synonym(const option *o)
{
  for (const option *other = option_table; other < o; other++)
    if (other->kind == o->kind && other->field == o->field)
      return true;
  return false;
}

static bool append_yaml(buffer *out, const daemon_options *options)
{
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    if (is_synonym(o) || strcmp(o->name, "config") == 0 || strcmp(o->name, "help") == 0)
      continue;
    buffer_append_format(out, "%s: ", o->name);
    if (!append_value(out, options, o))
      return false;
    buffer_append_char(out, '\n');
  }
  return true;
}

static void check_round_trip(const daemon_options *options)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  AUTO_BUFFER buffer second = BUFFER_EMPTY;
  daemon_options again;
  CHECK(daemon_options_init(&again, NULL, false) == NULL);
  if (append_yaml(&text, options)) {
    error *e = read_yaml(&again, buffer_view(&text));
    if (e != NULL)
      fprintf(stderr, "%s\n", error_message(e));
    CHECK(e == NULL);
    CHECK(append_yaml(&second, &again));
    CHECK(slice_equal(buffer_view(&text), buffer_view(&second)));
  }
  daemon_options_fini(&again);
}

// Numbers are within what the table allows.
static void check_ranges(const daemon_options *options)
{
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    const void *field = field_of(options, o);
    if (o->kind == OPTION_INTEGER || o->kind == OPTION_COUNT || o->kind == OPTION_PORT)
      CHECK(option_integer(options, o) >= o->least && option_integer(options, o) <= o->most);
    if (o->kind == OPTION_DOUBLE)
      CHECK(*(const double *)field >= 0 && *(const double *)field <= 1e15);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const slice text = {(const char *)data, size};
  const bool is_command_line = size >= 2 && memcmp(data, "--", 2) == 0;
  daemon_options options;
  CHECK(is_command_line || daemon_options_init(&options, NULL, false) == NULL);
  error *e =
      is_command_line ? read_words(&options, (fuzz_input){data, size}) : read_yaml(&options, text);
  if (e == NULL) {
    error_free(options_check(&options));
    check_ranges(&options);
    check_round_trip(&options);
  } else {
    CHECK(error_message(e)[0] != '\0');
  }
  error_free(e);
  daemon_options_fini(&options);
  return 0;
}
