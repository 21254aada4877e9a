// SPDX-License-Identifier: Apache-2.0
// Who may do what at a listener, as the flags say it (docs/security.md): for all front ends. Which
// parts of the server want a key: the categories that Triton's flags name, and for each of them the
// header (or metadata) field that a request must have, with its value. Made once at the start and
// never changed then: any thread may ask.
#ifndef NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H
#define NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// What a route or a call concerns.
typedef enum route_category {
  CATEGORY_HEALTH,
  CATEGORY_METADATA,
  CATEGORY_INFERENCE,
  CATEGORY_SHARED_MEMORY,
  CATEGORY_MODEL_CONFIG,
  CATEGORY_MODEL_REPOSITORY,
  CATEGORY_STATISTICS,
  CATEGORY_TRACE,
  CATEGORY_LOGGING,
  CATEGORY_COUNT,
} route_category;

// As --http-restricted-api names it.
const char *route_category_name(route_category category);

// A category that changes the server rather than uses it.
bool route_category_is_admin(route_category category);

// Field names of --grpc-restricted-protocol begin so.
#define RESTRICTED_GRPC_PREFIX "triton-grpc-protocol-"

typedef struct restriction {
  char *header; // owned; NULL: the category is open
  char *value;  // owned
} restriction;

typedef struct restrictions {
  restriction of[CATEGORY_COUNT];
} restrictions;

// Takes "<category>[,<category>...]:<key>=<value>": the field is `prefix` and the key; a value
// "file:<path>" is the content of a file without the end of its line, "env:<name>" that of a
// variable. `kind` is how errors call a category. INVALID_ARG with Triton's texts for a category
// that is unknown or was given before. `set` begins as {0} and needs restrictions_fini whatever
// happens.
error *restrictions_add(restrictions *set, const char *kind, const char *prefix, const char *text);
void restrictions_fini(restrictions *set);

// Gives how many fields of this name (in any case) the request has, and the first one's value.
typedef size_t restricted_lookup(void *request, const char *name, slice *value);

// The category is open, or the request has its field exactly once with exactly its value. The time
// that this takes does not tell how much of a value is right.
bool restrictions_admit(const restrictions *set, route_category category, restricted_lookup *lookup,
                        void *request);

// Lists the categories that want a key in `closed` and not in `open`: "inference, trace".
void restrictions_list_open(const restrictions *closed, const restrictions *open, buffer *names);

typedef struct access_policy {
  restrictions restricted; // categories that want a key
  bool is_admin;           // whoever gets to the address may do everything: it wants no keys
  bool secure;             // elsewhere admin categories want a key, wherever the client is
  bool allow_model_upload; // loads may bring code from other machines
  bool loads_models;       // load requests do something
} access_policy;

// What the 403 or PERMISSION_DENIED of access_policy_is_closed says of a category.
#define ACCESS_CLOSED_FORMAT                                                                       \
  "'%s' requests want a key or the admin address (--secure): see --restricted-api and "            \
  "--admin-address"

// And that of code that comes with a load: what it is, and why it may not come.
#define ACCESS_NO_CODE_FORMAT                                                                      \
  "%s is taken from this machine only, unless --allow-model-upload is given, and %s"

// Is an admin category refused to everybody? It is not once a key can be shown for it.
bool access_policy_is_closed(const access_policy *policy, route_category category);

// May the client of a load bring code, wherever it is? It has shown the key if one is wanted. Else
// it may from this machine only.
bool access_policy_takes_code(const access_policy *policy);

#endif
