// SPDX-License-Identifier: Apache-2.0
// Custom batching libraries; see batch_strategy.h.
#include "core/batch_strategy.h"

#include "backend/library.h"
#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "core/backend_search.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY_PARAMETER "TRITON_BATCH_STRATEGY_PATH"
#define LIBRARY_FILE      "batchstrategy.so"

struct custom_strategy {
  void *library;
  TRITONSERVER_Error *(*batcher_initialize)(TRITONBACKEND_Batcher **, TRITONBACKEND_Model *);
  TRITONSERVER_Error *(*batcher_finalize)(TRITONBACKEND_Batcher *);
  TRITONSERVER_Error *(*batch_initialize)(const TRITONBACKEND_Batcher *, void **);
  TRITONSERVER_Error *(*batch_include)(TRITONBACKEND_Request *, void *, bool *);
  TRITONSERVER_Error *(*batch_finalize)(void *);
  TRITONBACKEND_Batcher *batcher; // the library's own
  bool initialized;               // batcher_initialize succeeded: batcher_finalize is due
  batch_strategy calls;
};

// ---- finding ----

// The part of `path` below `dir`, both absolute; NULL when it is not below.
static const char *below(const char *path, const char *dir)
{
  size_t length = strlen(dir);
  return strncmp(path, dir, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

// The operator's path as an absolute one, with the links on the way to the file followed.
static error *resolve(const char *named, char **path)
{
  AUTO_FREE char *absolute = files_absolute(named);
  AUTO_FREE char *above = NULL, *last = NULL, *found = NULL;
  if (absolute == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(files_split(absolute, &above, &last));
  found = realpath(above, NULL); // NULL: there is no such directory, and the error will say so
  return asprintf(path, "%s/%s", found != NULL ? found : above, last) < 0 ? error_no_memory()
                                                                          : NULL;
}

static error *open_named(const file_root *model_dir, const char *named, int *file)
{
  AUTO_FREE char *dir = NULL, *path = NULL;
  RETURN_IF_ERROR(files_path_of(model_dir->descriptor, &dir));
  RETURN_IF_ERROR(resolve(named, &path));
  const char *inside = below(path, dir);
  if (inside == NULL)
    return error_new(ERROR_INVALID_ARG, "Batching library path escapes model repository.");
  error *e = files_open(model_dir, inside, FILE_REGULAR, file);
  if (e == NULL || error_get_code(e) != ERROR_NOT_FOUND)
    return e;
  error_free(e);
  return error_new(ERROR_NOT_FOUND, "Batching library path not found: %s", named);
}

static error *find_named(const model_source *source, const char *named, char **path)
{
  AUTO_ROOT file_root repository = FILE_ROOT_CLOSED;
  AUTO_ROOT file_root model_dir = FILE_ROOT_CLOSED;
  AUTO_CLOSE int file = -1;
  if (named[0] == '\0')
    return error_new(ERROR_INVALID_ARG, LIBRARY_PARAMETER " of model '%s' is empty", source->name);
  RETURN_IF_ERROR(files_open_root(source->repository, source->links, &repository));
  RETURN_IF_ERROR(files_open_dir(&repository, source->folder, &model_dir));
  RETURN_IF_ERROR(open_named(&model_dir, named, &file));
  return files_path_of(file, path);
}

error *batch_strategy_find(const model_environment *environment, const model_source *source,
                           char **path)
{
  const Inference__ModelConfig *config = source->config_owned;
  const char *named = config_parameter(config, LIBRARY_PARAMETER);
  *path = NULL;
  if (config->scheduling_choice_case ==
          INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING ||
      config->scheduling_choice_case ==
          INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_ENSEMBLE_SCHEDULING ||
      source->backend != NULL) // a model's own process: the server makes its batches
    return NULL;
  if (named != NULL)
    return find_named(source, named, path);
  return backend_search_file(environment, source, LIBRARY_FILE, path);
}

// ---- what the scheduler calls, with its lock held ----

static void log_failure(const model *m, const char *what, TRITONSERVER_Error *failure_owned)
{
  AUTO_ERROR error *e = (error *)failure_owned;
  if (e != NULL)
    log_error("Custom %s failed for model %s: %s", what, m->name, error_message(e));
}

static void begin(void *context, void **batch)
{
  const model *m = context;
  const struct custom_strategy *s = m->strategy;
  *batch = NULL;
  log_failure(m, "batching initialization function", s->batch_initialize(s->batcher, batch));
}

static bool include(void *context, void *batch, queue_item *item)
{
  const model *m = context;
  TRITONBACKEND_Request *asked = (TRITONBACKEND_Request *)request_of_item(item);
  bool included = false;
  log_failure(m, "batching include function", m->strategy->batch_include(asked, batch, &included));
  return included;
}

// As in Triton, only when the library has left something.
static void end(void *context, void *batch)
{
  const model *m = context;
  if (batch != NULL)
    log_failure(m, "batching finalization function", m->strategy->batch_finalize(batch));
}

// ---- opening ----

// Returns how many of the functions are there.
static size_t find_functions(struct custom_strategy *s, size_t *wanted)
{
  const struct {
    const char *symbol;
    void *function;
  } table[] = {
      {"TRITONBACKEND_ModelBatcherInitialize", &s->batcher_initialize},
      {"TRITONBACKEND_ModelBatcherFinalize", &s->batcher_finalize},
      {"TRITONBACKEND_ModelBatchInitialize", &s->batch_initialize},
      {"TRITONBACKEND_ModelBatchIncludeRequest", &s->batch_include},
      {"TRITONBACKEND_ModelBatchFinalize", &s->batch_finalize},
  };
  size_t found = 0;
  *wanted = sizeof(table) / sizeof(table[0]);
  for (size_t i = 0; i < *wanted; i++) {
    void *address;
    library_find(s->library, table[i].symbol, &address);
    memcpy(table[i].function, &address, sizeof(address));
    found += address != NULL;
  }
  return found;
}

static error *open_library(model *m, const char *path)
{
  struct custom_strategy *s = m->strategy;
  size_t wanted;
  RETURN_IF_ERROR(library_open(path, &s->library));
  size_t found = find_functions(s, &wanted);
  if (found == 0) { // Triton says nothing
    log_warning("%s has no custom batching functions: it changes nothing for model %s", path,
                m->name);
    return NULL;
  }
  if (found < wanted)
    return error_new(ERROR_INVALID_ARG,
                     "%s does not define all required custom batching functions for model %s", path,
                     m->name);
  RETURN_IF_ERROR((error *)s->batcher_initialize(&s->batcher, m));
  s->initialized = true;
  return NULL;
}

error *batch_strategy_open(model *m, const char *path)
{
  m->strategy = calloc(1, sizeof(*m->strategy));
  if (m->strategy == NULL)
    return error_no_memory();
  m->strategy->calls =
      (batch_strategy){.begin = begin, .include = include, .end = end, .context = m};
  log_info("Loading custom batching strategy library %s for model %s", path, m->name);
  return open_library(m, path);
}

const batch_strategy *batch_strategy_of(const model *m)
{
  return m->strategy != NULL && m->strategy->initialized ? &m->strategy->calls : NULL;
}

void batch_strategy_close(model *m)
{
  struct custom_strategy *s = m->strategy;
  if (s == NULL)
    return;
  assert(m->shared.scheduler == NULL || scheduler_pending(m->shared.scheduler) == 0);
  if (s->initialized)
    log_failure(m, "batcher finalization", s->batcher_finalize(s->batcher));
  library_close(s->library);
  free(s);
  m->strategy = NULL;
}
