// SPDX-License-Identifier: Apache-2.0
// The steps of a tree model's life, combined in fil.c; framework.h says when and on which thread
// each is called. All instances share one treelite model, which predicting only reads.
#ifndef NEREID_FIL_MODEL_H
#define NEREID_FIL_MODEL_H

#include "fil_parameters.h"
#include "fil_trees.h"

typedef struct fil_model {
  fil_parameters parameters;
  treelite_model *trees;
  treelite_gtil *alone;    // predicts on the calling thread
  treelite_gtil *together; // predicts on as many threads as the parameters allow
  fil_shape shape;
  int32_t columns; // of the output: 1, or one for each class
} fil_model;

static inline fil_model *fil_model_of(const framework_model *model)
{
  return model->state;
}

// fil_model.c: the file becomes treelite's model.
TRITONSERVER_Error *fil_model_load(framework_model *model);
TRITONSERVER_Error *fil_model_complete(framework_model *model, bool *changed);
TRITONSERVER_Error *fil_model_prepare(framework_model *model);
void fil_model_unload(framework_model *model);

// fil_execute.c: predictions.
TRITONSERVER_Error *fil_instance_new(framework_instance *instance);
TRITONSERVER_Error *fil_run_begin(framework_run *run);
TRITONSERVER_Error *fil_run_add_input(framework_run *run, const framework_input *input);
TRITONSERVER_Error *fil_run_compute(framework_run *run);
TRITONSERVER_Error *fil_run_read_output(framework_run *run, size_t index, framework_output *output);
void fil_run_end(framework_run *run);

#endif
