// SPDX-License-Identifier: Apache-2.0
// Whether the libmicrohttpd that is loaded keeps the head of a request as head.c reads it: name,
// value and line ends at places that no interface promises. The listener asks at its start.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_PROBE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_PROBE_H

#include "base/error.h"

// Has libmicrohttpd read known requests: a good one must pass, each bad one must be noticed.
// UNAVAILABLE with the version and what was misread.
error *head_probe(void);

#endif
