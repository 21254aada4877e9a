// SPDX-License-Identifier: Apache-2.0
// Reads grpc-timeout.
#include "frontend/grpc/transport/timeout.h"

#include "base/text.h"

#include <string.h>

static uint64_t unit_ns(char unit)
{
  static const char units[] = {'H', 'M', 'S', 'm', 'u', 'n'};
  static const uint64_t ns[] = {3600000000000, 60000000000, 1000000000, 1000000, 1000, 1};
  const char *found = memchr(units, unit, sizeof(units));
  return found == NULL ? 0 : ns[found - units];
}

uint64_t timeout_deadline(slice text, uint64_t now_ns)
{
  uint64_t count;
  if (text.size < 2 || text.size > 9)
    return 0;
  uint64_t unit = unit_ns(text.data[text.size - 1]);
  if (unit == 0 || !text_to_uint64((slice){text.data, text.size - 1}, &count))
    return 0;
  uint64_t span;
  uint64_t moment;
  if (__builtin_mul_overflow(count, unit, &span) || __builtin_add_overflow(now_ns, span, &moment))
    return 0;
  return moment == 0 ? 1 : moment;
}
