// SPDX-License-Identifier: Apache-2.0
// Reads the settings, and writes the launcher's command line and a worker's variables.
#include "process/sandbox.h"

#include "backend_config.h"
#include "backend_error.h"
#include "base/cleanup.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <glob.h>
#include <inttypes.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIBIBYTE (INT64_C(1) << 30)

// ---- settings

#define AS_SERVER         0
#define MACHINE_MEMORY    (-1)
#define QUARTER_OF_MEMORY (-4)

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIELD(name)  offsetof(worker_sandbox, name)

static const struct {
  const char *key;
  size_t field;
  int64_t min;
  int64_t usual[2]; // default at level standard, strict
} NUMBERS[] = {
    {"worker-processes", FIELD(processes), 16, {AS_SERVER, 8192}},
    {"worker-descriptors", FIELD(descriptors), 64, {AS_SERVER, AS_SERVER}},
    {"worker-memory-bytes", FIELD(memory_bytes), 64 << 20, {AS_SERVER, MACHINE_MEMORY}},
    {"worker-shared-bytes", FIELD(shared_bytes), 1 << 20, {QUARTER_OF_MEMORY, QUARTER_OF_MEMORY}},
    {"worker-file-bytes", FIELD(file_bytes), 1 << 20, {AS_SERVER, 64 * GIBIBYTE}},
    {"worker-scratch-bytes", FIELD(scratch_bytes), 1 << 20, {GIBIBYTE, GIBIBYTE}},
};

static const char LEVEL[] = "worker-sandbox", READ_PATHS[] = "worker-read-paths";

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
        backend_read_integer("setting", NUMBERS[i].key, text, NUMBERS[i].min, INT64_MAX, value));
  }
  return NULL;
}

// Each path must be absolute, because the worker may have another working directory.
static TRITONSERVER_Error *read_paths(worker_sandbox *self, const char *text)
{
  if (text == NULL || *text == '\0')
    return NULL;
  for (const char *at = text; at != NULL; at = strchr(at, ':')) {
    at += *at == ':';
    if (*at != '/')
      return backend_error_invalid("setting %s: '%s' is no list of absolute paths", READ_PATHS,
                                   text);
  }
  self->read_paths = strdup(text);
  return self->read_paths != NULL ? NULL : backend_error_no_memory("the backend");
}

TRITONSERVER_Error *worker_sandbox_init(worker_sandbox *self, const json_t *settings)
{
  *self = (worker_sandbox){0};
  const char *level = json_string_value(json_object_get(settings, LEVEL));
  if (level != NULL && strcmp(level, "standard") != 0 && strcmp(level, "strict") != 0)
    return backend_error_invalid("setting %s: '%s' is neither standard nor strict", LEVEL, level);
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

static void add_bound(string_list *self, const char *option, int64_t bound)
{
  if (bound != AS_SERVER)
    string_list_add_format(self, "--%s=%" PRId64, option, bound);
}

// Adds the path after following links, or its directory. Missing paths and the root are skipped.
static void add_readable(string_list *self, const char *path, bool dir_of)
{
  AUTO_FREE char *resolved = realpath(path, NULL);
  if (resolved != NULL && dir_of)
    dirname(resolved);
  if (resolved != NULL && strcmp(resolved, "/") != 0)
    string_list_add_format(self, "--read=%s", resolved);
}

// An interpreter PREFIX/bin/python3 has its library in PREFIX/lib.
static void add_interpreter(string_list *self, const char *interpreter)
{
  AUTO_FREE char *library = NULL, *prefix = realpath(interpreter, NULL);
  add_readable(self, interpreter, false);
  if (prefix != NULL && asprintf(&library, "%s/lib", dirname(dirname(prefix))) >= 0 &&
      access(library, F_OK) == 0)
    add_readable(self, prefix, false);
}

static void add_list(string_list *self, const char *paths)
{
  while (paths != NULL && *paths != '\0') {
    size_t length = strcspn(paths, ":");
    string_list_add_format(self, "--read=%.*s", (int)length, paths);
    paths += length + (paths[length] == ':');
  }
}

// Adds the driver's library where this process has loaded it, and the kernel module's files.
static void add_driver(string_list *self)
{
  Dl_info found = {0};
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (library == NULL)
    return;
  const void *function = dlsym(library, "cuInit");
  if (function != NULL && dladdr(function, &found) != 0 && found.dli_fname != NULL)
    add_readable(self, found.dli_fname, true);
  add_readable(self, "/proc/driver/nvidia", false);
  dlclose(library);
}

// WSL2 has its GPUs behind one device of its own.
static void add_devices(string_list *self)
{
  glob_t found = {0};
  if (glob("/dev/nvidia*", 0, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc; i++)
      string_list_add_format(self, "--device=%s", found.gl_pathv[i]);
  globfree(&found);
  if (access("/dev/dxg", F_OK) == 0)
    string_list_add_format(self, "--device=/dev/dxg");
}

// Besides the model's file its neighbours are readable; if the file is a link, also those of its
// target. In a build directory the worker's own files are links.
static void add_strict(string_list *self, const worker_sandbox *sandbox, const worker_paths *paths,
                       const python_interpreter *python)
{
  AUTO_FREE char *main_file = NULL, *version_dir = strdup(paths->model_file);
  if (version_dir == NULL || asprintf(&main_file, "%s/worker/__main__.py", paths->backend) < 0) {
    self->failed = true;
    return;
  }
  string_list_add_format(self, "--scratch=%" PRId64, sandbox->scratch_bytes);
  add_interpreter(self, python->path);
  if (python->dir != NULL)
    add_readable(self, python->dir, false);
  add_readable(self, paths->model, false);
  add_readable(self, dirname(version_dir), false);
  add_readable(self, paths->model_file, true);
  if (paths->backend_model != NULL)
    add_readable(self, paths->backend_model, false);
  string_list_add_format(self, "--read=%s/worker", paths->backend);
  add_readable(self, main_file, true);
  add_list(self, sandbox->read_paths);
  add_driver(self);
  add_devices(self);
}

TRITONSERVER_Error *worker_command_init(string_list *line, const worker_sandbox *self,
                                        const worker_paths *paths, const python_interpreter *python)
{
  *line = (string_list){0};
  string_list_add_format(line, "%s/nereid-worker-launcher", paths->backend);
  string_list_add_format(line, "--sandbox=%s", self->strict ? "strict" : "standard");
  string_list_add_format(line, "--parent=%d", (int)getpid());
  add_bound(line, "processes", self->processes);
  add_bound(line, "descriptors", self->descriptors);
  add_bound(line, "memory", self->memory_bytes);
  add_bound(line, "file", self->file_bytes);
  if (self->strict)
    add_strict(line, self, paths, python);
  string_list_add_format(line, "--");
  string_list_add_format(line, "%s", python->path);
  string_list_add_format(line, "%s/worker", paths->backend);
  return line->failed ? backend_error_no_memory("a Python worker") : NULL;
}

// ---- the variables

// Variables between the server and its service manager, and the place of its credentials.
static const char *const DROPPED[] = {
    "NOTIFY_SOCKET",  "WATCHDOG_USEC", "WATCHDOG_PID",          "LISTEN_PID",
    "LISTEN_PIDFDID", "LISTEN_FDS",    "LISTEN_FDNAMES",        "MAINPID",
    "MANAGERPID",     "INVOCATION_ID", "CREDENTIALS_DIRECTORY", "TRITON_CLOUD_CREDENTIAL_PATH",
    "JOURNAL_STREAM"};

// For level strict.
static const char *const PASSED[] = { // programs, people, numeric libraries, frameworks
    "PATH",         "LD_LIBRARY_PATH", "PYTHON*", "MALLOC_*",  "GLIBC_TUNABLES",
    "LANG",         "LANGUAGE",        "LC_*",    "TZ",        "SSL_CERT_FILE",
    "SSL_CERT_DIR", "OMP_*",           "KMP_*",   "GOMP_*",    "MKL_*",
    "OPENBLAS_*",   "BLIS_*",          "GOTO_*",  "NUMEXPR_*", "NUMBA_*",
    "CUDA_*",       "NVIDIA_*",        "NCCL_*",  "TORCH_*",   "PYTORCH_*",
    "TF_*",         "XLA_*",           "JAX_*",   "HF_*",      "TRANSFORMERS_*",
    "TOKENIZERS_*"};
static const char *const SECRETS[] = {"*TOKEN*", "*SECRET*", "*PASSWORD*", "*CREDENTIAL*", "*KEY*"};

// These libraries start one thread per processor in each worker, unless a variable limits them.
static const char *const THREAD_COUNTS[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

static bool is_in(const char *name, const char *const *patterns, size_t count, int flags)
{
  for (size_t i = 0; i < count; i++)
    if (fnmatch(patterns[i], name, flags) == 0)
      return true;
  return false;
}

// Variables that add_python_variables sets, or that could lead to another Python.
static bool is_replaced(const char *name, const python_interpreter *python)
{
  static const char *const names[] = {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME",
                                      "LD_LIBRARY_PATH"};
  return python->kind != ENVIRONMENT_NONE &&
         is_in(name, names, COUNT(names) - (python->kind != ENVIRONMENT_CONDA), 0);
}

static bool is_passed(const char *variable, const python_interpreter *python, bool strict)
{
  AUTO_FREE char *name = strndup(variable, strcspn(variable, "="));
  if (name == NULL || is_in(name, DROPPED, COUNT(DROPPED), 0) || is_replaced(name, python))
    return false;
  return !strict || (is_in(name, PASSED, COUNT(PASSED), 0) &&
                     !is_in(name, SECRETS, COUNT(SECRETS), FNM_CASEFOLD));
}

// "NAME=dir/below:rest", without the colon when there is no rest.
static void add_path(string_list *to, const char *name, const char *dir, const char *below)
{
  const char *rest = getenv(name);
  bool more = rest != NULL && *rest != '\0';
  string_list_add_format(to, "%s=%s/%s%s%s", name, dir, below, more ? ":" : "", more ? rest : "");
}

// As the environment's script `activate` does.
static void add_python_variables(const python_interpreter *python, string_list *to)
{
  if (python->kind == ENVIRONMENT_NONE)
    return;
  bool virtual = python->kind == ENVIRONMENT_VIRTUAL;
  add_path(to, "PATH", python->dir, "bin");
  string_list_add_format(to, "%s=%s", virtual ? "VIRTUAL_ENV" : "CONDA_PREFIX", python->dir);
  if (!virtual)
    add_path(to, "LD_LIBRARY_PATH", python->dir, "lib");
}

TRITONSERVER_Error *worker_variables_init(string_list *to, const python_interpreter *python,
                                          int64_t threads, bool strict)
{
  *to = (string_list){0};
  for (char **variable = environ; *variable != NULL; variable++)
    if (is_passed(*variable, python, strict))
      string_list_add(to, *variable);
  add_python_variables(python, to);
  for (size_t i = 0; i < COUNT(THREAD_COUNTS); i++)
    if (getenv(THREAD_COUNTS[i]) == NULL)
      string_list_add_format(to, "%s=%lld", THREAD_COUNTS[i],
                             (long long)(threads < 1 ? 1 : threads));
  return to->failed ? backend_error_no_memory("the model") : NULL;
}
