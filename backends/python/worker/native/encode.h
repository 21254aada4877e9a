// SPDX-License-Identifier: Apache-2.0
// Encodes responses and inferences, from Python objects to blocks of this worker's region.
#ifndef NEREID_ENCODE_H
#define NEREID_ENCODE_H

#include "outgoing.h"

// Sets the outputs of the model's configuration, a set of names.
void encode_set_outputs(PyObject *names_of_outputs);

// The answer to a WORK_EXECUTE that the worker took at `begun_ns` (0: unknown) and has just
// executed. `responses`: a list of InferenceResponse, None, and True for a request to be
// rescheduled. `requests`: the requests that they answer; outputs that a request did not ask for
// are left out. Only the caller may hold the two lists, and it must drop their contents before the
// answer is sent.
bool encode_answer(outgoing *made, PyObject *requests, PyObject *responses, uint64_t begun_ns);

// The control part of a CALL_RESPONSE. `requested`: a tuple of names; `response` may be None.
bool encode_response(outgoing *made, PyObject *requested, PyObject *response);

// The control part of a CALL_INFER. `head`: everything before the inputs; `inputs`: a list of
// Tensor.
bool encode_infer(outgoing *made, PyObject *head, PyObject *inputs);

#endif
