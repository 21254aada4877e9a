// SPDX-License-Identifier: Apache-2.0
// Reads a package by libarchive.
#include "torch_package.h"

#include "archive_library.h"
#include "backend_error.h"
#include "base/buffer.h"
#include "base/files.h"
#include "torch_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER              "data/aotinductor/"
#define BLOCK_BYTES         (1 << 16)
#define MOST_JSON_BYTES     (1 << 24)
#define MOST_NAME_BYTES     256
#define ARCH_REQ_XCOMP_PERM 0x1023 // Linux; missing in older headers
#define XFEATURE_XTILEDATA  18
#define CHECK_VARIABLE      "AOTI_RUNTIME_CHECK_INPUTS" // read by the shared object

typedef struct reading {
  const archive_library *library;
  struct archive *archive;
  const char *path;
  char model[MOST_NAME_BYTES]; // the model whose folder is read
  torch_package *package;
} reading;

static TRITONSERVER_Error *unreadable(const reading *self)
{
  const char *why = self->library->error_string(self->archive);
  return backend_error_invalid("'%s' is no package of a compiled model (.pt2): %s", self->path,
                               why != NULL ? why : "it cannot be read");
}

// ---- names ----

// Splits "<top>/data/aotinductor/<model>/<file>" into the last two; false for other names.
static bool split_name(const char *name, const char **model, size_t *length, const char **file)
{
  const char *at = name == NULL ? NULL : strstr(name, FOLDER);
  if (at == NULL || (at != name && at[-1] != '/'))
    return false;
  *model = at + strlen(FOLDER);
  *length = strcspn(*model, "/");
  if (*length == 0 || *length >= MOST_NAME_BYTES || (*model)[*length] != '/')
    return false;
  *file = *model + *length + 1;
  return strchr(*file, '/') == NULL;
}

static bool ends_with(const char *name, const char *end)
{
  const size_t length = strlen(name), wanted = strlen(end);
  return length >= wanted && strcmp(name + length - wanted, end) == 0;
}

// ---- entries ----

static TRITONSERVER_Error *copy_to_memory(const reading *self, int *to)
{
  char block[BLOCK_BYTES];
  la_ssize_t size;
  if (*to >= 0)
    return backend_error_invalid("'%s' has two shared objects or two files of weights for '%s'",
                                 self->path, self->model);
  *to = torch_memory_file("a part of a package"); // memfd_create refuses a long name
  if (*to < 0)
    return backend_error_no_memory(self->path);
  while ((size = self->library->read_data(self->archive, block, sizeof(block))) > 0)
    if (!files_write(*to, block, (size_t)size))
      return backend_error_unavailable("'%s' does not fit into memory: %s", self->path,
                                       strerror(errno));
  return size == 0 ? NULL : unreadable(self);
}

static TRITONSERVER_Error *read_json(const reading *self, const char *file, json_t **value)
{
  buffer text AUTO_BUFFER = BUFFER_EMPTY;
  json_error_t where;
  la_ssize_t size = 0;
  do {
    char *room = buffer_reserve(&text, BLOCK_BYTES);
    if (room == NULL)
      return backend_error_no_memory(self->path);
    size = self->library->read_data(self->archive, room, BLOCK_BYTES);
    text.size += size > 0 ? (size_t)size : 0;
  } while (size > 0 && text.size <= MOST_JSON_BYTES);
  if (size != 0)
    return size < 0 ? unreadable(self)
                    : backend_error_invalid("'%s': '%s' is too large", self->path, file);
  *value = json_loadb(text.data, text.size, 0, &where);
  return *value != NULL
             ? NULL
             : backend_error_invalid("'%s': '%s' is not JSON: %s", self->path, file, where.text);
}

static TRITONSERVER_Error *take_json(reading *self, const char *file)
{
  json_t *value = NULL;
  BACKEND_RETURN_IF_ERROR(read_json(self, file, &value));
  if (ends_with(file, "_metadata.json"))
    json_object_update_missing(self->package->metadata, value);
  else if (json_array_size(json_object_get(value, "nodes")) > 0)
    self->package->needs_more = true;
  json_decref(value);
  return NULL;
}

static TRITONSERVER_Error *take_entry(reading *self, const char *name)
{
  const char *model, *file;
  size_t length;
  if (!split_name(name, &model, &length, &file) || length != strlen(self->model) ||
      strncmp(model, self->model, length) != 0)
    return NULL;
  if (ends_with(file, ".so"))
    return copy_to_memory(self, &self->package->library);
  if (ends_with(file, "_weights.blob"))
    return copy_to_memory(self, &self->package->weights);
  return ends_with(file, ".json") ? take_json(self, file) : NULL;
}

// Notes whose folder to read: that of "model", or the first.
static TRITONSERVER_Error *note_model(reading *self, const char *name)
{
  const char *model, *file;
  size_t length;
  if (split_name(name, &model, &length, &file) && ends_with(file, ".so") &&
      (self->model[0] == '\0' || strncmp(model, "model/", 6) == 0))
    snprintf(self->model, sizeof(self->model), "%.*s", (int)length, model);
  return NULL;
}

// ---- the archive ----

static TRITONSERVER_Error *walk(reading *self, int file,
                                TRITONSERVER_Error *(*visit)(reading *, const char *))
{
  struct archive_entry *entry;
  TRITONSERVER_Error *error = NULL;
  self->archive = self->library->read_new();
  if (self->archive == NULL)
    return backend_error_no_memory(self->path);
  self->library->read_support_format_zip(self->archive);
  if (lseek(file, 0, SEEK_SET) < 0 ||
      self->library->read_open_fd(self->archive, file, BLOCK_BYTES) != ARCHIVE_OK)
    error = unreadable(self);
  while (error == NULL) {
    const int result = self->library->read_next_header(self->archive, &entry);
    if (result == ARCHIVE_EOF)
      break;
    error = result < ARCHIVE_WARN ? unreadable(self)
                                  : visit(self, self->library->entry_pathname(entry));
  }
  self->library->read_free(self->archive);
  return error;
}

TRITONSERVER_Error *torch_package_read(int file, const char *path, torch_package *package)
{
  reading self = {.path = path, .package = package};
  package->metadata = json_object();
  if (package->metadata == NULL)
    return backend_error_no_memory(path);
  BACKEND_RETURN_IF_ERROR(archive_library_open(path, &self.library));
  BACKEND_RETURN_IF_ERROR(walk(&self, file, note_model));
  if (self.model[0] == '\0')
    return backend_error_invalid(
        "'%s' has no compiled model: no shared object (.so) in a folder " FOLDER
        "<model>/. torch._inductor.aoti_compile_and_package makes such packages; a file of "
        "TorchScript is for platform 'pytorch_libtorch'",
        path);
  return walk(&self, file, take_entry);
}

void torch_package_fini(torch_package *package)
{
  if (package->library >= 0)
    close(package->library);
  if (package->weights >= 0)
    close(package->weights);
  json_decref(package->metadata);
  *package = TORCH_PACKAGE_EMPTY;
}

// ---- the machine ----

static bool has_instructions(const char *set)
{
#if defined __x86_64__
  if (strcmp(set, "AVX2") == 0)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (strcmp(set, "AVX512") == 0)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (strcmp(set, "AVX512_VNNI") == 0)
    return __builtin_cpu_supports("avx512vnni");
  if (strcmp(set, "AMX_TILE") == 0) // who uses it has to ask for it, once for the process
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
  static const char *const of_others[] = {"NEON", "ASIMD", "SVE", "SVE256", "ZVECTOR", "VSX"};
#else
  static const char *const of_others[] = {"AVX2", "AVX512", "AVX512_VNNI", "AMX_TILE"};
#endif
  for (size_t i = 0; i < sizeof(of_others) / sizeof(of_others[0]); i++)
    if (strcmp(set, of_others[i]) == 0)
      return false;
  return true; // an unknown set is not refused
}

#if defined __aarch64__
const torch_machine torch_own_machine = {"aarch64", has_instructions};
#else
const torch_machine torch_own_machine = {"x86_64", has_instructions};
#endif

static const char *text_of(const torch_package *package, const char *key)
{
  const char *text = json_string_value(json_object_get(package->metadata, key));
  return text != NULL ? text : "";
}

TRITONSERVER_Error *torch_package_check(const torch_package *package, const torch_machine *machine,
                                        const char *path)
{
  const char *device = text_of(package, "AOTI_DEVICE_KEY"),
             *made_for = text_of(package, "AOTI_MACHINE");
  char sets[MOST_NAME_BYTES];
  char *rest = NULL;
  if (*device != '\0' && strcmp(device, "cpu") != 0)
    return backend_error_invalid(
        "'%s' was compiled for device '%.64s', this backend runs packages for 'cpu'", path, device);
  if (*made_for != '\0' && strcmp(made_for, machine->name) != 0)
    return backend_error_invalid("'%s' was compiled for %.64s, and this machine is %s", path,
                                 made_for, machine->name);
  snprintf(sets, sizeof(sets), "%s", text_of(package, "AOTI_CPU_ISA"));
  for (char *set = strtok_r(sets, " ", &rest); set != NULL; set = strtok_r(NULL, " ", &rest))
    if (!machine->has(set))
      return backend_error_invalid(
          "'%s' was compiled for the instruction set %s, which this processor does not have: "
          "compile it on such a machine, or with ATEN_CPU_CAPABILITY=avx2 or =default in the "
          "environment",
          path, set);
  return package->needs_more
             ? backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                             "'%s' calls operators that have no C interface (custom ones)", path)
             : NULL;
}

static TRITONSERVER_Error *change(char *data, size_t size, const char *path, bool check,
                                  bool *checks)
{
  if (!torch_make_unloadable(data, size))
    return backend_error_invalid("'%s': its shared object is not for %s, or cut off", path,
                                 torch_own_machine.name);
  char *variable = memmem(data, size, CHECK_VARIABLE, sizeof(CHECK_VARIABLE));
  *checks = variable != NULL;
  if (variable != NULL && !check)
    memset(variable, '-', strlen(CHECK_VARIABLE)); // a variable that is never set
  return NULL;
}

TRITONSERVER_Error *torch_package_prepare(const torch_package *package, const char *path,
                                          bool check, bool *checks)
{
  struct stat status;
  void *data = MAP_FAILED;
  if (fstat(package->library, &status) == 0 && status.st_size > 0)
    data =
        mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, package->library, 0);
  if (data == MAP_FAILED)
    return backend_error_invalid("'%s': its shared object cannot be read", path);
  TRITONSERVER_Error *error = change(data, (size_t)status.st_size, path, check, checks);
  munmap(data, (size_t)status.st_size);
  return error;
}
