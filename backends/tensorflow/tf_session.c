// SPDX-License-Identifier: Apache-2.0
// Sessions and the instances that run them. Load threads.
#include "tf_model.h"

#include "backend_error.h"
#include "backend_file.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRAPH_MAX_BYTES ((size_t)INT32_MAX) // protobuf's limit

// Arguments for making a session.
typedef struct making {
  const framework_model *model;
  const tf_api *api;
  const tf_model *state;
  tf_session *session;
  tf_api_session_options *options;
  tf_api_status *status;
} making;

// ---- from files ----

static TRITONSERVER_Error *load_saved_model(const making *self)
{
  const char *tag = self->state->options.tag;
  const char *const tags[] = {tag[0] != '\0' ? tag : "serve"};
  self->session->session = self->api->LoadSessionFromSavedModel(
      self->options, NULL, self->state->folder, tags, 1, self->session->graph, NULL, self->status);
  return tf_error(self->api, self->status, self->state->path);
}

static TRITONSERVER_Error *import_graph(const making *self, const void *data, size_t size)
{
  const tf_api *api = self->api;
  tf_api_buffer *graph = api->NewBufferFromString(data, size);
  tf_api_import_options *import = api->NewImportGraphDefOptions();
  if (self->session->kind == TRITONSERVER_INSTANCEGROUPKIND_CPU)
    api->ImportGraphDefOptionsSetDefaultDevice(import, "/cpu:0");
  api->GraphImportGraphDef(self->session->graph, graph, import, self->status);
  api->DeleteImportGraphDefOptions(import);
  api->DeleteBuffer(graph);
  return tf_error(api, self->status, self->state->path);
}

static TRITONSERVER_Error *load_graph(const making *self)
{
  void *data = NULL;
  size_t size = 0;
  if (lseek(self->state->source, 0, SEEK_SET) != 0)
    return backend_error_internal("unable to read '%s'", self->state->path);
  BACKEND_RETURN_IF_ERROR(
      backend_read_file(self->state->source, self->state->path, GRAPH_MAX_BYTES, &data, &size));
  TRITONSERVER_Error *error = import_graph(self, data, size);
  free(data);
  BACKEND_RETURN_IF_ERROR(error);
  self->session->session = self->api->NewSession(self->session->graph, self->options, self->status);
  return tf_error(self->api, self->status, self->state->path);
}

// ---- what is run ----

// "operation:output"; the output defaults to 0.
static TRITONSERVER_Error *find_node(const making *self, const char *name, tf_api_output *output)
{
  char *operation AUTO_FREE = strdup(name);
  if (operation == NULL)
    return backend_error_no_memory("a session");
  char *colon = strrchr(operation, ':');
  int64_t index = 0;
  if (colon != NULL) {
    if (!text_to_int64(slice_of(colon + 1), &index))
      index = -1;
    *colon = '\0';
  }
  tf_api_operation *found = self->api->GraphOperationByName(self->session->graph, operation);
  if (found == NULL || index < 0 || index >= self->api->OperationNumOutputs(found))
    return backend_error_invalid("unable to load '%s': its graph has no '%s'", self->state->path,
                                 name);
  *output = (tf_api_output){.operation = found, .index = (int)index};
  return NULL;
}

static TRITONSERVER_Error *find_nodes(const making *self)
{
  const framework_model *model = self->model;
  const tf_nodes *inputs = &self->state->file.inputs, *outputs = &self->state->file.outputs;
  tf_session *session = self->session;
  session->inputs = calloc(inputs->count + 1, sizeof(*session->inputs));
  session->outputs = calloc(outputs->count + 1, sizeof(*session->outputs));
  if (session->inputs == NULL || session->outputs == NULL)
    return backend_error_no_memory("a session");
  for (size_t i = 0; i < inputs->count; i++)
    if (model->signature.inputs.list[i].refusal == NULL)
      BACKEND_RETURN_IF_ERROR(find_node(self, inputs->names[i], &session->inputs[i]));
  for (size_t i = 0; i < model->fetch_count; i++) {
    const size_t position = model->fetches[i].tensor->position;
    BACKEND_RETURN_IF_ERROR(find_node(self, outputs->names[position], &session->outputs[position]));
  }
  return NULL;
}

// One after another, as in Triton, because each may need the results of the previous.
static TRITONSERVER_Error *run_init_ops(const making *self)
{
  const json_t *names = self->state->init_ops;
  for (size_t i = 0; i < json_array_size(names); i++) {
    const char *name = json_string_value(json_array_get(names, i));
    const tf_api_operation *operation =
        name == NULL ? NULL : self->api->GraphOperationByName(self->session->graph, name);
    if (operation == NULL)
      return backend_error_invalid("unable to load '%s': its graph has no '%s' of TF_INIT_OPS_FILE",
                                   self->state->path, name == NULL ? "" : name);
    self->api->SessionRun(self->session->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &operation, 1,
                          NULL, self->status);
    BACKEND_RETURN_IF_ERROR(tf_error(self->api, self->status, self->state->path));
  }
  return NULL;
}

static TRITONSERVER_Error *make(making *self)
{
  self->status = self->api->NewStatus();
  self->session->graph = self->api->NewGraph();
  BACKEND_RETURN_IF_ERROR(tf_error(self->api, self->status, NULL));
  BACKEND_RETURN_IF_ERROR(tf_session_options(self->model, self->session->kind, &self->options));
  BACKEND_RETURN_IF_ERROR(self->state->is_graph ? load_graph(self) : load_saved_model(self));
  BACKEND_RETURN_IF_ERROR(find_nodes(self));
  return run_init_ops(self);
}

TRITONSERVER_Error *tf_session_new(const framework_model *model,
                                   TRITONSERVER_InstanceGroupKind kind, tf_session **result)
{
  making self = {.model = model,
                 .api = tf_api_of(model),
                 .state = tf_model_of(model),
                 .session = calloc(1, sizeof(*self.session))};
  if (self.session == NULL)
    return backend_error_no_memory("a session");
  self.session->kind = kind;
  TRITONSERVER_Error *error = make(&self);
  if (self.options != NULL)
    self.api->DeleteSessionOptions(self.options);
  if (self.status != NULL)
    self.api->DeleteStatus(self.status);
  if (error != NULL) {
    tf_session_free(self.api, self.session);
    return error;
  }
  *result = self.session;
  return NULL;
}

void tf_session_free(const tf_api *api, tf_session *self)
{
  tf_api_status *status = api->NewStatus();
  if (self->session != NULL) {
    api->CloseSession(self->session, status);
    api->DeleteSession(self->session, status);
  }
  if (self->graph != NULL)
    api->DeleteGraph(self->graph);
  api->DeleteStatus(status);
  free(self->inputs);
  free(self->outputs);
  free(self);
}

// ---- instances ----

// A session for one more instance.
static TRITONSERVER_Error *take_session(const framework_model *model,
                                        TRITONSERVER_InstanceGroupKind kind, tf_session **result)
{
  tf_model *state = tf_model_of(model);
  LOCK_SCOPE(&state->lock);
  tf_session *session = state->sessions;
  while (session != NULL &&
         (session->kind != kind || session->instances >= state->options.instances_per_session))
    session = session->next;
  if (session == NULL) {
    BACKEND_RETURN_IF_ERROR(tf_session_new(model, kind, &session));
    session->next = state->sessions;
    state->sessions = session;
  }
  session->instances++;
  *result = session;
  return NULL;
}

static void give_session(const framework_model *model, tf_session *session)
{
  tf_model *state = tf_model_of(model);
  LOCK_SCOPE(&state->lock);
  if (--session->instances > 0)
    return;
  tf_session **at = &state->sessions;
  while (*at != session)
    at = &(*at)->next;
  *at = session->next;
  tf_session_free(tf_api_of(model), session);
}

static TRITONSERVER_Error *fill_instance(framework_instance *instance, tf_instance *self)
{
  const framework_model *model = instance->model;
  if (instance->kind != TRITONSERVER_INSTANCEGROUPKIND_CPU &&
      instance->kind != TRITONSERVER_INSTANCEGROUPKIND_MODEL)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                         "unable to load model '%s': the 'tensorflow' backend has no instances of "
                         "KIND_GPU; KIND_MODEL leaves devices to the graph",
                         model->name);
  BACKEND_RETURN_IF_ERROR(tf_check_accelerators(model, instance->kind));
  self->status = tf_api_of(model)->NewStatus();
  BACKEND_RETURN_IF_ERROR(tf_error(tf_api_of(model), self->status, NULL));
  return take_session(model, instance->kind, &self->session);
}

TRITONSERVER_Error *tf_instance_new(framework_instance *instance)
{
  instance->state = calloc(1, sizeof(tf_instance));
  return instance->state == NULL ? backend_error_no_memory("a model instance")
                                 : fill_instance(instance, instance->state);
}

void tf_instance_free(framework_instance *instance)
{
  tf_instance *self = instance->state;
  if (self == NULL)
    return;
  if (self->session != NULL)
    give_session(instance->model, self->session);
  if (self->status != NULL)
    tf_api_of(instance->model)->DeleteStatus(self->status);
  free(self);
}
