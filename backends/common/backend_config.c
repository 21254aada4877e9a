// SPDX-License-Identifier: Apache-2.0
// Reads values from JSON.
#include "backend_config.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static TRITONSERVER_Error *message_to_json(TRITONSERVER_Message *message, const char *what,
                                           json_t **json)
{
  const char *text;
  size_t size;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  if (size == 0) {
    *json = json_object();
    return *json == NULL ? backend_error_no_memory(what) : NULL;
  }
  json_error_t problem;
  *json = json_loadb(text, size, JSON_ALLOW_NUL, &problem);
  if (*json == NULL)
    return backend_error_internal("%s is not JSON: %s", what, problem.text);
  return NULL;
}

TRITONSERVER_Error *backend_model_config(TRITONBACKEND_Model *model, json_t **config)
{
  TRITONSERVER_Message *message;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelConfig(model, 1, &message));
  TRITONSERVER_Error *error = message_to_json(message, "the model configuration", config);
  backend_error_log(TRITONSERVER_MessageDelete(message), "delete a configuration message");
  return error;
}

TRITONSERVER_Error *backend_model_set_config(TRITONBACKEND_Model *model, const json_t *config)
{
  char *text = json_dumps(config, JSON_COMPACT);
  if (text == NULL)
    return backend_error_no_memory("the completed configuration");
  TRITONSERVER_Message *message;
  TRITONSERVER_Error *error =
      TRITONSERVER_MessageNewFromSerializedJson(&message, text, strlen(text));
  free(text);
  BACKEND_RETURN_IF_ERROR(error);
  error = TRITONBACKEND_ModelSetConfig(model, 1, message);
  backend_error_log(TRITONSERVER_MessageDelete(message), "delete a configuration message");
  return error;
}

TRITONSERVER_Error *backend_host_policy(TRITONBACKEND_ModelInstance *instance, char **name)
{
  TRITONSERVER_Message *message;
  json_t *policies;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceHostPolicy(instance, &message));
  BACKEND_RETURN_IF_ERROR(message_to_json(message, "the instance's host policy", &policies));
  const char *first = json_object_iter_key(json_object_iter(policies));
  *name = strdup(first != NULL ? first : "");
  json_decref(policies);
  return *name == NULL ? backend_error_no_memory("a model instance") : NULL;
}

TRITONSERVER_Error *backend_settings(TRITONBACKEND_Backend *backend, json_t **settings)
{
  TRITONSERVER_Message *message;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_BackendConfig(backend, &message));
  json_t *all;
  BACKEND_RETURN_IF_ERROR(message_to_json(message, "the backend's settings", &all));
  json_t *given = json_object_get(all, "cmdline");
  *settings = json_is_object(given) ? json_incref(given) : json_object();
  json_decref(all);
  return *settings == NULL ? backend_error_no_memory("the backend's settings") : NULL;
}

const char *backend_parameter(const json_t *config, const char *key)
{
  const json_t *parameter = json_object_get(json_object_get(config, "parameters"), key);
  return json_string_value(json_object_get(parameter, "string_value"));
}

bool backend_keeps_sequences(const json_t *config)
{
  const json_t *batching = json_object_get(config, "sequence_batching");
  return batching != NULL && json_array_size(json_object_get(batching, "state")) == 0;
}

const char *backend_json_text(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text == NULL ? "" : text;
}

TRITONSERVER_Error *backend_read_integer(const char *where, const char *key, const char *text,
                                         int64_t least, int64_t most, int64_t *value)
{
  if (text == NULL)
    return NULL;
  int64_t number;
  const char *rest;
  bool fits = text_begins_int64(text, &number, &rest);
  if (rest == text || rest[-1] < '0' || rest[-1] > '9' || *rest != '\0')
    return backend_error_invalid("%s '%s': failed to convert '%s' to integral number", where, key,
                                 text);
  if (!fits || number < least || number > most)
    return backend_error_invalid("%s '%s': %s is out of range, expected %lld to %lld", where, key,
                                 text, (long long)least, (long long)most);
  *value = number;
  return NULL;
}

TRITONSERVER_Error *backend_read_bool(const char *where, const char *key, const char *text,
                                      bool *value)
{
  static const struct {
    const char *text;
    bool value;
  } words[] = {{"true", true},   {"on", true},   {"1", true},
               {"false", false}, {"off", false}, {"0", false}};
  if (text == NULL)
    return NULL;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    if (strcasecmp(text, words[i].text) == 0) {
      *value = words[i].value;
      return NULL;
    }
  }
  return backend_error_invalid("%s '%s': failed to convert '%s' to boolean", where, key, text);
}

TRITONSERVER_DataType backend_datatype_of(const char *type_text)
{
  if (strncmp(type_text, "TYPE_", 5) != 0)
    return TRITONSERVER_TYPE_INVALID;
  if (strcmp(type_text, "TYPE_STRING") == 0)
    return TRITONSERVER_TYPE_BYTES;
  return TRITONSERVER_StringToDataType(type_text + 5);
}

static TRITONSERVER_Error *read_tensor(const json_t *entry, backend_tensor_config *tensor)
{
  tensor->name = backend_json_text(entry, "name");
  tensor->type_text = backend_json_text(entry, "data_type");
  tensor->datatype = backend_datatype_of(tensor->type_text);
  tensor->optional = json_is_true(json_object_get(entry, "optional"));
  tensor->ragged = json_is_true(json_object_get(entry, "allow_ragged_batch"));
  BACKEND_RETURN_IF_ERROR(
      backend_shape_from_json(&tensor->dims, json_object_get(entry, "dims"), tensor->name));
  tensor->model_dims = tensor->dims;
  const json_t *reshape = json_object_get(entry, "reshape");
  if (!json_is_object(reshape))
    return NULL;
  return backend_shape_from_json(&tensor->model_dims, json_object_get(reshape, "shape"),
                                 tensor->name);
}

TRITONSERVER_Error *backend_tensor_configs(const json_t *config, const char *key,
                                           backend_tensor_config **tensors, size_t *count)
{
  const json_t *list = json_object_get(config, key);
  *tensors = NULL;
  *count = json_array_size(list);
  if (*count == 0)
    return NULL;
  *tensors = calloc(*count, sizeof(**tensors));
  if (*tensors == NULL)
    return backend_error_no_memory("the model's tensors");
  for (size_t i = 0; i < *count; i++) {
    TRITONSERVER_Error *error = read_tensor(json_array_get(list, i), &(*tensors)[i]);
    if (error != NULL) {
      free(*tensors);
      *tensors = NULL;
      return error;
    }
  }
  return NULL;
}
