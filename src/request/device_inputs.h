// SPDX-License-Identifier: Apache-2.0
// Inputs in memory of a GPU that somebody must read on the host before a backend sees them: texts,
// whose lengths are to be checked, and what is padded. They are brought there once, on the
// instance's thread, and the backend gets them there.
#ifndef NEREID_REQUEST_DEVICE_INPUTS_H
#define NEREID_REQUEST_DEVICE_INPUTS_H

#include "request/request.h"

// For a request with r->on_device. Errors name the input: what the driver says of the copy, and
// INVALID_ARG for texts that are not as their lengths say.
error *device_inputs_fetch(request *r, const char *policy); // until the release

#endif
