// SPDX-License-Identifier: Apache-2.0
// Prints the table of flags.
#include "daemon/config_dump.h"

#include "base/cleanup.h"
#include "base/slice.h"
#include "base/text.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/policy/access_policy.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <string.h>
#include <strings.h>

// ---- secrets ----

// In "<category>,...:<key>=<value>" the value is a secret key.
static bool is_restriction(const option *o)
{
  static const char *const names[] = {"restricted-api", "http-restricted-api",
                                      "grpc-restricted-protocol"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strcmp(o->name, names[i]) == 0)
      return true;
  return false;
}

// In "<what>,<setting>=<value>" the setting's name tells whether the value is secret.
static bool names_secret(slice setting)
{
  static const char *const words[] = {"password", "passphrase", "secret", "token", "credential"};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    for (size_t at = 0, size = strlen(words[i]); at + size <= setting.size; at++)
      if (strncasecmp(setting.data + at, words[i], size) == 0)
        return true;
  return false;
}

// Between "://" and the "@" before the path: a name, and often a password.
static void append_url(buffer *out, const char *text)
{
  const char *begin = strstr(text, "://");
  const char *end = begin == NULL ? NULL : begin + 3 + strcspn(begin + 3, "@/?#");
  if (begin == NULL || *end != '@') {
    buffer_append_text(out, text);
    return;
  }
  buffer_append_slice(out, (slice){text, (size_t)(begin + 3 - text)});
  buffer_append_text(out, CONFIG_HIDDEN);
  append_url(out, end);
}

static void append_given(buffer *out, const option *o, const char *text)
{
  AUTO_BUFFER buffer shown = BUFFER_EMPTY;
  const char *equals = strchr(text, '=');
  slice before = {text, equals == NULL ? 0 : (size_t)(equals - text) + 1};
  if (equals != NULL && (is_restriction(o) || names_secret(before)) &&
      !restriction_is_reference(equals + 1)) {
    buffer_append_slice(&shown, before);
    buffer_append_text(&shown, CONFIG_HIDDEN);
  } else {
    append_url(&shown, text);
  }
  out->failed |= shown.failed;
  buffer_append_json_string(out, buffer_view(&shown));
}

// ---- values ----

static void append_list(buffer *out, const option *o, const string_list *list)
{
  buffer_append_char(out, '[');
  for (size_t i = 0; i < list->count; i++) {
    buffer_append_text(out, i == 0 ? "" : ",");
    append_given(out, o, list->items[i]);
  }
  buffer_append_char(out, ']');
}

void config_dump_value(buffer *out, const option *o, const daemon_options *options)
{
  const void *field = (const char *)options + o->field;
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
    append_given(out, o, *(char *const *)field);
    break;
  case OPTION_LIST:
    append_list(out, o, field);
    break;
  }
}

// Whether it is a second name for a flag earlier in the table.
static bool is_alias(const option *o)
{
  for (const option *other = option_table; other < o; other++)
    if (other->field == o->field)
      return true;
  return false;
}

static void append_flags(buffer *out, const daemon_options *options)
{
  buffer_append_char(out, '{');
  for (size_t i = 0; i < option_count; i++) {
    if (is_alias(&option_table[i]))
      continue;
    buffer_append_format(out, "%s\"%s\":", i == 0 ? "" : ",", option_table[i].name);
    config_dump_value(out, &option_table[i], options);
  }
  buffer_append_char(out, '}');
}

bool config_dump_differs(const option *o, const daemon_options *options,
                         const daemon_options *other_options)
{
  if (is_alias(o))
    return false;
  AUTO_BUFFER buffer value = BUFFER_EMPTY, other = BUFFER_EMPTY;
  config_dump_value(&value, o, options);
  config_dump_value(&other, o, other_options);
  return !slice_equal(buffer_view(&value), buffer_view(&other));
}

// The names of flags whose value differs from the default.
static error *append_changed(buffer *out, const daemon_options *options)
{
  daemon_options usual;
  const char *comma = "";
  error *e = daemon_options_init(&usual, NULL, false);
  buffer_append_char(out, '[');
  for (size_t i = 0; e == NULL && i < option_count; i++) {
    if (!config_dump_differs(&option_table[i], options, &usual))
      continue;
    buffer_append_format(out, "%s\"%s\"", comma, option_table[i].name);
    comma = ",";
  }
  buffer_append_char(out, ']');
  daemon_options_fini(&usual);
  return e;
}

static void print_hash(slice text, char hash[CONFIG_HASH_SIZE])
{
  uint8_t digest[SHA256_DIGEST_SIZE];
  struct sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, text.size, (const uint8_t *)text.data);
  sha256_digest(&context, sizeof(digest), digest);
  text_put_hex(hash, digest, sizeof(digest));
  hash[2 * sizeof(digest)] = '\0';
}

error *config_dump_print(const daemon_options *options, buffer *out, char hash[CONFIG_HASH_SIZE])
{
  AUTO_BUFFER buffer flags = BUFFER_EMPTY;
  append_flags(&flags, options);
  if (flags.failed)
    return error_no_memory();
  print_hash(buffer_view(&flags), hash);
  buffer_append_format(out, "{\"hash\":\"%s\",\"changed\":", hash);
  RETURN_IF_ERROR(append_changed(out, options));
  buffer_append_text(out, ",\"flags\":");
  buffer_append_slice(out, buffer_view(&flags));
  buffer_append_char(out, '}');
  return out->failed ? error_no_memory() : NULL;
}

// ---- the metric ----

error *config_metric_new(config_metric *made, const char *hash)
{
  TRITONSERVER_Parameter *label =
      TRITONSERVER_ParameterNew("hash", TRITONSERVER_PARAMETER_STRING, hash);
  const TRITONSERVER_Parameter *labels[] = {label};
  if (label == NULL)
    return error_no_memory();
  error *e = error_from_abi(TRITONSERVER_MetricFamilyNew(
      &made->family, TRITONSERVER_METRIC_KIND_GAUGE, "nereid_config_info",
      "1, with a hash of the flags that the server was started with (/v2/nereid/config_dump)"));
  if (e == NULL)
    e = error_from_abi(TRITONSERVER_MetricNew(&made->metric, made->family, labels, 1));
  if (e == NULL)
    e = error_from_abi(TRITONSERVER_MetricSet(made->metric, 1));
  TRITONSERVER_ParameterDelete(label);
  return e;
}

void config_metric_free(config_metric *made)
{
  if (made->metric != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricDelete(made->metric));
  if (made->family != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricFamilyDelete(made->family));
  *made = (config_metric){0};
}
