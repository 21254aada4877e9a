// Log lines: "I1121 00:48:02.133709 3826 file.c:12] "text"" or the ISO8601 form, UTC, to stdout
// (info, verbose) or stderr (warning, error), or all to one file.
#include "base/log.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic bool enabled[3] = {true, true, true};
static _Atomic uint32_t verbose_level;
static _Atomic log_format line_format;

static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static int output_file = -1; // guarded by output_lock; -1: the standard streams

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
  int file = -1;
  if (path != NULL && path[0] != '\0') {
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
    if (file < 0)
      return error_new(ERROR_INVALID_ARG, "cannot open log file '%s': %s", path, strerror(errno));
  }
  LOCK_SCOPE(&output_lock);
  if (output_file >= 0)
    close(output_file);
  output_file = file;
  return NULL;
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

static void append_prefix(buffer *line, log_level level, const char *file, int number)
{
  static const char letters[] = {'I', 'W', 'E', 'I'};
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  if (log_get_format() == LOG_FORMAT_ISO8601)
    buffer_append_format(line, "%04d-%02d-%02dT%02d:%02d:%02dZ %c %d %s:%d] ", utc.tm_year + 1900,
                         utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                         letters[level], getpid(), file, number);
  else
    buffer_append_format(line, "%c%02d%02d %02d:%02d:%02d.%06ld %d %s:%d] ", letters[level],
                         utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                         now.tv_nsec / 1000, getpid(), file, number);
}

static void emit(log_level level, buffer *line)
{
  buffer_append_char(line, '\n');
  if (line->failed)
    return;
  bool problem = level == LOG_LEVEL_WARNING || level == LOG_LEVEL_ERROR;
  LOCK_SCOPE(&output_lock);
  int file = output_file >= 0 ? output_file : problem ? STDERR_FILENO : STDOUT_FILENO;
  // A full disk or a closed pipe costs the line, never the server.
  files_write(file, line->data, line->size);
}

void log_write(log_level level, const char *file, int number, slice text)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  append_prefix(&line, level, file, number);
  if (escaping())
    buffer_append_json_string(&line, text);
  else
    buffer_append_slice(&line, text);
  emit(level, &line);
}

void log_write_table(log_level level, const char *file, int number, slice table)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  append_prefix(&line, level, file, number);
  buffer_append_char(&line, '\n');
  buffer_append_slice(&line, table);
  emit(level, &line);
}

void log_format_message(log_level level, const char *file, int line, const char *format, ...)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *end = size < 0 ? NULL : buffer_reserve(&text, (size_t)size + 1);
  if (end != NULL)
    vsnprintf(end, (size_t)size + 1, format, again);
  va_end(again);
  if (end != NULL)
    log_write(level, file, line, (slice){text.data, (size_t)size});
}
