// SPDX-License-Identifier: Apache-2.0
// Does the time that a key's comparison takes tell where the first wrong byte is? Measures keys
// that are wrong at their first and at their last byte, in random turns, and compares the two by
// Welch's t (dudect's method). Status 1 when |t| reaches 4.5. Run by scripts/timing; needs a quiet
// machine.
#include "frontend/common/policy/access_policy.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEASUREMENTS 1000000
#define CALLS        16   // in one measurement: a clock's step is longer than one
#define LONGEST_NS   5000 // longer ones were interrupted
#define KEY          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

typedef struct samples {
  double count, mean, squares;
} samples;

// Welford's
static void add(samples *s, double value)
{
  double before = value - s->mean;
  s->count++;
  s->mean += before / s->count;
  s->squares += before * (value - s->mean);
}

static size_t look_up(void *key, const char *name, slice *value)
{
  (void)name;
  *value = slice_of(key);
  return 1;
}

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double measure(const restrictions *set, char *key)
{
  bool admitted = false;
  uint64_t begin = now_ns();
  for (int i = 0; i < CALLS; i++)
    admitted |= restrictions_admit(set, CATEGORY_TRACE, look_up, key);
  double taken = (double)(now_ns() - begin);
  if (admitted) {
    fprintf(stderr, "a wrong key was taken\n");
    exit(EXIT_FAILURE);
  }
  return taken;
}

int main(void)
{
  static const char *const classes[] = {
      "x"
      "123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdex"};
  char key[sizeof(KEY)];
  samples found[2] = {{0}};
  restrictions set = {0};
  if (restrictions_add(&set, "api", "", "trace:key=" KEY) != NULL)
    return EXIT_FAILURE;
  for (int i = 0; i < MEASUREMENTS; i++) {
    int class = random() & 1;
    memcpy(key, classes[class], sizeof(key)); // one place for both: caches do not tell them apart
    double taken = measure(&set, key);
    if (taken < LONGEST_NS)
      add(&found[class], taken);
  }
  restrictions_fini(&set);
  double error = sqrt(found[0].squares / found[0].count / found[0].count +
                      found[1].squares / found[1].count / found[1].count);
  double t = (found[0].mean - found[1].mean) / error;
  printf(
      "wrong at the first byte: %.2f ns, at the last: %.2f ns, t = %.2f over %.0f measurements\n",
      found[0].mean / CALLS, found[1].mean / CALLS, t, found[0].count + found[1].count);
  return fabs(t) < 4.5 ? EXIT_SUCCESS : EXIT_FAILURE;
}
