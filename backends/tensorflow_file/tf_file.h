// SPDX-License-Identifier: Apache-2.0
// Reads a model's tensors from its file without TensorFlow: the bytes of a saved_model.pb or a
// GraphDef become a signature. The bytes may be anything: unknown parts are skipped, broken parts
// are errors, lists are limited. Load threads.
#ifndef NEREID_TF_FILE_H
#define NEREID_TF_FILE_H

#include "base/slice.h"
#include "framework.h"

#define TF_FILE_TENSORS_MAX 4096 // for inputs, and for outputs

// The graph's names of a signature's tensors: "operation:output", by tensor position.
typedef struct tf_nodes {
  char **names; // owned, as is each name
  size_t count;
} tf_nodes;

typedef struct tf_file {
  framework_signature *signature; // the caller's; may be filled even when an error is returned
  tf_nodes inputs, outputs;
  bool keeps_inputs; // an operator may keep an input's memory after the run: a variable, a queue
} tf_file;

void tf_file_fini(tf_file *self); // not the signature

// The wanted part of a SavedModel.
typedef struct tf_choice {
  const char *model;     // its name, for errors
  const char *tag;       // "" is "serve"
  const char *signature; // "" is "serving_default", or any if that is missing
} tf_choice;

TRITONSERVER_Error *tf_file_read_saved_model(tf_file *self, slice bytes, const tf_choice *choice);

// A graph has no signature: each Placeholder can be an input, and each other operation an output.
// Takes those whose names are members of `wanted`.
TRITONSERVER_Error *tf_file_read_graph(tf_file *self, slice bytes, const char *model,
                                       const json_t *wanted);

#endif
