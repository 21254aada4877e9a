// SPDX-License-Identifier: Apache-2.0
// Outputs that are not what the model's configuration says: they are sent as the model made them,
// as Triton does, logged once and counted; a model with strict outputs is refused them. Called by
// the backend's thread that makes a response.
#ifndef NEREID_REQUEST_OUTPUT_CHECK_H
#define NEREID_REQUEST_OUTPUT_CHECK_H

#include "base/error.h"
#include "request/target.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stdint.h>

// Whether datatype and dims (as the backend has them, with the batch dimension) are the
// configuration's. The size of the batch may be any.
bool output_fits(const request_target *target, const tensor_signature *output,
                 TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count);

// Each of these counts, and warns at the first such output of this name. NULL, or INTERNAL for a
// model with strict outputs.
error *output_misfit(const request_target *target, const tensor_signature *output,
                     TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count);
error *output_repeated(const request_target *target, const tensor_signature *output);
error *output_unconfigured(const request_target *target, const char *name);

#endif
