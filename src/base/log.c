// SPDX-License-Identifier: Apache-2.0
// Log lines: "I1121 00:48:02.133709 3826 file.c:12] "text"", the ISO8601 form, or JSON, UTC, to
// stdout (info, verbose) or stderr (warning, error), or all to one file.
#include "base/log.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool enabled[3] = {true, true, true};
static _Atomic uint32_t verbose_level;
static _Atomic log_format line_format;

#define SUBJECT_BYTES 256 // of a request's id
#define FILE_BYTES    128 // of a source file's name

#define TABLE_WIDTH       120 // columns
#define LEAST_TABLE_WIDTH 80
#define MAX_TABLE_WIDTH   200

static _Atomic uint64_t dropped_lines;

static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER; // guards what follows
static int output_file = -1;                                    // -1: the standard streams
static char output_path[LOG_PATH_BYTES];
static bool cut_line; // the last line was written in part

void log_enable(log_level level, bool on)
{
  if (level <= LOG_LEVEL_ERROR)
    atomic_store_explicit(&enabled[level], on, memory_order_relaxed);
}

void log_set_verbose(uint32_t level)
{
  atomic_store_explicit(&verbose_level, level, memory_order_relaxed);
}

void log_set_format(log_format format)
{
  atomic_store_explicit(&line_format, format, memory_order_relaxed);
}

error *log_set_file(const char *path)
{
  _Static_assert(LOG_PATH_BYTES >= PATH_MAX, "what can be opened can be remembered");
  int file = -1;
  size_t size = path != NULL ? strlen(path) : 0;
  if (size > 0) {
    // Never blocks: a pipe without a reader is an error, a full pipe loses lines.
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (file < 0)
      return error_new(ERROR_INVALID_ARG, "cannot open log file '%s': %s", path, strerror(errno));
  }
  LOCK_SCOPE(&output_lock);
  if (output_file >= 0)
    close(output_file);
  output_file = file;
  memcpy(output_path, size > 0 ? path : "", size + 1);
  cut_line = false;
  return NULL;
}

void log_get_file(char path[LOG_PATH_BYTES])
{
  LOCK_SCOPE(&output_lock);
  memcpy(path, output_path, strlen(output_path) + 1);
}

uint64_t log_dropped_lines(void)
{
  return atomic_load_explicit(&dropped_lines, memory_order_relaxed);
}

bool log_is_enabled(log_level level)
{
  if (level == LOG_LEVEL_VERBOSE)
    return log_verbose_level() > 0;
  return atomic_load_explicit(&enabled[level], memory_order_relaxed);
}

uint32_t log_verbose_level(void)
{
  return atomic_load_explicit(&verbose_level, memory_order_relaxed);
}

log_format log_get_format(void)
{
  return atomic_load_explicit(&line_format, memory_order_relaxed);
}

static bool escaping(void)
{
  static _Atomic int state; // 0 unknown, 1 on, 2 off
  int known = atomic_load_explicit(&state, memory_order_relaxed);
  if (known == 0) {
    const char *setting = getenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES");
    known = setting != NULL && strcmp(setting, "0") == 0 ? 2 : 1;
    atomic_store_explicit(&state, known, memory_order_relaxed);
  }
  return known == 1;
}

// ---- lines ----

typedef struct log_origin {
  log_level level;
  char file[FILE_BYTES];
  int line;
  struct timespec time;
  struct tm utc;
} log_origin;

// The file may belong to a model and have any name.
static log_origin origin_now(log_level level, const char *file, int line)
{
  log_origin origin = {.level = level, .line = line};
  for (size_t i = 0; i + 1 < FILE_BYTES && file[i] != '\0'; i++)
    origin.file[i] = (unsigned char)file[i] < ' ' || file[i] == 0x7f ? '?' : file[i];
  clock_gettime(CLOCK_REALTIME, &origin.time);
  gmtime_r(&origin.time.tv_sec, &origin.utc);
  return origin;
}

static void append_prefix(buffer *line, const log_origin *origin)
{
  static const char letters[] = {'I', 'W', 'E', 'I'};
  const struct tm *utc = &origin->utc;
  char letter = letters[origin->level];
  if (log_get_format() == LOG_FORMAT_ISO8601)
    buffer_append_format(line, "%04d-%02d-%02dT%02d:%02d:%02dZ %c %d %s:%d] ", utc->tm_year + 1900,
                         utc->tm_mon + 1, utc->tm_mday, utc->tm_hour, utc->tm_min, utc->tm_sec,
                         letter, getpid(), origin->file, origin->line);
  else
    buffer_append_format(line, "%c%02d%02d %02d:%02d:%02d.%06ld %d %s:%d] ", letter,
                         utc->tm_mon + 1, utc->tm_mday, utc->tm_hour, utc->tm_min, utc->tm_sec,
                         origin->time.tv_nsec / 1000, getpid(), origin->file, origin->line);
}

static slice shortened(const char *id)
{
  return (slice){id, strnlen(id, SUBJECT_BYTES)};
}

static void append_subject(buffer *text, const log_subject *subject)
{
  slice id = shortened(subject->request_id);
  buffer_append_text(text, "[request id: ");
  buffer_append_slice(text, id.size > 0 ? id : SLICE("<id_unknown>"));
  if (subject->model != NULL)
    buffer_append_format(text, ", model '%s'", subject->model);
  if (subject->version > 0)
    buffer_append_format(text, " version %" PRId64, subject->version);
  if (subject->instance != NULL)
    buffer_append_format(text, ", instance '%s'", subject->instance);
  buffer_append_text(text, "] ");
}

static void append_member(buffer *line, const char *key, slice text)
{
  buffer_append_format(line, ",\"%s\":", key);
  buffer_append_json_line(line, text);
}

static void append_json(buffer *line, const log_origin *origin, const log_subject *subject,
                        slice text)
{
  static const char *const levels[] = {"info", "warning", "error", "verbose"};
  const struct tm *utc = &origin->utc;
  char source[FILE_BYTES + 16];
  buffer_append_format(line, "{\"ts\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06ldZ\",\"level\":\"%s\"",
                       utc->tm_year + 1900, utc->tm_mon + 1, utc->tm_mday, utc->tm_hour,
                       utc->tm_min, utc->tm_sec, origin->time.tv_nsec / 1000,
                       levels[origin->level]);
  snprintf(source, sizeof(source), "%s:%d", origin->file, origin->line);
  buffer_append_format(line, ",\"pid\":%d", getpid());
  append_member(line, "source", slice_of(source));
  append_member(line, "message", text);
  if (subject != NULL && subject->request_id != NULL)
    append_member(line, "request_id", shortened(subject->request_id));
  if (subject != NULL && subject->model != NULL)
    append_member(line, "model", slice_of(subject->model));
  if (subject != NULL && subject->version > 0)
    buffer_append_format(line, ",\"version\":%" PRId64, subject->version);
  if (subject != NULL && subject->instance != NULL)
    append_member(line, "instance", slice_of(subject->instance));
  buffer_append_char(line, '}');
}

// A full disk or a closed pipe loses the line and does not stop the server. After a line that was
// cut, the next begins on a new line.
static void emit(log_level level, buffer *line)
{
  buffer_append_char(line, '\n');
  bool problem = level == LOG_LEVEL_WARNING || level == LOG_LEVEL_ERROR;
  LOCK_SCOPE(&output_lock);
  int file = output_file >= 0 ? output_file : problem ? STDERR_FILENO : STDOUT_FILENO;
  if (!line->failed && cut_line && files_write(file, "\n", 1))
    cut_line = false;
  size_t written = line->failed || cut_line ? 0 : files_write_most(file, line->data, line->size);
  if (!line->failed && written == line->size)
    return;
  cut_line = cut_line || written > 0;
  atomic_fetch_add_explicit(&dropped_lines, 1, memory_order_relaxed);
}

// ---- messages ----

void log_write(log_level level, const char *file, int number, const log_subject *subject,
               slice text)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  AUTO_BUFFER buffer full = BUFFER_EMPTY;
  log_origin origin = origin_now(level, file, number);
  if (log_get_format() == LOG_FORMAT_JSON) {
    append_json(&line, &origin, subject, text);
    emit(level, &line);
    return;
  }
  if (subject != NULL && subject->request_id != NULL && !subject->keys_only) {
    append_subject(&full, subject);
    buffer_append_slice(&full, text);
    text = buffer_view(&full);
    line.failed = full.failed;
  }
  append_prefix(&line, &origin);
  if (escaping())
    buffer_append_json_line(&line, text);
  else
    buffer_append_slice(&line, text);
  emit(level, &line);
}

void log_write_table(log_level level, const char *file, int number, slice table)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  if (log_get_format() == LOG_FORMAT_JSON) {
    log_write(level, file, number, NULL, table);
    return;
  }
  log_origin origin = origin_now(level, file, number);
  append_prefix(&line, &origin);
  buffer_append_char(&line, '\n');
  buffer_append_slice(&line, table);
  emit(level, &line);
}

static size_t terminal_width(void)
{
  struct winsize size;
  LOCK_SCOPE(&output_lock);
  bool known = output_file < 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return known ? size.ws_col : 0;
}

size_t log_table_width(void)
{
  uint64_t width = terminal_width();
  const char *columns = getenv("COLUMNS");
  if (width == 0 && (columns == NULL || !text_to_uint64(slice_of(columns), &width)))
    width = 0;
  if (width == 0)
    return TABLE_WIDTH;
  return width < LEAST_TABLE_WIDTH ? LEAST_TABLE_WIDTH
         : width > MAX_TABLE_WIDTH ? MAX_TABLE_WIDTH
                                   : width;
}

void log_format_message(log_level level, const char *file, int line, const log_subject *subject,
                        const char *format, ...)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  va_list arguments;
  va_start(arguments, format);
  buffer_append_va(&text, format, arguments);
  va_end(arguments);
  if (!text.failed)
    log_write(level, file, line, subject, buffer_view(&text));
}
