// Main waits for two things: signals, and what its helper thread reports (start-up is over, the
// drain is over). So it can always hear the second signal.
#include "daemon/run.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "daemon/notify.h"
#include "daemon/ports.h"
#include "daemon/server_setup.h"
#include "daemon/start_summary.h"
#include "daemon/trace_setup.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/shared_memory.h"
#include "nereid/nereid.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)
// How long the answers that are given at the exit timeout may take to leave.
#define LAST_ANSWERS_NS NS_PER_SECOND

typedef struct server_run {
  ports ports;
  uint64_t started_ns;
  int report;  // wakeup: the helper thread is done
  int signals; // signalfd
  pthread_t helper;
  error *startup_outcome; // of await_startup
  error *stop_outcome;    // of drain_and_stop
  atomic_bool drained;    // stop_outcome is there
} server_run;

static bool logs_json(void)
{
  NEREID_LogSettings settings;
  NEREID_LogGetSettings(&settings);
  return settings.format == NEREID_LOG_JSON;
}

// "error: <what>: <code> - <text>", as Triton ends, but where each line is JSON. Releases the
// error.
static int fail(const char *what, error *e)
{
  const char *code = error_code_text(error_get_code(e));
  if (logs_json())
    frontend_log_error("%s: %s - %s", what, code, error_message(e));
  else
    fprintf(stderr, "error: %s: %s - %s\n", what, code, error_message(e));
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

// Whoever rotates logs has moved the files away.
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

// *what: how Triton calls what failed.
static error *open_ports(server_run *l, const char **what)
{
  *what = "opening the access log";
  RETURN_IF_ERROR(open_access_log(l));
  *what = "setting up tracing";
  RETURN_IF_ERROR(trace_setup(l->ports.options, &l->ports.trace));
  access_rules_warn(l->ports.options, l->ports.rules);
  *what = "starting jobs";
  RETURN_IF_ERROR(jobs_new(&l->ports.jobs));
  return ports_open(&l->ports, what);
}

// The last requests end with the ports; what was traced of them is written before the server goes,
// which counts what is lost.
static void close_ports(server_run *l)
{
  ports_close(&l->ports);
  jobs_free(l->ports.jobs);
  access_log_close(l->ports.access_log);
  trace_service_free(l->ports.trace);
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

// Answers what was accepted, at most until the exit timeout; metrics stay up meanwhile. A stop that
// fails refuses what is still queued: these answers have a moment of their own to be sent in.
static void *drain_and_stop(void *pointer)
{
  server_run *l = pointer;
  serve_on(l, (uint64_t)l->ports.options->shutdown_delay_seconds);
  uint64_t timeout = (uint64_t)l->ports.options->exit_timeout_seconds;
  uint64_t deadline = clock_monotonic_ns() + timeout * NS_PER_SECOND;
  ports_drain(&l->ports, deadline);
  uint64_t now = clock_monotonic_ns();
  uint64_t rest = deadline > now ? (deadline - now + NS_PER_SECOND - 1) / NS_PER_SECOND : 0;
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerSetExitTimeout(l->ports.server, (unsigned)rest));
  l->stop_outcome = error_from_abi(TRITONSERVER_ServerStop(l->ports.server));
  if (l->stop_outcome != NULL)
    ports_drain(&l->ports, clock_monotonic_ns() + LAST_ANSWERS_NS);
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

// The signal that came, or 0 when helper threads are done; how many is added to *reports.
static int await_event(server_run *l, size_t *reports)
{
  struct pollfd events[] = {{.fd = l->signals, .events = POLLIN},
                            {.fd = l->report, .events = POLLIN}};
  for (;;) {
    if (poll(events, 2, -1) < 0 && errno != EINTR)
      return SIGTERM; // cannot wait: stop in good order
    struct signalfd_siginfo info;
    uint64_t count;
    if ((events[0].revents & POLLIN) != 0 &&
        read(l->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
      if (info.ssi_signo != SIGHUP)
        return (int)info.ssi_signo;
      reopen_logs(l);
    }
    if ((events[1].revents & POLLIN) != 0 && (count = wakeup_take(l->report)) > 0) {
      *reports += count;
      return 0;
    }
  }
}

static void log_signal(int number)
{
  if (logs_json())
    frontend_log_info("Signal (%d) received.", number);
  else
    fprintf(stderr, "Signal (%d) received.\n", number);
}

// The time is over. Start-up may still be at work, in a backend that never returns.
static bool stop_failed(const server_run *l)
{
  return atomic_load(&l->drained) && l->stop_outcome != NULL;
}

// Drains and stops. What does not end in time is left to the process's end.
static int stop(server_run *l, bool startup_runs)
{
  pthread_t startup = l->helper;
  notify_service_manager("STOPPING=1");
  error *e = start_helper(l, drain_and_stop);
  bool helped = e == NULL;
  if (!helped) {
    frontend_log_warning("%s: a second signal is not heard while it stops", error_message(e));
    error_free(e);
    drain_and_stop(l);
  }
  size_t reports_due = startup_runs ? 2 : 1; // start-up ends early, and reports too
  for (size_t reports = 0; reports < reports_due && !stop_failed(l);) {
    int number = await_event(l, &reports);
    if (number == 0)
      continue;
    log_signal(number);
    if (logs_json())
      frontend_log_error("%s", "stopped at once by the second signal");
    else
      fprintf(stderr, "error: stopped at once by the second signal\n");
    _exit(EXIT_FAILURE);
  }
  if (stop_failed(l)) {
    fail("failed to stop server", l->stop_outcome);
    fflush(NULL);
    _exit(EXIT_FAILURE); // a backend is still at work
  }
  if (startup_runs) {
    pthread_join(startup, NULL);
    error_free(l->startup_outcome); // it was interrupted
  }
  if (helped)
    pthread_join(l->helper, NULL);
  close_ports(l);
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(l->ports.server));
  return EXIT_SUCCESS;
}

// The start-up models did not all load, and that is not to be.
static int give_up(server_run *l, error *e)
{
  close_ports(l);
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(l->ports.server));
  return fail("creating server", e);
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

static int serve(server_run *l)
{
  error *e = start_helper(l, await_startup);
  if (e != NULL)
    return give_up(l, e);
  size_t reports = 0;
  int number = await_event(l, &reports);
  if (number != 0) {
    log_signal(number);
    return stop(l, true);
  }
  pthread_join(l->helper, NULL);
  bool gives_up = l->startup_outcome != NULL && l->ports.options->exit_on_error;
  if (gives_up) {
    log_summary(l, gives_up);
    return give_up(l, l->startup_outcome);
  }
  if (l->startup_outcome != NULL)
    frontend_log_warning("%s; serving the others (--exit-on-error=false)",
                         error_message(l->startup_outcome));
  error_free(l->startup_outcome);
  log_summary(l, gives_up);
  notify_service_manager("READY=1");
  number = await_event(l, &reports);
  log_signal(number);
  return stop(l, false);
}

static error *open_events(server_run *l)
{
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  l->report = wakeup_new();
  l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (l->report < 0 || l->signals < 0)
    return error_new(ERROR_INTERNAL, "failed to wait for signals: %s", strerror(errno));
  return NULL;
}

int life_run(const daemon_options *options, const access_rules *rules)
{
  server_run l = {.ports = {.options = options, .rules = rules}, .report = -1, .signals = -1};
  l.started_ns = clock_monotonic_ns();
  error *e = open_events(&l);
  if (e == NULL)
    e = server_setup(options, &l.ports.server); // which sets the log up, too
  for (size_t i = 0; i < options->warnings.count; i++)
    frontend_log_warning("%s", options->warnings.items[i]);
  if (e != NULL)
    return fail("creating server", e);
  const char *what = "creating shared memory's registry";
  l.ports.shared_memory = shared_memory_new(options->allow_client_shm);
  e = l.ports.shared_memory == NULL ? error_no_memory() : open_ports(&l, &what);
  int status;
  if (e != NULL) {
    close_ports(&l);
    TRITONSERVER_ErrorDelete(TRITONSERVER_ServerDelete(l.ports.server));
    status = fail(what, e);
  } else {
    status = serve(&l);
  }
  shared_memory_free(l.ports.shared_memory);
  close(l.report);
  close(l.signals);
  return status;
}
