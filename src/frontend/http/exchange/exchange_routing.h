// SPDX-License-Identifier: Apache-2.0
// A route table's rows (methods, path, category, body, handler), and the search for a request's
// row. Pure functions, any thread.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_ROUTING_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_EXCHANGE_ROUTING_H

#include "base/slice.h"
#include "frontend/common/policy/access_policy.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct exchange exchange;

typedef enum route_body {
  BODY_IGNORED,  // read and dropped
  BODY_JSON,     // empty or one JSON object
  BODY_GENERATE, // generate: one JSON object, not compressed
  BODY_TENSORS,  // infer: JSON, JSON with tensors behind it, or one raw tensor
  BODY_KINDS,
} route_body;

typedef enum route_method { // bits
  METHOD_GET = 1,           // and HEAD, whose reply has no body
  METHOD_POST = 2,
} route_method;

// Variable parts of a path.
typedef enum route_parameter {
  PARAMETER_MODEL,
  PARAMETER_VERSION, // decimal digits, or a label
  PARAMETER_REPOSITORY,
  PARAMETER_REGION,
  PARAMETER_COUNT,
} route_parameter;

// Makes the reply, or suspends the exchange (exchange.h). Loop thread.
typedef void (*route_handler)(exchange *x);

typedef struct route {
  unsigned methods; // route_method bits
  const char *path; // {model}, {version}, {repository}, {region} are whole segments; "*": any path
  route_category category;
  route_body body;
  route_handler handle;
} route;

typedef struct route_table {
  const route *rows;
  size_t count;
  route_handler admit[BODY_KINDS]; // called before a body of this kind is read; or NULL
} route_table;

typedef struct route_match {
  const route *route;                // NULL: no row has the method
  unsigned methods;                  // of all rows with this path; 0: no such path
  route_category category;           // of the path, for any method
  slice parameters[PARAMETER_COUNT]; // views of the path, percent-encoded; size 0: absent
} route_match;

// Finds the row for `path` (without query, not decoded: fixed segments match byte for byte) and
// `method` (a bit, or 0). Without a row for the method, `methods` has those of the path.
route_match route_find(const route_table *table, unsigned method, slice path);

// The path of a request's target, which may be a whole URL, as to a proxy (RFC 9112, 3.2.2).
slice route_path_of(const char *target);

// Host and port in such a URL, which replace the field Host. Size 0 when the target is a path.
slice route_authority_of(const char *target);

// The bit of a method's name; 0 for a method without routes.
unsigned route_method_of(const char *name);

// Decodes %XX in a path parameter into `to`, NUL-terminated, which must have `from.size` + 1 bytes.
// False for a malformed escape, and for one of '/', NUL or another control character.
bool route_decode(slice from, char *to);

#endif
