// SPDX-License-Identifier: Apache-2.0
// The daemon's flags. One table generates the command line's parser, --config files and --help;
// docs/flags.md is tested against it. The main thread reads the flags once, before other threads
// run.
#ifndef NEREID_DAEMON_OPTIONS_H
#define NEREID_DAEMON_OPTIONS_H

#include "base/error.h"
#include "base/string_list.h"
#include "frontend/common/net/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The values of the flags. Texts are owned.
typedef struct daemon_options {
  const struct command *command; // NULL: none, the daemon serves repositories
  string_list words;             // the command's arguments
  struct {
    bool json, strict, load;
    char *print_config; // "": no
  } check;              // flags of nereid check
  struct {
    bool json, load;
  } migrate; // flags of nereid migrate
  struct {
    bool json;
    int64_t wait_seconds;
  } at_server;              // flags of nereid status, drain and undrain
  char *private_repository; // made by `nereid serve`, removed at the end; NULL: none
  bool help;
  bool version;
  bool show_calls;
  char *config_file;
  bool upgrade;
  char *upgrade_address; // "unix:…"; "": none

  char *id;
  bool exit_on_error;
  int64_t exit_timeout_seconds;
  int64_t shutdown_delay_seconds;
  char *listen;
  bool strict_readiness;

  bool secure;
  char *security;
  bool allow_root;
  bool allow_model_upload;
  string_list restricted_apis; // "<category>[,...]:<key>=<value>"
  char *unix_socket_mode;      // octal digits; "": the umask decides
  char *admin_address;         // "unix:/<path>"; "": none
  char *admin_grpc_address;    // the same
  char *admin_socket_mode;     // octal digits
  bool allow_client_shm;

  int64_t log_verbose;
  bool log_info;
  bool log_warning;
  bool log_error;
  char *log_format;
  char *log_file;
  char *access_log; // "": none

  string_list model_repositories;
  string_list model_repository_allows;
  char *model_control_mode;
  char *model_memory_budget;
  int64_t repository_poll_secs;
  string_list load_models;
  bool strict_model_config;
  bool disable_auto_complete;
  char *model_config_name;
  int64_t model_load_thread_count;
  int64_t model_load_retry_count;
  bool model_namespacing;

  bool allow_http;
  listener_options http;            // without its borrowed members
  char *http_max_input_size;        // options_input_size reads it
  string_list http_restricted_apis; // as restricted_apis
  char *http_header_forward_pattern;
  tls_flags http_tls;

  bool allow_grpc;
  listener_options grpc;     // as http
  int64_t grpc_unused_count; // flags that are accepted without effect
  tls_flags grpc_tls;
  char *grpc_compression_level;
  string_list grpc_restricted_protocols; // as restricted_apis
  char *grpc_header_forward_pattern;

  bool allow_metrics;
  bool allow_gpu_metrics;
  bool allow_cpu_metrics;
  bool metrics_on_http;
  listen_options metrics; // address "": as for HTTP
  double metrics_interval_ms;
  string_list metrics_configs; // "<setting>=<value>"

  string_list trace_configs;
  char *trace_file;
  string_list trace_levels;
  char *trace_rate;
  char *trace_count;
  char *trace_log_frequency;

  char *backend_directory;     // "": nereid's own
  char *cache_directory;       // likewise
  string_list backend_configs; // "[<backend>,]<setting>=<value>"
  char *worker_sandbox;
  bool strict_outputs;
  string_list host_policies; // "<policy>,<setting>=<value>"
  char *rate_limit;
  string_list rate_limit_resources; // "<name>:<count>[:<device>]"

  int64_t pinned_memory_pool_bytes;
  string_list cuda_memory_pools; // "<device>:<bytes>"
  double min_compute_capability;
  bool enable_peer_access;
  int64_t buffer_manager_thread_count;
  string_list cuda_address_spaces;   // "<device>:<bytes>"
  string_list model_load_gpu_limits; // "<device>:<fraction>"
  char *on_gpu_fault;

  string_list cache_configs; // "<cache>,<setting>=<value>"
  int64_t response_cache_bytes;
  char *repository_agent_directory; // "": nereid's own

  bool allow_sagemaker; // true is refused, so the rest of these flags have no effect
  bool allow_vertex_ai;
  string_list sagemaker_port_ranges; // "<port>-<port>"
  int64_t cloud_unused_count;
  char *vertex_ai_default_model;

  string_list warnings; // about the given flags, one line each; logged later
} daemon_options;

typedef enum option_kind {
  OPTION_FLAG, // no value
  OPTION_BOOL,
  OPTION_INTEGER,
  OPTION_COUNT,  // an integer; the nearest valid value is used
  OPTION_PORT,   // an integer; only its lower 16 bits count
  OPTION_DOUBLE, // 0 or more; otherwise as OPTION_COUNT
  OPTION_TEXT,
  OPTION_CHOICE,
  OPTION_LIST, // may be repeated
} option_kind;

typedef struct option {
  const char *group;
  const char *name;
  const char *value; // what --help calls the value; for a CHOICE: "one|two"
  option_kind kind;
  size_t field, size;        // offset in daemon_options, and size there in bytes
  int64_t least, most;       // for an INTEGER, COUNT or PORT
  const char *default_value; // NULL for lists and flags
  const char *help;
} option;

extern const option option_table[];
extern const size_t option_count;

extern const option check_options[]; // only for nereid check
extern const size_t check_option_count;

extern const option migrate_options[]; // only for nereid migrate
extern const size_t migrate_option_count;

extern const option status_options[]; // of nereid status and undrain
extern const size_t status_option_count;

extern const option drain_options[]; // of nereid drain alone
extern const size_t drain_option_count;

// A flag's default under --secure. The other effects of --secure are in access_rules.c (access) and
// options_check (not as root).
typedef struct secure_setting {
  const char *name;
  const char *value;
} secure_setting;

extern const secure_setting secure_settings[];
extern const size_t secure_setting_count;

// Flag number `i` of those that a command (NULL: the daemon) takes, its own last; NULL after the
// last.
const option *option_at(const struct command *command, size_t i);

// Sets the defaults; with `secure` those of --secure.
error *daemon_options_init(daemon_options *options, const struct command *command, bool secure);
void daemon_options_fini(daemon_options *options);

// The flag of this name, or NULL.
const option *option_find(const char *name);

// "unrecognized option '<dashes><name>'": with the flag of `command` (NULL: the daemon) that is
// spelt alike, if there is one.
error *option_unknown(const struct command *command, const char *dashes, const char *name);

// Whether Triton has this flag too.
bool option_is_of_triton(const option *o);

// The member of `options` that holds its value.
void *option_field(daemon_options *options, const option *o);

// The value of an INTEGER, COUNT or PORT.
int64_t option_integer(const daemon_options *options, const option *o);

// Sets one flag. INVALID_ARG names the flag, the value and what was expected. A value that Triton
// takes although it is out of range is adjusted, with a line in `warnings`.
error *option_set(daemon_options *options, const option *o, const char *value);

// "--<flag>: invalid value '<value>', expected <expected>"
error *option_bad_value(const char *flag, const char *value, const char *expected);

// Adds a line to `warnings`, which are logged once the log is open.
error *options_warn(daemon_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Checks flags against each other: INVALID_ARG. UNSUPPORTED, with advice, for what is not built
// yet.
error *options_check(const daemon_options *options);

// The metrics' address: --metrics-address, or --http-address where that is empty.
char *options_metrics_address(const daemon_options *options);

// Reads --unix-socket-mode or --admin-socket-mode. False when the text is empty or no mode.
bool options_unix_mode(const char *text, unsigned *mode);

// Reads --http-max-input-size: the bytes, and whether they limit the whole body. False when it is
// no number above 0.
bool options_input_size(const daemon_options *options, int64_t *bytes, bool *whole_body);

#endif
