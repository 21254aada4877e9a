// SPDX-License-Identifier: Apache-2.0
// Makes Python objects from control parts in the host's region.
#ifndef NEREID_DECODE_H
#define NEREID_DECODE_H

#include "block.h"

// The list of InferenceRequest objects of a WORK_EXECUTE. Its control part is [at, at + size) in
// block `in`.
PyObject *decode_requests(block *in, const uint8_t *at, size_t size, bool is_decoupled);

// The InferenceResponse of a reply to CALL_INFER, or None (RESPONSE_NONE). Its tensors have blocks
// of their own, except those on a device, which belong to the control part's block, `in`.
PyObject *decode_response(block *in, const uint8_t *at, size_t size);

#endif
