// Search for backend libraries. Runs on load threads.
#include "core/backend_search.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"
#include "core/server_options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Settings for one backend override those for all.
static error *print_backend_config(const server_options *options, const char *name, char **json)
{
  setting_list merged = {0};
  char capability[32];
  snprintf(capability, sizeof(capability), "%f", options->min_compute_capability);
  error *e = setting_list_put(&merged, "", "auto-complete-config",
                              options->strict_model_config ? "false" : "true");
  if (e == NULL)
    e = setting_list_put(&merged, "", "backend-directory", options->backend_directory);
  if (e == NULL)
    e = setting_list_put(&merged, "", "min-compute-capability", capability);
  if (e == NULL)
    e = setting_list_put(&merged, "", "default-max-batch-size", "4");
  const char *const groups[] = {"", name};
  for (size_t g = 0; e == NULL && g < 2; g++) {
    for (size_t i = 0; e == NULL && i < options->backend_settings.count; i++) {
      const setting *s = &options->backend_settings.items[i];
      if (strcmp(s->group, groups[g]) == 0 && !text_starts_with(s->name, "nereid-"))
        e = setting_list_put(&merged, "", s->name, s->value);
    }
  }
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, "{\"cmdline\":{");
  for (size_t i = 0; i < merged.count; i++) {
    if (i > 0)
      buffer_append_char(&text, ',');
    buffer_append_json_string(&text, slice_of(merged.items[i].name));
    buffer_append_char(&text, ':');
    buffer_append_json_string(&text, slice_of(merged.items[i].value));
  }
  buffer_append_text(&text, "}}");
  setting_list_fini(&merged);
  if (e == NULL && (*json = buffer_take_text(&text)) == NULL)
    e = error_no_memory();
  return e;
}

// The path of the regular file `name` below `folder` as the kernel resolved it, or NULL.
static char *find_in(const char *folder, const char *name, error **leads_out)
{
  AUTO_CLOSE int root = -1;
  AUTO_CLOSE int file = -1;
  error *e = files_open_root(folder, &root);
  if (e == NULL)
    e = files_open(root, name, FILE_REGULAR, &file);
  if (e != NULL) {
    if (error_get_code(e) == ERROR_INVALID_ARG && *leads_out == NULL && strchr(name, '/') != NULL)
      *leads_out = e;
    else
      error_free(e);
    return NULL;
  }
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof(path) - 1);
  return size < 0 ? NULL : strndup(path, (size_t)size);
}

static bool climbs(const char *name)
{
  return name[0] == '/' || strstr(name, "..") != NULL;
}

static error *find_library(const model_environment *environment, const model_source *source,
                           const char *file, char **library)
{
  char version_folder[PATH_MAX], backend_folder[PATH_MAX];
  const char *backend_name = source->config_owned->backend;
  const char *backends = environment->options->backend_directory;
  int a = snprintf(version_folder, sizeof(version_folder), "%s/%" PRId64, source->folder,
                   source->version);
  int b = snprintf(backend_folder, sizeof(backend_folder), "%s/%s", backends, backend_name);
  if (a >= PATH_MAX || b >= PATH_MAX)
    return error_new(ERROR_INVALID_ARG, "the path of backend '%s' for model '%s' is too long",
                     backend_name, source->name);
  if (climbs(file) || climbs(backend_name))
    return error_new(ERROR_INVALID_ARG, "backend library name '%s' escapes backend directory",
                     climbs(file) ? file : backend_name);
  const char *const folders[] = {version_folder, source->folder, backend_folder};
  error *leads_out = NULL;
  *library = NULL;
  for (size_t i = 0; *library == NULL && i < sizeof(folders) / sizeof(folders[0]); i++)
    *library = find_in(folders[i], file, &leads_out);
  if (*library == NULL && leads_out != NULL)
    return leads_out;
  error_free(leads_out);
  if (*library == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "unable to find backend library '%s' for model '%s', searched: %s, %s, %s",
                     file, source->name, version_folder, source->folder, backend_folder);
  return NULL;
}

error *backend_search(const model_environment *environment, const model_source *source, backend **b)
{
  const char *name = source->config_owned->backend;
  const char *runtime = source->config_owned->runtime;
  AUTO_FREE char *standard = NULL;
  AUTO_FREE char *library = NULL;
  AUTO_FREE char *config = NULL;
  if (asprintf(&standard, "libtriton_%s.so", name) < 0)
    return error_no_memory();
  RETURN_IF_ERROR(find_library(
      environment, source, runtime != NULL && runtime[0] != '\0' ? runtime : standard, &library));
  RETURN_IF_ERROR(print_backend_config(environment->options, name, &config));
  return backend_registry_get(environment->backends, name, library, config, b);
}
