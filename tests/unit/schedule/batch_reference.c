// SPDX-License-Identifier: Apache-2.0
// The documented policy in other words; see batch_reference.h.
#include "batch_reference.h"

#include <stdint.h>

bool is_waiting(const model_item *item)
{
  return item->arrival != NULL && (item->fate == WAITING || item->fate == DELAYED);
}

unsigned level_of(const setting *c, const arrival *a)
{
  if (c->levels == 0)
    return 0;
  return a->priority == 0 || a->priority > c->levels ? c->default_level : a->priority;
}

unsigned rows_of(const arrival *a)
{
  return a->rows > 1 ? a->rows : 1;
}

unsigned expiry_of(const setting *c, const arrival *a)
{
  unsigned timeout = c->timeout;
  if (c->override && a->timeout != 0 && a->timeout < timeout)
    timeout = a->timeout;
  return timeout == 0 ? 0 : a->at + timeout;
}

// Whether x is served before y.
static bool is_served_before(const reference *r, size_t x, size_t y)
{
  const model_item *a = &r->items[x], *b = &r->items[y];
  unsigned la = level_of(r->setting, a->arrival), lb = level_of(r->setting, b->arrival);
  if (la != lb)
    return la < lb;
  if (a->fate != b->fate)
    return a->fate == WAITING;
  if (a->fate == DELAYED)
    return a->delayed_order < b->delayed_order;
  return x < y;
}

size_t reference_order(const reference *r, size_t *order)
{
  size_t n = 0;
  for (size_t i = 0; i < r->count; i++) {
    if (!is_waiting(&r->items[i]))
      continue;
    size_t place = 0; // how many waiting items are served before this one
    for (size_t j = 0; j < r->count; j++)
      place += is_waiting(&r->items[j]) && j != i && is_served_before(r, j, i);
    order[place] = i;
    n++;
  }
  return n;
}

bool in_preferred(const setting *c, unsigned rows)
{
  if (c->preferred[0] == 0)
    return rows == c->max_batch;
  return rows == c->preferred[0] || rows == c->preferred[1] || rows == c->preferred[2];
}

unsigned largest_preferred(const setting *c)
{
  unsigned largest = c->max_batch;
  for (size_t i = 0; i < 3 && c->preferred[i] != 0; i++)
    largest = c->preferred[i];
  return largest;
}

promise reference_promise(const reference *r, unsigned now)
{
  const setting *c = r->setting;
  size_t order[MAX_ITEMS];
  size_t n = reference_order(r, order);
  if (n == 0)
    return (promise){0};

  unsigned sum[MAX_ITEMS + 1] = {0};
  for (size_t k = 1; k <= n; k++)
    sum[k] = sum[k - 1] + rows_of(r->items[order[k - 1]].arrival);

  size_t longest = 1; // the longest prefix that makes a batch
  for (size_t k = 2; k <= n; k++) {
    bool equal = true;
    unsigned volume = 0;
    for (size_t i = 0; i < k; i++) {
      equal = equal && r->items[order[i]].arrival->key == r->items[order[0]].arrival->key;
      volume += r->items[order[i]].arrival->volume;
    }
    if (equal && sum[k] <= c->max_batch && (c->max_volume == 0 || volume <= c->max_volume))
      longest = k;
  }
  unsigned oldest = UINT32_MAX;
  for (size_t k = 0; k < longest; k++)
    if (r->items[order[k]].arrival->at < oldest)
      oldest = r->items[order[k]].arrival->at;

  // Rule 1: after the delay everything that fits leaves.
  if (c->delay != 0 && now >= oldest + c->delay)
    return (promise){longest, 0};
  // Rule 2: the largest preferred size that can be formed leaves at once.
  for (size_t k = longest; k > 0; k--)
    if (in_preferred(c, sum[k]))
      return (promise){k, 0};
  // Rule 3: where the requests pass the largest preferred size without meeting one, those before
  // that point leave at once.
  for (size_t k = 1; k < n && k <= longest; k++)
    if (sum[k + 1] > largest_preferred(c))
      return (promise){k, 0};
  if (sum[1] > largest_preferred(c))
    return (promise){1, 0};
  // Nor does what no batch may hold.
  if (c->max_volume != 0 && r->items[order[0]].arrival->volume > c->max_volume)
    return (promise){1, 0};
  // Rule 4: what cannot grow leaves at once, and without a delay everything does.
  if (longest < n || c->delay == 0)
    return (promise){longest, 0};
  return (promise){0, oldest + c->delay};
}
