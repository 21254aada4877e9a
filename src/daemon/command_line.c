// Reads the command line, and prints what it may hold.
#include "daemon/command_line.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/yaml_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RETRIES 1000000

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

// The flags that begin with `name`. Where one of them is Triton's and the others are not, it is
// that one: what is short enough there is short enough here.
typedef struct matches {
  size_t count, of_triton;
  const option *last, *last_of_triton;
} matches;

static bool is_of_triton(const option *o)
{
  return strstr(o->help, "Not in Triton.") == NULL;
}

static matches look_up_prefix(const char *name, buffer *all)
{
  matches m = {0};
  for (size_t i = 0; name[0] != '\0' && i < option_count; i++) {
    const option *o = &option_table[i];
    if (!text_starts_with(o->name, name))
      continue;
    buffer_append_format(all, "%s--%s", m.count++ > 0 ? ", " : "", o->name);
    m.last = o;
    if (is_of_triton(o)) {
      m.of_triton++;
      m.last_of_triton = o;
    }
  }
  return m;
}

// The flag with this name, or the only one that begins so.
static error *find_option(const char *name, const option **found)
{
  *found = option_find(name);
  if (*found != NULL)
    return NULL;
  AUTO_BUFFER buffer all = BUFFER_EMPTY;
  matches m = look_up_prefix(name, &all);
  if (m.count == 0)
    return unknown(name);
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

// Takes the flag at *at and its value, which may be the next word.
static error *take_argument(int count, char **words, int *at, argument *taken)
{
  const char *word = words[(*at)++];
  if (strcmp(word, "-h") == 0)
    word = "--help";
  if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
    return error_new(ERROR_INVALID_ARG, "Unexpected argument: '%s', expected --<flag>=<value>",
                     word);
  const char *equals = strchr(word, '=');
  char name[128];
  size_t size = equals != NULL ? (size_t)(equals - word - 2) : strlen(word) - 2;
  snprintf(name, sizeof(name), "%.*s", (int)smaller(size, 127), word + 2);
  RETURN_IF_ERROR(find_option(name, &taken->option));
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

// Triton's words first.
static error *bad_option(const option *o, error *cause_owned)
{
  error *e = error_new(error_get_code(cause_owned), "Bad option: \"--%s\". %s", o->name,
                       error_message(cause_owned));
  error_free(cause_owned);
  return e;
}

// A list of the command line replaces that of the file.
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

// As in Triton, who says anything of clients' certificates wants TLS; where there is a certificate.
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

// What Vertex AI's containers say, as Triton takes it. They have neither port open unless a flag
// says so.
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

static error *read_options_from(daemon_options *options, bool secure, const char *file,
                                const argument *arguments, size_t count)
{
  RETURN_IF_ERROR(daemon_options_init(options, secure));
  read_vertex_ai_mode(options);
  if (file != NULL)
    RETURN_IF_ERROR(yaml_config_read(options, file));
  RETURN_IF_ERROR(apply_arguments(options, arguments, count));
  read_grpc_tls(options, arguments, count);
  if (options->model_load_retry_count < 0) // for ever, as in Triton
    options->model_load_retry_count = MAX_RETRIES;
  options->secure = options->secure || strcmp(options->security, "strict") == 0;
  return read_vertex_ai_storage(options);
}

error *command_line_read(daemon_options *options, int argument_count, char **words)
{
  memset(options, 0, sizeof(*options));
  argument *arguments = calloc((size_t)argument_count + 1, sizeof(*arguments));
  size_t count = 0;
  error *e = arguments == NULL ? error_no_memory() : NULL;
  const char *file = NULL;
  if (argument_count > 1 && strcmp(words[argument_count - 1], "--") == 0)
    argument_count--; // nothing stands behind it
  for (int at = 1; e == NULL && at < argument_count;) {
    e = take_argument(argument_count, words, &at, &arguments[count]);
    if (e == NULL && strcmp(arguments[count].option->name, "config") == 0)
      file = arguments[count].value;
    count++;
  }
  if (e == NULL)
    e = read_options_from(options, false, file, arguments, count);
  if (e == NULL && options->secure) { // which has other defaults
    daemon_options_fini(options);
    e = read_options_from(options, true, file, arguments, count);
  }
  free(arguments);
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

void command_line_print_help(buffer *out)
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
    print_option(o, out);
  }
}
