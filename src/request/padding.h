// SPDX-License-Identifier: Apache-2.0
// Variable shapes (docs/variable_shapes.md): requests of different lengths share a batch. This is
// the part of one request: its inputs as the backend gets them, until its release. Called by the
// thread that owns the request.
#ifndef NEREID_REQUEST_PADDING_H
#define NEREID_REQUEST_PADDING_H

#include "request/request.h"

// Sets the length of a request whose model pads; all its padded inputs must have the same.
// INVALID_ARG if they differ, or if the request has the input of lengths itself. Part of
// request_prepare.
error *padding_measure(request *r);

// Until its release, gives the request inputs padded to `target` and, if the model wants it, its
// length as an input. `policy` is the instance's host policy. UNAVAILABLE when memory is short.
error *padding_apply(request *r, int64_t target, const char *policy);

#endif
