// SPDX-License-Identifier: Apache-2.0
// Checks of flags against each other.
#include "daemon/cache_setup.h"
#include "daemon/flag_notes.h"
#include "daemon/options.h"

#include "base/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

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

// The file's permissions say who may use the admin address; ports and abstract names have none.
// Another listener at the same address would give all its clients these rights.
static error *check_admin(const daemon_options *o, const char *flag, const char *address)
{
  if (address[0] == '\0')
    return NULL;
  if (!text_starts_with(address, "unix:/"))
    return option_bad_value(flag, address,
                            "unix:/<path>: the file's permissions say who gets to it");
  const char *const others[] = {o->http.listen.address, o->grpc.listen.address, o->metrics.address};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (strcmp(address, others[i]) == 0)
      return error_new(ERROR_INVALID_ARG,
                       "--%s: '%s' is another listener's address too, expected a socket of its own",
                       flag, address);
  return NULL;
}

// No two listeners may share an address.
static error *check_addresses(const daemon_options *o)
{
  const listening http = {"http", o->allow_http, o->http.listen.address, o->http.listen.port};
  const listening grpc = {"grpc", o->allow_grpc, o->grpc.listen.address, o->grpc.listen.port};
  const listening metrics = {"metrics", o->allow_metrics, options_metrics_address(o),
                             o->metrics.port};
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

// The file is kept from other users, and so must be a socket of its own.
static error *check_upgrade(const daemon_options *o)
{
  const char *const others[] = {o->http.listen.address, o->grpc.listen.address, o->metrics.address,
                                o->admin_address, o->admin_grpc_address};
  const char *address = o->upgrade_address;
  if (address[0] == '\0')
    return !o->upgrade ? NULL
                       : error_new(ERROR_INVALID_ARG, "--upgrade needs --upgrade-address, that of "
                                                      "the running server");
  if (!text_starts_with(address, "unix:") || strlen(address) == strlen("unix:"))
    return option_bad_value("upgrade-address", address, "unix:<path>");
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (strcmp(address, others[i]) == 0)
      return error_new(ERROR_INVALID_ARG,
                       "--upgrade-address: '%s' is a listener's address too, expected a socket of "
                       "its own",
                       address);
  return NULL;
}

static error *check_mode(const char *flag, const char *text)
{
  unsigned mode;
  return options_unix_mode(text, &mode)
             ? NULL
             : option_bad_value(flag, text, "three octal digits such as 660");
}

error *options_check(const daemon_options *o)
{
  RETURN_IF_ERROR(flag_notes_check(o));
  RETURN_IF_ERROR(cache_flags_check(o));
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
    return option_bad_value("http-max-input-size", o->http_max_input_size,
                            "an integer from 1, or one behind total:");
  RETURN_IF_ERROR(check_upgrade(o));
  return check_addresses(o);
}
