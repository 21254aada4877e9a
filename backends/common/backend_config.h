// SPDX-License-Identifier: Apache-2.0
// Reads JSON for a backend: the model's configuration, its parameters, and the settings of
// --backend-config. Strings are borrowed from the JSON objects.
#ifndef NEREID_BACKEND_CONFIG_H
#define NEREID_BACKEND_CONFIG_H

#include "backend_shape.h"
#include "base/text.h"

#include <jansson.h>

// The model's configuration; the caller owns a reference.
TRITONSERVER_Error *backend_model_config(TRITONBACKEND_Model *model, json_t **config);

// Gives a completed configuration back to the server.
TRITONSERVER_Error *backend_model_set_config(TRITONBACKEND_Model *model, const json_t *config);

// The name of the instance's host policy, for free().
TRITONSERVER_Error *backend_host_policy(TRITONBACKEND_ModelInstance *instance, char **name);

// The settings of --backend-config=NAME,key=value as one flat object, empty when there are none;
// the caller owns a reference.
TRITONSERVER_Error *backend_settings(TRITONBACKEND_Backend *backend, json_t **settings);

// The text of parameters["key"].string_value, NULL when the model's configuration has none.
const char *backend_parameter(const json_t *config, const char *key);

// Whether the backend keeps the state of the model's sequences: the model has sequences, and no
// states that the server keeps. The text is added to an error when the model's process has ended.
bool backend_keeps_sequences(const json_t *config);
#define BACKEND_SEQUENCES_LOST                                                                     \
  "; the states of the sequences that it had are lost: they must begin again"

// Member `key` as text, "" when it is absent or not a string.
const char *backend_json_text(const json_t *object, const char *key);

// Reads a number between `least` and `most`, or a boolean (true/false, on/off, 1/0, any case).
// `where` and `key` name it in the error, e.g. "model 'm': parameter" and "execute_delay_ms".
// With `text` NULL the value stays as it is.
TRITONSERVER_Error *backend_read_integer(const char *where, const char *key, const char *text,
                                         int64_t least, int64_t most, int64_t *value);
TRITONSERVER_Error *backend_read_bool(const char *where, const char *key, const char *text,
                                      bool *value);

// One entry of the configuration's input or output list.
typedef struct backend_tensor_config {
  const char *name;
  const char *type_text; // "TYPE_FP32"
  TRITONSERVER_DataType datatype;
  backend_shape dims;
  backend_shape model_dims; // reshape.shape where given, else dims
  bool optional;
  bool ragged;
} backend_tensor_config;

// "TYPE_FP32" to the ABI's type. "TYPE_STRING" is the ABI's BYTES.
TRITONSERVER_DataType backend_datatype_of(const char *type_text);

// Reads the list `key` ("input", "output"). `*tensors` is for free(), NULL with `*count` 0. The
// names point into `config`.
TRITONSERVER_Error *backend_tensor_configs(const json_t *config, const char *key,
                                           backend_tensor_config **tensors, size_t *count);

#endif
