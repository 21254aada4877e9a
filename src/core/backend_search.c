// Search for backend libraries. Runs on load threads.
#include "core/backend_search.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/text.h"
#include "core/server_options.h"

#include <errno.h>
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

// A folder that may hold the library.
typedef struct library_place {
  const char *root;    // the operator's own path
  char path[PATH_MAX]; // below it, up to the file: "model/1/"
} library_place;

// The path of the regular file `name` in `place` as the kernel resolved it; NULL when it is not
// there.
static error *find_in(const library_place *place, const char *name, char **library,
                      error **leads_out)
{
  AUTO_CLOSE int root = -1;
  AUTO_CLOSE int file = -1;
  char *below AUTO_FREE = NULL;
  if (asprintf(&below, "%s%s", place->path, name) < 0)
    return error_no_memory();
  error *e = files_open_root(place->root, &root);
  if (e == NULL)
    e = files_open(root, below, FILE_REGULAR, &file);
  if (e != NULL) {
    if (error_get_code(e) != ERROR_INVALID_ARG && error_get_code(e) != ERROR_NOT_FOUND)
      return e;
    if (error_get_code(e) == ERROR_INVALID_ARG && *leads_out == NULL && strchr(name, '/') != NULL)
      *leads_out = e;
    else
      error_free(e);
    return NULL;
  }
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0)
    return error_new(ERROR_INTERNAL, "failed to find '%s': %s", below, strerror(errno));
  *library = strndup(path, (size_t)size);
  return *library == NULL ? error_no_memory() : NULL;
}

static bool climbs(const char *name)
{
  return name[0] == '/' || strstr(name, "..") != NULL;
}

static error *find_library(const model_environment *environment, const model_source *source,
                           const char *file, char **library)
{
  const char *backend_name = source->config_owned->backend;
  char backends[PATH_MAX];
  library_place places[] = {
      {.root = source->repository}, {.root = source->repository}, {backends, ""}};
  int sizes[] = {
      snprintf(places[0].path, PATH_MAX, "%s/%" PRId64 "/", source->name, source->version),
      snprintf(places[1].path, PATH_MAX, "%s/", source->name),
      snprintf(backends, PATH_MAX, "%s/%s", environment->options->backend_directory, backend_name),
  };
  *library = NULL;
  if (climbs(file) || climbs(backend_name))
    return error_new(ERROR_INVALID_ARG, "backend library name '%s' escapes backend directory",
                     climbs(file) ? file : backend_name);
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
    if (sizes[i] < 0 || sizes[i] >= PATH_MAX)
      return error_new(ERROR_INVALID_ARG, "the path of backend '%s' for model '%s' is too long",
                       backend_name, source->name);
  error *leads_out = NULL;
  error *e = NULL;
  for (size_t i = 0; e == NULL && *library == NULL && i < sizeof(places) / sizeof(places[0]); i++)
    e = find_in(&places[i], file, library, &leads_out);
  if (e == NULL && *library == NULL && leads_out != NULL)
    return leads_out;
  error_free(leads_out);
  if (e == NULL && *library == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "unable to find backend library '%s' for model '%s', searched: %s/%" PRId64
                     ", %s, %s",
                     file, source->name, source->folder, source->version, source->folder, backends);
  return e;
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
