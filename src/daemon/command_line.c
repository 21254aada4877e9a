// SPDX-License-Identifier: Apache-2.0
// Reads the command line, and prints its help.
#include "daemon/command_line.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "config/suggestion.h"
#include "daemon/commands.h"
#include "daemon/yaml_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RETRIES 1000000

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

// The flags that begin with `name`. Where exactly one of them is Triton's, it is chosen: an
// abbreviation that is unambiguous in Triton is unambiguous here.
typedef struct matches {
  size_t count, of_triton;
  const option *last, *last_of_triton;
} matches;

static matches look_up_prefix(const command *c, const char *name, buffer *all)
{
  const option *o;
  matches m = {0};
  for (size_t i = 0; name[0] != '\0' && (o = option_at(c, i)) != NULL; i++) {
    if (!text_starts_with(o->name, name))
      continue;
    buffer_append_format(all, "%s--%s", m.count++ > 0 ? ", " : "", o->name);
    m.last = o;
    if (option_is_of_triton(o)) {
      m.of_triton++;
      m.last_of_triton = o;
    }
  }
  return m;
}

// The flag with this name, or the only flag that begins with it.
static error *find_option(const command *c, const char *name, const option **found)
{
  for (size_t i = 0; (*found = option_at(c, i)) != NULL; i++)
    if (strcmp((*found)->name, name) == 0)
      return NULL;
  AUTO_BUFFER buffer all = BUFFER_EMPTY;
  matches m = look_up_prefix(c, name, &all);
  if (m.count == 0)
    return option_unknown(c, "--", name);
  if (m.count > 1 && m.of_triton != 1)
    return error_new(ERROR_INVALID_ARG, "option '--%s' is ambiguous; possibilities: %.*s", name,
                     (int)all.size, all.data);
  *found = m.count == 1 ? m.last : m.last_of_triton;
  return NULL;
}

// One flag of the command line.
typedef struct argument {
  const option *option;
  const char *value;
} argument;

// The command line as typed: flags and, with a command, words, in any order.
typedef struct command_line {
  int count;
  char **words;
  const command *command;
  argument *flags; // room for all words
  size_t flag_count;
  char **rest; // the command's words, the same
  size_t rest_count;
  const char *file; // of --config
} command_line;

static error *unexpected(const char *word)
{
  suggestion nearest = suggestion_of(slice_of(word));
  for (const command *c = command_table; c->name != NULL; c++)
    suggestion_consider(&nearest, c->name);
  if (nearest.best == NULL && access(word, F_OK) == 0)
    return error_new(ERROR_INVALID_ARG,
                     "Unexpected argument: '%s', expected --<flag>=<value>; to serve that file or "
                     "directory: nereid serve %s",
                     word, word);
  if (strcmp(word, "help") == 0)
    return error_new(ERROR_INVALID_ARG, "Unexpected argument: '%s', see --help", word);
  if (nearest.best == NULL)
    return error_new(ERROR_INVALID_ARG, "Unexpected argument: '%s', expected --<flag>=<value>",
                     word);
  return error_new(ERROR_INVALID_ARG,
                   "Unexpected argument: '%s', expected --<flag>=<value>; did you mean 'nereid "
                   "%s'?",
                   word, nearest.best);
}

// Takes a word that is not a flag: the command, or an argument of it.
static error *take_word(command_line *l, char *word)
{
  if (l->command != NULL) {
    l->rest[l->rest_count++] = word;
    return NULL;
  }
  l->command = command_find(word);
  return l->command != NULL ? NULL : unexpected(word);
}

// Takes the flag at *at and its value, which may be the next word. Moves *at behind them.
static error *read_flag(const command *c, char *const *words, int count, int *at, argument *taken)
{
  const char *word = words[(*at)++];
  if (strcmp(word, "-h") == 0)
    word = "--help";
  if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
    return unexpected(word);
  const char *equals = strchr(word, '=');
  char name[128];
  size_t size = equals != NULL ? (size_t)(equals - word - 2) : strlen(word) - 2;
  snprintf(name, sizeof(name), "%.*s", (int)smaller(size, 127), word + 2);
  RETURN_IF_ERROR(find_option(c, name, &taken->option));
  if (taken->option->kind == OPTION_FLAG) {
    taken->value = equals != NULL ? equals + 1 : "true";
    return NULL;
  }
  if (equals == NULL && *at == count)
    return error_new(ERROR_INVALID_ARG, "option '--%s' requires an argument: %s",
                     taken->option->name, taken->option->value);
  taken->value = equals != NULL ? equals + 1 : words[(*at)++];
  return NULL;
}

error *command_line_read_flag(char *const *words, int count, int *at, const option **o,
                              const char **value)
{
  argument taken = {0};
  error *e = read_flag(NULL, words, count, at, &taken);
  *o = taken.option;
  *value = taken.value;
  return e;
}

// Refuses a flag that is meant for the wrapped command line.
static error *check_wrapping(const command *c, const option *o)
{
  bool own = o < option_table || o >= option_table + option_count || strcmp(o->name, "help") == 0;
  if (c == NULL || !c->wraps || own)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "nereid %s does not take --%s: the other command line comes behind '--'",
                   c->name, o->name);
}

static error *take_flag(command_line *l, int *at)
{
  argument *taken = &l->flags[l->flag_count++];
  RETURN_IF_ERROR(read_flag(l->command, l->words, l->count, at, taken));
  RETURN_IF_ERROR(check_wrapping(l->command, taken->option));
  if (strcmp(taken->option->name, "config") == 0)
    l->file = taken->value;
  return NULL;
}

// After "--" everything is a word.
static error *take_all(command_line *l)
{
  bool flags = true;
  if (l->count > 1 && strcmp(l->words[l->count - 1], "--") == 0)
    l->count--; // nothing follows it
  for (int at = 1; at < l->count;) {
    const char *word = l->words[at];
    if (flags && l->command != NULL && strcmp(word, "--") == 0) {
      flags = false;
      at++;
    } else if (flags && word[0] == '-') {
      RETURN_IF_ERROR(take_flag(l, &at));
    } else {
      RETURN_IF_ERROR(take_word(l, l->words[at++]));
      flags = flags && (!l->command->wraps || l->rest_count == 0);
    }
  }
  return NULL;
}

// The message begins with Triton's words.
static error *bad_option(const option *o, error *cause_owned)
{
  error *e = error_new(error_get_code(cause_owned), "Bad option: \"--%s\". %s", o->name,
                       error_message(cause_owned));
  error_free(cause_owned);
  return e;
}

// A list on the command line replaces the file's.
static error *apply_arguments(daemon_options *options, const argument *arguments, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    bool first = arguments[i].option->kind == OPTION_LIST;
    for (size_t k = 0; k < i; k++)
      first = first && arguments[k].option->field != arguments[i].option->field;
    if (first)
      string_list_fini(option_field(options, arguments[i].option));
    error *e = option_set(options, arguments[i].option, arguments[i].value);
    if (e != NULL)
      return bad_option(arguments[i].option, e);
  }
  return NULL;
}

// As in Triton, giving --grpc-use-ssl-mutual turns TLS on, with any value, if there is a
// certificate.
static void read_grpc_tls(daemon_options *options, const argument *arguments, size_t count)
{
  bool asked = false;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(arguments[i].option->name, "grpc-use-ssl-mutual") == 0)
      asked = true;
    else if (strcmp(arguments[i].option->name, "grpc-use-ssl") == 0)
      asked = false; // the last one counts
  }
  options->grpc_tls.use =
      options->grpc_tls.use || (asked && options->grpc_tls.certificate_file[0] != '\0');
}

// As Triton, reads the variables that Vertex AI sets in containers. HTTP and gRPC are then off
// unless a flag turns them on.
static void read_vertex_ai_mode(daemon_options *options)
{
  const char *mode = getenv("AIP_MODE");
  if (mode == NULL || strcmp(mode, "PREDICTION") != 0)
    return;
  options->allow_vertex_ai = true;
  options->allow_http = options->allow_grpc = false;
}

static error *read_vertex_ai_storage(daemon_options *options)
{
  const char *storage = getenv("AIP_STORAGE_URI");
  if (storage == NULL || storage[0] == '\0' || options->model_repositories.count > 0)
    return NULL;
  return string_list_add(&options->model_repositories, storage) ? NULL : error_no_memory();
}

static error *read_options_from(daemon_options *options, bool secure, const command_line *l)
{
  RETURN_IF_ERROR(daemon_options_init(options, l->command, secure));
  read_vertex_ai_mode(options);
  if (l->file != NULL)
    RETURN_IF_ERROR(yaml_config_read(options, l->file));
  RETURN_IF_ERROR(apply_arguments(options, l->flags, l->flag_count));
  read_grpc_tls(options, l->flags, l->flag_count);
  if (options->model_load_retry_count < 0) // for ever, as in Triton
    options->model_load_retry_count = MAX_RETRIES;
  options->secure = options->secure || strcmp(options->security, "strict") == 0;
  for (size_t i = 0; i < l->rest_count; i++)
    if (!string_list_add(&options->words, l->rest[i]))
      return error_no_memory();
  return read_vertex_ai_storage(options);
}

error *command_line_read(daemon_options *options, int argument_count, char **words)
{
  memset(options, 0, sizeof(*options));
  command_line l = {.count = argument_count, .words = words};
  l.flags = calloc((size_t)argument_count + 1, sizeof(*l.flags));
  l.rest = calloc((size_t)argument_count + 1, sizeof(*l.rest));
  error *e = l.flags == NULL || l.rest == NULL ? error_no_memory() : take_all(&l);
  options->command = l.command; // for the usage text, also after an error
  if (e == NULL)
    e = read_options_from(options, false, &l);
  if (e == NULL && options->secure) { // has other defaults
    daemon_options_fini(options);
    e = read_options_from(options, true, &l);
  }
  free(l.flags);
  free(l.rest);
  return e;
}

// ---- help ----

static const char *secure_value(const option *o)
{
  for (size_t i = 0; i < secure_setting_count; i++)
    if (strcmp(secure_settings[i].name, o->name) == 0)
      return secure_settings[i].value;
  return NULL;
}

static void print_option(const option *o, buffer *out)
{
  buffer_append_format(out, "  --%s%s%s\n", o->name, o->value != NULL ? " " : "",
                       o->value != NULL ? o->value : "");
  buffer_append_format(out, "        %s", o->help);
  const char *secure = secure_value(o);
  if (o->default_value != NULL && o->default_value[0] != '\0')
    buffer_append_format(out, " (%s%s%s)", o->default_value,
                         secure != NULL ? ", with --secure " : "", secure != NULL ? secure : "");
  buffer_append_char(out, '\n');
}

static void print_command_help(const command *c, buffer *out)
{
  const option *o;
  buffer_append_format(out, "Usage: nereid %s [--<flag>=<value> ...] %s\n%s", c->name, c->words,
                       c->long_help);
  if (c->options != NULL)
    buffer_append_text(out, "\nFlags of its own:\n");
  for (size_t i = option_count; (o = option_at(c, i)) != NULL; i++)
    print_option(o, out);
  if (!c->wraps)
    buffer_append_text(out, "\nAll flags of the daemon are taken too: nereid --help\n");
}

void command_line_print_help(const struct command *command, buffer *out)
{
  const char *group = "";
  if (command != NULL) {
    print_command_help(command, out);
    return;
  }
  buffer_append_text(out, "Usage: nereid --model-repository=<path> [--<flag>=<value> ...]\n"
                          "Serves machine-learning models over KServe v2. Defaults are in "
                          "parentheses.\n\nCommands:\n");
  for (const struct command *c = command_table; c->name != NULL; c++)
    buffer_append_format(out, "  nereid %s %s\n        %s nereid %s --help says more.\n", c->name,
                         c->words, c->help, c->name);
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    if (strcmp(o->group, group) != 0)
      buffer_append_format(out, "\n%s:\n", o->group);
    group = o->group;
    print_option(o, out);
  }
}
