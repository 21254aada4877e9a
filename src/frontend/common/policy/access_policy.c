// The rules on which all front ends agree.
#include "frontend/common/policy/access_policy.h"

static bool wants_key(const access_policy *policy, route_category category)
{
  return policy->restricted.of[category].header != NULL;
}

bool access_policy_is_closed(const access_policy *policy, route_category category)
{
  return policy->secure && !policy->is_admin && route_category_is_admin(category) &&
         !wants_key(policy, category);
}

bool access_policy_takes_code(const access_policy *policy)
{
  return policy->is_admin || policy->allow_model_upload ||
         wants_key(policy, CATEGORY_MODEL_REPOSITORY);
}
