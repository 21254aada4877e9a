// SPDX-License-Identifier: Apache-2.0
// Variable shapes (docs/variable_shapes.md): requests of different lengths share a batch. What
// belongs to one request: its inputs as a backend gets them, until it is released. The thread that
// has the request.
#ifndef NEREID_REQUEST_PADDING_H
#define NEREID_REQUEST_PADDING_H

#include "request/request.h"

// Of a request whose model pads: its length, which all its padded inputs have alike. INVALID_ARG
// where they do not, or where it brings the input of lengths. Part of request_prepare.
error *padding_measure(request *r);

// Gives the request inputs that are padded to `target`, and its length as an input where the model
// wants that, until it is released. `policy` is the host policy of the instance. UNAVAILABLE when
// memory is short.
error *padding_apply(request *r, int64_t target, const char *policy);

#endif
