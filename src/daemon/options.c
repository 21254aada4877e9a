// Setting of flags by the table.
#include "daemon/options.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MOST_DOUBLE 1e15 // becomes an integer in places

static void *field_of(daemon_options *options, const option *o)
{
  return (char *)options + o->field;
}

error *daemon_options_init(daemon_options *options, bool secure)
{
  memset(options, 0, sizeof(*options));
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    const char *value = secure && o->secure_value != NULL ? o->secure_value : o->default_value;
    if (value != NULL)
      RETURN_IF_ERROR(option_set(options, o, value));
  }
  return NULL;
}

void daemon_options_fini(daemon_options *options)
{
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    void *field = field_of(options, o);
    if (o->kind == OPTION_LIST) {
      string_list_fini(field);
    } else if (o->kind == OPTION_TEXT || o->kind == OPTION_CHOICE) {
      free(*(char **)field);
      *(char **)field = NULL;
    }
  }
}

const option *option_find(const char *name)
{
  for (size_t i = 0; i < option_count; i++)
    if (strcmp(option_table[i].name, name) == 0)
      return &option_table[i];
  return NULL;
}

// ---- values ----

static error *bad_value(const option *o, const char *value, const char *expected)
{
  return error_new(ERROR_INVALID_ARG, "--%s: invalid value '%s', expected %s", o->name, value,
                   expected);
}

static bool read_bool(const char *text, bool *value)
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

static error *set_integer(const option *o, const char *text, int64_t *field)
{
  char expected[96];
  bool word;
  if (strcmp(o->name, "log-verbose") == 0 && strlen(text) > 1 && read_bool(text, &word)) {
    *field = word;
    return NULL;
  }
  int64_t value;
  if (text_to_int64(slice_of(text), &value) && value >= o->least && value <= o->most) {
    *field = value;
    return NULL;
  }
  if (o->most == INT64_MAX)
    snprintf(expected, sizeof(expected), "an integer from %" PRId64, o->least);
  else
    snprintf(expected, sizeof(expected), "an integer from %" PRId64 " to %" PRId64, o->least,
             o->most);
  return bad_value(o, text, expected);
}

static error *set_double(const option *o, const char *text, double *field)
{
  double value;
  if (!text_to_double(slice_of(text), &value) || value < 0 || value > MOST_DOUBLE)
    return bad_value(o, text, "a number from 0 to 1e15");
  *field = value;
  return NULL;
}

static error *set_text(char **field, slice value)
{
  char *copy = text_copy(value);
  if (copy == NULL)
    return error_no_memory();
  free(*field);
  *field = copy;
  return NULL;
}

// Takes one of the words of "one|two", in any case; keeps the table's spelling.
static error *set_choice(const option *o, const char *text, char **field)
{
  const char *word = o->value;
  for (;;) {
    size_t size = strcspn(word, "|");
    if (strlen(text) == size && strncasecmp(text, word, size) == 0)
      return set_text(field, (slice){word, size});
    if (word[size] == '\0')
      return bad_value(o, text, o->value);
    word += size + 1;
  }
}

static error *set_unsupported(const option *o, const char *text)
{
  if (o->value != NULL && strcasecmp(text, o->value) == 0)
    return NULL;
  if (o->value == NULL)
    return error_new(ERROR_UNSUPPORTED, "--%s is not supported by nereid yet", o->name);
  return error_new(ERROR_UNSUPPORTED, "--%s=%s is not supported by nereid yet, expected '%s'",
                   o->name, text, o->value);
}

error *option_set(daemon_options *options, const option *o, const char *value)
{
  void *field = field_of(options, o);
  switch (o->kind) {
  case OPTION_FLAG:
  case OPTION_BOOL:
    return read_bool(value, field) ? NULL : bad_value(o, value, "true or false");
  case OPTION_INTEGER:
    return set_integer(o, value, field);
  case OPTION_DOUBLE:
    return set_double(o, value, field);
  case OPTION_TEXT:
    return set_text(field, slice_of(value));
  case OPTION_CHOICE:
    return set_choice(o, value, field);
  case OPTION_LIST:
    return string_list_add(field, value) ? NULL : error_no_memory();
  case OPTION_UNSUPPORTED:
    break;
  }
  return set_unsupported(o, value);
}

// ---- the command line ----

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

// Levenshtein's distance, for suggestions. Texts of at most 63 characters.
static size_t distance(const char *a, const char *b)
{
  size_t row[64];
  size_t width = smaller(strlen(b), 63);
  for (size_t k = 0; k <= width; k++)
    row[k] = k;
  for (size_t i = 1; a[i - 1] != '\0'; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= width; k++) {
      size_t cost = diagonal + (a[i - 1] != b[k - 1]);
      diagonal = row[k];
      row[k] = smaller(cost, smaller(row[k], row[k - 1]) + 1);
    }
  }
  return row[width];
}

static error *unknown(const char *name)
{
  const char *nearest = NULL;
  size_t least = 4; // farther ones would only confuse
  for (size_t i = 0; i < option_count; i++) {
    size_t d = distance(name, option_table[i].name);
    if (d < least) {
      least = d;
      nearest = option_table[i].name;
    }
  }
  if (nearest != NULL)
    return error_new(ERROR_INVALID_ARG, "unrecognized option '--%s', did you mean '--%s'?", name,
                     nearest);
  return error_new(ERROR_INVALID_ARG, "unrecognized option '--%s', see --help", name);
}

// The flag with this name, or the only one that begins so.
static error *find(const char *name, const option **found)
{
  *found = option_find(name);
  size_t matches = 0;
  for (size_t i = 0; *found == NULL && i < option_count; i++)
    matches += name[0] != '\0' && text_starts_with(option_table[i].name, name);
  if (*found != NULL)
    return NULL;
  if (matches > 1)
    return error_new(ERROR_INVALID_ARG, "option '--%s' is ambiguous, see --help", name);
  for (size_t i = 0; matches == 1 && i < option_count; i++)
    if (text_starts_with(option_table[i].name, name))
      *found = &option_table[i];
  return *found != NULL ? NULL : unknown(name);
}

// One flag of the command line.
typedef struct argument {
  const option *option;
  const char *value;
} argument;

// Takes the flag at *at and its value, which may be the next word.
static error *take(int count, char **words, int *at, argument *taken)
{
  const char *word = words[(*at)++];
  if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
    return error_new(ERROR_INVALID_ARG, "unexpected argument '%s', expected --<flag>=<value>",
                     word);
  const char *equals = strchr(word, '=');
  char name[128];
  size_t size = equals != NULL ? (size_t)(equals - word - 2) : strlen(word) - 2;
  snprintf(name, sizeof(name), "%.*s", (int)smaller(size, 127), word + 2);
  RETURN_IF_ERROR(find(name, &taken->option));
  if (taken->option->kind == OPTION_FLAG) {
    taken->value = equals != NULL ? equals + 1 : "true";
    return NULL;
  }
  if (equals == NULL && *at == count)
    return error_new(ERROR_INVALID_ARG, "--%s: expected a value: %s", taken->option->name,
                     taken->option->value != NULL ? taken->option->value : "<value>");
  taken->value = equals != NULL ? equals + 1 : words[(*at)++];
  return NULL;
}

// A list of the command line replaces that of the file.
static error *apply(daemon_options *options, const argument *arguments, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    bool first = arguments[i].option->kind == OPTION_LIST;
    for (size_t k = 0; k < i; k++)
      first = first && arguments[k].option->field != arguments[i].option->field;
    if (first)
      string_list_fini(field_of(options, arguments[i].option));
    RETURN_IF_ERROR(option_set(options, arguments[i].option, arguments[i].value));
  }
  return NULL;
}

static error *read_all(daemon_options *options, bool secure, const char *file,
                       const argument *arguments, size_t count)
{
  RETURN_IF_ERROR(daemon_options_init(options, secure));
  if (file != NULL)
    RETURN_IF_ERROR(yaml_config_read(options, file));
  RETURN_IF_ERROR(apply(options, arguments, count));
  if (options->exit_timeout_seconds < 0) // as in Triton
    options->exit_timeout_seconds = 0;
  options->secure = options->secure || strcmp(options->security, "strict") == 0;
  return NULL;
}

error *options_parse(daemon_options *options, int argument_count, char **words)
{
  memset(options, 0, sizeof(*options));
  argument *arguments = calloc((size_t)argument_count + 1, sizeof(*arguments));
  size_t count = 0;
  error *e = arguments == NULL ? error_no_memory() : NULL;
  const char *file = NULL;
  for (int at = 1; e == NULL && at < argument_count;) {
    e = take(argument_count, words, &at, &arguments[count]);
    if (e == NULL && strcmp(arguments[count].option->name, "config") == 0)
      file = arguments[count].value;
    count++;
  }
  if (e == NULL)
    e = read_all(options, false, file, arguments, count);
  if (e == NULL && options->secure) { // which has other defaults
    daemon_options_fini(options);
    e = read_all(options, true, file, arguments, count);
  }
  free(arguments);
  return e;
}

bool options_unix_mode(const daemon_options *o, unsigned *mode)
{
  const char *text = o->unix_socket_mode;
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

const char *options_metrics_address(const daemon_options *o)
{
  return o->metrics_address[0] != '\0' ? o->metrics_address : o->http_address;
}

typedef struct listening {
  const char *name; // as in its flags
  bool allowed;
  const char *address;
  int64_t port;
} listening;

static error *check_two(const listening *a, const listening *b)
{
  if (!a->allowed || !b->allowed || strcmp(a->address, b->address) != 0)
    return NULL;
  if (text_starts_with(b->address, "unix:"))
    return error_new(ERROR_INVALID_ARG,
                     "--%s-address is a Unix socket: --%s-address must be another one or an "
                     "address, or --allow-%s=false",
                     a->name, b->name, b->name);
  if (a->port == b->port && a->port != 0)
    return error_new(ERROR_INVALID_ARG,
                     "--%s-port and --%s-port are both %" PRId64 ", expected two ports", a->name,
                     b->name, a->port);
  return NULL;
}

// Two listeners in one place.
static error *check_addresses(const daemon_options *o)
{
  const listening http = {"http", o->allow_http, o->http_address, o->http_port};
  const listening grpc = {"grpc", o->allow_grpc, o->grpc_address, o->grpc_port};
  const listening metrics = {"metrics", o->allow_metrics, options_metrics_address(o),
                             o->metrics_port};
  RETURN_IF_ERROR(check_two(&http, &grpc));
  RETURN_IF_ERROR(check_two(&http, &metrics));
  return check_two(&grpc, &metrics);
}

error *options_check(const daemon_options *o)
{
  if (o->model_repositories.count == 0)
    return error_new(ERROR_INVALID_ARG,
                     "--model-repository must be specified: the folder that holds the models");
  if (o->secure && !o->allow_root && geteuid() == 0)
    return error_new(ERROR_INVALID_ARG,
                     "--secure does not run as root: start nereid as another user, or give "
                     "--allow-root");
  unsigned mode;
  if (o->unix_socket_mode[0] != '\0' && !options_unix_mode(o, &mode))
    return error_new(ERROR_INVALID_ARG,
                     "--unix-socket-mode: invalid value '%s', expected three octal digits such as "
                     "660",
                     o->unix_socket_mode);
  int64_t bytes;
  bool whole_body;
  if (!options_input_size(o, &bytes, &whole_body))
    return error_new(
        ERROR_INVALID_ARG,
        "--http-max-input-size: invalid value '%s', expected an integer from 1, or one "
        "behind total:",
        o->http_max_input_size);
  return check_addresses(o);
}

// ---- help ----

static void print_option(const option *o, buffer *out)
{
  buffer_append_format(out, "  --%s%s%s\n", o->name, o->value != NULL ? " " : "",
                       o->value != NULL ? o->value : "");
  buffer_append_format(out, "        %s", o->help);
  if (o->default_value != NULL && o->default_value[0] != '\0')
    buffer_append_format(out, " (%s%s%s)", o->default_value,
                         o->secure_value != NULL ? ", with --secure " : "",
                         o->secure_value != NULL ? o->secure_value : "");
  buffer_append_char(out, '\n');
}

void options_print_help(buffer *out)
{
  const char *group = "";
  buffer_append_text(out, "Usage: nereid --model-repository=<path> [--<flag>=<value> ...]\n"
                          "Serves machine-learning models over KServe v2. Defaults are in "
                          "parentheses.\n");
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    if (strcmp(o->group, group) != 0)
      buffer_append_format(out, "\n%s:\n", o->group);
    group = o->group;
    if (o->kind == OPTION_UNSUPPORTED)
      buffer_append_format(out, "  --%s\n", o->name);
    else
      print_option(o, out);
  }
}
