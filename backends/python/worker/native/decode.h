// SPDX-License-Identifier: Apache-2.0
// From control parts in the host's region to Python objects.
#ifndef NEREID_DECODE_H
#define NEREID_DECODE_H

#include "block.h"

// The list of InferenceRequest objects of a WORK_EXECUTE whose control part is [at, at + size) in
// `in`.
PyObject *decode_requests(block *in, const uint8_t *at, size_t size, bool is_decoupled);

// The InferenceResponse of a reply to CALL_INFER, or None (RESPONSE_NONE). Its tensors have blocks
// of their own, but those on a device, which are with the control part's, `in`.
PyObject *decode_response(block *in, const uint8_t *at, size_t size);

#endif
