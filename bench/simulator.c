// SPDX-License-Identifier: Apache-2.0
// A model version in a simulation: the batcher's own code (src/schedule) under a virtual clock,
// arrivals by a workload, executions that take what recorded ones took. One line of JSON tells what
// came of it. bench/simulate.py runs it and makes the picture.
//   simulator CURVE key=value…
// CURVE: a text file, a line for each batch size: rows, then quantiles of what executions took, ns,
// evenly spaced from 0 to 1. Keys: workload (poisson, bursts, diurnal, mixed), rate (requests a
// second; diurnal: at its height), seconds, seed, instances, max_batch_size, objective_us; for a
// tuned setting preferred, delay_us, queue; latency=1: the batcher holds the objective.
#include "schedule/batch_policy.h"
#include "schedule/latency_policy.h"

#include "base/clock.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS          1e9
#define MAX_SIZES   64
#define MAX_WORKERS 64
#define QUANTILES   101
#define BURST_PART                                                                                 \
  0.2 // of the time, with four times the average rate; the rest is a quarter of that
#define BURST_NS 60e6 // how long one lasts on average
#define DAY_NS   20e9 // of the diurnal workload

// ---- chance ----

// Arrivals and executions have chances of their own: whatever the batcher does, the same requests
// come.
static uint64_t arrival_chance, execution_chance;

static double chance(uint64_t *state) // 0 to 1, xorshift64*
{
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (double)((*state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

static double exponential(double mean)
{
  return -mean * log(1 - chance(&arrival_chance));
}

static void begin_chances(uint64_t seed)
{
  arrival_chance = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
  execution_chance = ~arrival_chance;
  for (int i = 0; i < 8; i++) {
    chance(&arrival_chance);
    chance(&execution_chance);
  }
}

// ---- recorded executions ----

typedef struct recording {
  size_t count, quantiles;
  double rows[MAX_SIZES];
  double ns[MAX_SIZES][QUANTILES];
} recording;

static void read_recording(const char *path, recording *r)
{
  char line[1 << 14];
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    perror(path);
    exit(EXIT_FAILURE);
  }
  while (fgets(line, sizeof(line), file) != NULL && r->count < MAX_SIZES) {
    char *at = line;
    if (*at == '#')
      continue;
    r->rows[r->count] = strtod(at, &at);
    size_t n = 0;
    for (char *end; n < QUANTILES; at = end, n++) {
      r->ns[r->count][n] = strtod(at, &end);
      if (end == at)
        break;
    }
    r->quantiles = n;
    r->count++;
  }
  fclose(file);
  if (r->count == 0 || r->quantiles < 2) {
    fprintf(stderr, "%s: no recorded executions\n", path);
    exit(EXIT_FAILURE);
  }
}

static double quantile_of(const recording *r, size_t size, double q)
{
  double at = q * (double)(r->quantiles - 1);
  size_t below = (size_t)at;
  if (below + 1 >= r->quantiles)
    return r->ns[size][r->quantiles - 1];
  return r->ns[size][below] + (r->ns[size][below + 1] - r->ns[size][below]) * (at - (double)below);
}

static double execution_ns(const recording *r, uint64_t rows)
{
  double q = chance(&execution_chance);
  size_t i = 0;
  while (i + 1 < r->count && r->rows[i + 1] <= (double)rows)
    i++;
  double low = quantile_of(r, i, q);
  if (i + 1 == r->count || r->rows[i] >= (double)rows)
    return low * fmax(1, (double)rows / r->rows[i]);
  double high = quantile_of(r, i + 1, q);
  return low + (high - low) * ((double)rows - r->rows[i]) / (r->rows[i + 1] - r->rows[i]);
}

// ---- what comes ----

typedef enum workload_kind {
  WORKLOAD_POISSON,
  WORKLOAD_BURSTS,
  WORKLOAD_DIURNAL,
  WORKLOAD_MIXED, // two shapes, and one to four rows
} workload_kind;

static const char *const workload_names[] = {"poisson", "bursts", "diurnal", "mixed"};

typedef struct workload {
  workload_kind kind;
  double rate; // requests a nanosecond
  bool in_burst;
  double phase_end_ns;
} workload;

static double current_rate(workload *w, double now_ns)
{
  if (w->kind == WORKLOAD_DIURNAL)
    return w->rate * (0.55 - 0.45 * cos(2 * M_PI * now_ns / DAY_NS));
  if (w->kind != WORKLOAD_BURSTS)
    return w->rate;
  while (w->phase_end_ns <= now_ns) {
    w->in_burst = !w->in_burst;
    w->phase_end_ns +=
        exponential(w->in_burst ? BURST_NS : BURST_NS * (1 - BURST_PART) / BURST_PART);
  }
  return w->rate * (w->in_burst ? 4 : 0.25);
}

static double next_arrival(workload *w, double now_ns)
{
  for (;;) { // thinned from the highest rate
    double highest = w->kind == WORKLOAD_BURSTS ? 4 * w->rate : w->rate;
    now_ns += exponential(1 / highest);
    if (chance(&arrival_chance) * highest < current_rate(w, now_ns))
      return now_ns;
  }
}

// ---- the model version ----

typedef struct arrival {
  queue_item item;
  struct arrival *next; // in its batch, or the spare ones
} arrival;

typedef struct worker {
  double ends_ns; // INFINITY: idle
  double began_ns;
  uint64_t rows, left;
  arrival *batch;
} worker;

typedef struct setting {
  workload load;
  double seconds;
  uint64_t workers, max_batch_size, preferred, delay_us, queue, objective_us, seed;
  bool latency;
} setting;

typedef struct simulation {
  const setting *setting;
  recording recorded;
  request_queue queue;
  batch_policy policy;
  uint32_t sizes[2];
  latency_policy latency;
  worker workers[MAX_WORKERS];
  arrival *spare;
  double *latencies;
  size_t served, room, refused, late, offered;
  double busy_ns, executed_rows, executions;
} simulation;

static void use_choice(simulation *s)
{
  const latency_choice *c = &s->latency.choice;
  s->policy.max_batch_size = c->max_rows;
  s->sizes[0] = (uint32_t)c->max_rows;
}

static void init(simulation *s, const setting *setting)
{
  s->setting = setting;
  const queue_config queue = {.default_policy.max_queue_size =
                                  setting->latency ? 0 : (uint32_t)setting->queue};
  if (!request_queue_init(&s->queue, &queue))
    abort();
  s->sizes[0] = (uint32_t)(setting->preferred > 0 ? setting->preferred : setting->max_batch_size);
  s->policy = (batch_policy){.batching = true,
                             .max_batch_size = setting->max_batch_size,
                             .preferred_sizes = s->sizes,
                             .preferred_size_count = 1,
                             .max_delay_ns = setting->delay_us * 1000};
  const latency_settings l = {setting->objective_us * 1000, setting->max_batch_size,
                              setting->workers};
  latency_policy_init(&s->latency, &l);
  if (setting->latency)
    use_choice(s);
  for (size_t w = 0; w < setting->workers; w++)
    s->workers[w].ends_ns = INFINITY;
}

static void refuse(simulation *s, arrival *a)
{
  s->refused++;
  a->next = s->spare;
  s->spare = a;
}

static void arrive(simulation *s, uint64_t now_ns)
{
  static const char *const keys[] = {"a", "b"};
  arrival *a = s->spare != NULL ? s->spare : malloc(sizeof(*a));
  if (a == NULL)
    abort();
  if (a == s->spare)
    s->spare = a->next;
  *a = (arrival){.item.batch_size = 1, .item.batch_key = {keys[0], 1}};
  if (s->setting->load.kind == WORKLOAD_MIXED) {
    a->item.batch_size = 1 + (uint32_t)(chance(&arrival_chance) * 4);
    a->item.batch_key.data = keys[chance(&arrival_chance) < 0.3];
  }
  s->offered++;
  if (s->setting->latency && !latency_policy_admits(&s->latency, a->item.batch_size, s->queue.rows))
    refuse(s, a);
  else if (request_queue_push(&s->queue, &a->item, now_ns) != PUSH_DONE)
    refuse(s, a);
}

static void answer(simulation *s, double latency_ns)
{
  if (s->served == s->room) {
    s->room = s->room == 0 ? 4096 : 2 * s->room;
    s->latencies = realloc(s->latencies, s->room * sizeof(*s->latencies));
    if (s->latencies == NULL)
      abort();
  }
  s->latencies[s->served++] = latency_ns;
}

static void end(simulation *s, worker *w)
{
  uint64_t requests = 0, late = 0;
  for (arrival *a = w->batch, *next; a != NULL; a = next) {
    next = a->next;
    double latency = w->ends_ns - (double)a->item.enqueued_ns;
    requests++;
    late += latency > (double)s->setting->objective_us * 1000;
    answer(s, latency);
    a->next = s->spare;
    s->spare = a;
  }
  s->late += late;
  uint64_t took = (uint64_t)(w->ends_ns - w->began_ns);
  if (latency_policy_executed(&s->latency, w->rows, w->left, took, requests, late,
                              (uint64_t)w->ends_ns) &&
      s->setting->latency)
    use_choice(s);
  w->batch = NULL;
  w->ends_ns = INFINITY;
}

static void begin(simulation *s, worker *w, size_t count, double now_ns)
{
  w->rows = 0;
  for (size_t i = 0; i < count; i++) {
    queue_item *item = request_queue_first(&s->queue);
    request_queue_remove(&s->queue, item);
    arrival *a = container_of(item, arrival, item);
    a->next = w->batch;
    w->batch = a;
    w->rows += queue_item_rows(item);
  }
  w->left = s->queue.rows;
  double took = execution_ns(&s->recorded, w->rows);
  w->began_ns = now_ns;
  w->ends_ns = now_ns + took;
  s->busy_ns += took;
  s->executed_rows += (double)w->rows;
  s->executions++;
}

// Idle workers pull. When the one that waits looks again.
static double pull(simulation *s, double now_ns)
{
  for (size_t i = 0; i < s->setting->workers; i++) {
    worker *w = &s->workers[i];
    if (w->batch != NULL)
      continue;
    batch_decision d = batch_policy_decide(&s->policy, &s->queue, SIZE_MAX, (uint64_t)now_ns);
    if (d.verdict != BATCH_TAKE)
      return d.verdict == BATCH_WAIT ? (double)d.until_ns : INFINITY;
    begin(s, w, d.count, now_ns);
  }
  return INFINITY;
}

static worker *first_to_end(simulation *s)
{
  worker *first = &s->workers[0];
  for (size_t i = 1; i < s->setting->workers; i++)
    if (s->workers[i].ends_ns < first->ends_ns)
      first = &s->workers[i];
  return first;
}

static void run(simulation *s)
{
  workload load = s->setting->load;
  double until = s->setting->seconds * NS, arrival_ns = next_arrival(&load, 0), look_ns = INFINITY;
  for (double now = 0; now < until;) {
    worker *w = first_to_end(s);
    now = fmin(arrival_ns, fmin(w->ends_ns, look_ns));
    if (w->ends_ns <= now)
      end(s, w);
    if (arrival_ns <= now) {
      arrive(s, (uint64_t)now);
      arrival_ns = next_arrival(&load, now);
    }
    look_ns = pull(s, fmax(now, ceil(now)));
    if (look_ns <= now)
      look_ns = now + 1;
  }
}

// ---- the end ----

static int compare(const void *a, const void *b)
{
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

static double percentile(const simulation *s, double p)
{
  return s->served == 0 ? 0 : s->latencies[(size_t)(p * (double)(s->served - 1))] / 1000;
}

static void print(simulation *s)
{
  const setting *of = s->setting;
  qsort(s->latencies, s->served, sizeof(*s->latencies), compare);
  printf("{\"offered\": %.1f, \"served\": %.1f, \"in_time\": %.1f, \"refused\": %.1f, \"p50_us\": "
         "%.0f, \"p99_us\": %.0f, "
         "\"rows_per_execution\": %.2f, \"busy\": %.3f, \"max_rows\": %llu, \"budget\": %.2f}\n",
         (double)s->offered / of->seconds, (double)s->served / of->seconds,
         (double)(s->served - s->late) / of->seconds, (double)s->refused / of->seconds,
         percentile(s, 0.5), percentile(s, 0.99),
         s->executions > 0 ? s->executed_rows / s->executions : 0,
         s->busy_ns / (of->seconds * NS * (double)of->workers),
         (unsigned long long)s->latency.choice.max_rows, s->latency.budget);
}

static void set_number(setting *s, const char *key, double value)
{
  const struct {
    const char *name;
    uint64_t *number;
  } numbers[] = {{"instances", &s->workers},
                 {"max_batch_size", &s->max_batch_size},
                 {"preferred", &s->preferred},
                 {"delay_us", &s->delay_us},
                 {"queue", &s->queue},
                 {"objective_us", &s->objective_us},
                 {"seed", &s->seed}};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    if (strcmp(key, numbers[i].name) == 0) {
      *numbers[i].number = (uint64_t)value;
      return;
    }
  if (strcmp(key, "rate") == 0)
    s->load.rate = value / NS;
  else if (strcmp(key, "seconds") == 0)
    s->seconds = value;
  else if (strcmp(key, "latency") == 0)
    s->latency = value != 0;
  else {
    fprintf(stderr, "unknown key '%s'\n", key);
    exit(EXIT_FAILURE);
  }
}

static void read_argument(setting *s, char *argument)
{
  char *value = strchr(argument, '=');
  if (value == NULL) {
    fprintf(stderr, "expected key=value, got '%s'\n", argument);
    exit(EXIT_FAILURE);
  }
  *value++ = '\0';
  if (strcmp(argument, "workload") != 0) {
    set_number(s, argument, strtod(value, NULL));
    return;
  }
  for (int kind = 0; kind <= WORKLOAD_MIXED; kind++)
    if (strcmp(value, workload_names[kind]) == 0) {
      s->load.kind = (workload_kind)kind;
      return;
    }
  fprintf(stderr, "unknown workload '%s'\n", value);
  exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
  static simulation s;
  setting setting = {.load.rate = 1000 / NS,
                     .seconds = 10,
                     .workers = 1,
                     .max_batch_size = 32,
                     .objective_us = 100000,
                     .seed = 1};
  if (argc < 2) {
    fprintf(stderr, "usage: simulator CURVE key=value...\n");
    return EXIT_FAILURE;
  }
  for (int i = 2; i < argc; i++)
    read_argument(&setting, argv[i]);
  if (setting.workers == 0 || setting.workers > MAX_WORKERS || setting.max_batch_size == 0 ||
      setting.load.rate <= 0) {
    fprintf(stderr, "instances, max_batch_size and rate must be above 0, instances up to %d\n",
            MAX_WORKERS);
    return EXIT_FAILURE;
  }
  begin_chances(setting.seed);
  read_recording(argv[1], &s.recorded);
  init(&s, &setting);
  run(&s);
  print(&s);
  return EXIT_SUCCESS;
}
