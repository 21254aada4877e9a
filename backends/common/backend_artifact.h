// SPDX-License-Identifier: Apache-2.0
// Chooses the model file for each device: cc_model_filenames. Load threads.
#ifndef NEREID_BACKEND_ARTIFACT_H
#define NEREID_BACKEND_ARTIFACT_H

#include "backend_config.h"

// The file for a device (-1: the CPU): the entry of cc_model_filenames for its compute capability
// ("9.0"), else default_model_filename. "" when the configuration names none. The name belongs to
// `config`. INTERNAL when there is no such device.
TRITONSERVER_Error *backend_artifact(const json_t *config, int device, const char **file);

// Logs, in Triton's words, which file the instance loads.
TRITONSERVER_Error *backend_artifact_log(TRITONBACKEND_ModelInstance *instance,
                                         const json_t *config);

#endif
