// Setting of flags by the table.
#include "daemon/options.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define MAX_DOUBLE  1e15 // becomes an integer in places
#define MAX_RETRIES 1000000

static void *field_of(daemon_options *options, const option *o)
{
  return (char *)options + o->field;
}

error *daemon_options_init(daemon_options *options, bool secure)
{
  memset(options, 0, sizeof(*options));
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    if (o->default_value != NULL)
      RETURN_IF_ERROR(option_set(options, o, o->default_value));
  }
  for (size_t i = 0; secure && i < secure_setting_count; i++)
    RETURN_IF_ERROR(
        option_set(options, option_find(secure_settings[i].name), secure_settings[i].value));
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
  string_list_fini(&options->warnings);
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

// What Triton takes and has no use for is taken, and said: logged once the log is there.
static error *warn(daemon_options *options, const option *o, const char *text, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
static error *warn(daemon_options *options, const option *o, const char *text, const char *format,
                   ...)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  char taken[32];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(taken, sizeof(taken), format, arguments);
  va_end(arguments);
  buffer_append_format(&line, "--%s: '%s' is read as %s", o->name, text, taken);
  char *copy AUTO_FREE = buffer_take_text(&line);
  return copy != NULL && string_list_add(&options->warnings, copy) ? NULL : error_no_memory();
}

static error *set_integer(const option *o, const char *text, int64_t *field)
{
  char expected[96];
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

// Where Triton takes any integer: the nearest that makes sense; of a port, what a socket makes of
// it.
static int64_t sensible(const option *o, int64_t value)
{
  if (o->kind == OPTION_PORT)
    return (int64_t)((uint64_t)value & UINT16_MAX);
  if (value < o->least)
    return o->least;
  return value > o->most ? o->most : value;
}

static error *set_count(daemon_options *options, const option *o, const char *text, int64_t *field)
{
  bool word;
  if (strcmp(o->name, "log-verbose") == 0 && strlen(text) > 1 && read_bool(text, &word)) {
    *field = word;
    return NULL;
  }
  int64_t value;
  const char *rest;
  if (!text_begins_int64(text, &value, &rest))
    return bad_value(o, text, "an integer");
  *field = sensible(o, value);
  return *rest == '\0' && *field == value ? NULL : warn(options, o, text, "%" PRId64, *field);
}

static error *set_double(daemon_options *options, const option *o, const char *text, double *field)
{
  double value;
  const char *rest;
  if (!text_begins_double(text, &value, &rest))
    return bad_value(o, text, "a number");
  *field = fmax(0, fmin(value, MAX_DOUBLE));
  bool as_given = *rest == '\0' && value >= 0 && value <= MAX_DOUBLE;
  return as_given ? NULL : warn(options, o, text, "%g", *field);
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

error *option_set(daemon_options *options, const option *o, const char *value)
{
  void *field = field_of(options, o);
  switch (o->kind) {
  case OPTION_FLAG:
  case OPTION_BOOL:
    return read_bool(value, field) ? NULL : bad_value(o, value, "true or false");
  case OPTION_INTEGER:
    return set_integer(o, value, field);
  case OPTION_COUNT:
  case OPTION_PORT:
    return set_count(options, o, value, field);
  case OPTION_DOUBLE:
    return set_double(options, o, value, field);
  case OPTION_TEXT:
    return set_text(field, slice_of(value));
  case OPTION_CHOICE:
    return set_choice(o, value, field);
  case OPTION_LIST:
    break;
  }
  return string_list_add(field, value) ? NULL : error_no_memory();
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

static matches look_up(const char *name, buffer *all)
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
static error *find(const char *name, const option **found)
{
  *found = option_find(name);
  if (*found != NULL)
    return NULL;
  AUTO_BUFFER buffer all = BUFFER_EMPTY;
  matches m = look_up(name, &all);
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
static error *take(int count, char **words, int *at, argument *taken)
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
  RETURN_IF_ERROR(find(name, &taken->option));
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
static error *apply(daemon_options *options, const argument *arguments, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    bool first = arguments[i].option->kind == OPTION_LIST;
    for (size_t k = 0; k < i; k++)
      first = first && arguments[k].option->field != arguments[i].option->field;
    if (first)
      string_list_fini(field_of(options, arguments[i].option));
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
  options->grpc_use_ssl = options->grpc_use_ssl || (asked && options->grpc_server_cert[0] != '\0');
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

static error *read_all(daemon_options *options, bool secure, const char *file,
                       const argument *arguments, size_t count)
{
  RETURN_IF_ERROR(daemon_options_init(options, secure));
  read_vertex_ai_mode(options);
  if (file != NULL)
    RETURN_IF_ERROR(yaml_config_read(options, file));
  RETURN_IF_ERROR(apply(options, arguments, count));
  read_grpc_tls(options, arguments, count);
  if (options->model_load_retry_count < 0) // for ever, as in Triton
    options->model_load_retry_count = MAX_RETRIES;
  options->secure = options->secure || strcmp(options->security, "strict") == 0;
  return read_vertex_ai_storage(options);
}

error *options_parse(daemon_options *options, int argument_count, char **words)
{
  memset(options, 0, sizeof(*options));
  argument *arguments = calloc((size_t)argument_count + 1, sizeof(*arguments));
  size_t count = 0;
  error *e = arguments == NULL ? error_no_memory() : NULL;
  const char *file = NULL;
  if (argument_count > 1 && strcmp(words[argument_count - 1], "--") == 0)
    argument_count--; // nothing stands behind it
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

// A file's permissions say who is an operator: neither ports nor abstract names have any. What else
// listens there would give everybody those rights.
static error *check_admin(const daemon_options *o, const char *flag, const char *address)
{
  if (address[0] == '\0')
    return NULL;
  if (!text_starts_with(address, "unix:/"))
    return error_new(ERROR_INVALID_ARG,
                     "--%s: invalid value '%s', expected unix:/<path>: the file's permissions say "
                     "who gets to it",
                     flag, address);
  const char *const others[] = {o->http_address, o->grpc_address, o->metrics_address};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (strcmp(address, others[i]) == 0)
      return error_new(ERROR_INVALID_ARG,
                       "--%s: '%s' is another listener's address too, expected a socket of its own",
                       flag, address);
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
  RETURN_IF_ERROR(check_two(&grpc, &metrics));
  RETURN_IF_ERROR(check_admin(o, "admin-address", o->admin_address));
  RETURN_IF_ERROR(check_admin(o, "admin-grpc-address", o->admin_grpc_address));
  if (o->admin_address[0] != '\0' && strcmp(o->admin_address, o->admin_grpc_address) == 0)
    return error_new(ERROR_INVALID_ARG,
                     "--admin-address and --admin-grpc-address are both '%s', expected two sockets",
                     o->admin_address);
  return NULL;
}

static error *check_mode(const char *flag, const char *text)
{
  unsigned mode;
  if (options_unix_mode(text, &mode))
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "--%s: invalid value '%s', expected three octal digits such as 660", flag, text);
}

// "<cache>,size=0" asks for nothing.
static error *check_cache_config(const char *text)
{
  const char *comma = strchr(text, ',');
  const char *equals = comma == NULL ? NULL : strchr(comma, '=');
  if (equals == NULL || comma == text || equals == comma + 1 || equals[1] == '\0')
    return error_new(ERROR_INVALID_ARG,
                     "--cache-config: invalid value '%s', expected <cache>,<setting>=<value>",
                     text);
  if (strcmp(comma, ",size=0") == 0)
    return NULL;
  return error_new(ERROR_UNSUPPORTED,
                   "--cache-config is not supported by nereid yet: leave it out, then each answer "
                   "is computed");
}

static error *check_cache(const daemon_options *o)
{
  for (size_t i = 0; i < o->cache_configs.count; i++)
    RETURN_IF_ERROR(check_cache_config(o->cache_configs.items[i]));
  if (o->response_cache_bytes == 0)
    return NULL;
  return error_new(ERROR_UNSUPPORTED,
                   "--response-cache-byte-size=%" PRId64 " is not supported by nereid yet: leave "
                   "it out, or give 0, then each answer is computed",
                   o->response_cache_bytes);
}

// Where Triton has something that is not there yet: what to do instead.
static error *check_absent(const daemon_options *o)
{
  if (o->allow_sagemaker)
    return error_new(ERROR_UNSUPPORTED,
                     "--allow-sagemaker is not supported by nereid yet: leave it out, and have a "
                     "proxy send /ping to /v2/health/ready and /invocations to "
                     "/v2/models/<model>/infer");
  if (o->allow_vertex_ai)
    return error_new(ERROR_UNSUPPORTED,
                     "--allow-vertex-ai (which AIP_MODE=PREDICTION gives) is not supported by "
                     "nereid yet: give --allow-vertex-ai=false --allow-http=true --http-port=<that "
                     "of AIP_HTTP_PORT>, and as routes /v2/health/ready and "
                     "/v2/models/<model>/infer");
  return check_cache(o);
}

error *options_check(const daemon_options *o)
{
  RETURN_IF_ERROR(check_absent(o));
  if (o->model_repositories.count == 0)
    return error_new(ERROR_INVALID_ARG,
                     "--model-repository must be specified: the directory that holds the models");
  if (o->secure && !o->allow_root && geteuid() == 0)
    return error_new(ERROR_INVALID_ARG,
                     "--secure does not run as root: start nereid as another user, or give "
                     "--allow-root");
  if (o->unix_socket_mode[0] != '\0')
    RETURN_IF_ERROR(check_mode("unix-socket-mode", o->unix_socket_mode));
  RETURN_IF_ERROR(check_mode("admin-socket-mode", o->admin_socket_mode));
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
    print_option(o, out);
  }
}
