// A loaded version of an ONNX model: its session, and what a run feeds and fetches. Made in
// TRITONBACKEND_ModelInitialize; afterwards read by all instances at once.
//
// There is one session per model version and all instances run it: ONNX Runtime's Run may be
// called on any number of threads, so a second session would only be a second copy of the weights,
// a second load and a second pool of threads.
#ifndef NEREID_ONNX_MODEL_H
#define NEREID_ONNX_MODEL_H

#include "backend_config.h"
#include "onnx_backend.h"
#include "onnx_signature.h"

// An input that requests bring.
typedef struct onnx_feed {
  char *name;
  TRITONSERVER_DataType datatype;
  ort_element_type element_type;
  bool scalar; // the model wants rank 0, requests bring [1]
  bool optional;
} onnx_feed;

// An output that requests may ask for.
typedef struct onnx_fetch {
  char *name;
  backend_shape scalar_shape; // what to answer for rank 0
} onnx_fetch;

typedef struct onnx_model {
  char *name;
  json_t *config;
  int64_t max_batch_size;
  ort_runtime *runtime; // the backend's
  ort_session *session;
  onnx_signature signature;
  onnx_feed *feeds;
  size_t feed_count;
  onnx_fetch *fetches;
  size_t fetch_count;
} onnx_model;

// Loads the model's file, completes the configuration where the server asks for it, and checks the
// one against the other.
TRITONSERVER_Error *onnx_model_new(TRITONBACKEND_Model *model, onnx_backend *backend,
                                   onnx_model **result);

void onnx_model_free(onnx_model *model);

// --- The steps of loading, each in a file of its own.

// onnx_options.c: session options from the model's configuration. The caller releases them.
TRITONSERVER_Error *onnx_session_options(const onnx_model *model, ort_session_options **options);

// onnx_options.c: run options from the model's configuration. The caller releases them.
TRITONSERVER_Error *onnx_run_options(const onnx_model *model, ort_run_options **options);

// onnx_autocomplete.c: fills in max_batch_size, inputs, outputs and dynamic batching where they are
// missing. Sets *changed when it did.
TRITONSERVER_Error *onnx_autocomplete(onnx_model *model, int64_t default_max_batch_size,
                                      bool *changed);

// onnx_validate.c: compares configuration and model; fills in feeds and fetches.
TRITONSERVER_Error *onnx_validate(onnx_model *model);

#endif
