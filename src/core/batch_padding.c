// SPDX-License-Identifier: Apache-2.0
// See batch_padding.h.
#include "core/batch_padding.h"

#include "core/batch_step.h"
#include "request/padding.h"

static int64_t longest_of(const instance *i, size_t first, uint32_t count)
{
  int64_t longest = 0;
  for (uint32_t n = 0; n < count; n++)
    if (i->batch[first + n]->padding_length > longest)
      longest = i->batch[first + n]->padding_length;
  return longest;
}

typedef struct to_length {
  int64_t target;
  const char *host_policy;
} to_length;

static error *pad(request *r, void *context)
{
  const to_length *to = context;
  return padding_apply(r, to->target, to->host_policy);
}

uint32_t pad_batch(instance *i, size_t first, uint32_t count)
{
  const padding_config *p = i->shared->target->signature.padding;
  to_length to = {padding_target(p, longest_of(i, first, count)), i->host_policy};
  return batch_do(i, first, count, pad, &to);
}
