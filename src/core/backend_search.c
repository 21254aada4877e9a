// SPDX-License-Identifier: Apache-2.0
// Search for backend libraries. Runs on load threads.
#include "core/backend_search.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "core/isolation.h"
#include "core/server_options.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Settings for one backend override those for all.
static error *merge_settings(const server_options *options, const char *name, setting_list *merged)
{
  char capability[32];
  snprintf(capability, sizeof(capability), "%f", options->min_compute_capability);
  const char *const defaults[][2] = {
      {"auto-complete-config", options->strict_model_config ? "false" : "true"},
      {"backend-directory", options->backend_directory},
      {"min-compute-capability", capability},
      {"default-max-batch-size", "4"},
  };
  const char *const groups[] = {"", name};
  for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
    RETURN_IF_ERROR(setting_list_put(merged, "", defaults[i][0], defaults[i][1]));
  for (size_t g = 0; g < 2; g++)
    for (size_t i = 0; i < options->backend_settings.count; i++) {
      const setting *s = &options->backend_settings.items[i];
      if (strcmp(s->group, groups[g]) == 0)
        RETURN_IF_ERROR(setting_list_put(merged, "", s->name, s->value));
    }
  return NULL;
}

static error *print_backend_config(const server_options *options, const char *name, char **json)
{
  setting_list merged = {0};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  error *e = merge_settings(options, name, &merged);
  buffer_append_text(&text, "{\"cmdline\":");
  setting_list_print(&merged, "", &text);
  buffer_append_char(&text, '}');
  setting_list_fini(&merged);
  if (e == NULL && (*json = buffer_take_text(&text)) == NULL)
    e = error_no_memory();
  return e;
}

typedef enum searched_dir {
  IN_VERSION,
  IN_MODEL,
  IN_BACKEND,
  IN_RUNNER, // of the backend that runs others, which have a file instead of a library
  SEARCHED_DIRS,
} searched_dir;

// A directory that may hold the library.
typedef struct library_dir {
  char root[PATH_MAX]; // the operator's own path
  const file_policy *links;
  char path[PATH_MAX]; // below root, up to the file: "model/1/"
  char dir[PATH_MAX];  // the directory as the operator would write it
} library_dir;

typedef struct search {
  const model_environment *environment;
  const model_source *source;
  const backend_traits *runner;
  bool isolated;        // the model is to have a process of its own
  backend_choice *real; // what that process runs; NULL: nothing will be loaded
  library_dir dirs[SEARCHED_DIRS];
} search;

// A library that was found.
typedef struct finding {
  char *library; // NULL: nothing
  size_t dir;
} finding;

static void cleanup_finding(finding *f)
{
  free(f->library);
}
#define AUTO_FINDING __attribute__((cleanup(cleanup_finding)))

static bool print_path(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool print_path(char path[PATH_MAX], const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(path, PATH_MAX, format, arguments);
  va_end(arguments);
  return size >= 0 && size < PATH_MAX;
}

static error *list_dirs(search *s)
{
  const model_source *m = s->source;
  const char *backends = s->environment->options->backend_directory;
  const char *name = m->config_owned->backend;
  library_dir *p = s->dirs;
  p[IN_VERSION].links = p[IN_MODEL].links = m->links;
  p[IN_BACKEND].links = p[IN_RUNNER].links = &file_policy_anywhere;
  if (print_path(p[IN_VERSION].root, "%s", m->repository) &&
      print_path(p[IN_VERSION].path, "%s/%" PRId64 "/", m->folder, m->version) &&
      print_path(p[IN_VERSION].dir, "%s/%" PRId64, m->dir, m->version) &&
      print_path(p[IN_MODEL].root, "%s", m->repository) &&
      print_path(p[IN_MODEL].path, "%s/", m->folder) && print_path(p[IN_MODEL].dir, "%s", m->dir) &&
      print_path(p[IN_BACKEND].root, "%s/%s", backends, name) &&
      print_path(p[IN_BACKEND].dir, "%s/%s", backends, name) &&
      print_path(p[IN_RUNNER].root, "%s/%s", backends, s->runner->name) &&
      print_path(p[IN_RUNNER].dir, "%s/%s", backends, s->runner->name))
    return NULL;
  return error_new(ERROR_INVALID_ARG, "the path of backend '%s' for model '%s' is too long", name,
                   m->name);
}

// The path of the regular file `name` in `in` as the kernel resolved it; NULL: it is not there.
static error *find_in(const library_dir *in, const char *name, char **library, error **leads_out)
{
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  AUTO_CLOSE int file = -1;
  char *below AUTO_FREE = NULL;
  if (asprintf(&below, "%s%s", in->path, name) < 0)
    return error_no_memory();
  error *e = files_open_root(in->root, in->links, &root);
  if (e == NULL)
    e = files_open(&root, below, FILE_REGULAR, &file);
  if (e != NULL) {
    if (error_get_code(e) != ERROR_INVALID_ARG && error_get_code(e) != ERROR_NOT_FOUND)
      return e;
    if (error_get_code(e) == ERROR_INVALID_ARG && *leads_out == NULL && strchr(name, '/') != NULL)
      *leads_out = e;
    else
      error_free(e);
    return NULL;
  }
  return files_path_of(file, library);
}

// Looks for the file in the first `count` directories.
static error *look_for(const search *s, const char *file, size_t count, finding *found)
{
  error *leads_out = NULL;
  error *e = NULL;
  for (size_t i = 0; e == NULL && found->library == NULL && i < count; i++) {
    e = find_in(&s->dirs[i], file, &found->library, &leads_out);
    found->dir = i;
  }
  if (e == NULL && found->library == NULL && leads_out != NULL)
    return leads_out;
  error_free(leads_out);
  return e;
}

static error *look_in(const search *s, size_t dir, const char *file, char **path)
{
  error *leads_out = NULL; // not set: a name without a slash leads nowhere
  return find_in(&s->dirs[dir], file, path, &leads_out);
}

static void append_searched(const search *s, size_t count, buffer *out)
{
  for (size_t i = 0; i < count; i++)
    buffer_append_format(out, "%s%s", i > 0 ? ", " : "", s->dirs[i].dir);
  buffer_append_char(out, '\0');
}

static error *not_found(const search *s, const char *file, size_t count)
{
  AUTO_BUFFER buffer searched = BUFFER_EMPTY;
  append_searched(s, count, &searched);
  return error_new(ERROR_INVALID_ARG,
                   "unable to find backend library '%s' for model '%s', searched: %s", file,
                   s->source->name, searched.failed ? "" : searched.data);
}

// The same for the library that a backend's name gives. Only a load says what may have been meant;
// a check of the configuration says it elsewhere.
static error *no_such_backend(const search *s, const char *file)
{
  const char *backend = s->source->config_owned->backend;
  const char *nearest = s->real != NULL ? backend_traits_nearest(backend) : NULL;
  AUTO_BUFFER buffer searched = BUFFER_EMPTY;
  append_searched(s, IN_BACKEND + 1, &searched);
  return error_new(ERROR_INVALID_ARG,
                   "unable to find backend library for backend '%s', try specifying runtime on the "
                   "model configuration.%s%s%s Searched for '%s' of model '%s': %s",
                   backend, nearest != NULL ? " Did you mean backend: \"" : "",
                   nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "", file,
                   s->source->name, searched.failed ? "" : searched.data);
}

static bool climbs(const char *name)
{
  return name[0] == '/' || strstr(name, "..") != NULL;
}

static error *name_library(const char *backend, char **file)
{
  return asprintf(file, "libtriton_%s.so", backend) < 0 ? error_no_memory() : NULL;
}

static error *get_backend(const search *s, const backend_location *location,
                          const char *settings_of, backend **b)
{
  AUTO_FREE char *config = NULL;
  RETURN_IF_ERROR(print_backend_config(s->environment->options, settings_of, &config));
  return backend_registry_get(s->environment->backends, location, config, b);
}

static error *remember(const search *s, const backend_location *location)
{
  backend_choice *real = s->real;
  RETURN_IF_ERROR(print_backend_config(s->environment->options, location->name, &real->settings));
  real->name = strdup(location->name);
  real->library = strdup(location->library);
  real->dir = strdup(location->dir);
  real->key = strdup(location->key);
  return real->name == NULL || real->library == NULL || real->dir == NULL || real->key == NULL
             ? error_no_memory()
             : NULL;
}

// Takes the isolating backend; the model's own process loads the one at `location`.
static error *get_isolating(search *s, const backend_location *location, backend **b)
{
  const char *backends = s->environment->options->backend_directory;
  library_dir *in = &s->dirs[IN_BACKEND];
  AUTO_FREE char *file = NULL, *library = NULL;
  RETURN_IF_ERROR(remember(s, location));
  RETURN_IF_ERROR(name_library(ISOLATION_BACKEND, &file));
  if (!print_path(in->root, "%s/" ISOLATION_BACKEND, backends) ||
      !print_path(in->dir, "%s/" ISOLATION_BACKEND, backends))
    return error_new(ERROR_INVALID_ARG, "the path of backend '" ISOLATION_BACKEND "' is too long");
  RETURN_IF_ERROR(look_in(s, IN_BACKEND, file, &library));
  if (library == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "model '%s' is to have a process of its own (isolate), but '%s' has "
                     "no %s",
                     s->source->name, in->dir, file);
  const backend_location isolating = {
      .name = ISOLATION_BACKEND, .library = library, .dir = in->dir, .key = library};
  return get_backend(s, &isolating, ISOLATION_BACKEND, b);
}

// A backend that the runner runs: a file in its directory says so.
static error *get_run_backend(search *s, const char *script, backend **b)
{
  Inference__ModelConfig *config = s->source->config_owned;
  AUTO_FINDING finding found = {0};
  AUTO_FREE char *environment = NULL;
  AUTO_FREE char *library = NULL;
  RETURN_IF_ERROR(name_library(s->runner->name, &library));
  RETURN_IF_ERROR(look_for(s, library, SEARCHED_DIRS, &found));
  if (found.library == NULL)
    return not_found(s, library, SEARCHED_DIRS);
  RETURN_IF_ERROR(look_in(s, IN_BACKEND, s->runner->environment, &environment));
  RETURN_IF_ERROR(config_set_runner(config, s->runner, environment));
  const backend_location location = {.name = config->backend,
                                     .library = found.library,
                                     .dir = s->dirs[IN_BACKEND].dir,
                                     .key = script};
  return get_backend(s, &location, s->runner->name, b);
}

// Finds what the configuration's `runtime` names, or libtriton_<backend>.so.
static error *find_library(const search *s, finding *found, char **script)
{
  const Inference__ModelConfig *config = s->source->config_owned;
  bool standard = config->runtime == NULL || config->runtime[0] == '\0';
  AUTO_FREE char *file = NULL;
  if (standard)
    RETURN_IF_ERROR(name_library(config->backend, &file));
  else if ((file = strdup(config->runtime)) == NULL)
    return error_no_memory();
  if (climbs(file) || climbs(config->backend))
    return error_new(ERROR_INVALID_ARG, "backend library name '%s' escapes backend directory",
                     climbs(file) ? file : config->backend);
  bool is_run = strcmp(file, s->runner->runtime) == 0;
  if (!is_run)
    RETURN_IF_ERROR(look_for(s, file, IN_BACKEND + 1, found));
  if (is_run || (standard && found->library == NULL))
    RETURN_IF_ERROR(look_in(s, IN_BACKEND, s->runner->runtime, script));
  if (found->library != NULL || *script != NULL)
    return NULL;
  if (is_run)
    return error_new(ERROR_INVALID_ARG,
                     "unable to find Python backend based backend library '%s' for model '%s', "
                     "searched: '%s/%s'",
                     file, s->source->name, s->dirs[IN_BACKEND].dir, file);
  return standard ? no_such_backend(s, file) : not_found(s, file, IN_BACKEND + 1);
}

static error *begin_search(search *s, const model_environment *environment,
                           const model_source *source)
{
  s->environment = environment;
  s->source = source;
  s->runner = backend_traits_runner();
  return list_dirs(s);
}

error *backend_is_there(const model_environment *environment, const model_source *source)
{
  AUTO_FREE char *script = NULL;
  AUTO_FINDING finding found = {0};
  AUTO_FREE search *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(begin_search(s, environment, source));
  return find_library(s, &found, &script);
}

error *backend_search_file(const model_environment *environment, const model_source *source,
                           const char *file, char **path)
{
  AUTO_FINDING finding found = {0};
  AUTO_FREE search *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(begin_search(s, environment, source));
  RETURN_IF_ERROR(look_for(s, file, IN_BACKEND + 1, &found));
  *path = found.library;
  found.library = NULL;
  return NULL;
}

// Models that the runner runs have processes of their own already.
static error *decide_isolation(search *s, const char *script)
{
  const Inference__ModelConfig *config = s->source->config_owned;
  RETURN_IF_ERROR(
      isolation_is_wanted(s->environment->options, s->source->name, config, &s->isolated));
  if (s->isolated && (script != NULL || strcmp(config->backend, s->runner->name) == 0)) {
    log_verbose(1,
                "model '%s': isolate changes nothing: each instance of a model of backend "
                "'%s' has a process of its own anyway",
                s->source->name, config->backend);
    s->isolated = false;
  }
  return isolation_check(s->source->name, config, &s->isolated);
}

error *backend_search(const model_environment *environment, const model_source *source, backend **b,
                      backend_choice *real)
{
  AUTO_FREE char *script = NULL;
  AUTO_FINDING finding found = {0};
  AUTO_FREE search *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(begin_search(s, environment, source));
  s->real = real;
  RETURN_IF_ERROR(find_library(s, &found, &script));
  RETURN_IF_ERROR(decide_isolation(s, script));
  if (script != NULL)
    return get_run_backend(s, script, b);
  const backend_location location = {.name = source->config_owned->backend,
                                     .library = found.library,
                                     .dir = s->dirs[found.dir].dir,
                                     .key = found.library};
  if (s->isolated)
    return get_isolating(s, &location, b);
  return get_backend(s, &location, location.name, b);
}
