// SPDX-License-Identifier: Apache-2.0
// Reads aside, compares, then changes.
#include "daemon/reload.h"

#include "base/cleanup.h"
#include "daemon/command_line.h"
#include "daemon/config_dump.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/observe/log_settings.h"

#include <string.h>

#define AT_THE_NEXT_START ": this takes effect at the next start"
#define COUNT(array)      (sizeof(array) / sizeof((array)[0]))

// Flags whose new values count from the reload on.
static const char *const changeable[] = {
    "exit-timeout-secs",
    "shutdown-delay-secs",
    "log-verbose",
    "log-info",
    "log-warning",
    "log-error",
    "log-format",
    "log-file",
    "http-max-input-size",
    "http-max-connections",
    "http-max-inflight-bytes",
    "http-header-timeout-ms",
    "http-body-timeout-ms",
    "http-write-timeout-ms",
    "http-min-rate",
    "http-idle-timeout-ms",
    "grpc-max-connections",
    "grpc-max-inflight-bytes",
    "grpc-handshake-timeout-ms",
    "grpc-body-timeout-ms",
    "grpc-write-timeout-ms",
    "grpc-keepalive-time",
    "grpc-keepalive-timeout",
    "grpc-keepalive-permit-without-calls",
    "grpc-http2-min-recv-ping-interval-without-data",
    "grpc-http2-max-ping-strikes",
    "grpc-max-connection-age",
    "grpc-max-connection-age-grace",
};

// Flags that say where keys and certificates are: what is there counts, whatever the flag says.
static const char *const of_rules[] = {
    "restricted-api",   "http-restricted-api", "grpc-restricted-protocol",
    "http-server-cert", "http-server-key",     "http-root-cert",
    "grpc-server-cert", "grpc-server-key",     "grpc-root-cert",
};

static bool is_among(const option *o, const char *const *names, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(o->name, names[i]) == 0)
      return true;
  return false;
}

static bool changes(const option *o)
{
  return is_among(o, changeable, COUNT(changeable));
}

// ---- flags ----

// Takes the value of `from`, which gets the old one.
static void swap_values(const option *o, daemon_options *to, daemon_options *from)
{
  char held[sizeof(string_list) > sizeof(int64_t) ? sizeof(string_list) : sizeof(int64_t)];
  memcpy(held, option_field(to, o), o->size);
  memcpy(option_field(to, o), option_field(from, o), o->size);
  memcpy(option_field(from, o), held, o->size);
}

static void log_change(const option *o, const daemon_options *before, const daemon_options *now)
{
  AUTO_BUFFER buffer was = BUFFER_EMPTY, is = BUFFER_EMPTY;
  config_dump_value(&was, o, before);
  config_dump_value(&is, o, now);
  frontend_log_info("SIGHUP: --%s is %.*s, it was %.*s%s", o->name, (int)is.size, is.data,
                    (int)was.size, was.data, changes(o) ? "" : AT_THE_NEXT_START);
}

static void change_log(const daemon_options *o, const char *flag)
{
  const log_setting settings[] = {
      {"log_verbose_level", LOG_SETTING_INTEGER, {.integer = o->log_verbose}},
      {"log_info", LOG_SETTING_BOOL, {.boolean = o->log_info}},
      {"log_warning", LOG_SETTING_BOOL, {.boolean = o->log_warning}},
      {"log_error", LOG_SETTING_BOOL, {.boolean = o->log_error}},
      {"log_format", LOG_SETTING_TEXT, {.text = o->log_format}},
  };
  static const char *const flags[] = {"log-verbose", "log-info", "log-warning", "log-error",
                                      "log-format"};
  for (size_t i = 0; i < COUNT(flags); i++)
    if (strcmp(flag, flags[i]) == 0)
      error_free(log_settings_change(&settings[i], 1));
  if (strcmp(flag, "log-file") != 0)
    return;
  AUTO_ERROR error *e = error_from_abi(TRITONSERVER_ServerOptionsSetLogFile(NULL, o->log_file));
  if (e != NULL)
    frontend_log_error("%s", error_message(e));
}

// What clients have set since then (/v2/logging) stays where the flags say the same as before.
static void take_flags(daemon_options *to, daemon_options *from)
{
  for (size_t i = 0; i < option_count; i++) {
    const option *o = &option_table[i];
    if (is_among(o, of_rules, COUNT(of_rules)) || !config_dump_differs(o, to, from))
      continue;
    log_change(o, to, from);
    if (!changes(o))
      continue;
    swap_values(o, to, from);
    change_log(to, o->name);
  }
}

// ---- files ----

static error *take_keys(const char *protocol, restrictions *now, restrictions *fresh)
{
  bool changed = false;
  route_category other = restrictions_difference(now, fresh);
  if (other != CATEGORY_COUNT) {
    frontend_log_warning(
        "SIGHUP: %s: '%s' wants a key from now on, or none, or another header" AT_THE_NEXT_START,
        protocol, route_category_name(other));
    return NULL;
  }
  RETURN_IF_ERROR(restrictions_renew(now, fresh, &changed));
  if (changed)
    frontend_log_info("SIGHUP: %s: the values of keys have changed", protocol);
  return NULL;
}

static error *take_certificates(const char *protocol, tls_identity *now, tls_identity *fresh)
{
  bool changed = false;
  if ((now->certificate == NULL) != (fresh->certificate == NULL) ||
      (now->root == NULL) != (fresh->root == NULL)) {
    frontend_log_warning(
        "SIGHUP: %s: TLS, or certificates of clients, turned on or off" AT_THE_NEXT_START,
        protocol);
    return NULL;
  }
  RETURN_IF_ERROR(tls_identity_renew(now, fresh, &changed));
  if (changed)
    frontend_log_info("SIGHUP: %s: the certificates have changed, for new connections", protocol);
  return NULL;
}

static error *take_rules(const char *protocol, listener_rules *now, listener_rules *fresh)
{
  RETURN_IF_ERROR(take_keys(protocol, &now->access.restricted, &fresh->access.restricted));
  return take_certificates(protocol, &now->tls, &fresh->tls);
}

// ---- all ----

// A command such as `nereid serve` has made its flags from its words: they stay.
static error *read_again(const reload *r, daemon_options *fresh)
{
  if (r->options->command != NULL)
    return daemon_options_init(fresh, NULL, false);
  RETURN_IF_ERROR(command_line_read(fresh, r->argument_count, r->arguments));
  return options_check(fresh);
}

// All is read before the first thing changes.
static error *change(const reload *r, daemon_options *fresh, access_rules *rules)
{
  daemon_options *files = r->options->command != NULL ? r->options : fresh;
  RETURN_IF_ERROR(access_rules_read(files, rules));
  RETURN_IF_ERROR(take_rules("HTTP", &r->rules->http, &rules->http));
  RETURN_IF_ERROR(take_rules("gRPC", &r->rules->grpc, &rules->grpc));
  if (r->options->command == NULL)
    take_flags(r->options, fresh);
  return NULL;
}

void reload_run(const reload *r, ports *p)
{
  daemon_options fresh;
  access_rules rules = {0};
  error *e = read_again(r, &fresh);
  if (e == NULL)
    e = change(r, &fresh, &rules);
  if (e == NULL)
    ports_set_limits(p);
  else
    frontend_log_error("SIGHUP: flags, keys and certificates stay as they were: %s",
                       error_message(e));
  error_free(e);
  access_rules_fini(&rules);
  daemon_options_fini(&fresh);
}
