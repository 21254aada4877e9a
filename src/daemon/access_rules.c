// SPDX-License-Identifier: Apache-2.0
// Reads the access rules of one listener after the other.
#include "daemon/access_rules.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"

#include <string.h>
#include <sys/stat.h>

typedef struct restricting_flag {
  const char *name;
  const char *kind;
  const string_list *values;
} restricting_flag;

static error *add_restrictions(const restricting_flag *flag, const char *prefix, restrictions *set)
{
  for (size_t i = 0; i < flag->values->count; i++) {
    error *e = restrictions_add(set, flag->kind, prefix, flag->values->items[i]);
    if (e != NULL)
      return error_wrap(e, "--%s", flag->name);
  }
  return NULL;
}

// As in Triton, an invalid pattern forwards nothing.
static error *read_forward(daemon_options *o, const char *flag, const char *pattern,
                           header_forward **forward)
{
  error *e = header_forward_new(pattern, forward);
  if (e == NULL || error_get_code(e) != ERROR_INVALID_ARG)
    return e == NULL ? NULL : error_wrap(e, "--%s", flag);
  error *failure = options_warn(o, "--%s: %s; no header is forwarded", flag, error_message(e));
  error_free(e);
  return failure;
}

// The flags of one protocol.
typedef struct protocol_flags {
  const char *protocol;        // "http"
  restricting_flag restricted; // the protocol's own
  const char *key_prefix;      // of headers with keys
  const char *forward_flag;
  const char *forward_pattern;
  const tls_flags *tls;
} protocol_flags;

static error *read_protocol_flags(daemon_options *o, const protocol_flags *flags,
                                  listener_rules *rules)
{
  const restricting_flag all = {"restricted-api", "api", &o->restricted_apis};
  restrictions *restricted = &rules->access.restricted;
  RETURN_IF_ERROR(add_restrictions(&flags->restricted, flags->key_prefix, restricted));
  RETURN_IF_ERROR(add_restrictions(&all, flags->key_prefix, restricted));
  RETURN_IF_ERROR(read_forward(o, flags->forward_flag, flags->forward_pattern, &rules->forward));
  return tls_identity_read(flags->tls, flags->protocol, &rules->tls);
}

error *access_rules_read(daemon_options *o, access_rules *rules)
{
  const access_policy access = {
      .secure = o->secure,
      .allow_model_upload = o->allow_model_upload,
      .loads_models = strcmp(o->model_control_mode, "explicit") == 0 ||
                      strcmp(o->model_control_mode, "ondemand") == 0,
  };
  memset(rules, 0, sizeof(*rules));
  rules->admin.is_admin = true;
  rules->http.access = rules->grpc.access = access;
  const protocol_flags http = {"http",
                               {"http-restricted-api", "api", &o->http_restricted_apis},
                               "",
                               "http-header-forward-pattern",
                               o->http_header_forward_pattern,
                               &o->http_tls};
  const protocol_flags grpc = {
      "grpc",
      {"grpc-restricted-protocol", "protocol", &o->grpc_restricted_protocols},
      RESTRICTED_GRPC_PREFIX,
      "grpc-header-forward-pattern",
      o->grpc_header_forward_pattern,
      &o->grpc_tls};
  RETURN_IF_ERROR(read_protocol_flags(o, &http, &rules->http));
  return read_protocol_flags(o, &grpc, &rules->grpc);
}

static void fini(listener_rules *rules)
{
  restrictions_fini(&rules->access.restricted);
  header_forward_free(rules->forward);
  tls_identity_fini(&rules->tls);
}

void access_rules_fini(access_rules *rules)
{
  fini(&rules->http);
  fini(&rules->grpc);
}

static void warn_of_open(const restrictions *closed, const restrictions *open, const char *listener,
                         const char *other)
{
  AUTO_BUFFER buffer names = BUFFER_EMPTY;
  restrictions_list_open(closed, open, &names);
  if (names.size == 0 || names.failed)
    return;
  frontend_log_warning(
      "%s wants no key for %.*s, as %s does: --restricted-api is for all listeners", listener,
      (int)names.size, names.data, other);
}

// No warning: in a container, where secrets are mounted so, there is no other user.
static void tell_readers(const char *flag, const char *path)
{
  struct stat s;
  if (path[0] != '\0' && stat(path, &s) == 0 && (s.st_mode & S_IROTH) != 0)
    frontend_log_info("--%s: '%s' holds a secret and has mode %o: every user of this machine "
                      "may read it, unless its directory forbids that",
                      flag, path, (unsigned)(s.st_mode & 07777));
}

// The value is behind the first '=': neither a category nor a key has one.
static void tell_readers_of_values(const char *flag, const string_list *values)
{
  for (size_t i = 0; i < values->count; i++) {
    const char *equals = strchr(values->items[i], '=');
    if (equals != NULL && text_starts_with(equals + 1, RESTRICTION_FILE))
      tell_readers(flag, equals + 1 + strlen(RESTRICTION_FILE));
  }
}

void access_rules_warn(const daemon_options *options, const access_rules *rules)
{
  tell_readers_of_values("restricted-api", &options->restricted_apis);
  tell_readers_of_values("http-restricted-api", &options->http_restricted_apis);
  tell_readers_of_values("grpc-restricted-protocol", &options->grpc_restricted_protocols);
  tell_readers("http-server-key", options->http_tls.key_file);
  tell_readers("grpc-server-key", options->grpc_tls.key_file);
  if (options->allow_http)
    warn_of_open(&rules->grpc.access.restricted, &rules->http.access.restricted, "HTTP", "gRPC");
  if (options->allow_grpc)
    warn_of_open(&rules->http.access.restricted, &rules->grpc.access.restricted, "gRPC", "HTTP");
}
