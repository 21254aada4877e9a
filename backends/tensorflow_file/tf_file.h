// SPDX-License-Identifier: Apache-2.0
// What a model's file says of its tensors, read without TensorFlow: the bytes of a saved_model.pb
// or a GraphDef become a signature. The bytes may be anything: what is not understood is skipped,
// what is broken is an error, lists are bounded. Load threads.
#ifndef NEREID_TF_FILE_H
#define NEREID_TF_FILE_H

#include "base/slice.h"
#include "framework.h"

#define TF_FILE_TENSORS_MAX 4096 // inputs, and as many outputs

// Where the graph has the tensors of a signature: "operation:output", by a tensor's position.
typedef struct tf_nodes {
  char **names; // owned, as each name
  size_t count;
} tf_nodes;

typedef struct tf_file {
  framework_signature *signature; // filled, also before an error; the caller's
  tf_nodes inputs, outputs;
  bool keeps_inputs; // some operator may hold an input's memory after the run: a variable, a queue
} tf_file;

void tf_file_fini(tf_file *self); // without the signature

// Which part of a SavedModel is wanted.
typedef struct tf_choice {
  const char *model;     // its name, for errors
  const char *tag;       // "" is "serve"
  const char *signature; // "" is "serving_default", or any where there is none
} tf_choice;

TRITONSERVER_Error *tf_file_read_saved_model(tf_file *self, slice bytes, const tf_choice *choice);

// A graph has no signature: each Placeholder can be an input and each other operation an output, of
// which those whose names are members of `wanted` are taken.
TRITONSERVER_Error *tf_file_read_graph(tf_file *self, slice bytes, const char *model,
                                       const json_t *wanted);

#endif
