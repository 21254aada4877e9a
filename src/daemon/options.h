// SPDX-License-Identifier: Apache-2.0
// The daemon's flags: one table from which the command line, --config files, --help and
// docs/flags.md come. Read once by the main thread before anything else runs.
#ifndef NEREID_DAEMON_OPTIONS_H
#define NEREID_DAEMON_OPTIONS_H

#include "base/error.h"
#include "base/string_list.h"
#include "frontend/common/net/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What the flags set. Texts are owned.
typedef struct daemon_options {
  const struct command *command; // NULL: none, the daemon serves repositories
  string_list words;             // of the command
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
  char *private_repository; // that `nereid serve` made: removed at the end; NULL: none
  bool help;
  bool version;
  bool show_calls;
  char *config_file;

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
  char *unix_socket_mode;      // octal digits; "": as the umask says
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
  listener_options http;            // but for what it borrows
  char *http_max_input_size;        // options_input_size reads it
  string_list http_restricted_apis; // as restricted_apis
  char *http_header_forward_pattern;
  tls_flags http_tls;

  bool allow_grpc;
  listener_options grpc;     // the same
  int64_t grpc_unused_count; // of flags that are accepted and not needed
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

  char *backend_directory;     // "": where nereid's own are
  char *cache_directory;       // likewise
  string_list backend_configs; // "<backend>,<setting>=<value>"
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
  char *repository_agent_directory; // "": where nereid's own are

  bool allow_sagemaker; // refused, and what goes with them is not needed
  bool allow_vertex_ai;
  string_list sagemaker_port_ranges; // "<port>-<port>"
  int64_t cloud_unused_count;
  char *vertex_ai_default_model;

  string_list warnings; // of what was given, one line each; for the log
} daemon_options;

typedef enum option_kind {
  OPTION_FLAG, // no value
  OPTION_BOOL,
  OPTION_INTEGER,
  OPTION_COUNT,  // an integer; one that makes no sense is read as the nearest that does
  OPTION_PORT,   // an integer; of a larger one the lower 16 bits count
  OPTION_DOUBLE, // 0 or more, as OPTION_COUNT
  OPTION_TEXT,
  OPTION_CHOICE,
  OPTION_LIST, // may be given again and again
} option_kind;

typedef struct option {
  const char *group;
  const char *name;
  const char *value; // what --help calls the value; of a CHOICE: "one|two"
  option_kind kind;
  size_t field, size;        // offset in daemon_options, and bytes there
  int64_t least, most;       // of an INTEGER, COUNT or PORT
  const char *default_value; // NULL for lists and flags
  const char *help;
} option;

extern const option option_table[];
extern const size_t option_count;

extern const option check_options[]; // of nereid check alone
extern const size_t check_option_count;

extern const option migrate_options[]; // of nereid migrate alone
extern const size_t migrate_option_count;

extern const option status_options[]; // of nereid status and undrain
extern const size_t status_option_count;

extern const option drain_options[]; // of nereid drain alone
extern const size_t drain_option_count;

// Another default of a flag under --secure. What --secure means beyond flags is in access_rules.c
// (who may do what) and options_check (not as root).
typedef struct secure_setting {
  const char *name;
  const char *value;
} secure_setting;

extern const secure_setting secure_settings[];
extern const size_t secure_setting_count;

// The flags that a command (NULL: none) takes, its own last; NULL behind the last.
const option *option_at(const struct command *command, size_t i);

// Sets the defaults, those of --secure when `secure` is set.
error *daemon_options_init(daemon_options *options, const struct command *command, bool secure);
void daemon_options_fini(daemon_options *options);

// The flag of this name, or NULL.
const option *option_find(const char *name);

// Whether Triton has the flag, too.
bool option_is_of_triton(const option *o);

// Where its value is.
void *option_field(daemon_options *options, const option *o);

// The value of an INTEGER, COUNT or PORT.
int64_t option_integer(const daemon_options *options, const option *o);

// Sets one flag. INVALID_ARG naming flag, value and what was expected. What Triton takes though it
// makes no sense is taken, with a line in `warnings`.
error *option_set(daemon_options *options, const option *o, const char *value);

// "--<flag>: invalid value '<value>', expected <expected>"
error *option_bad_value(const char *flag, const char *value, const char *expected);

// Adds to `warnings`: logged once the log is there.
error *options_warn(daemon_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// What only several flags together show, and what is not built yet: UNSUPPORTED, with what to do
// instead.
error *options_check(const daemon_options *options);

// What --metrics-address and --http-address come to.
char *options_metrics_address(const daemon_options *options);

// The number that --unix-socket-mode or --admin-socket-mode stands for; false when it is empty or
// none.
bool options_unix_mode(const char *text, unsigned *mode);

// What --http-max-input-size says: how many bytes, and whether of the whole body. False when it is
// no number above 0.
bool options_input_size(const daemon_options *options, int64_t *bytes, bool *whole_body);

#endif
