// Who may do what at a listener, as the flags say it (docs/security.md): for all front ends. Made
// once at the start and never changed then: any thread may ask.
#ifndef NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H
#define NEREID_FRONTEND_COMMON_POLICY_ACCESS_POLICY_H

#include "frontend/common/policy/restricted.h"

#include <stdbool.h>

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
