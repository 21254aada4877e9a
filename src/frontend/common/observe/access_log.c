// SPDX-License-Identifier: Apache-2.0
// The caller's thread prints a record into a buffer; the writer's thread swaps the buffer for an
// empty one and writes it in one piece.
#include "frontend/common/observe/access_log.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/files.h"
#include "base/number.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/observe/writer.h"
#include "nereid/nereid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_BYTES      (4u << 20)           // waiting to be written
#define ENOUGH_BYTES   (64u << 10)          // enough for a write
#define KEPT_BYTES     (256u << 10)         // memory that the buffer keeps between two writes
#define GATHER_NS      UINT64_C(20000000)   // how long a line waits for others, at most
#define LINE_BYTES     512                  // of most lines
#define TEXT_MAX_BYTES 256                  // of an id or a route
#define CLOSE_NS       UINT64_C(5000000000) // for the last lines, if nobody reads the pipe
#define NS_PER_US      1000

struct access_log {
  char *path; // owned; "-": standard output
  bool json;
  writer writer; // weighs bytes; its lock guards what follows, up to the blank line
  buffer pending;
  bool reopen;

  // the writer thread's
  buffer lines; // being written; keeps its memory between two writes
  int file;
  bool cut;     // the last write ended within a line
  bool failing; // the last write failed
};

// ---- a record as text ----

static void append_field_key(buffer *line, bool json, const char *key)
{
  buffer_append_text(line, json ? ",\"" : " ");
  buffer_append_text(line, key);
  buffer_append_text(line, json ? "\":" : "=");
}

static void append_text_field(buffer *line, bool json, const char *key, const char *text)
{
  slice value = {text != NULL ? text : "", text != NULL ? strnlen(text, TEXT_MAX_BYTES) : 0};
  append_field_key(line, json, key);
  buffer_append_json_line(line, value);
}

static void append_number_field(buffer *line, bool json, const char *key, uint64_t value)
{
  append_field_key(line, json, key);
  char *end = buffer_reserve(line, NUMBER_TEXT_BYTES);
  if (end != NULL)
    line->size += number_print_u64(end, value);
}

static void append_time(buffer *line, bool json, uint64_t time_ns)
{
  char text[64];
  struct timespec moment = clock_timespec(time_ns);
  struct tm utc;
  gmtime_r(&moment.tv_sec, &utc);
  size_t size = strftime(text, sizeof(text), json ? "{\"ts\":\"%FT%T" : "ts=%FT%T", &utc);
  buffer_append(line, text, size);
  snprintf(text, sizeof(text), json ? ".%06ldZ\"" : ".%06ldZ", moment.tv_nsec / NS_PER_US);
  buffer_append_text(line, text);
}

void access_record_print(const access_record *r, uint64_t time_ns, bool json, buffer *line)
{
  buffer_reserve(line, LINE_BYTES);
  append_time(line, json, time_ns);
  append_text_field(line, json, "protocol", r->protocol);
  append_text_field(line, json, "peer", r->peer);
  append_text_field(line, json, "method", r->method);
  append_text_field(line, json, "route", r->route);
  append_number_field(line, json, "status", r->status);
  append_text_field(line, json, "model", r->model);
  append_number_field(line, json, "version", (uint64_t)r->version);
  append_text_field(line, json, "request_id", r->request_id);
  append_number_field(line, json, "batch", r->batch_size);
  append_number_field(line, json, "queue_us", r->queue_ns / NS_PER_US);
  append_number_field(line, json, "compute_us", r->compute_ns / NS_PER_US);
  append_number_field(line, json, "total_us", r->total_ns / NS_PER_US);
  append_number_field(line, json, "bytes_in", r->bytes_in);
  append_number_field(line, json, "bytes_out", r->bytes_out);
  buffer_append_text(line, json ? "}\n" : "\n");
}

// ---- times ----

void access_times_record(access_times *t, TRITONSERVER_InferenceResponse *response)
{
  NEREID_ResponseTimes times;
  const char *model;
  int64_t version = 0;
  NEREID_InferenceResponseTimes(response, &times);
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseModel(response, &model, &version));
  uint64_t now = clock_monotonic_ns();
  uint64_t started = times.started_ns != 0 ? times.started_ns : now; // refused: it only waited
  atomic_store_explicit(&t->queue_ns, started - times.submitted_ns, memory_order_relaxed);
  atomic_store_explicit(&t->compute_ns, now - started, memory_order_relaxed);
  atomic_store_explicit(&t->batch_size, times.batch_size, memory_order_relaxed);
  atomic_store_explicit(&t->version, version, memory_order_relaxed);
}

void access_times_print(const access_times *t, int64_t version, access_record *record)
{
  int64_t answered = atomic_load_explicit(&t->version, memory_order_relaxed);
  record->version = answered > 0 ? answered : version > 0 ? version : 0;
  record->batch_size = atomic_load_explicit(&t->batch_size, memory_order_relaxed);
  record->queue_ns = atomic_load_explicit(&t->queue_ns, memory_order_relaxed);
  record->compute_ns = atomic_load_explicit(&t->compute_ns, memory_order_relaxed);
}

// ---- handing in ----

static bool queue_line(access_log *log, slice line)
{
  LOCK_SCOPE(&log->writer.lock);
  if (!writer_admit(&log->writer, line.size))
    return false;
  bool room = buffer_reserve(&log->pending, line.size) != NULL;
  if (!room)
    log->writer.weight -= line.size;
  log->pending.failed = false; // earlier lines are intact
  buffer_append(&log->pending, line.data, room ? line.size : 0);
  return room;
}

void access_log_write(access_log *log, const access_record *record)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  access_record_print(record, clock_realtime_ns(), log->json, &line);
  if (line.failed || !queue_line(log, buffer_view(&line)))
    writer_count_lost(&log->writer, 1);
}

void access_log_reopen(access_log *log)
{
  LOCK_SCOPE(&log->writer.lock);
  log->reopen = true;
  writer_urge(&log->writer);
}

// ---- the writer ----

// Logs the first loss only, until writing works again.
static void write_out(access_log *log, slice lines)
{
  if (log->cut && files_write(log->file, "\n", 1))
    log->cut = false;
  size_t written = log->cut ? 0 : files_write_most(log->file, lines.data, lines.size);
  if (written == lines.size) {
    log->failing = false;
    return;
  }
  int reason = errno;
  uint64_t lost = 0;
  for (size_t i = written; i < lines.size; i++)
    lost += lines.data[i] == '\n';
  log->cut = log->cut || (written > 0 && lines.data[written - 1] != '\n');
  writer_count_lost(&log->writer, lost);
  if (!log->failing)
    frontend_log_error("the access log cannot be written, lines are dropped: %s", strerror(reason));
  log->failing = true;
}

// A pipe without a reader is an error; the open must not wait for one.
static int open_log_file(const char *path)
{
  if (strcmp(path, "-") == 0)
    return STDOUT_FILENO;
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
  if (file >= 0)
    (void)fcntl(file, F_SETFL, O_APPEND); // blocking from here on: only the writer's thread waits
  return file;
}

static void close_log_file(const access_log *log)
{
  if (strcmp(log->path, "-") != 0 && log->file >= 0)
    close(log->file);
}

// Keeps the old file when the new one cannot be opened.
static void open_again(access_log *log)
{
  int file = open_log_file(log->path);
  if (file < 0) {
    frontend_log_error("the access log cannot be opened again: %s", strerror(errno));
    return;
  }
  close_log_file(log);
  log->file = file;
  log->cut = false;
}

static void write_waiting(writer *w)
{
  access_log *log = container_of(w, access_log, writer);
  bool reopen = log->reopen;
  buffer empty = log->lines;
  log->lines = log->pending;
  log->pending = empty;
  log->reopen = false;
  pthread_mutex_unlock(&w->lock);
  if (log->lines.size > 0)
    write_out(log, buffer_view(&log->lines));
  if (reopen)
    open_again(log);
  if (log->lines.capacity > KEPT_BYTES)
    buffer_fini(&log->lines);
  log->lines.size = 0;
  pthread_mutex_lock(&w->lock);
}

// ---- life ----

static void free_log(access_log *log)
{
  close_log_file(log);
  buffer_fini(&log->pending);
  buffer_fini(&log->lines);
  free(log->path);
  free(log);
}

error *access_log_open(const char *path, bool json, access_log **result)
{
  access_log *log = calloc(1, sizeof(*log));
  char *copy = strdup(path);
  if (log == NULL || copy == NULL) {
    free(log);
    free(copy);
    return error_no_memory();
  }
  *log = (access_log){.path = copy,
                      .json = json,
                      .writer = {.most = MAX_BYTES,
                                 .enough = ENOUGH_BYTES,
                                 .wait_ns = GATHER_NS,
                                 .work = write_waiting},
                      .file = open_log_file(path)};
  error *e =
      log->file < 0
          ? error_new(ERROR_INVALID_ARG, "cannot open access log '%s': %s", path, strerror(errno))
          : writer_start(&log->writer, "access-log", "nereid_access_log_dropped_lines_total",
                         "Lines of the access log that could not be written");
  if (e != NULL)
    free_log(log);
  else
    *result = log;
  return e;
}

void access_log_close(access_log *log)
{
  if (log == NULL)
    return;
  if (writer_stop(&log->writer, clock_monotonic_ns() + CLOSE_NS)) {
    writer_fini(&log->writer);
    free_log(log);
  } else { // the thread is stuck in a write, and ends with the process
    frontend_log_error("the access log cannot be closed: %s", strerror(EAGAIN));
  }
}
