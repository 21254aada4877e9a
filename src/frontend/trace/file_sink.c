// SPDX-License-Identifier: Apache-2.0
// JSON files as Triton's: arrays of entries. With a log frequency, or when a setting's count is
// used up, its traces so far become a file `path`.0 and so on; other traces are in `path`. That
// file is a complete array at any time, because its last byte, "]", moves. It is written at
// FLUSH_BYTES, when a setting is replaced, and at the end. Traces for a file of their own are held
// until it is complete, HELD_BYTES at most. Two servers may run for a while with the same file
// (docs/upgrading.md): the one that opens it second writes to `path`.<process> instead. The
// exporter's thread.
#include "base/cleanup.h"
#include "base/container_of.h"
#include "base/files.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/trace/exporter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define FLUSH_BYTES (1u << 20)
#define HELD_BYTES  (64u << 20)
#define QUEUE_BYTES (64u << 20) // of records that wait for the thread
#define WAKE_BYTES  (1u << 20)
#define WAIT_NS     UINT64_C(100000000)

typedef struct file_sink {
  exporter exporter;
  const char *path;    // the configuration's
  int descriptor;      // of `path`; -1: not open yet
  uint64_t size;       // of its text, without the "]"
  uint32_t next_index; // of the next `path`.N
  bool failed;         // the last write failed, and the log has a line
} file_sink;

static bool write_at(int descriptor, slice text, uint64_t offset)
{
  return lseek(descriptor, (off_t)offset, SEEK_SET) >= 0 &&
         files_write(descriptor, text.data, text.size);
}

// O_NONBLOCK: opening a pipe without a reader must fail, because a write would block the server's
// end.
static int open_file(const char *path, int flags)
{
  return open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0666);
}

// A file that another process writes stays as it is. Where locks are not known, there is none.
static bool is_anothers(int descriptor)
{
  return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static int open_beside(const char *path)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  buffer_append_format(&name, "%s.%d", path, (int)getpid());
  AUTO_FREE char *own = buffer_take_text(&name);
  if (own == NULL)
    return -1;
  frontend_log_warning("another process writes traces to '%s': this one's go to '%s'", path, own);
  return open_file(own, O_TRUNC);
}

// Opens and empties the file of all traces.
static int open_shared(const char *path)
{
  int descriptor = open_file(path, 0);
  if (descriptor >= 0 && is_anothers(descriptor)) {
    close(descriptor);
    return open_beside(path);
  }
  if (descriptor >= 0)
    (void)!ftruncate(descriptor, 0); // a pipe has no length
  return descriptor;
}

// Logs one line until a write succeeds again.
static void note_result(file_sink *f, bool succeeded, const char *path)
{
  int reason = errno;
  if (!succeeded && !f->failed)
    frontend_log_error("cannot write traces to '%s': %s; they are dropped until it can be written",
                       path, strerror(reason));
  f->failed = !succeeded;
}

// Appends to `path`. If that fails, the earlier text stays a complete array.
static bool append(file_sink *f, const buffer *text)
{
  if (f->descriptor < 0) {
    f->descriptor = open_shared(f->path);
    f->size = 0;
  }
  if (f->descriptor < 0)
    return false;
  AUTO_BUFFER buffer all = BUFFER_EMPTY;
  buffer_append_char(&all, f->size == 0 ? '[' : ',');
  buffer_append_slice(&all, buffer_view(text));
  buffer_append_char(&all, ']');
  if (!all.failed && write_at(f->descriptor, buffer_view(&all), f->size)) {
    f->size += all.size - 1;
    return true;
  }
  int reason = all.failed ? ENOMEM : errno;
  if (ftruncate(f->descriptor, (off_t)f->size) == 0 && f->size > 0)
    (void)write_at(f->descriptor, SLICE("]"), f->size); // its place was written before
  errno = reason;
  return false;
}

static bool write_own(const char *path, const buffer *text)
{
  int descriptor = open_file(path, O_TRUNC);
  if (descriptor < 0)
    return false;
  bool written = write_at(descriptor, SLICE("["), 0) &&
                 files_write(descriptor, text->data, text->size) && files_write(descriptor, "]", 1);
  int reason = errno;
  close(descriptor);
  if (!written)
    (void)unlink(path); // half a file is no JSON
  errno = reason;
  return written;
}

static bool write_indexed(file_sink *f, const buffer *text)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  buffer_append_format(&name, "%s.%" PRIu32, f->path, f->next_index);
  char *path = buffer_take_text(&name);
  bool written = path != NULL && write_own(path, text);
  if (written)
    f->next_index++;
  note_result(f, written, path == NULL ? f->path : path);
  free(path);
  return written;
}

// Writes the setting's collected traces. Returns how many are lost.
static size_t flush(file_sink *f, trace_setting *s, bool indexed)
{
  if (s->in_text == 0)
    return 0;
  bool written = !s->text.failed && (indexed ? write_indexed(f, &s->text) : append(f, &s->text));
  if (!indexed)
    note_result(f, written, f->path);
  size_t lost = written ? 0 : s->in_text;
  buffer_fini(&s->text);
  s->text = BUFFER_EMPTY;
  s->in_text = 0;
  return lost;
}

static bool is_complete(const trace_setting *s)
{
  return atomic_load_explicit(&s->exhausted, memory_order_relaxed) &&
         s->collected == atomic_load_explicit(&s->created, memory_order_relaxed);
}

static size_t take_record(file_sink *f, const trace_record *r)
{
  trace_setting *s = r->setting;
  const int64_t frequency = s->values[TRACE_KEY_LOG_FREQUENCY];
  record_print(r, &s->text);
  s->in_text++;
  s->collected++;
  bool full = frequency != 0 && s->in_text >= frequency;
  if (full || is_complete(s))
    return flush(f, s, true);
  size_t most = frequency != 0 || s->counted ? HELD_BYTES : FLUSH_BYTES;
  if (s->retired || s->text.size >= most)
    return flush(f, s, frequency != 0);
  return 0;
}

static size_t write_records_to_file(exporter *e, const trace_record *first)
{
  file_sink *f = container_of(e, file_sink, exporter);
  size_t lost = 0;
  for (const trace_record *r = first; r != NULL; r = r->next)
    lost += take_record(f, r);
  return lost;
}

static size_t retire_setting(exporter *e, trace_setting *s)
{
  s->retired = true;
  return flush(container_of(e, file_sink, exporter), s, s->values[TRACE_KEY_LOG_FREQUENCY] != 0);
}

static size_t record_weight(const trace_record *r)
{
  return sizeof(*r) + r->bytes;
}

static void free_file_sink(exporter *e)
{
  file_sink *f = container_of(e, file_sink, exporter);
  if (f->descriptor >= 0)
    close(f->descriptor);
  free(f);
}

error *file_exporter_new(const trace_config *config, exporter **result)
{
  file_sink *f = calloc(1, sizeof(*f));
  if (f == NULL)
    return error_no_memory();
  *f = (file_sink){
      .exporter = {.writer = {.most = QUEUE_BYTES, .enough = WAKE_BYTES, .wait_ns = WAIT_NS},
                   .weigh = record_weight,
                   .write = write_records_to_file,
                   .retire = retire_setting,
                   .free = free_file_sink},
      .path = config->file,
      .descriptor = -1,
  };
  *result = &f->exporter;
  return NULL;
}
