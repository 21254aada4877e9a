// SPDX-License-Identifier: Apache-2.0
// Walks from the provider's file through all libraries that it needs.
#include "ort_provider.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "elf_needs.h"
#include "framework_system.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_LIBRARIES 256 // in one walk

// The pip package of a library, by the beginning of its name. Packages of CUDA 13 have no suffix,
// except those that are not CUDA's own.
static const struct {
  const char *begin;
  const char *package;
  bool has_suffix;
} packages[] = {
    {"libcublas", "nvidia-cublas", false},       {"libcudart.", "nvidia-cuda-runtime", false},
    {"libcufft", "nvidia-cufft", false},         {"libcurand.", "nvidia-curand", false},
    {"libnvrtc", "nvidia-cuda-nvrtc", false},    {"libcudnn", "nvidia-cudnn", true},
    {"libnvJitLink", "nvidia-nvjitlink", false}, {"libnvinfer", "tensorrt", true},
    {"libnvonnxparser", "tensorrt", true},
};

// Libraries whose names end with CUDA's major version. The first, the runtime, decides.
static const char *const named_after_cuda[] = {"libcudart.so.", "libcublas.so.", "libcublasLt.so.",
                                               "libnvrtc.so.", "libnvJitLink.so."};

// Libraries that the provider opens itself, by name, when a model has such operators.
static const struct {
  int cuda; // 0: any; cuDNN has a version of its own
  const char *name;
} opened_later[] = {
    {0, "libcudnn.so.9"},   {12, "libcufft.so.11"}, {12, "libnvrtc.so.12"},
    {13, "libcufft.so.12"}, {13, "libnvrtc.so.13"},
};

typedef struct library_walk {
  ort_provider_purpose purpose;
  bool strict;
  string_list dirs;    // searched in this order
  string_list seen;    // names
  string_list missing; // names
  char *unsafe;        // the first file that others may write, and why; no error by itself
  char *why;           // the first file that cannot be read or opened, and why
  int cuda;            // the needed major version; 0: unknown
} library_walk;

static void walk_file(library_walk *self, const char *path);

// ---- directories ----

// Adds all of <packages>/nvidia/*/lib: CUDA 13 has one such directory, CUDA 12 one per package.
static void add_nvidia_dirs(library_walk *self, const char *packages_dir)
{
  char nvidia[PATH_MAX];
  DIR *all = framework_path(nvidia, "%s/nvidia", packages_dir) ? opendir(nvidia) : NULL;
  const struct dirent *entry;
  while (all != NULL && (entry = readdir(all)) != NULL)
    if (entry->d_name[0] != '.')
      string_list_add_format(&self->dirs, "%s/%s/lib", nvidia, entry->d_name);
  if (all != NULL)
    closedir(all);
}

// ONNX Runtime's directory is <packages>/onnxruntime/capi.
static void list_dirs(library_walk *self, const char *dir)
{
  char above[PATH_MAX];
  string_list_add(&self->dirs, dir);
  if (!framework_path(above, "%s/../..", dir))
    return;
  char *packages_dir AUTO_FREE = realpath(above, NULL);
  if (packages_dir == NULL)
    return;
  add_nvidia_dirs(self, packages_dir);
  string_list_add_format(&self->dirs, "%s/tensorrt_libs", packages_dir);
}

// The first safe file of this name, for free(); NULL: no directory has one.
static char *find_file(library_walk *self, const char *name)
{
  for (size_t i = 0; i < self->dirs.count; i++) {
    char path[PATH_MAX];
    char *unsafe = NULL;
    if (!framework_path(path, "%s/%s", self->dirs.items[i], name) || access(path, R_OK) != 0)
      continue;
    if (framework_is_safe(path, self->strict, &unsafe))
      return strdup(path);
    if (self->unsafe == NULL && unsafe != NULL &&
        asprintf(&self->unsafe, "'%s' is left alone, since %s", path, unsafe) < 0)
      self->unsafe = NULL;
    free(unsafe);
  }
  return NULL;
}

// ---- one library ----

static bool is_in_process(const char *name)
{
  void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library != NULL)
    dlclose(library);
  return library != NULL;
}

// Whether the loader finds it. With ORT_PROVIDER_OPEN the library stays open.
static bool loader_finds(const library_walk *self, const char *name)
{
  const bool keep = self->purpose == ORT_PROVIDER_OPEN;
  void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | (keep ? RTLD_NODELETE : 0));
  if (library != NULL)
    dlclose(library);
  return library != NULL;
}

static void open_file(library_walk *self, const char *path)
{
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (library != NULL)
    dlclose(library);
  else if (self->why == NULL)
    self->why = backend_one_line(dlerror());
}

// A provider may contain the runtime, and so not need its library.
static void note_cuda(library_walk *self, const char *name)
{
  for (size_t i = 0; i < sizeof(named_after_cuda) / sizeof(named_after_cuda[0]); i++) {
    int64_t version = 0;
    const char *rest = NULL, *begin = named_after_cuda[i];
    if ((i == 0 || self->cuda == 0) && text_starts_with(name, begin) &&
        text_begins_int64(name + strlen(begin), &version, &rest) && version > 0 && version < 1000)
      self->cuda = (int)version;
  }
}

// False: no such library. A second call for the same name returns true.
static bool walk_library(library_walk *self, const char *name)
{
  note_cuda(self, name);
  if (string_list_contains(&self->seen, name) || self->seen.count >= MOST_LIBRARIES)
    return true;
  string_list_add(&self->seen, name);
  if (is_in_process(name))
    return true;
  char *path AUTO_FREE = find_file(self, name);
  if (path == NULL)
    return loader_finds(self, name);
  walk_file(self, path);
  if (self->purpose == ORT_PROVIDER_OPEN)
    open_file(self, path);
  return true;
}

// Walks all libraries that the file needs.
static void walk_file(library_walk *self, const char *path)
{
  string_list names = {0};
  const char *why = NULL;
  if (!elf_needs(path, &names, &why) && self->why == NULL &&
      asprintf(&self->why, "'%s' %s", path, why != NULL ? why : "cannot be read") < 0)
    self->why = NULL;
  for (size_t i = 0; i < names.count; i++)
    if (!walk_library(self, names.items[i]))
      string_list_add(&self->missing, names.items[i]);
  string_list_fini(&names);
}

// ---- messages ----

static void print_list(FILE *stream, const string_list *list, const char *quote)
{
  for (size_t i = 0; i < list->count; i++)
    fprintf(stream, "%s%s%s%s", i > 0 ? ", " : "", quote, list->items[i], quote);
}

// The packages with these libraries, each once.
static void list_packages(const library_walk *self, const string_list *names, string_list *result)
{
  for (size_t i = 0; i < names->count; i++)
    for (size_t k = 0; k < sizeof(packages) / sizeof(packages[0]); k++) {
      char text[64];
      if (strncmp(names->items[i], packages[k].begin, strlen(packages[k].begin)) != 0)
        continue;
      const bool suffix = self->cuda > 0 && (packages[k].has_suffix || self->cuda < 13);
      snprintf(text, sizeof(text), suffix ? "%s-cu%d" : "%s", packages[k].package, self->cuda);
      if (!string_list_contains(result, text))
        string_list_add(result, text);
    }
}

// "<names>: not found in <places>; <why>; pip install <packages>", for free().
static char *missing_text(const library_walk *self)
{
  char *text = NULL;
  size_t size = 0;
  string_list install = {0};
  FILE *stream = open_memstream(&text, &size);
  if (stream == NULL)
    return NULL;
  list_packages(self, &self->missing, &install);
  print_list(stream, &self->missing, "");
  fputs(": not found in ", stream);
  print_list(stream, &self->dirs, "'");
  fputs(" nor in the loader's path", stream);
  if (self->unsafe != NULL)
    fprintf(stream, "; %s", self->unsafe);
  if (self->why != NULL)
    fprintf(stream, "; %s", self->why);
  if (string_list_contains(&self->missing, "libcuda.so.1"))
    fputs("; libcuda.so.1 is NVIDIA's driver", stream);
  for (size_t i = 0; i < install.count; i++)
    fprintf(stream, "%s %s", i == 0 ? "; pip install" : "", install.items[i]);
  string_list_fini(&install);
  fclose(stream);
  return text;
}

static TRITONSERVER_Error *outcome(const library_walk *self, const char *file)
{
  char *missing AUTO_FREE = self->missing.count > 0 ? missing_text(self) : NULL;
  if (self->dirs.failed || self->seen.failed || self->missing.failed ||
      (self->missing.count > 0 && missing == NULL))
    return backend_error_no_memory("a provider's libraries");
  if (missing != NULL)
    return backend_error_unavailable("%s needs %s", file, missing);
  return self->why == NULL ? NULL
                           : backend_error_unavailable("%s needs a library that does not open: %s",
                                                       file, self->why);
}

// ---- libraries that may be missing ----

static bool has_seen(const library_walk *self, const char *begin)
{
  for (size_t i = 0; i < self->seen.count; i++)
    if (text_starts_with(self->seen.items[i], begin))
      return true;
  return false;
}

static void open_later_ones(library_walk *self, const char *file)
{
  const bool links_cudnn = has_seen(self, "libcudnn.so."); // as providers for cuDNN 8 do
  static atomic_bool told;
  for (size_t i = 0; i < sizeof(opened_later) / sizeof(opened_later[0]); i++) {
    const char *name = opened_later[i].name;
    const bool applies =
        opened_later[i].cuda == 0 ? !links_cudnn : opened_later[i].cuda == self->cuda;
    if (applies && !walk_library(self, name))
      string_list_add(&self->missing, name);
  }
  char *missing AUTO_FREE = self->missing.count > 0 ? missing_text(self) : NULL;
  if (missing != NULL && !atomic_exchange(&told, true))
    BACKEND_LOG_WARN(
        "models with operators of cuDNN, cuFFT or NVRTC may not run on a GPU (%s opens "
        "them by name): %s",
        file, missing);
}

bool ort_provider_exists(const char *dir, const char *file)
{
  char path[PATH_MAX];
  return framework_path(path, "%s/%s", dir, file) && access(path, R_OK) == 0;
}

// Checks a file that ONNX Runtime opens itself, in its own directory.
static TRITONSERVER_Error *check_own(const char *dir, const char *name, bool strict,
                                     char path[PATH_MAX])
{
  char *why AUTO_FREE = NULL;
  if (!framework_path(path, "%s/%s", dir, name))
    return backend_error_invalid("the path of '%s' is too long", dir);
  if (access(path, F_OK) != 0 || framework_is_safe(path, strict, &why))
    return NULL;
  return backend_error_unavailable("'%s' is left alone, since %s", path,
                                   why != NULL ? why : "others may write there");
}

TRITONSERVER_Error *ort_provider_libraries(const char *dir, const char *file, bool strict,
                                           ort_provider_purpose purpose)
{
  library_walk walk = {.purpose = purpose, .strict = strict};
  char path[PATH_MAX];
  BACKEND_RETURN_IF_ERROR(check_own(dir, "libonnxruntime_providers_shared.so", strict, path));
  BACKEND_RETURN_IF_ERROR(check_own(dir, file, strict, path));
  list_dirs(&walk, dir);
  walk_file(&walk, path);
  TRITONSERVER_Error *error = outcome(&walk, file);
  if (error == NULL && purpose == ORT_PROVIDER_OPEN)
    open_later_ones(&walk, file);
  string_list_fini(&walk.dirs);
  string_list_fini(&walk.seen);
  string_list_fini(&walk.missing);
  free(walk.unsafe);
  free(walk.why);
  return error;
}
