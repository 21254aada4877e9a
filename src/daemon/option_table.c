// SPDX-License-Identifier: Apache-2.0
// The flags, in the order of --help. Names and defaults are Triton's unless docs/flags.md says
// otherwise.
#include "daemon/options.h"

#include <limits.h>

#define FIELD(name) offsetof(daemon_options, name), sizeof(((daemon_options *)NULL)->name)

#define ROW(...)                                                                                   \
  {                                                                                                \
    __VA_ARGS__                                                                                    \
  }
#define FLAG(group, name, field, help)                                                             \
  ROW(group, name, NULL, OPTION_FLAG, FIELD(field), 0, 0, NULL, help)
#define BOOL(group, name, field, default_value, help)                                              \
  ROW(group, name, "true|false", OPTION_BOOL, FIELD(field), 0, 0, default_value, help)
#define INTEGER(group, name, value, field, least, most, default_value, help)                       \
  ROW(group, name, value, OPTION_INTEGER, FIELD(field), least, most, default_value, help)
#define TIMEOUT(group, name, field, default_value, help)                                           \
  INTEGER(group, name, "<ms>", field, 0, INT_MAX, default_value, help)
#define DOUBLE(group, name, value, field, default_value, help)                                     \
  ROW(group, name, value, OPTION_DOUBLE, FIELD(field), 0, 0, default_value, help)
#define TEXT(group, name, value, field, default_value, help)                                       \
  ROW(group, name, value, OPTION_TEXT, FIELD(field), 0, 0, default_value, help)
#define CHOICE(group, name, value, field, default_value, help)                                     \
  ROW(group, name, value, OPTION_CHOICE, FIELD(field), 0, 0, default_value, help)
#define LIST(group, name, value, field, help)                                                      \
  ROW(group, name, value, OPTION_LIST, FIELD(field), 0, 0, NULL, help)
// A number that is out of range is adjusted, as in Triton.
#define COUNT(group, name, value, field, least, most, default_value, help)                         \
  ROW(group, name, value, OPTION_COUNT, FIELD(field), least, most, default_value, help)
#define PORT(group, name, field, default_value)                                                    \
  ROW(group, name, "<port>", OPTION_PORT, FIELD(field), 0, UINT16_MAX, default_value,              \
      "Port; 0 is any free one.")

#define GLOBAL     "Global"
#define SECURITY   "Security"
#define LOGGING    "Logging"
#define REPOSITORY "Model repository"
#define HTTP       "HTTP"
#define GRPC       "gRPC"
#define METRICS    "Metrics"
#define TRACING    "Tracing"
#define BACKEND    "Backends"
#define MEMORY     "Memory and devices"
#define CACHE      "Response cache and repository agents"
#define CLOUD      "SageMaker and Vertex AI"
#define CHECK      "Check"
#define MIGRATE    "Migrate"
#define OPERATOR   "Running server"

const option option_table[] = {
    FLAG(GLOBAL, "help", help, "Print this text and exit."),
    FLAG(GLOBAL, "version", version, "Print nereid's version and exit. Not in Triton."),
    FLAG(GLOBAL, "show-calls", show_calls,
         "After the start, print a curl command for each model. Not in Triton."),
    TEXT(GLOBAL, "config", "<file>", config_file, "",
         "Read flags from a YAML file: a mapping of flag names to values. The command line wins. "
         "Not in "
         "Triton."),
    TEXT(GLOBAL, "id", "<name>", id, "triton", "Name of the server in metadata and log."),
    BOOL(GLOBAL, "exit-on-error", exit_on_error, "true",
         "Exit when a start-up model does not load. Otherwise serve the others."),
    COUNT(GLOBAL, "exit-timeout-secs", "<seconds>", exit_timeout_seconds, 0, UINT_MAX, "30",
          "How long a stop waits for requests and models; below 0 is 0."),
    INTEGER(GLOBAL, "shutdown-delay-secs", "<seconds>", shutdown_delay_seconds, 0, 3600, "0",
            "How long the server goes on serving, reported as not ready, before it stops: for load "
            "balancers. Not in Triton."),
    CHOICE(GLOBAL, "listen", "start|ready", listen, "start",
           "When HTTP and gRPC accept connections: before the start-up models load, or after, as "
           "Triton does. Not in Triton."),
    TEXT(GLOBAL, "upgrade-address", "unix:<path>", upgrade_address, "",
         "Unix socket at which this server hands its listening sockets to a server that is started "
         "with --upgrade, by the same user. Empty: none. Not in Triton."),
    FLAG(GLOBAL, "upgrade", upgrade,
         "Take over from the server that runs at --upgrade-address, once the models are loaded. "
         "Not in Triton."),
    BOOL(GLOBAL, "strict-readiness", strict_readiness, "true",
         "Ready only while every model is. Otherwise ready once start-up is over."),

    FLAG(SECURITY, "secure", secure,
         "Admin requests need a key or the admin address, timeouts are short, root is refused; see "
         "docs/security.md. Not in Triton."),
    CHOICE(SECURITY, "security", "triton|strict", security, "triton",
           "strict is --secure. Not in Triton."),
    FLAG(SECURITY, "allow-root", allow_root, "Run as root under --secure, too. Not in Triton."),
    FLAG(SECURITY, "allow-model-upload", allow_model_upload,
         "Accept model files, and configurations that name other code, from other machines, too. "
         "Not in Triton."),
    LIST(SECURITY, "restricted-api", "<category>,...:<key>=<value>", restricted_apis,
         "Categories that require the header <key> with this value, at all listeners; a value "
         "file:<path>, cred:<name> or env:<name> is read from that place. May be repeated. Not in "
         "Triton."),
    TEXT(SECURITY, "unix-socket-mode", "<octal>", unix_socket_mode, "",
         "Permissions of Unix sockets' files. Empty: the umask decides. Not in Triton."),
    TEXT(SECURITY, "admin-address", "unix:/<path>", admin_address, "",
         "Unix socket for an operator on this machine: HTTP that accepts admin requests and "
         "uploads without keys. Empty: none. Not in Triton."),
    TEXT(SECURITY, "admin-grpc-address", "unix:/<path>", admin_grpc_address, "",
         "The same for gRPC. Not in Triton."),
    TEXT(SECURITY, "admin-socket-mode", "<octal>", admin_socket_mode, "600",
         "Permissions of the admin addresses' files: a user that may write to one is an operator. "
         "Not in Triton."),
    BOOL(SECURITY, "allow-client-shm", allow_client_shm, "false",
         "Clients may register memory that they share with the server: any object below /dev/shm "
         "that the server may open."),

    COUNT(LOGGING, "log-verbose", "<level>", log_verbose, 0, INT_MAX, "0",
          "Level of verbose lines, 0 for none. true is 1."),
    BOOL(LOGGING, "log-info", log_info, "true", "Log lines of level I."),
    BOOL(LOGGING, "log-warning", log_warning, "true", "Log lines of level W."),
    BOOL(LOGGING, "log-error", log_error, "true", "Log lines of level E."),
    CHOICE(LOGGING, "log-format", "default|ISO8601|json", log_format, "default",
           "Form of a line. json is not in Triton."),
    TEXT(LOGGING, "log-file", "<path>", log_file, "",
         "File to which lines are appended. Empty: standard output and error."),
    TEXT(LOGGING, "access-log", "<path>", access_log, "",
         "File to which a line per request is appended; - is standard output. Empty: none. Not in "
         "Triton."),

    LIST(REPOSITORY, "model-repository", "<path>", model_repositories,
         "Directory of models. May be repeated."),
    LIST(REPOSITORY, "model-store", "<path>", model_repositories, "Same as --model-repository."),
    LIST(REPOSITORY, "model-repository-allow", "<path>", model_repository_allows,
         "Under --secure, links in a repository may lead below this directory, too. Without "
         "--secure all links are followed. May be repeated. Not in Triton."),
    CHOICE(
        REPOSITORY, "model-control-mode", "none|explicit|poll|ondemand", model_control_mode, "none",
        "none: load all models at the start. explicit: load those of --load-model, and others by "
        "the load endpoint. poll: load all models, and follow later changes of the repositories. "
        "ondemand (not in Triton): as explicit, and a request loads a model that is not loaded."),
    TEXT(REPOSITORY, "model-memory-budget", "<bytes>[K|M|G|T]", model_memory_budget, "0",
         "Memory of all loaded models together under ondemand. Unused models are unloaded for "
         "others, the longest unused first. 0: no limit. K is 1024. Not in Triton."),
    COUNT(REPOSITORY, "repository-poll-secs", "<seconds>", repository_poll_secs, 0, INT32_MAX, "15",
          "Seconds between two checks of the repositories under poll; 0: only at the start."),
    LIST(REPOSITORY, "load-model", "<name>", load_models,
         "Model to load at the start under explicit control. May be repeated; * alone is all."),
    BOOL(REPOSITORY, "strict-model-config", strict_model_config, "false",
         "Require complete configurations. Deprecated, see --disable-auto-complete-config."),
    FLAG(REPOSITORY, "disable-auto-complete-config", disable_auto_complete,
         "Require complete configurations instead of asking the backends what is missing."),
    TEXT(REPOSITORY, "model-config-name", "<name>", model_config_name, "",
         "Use configs/<name>.pbtxt of a model where it exists instead of config.pbtxt."),
    COUNT(REPOSITORY, "model-load-thread-count", "<count>", model_load_thread_count, 1, 1024, "4",
          "How many models load at a time."),
    COUNT(REPOSITORY, "model-load-retry-count", "<count>", model_load_retry_count, INT_MIN, 1000000,
          "0", "How often a failed load is tried again; below 0 is for ever."),
    BOOL(REPOSITORY, "model-namespacing", model_namespacing, "false",
         "Model names need be unique only within a repository."),

    BOOL(HTTP, "allow-http", allow_http, "true", "Serve HTTP."),
    TEXT(HTTP, "http-address", "<address>", http.listen.address, "0.0.0.0",
         "Address to listen on, or unix:<path>, or unix:@<name>."),
    PORT(HTTP, "http-port", http.listen.port, "8000"),
    BOOL(HTTP, "reuse-http-port", http.listen.reuse_port, "false",
         "Share the port with other processes."),
    COUNT(HTTP, "http-thread-count", "<count>", http.thread_count, 0, 1024, "0",
          "Threads that serve connections; 0 is one for each processor, 2 at least and 8 at most."),
    INTEGER(HTTP, "http-busy-poll-us", "<us>", http.busy_poll_us, 0, 10000, "50",
            "How long a thread polls before it sleeps, while its clients send requests without a "
            "pause; 0: never. Not in Triton."),
    TEXT(HTTP, "http-max-input-size", "[total:]<bytes>", http_max_input_size, "67108864",
         "Largest JSON part of a request, raw input or unpacked body, in bytes. With total: (not "
         "in Triton) or --secure the largest whole body, including binary tensors."),
    INTEGER(HTTP, "http-max-connections", "<count>", http.connection_limit, 0, 1000000, "10000",
            "Open connections; 0: as many as there are descriptors. 32 more are for health and "
            "admin requests; further connections wait. Not in Triton."),
    INTEGER(HTTP, "http-max-inflight-bytes", "<bytes>", http.max_inflight_bytes, 0, INT64_MAX, "0",
            "Bytes of all requests in memory at a time, and the same again for their answers; 0: a "
            "quarter of the memory. Not in Triton."),
    TIMEOUT(HTTP, "http-header-timeout-ms", http.header_timeout_ms, "10000",
            "Time limit for a request's headers; 0: none. Not in Triton."),
    TIMEOUT(HTTP, "http-body-timeout-ms", http.body_timeout_ms, "30000",
            "Time limit for a body without progress; 0: none. Not in Triton."),
    TIMEOUT(HTTP, "http-write-timeout-ms", http.write_timeout_ms, "30000",
            "Time limit for a client that does not read its reply; 0: none. Not in Triton."),
    INTEGER(HTTP, "http-min-rate", "<bytes>", http.min_rate, 0, INT_MAX, "256",
            "Progress is at least so many bytes per second of a body or a long reply, over the "
            "time of the body or write timeout; 0: any number. Not in Triton."),
    TIMEOUT(HTTP, "http-idle-timeout-ms", http.idle_timeout_ms, "75000",
            "Time limit for a connection between two requests; 0: none. Not in Triton."),
    LIST(HTTP, "http-restricted-api", "<category>,...:<key>=<value>", http_restricted_apis,
         "As --restricted-api, for HTTP. May be repeated."),
    TEXT(HTTP, "http-header-forward-pattern", "<expression>", http_header_forward_pattern, "",
         "Headers of an inference whose names match become parameters of the request."),
    BOOL(HTTP, "http-use-ssl", http_tls.use, "false",
         "Serve HTTPS, and no plain HTTP. Not in Triton."),
    BOOL(HTTP, "http-use-ssl-mutual", http_tls.mutual, "false",
         "Serve HTTPS to clients with a certificate of --http-root-cert. Not in Triton."),
    TEXT(
        HTTP, "http-server-cert", "<file>", http_tls.certificate_file, "",
        "The server's certificate, and those that lead to its root, in PEM format. Not in Triton."),
    TEXT(HTTP, "http-server-key", "<file>", http_tls.key_file, "",
         "The certificate's private key, in PEM format. Not in Triton."),
    TEXT(HTTP, "http-root-cert", "<file>", http_tls.root_file, "",
         "Certificates that must have signed clients' certificates, in PEM format. Not in Triton."),

    BOOL(GRPC, "allow-grpc", allow_grpc, "true", "Serve gRPC."),
    TEXT(GRPC, "grpc-address", "<address>", grpc.listen.address, "0.0.0.0",
         "Address to listen on, or unix:<path>."),
    PORT(GRPC, "grpc-port", grpc.listen.port, "8001"),
    BOOL(GRPC, "reuse-grpc-port", grpc.listen.reuse_port, "false",
         "Share the port with other processes."),
    COUNT(GRPC, "grpc-infer-thread-count", "<count>", grpc.thread_count, 0, 128, "0",
          "Threads that serve connections; 0 is one for each processor, 2 at least and 8 at most."),
    COUNT(GRPC, "grpc-infer-allocation-pool-size", "<count>", grpc_unused_count, 0, INT_MAX, "8",
          "Without effect: accepted because Triton has it."),
    COUNT(GRPC, "grpc-max-response-pool-size", "<count>", grpc_unused_count, 0, INT_MAX,
          "2147483647", "Without effect: accepted because Triton has it."),
    INTEGER(GRPC, "grpc-max-connections", "<count>", grpc.connection_limit, 0, 1000000, "10000",
            "Open connections; 0: as many as there are descriptors. Further connections wait. Not "
            "in Triton."),
    INTEGER(GRPC, "grpc-max-inflight-bytes", "<bytes>", grpc.max_inflight_bytes, 0, INT64_MAX, "0",
            "Bytes of all requests in memory at a time, and the same again for their answers; 0: a "
            "quarter of the memory. Not in Triton."),
    TIMEOUT(GRPC, "grpc-handshake-timeout-ms", grpc.handshake_timeout_ms, "10000",
            "Time limit for a connection's handshake; 0: none. Not in Triton."),
    TIMEOUT(GRPC, "grpc-body-timeout-ms", grpc.body_timeout_ms, "30000",
            "Time limit for a request's message without progress; 0: none. Not in Triton."),
    TIMEOUT(GRPC, "grpc-write-timeout-ms", grpc.write_timeout_ms, "30000",
            "Time limit for a client that reads nothing; 0: none. Not in Triton."),
    BOOL(GRPC, "grpc-use-ssl", grpc_tls.use, "false", "TLS."),
    BOOL(GRPC, "grpc-use-ssl-mutual", grpc_tls.mutual, "false",
         "TLS, and clients need certificates signed by --grpc-root-cert. false is TLS too where "
         "--grpc-server-cert is given."),
    TEXT(GRPC, "grpc-server-cert", "<file>", grpc_tls.certificate_file, "",
         "Certificate, in PEM format."),
    TEXT(GRPC, "grpc-server-key", "<file>", grpc_tls.key_file, "", "Its key, in PEM format."),
    TEXT(GRPC, "grpc-root-cert", "<file>", grpc_tls.root_file, "",
         "Certificates that must have signed clients' certificates, in PEM format."),
    CHOICE(GRPC, "grpc-infer-response-compression-level", "none|low|medium|high",
           grpc_compression_level, "none",
           "How strongly replies are compressed, for clients that accept it."),
    COUNT(GRPC, "grpc-keepalive-time", "<ms>", grpc.keepalive_time_ms, 0, INT_MAX, "7200000",
          "How long a connection may be silent before the server pings it; 0: for ever."),
    COUNT(GRPC, "grpc-keepalive-timeout", "<ms>", grpc.keepalive_timeout_ms, 1, INT_MAX, "20000",
          "Time limit for the answer to a keepalive ping."),
    BOOL(GRPC, "grpc-keepalive-permit-without-calls", grpc.keepalive_without_calls, "false",
         "Ping connections without calls, too."),
    COUNT(GRPC, "grpc-http2-max-pings-without-data", "<count>", grpc_unused_count, 0, INT_MAX, "2",
          "Without effect: the server pings once, and waits."),
    COUNT(GRPC, "grpc-http2-min-recv-ping-interval-without-data", "<ms>", grpc.min_ping_interval_ms,
          0, INT_MAX, "300000", "A client that sends no data and pings more often gets a strike."),
    COUNT(GRPC, "grpc-http2-max-ping-strikes", "<count>", grpc.max_ping_strikes, 0, INT_MAX, "2",
          "Strikes after which a client is disconnected; 0: never."),
    COUNT(GRPC, "grpc-max-connection-age", "<ms>", grpc.max_connection_age_ms, 0, INT_MAX, "0",
          "Age of a connection at which its client is asked to reconnect; 0: never."),
    COUNT(GRPC, "grpc-max-connection-age-grace", "<ms>", grpc.max_connection_age_grace_ms, 0,
          INT_MAX, "0", "Time for the calls of such a connection to end; 0: no limit."),
    LIST(GRPC, "grpc-restricted-protocol", "<category>,...:<key>=<value>",
         grpc_restricted_protocols,
         "As --restricted-api, for gRPC, whose header is triton-grpc-protocol-<key>. May be "
         "repeated."),
    TEXT(GRPC, "grpc-header-forward-pattern", "<expression>", grpc_header_forward_pattern, "",
         "As --http-header-forward-pattern, for metadata of gRPC."),

    BOOL(METRICS, "allow-metrics", allow_metrics, "true", "Serve Prometheus metrics."),
    BOOL(METRICS, "allow-gpu-metrics", allow_gpu_metrics, "true",
         "Metrics of GPUs, where there are any."),
    BOOL(METRICS, "allow-cpu-metrics", allow_cpu_metrics, "true", "CPU use and memory."),
    TEXT(METRICS, "metrics-address", "<address>", metrics.address, "",
         "Address to listen on, as --http-address. Empty: the same address."),
    PORT(METRICS, "metrics-port", metrics.port, "8002"),
    FLAG(METRICS, "metrics-on-http", metrics_on_http,
         "Serve GET /metrics at the HTTP port, too, to clients that may read statistics. Not in "
         "Triton."),
    DOUBLE(METRICS, "metrics-interval-ms", "<ms>", metrics_interval_ms, "2000",
           "Time between two samples of GPUs, and the shortest time between two of CPU use."),
    LIST(METRICS, "metrics-config", "<setting>=<value>", metrics_configs,
         "A setting of the metrics. May be repeated."),

    LIST(TRACING, "trace-config", "[<mode>,]<setting>=<value>", trace_configs,
         "A setting of traces: level, rate, count, mode; of mode triton: file, log-frequency; of "
         "mode "
         "opentelemetry: url, resource, bsp_*. May be repeated."),
    TEXT(TRACING, "trace-file", "<path>", trace_file, "",
         "Deprecated, see --trace-config triton,file."),
    LIST(TRACING, "trace-level", "OFF|TIMESTAMPS|TENSORS", trace_levels,
         "Deprecated, see --trace-config level. May be repeated."),
    TEXT(TRACING, "trace-rate", "<count>", trace_rate, "", "Deprecated, see --trace-config rate."),
    TEXT(TRACING, "trace-count", "<count>", trace_count, "",
         "Deprecated, see --trace-config count."),
    TEXT(TRACING, "trace-log-frequency", "<count>", trace_log_frequency, "",
         "Deprecated, see --trace-config triton,log-frequency."),

    TEXT(BACKEND, "backend-directory", "<path>", backend_directory, "",
         "Where backends are: <path>/<name>/libtriton_<name>.so. nereid's own when empty."),
    LIST(BACKEND, "backend-config", "[<backend>,]<setting>=<value>", backend_configs,
         "A setting of a backend, or of all. May be repeated."),
    TEXT(BACKEND, "cache-directory", "<path>", cache_directory, "",
         "Where response caches are: <path>/<name>/libtritoncache_<name>.so. nereid's own when "
         "empty."),
    CHOICE(BACKEND, "worker-sandbox", "standard|strict", worker_sandbox, "standard",
           "Restrictions of the processes that run Python models. Not in Triton."),
    FLAG(BACKEND, "strict-outputs", strict_outputs,
         "Refuse outputs that are not as the model's configuration says. Not in Triton."),
    LIST(BACKEND, "host-policy", "<policy>,<setting>=<value>", host_policies,
         "A setting of a host policy: numa-node or cpu-cores. May be repeated."),
    CHOICE(BACKEND, "rate-limit", "off|execution_count", rate_limit, "off",
           "execution_count: instances wait for the resources that their groups name."),
    LIST(BACKEND, "rate-limit-resource", "<name>:<count>[:<device>]", rate_limit_resources,
         "How much of a resource there is, on each device or on one. May be repeated."),

    COUNT(MEMORY, "pinned-memory-pool-byte-size", "<bytes>", pinned_memory_pool_bytes, 0, INT64_MAX,
          "268435456", "Pinned memory that the server hands out while a GPU is used. 0: none."),
    LIST(MEMORY, "cuda-memory-pool-byte-size", "<device>:<bytes>", cuda_memory_pools,
         "Memory of a GPU that the server hands out while the GPU is used; 67108864 by default. 0: "
         "none. May be repeated."),
    DOUBLE(MEMORY, "min-supported-compute-capability", "<version>", min_compute_capability, "7.5",
           "Smallest compute capability; GPUs below it are not used."),
    BOOL(MEMORY, "enable-peer-access", enable_peer_access, "true",
         "Used GPUs can access each other's memory, if the machine allows it."),
    COUNT(MEMORY, "buffer-manager-thread-count", "<count>", buffer_manager_thread_count, 0, 1024,
          "0", "Threads that copy inputs together; nereid copies on the instance's thread."),

    LIST(MEMORY, "cuda-virtual-address-size", "<device>:<bytes>", cuda_address_spaces,
         "Largest growable state of a sequence on a GPU; 1073741824 by default. May be repeated."),
    LIST(MEMORY, "model-load-gpu-limit", "<device>:<fraction>", model_load_gpu_limits,
         "Largest part of a GPU's memory, from 0 to 1, that may be in use after an instance has "
         "loaded; above it the load fails. May be repeated."),
    CHOICE(MEMORY, "on-gpu-fault", "refuse|exit", on_gpu_fault, "refuse",
           "What to do when a GPU fails on which models run: refuse their requests, or stop with "
           "status 3. Not in Triton."),

    LIST(CACHE, "cache-config", "<cache>,<setting>=<value>", cache_configs,
         "A setting of the response cache, such as local,size=1048576. May be repeated."),
    COUNT(CACHE, "response-cache-byte-size", "<bytes>", response_cache_bytes, 0, INT64_MAX, "0",
          "Deprecated: --cache-config=local,size=<bytes>. 0: there is no cache."),
    TEXT(CACHE, "repoagent-directory", "<path>", repository_agent_directory, "",
         "Where repository agents are: <path>/<name>/libtritonrepoagent_<name>.so. nereid's own "
         "when empty."),

    BOOL(CLOUD, "allow-sagemaker", allow_sagemaker, "false",
         "Serve SageMaker's requests. true is not supported yet."),
    COUNT(CLOUD, "sagemaker-port", "<port>", cloud_unused_count, 0, INT_MAX, "8080",
          "Without effect, as --allow-sagemaker is false."),
    LIST(CLOUD, "sagemaker-safe-port-range", "<port>-<port>", sagemaker_port_ranges,
         "Without effect, as --allow-sagemaker is false."),
    COUNT(CLOUD, "sagemaker-thread-count", "<count>", cloud_unused_count, 0, INT_MAX, "8",
          "Without effect, as --allow-sagemaker is false."),
    BOOL(CLOUD, "allow-vertex-ai", allow_vertex_ai, "false",
         "Serve Vertex AI's requests; true when the variable AIP_MODE is PREDICTION. true is not "
         "supported yet."),
    COUNT(CLOUD, "vertex-ai-port", "<port>", cloud_unused_count, 0, INT_MAX, "8080",
          "Without effect, as --allow-vertex-ai is false."),
    COUNT(CLOUD, "vertex-ai-thread-count", "<count>", cloud_unused_count, 0, INT_MAX, "8",
          "Without effect, as --allow-vertex-ai is false."),
    TEXT(CLOUD, "vertex-ai-default-model", "<name>", vertex_ai_default_model, "",
         "Without effect, as --allow-vertex-ai is false."),
};

const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);

// The defaults under --secure. A flag that is given wins.
const secure_setting secure_settings[] = {
    {"http-header-timeout-ms", "5000"},    {"http-body-timeout-ms", "10000"},
    {"http-write-timeout-ms", "10000"},    {"http-idle-timeout-ms", "30000"},
    {"grpc-handshake-timeout-ms", "5000"}, {"grpc-body-timeout-ms", "10000"},
    {"grpc-write-timeout-ms", "10000"},
};

const size_t secure_setting_count = sizeof(secure_settings) / sizeof(secure_settings[0]);

const option check_options[] = {
    FLAG(CHECK, "json", check.json, "Print one JSON object: docs/check.md has its members."),
    FLAG(CHECK, "strict", check.strict, "Warnings count as errors in the exit status."),
    FLAG(CHECK, "load", check.load,
         "Load each model, too, one after another, and say what its backend says. No port is "
         "opened."),
    TEXT(CHECK, "print-config", "<model>", check.print_config, "",
         "Print the completed configuration of one model, and where each value is from."),
};

const size_t check_option_count = sizeof(check_options) / sizeof(check_options[0]);

const option migrate_options[] = {
    FLAG(MIGRATE, "json", migrate.json,
         "Print one JSON object: docs/migrating.md has its members."),
    FLAG(MIGRATE, "load", migrate.load,
         "Load each model, too, one after another, and say what its backend says. No port is "
         "opened."),
};

const size_t migrate_option_count = sizeof(migrate_options) / sizeof(migrate_options[0]);

#define OPERATOR_JSON                                                                              \
  FLAG(OPERATOR, "json", at_server.json,                                                           \
       "Print the server's answer as it is: one JSON object (docs/operating.md).")

const option status_options[] = {OPERATOR_JSON};

const size_t status_option_count = sizeof(status_options) / sizeof(status_options[0]);

const option drain_options[] = {
    OPERATOR_JSON,
    INTEGER(OPERATOR, "wait", "<seconds>", at_server.wait_seconds, 0, INT_MAX, "30",
            "How long to wait until the server holds no requests. 0: not at all."),
};

const size_t drain_option_count = sizeof(drain_options) / sizeof(drain_options[0]);
