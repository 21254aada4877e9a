// Reads grpc-timeout.
#include "frontend/grpc/transport/timeout.h"

#include "base/text.h"

static uint64_t unit_ns(char unit)
{
  switch (unit) {
  case 'H':
    return UINT64_C(3600000000000);
  case 'M':
    return UINT64_C(60000000000);
  case 'S':
    return UINT64_C(1000000000);
  case 'm':
    return UINT64_C(1000000);
  case 'u':
    return UINT64_C(1000);
  case 'n':
    return 1;
  default:
    return 0;
  }
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
