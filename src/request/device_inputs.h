// SPDX-License-Identifier: Apache-2.0
// Inputs in GPU memory that must be read on the host before a backend sees them: texts, whose
// lengths are checked, and padded inputs. They are copied to the host once, on the instance's
// thread, and the backend gets the copies.
#ifndef NEREID_REQUEST_DEVICE_INPUTS_H
#define NEREID_REQUEST_DEVICE_INPUTS_H

#include "request/request.h"

// For a request with r->on_device; the copies last until its release. Errors name the input: the
// driver's error, or INVALID_ARG for texts that contradict their lengths.
error *device_inputs_fetch(request *r, const char *policy);

#endif
