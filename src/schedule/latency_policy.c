// SPDX-License-Identifier: Apache-2.0
// A request that arrives just after all workers began waits for the first of them to end, then for
// its own execution: both must fit into the objective. The limit is the fitting batch size with the
// most rows per second.
#include "schedule/latency_policy.h"

#include <assert.h>

#define MS              UINT64_C(1000000)
#define CHOICE_NS       (5 * MS) // at least, between two choices
#define AS_GOOD         0.97
#define TRIAL_PERIOD    32 // choices; the first two are trials
#define TRIAL_CHOICES   2
#define TRIAL_SIZES     4   // above the best one
#define LATE_PART       100 // one of this many requests may be late
#define JUDGED_REQUESTS 200 // between changes of the budget
#define BUDGET_FULL     0.95
#define BUDGET_LEAST    0.3
#define BUDGET_DOWN     0.92
#define BUDGET_UP       1.01
#define NEWEST_FILL     (1.0 / 32)

void latency_policy_init(latency_policy *p, const latency_settings *settings)
{
  assert(settings->max_batch_size > 0 && settings->workers > 0);
  *p = (latency_policy){.settings = *settings, .budget = BUDGET_FULL, .fill = 1};
  service_curve_init(&p->curve);
  p->choice = (latency_choice){.max_rows = settings->max_batch_size, .admit_rows = UINT64_MAX};
}

bool latency_policy_admits(const latency_policy *p, uint64_t rows, uint64_t waiting_rows)
{
  return waiting_rows == 0 || waiting_rows + rows <= p->choice.admit_rows;
}

static double rate_of_size(const latency_policy *p, uint64_t rows)
{
  double mean = service_curve_mean(&p->curve, rows);
  return mean > 0 ? (double)(rows * p->settings.workers) / mean : 0;
}

uint64_t latency_policy_retry_ns(const latency_policy *p, uint64_t rows, uint64_t waiting_rows)
{
  double rate = rate_of_size(p, p->choice.max_rows);
  uint64_t limit = p->choice.admit_rows > rows ? p->choice.admit_rows - rows : 0;
  if (rate <= 0 || waiting_rows <= limit)
    return 0;
  return (uint64_t)((double)(waiting_rows - limit) / rate);
}

// ---- the choice ----

// The part of the objective for batch sizes, whatever the present budget.
static double budget_ns(const latency_policy *p)
{
  return BUDGET_FULL * (double)p->settings.objective_ns;
}

// The longest time of a request in batches of `rows`: waiting for a worker, then for its answer.
static double worst_ns(const latency_policy *p, uint64_t rows)
{
  double high = service_curve_high(&p->curve, rows);
  return high + high / (double)p->settings.workers;
}

// The largest size about as good as the best: measurements are not exact.
static uint64_t best_size(const latency_policy *p)
{
  uint64_t max = p->settings.max_batch_size, best = 1;
  double best_rate = 0;
  for (uint64_t n = 1; n != 0 && worst_ns(p, n) <= budget_ns(p);
       n = service_curve_next_size(n, max))
    if (rate_of_size(p, n) > best_rate)
      best_rate = rate_of_size(p, n);
  for (uint64_t n = 1; n != 0 && worst_ns(p, n) <= budget_ns(p);
       n = service_curve_next_size(n, max))
    if (rate_of_size(p, n) >= best_rate * AS_GOOD)
      best = n;
  return best;
}

// Sometimes tries a size above the best that fits the objective. Otherwise a size measured slow
// once would never be measured again.
static uint64_t size_to_use(latency_policy *p)
{
  uint64_t best = best_size(p), next = best;
  if (++p->choices % TRIAL_PERIOD >= TRIAL_CHOICES)
    return best;
  for (uint64_t i = 0; i <= p->choices / TRIAL_PERIOD % TRIAL_SIZES && next != 0; i++)
    next = service_curve_next_size(next, p->settings.max_batch_size);
  return next != 0 && worst_ns(p, next) <= budget_ns(p) ? next : best;
}

// The most rows that can be served before the last is late; at least the rows of one batch.
static uint64_t admission(const latency_policy *p, uint64_t max_rows)
{
  uint64_t rows = (uint64_t)(p->fill * (double)max_rows + 0.999);
  double mean = service_curve_mean(&p->curve, rows);
  double left = p->budget * (double)p->settings.objective_ns - worst_ns(p, rows) -
                (1 - p->fill) * mean / (double)p->settings.workers;
  double batches = left > 0 && mean > 0 ? left * (double)p->settings.workers / mean : 0;
  return rows + (uint64_t)(batches * (double)rows);
}

static void choose(latency_policy *p)
{
  latency_choice *c = &p->choice;
  c->max_rows = size_to_use(p);
  c->admit_rows = admission(p, c->max_rows);
}

// Reduces the budget after too many late answers, and slowly raises it when they are few.
static void judge(latency_policy *p)
{
  if (p->answered < JUDGED_REQUESTS)
    return;
  if (p->late * LATE_PART > p->answered)
    p->budget *= BUDGET_DOWN;
  else if (2 * p->late * LATE_PART < p->answered)
    p->budget *= BUDGET_UP;
  p->budget = p->budget > BUDGET_FULL    ? BUDGET_FULL
              : p->budget < BUDGET_LEAST ? BUDGET_LEAST
                                         : p->budget;
  p->answered = p->late = 0;
}

bool latency_policy_executed(latency_policy *p, uint64_t rows, uint64_t left_rows,
                             uint64_t duration_ns, uint64_t requests, uint64_t late,
                             uint64_t now_ns)
{
  service_curve_add(&p->curve, rows, duration_ns);
  if (left_rows > 0 && rows <= p->choice.max_rows)
    p->fill += ((double)rows / (double)p->choice.max_rows - p->fill) * NEWEST_FILL;
  p->answered += requests;
  p->late += late;
  if (now_ns < p->next_choice_ns)
    return false;
  p->next_choice_ns = now_ns + CHOICE_NS;
  judge(p);
  choose(p);
  return true;
}
