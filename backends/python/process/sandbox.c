// Reads the settings, and writes the launcher's command line from them.
#include "process/sandbox.h"

#include "backend_config.h"
#include "backend_error.h"

#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIBIBYTE (INT64_C(1) << 30)

// ---- settings

enum {
  AS_SERVER = 0,
  MACHINE_MEMORY = -1,
  QUARTER_OF_MEMORY = -4
};

static const struct {
  const char *key;
  size_t field;
  int64_t least;
  int64_t usual[2]; // at level standard, strict
} NUMBERS[] = {
    {"worker-processes", offsetof(worker_sandbox, processes), 16, {AS_SERVER, 8192}},
    {"worker-descriptors", offsetof(worker_sandbox, descriptors), 64, {AS_SERVER, AS_SERVER}},
    {"worker-memory-bytes",
     offsetof(worker_sandbox, memory_bytes),
     INT64_C(64) << 20,
     {AS_SERVER, MACHINE_MEMORY}},
    {"worker-shared-bytes",
     offsetof(worker_sandbox, shared_bytes),
     1 << 20,
     {QUARTER_OF_MEMORY, QUARTER_OF_MEMORY}},
    {"worker-file-bytes",
     offsetof(worker_sandbox, file_bytes),
     1 << 20,
     {AS_SERVER, 64 * GIBIBYTE}},
    {"worker-scratch-bytes",
     offsetof(worker_sandbox, scratch_bytes),
     1 << 20,
     {GIBIBYTE, GIBIBYTE}},
};

static const char LEVEL[] = "worker-sandbox", READ_PATHS[] = "worker-read-paths";

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool worker_sandbox_has_setting(const char *key)
{
  for (size_t i = 0; i < COUNT(NUMBERS); i++)
    if (strcmp(key, NUMBERS[i].key) == 0)
      return true;
  return strcmp(key, LEVEL) == 0 || strcmp(key, READ_PATHS) == 0;
}

static int64_t usual_number(int64_t usual)
{
  if (usual >= 0)
    return usual;
  return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / -usual;
}

static TRITONSERVER_Error *read_numbers(worker_sandbox *self, const json_t *settings)
{
  for (size_t i = 0; i < COUNT(NUMBERS); i++) {
    const char *text = json_string_value(json_object_get(settings, NUMBERS[i].key));
    int64_t *value = (int64_t *)((char *)self + NUMBERS[i].field);
    *value = usual_number(NUMBERS[i].usual[self->strict]);
    BACKEND_RETURN_IF_ERROR(
        backend_read_integer("setting", NUMBERS[i].key, text, NUMBERS[i].least, INT64_MAX, value));
  }
  return NULL;
}

// Each must be absolute: it is opened where the worker is.
static TRITONSERVER_Error *read_paths(worker_sandbox *self, const char *text)
{
  if (text == NULL || *text == '\0')
    return NULL;
  for (const char *at = text; at != NULL; at = strchr(at, ':')) {
    at += *at == ':';
    if (*at != '/')
      return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                           "setting %s: '%s' is no list of absolute paths", READ_PATHS, text);
  }
  self->read_paths = strdup(text);
  return self->read_paths != NULL ? NULL : backend_error_no_memory("the backend");
}

TRITONSERVER_Error *worker_sandbox_init(worker_sandbox *self, const json_t *settings)
{
  *self = (worker_sandbox){0};
  const char *level = json_string_value(json_object_get(settings, LEVEL));
  if (level != NULL && strcmp(level, "standard") != 0 && strcmp(level, "strict") != 0)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "setting %s: '%s' is neither standard nor strict", LEVEL, level);
  self->strict = level != NULL && strcmp(level, "strict") == 0;
  BACKEND_RETURN_IF_ERROR(read_numbers(self, settings));
  return read_paths(self, json_string_value(json_object_get(settings, READ_PATHS)));
}

void worker_sandbox_fini(worker_sandbox *self)
{
  free(self->read_paths);
  self->read_paths = NULL;
}

// ---- the command line

typedef struct arguments {
  char **items;
  size_t count;
  bool failed;
} arguments;

__attribute__((format(printf, 2, 3))) static void add(arguments *self, const char *format, ...)
{
  char *text;
  va_list values;
  va_start(values, format);
  int length = vasprintf(&text, format, values);
  va_end(values);
  char **grown =
      length < 0 ? NULL : reallocarray(self->items, self->count + 2, sizeof *self->items);
  if (grown == NULL) {
    if (length >= 0)
      free(text);
    self->failed = true;
    return;
  }
  self->items = grown;
  self->items[self->count++] = text;
  self->items[self->count] = NULL;
}

static void add_bound(arguments *self, const char *option, int64_t bound)
{
  if (bound != AS_SERVER)
    add(self, "--%s=%" PRId64, option, bound);
}

// Where the path leads; one that is not there is passed over.
static void add_readable(arguments *self, const char *path)
{
  char *resolved = realpath(path, NULL);
  if (resolved != NULL && strcmp(resolved, "/") != 0)
    add(self, "--read=%s", resolved);
  free(resolved);
}

// The directory in which the file is, links resolved: its neighbours are read too.
static void add_dir_of(arguments *self, const char *path)
{
  char *resolved = realpath(path, NULL);
  char *slash = resolved == NULL ? NULL : strrchr(resolved, '/');
  if (slash != NULL && slash != resolved) {
    *slash = '\0';
    add(self, "--read=%s", resolved);
  }
  free(resolved);
}

// The directory in which the file's name is: where that is a link, its neighbours are here.
static void add_version_dir(arguments *self, const char *path)
{
  char *dir = strndup(path, (size_t)(strrchr(path, '/') - path));
  if (dir != NULL)
    add_readable(self, dir);
  free(dir);
}

// An interpreter PREFIX/bin/python3 has its library in PREFIX/lib.
static void add_interpreter(arguments *self, const char *interpreter)
{
  char *prefix = realpath(interpreter, NULL), *library = NULL;
  add_readable(self, interpreter);
  for (int i = 0; i < 2 && prefix != NULL; i++) {
    char *slash = strrchr(prefix, '/');
    if (slash != NULL)
      *slash = '\0';
  }
  if (prefix != NULL && *prefix != '\0' && asprintf(&library, "%s/lib", prefix) >= 0 &&
      access(library, F_OK) == 0)
    add_readable(self, prefix);
  free(library);
  free(prefix);
}

static void add_list(arguments *self, const char *paths)
{
  while (paths != NULL && *paths != '\0') {
    size_t length = strcspn(paths, ":");
    add(self, "--read=%.*s", (int)length, paths);
    paths += length + (paths[length] == ':');
  }
}

static void add_devices(arguments *self)
{
  glob_t found;
  if (glob("/dev/nvidia*", 0, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc; i++)
    add(self, "--device=%s", found.gl_pathv[i]);
  globfree(&found);
}

static void add_strict(arguments *self, const worker_sandbox *sandbox, const worker_paths *paths,
                       const python_interpreter *python)
{
  char *main_file;
  add(self, "--scratch=%" PRId64, sandbox->scratch_bytes);
  add_interpreter(self, python->path);
  if (python->dir != NULL)
    add_readable(self, python->dir);
  add_readable(self, paths->model);
  add_version_dir(self, paths->model_file);
  add_dir_of(self, paths->model_file);
  if (paths->backend_model != NULL)
    add_readable(self, paths->backend_model);
  add(self, "--read=%s/worker", paths->backend);
  if (asprintf(&main_file, "%s/worker/__main__.py", paths->backend) >= 0) {
    add_dir_of(self, main_file); // in a build directory it is a link
    free(main_file);
  }
  add_list(self, sandbox->read_paths);
  add_devices(self);
}

TRITONSERVER_Error *worker_command_new(const worker_sandbox *self, const worker_paths *paths,
                                       const python_interpreter *python, char ***command)
{
  arguments line = {0};
  add(&line, "%s/nereid-worker-launcher", paths->backend);
  add(&line, "--sandbox=%s", self->strict ? "strict" : "standard");
  add(&line, "--parent=%d", (int)getpid());
  add_bound(&line, "processes", self->processes);
  add_bound(&line, "descriptors", self->descriptors);
  add_bound(&line, "memory", self->memory_bytes);
  add_bound(&line, "file", self->file_bytes);
  if (self->strict)
    add_strict(&line, self, paths, python);
  add(&line, "--");
  add(&line, "%s", python->path);
  add(&line, "%s/worker", paths->backend);
  if (!line.failed) {
    *command = line.items;
    return NULL;
  }
  worker_command_free(line.items);
  return backend_error_no_memory("a Python worker");
}

void worker_command_free(char **command)
{
  for (char **argument = command; argument != NULL && *argument != NULL; argument++)
    free(*argument);
  free(command);
}
