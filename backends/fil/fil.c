// SPDX-License-Identifier: Apache-2.0
// The fil backend, which runs tree models (XGBoost, LightGBM, scikit-learn) on treelite: where
// treelite is found, and the steps of its models.
#include "fil_model.h"

const framework_functions framework_definition = {
    .framework = {.name = "treelite",
                  .backend = "fil",
                  .package = "treelite",
                  .dir = "treelite/lib",
                  .library = "libtreelite.so",
                  .loader_names = {"libtreelite.so"}},
    .library_parameter = "treelite_library",
    .alignment = sizeof(float),
    .open = treelite_open,
    .close = treelite_close,
    .load = fil_model_load,
    .complete = fil_model_complete,
    .prepare = fil_model_prepare,
    .unload = fil_model_unload,
    .instance_new = fil_instance_new,
    .begin = fil_run_begin,
    .add_input = fil_run_add_input,
    .compute = fil_run_compute,
    .read_output = fil_run_read_output,
    .end = fil_run_end,
};
