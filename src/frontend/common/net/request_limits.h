// SPDX-License-Identifier: Apache-2.0
// Limits of one inference request, for every front end.
#ifndef NEREID_FRONTEND_COMMON_NET_REQUEST_LIMITS_H
#define NEREID_FRONTEND_COMMON_NET_REQUEST_LIMITS_H

#define REQUEST_TENSORS_MAX    4096 // inputs, and outputs; names are compared pair by pair
#define REQUEST_DIMENSIONS_MAX 64   // of a tensor
#define REQUEST_NAME_MAX_BYTES 255  // of a tensor; errors quote names whole
#define REQUEST_PARAMETERS_MAX 4096 // of a request and its tensors
#define REQUEST_ID_MAX_BYTES   65536

#endif
