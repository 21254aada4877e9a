// SPDX-License-Identifier: Apache-2.0
// The pytorch backend: where PyTorch is found, its settings, and the steps that its two kinds of
// models share.
#include "torch_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "backend_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS      4096
#define TENSOR_ALIGNMENT 16 // more than any element needs

// Compiled packages check their inputs only with this variable; without it they may read beyond
// them. nereid sets the variable before it has threads, so nothing is written here then.
static void switch_checks_on(void)
{
  setenv("AOTI_RUNTIME_CHECK_INPUTS", "1", 0);
}

static TRITONSERVER_Error *read_settings(const json_t *given, void **settings)
{
  const char *cache_dir = json_string_value(json_object_get(given, "cache-dir")),
             *compiler = json_string_value(json_object_get(given, "compiler"));
  const size_t cache_size = cache_dir == NULL ? 0 : strlen(cache_dir) + 1,
               compiler_size = compiler == NULL ? 0 : strlen(compiler) + 1;
  torch_settings *made = calloc(1, sizeof(*made) + cache_size + compiler_size); // freed by one call
  *settings = made;
  if (made == NULL)
    return backend_error_no_memory("the backend");
  char *texts = (char *)(made + 1);
  if (cache_dir != NULL)
    made->cache_dir = memcpy(texts, cache_dir, cache_size);
  if (compiler != NULL)
    made->compiler = memcpy(texts + cache_size, compiler, compiler_size);
  return NULL;
}

// ---- models ----

// The file's name tells the kind to Tritons that do not know the platform of packages, such as
// 2.51.
static const torch_kind *kind_of(const framework_model *model, const char *file,
                                 TRITONSERVER_Error **error)
{
  const char *platform = backend_json_text(model->config, "platform"), *end = strrchr(file, '.');
  if (strcmp(platform, "torch_aoti") == 0 || (end != NULL && strcmp(end, ".pt2") == 0))
    return &torch_compiled;
  if (*platform != '\0' && strcmp(platform, "pytorch_libtorch") != 0 &&
      strcmp(platform, "libtorch") != 0)
    *error = backend_error_invalid("platform %s not supported for PyTorch model '%s'", platform,
                                   model->name);
  return &torch_script;
}

// Triton's words.
static TRITONSERVER_Error *absent(const framework_model *model, const torch_kind *kind,
                                  const char *path, TRITONSERVER_Error *error)
{
  const char *repository = "";
  TRITONBACKEND_ArtifactType type;
  if (TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_UNAVAILABLE)
    return error;
  TRITONSERVER_ErrorDelete(error);
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelRepository(model->model, &type, &repository));
  if (kind == &torch_compiled)
    return backend_error_unavailable(
        "PyTorch inductor model file \"%s/%s\" is unreachable or inaccessible.", repository, path);
  return backend_error_unavailable("unable to find '%s/%s' for model instance '%s'", repository,
                                   path, model->name);
}

static TRITONSERVER_Error *load_file(framework_model *model, const torch_kind *kind,
                                     const char *path)
{
  int file = -1;
  TRITONSERVER_Error *error = backend_open_file(model->model, path, &file);
  if (error != NULL)
    return absent(model, kind, path, error);
  error = kind->load(model, file, path);
  close(file);
  return error;
}

// The process's first model with this parameter decides.
static TRITONSERVER_Error *read_threads(const framework_model *model)
{
  static const char key[] = "INTRA_OP_THREAD_COUNT";
  torch_library *library = torch_library_of(model);
  int64_t threads = 0;
  BACKEND_RETURN_IF_ERROR(framework_read_count(model, key, MAX_THREADS, &threads));
  if (threads == 0 || library->set_threads == NULL)
    return NULL;
  pthread_mutex_lock(&library->lock);
  const bool first = !library->threads_set;
  library->threads_set = true;
  pthread_mutex_unlock(&library->lock);
  if (first)
    library->set_threads((int)threads);
  else
    BACKEND_LOG_INFO("model '%s': %s is left as the first model has set it, for all of the process",
                     model->name, key);
  return NULL;
}

static TRITONSERVER_Error *load(framework_model *model)
{
  TRITONSERVER_Error *error = NULL;
  const char *name = backend_json_text(model->config, "default_model_filename");
  const torch_kind *kind = kind_of(model, name, &error);
  char *path = NULL;
  BACKEND_RETURN_IF_ERROR(error);
  BACKEND_RETURN_IF_ERROR(read_threads(model));
  BACKEND_RETURN_IF_ERROR(
      backend_version_path(model->model, *name != '\0' ? name : kind->file, &path));
  error = load_file(model, kind, path);
  free(path);
  return error;
}

static TRITONSERVER_Error *complete(framework_model *model, bool *changed)
{
  (void)changed;
  BACKEND_LOG_WARN("skipping model configuration auto-complete for '%s': not supported for pytorch "
                   "backend",
                   model->name);
  return NULL;
}

static TRITONSERVER_Error *prepare(framework_model *model)
{
  const torch_kind *kind = torch_model_of(model)->kind;
  return kind->prepare == NULL ? NULL : kind->prepare(model);
}

static void unload(framework_model *model)
{
  if (model->state != NULL)
    torch_model_of(model)->kind->unload(model);
}

// ---- instances ----

static TRITONSERVER_Error *instance_new(framework_instance *instance)
{
  const torch_kind *kind = torch_model_of(instance->model)->kind;
  if (instance->kind != TRITONSERVER_INSTANCEGROUPKIND_CPU &&
      instance->kind != TRITONSERVER_INSTANCEGROUPKIND_MODEL)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "unable to load model '%s': the 'pytorch' backend has no instances of "
                         "KIND_GPU; KIND_CPU and KIND_MODEL are the CPU",
                         instance->model->name);
  return kind->instance_new == NULL ? NULL : kind->instance_new(instance);
}

static void instance_free(framework_instance *instance)
{
  const torch_kind *kind = torch_model_of(instance->model)->kind;
  if (kind->instance_free != NULL)
    kind->instance_free(instance);
}

// ---- runs ----

static const torch_kind *kind_of_run(const framework_run *run)
{
  return torch_model_of(run->instance->model)->kind;
}

static TRITONSERVER_Error *begin(framework_run *run)
{
  const size_t count = torch_model_of(run->instance->model)->input_count;
  torch_run *self = arena_allocate_array(&run->memory, 1, sizeof(*self));
  if (self != NULL)
    self->inputs = arena_allocate_array(&run->memory, count + 1, sizeof(*self->inputs));
  if (self == NULL || self->inputs == NULL)
    return backend_error_no_memory("a batch");
  run->state = self;
  return NULL;
}

static TRITONSERVER_Error *add_input(framework_run *run, const framework_input *input)
{
  torch_run *self = run->state;
  if (input->tensor == NULL) // a batch input that the model does not have
    return NULL;
  assert(input->tensor->position < torch_model_of(run->instance->model)->input_count);
  framework_input *kept = &self->inputs[input->tensor->position];
  int64_t *dims = arena_allocate_array(&run->memory, input->rank + 1, sizeof(*dims));
  if (dims == NULL)
    return backend_error_no_memory("a batch");
  memcpy(dims, input->dims, input->rank * sizeof(*dims));
  *kept = *input;
  kept->dims = dims;
  return NULL;
}

// OpenMP and MKL keep the number of threads per thread; PyTorch sets it only where it splits an
// operation itself.
static void init_threads(const framework_run *run)
{
  static _Thread_local bool done;
  const torch_library *library = torch_library_of(run->instance->model);
  if (!done && library->init_threads != NULL)
    library->init_threads();
  done = true;
}

static TRITONSERVER_Error *compute(framework_run *run)
{
  init_threads(run);
  return kind_of_run(run)->compute(run, run->state);
}

static TRITONSERVER_Error *read_output(framework_run *run, size_t index, framework_output *output)
{
  return kind_of_run(run)->read_output(run, run->state, index, output);
}

static void end(framework_run *run)
{
  if (run->state != NULL)
    kind_of_run(run)->end(run, run->state);
}

const framework_functions framework_definition = {
    .framework = {.name = "PyTorch",
                  .backend = "pytorch",
                  .package = "torch",
                  .dir = "torch/lib",
                  .library = "libtorch_cpu.so",
                  .loader_names = {"libtorch_cpu.so"}},
    .alignment = TENSOR_ALIGNMENT,
    .set_environment = switch_checks_on,
    .read_settings = read_settings,
    .open = torch_library_open,
    .close = torch_library_close,
    .load = load,
    .complete = complete,
    .prepare = prepare,
    .unload = unload,
    .instance_new = instance_new,
    .instance_free = instance_free,
    .begin = begin,
    .add_input = add_input,
    .compute = compute,
    .read_output = read_output,
    .end = end,
};
