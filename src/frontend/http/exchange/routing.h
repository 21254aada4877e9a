// SPDX-License-Identifier: Apache-2.0
// Rows of a route table: methods, path, category, body, handler; and how a request's row is found.
// Pure functions, any thread.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_ROUTING_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_ROUTING_H

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
  METHOD_GET = 1,           // and HEAD, which is GET without the reply's body
  METHOD_POST = 2,
} route_method;

// Parts of a path that vary.
typedef enum route_parameter {
  PARAMETER_MODEL,
  PARAMETER_VERSION, // decimal digits, or a label
  PARAMETER_REPOSITORY,
  PARAMETER_REGION,
  PARAMETER_COUNT,
} route_parameter;

// Makes the reply, or hands the exchange to somebody who will (exchange.h). Loop thread.
typedef void (*route_handler)(exchange *x);

typedef struct route {
  unsigned methods; // route_method bits
  const char *path; // with {model}, {version}, {repository}, {region} as whole segments; or "*"
  route_category category;
  route_body body;
  route_handler handle;
} route;

typedef struct route_table {
  const route *rows;
  size_t count;
  route_handler admit[BODY_KINDS]; // before a body of that kind is taken; NULL: nothing is asked
} route_table;

typedef struct route_match {
  const route *route;                // NULL: no row has the method
  unsigned methods;                  // all methods of the rows with this path; 0: no such path
  route_category category;           // of the path, whatever the method
  slice parameters[PARAMETER_COUNT]; // views of the path, still percent-encoded; size 0: absent
} route_match;

// Finds the row for `path` (up to the query, not decoded: a fixed segment matches byte for byte).
// The row is the one that has `method` (a bit, or 0 for a method that no row has), else NULL while
// `methods` tells which ones the path has.
route_match route_find(const route_table *table, unsigned method, slice path);

// The path of a request's target: clients that take the server for a proxy send a whole URL
// (RFC 9112, 3.2.2).
slice route_path_of(const char *target);

// The host that such a URL names, and its port; it counts in place of the field Host. Size 0 where
// the target is a path.
slice route_authority_of(const char *target);

// The bit of a method's name; 0 for one that no route has.
unsigned route_method_of(const char *name);

// Decodes %XX of a path parameter into `to` (of at least `from.size` + 1 bytes, NUL-terminated).
// False for a malformed escape and for one that hides '/', NUL or another control character: such
// a name never passes.
bool route_decode(slice from, char *to);

#endif
