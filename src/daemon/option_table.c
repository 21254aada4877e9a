// The flags, in the order of --help. Names and defaults are Triton's unless docs/flags.md says
// otherwise.
#include "daemon/options.h"

#include <limits.h>

#define FIELD(name) offsetof(daemon_options, name)

#define FLAG(group, name, field, help)                                                             \
  {                                                                                                \
    group, name, NULL, OPTION_FLAG, FIELD(field), 0, 0, NULL, NULL, help                           \
  }
#define BOOL(group, name, field, default_value, help)                                              \
  {                                                                                                \
    group, name, "true|false", OPTION_BOOL, FIELD(field), 0, 0, default_value, NULL, help          \
  }
#define INTEGER(group, name, value, field, least, most, default_value, help)                       \
  {                                                                                                \
    group, name, value, OPTION_INTEGER, FIELD(field), least, most, default_value, NULL, help       \
  }
#define TIMEOUT(group, name, field, default_value, secure_value, help)                             \
  {                                                                                                \
    group, name, "<ms>", OPTION_INTEGER, FIELD(field), 0, INT_MAX, default_value, secure_value,    \
        help                                                                                       \
  }
#define DOUBLE(group, name, value, field, default_value, help)                                     \
  {                                                                                                \
    group, name, value, OPTION_DOUBLE, FIELD(field), 0, 0, default_value, NULL, help               \
  }
#define TEXT(group, name, value, field, default_value, help)                                       \
  {                                                                                                \
    group, name, value, OPTION_TEXT, FIELD(field), 0, 0, default_value, NULL, help                 \
  }
#define CHOICE(group, name, value, field, default_value, help)                                     \
  {                                                                                                \
    group, name, value, OPTION_CHOICE, FIELD(field), 0, 0, default_value, NULL, help               \
  }
#define LIST(group, name, value, field, help)                                                      \
  {                                                                                                \
    group, name, value, OPTION_LIST, FIELD(field), 0, 0, NULL, NULL, help                          \
  }
// `harmless`: the only value that is taken, since it asks for nothing.
#define UNSUPPORTED(name, harmless)                                                                \
  {                                                                                                \
    "Not supported yet", name, harmless, OPTION_UNSUPPORTED, 0, 0, 0, NULL, NULL, NULL             \
  }

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

const option option_table[] = {
    FLAG(GLOBAL, "help", help, "Print this text and exit."),
    TEXT(GLOBAL, "config", "<file>", config_file, "",
         "Read flags from a YAML file: a mapping of flag names to values. The command line wins."),
    TEXT(GLOBAL, "id", "<name>", id, "triton", "Name of the server in metadata and log."),
    BOOL(GLOBAL, "exit-on-error", exit_on_error, "true",
         "Exit when a start-up model does not load. Otherwise serve the others."),
    INTEGER(GLOBAL, "exit-timeout-secs", "<seconds>", exit_timeout_seconds, INT_MIN, UINT_MAX, "30",
            "How long to wait for requests and models when the server is stopped; below 0 is 0."),
    INTEGER(GLOBAL, "shutdown-delay-secs", "<seconds>", shutdown_delay_seconds, 0, 3600, "0",
            "How long to serve on, not ready, before the server stops: for load balancers. Not in "
            "Triton."),
    BOOL(GLOBAL, "strict-readiness", strict_readiness, "true",
         "Ready only while every model is. Otherwise ready once start-up is over."),

    FLAG(
        SECURITY, "secure", secure,
        "Admin requests from this machine only, short timeouts, not as root; see docs/security.md. "
        "Not in Triton."),
    CHOICE(SECURITY, "security", "triton|strict", security, "triton",
           "strict is --secure. Not in Triton."),
    FLAG(SECURITY, "allow-root", allow_root, "Run as root under --secure, too. Not in Triton."),
    FLAG(SECURITY, "allow-model-upload", allow_model_upload,
         "Take files of models, and configurations that name other code, from other machines, too. "
         "Not in Triton."),
    LIST(SECURITY, "restricted-api", "<category>,...:<key>=<value>", restricted_apis,
         "Categories that want the header <key> with this value, at all listeners; a value "
         "file:<path> "
         "or env:<name> is read from there. May be repeated. Not in Triton."),
    TEXT(SECURITY, "unix-socket-mode", "<octal>", unix_socket_mode, "",
         "Permissions of Unix sockets' files; as the umask says when empty. Not in Triton."),
    BOOL(SECURITY, "allow-client-shm", allow_client_shm, "false",
         "Clients may register memory that they share with the server: any object below /dev/shm "
         "that the server may open."),

    INTEGER(LOGGING, "log-verbose", "<level>", log_verbose, 0, INT_MAX, "0",
            "Level of verbose lines, 0 for none. true is 1."),
    BOOL(LOGGING, "log-info", log_info, "true", "Log lines of level I."),
    BOOL(LOGGING, "log-warning", log_warning, "true", "Log lines of level W."),
    BOOL(LOGGING, "log-error", log_error, "true", "Log lines of level E."),
    CHOICE(LOGGING, "log-format", "default|ISO8601|json", log_format, "default",
           "Form of a line. json is not in Triton."),
    TEXT(LOGGING, "log-file", "<path>", log_file, "",
         "File that lines are appended to. Standard output and error when empty."),
    TEXT(LOGGING, "access-log", "<path>", access_log, "",
         "File that a line for each request is appended to, - for standard output. None when "
         "empty. Not in Triton."),

    LIST(REPOSITORY, "model-repository", "<path>", model_repositories,
         "Folder of models. May be repeated."),
    LIST(REPOSITORY, "model-store", "<path>", model_repositories, "Same as --model-repository."),
    LIST(
        REPOSITORY, "model-repository-allow", "<path>", model_repository_allows,
        "Under --secure, links in a repository are followed below this folder, too; otherwise they "
        "are followed wherever they lead. May be repeated. Not in Triton."),
    CHOICE(REPOSITORY, "model-control-mode", "none|explicit|poll", model_control_mode, "none",
           "none: load all models at the start. explicit: those of --load-model, and what the load "
           "endpoint is asked for. poll is not supported yet."),
    INTEGER(REPOSITORY, "repository-poll-secs", "<seconds>", repository_poll_secs, 0, INT32_MAX,
            "15",
            "Seconds between two looks at the repository under poll, which is not supported yet; "
            "else without effect, as in Triton."),
    LIST(REPOSITORY, "load-model", "<name>", load_models,
         "Model to load at the start under explicit control. May be repeated; * alone is all."),
    BOOL(REPOSITORY, "strict-model-config", strict_model_config, "false",
         "Require complete configurations. Deprecated, see --disable-auto-complete-config."),
    FLAG(REPOSITORY, "disable-auto-complete-config", disable_auto_complete,
         "Require complete configurations instead of asking the backends what is missing."),
    TEXT(REPOSITORY, "model-config-name", "<name>", model_config_name, "",
         "Use configs/<name>.pbtxt of a model where it exists instead of config.pbtxt."),
    INTEGER(REPOSITORY, "model-load-thread-count", "<count>", model_load_thread_count, 1, 1024, "4",
            "How many models load at a time."),
    INTEGER(REPOSITORY, "model-load-retry-count", "<count>", model_load_retry_count, 0, 1000000,
            "0", "How often a failed load is tried again."),
    BOOL(REPOSITORY, "model-namespacing", model_namespacing, "false",
         "Same names in several repositories. true is not supported yet."),

    BOOL(HTTP, "allow-http", allow_http, "true", "Serve HTTP."),
    TEXT(HTTP, "http-address", "<address>", http_address, "0.0.0.0",
         "Address to listen on, or unix:<path>, or unix:@<name>."),
    INTEGER(HTTP, "http-port", "<port>", http_port, 0, 65535, "8000", "Port; 0 is any free one."),
    BOOL(HTTP, "reuse-http-port", http_reuse_port, "false", "Share the port with other processes."),
    INTEGER(
        HTTP, "http-thread-count", "<count>", http_thread_count, 0, 1024, "0",
        "Threads that serve connections; 0 is one for each processor, 2 at least and 8 at most."),
    INTEGER(HTTP, "http-busy-poll-us", "<us>", http_busy_poll_us, 0, 10000, "50",
            "How long a thread looks again before it sleeps, when its clients come back at once; "
            "0 for never. Not in Triton."),
    INTEGER(HTTP, "http-max-input-size", "<bytes>", http_max_input_size, 1, INT64_MAX, "67108864",
            "Largest body of a request, as sent and as unpacked."),
    INTEGER(HTTP, "http-max-connections", "<count>", http_max_connections, 0, 1000000, "10000",
            "Open connections, 0 for as many as there are descriptors; 32 more are for health and "
            "admin requests, the rest wait. Not in Triton."),
    INTEGER(
        HTTP, "http-max-inflight-bytes", "<bytes>", http_max_inflight_bytes, 0, INT64_MAX, "0",
        "Bytes of all requests that are held at a time, and as much again of their answers; 0 for "
        "a quarter of the memory. Not in Triton."),
    TIMEOUT(HTTP, "http-header-timeout-ms", http_header_timeout_ms, "10000", "5000",
            "For a request's headers, 0 for none. Not in Triton."),
    TIMEOUT(HTTP, "http-body-timeout-ms", http_body_timeout_ms, "30000", "10000",
            "For a body that makes no progress, 0 for none. Not in Triton."),
    TIMEOUT(HTTP, "http-write-timeout-ms", http_write_timeout_ms, "30000", "10000",
            "For a client that does not take its reply, 0 for none. Not in Triton."),
    INTEGER(
        HTTP, "http-min-rate", "<bytes>", http_min_rate, 0, INT_MAX, "256",
        "Bytes per second, over the time that the body or write timeout gives, that a body or a "
        "long reply must move to be making progress; 0 for any. Not in Triton."),
    TIMEOUT(HTTP, "http-idle-timeout-ms", http_idle_timeout_ms, "75000", "30000",
            "For a connection between two requests, 0 for none. Not in Triton."),
    LIST(HTTP, "http-restricted-api", "<category>,...:<key>=<value>", http_restricted_apis,
         "As --restricted-api, for HTTP. May be repeated."),
    TEXT(HTTP, "http-header-forward-pattern", "<expression>", http_header_forward_pattern, "",
         "Headers of an inference whose names match become parameters of the request."),
    BOOL(HTTP, "http-use-ssl", http_use_ssl, "false",
         "Serve HTTPS, and no plain HTTP. Not in Triton."),
    BOOL(HTTP, "http-use-ssl-mutual", http_use_ssl_mutual, "false",
         "Serve HTTPS to clients with a certificate of --http-root-cert. Not in Triton."),
    TEXT(
        HTTP, "http-server-cert", "<file>", http_server_cert, "",
        "The server's certificate, and those that lead to its root, in PEM format. Not in Triton."),
    TEXT(HTTP, "http-server-key", "<file>", http_server_key, "",
         "The certificate's private key, in PEM format. Not in Triton."),
    TEXT(HTTP, "http-root-cert", "<file>", http_root_cert, "",
         "Whom clients' certificates must come from, in PEM format. Not in Triton."),

    BOOL(GRPC, "allow-grpc", allow_grpc, "true", "Serve gRPC."),
    TEXT(GRPC, "grpc-address", "<address>", grpc_address, "0.0.0.0",
         "Address to listen on, or unix:<path>."),
    INTEGER(GRPC, "grpc-port", "<port>", grpc_port, 0, 65535, "8001", "Port; 0 is any free one."),
    BOOL(GRPC, "reuse-grpc-port", grpc_reuse_port, "false", "Share the port with other processes."),
    INTEGER(
        GRPC, "grpc-infer-thread-count", "<count>", grpc_thread_count, 0, 128, "0",
        "Threads that serve connections; 0 is one for each processor, 2 at least and 8 at most."),
    INTEGER(GRPC, "grpc-infer-allocation-pool-size", "<count>", grpc_unused_count, 0, INT_MAX, "8",
            "Not needed: accepted for Triton's sake."),
    INTEGER(GRPC, "grpc-max-response-pool-size", "<count>", grpc_unused_count, 0, INT_MAX,
            "2147483647", "Not needed: accepted for Triton's sake."),
    INTEGER(GRPC, "grpc-max-connections", "<count>", grpc_max_connections, 0, 1000000, "10000",
            "Open connections, 0 for as many as there are descriptors; further ones wait. Not in "
            "Triton."),
    INTEGER(
        GRPC, "grpc-max-inflight-bytes", "<bytes>", grpc_max_inflight_bytes, 0, INT64_MAX, "0",
        "Bytes of all requests that are held at a time, and as much again of their answers; 0 for "
        "a quarter of the memory. Not in Triton."),
    TIMEOUT(GRPC, "grpc-handshake-timeout-ms", grpc_handshake_timeout_ms, "10000", "5000",
            "For a connection to begin, 0 for none. Not in Triton."),
    TIMEOUT(GRPC, "grpc-body-timeout-ms", grpc_body_timeout_ms, "30000", "10000",
            "For a request's message that makes no progress, 0 for none. Not in Triton."),
    TIMEOUT(GRPC, "grpc-write-timeout-ms", grpc_write_timeout_ms, "30000", "10000",
            "For a client that takes nothing of what it is sent, 0 for none. Not in Triton."),
    BOOL(GRPC, "grpc-use-ssl", grpc_use_ssl, "false", "TLS."),
    BOOL(GRPC, "grpc-use-ssl-mutual", grpc_use_ssl_mutual, "false",
         "TLS, and clients need certificates that --grpc-root-cert vouches for."),
    TEXT(GRPC, "grpc-server-cert", "<file>", grpc_server_cert, "", "Certificate, in PEM format."),
    TEXT(GRPC, "grpc-server-key", "<file>", grpc_server_key, "", "Its key, in PEM format."),
    TEXT(GRPC, "grpc-root-cert", "<file>", grpc_root_cert, "",
         "Certificates that those of clients must come from, in PEM format."),
    CHOICE(GRPC, "grpc-infer-response-compression-level", "none|low|medium|high",
           grpc_compression_level, "none",
           "How much replies are packed, for clients that take it."),
    INTEGER(GRPC, "grpc-keepalive-time", "<ms>", grpc_keepalive_time_ms, 0, INT_MAX, "7200000",
            "How long a connection may be silent before it is asked for a sign; 0 for ever."),
    INTEGER(GRPC, "grpc-keepalive-timeout", "<ms>", grpc_keepalive_timeout_ms, 1, INT_MAX, "20000",
            "For that sign."),
    BOOL(GRPC, "grpc-keepalive-permit-without-calls", grpc_keepalive_permit_without_calls, "false",
         "Ask connections without calls, too."),
    INTEGER(GRPC, "grpc-http2-max-pings-without-data", "<count>", grpc_unused_count, 0, INT_MAX,
            "2", "Not needed: the server asks once, and waits."),
    INTEGER(GRPC, "grpc-http2-min-recv-ping-interval-without-data", "<ms>",
            grpc_min_ping_interval_ms, 0, INT_MAX, "300000",
            "A client that sends no data and pings more often than that is struck."),
    INTEGER(GRPC, "grpc-http2-max-ping-strikes", "<count>", grpc_max_ping_strikes, 0, INT_MAX, "2",
            "Strikes after which a client is sent away; 0 for never."),
    INTEGER(GRPC, "grpc-max-connection-age", "<ms>", grpc_max_connection_age_ms, 0, INT_MAX, "0",
            "After which a client is asked to connect anew; 0 for never."),
    INTEGER(GRPC, "grpc-max-connection-age-grace", "<ms>", grpc_max_connection_age_grace_ms, 0,
            INT_MAX, "0", "For its calls to end; 0 for any time."),
    LIST(GRPC, "grpc-restricted-protocol", "<category>,...:<key>=<value>",
         grpc_restricted_protocols,
         "As --restricted-api, for gRPC, whose header is triton-grpc-protocol-<key>. May be "
         "repeated."),
    TEXT(GRPC, "grpc-header-forward-pattern", "<expression>", grpc_header_forward_pattern, "",
         "As --http-header-forward-pattern, for metadata of gRPC."),

    BOOL(METRICS, "allow-metrics", allow_metrics, "true", "Serve Prometheus metrics."),
    BOOL(METRICS, "allow-gpu-metrics", allow_gpu_metrics, "true",
         "GPU metrics, where there is a GPU. There are none yet."),
    BOOL(METRICS, "allow-cpu-metrics", allow_cpu_metrics, "true", "CPU use and memory."),
    TEXT(METRICS, "metrics-address", "<address>", metrics_address, "",
         "Address to listen on, as of HTTP; that one when empty."),
    INTEGER(METRICS, "metrics-port", "<port>", metrics_port, 0, 65535, "8002",
            "Port; 0 is any free one."),
    DOUBLE(METRICS, "metrics-interval-ms", "<ms>", metrics_interval_ms, "2000",
           "Least time between two samples of CPU use."),
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
         "Where response caches are looked for. Not needed: there are none yet."),
    CHOICE(BACKEND, "worker-sandbox", "standard|strict", worker_sandbox, "standard",
           "What processes that run Python models are kept from. Not in Triton."),
    LIST(BACKEND, "host-policy", "<policy>,<setting>=<value>", host_policies,
         "A setting of a host policy, such as numa-node or cpu-cores. May be repeated."),
    CHOICE(BACKEND, "rate-limit", "off|execution_count", rate_limit, "off",
           "Rate limiting. execution_count is not supported yet."),
    LIST(BACKEND, "rate-limit-resource", "<name>:<count>[:<device>]", rate_limit_resources,
         "A resource of the rate limiter. May be repeated."),

    INTEGER(MEMORY, "pinned-memory-pool-byte-size", "<bytes>", pinned_memory_pool_bytes, 0,
            INT64_MAX, "268435456", "Pinned memory for GPUs; without a GPU none is taken."),
    LIST(MEMORY, "cuda-memory-pool-byte-size", "<device>:<bytes>", cuda_memory_pools,
         "Memory of a GPU; without a GPU none is taken. May be repeated."),
    DOUBLE(MEMORY, "min-supported-compute-capability", "<version>", min_compute_capability, "6.0",
           "Least compute capability of a GPU."),
    BOOL(MEMORY, "enable-peer-access", enable_peer_access, "true",
         "Peer access between GPUs, where there are any."),
    INTEGER(MEMORY, "buffer-manager-thread-count", "<count>", buffer_manager_thread_count, 0, 1024,
            "0", "Threads that copy inputs together; nereid copies on the instance's thread."),

    UNSUPPORTED("allow-sagemaker", "false"),
    UNSUPPORTED("sagemaker-port", NULL),
    UNSUPPORTED("sagemaker-safe-port-range", NULL),
    UNSUPPORTED("sagemaker-thread-count", NULL),
    UNSUPPORTED("allow-vertex-ai", "false"),
    UNSUPPORTED("vertex-ai-port", NULL),
    UNSUPPORTED("vertex-ai-thread-count", NULL),
    UNSUPPORTED("vertex-ai-default-model", NULL),
    UNSUPPORTED("cache-config", NULL),
    UNSUPPORTED("response-cache-byte-size", "0"),
    UNSUPPORTED("cuda-virtual-address-size", NULL),
    UNSUPPORTED("model-load-gpu-limit", NULL),
    UNSUPPORTED("repoagent-directory", NULL),
};

const size_t option_count = sizeof(option_table) / sizeof(option_table[0]);
