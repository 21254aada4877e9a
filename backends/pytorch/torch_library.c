// SPDX-License-Identifier: Apache-2.0
// Opens PyTorch with dlopen.
#include "torch_library.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/machine.h"
#include "base/text.h"
#include "torch_open.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_STUBS  16
#define LEAST_MAJOR 2
#define LEAST_MINOR 5

// c10::Error::Error(c10::SourceLocation, std::string) with C++11's string.
#define OF_CXX11                                                                                   \
  "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

const char *torch_last_error(const torch_library *self)
{
  const char *text = self->last_error != NULL ? self->last_error() : NULL;
  return text != NULL && *text != '\0' ? text : "PyTorch gives no reason";
}

// ---- its version ----

// Reads up to `most` bytes of a file beside the library's directory.
static bool read_beside(const char *library, const char *name, char *text, size_t most)
{
  char path[4096];
  const char *slash = strrchr(library, '/');
  if (slash == NULL || snprintf(path, sizeof(path), "%.*s/../%s", (int)(slash - library), library,
                                name) >= (int)sizeof(path))
    return false;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = file < 0 ? -1 : read(file, text, most - 1);
  if (file >= 0)
    close(file);
  text[size > 0 ? size : 0] = '\0';
  return size > 0;
}

// From the Python package, or from the library without Python.
static void read_version(torch_library *self)
{
  char text[1024];
  const char *at = NULL;
  snprintf(self->version, sizeof(self->version), "of an unknown version");
  if (read_beside(self->path, "version.py", text, sizeof(text)) &&
      (at = strstr(text, "__version__ = '")) != NULL)
    snprintf(self->version, sizeof(self->version), "%.*s", (int)strcspn(at + 15, "'\n"), at + 15);
  else if (read_beside(self->path, "build-version", text, sizeof(text)))
    snprintf(self->version, sizeof(self->version), "%.*s", (int)strcspn(text, "\r\n"), text);
}

static bool is_too_old(const torch_library *self)
{
  int64_t major = 0, minor = 0;
  const char *rest = NULL;
  return text_begins_int64(self->version, &major, &rest) && *rest == '.' &&
         text_begins_int64(rest + 1, &minor, &rest) &&
         (major < LEAST_MAJOR || (major == LEAST_MAJOR && minor < LEAST_MINOR));
}

// ---- opening ----

// PyTorch's wheels need CUDA's runtime for their profiler, which is not used here. Where it is not
// installed, an empty library replaces it.
static TRITONSERVER_Error *open_with_stubs(const char *path, void **handle)
{
  char soname[128];
  for (int i = 0;; i++) {
    *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (*handle != NULL)
      return NULL;
    const char *why = dlerror();
    if (i == MOST_STUBS || !torch_missing_library(why, soname, sizeof(soname)))
      return backend_error(TRITONSERVER_ERROR_NOT_FOUND, "%s", why);
    BACKEND_LOG_VERBOSE("pytorch: %s is not installed, '%s' is opened without it", soname, path);
    if (!torch_open_stub(soname))
      return backend_error_internal("no stand-in for %s can be made", soname);
  }
}

// The loader may have found the library by name only, but version, headers and the shim's libraries
// are beside it. The loader owns the text.
static void find_path(torch_library *self, void *handle)
{
  struct link_map *map = NULL;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && strchr(map->l_name, '/') != NULL)
    self->path = map->l_name;
}

static TRITONSERVER_Error *read_functions(torch_library *self, void *handle)
{
  const framework_function functions[] = {
#define TORCH_ROW(result, function, arguments)                                                     \
  {.name = "aoti_torch_" #function, .member = &self->api.function},
      TORCH_FUNCTIONS(TORCH_ROW)
#undef TORCH_ROW
      // at::set_num_threads(int), at::init_num_threads()
      {.name = "_ZN2at15set_num_threadsEi", .member = &self->set_threads, .optional = true},
      {.name = "_ZN2at16init_num_threadsEv", .member = &self->init_threads, .optional = true},
      {.name = "torch_exception_get_what_without_backtrace",
       .member = &self->last_error,
       .optional = true},
  };
  self->cxx11 = dlsym(handle, OF_CXX11) != NULL;
  return framework_find_functions(handle, self->path, "a PyTorch that serves", functions,
                                  sizeof(functions) / sizeof(functions[0]));
}

// PyTorch uses all processors of the machine; a container may have less.
static void bound_threads(torch_library *self, void *handle)
{
  int (*get_threads)(void) = NULL;
  void *symbol = dlsym(handle, "_ZN2at15get_num_threadsEv");
  memcpy(&get_threads, &symbol, sizeof(symbol));
  const int cpus = (int)machine_cpus();
  if (get_threads != NULL && self->set_threads != NULL)
    self->set_threads(get_threads() < cpus ? get_threads() : cpus);
}

static TRITONSERVER_Error *open_torch(torch_library *self)
{
  void *handle = NULL;
  BACKEND_RETURN_IF_ERROR(open_with_stubs(self->path, &handle));
  find_path(self, handle);
  read_version(self);
  TRITONSERVER_Error *error =
      is_too_old(self) ? backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                                       "'%s' is PyTorch %s, %d.%d or newer is needed", self->path,
                                       self->version, LEAST_MAJOR, LEAST_MINOR)
                       : read_functions(self, handle);
  if (error == NULL && !torch_open_stub("libtorch.so"))
    error = backend_error_internal("no file in memory can be made");
  if (error == NULL)
    bound_threads(self, handle);
  dlclose(handle);
  return error;
}

TRITONSERVER_Error *torch_library_open(framework_library *library)
{
  torch_library *self = calloc(1, sizeof(*self));
  library->state = self;
  if (self == NULL)
    return backend_error_no_memory("PyTorch");
  pthread_mutex_init(&self->lock, NULL);
  self->path = library->path;
  self->settings = library->settings;
  BACKEND_RETURN_IF_ERROR(open_torch(self));
  library->version = self->version;
  return NULL;
}

void torch_library_close(framework_library *library)
{
  torch_library *self = library->state;
  if (self == NULL)
    return;
  pthread_mutex_destroy(&self->lock);
  free(self);
}
