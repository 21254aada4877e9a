// SPDX-License-Identifier: Apache-2.0
// The access rules of a listener, according to the flags (docs/security.md); for all front ends.
// Requests are in categories, as Triton's flags name them. A restricted category wants a key: a
// header (or metadata) field with a certain value. Constant after the start, except the values of
// keys; any thread may ask.
#ifndef NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H
#define NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

// The part of the server that a route or a call concerns.
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

// The name in --http-restricted-api.
const char *route_category_name(route_category category);

// Does the category change the server?
bool route_category_is_admin(route_category category);

// Prefix of the field names of --grpc-restricted-protocol.
#define RESTRICTED_GRPC_PREFIX "triton-grpc-protocol-"

typedef struct restriction {
  char *header; // owned; NULL: the category is open
  char *value;  // owned
} restriction;

typedef struct restrictions restrictions;
struct restrictions {
  restriction of[CATEGORY_COUNT]; // headers: constant after the start
  restrictions *_Atomic renewed;  // has the values that count now; NULL: this one has
  restrictions *older;            // of a renewed set: the one before
};

// Adds "<category>[,<category>...]:<key>=<value>". The field's name is `prefix` and the key. The
// value may be "file:<path>" for a file's content without its line end, "cred:<name>" for a
// credential of the service manager, or "env:<name>" for a variable. `kind` is the word for a
// category in errors. INVALID_ARG with Triton's texts for a category that is unknown or was given
// before. `set` begins as {0} and needs restrictions_fini even after an error.
error *restrictions_add(restrictions *set, const char *kind, const char *prefix, const char *text);
void restrictions_fini(restrictions *set);

// The first category that wants a key in one set and none, or with another header, in the other;
// CATEGORY_COUNT: there is none.
route_category restrictions_difference(const restrictions *set, const restrictions *other);

// Puts the values of `fresh`, which does not differ otherwise, into effect for requests from now
// on. *changed: one was another one. Takes the contents of `fresh` if so. One thread at a time;
// others may ask meanwhile.
error *restrictions_renew(restrictions *set, restrictions *fresh, bool *changed);

#define RESTRICTION_FILE "file:"

// Whether a value only says where the secret is: "file:", "cred:", "env:".
bool restriction_is_reference(const char *value);

// Returns how many fields of this name (in any case) the request has, and the value of the first.
typedef size_t restricted_lookup(void *request, const char *name, slice *value);

// True if the category is open, or the request has its field exactly once with exactly its value.
// The time does not tell how much of a value is right.
bool restrictions_admit(const restrictions *set, route_category category, restricted_lookup *lookup,
                        void *request);

// Lists the categories that are restricted in `closed` but not in `open`: "inference, trace".
void restrictions_list_open(const restrictions *closed, const restrictions *open, buffer *names);

typedef struct access_policy {
  restrictions restricted; // categories that want a key
  bool is_admin;           // an address for operators: every client may do everything, without keys
  bool secure;             // --secure: admin categories always want a key, even from this machine
  bool allow_model_upload; // loads may bring code from other machines
  bool loads_models;       // the server accepts load requests
} access_policy;

// The text of the 403 or PERMISSION_DENIED for access_policy_is_closed, with the category.
#define ACCESS_CLOSED_FORMAT                                                                       \
  "'%s' requests want a key or the admin address (--secure): see --restricted-api and "            \
  "--admin-address"

// The text for code that comes with a load: what it is, and why it is refused.
#define ACCESS_NO_CODE_FORMAT                                                                      \
  "%s is taken from this machine only, unless --allow-model-upload is given, and %s"

// Is the admin category refused to every client, because it has no key?
bool access_policy_is_closed(const access_policy *policy, route_category category);

// May a load bring code from any machine? Otherwise it may from this machine only. A wanted key was
// checked before.
bool access_policy_takes_code(const access_policy *policy);

#endif
