// SPDX-License-Identifier: Apache-2.0
// Sorts the paths given to `nereid serve`: model files, models' directories, repositories.
#include "daemon/serve_command.h"

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/files.h"
#include "base/text.h"
#include "config/backend_traits.h"
#include "daemon/private_repository.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FIRST_VERSION "1"

typedef struct serving {
  daemon_options *options;
  int links;         // the private repository; -1: not made yet
  string_list names; // of models in it
  string_list paths; // where each is from
} serving;

// ---- names ----

static bool is_version(const char *name)
{
  return name[0] >= '1' && name[0] <= '9' && name[strspn(name, "0123456789")] == '\0';
}

// The directory's name after following links; for a version's directory, its model's name.
static error *name_of_directory(const char *path, char **name)
{
  char real[PATH_MAX];
  if (realpath(path, real) == NULL)
    return error_new(ERROR_INVALID_ARG, "failed to look at '%s': %s", path, strerror(errno));
  char *slash = strrchr(real, '/');
  if (is_version(slash + 1) && slash > real) {
    *slash = '\0';
    slash = strrchr(real, '/');
  }
  *name = strdup(slash[1] != '\0' ? slash + 1 : "model");
  return *name != NULL ? NULL : error_no_memory();
}

// "resnet50.onnx" and "resnet50/model.onnx" both give resnet50.
static error *name_of_file(const char *path, const char *ending, char **name)
{
  AUTO_FREE char *above = NULL;
  AUTO_FREE char *last = NULL;
  RETURN_IF_ERROR(files_split(path, &above, &last));
  if (text_ends_with(last, ending))
    last[strlen(last) - strlen(ending)] = '\0';
  if (strcmp(last, "model") == 0 || strcmp(last, "saved_model") == 0)
    return name_of_directory(above, name);
  *name = strdup(last);
  return *name != NULL ? NULL : error_no_memory();
}

// ---- links ----

static error *link_failure(const char *path)
{
  return error_new(ERROR_UNAVAILABLE, "failed to make the link '%s': %s", path, strerror(errno));
}

static error *link_to(const serving *s, const char *target, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static error *link_to(const serving *s, const char *target, const char *format, ...)
{
  va_list arguments;
  AUTO_BUFFER buffer path = BUFFER_EMPTY;
  va_start(arguments, format);
  buffer_append_va(&path, format, arguments);
  va_end(arguments);
  buffer_append_char(&path, '\0');
  AUTO_FREE char *absolute = files_absolute(target);
  if (path.failed || absolute == NULL)
    return error_no_memory();
  return dir_link_to(s->links, path.data, absolute) ? NULL : link_failure(path.data);
}

// "..onnx" without its ending is not a name.
static bool is_name(const char *name)
{
  return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

// Takes the name, and under --secure lets links lead into `dir`. Makes the private repository once.
static error *begin_model(serving *s, const char *name, const char *path, const char *dir)
{
  for (size_t i = 0; i < s->names.count; i++)
    if (strcmp(s->names.items[i], name) == 0)
      return error_new(ERROR_INVALID_ARG,
                       "two models would be called '%s', '%s' and '%s': give one another name, "
                       "<name>=%s",
                       name, s->paths.items[i], path, path);
  if (!is_name(name))
    return error_new(ERROR_INVALID_ARG,
                     "'%s' would be called '%s', which is no name of a model: give it one, "
                     "<name>=%s",
                     path, name, path);
  if (s->links < 0)
    RETURN_IF_ERROR(private_repository_make(s->options, &s->links));
  bool kept = !s->options->secure || string_list_add(&s->options->model_repository_allows, dir);
  return kept && string_list_add(&s->names, name) && string_list_add(&s->paths, path)
             ? NULL
             : error_no_memory();
}

// Links everything in `dir` besides `itself`: files, and the folders for which `wanted` is true.
static error *link_others(const serving *s, const char *dir, const char *itself, const char *to,
                          bool (*wanted)(const file_root *root, const char *name))
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  string_list names = {0};
  error *e = files_open_root(dir, &file_policy_anywhere, &root);
  if (e == NULL)
    e = files_list(&root, ".", &names);
  for (size_t i = 0; e == NULL && i < names.count; i++) {
    file_kind kind;
    const char *name = names.items[i];
    AUTO_FREE char *path = NULL;
    if (name[0] == '.' || strcmp(name, itself) == 0)
      continue;
    e = files_kind(&root, name, &kind);
    if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
      error_free(e); // it cannot be read either
      e = NULL;
      continue;
    }
    if (e != NULL || (kind != FILE_REGULAR && !(kind == FILE_FOLDER && wanted(&root, name))))
      continue;
    e = asprintf(&path, "%s/%s", dir, name) < 0 ? error_no_memory()
                                                : link_to(s, path, "%s/%s", to, name);
  }
  string_list_fini(&names);
  return e;
}

// A folder that Python code may import.
static bool is_package(const file_root *root, const char *name)
{
  char path[NAME_MAX + 32];
  snprintf(path, sizeof(path), "%s/__init__.py", name);
  return files_exists(root, path);
}

static bool is_no_version(const file_root *root, const char *name)
{
  (void)root;
  return !is_version(name);
}

// ---- one model ----

typedef struct model_format {
  const backend_traits *backend;
  const backend_format *format;
  const char *ending; // of the name: ".onnx"
} model_format;

// Finds the format by the name's ending, or by the directory's contents.
static bool find_format(const char *path, bool is_dir, model_format *found)
{
  for (const backend_traits *b = backend_table; b->name != NULL; b++)
    for (const backend_format *f = b->formats; f->file != NULL; f++) {
      char inside[PATH_MAX];
      const char *ending = strchr(f->file, '.');
      bool fits = f->kind != (is_dir ? MODEL_FILE_REGULAR : MODEL_FILE_DIRECTORY) &&
                  text_ends_with(path, ending);
      if (is_dir && f->holds != NULL) {
        snprintf(inside, sizeof(inside), "%s/%s", path, f->holds);
        fits = fits || access(inside, F_OK) == 0;
      }
      *found = (model_format){b, f, ending};
      if (fits)
        return true;
    }
  return false;
}

static bool is_named_before(const backend_traits *b, const backend_format *f)
{
  for (const backend_traits *before = backend_table; before <= b; before++)
    for (const backend_format *other = before->formats; other->file != NULL && other != f; other++)
      if (strcmp(other->file, f->file) == 0)
        return true;
  return false;
}

static error *unknown_format(const char *path)
{
  AUTO_BUFFER buffer endings = BUFFER_EMPTY;
  for (const backend_traits *b = backend_table; b->name != NULL; b++)
    for (const backend_format *f = b->formats; f->file != NULL; f++)
      if (!is_named_before(b, f))
        buffer_append_format(&endings, "%s%s", endings.size > 0 ? ", " : "", strchr(f->file, '.'));
  buffer_append_char(&endings, '\0');
  return error_new(ERROR_INVALID_ARG,
                   "'%s' is no model that nereid knows: expected a file with one of the endings "
                   "%s, a SavedModel, a model's directory or a repository",
                   path, endings.failed ? "" : endings.data);
}

// Links one version of a model that has a configuration.
static error *add_version(serving *s, const char *name, const char *version_dir, const char *dir,
                          const char *version)
{
  RETURN_IF_ERROR(begin_model(s, name, version_dir, dir));
  RETURN_IF_ERROR(link_others(s, dir, version, name, is_no_version));
  return link_to(s, version_dir, "%s/%s", name, version);
}

// Links the files beside a model's file that belong to it.
static error *link_companions(const serving *s, const model_format *f, const char *path,
                              const char *dir, const char *version)
{
  char beside[PATH_MAX];
  if (f->backend == backend_traits_runner())
    return link_others(s, dir, f->format->file, version, is_package);
  if (f->format->beside == NULL || !text_ends_with(path, f->ending))
    return NULL;
  snprintf(beside, sizeof(beside), "%.*s%s", (int)(strlen(path) - strlen(f->ending)), path,
           f->format->beside);
  if (access(beside, F_OK) != 0)
    return NULL;
  return link_to(s, beside, "%s/model%s", version, f->format->beside);
}

static error *add_file(serving *s, const char *given, const char *path, const model_format *f)
{
  AUTO_FREE char *name = NULL;
  AUTO_FREE char *dir = NULL;
  AUTO_FREE char *last = NULL;
  AUTO_FREE char *model_dir = NULL;
  AUTO_FREE char *version = NULL;
  char config[PATH_MAX];
  RETURN_IF_ERROR(name_of_file(path, f->ending, &name));
  if (given != NULL && !text_replace(&name, given))
    return error_no_memory();
  RETURN_IF_ERROR(files_split(path, &dir, &last));
  RETURN_IF_ERROR(files_split(dir, &model_dir, &version));
  snprintf(config, sizeof(config), "%s/config.pbtxt", model_dir);
  if (is_version(version) && strcmp(last, f->format->file) == 0 && access(config, F_OK) == 0)
    return add_version(s, name, dir, model_dir, version);
  char to[NAME_MAX + 8];
  snprintf(to, sizeof(to), "%s/" FIRST_VERSION, name);
  RETURN_IF_ERROR(begin_model(s, name, path, dir));
  RETURN_IF_ERROR(link_to(s, path, "%s/%s", to, f->format->file));
  return link_companions(s, f, path, dir, to);
}

// ---- directories ----

typedef enum directory_kind {
  DIRECTORY_OTHER,
  DIRECTORY_MODEL, // has a configuration or a version
  DIRECTORY_REPOSITORY,
} directory_kind;

static bool has_model_parts(const file_root *root, const string_list *names)
{
  for (size_t i = 0; i < names->count; i++) {
    file_kind kind = FILE_ABSENT;
    const char *name = names->items[i];
    if (strcmp(name, "config.pbtxt") == 0)
      return true;
    if (is_version(name))
      error_free(files_kind(root, name, &kind));
    if (kind == FILE_FOLDER)
      return true;
  }
  return false;
}

static directory_kind kind_of(const file_root *root, const string_list *names)
{
  if (has_model_parts(root, names))
    return DIRECTORY_MODEL;
  for (size_t i = 0; i < names->count; i++) {
    AUTO_ROOT file_root below = FILE_ROOT_CLOSED;
    string_list inner = {0};
    error *e = files_enter(root, names->items[i], &below);
    if (e == NULL && below.descriptor >= 0)
      e = files_list(&below, ".", &inner);
    bool is_model = e == NULL && below.descriptor >= 0 && has_model_parts(&below, &inner);
    string_list_fini(&inner);
    error_free(e);
    if (is_model)
      return DIRECTORY_REPOSITORY;
  }
  return DIRECTORY_OTHER;
}

static error *add_model_dir(serving *s, const char *given, const char *path)
{
  AUTO_FREE char *above = NULL;
  AUTO_FREE char *name = NULL;
  RETURN_IF_ERROR(files_split(path, &above, &name));
  if (given != NULL && !text_replace(&name, given))
    return error_no_memory();
  RETURN_IF_ERROR(begin_model(s, name, path, path));
  return link_to(s, path, "%s", name);
}

// Adds the model files in a directory.
static error *add_files_in(serving *s, const char *path, const string_list *names, size_t *added)
{
  for (size_t i = 0; i < names->count; i++) {
    model_format format;
    struct stat status;
    AUTO_FREE char *file = NULL;
    if (names->items[i][0] == '.')
      continue;
    if (asprintf(&file, "%s/%s", path, names->items[i]) < 0)
      return error_no_memory();
    bool is_there = stat(file, &status) == 0;
    if (!is_there || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) ||
        !find_format(file, S_ISDIR(status.st_mode), &format))
      continue;
    RETURN_IF_ERROR(add_file(s, NULL, file, &format));
    ++*added;
  }
  return NULL;
}

static error *sort_dir(serving *s, const char *given, const char *path, const file_root *root,
                       const string_list *names)
{
  size_t added = 0;
  directory_kind kind = kind_of(root, names);
  if (kind == DIRECTORY_MODEL)
    return add_model_dir(s, given, path);
  if (kind == DIRECTORY_REPOSITORY && !string_list_add(&s->options->model_repositories, path))
    return error_no_memory();
  RETURN_IF_ERROR(add_files_in(s, path, names, &added));
  return kind == DIRECTORY_REPOSITORY || added > 0 ? NULL : unknown_format(path);
}

static error *add_dir(serving *s, const char *given, const char *path)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  string_list names = {0};
  error *e = files_open_root(path, &file_policy_anywhere, &root);
  if (e == NULL)
    e = files_list(&root, ".", &names);
  if (e == NULL)
    e = sort_dir(s, given, path, &root, &names);
  string_list_fini(&names);
  return e;
}

// ---- words ----

static error *add_path(serving *s, const char *given, const char *path)
{
  struct stat status;
  model_format format;
  if (stat(path, &status) != 0)
    return error_new(ERROR_INVALID_ARG, "failed to look at '%s': %s", path, strerror(errno));
  bool is_dir = S_ISDIR(status.st_mode);
  char config[PATH_MAX];
  snprintf(config, sizeof(config), "%s/config.pbtxt", path);
  if (is_dir && access(config, F_OK) == 0) // whatever its name
    return add_model_dir(s, given, path);
  if ((is_dir || S_ISREG(status.st_mode)) && find_format(path, is_dir, &format))
    return add_file(s, given, path, &format);
  return is_dir ? add_dir(s, given, path) : unknown_format(path);
}

// A word is "<name>=<path>" unless a file has this name.
static error *add_word(serving *s, const char *word)
{
  const char *equals = strchr(word, '=');
  if (equals == NULL || equals == word || access(word, F_OK) == 0)
    return add_path(s, NULL, word);
  AUTO_FREE char *name = text_copy((slice){word, (size_t)(equals - word)});
  if (name == NULL)
    return error_no_memory();
  if (strchr(name, '/') != NULL)
    return add_path(s, NULL, word);
  return add_path(s, name, equals + 1);
}

error *serve_prepare(daemon_options *options)
{
  serving s = {.options = options, .links = -1};
  error *e = NULL;
  if (options->words.count == 0)
    e = error_new(ERROR_INVALID_ARG, "nereid serve needs a model's file: nereid serve model.onnx");
  for (size_t i = 0; e == NULL && i < options->words.count; i++)
    e = add_word(&s, options->words.items[i]);
  if (s.links >= 0)
    close(s.links);
  string_list_fini(&s.names);
  string_list_fini(&s.paths);
  return e;
}
