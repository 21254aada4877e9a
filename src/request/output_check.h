// SPDX-License-Identifier: Apache-2.0
// Outputs that differ from the model's configuration. They are counted, logged once and sent as the
// model made them, as in Triton; a model with strict outputs gets an error instead. Called on the
// backend's thread that makes a response.
#ifndef NEREID_REQUEST_OUTPUT_CHECK_H
#define NEREID_REQUEST_OUTPUT_CHECK_H

#include "base/error.h"
#include "request/target.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stdint.h>

// Whether datatype and dims (the backend's, with the batch dimension) match the configuration. Any
// batch size matches.
bool output_fits(const request_target *target, const tensor_signature *output,
                 TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count);

// Each counts the output, and warns at the first of its name. NULL, or INTERNAL for a model with
// strict outputs.
error *output_misfit(const request_target *target, const tensor_signature *output,
                     TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count);
error *output_repeated(const request_target *target, const tensor_signature *output);
error *output_unconfigured(const request_target *target, const char *name);

#endif
