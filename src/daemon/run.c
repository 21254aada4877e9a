// SPDX-License-Identifier: Apache-2.0
// The main thread waits for signals and for the report of its helper thread (start-up or drain is
// over). It never blocks elsewhere, so it always hears a second signal.
#include "daemon/run.h"

#include "base/clock.h"
#include "base/dir.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "daemon/call_lines.h"
#include "daemon/config_dump.h"
#include "daemon/error_line.h"
#include "daemon/handover_take.h"
#include "daemon/notify.h"
#include "daemon/ports.h"
#include "daemon/private_repository.h"
#include "daemon/server_setup.h"
#include "daemon/start_summary.h"
#include "daemon/stop_signals.h"
#include "daemon/successor.h"
#include "daemon/trace_setup.h"
#include "daemon/watchdog.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/shared_memory.h"
#include "nereid/nereid.h"

#include <assert.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)
// How long the answers given at the exit timeout may take to be sent.
#define LAST_ANSWERS_NS NS_PER_SECOND
// How long clients that came a moment before the stop may take to send their requests, if new ones
// wait in the service manager's sockets meanwhile.
#define LAST_CLIENTS_NS (2 * NS_PER_SECOND)
#define EXIT_GPU_FAULT  3    // --on-gpu-fault=exit
#define GPU_FAULT       (-1) // in place of a signal's number
#define HANDED_OVER     (-2) // the same: another server serves
#define OWN_EVENTS      4    // that await_event waits for, besides those of an upgrade
#define REST_SECONDS    10   // for the work of a stop besides waiting
#define LAST_WORDS      2    // seconds for the last log line: writing the log may hang too
#define CREATING        "creating server"

typedef struct server_run {
  const reload *started;
  ports ports;
  handover_taker taker; // from the server that ran before
  handover_giver giver; // to the one that comes next
  successor successor;  // started at SIGUSR2
  watchdog watchdog;    // the service manager's
  buffer config_dump;
  config_metric config_metric;
  uint64_t started_ns;
  int report;  // wakeup: the helper thread is done
  int signals; // signalfd
  int fault;   // wakeup: a GPU has failed, and the process must end
  bool faulty; // a GPU has failed
  bool ready;  // the service manager has been told so
  bool stops;  // the stop has begun
  pthread_t helper;
  error *startup_outcome; // of await_startup
  error *stop_outcome;    // of drain_and_stop
  size_t late, cut;    // of drain_and_stop: requests answered late or never; those never answered
  atomic_bool drained; // stop_outcome is set
} server_run;

static bool logs_json(void)
{
  NEREID_LogSettings settings;
  NEREID_LogGetSettings(&settings);
  return settings.format == NEREID_LOG_JSON;
}

// Prints "error: <what>: <code> - <text>", as Triton ends; as a log line where the log is JSON.
// Releases the error.
static int fail(const char *what, error *e)
{
  if (logs_json())
    frontend_log_error("%s: %s - %s", what, error_code_text(error_get_code(e)), error_message(e));
  else
    error_line_print_end(what, e);
  error_free(e);
  return EXIT_FAILURE;
}

// ---- the logs' files ----

static error *open_access_log(server_run *l)
{
  const daemon_options *o = l->ports.options;
  if (o->access_log[0] == '\0')
    return NULL;
  bool json = strcmp(o->log_format, "json") == 0;
  error *e = access_log_open(o->access_log, json, &l->ports.access_log);
  return e == NULL ? NULL : error_wrap(e, "--access-log");
}

static void reopen_logs(server_run *l)
{
  error *e =
      l->ports.options->log_file[0] == '\0'
          ? NULL
          : error_from_abi(TRITONSERVER_ServerOptionsSetLogFile(NULL, l->ports.options->log_file));
  if (e != NULL)
    frontend_log_error("%s", error_message(e));
  error_free(e);
  if (l->ports.access_log != NULL)
    access_log_reopen(l->ports.access_log);
}

// ---- ports ----

static error *show_config(server_run *l)
{
  char hash[CONFIG_HASH_SIZE];
  RETURN_IF_ERROR(config_dump_print(l->ports.options, &l->config_dump, hash));
  l->ports.config_dump = buffer_view(&l->config_dump);
  return l->ports.options->allow_metrics ? config_metric_new(&l->config_metric, hash) : NULL;
}

static error *ask_for_sockets(server_run *l)
{
  const daemon_options *o = l->ports.options;
  if (!o->upgrade)
    return NULL;
  RETURN_IF_ERROR(handover_taker_ask(&l->taker, o->upgrade_address));
  l->ports.handed = l->taker.takes ? &l->taker.sockets : NULL;
  return NULL;
}

// *what: Triton's name for the step that failed.
static error *open_ports(server_run *l, const char **what)
{
  *what = "showing the flags";
  RETURN_IF_ERROR(show_config(l));
  *what = "opening the access log";
  RETURN_IF_ERROR(open_access_log(l));
  *what = "setting up tracing";
  RETURN_IF_ERROR(trace_setup(l->ports.options, &l->ports.trace));
  access_rules_warn(l->ports.options, l->ports.rules);
  *what = "starting jobs";
  RETURN_IF_ERROR(jobs_new(&l->ports.jobs));
  l->ports.shared_memory = shared_memory_new(l->ports.options->allow_client_shm, l->ports.jobs);
  if (l->ports.shared_memory == NULL)
    return error_no_memory();
  *what = "taking over from the running server";
  RETURN_IF_ERROR(ask_for_sockets(l));
  RETURN_IF_ERROR(ports_open(&l->ports, what));
  *what = "opening the upgrade address";
  return l->taker.takes ? NULL : handover_giver_open(&l->giver, &l->ports, NULL);
}

// The last requests end with the ports. Their traces are written before the server goes, because
// the server counts the lost ones.
static void close_ports(server_run *l)
{
  handover_giver_stop(&l->giver);
  handover_taker_fini(&l->taker);
  ports_close(&l->ports);
  shared_memory_forget_jobs(l->ports.shared_memory);
  jobs_free(l->ports.jobs);
  access_log_close(l->ports.access_log);
  trace_service_free(l->ports.trace);
  config_metric_free(&l->config_metric);
  buffer_fini(&l->config_dump);
}

// ---- the helper thread ----

static void report(server_run *l)
{
  wakeup_signal(l->report);
}

static void *await_startup(void *pointer)
{
  server_run *l = pointer;
  l->startup_outcome = error_from_abi(TRITONSERVER_ServerPollModelRepository(l->ports.server));
  report(l);
  return NULL;
}

static void serve_on(server_run *l, uint64_t seconds)
{
  ports_announce_stop(&l->ports);
  clock_sleep_until(clock_monotonic_ns() + seconds * NS_PER_SECOND);
}

// Answers the accepted requests, at most until the exit timeout; metrics stay up meanwhile. A stop
// that fails refuses the queued requests, and these answers get a moment of their own to be sent.
static void *drain_and_stop(void *pointer)
{
  server_run *l = pointer;
  uint64_t timeout = (uint64_t)l->ports.options->exit_timeout_seconds;
  if (l->giver.stage != HANDOVER_DONE)
    serve_on(l, (uint64_t)l->ports.options->shutdown_delay_seconds);
  uint64_t begun = clock_monotonic_ns(), deadline = begun + timeout * NS_PER_SECOND;
  uint64_t last_clients = begun + LAST_CLIENTS_NS;
  if (l->giver.stage == HANDOVER_DONE)
    ports_retire(&l->ports, deadline);
  else
    ports_retire_inherited(&l->ports, last_clients < deadline ? last_clients : deadline);
  l->late = l->cut = ports_drain(&l->ports, deadline);
  uint64_t now = clock_monotonic_ns();
  uint64_t rest = deadline > now ? (deadline - now + NS_PER_SECOND - 1) / NS_PER_SECOND : 0;
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerSetExitTimeout(l->ports.server, (unsigned)rest));
  NEREID_ServerEndSequences(l->ports.server);
  l->stop_outcome = error_from_abi(TRITONSERVER_ServerStop(l->ports.server));
  if (l->stop_outcome != NULL)
    l->cut = ports_drain(&l->ports, clock_monotonic_ns() + LAST_ANSWERS_NS);
  ports_retire_inherited_metrics(&l->ports, clock_monotonic_ns() + LAST_CLIENTS_NS);
  assert(!atomic_load(&l->drained));
  atomic_store(&l->drained, true);
  report(l);
  return NULL;
}

static error *start_helper(server_run *l, void *(*run)(void *))
{
  return thread_start(&l->helper, "life", run, l);
}

// ---- waiting ----

// Read by the end's thread until the process ends, when main's variables may be gone.
static struct {
  uint64_t at_ns;
  atomic_int status;
  char *private_repository; // NULL: there is none
} late_end = {.status = EXIT_FAILURE};

static void *end_at_once(void *unused)
{
  (void)unused;
  clock_sleep_until(clock_monotonic_ns() + LAST_WORDS * NS_PER_SECOND);
  _exit(atomic_load(&late_end.status));
}

static void *end_late(void *unused)
{
  (void)unused;
  clock_sleep_until(late_end.at_ns);
  pthread_t thread;
  AUTO_ERROR error *e = thread_start(&thread, "end at once", end_at_once, NULL);
  if (e != NULL)
    _exit(atomic_load(&late_end.status));
  frontend_log_error(
      "%s",
      "stopped at once, since the end takes too long: maybe a GPU's driver does not come back");
  if (late_end.private_repository != NULL)
    dir_remove_path(late_end.private_repository);
  _exit(atomic_load(&late_end.status));
}

static int is_driver(struct dl_phdr_info *library, size_t size, void *unused)
{
  const char *slash = strrchr(library->dlpi_name, '/');
  (void)size, (void)unused;
  return strcmp(slash == NULL ? library->dlpi_name : slash + 1, "libcuda.so.1") == 0;
}

// Looks for the driver among the loaded libraries. dlopen would wait for a library that another
// thread is loading, and that library's initializer may hang.
static bool driver_is_loaded(void)
{
  return dl_iterate_phdr(is_driver, NULL) != 0;
}

// A call to a GPU's driver may hang for ever, even without a known fault: at opening or closing a
// client's region, or when a context is destroyed. This thread then ends the process.
static void limit_end(const server_run *l)
{
  const daemon_options *o = l->ports.options;
  const int64_t seconds = o->shutdown_delay_seconds + o->exit_timeout_seconds + REST_SECONDS;
  pthread_t thread;
  if (!driver_is_loaded())
    return;
  late_end.at_ns = clock_monotonic_ns() + (uint64_t)seconds * NS_PER_SECOND;
  if (o->private_repository != NULL)
    late_end.private_repository = strdup(o->private_repository);
  error *e = thread_start(&thread, "end", end_late, NULL);
  if (e == NULL)
    pthread_detach(thread);
  else
    frontend_log_warning("%s: a driver that hangs is waited for", error_message(e));
  error_free(e);
}

// The logs' files come first: the log rotator has moved them away. A server that stops has read its
// flags for the last time.
static void read_again(server_run *l)
{
  if (l->ready)
    notify_reloading();
  reopen_logs(l);
  if (!l->stops)
    reload_run(l->started, &l->ports);
  if (l->ready)
    notify_service_manager("READY=1");
}

static void start_successor(server_run *l)
{
  error *e = l->ports.options->upgrade_address[0] != '\0'
                 ? successor_start(&l->successor, l->started->argument_count, l->started->arguments)
                 : error_new(ERROR_INVALID_ARG, "there is no --upgrade-address");
  if (e == NULL)
    frontend_log_info("SIGUSR2: started process %d, which is to take over",
                      (int)l->successor.process);
  else
    frontend_log_error("SIGUSR2: no upgrade: %s", error_message(e));
  error_free(e);
}

// It may have ended before it asked for sockets: nothing else in this server's log would say so.
static void tell_end_of_successor(server_run *l)
{
  pid_t process;
  char how[SUCCESSOR_END_SIZE];
  if (successor_ended(&l->successor, &process, how))
    frontend_log_warning("SIGUSR2: process %d has ended with %s%s", (int)process, how,
                         l->stops ? "" : ", this server serves on");
}

// SIGHUP and SIGUSR2, which do not end the server. False for other signals.
static bool serve_signal(server_run *l, uint32_t number)
{
  if (number == SIGHUP)
    read_again(l);
  else if (number == SIGUSR2 && !l->stops)
    start_successor(l);
  return number == SIGHUP || number == SIGUSR2;
}

// Waits for the next event. Returns the signal's number, GPU_FAULT, HANDED_OVER, or 0 when helper
// threads have finished, whose count is added to *reports.
static int await_event(server_run *l, size_t *reports)
{
  struct pollfd events[OWN_EVENTS + HANDOVER_WATCHED] = {{.fd = l->signals, .events = POLLIN},
                                                         {.fd = l->report, .events = POLLIN},
                                                         {.fd = l->fault, .events = POLLIN},
                                                         {.events = POLLIN}};
  for (;;) {
    events[3].fd = l->successor.end;
    handover_giver_watch(&l->giver, events + OWN_EVENTS);
    int wait_ms = watchdog_wait_ms(&l->watchdog, clock_monotonic_ns());
    if (poll(events, OWN_EVENTS + HANDOVER_WATCHED, wait_ms) < 0 && errno != EINTR)
      return SIGTERM; // cannot wait: stop in good order
    watchdog_look(&l->watchdog, l->ports.server, clock_monotonic_ns());
    struct signalfd_siginfo info;
    uint64_t count;
    tell_end_of_successor(l);
    if ((events[0].revents & POLLIN) != 0 &&
        read(l->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
      if (!serve_signal(l, info.ssi_signo))
        return (int)info.ssi_signo;
    }
    if ((events[1].revents & POLLIN) != 0 && (count = wakeup_take(l->report)) > 0) {
      *reports += count;
      return 0;
    }
    if ((events[2].revents & POLLIN) != 0 && wakeup_take(l->fault) > 0 && !l->faulty) {
      l->faulty = true;
      atomic_store(&late_end.status, EXIT_GPU_FAULT);
      return GPU_FAULT;
    }
    if (!l->stops &&
        handover_giver_hear(&l->giver, events + OWN_EVENTS, l->ready ? NULL : "starts"))
      return HANDED_OVER;
  }
}

static void log_signal(const server_run *l, int number)
{
  if (number == HANDED_OVER)
    frontend_log_info("stopping, since process %d has taken over", (int)l->giver.link.peer);
  else if (number == GPU_FAULT)
    frontend_log_error("%s", "stopping, since a GPU has failed (--on-gpu-fault=exit)");
  else if (logs_json())
    frontend_log_info("Signal (%d) received.", number);
  else
    fprintf(stderr, "Signal (%d) received.\n", number);
}

// Signal `number` has come during the stop. Ends the process, or returns when it is ignored.
static void hear_again(const server_run *l, stop_signals *signals, int number)
{
  if (!stop_signals_again(signals, number, clock_monotonic_ns())) {
    if (stop_signals_tell(signals))
      frontend_log_info(
          "signal (%d) ignored, since the server is stopping already (a second SIGINT "
          "ends it at once, and so does a signal %d seconds after the first)",
          number, STOP_AGAIN_SECONDS);
    return;
  }
  log_signal(l, number);
  if (logs_json())
    frontend_log_error("%s", "stopped at once by the second signal");
  else
    fprintf(stderr, "error: stopped at once by the second signal\n");
  private_repository_remove(l->ports.options);
  _exit(EXIT_FAILURE);
}

// Time is up. Start-up may still run, in a backend that never returns.
static bool stop_failed(const server_run *l)
{
  return atomic_load(&l->drained) && l->stop_outcome != NULL;
}

// The log's last line.
static void log_stop(const server_run *l, const stop_signals *signals)
{
  double seconds = (double)(clock_monotonic_ns() - signals->first_ns) / (double)NS_PER_SECOND;
  size_t refused = l->late > l->cut ? l->late - l->cut : 0;
  if (l->late == 0)
    frontend_log_info("Stopped after %.2f s: every request that was taken on is answered", seconds);
  else
    frontend_log_warning("Stopped after %.2f s: %zu requests were refused, %zu were cut off "
                         "(--exit-timeout-secs=%lld)",
                         seconds, refused, l->cut,
                         (long long)l->ports.options->exit_timeout_seconds);
}

// Drains and stops. `number`: the signal that began the stop. Threads that do not end in time end
// with the process.
static int stop(server_run *l, int number, bool startup_runs)
{
  pthread_t startup = l->helper;
  stop_signals signals = stop_signals_first(number, clock_monotonic_ns());
  l->ready = false;
  l->stops = true;
  if (number != HANDED_OVER) // else it would be said of the process that has taken over
    notify_service_manager("STOPPING=1");
  handover_giver_stop(&l->giver);
  limit_end(l);
  error *e = start_helper(l, drain_and_stop);
  bool helped = e == NULL;
  if (!helped) {
    frontend_log_warning("%s: a second signal is not heard while it stops", error_message(e));
    error_free(e);
    drain_and_stop(l);
  }
  size_t reports_due = startup_runs ? 2 : 1; // start-up ends early, and reports too
  for (size_t reports = 0; reports < reports_due && !stop_failed(l);) {
    int again = await_event(l, &reports);
    if (again > 0)
      hear_again(l, &signals, again);
  }
  if (stop_failed(l)) {
    log_stop(l, &signals);
    fail("failed to stop server", l->stop_outcome);
    fflush(NULL);
    private_repository_remove(l->ports.options);
    _exit(l->faulty ? EXIT_GPU_FAULT : EXIT_FAILURE); // a backend is still at work
  }
  if (startup_runs) {
    pthread_join(startup, NULL);
    error_free(l->startup_outcome); // it was interrupted
  }
  if (helped)
    pthread_join(l->helper, NULL);
  close_ports(l);
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(l->ports.server));
  log_stop(l, &signals);
  return l->faulty ? EXIT_GPU_FAULT : EXIT_SUCCESS;
}

// Ends the start, because a start-up model did not load or for the error `e`.
static int give_up(server_run *l, const char *what, error *e)
{
  limit_end(l);
  close_ports(l);
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(l->ports.server));
  return fail(what, e);
}

static void log_summary(const server_run *l, bool gives_up)
{
  const start_summary summary = {
      .wanted = &l->ports.options->load_models,
      .http = listener_where(l->ports.open[PORT_HTTP]),
      .grpc = listener_where(l->ports.open[PORT_GRPC]),
      .metrics = listener_where(l->ports.open[PORT_METRICS]),
      .http_tls = l->ports.rules->http.tls.certificate != NULL,
      .grpc_tls = l->ports.rules->grpc.tls.certificate != NULL,
      .seconds = (double)(clock_monotonic_ns() - l->started_ns) / (double)NS_PER_SECOND,
      .gives_up = gives_up,
  };
  start_summary_log(&summary, l->ports.server);
}

// For `nereid serve` and --show-calls.
static void say_how_to_call(const server_run *l, bool gives_up)
{
  const daemon_options *o = l->ports.options;
  bool tls = l->ports.rules->http.tls.certificate != NULL;
  const call_target target = {.http = listener_where(l->ports.open[PORT_HTTP]),
                              .certificate = tls ? o->http_tls.certificate_file : NULL};
  if (o->command != NULL || o->show_calls)
    call_lines_say(gives_up ? NULL : &target, l->ports.server);
}

// After this nothing can fail any more.
static error *open_deferred(server_run *l, const char **what)
{
  RETURN_IF_ERROR(ports_open_deferred(&l->ports, what));
  if (!l->taker.takes)
    return NULL;
  *what = "opening the upgrade address";
  RETURN_IF_ERROR(handover_giver_open(&l->giver, &l->ports, l->ports.handed));
  handover_sockets_fini(l->ports.handed); // addresses that only the running server has
  *what = "taking over from the running server";
  return handover_taker_begin(&l->taker, l->ports.shared_memory);
}

// The running server drains only when this one accepts. READY=1 comes after the running server has
// named this process, because the service manager listens to the main process alone.
static void take_over(server_run *l)
{
  char state[64];
  ports_accept(&l->ports);
  handover_taker_finish(&l->taker, &l->giver);
  snprintf(state, sizeof(state), "READY=1\nMAINPID=%d", (int)getpid());
  notify_service_manager(state);
}

static int serve(server_run *l)
{
  error *e = start_helper(l, await_startup);
  if (e != NULL)
    return give_up(l, CREATING, e);
  size_t reports = 0;
  int number = await_event(l, &reports);
  if (number != 0) {
    log_signal(l, number);
    return stop(l, number, true);
  }
  pthread_join(l->helper, NULL);
  bool gives_up = l->startup_outcome != NULL && l->ports.options->exit_on_error;
  if (gives_up) {
    log_summary(l, gives_up);
    say_how_to_call(l, gives_up);
    return give_up(l, CREATING, l->startup_outcome);
  }
  if (l->startup_outcome != NULL)
    frontend_log_warning("%s; serving the others (--exit-on-error=false)",
                         error_message(l->startup_outcome));
  error_free(l->startup_outcome);
  const char *what;
  e = open_deferred(l, &what);
  if (e != NULL)
    return give_up(l, what, e);
  log_summary(l, gives_up);
  say_how_to_call(l, gives_up);
  if (l->taker.takes)
    take_over(l);
  else
    notify_service_manager("READY=1");
  l->ready = true;
  number = await_event(l, &reports);
  log_signal(l, number);
  return stop(l, number, false);
}

sigset_t life_signals(void)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGUSR2);
  return set;
}

static error *open_events(server_run *l)
{
  sigset_t set = life_signals();
  l->report = wakeup_new();
  l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  l->fault = wakeup_new();
  if (l->report < 0 || l->signals < 0 || l->fault < 0)
    return error_new(ERROR_INTERNAL, "failed to wait for signals: %s", strerror(errno));
  return NULL;
}

// Files are opened once more through it when it is known what they are (base/files.c).
static error *look_for_proc(void)
{
  if (access("/proc/self/fd", F_OK) == 0)
    return NULL;
  return error_new(ERROR_UNAVAILABLE,
                   "'/proc/self/fd' is not there: nereid needs /proc, of which that of its own "
                   "process is enough (mount option subset=pid, systemd's ProcSubset=pid)");
}

static void gpu_failed(void *context, int device, const char *what)
{
  (void)device, (void)what; // the server has logged them
  wakeup_signal(((server_run *)context)->fault);
}

int life_run(const reload *started)
{
  const daemon_options *options = started->options;
  server_run l = {.ports = {.options = options, .rules = started->rules},
                  .started = started,
                  .report = -1,
                  .signals = -1,
                  .fault = -1};
  l.taker = HANDOVER_NO_TAKER;
  l.giver = HANDOVER_NO_GIVER;
  l.started_ns = clock_monotonic_ns();
  l.ports.orders.started_ns = l.started_ns;
  l.watchdog = watchdog_open(options->upgrade);
  error *e = inherited_read(&l.ports.inherited); // before a descriptor of ours could be one of them
  if (e != NULL)
    return fail("taking the sockets of the service manager", e);
  e = open_events(&l);
  if (e == NULL)
    e = look_for_proc();
  if (e == NULL)
    e = successor_init(&l.successor, started->arguments);
  if (e == NULL)
    e = server_setup(options, gpu_failed, &l, &l.ports.server); // which opens the log too
  for (size_t i = 0; i < options->warnings.count; i++)
    frontend_log_warning("%s", options->warnings.items[i]);
  if (e != NULL) {
    inherited_free(l.ports.inherited);
    successor_fini(&l.successor);
    return fail(CREATING, e);
  }
  const char *what = "opening the ports";
  e = open_ports(&l, &what);
  int status;
  if (e != NULL) {
    status = give_up(&l, what, e);
  } else {
    status = serve(&l);
  }
  shared_memory_free(l.ports.shared_memory);
  successor_fini(&l.successor);
  close(l.report);
  close(l.signals);
  close(l.fault);
  return status;
}
