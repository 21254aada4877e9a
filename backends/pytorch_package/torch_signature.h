// SPDX-License-Identifier: Apache-2.0
// The signature of a model that says little about its tensors. Load threads.
#ifndef NEREID_TORCH_SIGNATURE_H
#define NEREID_TORCH_SIGNATURE_H

#include "framework.h"
#include "torch_names.h"

// Makes it from the configuration.
TRITONSERVER_Error *torch_signature_make(framework_model *model, const torch_known *inputs,
                                         const torch_known *outputs);

#endif
