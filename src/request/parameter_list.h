// SPDX-License-Identifier: Apache-2.0
// A growing list of parameters in an arena, for requests and responses.
#ifndef NEREID_REQUEST_PARAMETER_LIST_H
#define NEREID_REQUEST_PARAMETER_LIST_H

#include "base/arena.h"
#include "base/error.h"
#include "request/parameter.h"

#define MAX_PARAMETER_LIST 4096 // each is compared with all earlier ones

// Copies name and value into the arena; replaces a parameter of the same name.
error *parameter_list_set(arena *memory, parameter **list, uint32_t *count, const char *name,
                          parameter value);

#endif
