// SPDX-License-Identifier: Apache-2.0
// Classifies the paths of a check; see targets.h.
#include "check/targets.h"

#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void fini_target(check_target *t)
{
  free(t->repository);
  free(t->name);
  free(t->config_name);
  free(t->config_file);
}

void check_targets_fini(check_targets *targets)
{
  for (size_t i = 0; i < targets->count; i++)
    fini_target(&targets->items[i]);
  free(targets->items);
  string_list_fini(&targets->repositories);
}

static error *add_target(check_targets *targets, const char *repository, const char *name,
                         const char *config_name, const char *config_file)
{
  check_target *grown = reallocarray(targets->items, targets->count + 1, sizeof(*targets->items));
  if (grown == NULL)
    return error_no_memory();
  targets->items = grown;
  check_target *t = &grown[targets->count++];
  *t = (check_target){.repository = strdup(repository),
                      .name = strdup(name),
                      .config_name = strdup(config_name),
                      .config_file = config_file != NULL ? strdup(config_file) : NULL};
  bool copied = t->repository != NULL && t->name != NULL && t->config_name != NULL &&
                (t->config_file != NULL) == (config_file != NULL);
  return copied ? NULL : error_no_memory();
}

static error *add_model(check_targets *targets, const char *dir, const char *config_name)
{
  AUTO_FREE char *repository = NULL;
  AUTO_FREE char *name = NULL;
  RETURN_IF_ERROR(files_split(dir, &repository, &name));
  return add_target(targets, repository, name, config_name, NULL);
}

static bool is_model_file(const char *name)
{
  for (const backend_traits *b = backend_table; b->name != NULL; b++)
    for (const backend_format *f = b->formats; f->file != NULL; f++)
      if (text_ends_with(name, strchr(f->file, '.')))
        return true;
  return false;
}

// Adds a configuration: a model's own, one of its configs/, or any other file.
static error *add_file(check_targets *targets, const char *path)
{
  AUTO_FREE char *dir = NULL;
  AUTO_FREE char *file = NULL;
  AUTO_FREE char *above = NULL;
  AUTO_FREE char *last = NULL;
  RETURN_IF_ERROR(files_split(path, &dir, &file));
  if (strcmp(file, "config.pbtxt") == 0)
    return add_model(targets, dir, "");
  if (is_model_file(file))
    return error_new(ERROR_INVALID_ARG,
                     "'%s' is a model's file, expected a repository, a model's directory or a "
                     "configuration; 'nereid serve %s' serves it",
                     path, path);
  RETURN_IF_ERROR(files_split(dir, &above, &last));
  if (strcmp(last, "configs") == 0 && text_ends_with(file, ".pbtxt")) {
    file[strlen(file) - strlen(".pbtxt")] = '\0';
    return add_model(targets, above, file);
  }
  return add_target(targets, above, last, "", file);
}

static error *is_model_dir(const char *path, bool *is_model)
{
  AUTO_FREE char *above = NULL;
  AUTO_FREE char *name = NULL;
  RETURN_IF_ERROR(files_split(path, &above, &name));
  const string_list repositories = {.items = &above, .count = 1};
  AUTO_REPOSITORY_SET repository_set set;
  RETURN_IF_ERROR(repository_set_init(&set, &repositories, &file_policy_anywhere, false));
  return repository_is_model(
      &set, &(repository_model){.name = name, .repository = above, .folder = name}, is_model);
}

static error *add_repository(check_targets *targets, const char *path)
{
  size_t size = strlen(path);
  while (size > 1 && path[size - 1] == '/')
    size--;
  AUTO_FREE char *copy = text_copy((slice){path, size});
  if (copy == NULL)
    return error_no_memory();
  if (string_list_contains(&targets->repositories, copy) ||
      string_list_add(&targets->repositories, copy))
    return NULL;
  return error_no_memory();
}

static error *add_path(check_targets *targets, const server_options *options, const char *path)
{
  struct stat status;
  bool is_model = false;
  if (stat(path, &status) != 0)
    return error_new(ERROR_INVALID_ARG, "failed to look at '%s': %s", path, strerror(errno));
  if (!S_ISDIR(status.st_mode))
    return add_file(targets, path);
  RETURN_IF_ERROR(is_model_dir(path, &is_model));
  return is_model ? add_model(targets, path, options->model_config_name)
                  : add_repository(targets, path);
}

error *check_targets_init(check_targets *targets, const server_options *options,
                          const char *const *paths, size_t count)
{
  *targets = (check_targets){0};
  for (size_t i = 0; i < count; i++)
    RETURN_IF_ERROR(add_path(targets, options, paths[i]));
  for (size_t i = 0; count == 0 && i < options->model_repositories.count; i++)
    RETURN_IF_ERROR(add_repository(targets, options->model_repositories.items[i]));
  return NULL;
}
