// SPDX-License-Identifier: Apache-2.0
// Samples as Prometheus must read them, and quantiles of known distributions with a clock of ours.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metrics/exposition.h"
#include "metrics/sliding_quantiles.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

// ---- labels ----

static void assert_labels(const metric_label *labels, size_t count, const char *expected)
{
  buffer text = BUFFER_EMPTY;
  assert_true(metrics_render_labels(&text, labels, count));
  char *rendered = buffer_take_text(&text);
  assert_string_equal(rendered, expected);
  free(rendered);
}

static void test_labels_are_sorted_and_escaped(void **state)
{
  (void)state;
  const metric_label tagged[] = {{"version", "1"}, {"model", "m"}, {"_version", "blue"}, {"_", ""}};
  assert_labels(tagged, 4, "_=\"\",_version=\"blue\",model=\"m\",version=\"1\"");
  const metric_label hostile[] = {{"a", "q\"b\\c\nd,e=\""}, {"b", "ü\xff\xc0\x80"}};
  assert_labels(hostile, 2,
                "a=\"q\\\"b\\\\c\\nd,e=\\\"\",b=\"ü\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
  assert_labels(NULL, 0, "");
}

static void test_as_many_labels_as_one_likes(void **state)
{
  (void)state;
  metric_label labels[300];
  char names[300][8];
  for (size_t i = 0; i < 300; i++) {
    snprintf(names[i], sizeof(names[i]), "k%zu", 299 - i);
    labels[i] = (metric_label){names[i], "v"};
  }
  buffer text = BUFFER_EMPTY;
  assert_true(metrics_render_labels(&text, labels, 300));
  assert_memory_equal(text.data, "k0=\"v\",k1=\"v\",k10=\"v\"", 21);
  buffer_fini(&text);
}

static void assert_sample(const char *labels, metric_label more, const char *expected)
{
  metrics_sheet sheet = METRICS_SHEET_EMPTY;
  buffer text = BUFFER_EMPTY;
  metrics_family *family = metrics_sheet_family(&sheet, METRIC_COUNTER, "x_total", "x");
  metrics_family_add_with(family, slice_of(labels), more, 7);
  assert_true(metrics_sheet_print(&sheet, &text));
  char *printed = buffer_take_text(&text);
  assert_string_equal(strstr(printed, "x_total{"), expected);
  free(printed);
  metrics_sheet_fini(&sheet);
}

// What a value looks like must not decide where a label goes.
static void test_one_more_label_comes_where_its_name_belongs(void **state)
{
  (void)state;
  const metric_label reason = {"reason", "a\"b"};
  assert_sample("", reason, "x_total{reason=\"a\\\"b\"} 7\n");
  assert_sample("model=\"m\",version=\"1\"", reason,
                "x_total{model=\"m\",reason=\"a\\\"b\",version=\"1\"} 7\n");
  assert_sample("_version=\"1\",model=\"m\",version=\"1\"", reason,
                "x_total{_version=\"1\",model=\"m\",reason=\"a\\\"b\",version=\"1\"} 7\n");
  assert_sample("model=\"version=\\\"\\\\\",version=\"1\"", reason,
                "x_total{model=\"version=\\\"\\\\\",reason=\"a\\\"b\",version=\"1\"} 7\n");
  assert_sample("a=\"1\"", reason, "x_total{a=\"1\",reason=\"a\\\"b\"} 7\n");
  assert_sample("reason_2=\"1\"", reason, "x_total{reason=\"a\\\"b\",reason_2=\"1\"} 7\n");
  assert_sample("rea=\"1\"", reason, "x_total{rea=\"1\",reason=\"a\\\"b\"} 7\n");
}

static void test_a_summary_is_printed(void **state)
{
  (void)state;
  metrics_sheet sheet = METRICS_SHEET_EMPTY;
  buffer text = BUFFER_EMPTY;
  const double quantiles[] = {0.5, 0.999}, values[] = {12, NAN};
  metrics_family_add_summary(metrics_sheet_family(&sheet, METRIC_SUMMARY, "s_us", "h\\"),
                             slice_of("model=\"m\""), quantiles, values, 2, 3, 30);
  assert_true(metrics_sheet_print(&sheet, &text));
  char *printed = buffer_take_text(&text);
  assert_string_equal(printed, "# HELP s_us h\\\\\n# TYPE s_us summary\ns_us_count{model=\"m\"} 3\n"
                               "s_us_sum{model=\"m\"} 30\ns_us{model=\"m\",quantile=\"0.5\"} 12\n"
                               "s_us{model=\"m\",quantile=\"0.999\"} NaN\n");
  free(printed);
  metrics_sheet_fini(&sheet);
}

// ---- quantiles ----

static double find(const sliding_quantiles *s, uint64_t now_ns, double quantile)
{
  static quantile_counts sum;
  sum = (quantile_counts){0};
  sliding_quantiles_collect(s, now_ns, &sum);
  return quantile_counts_find(&sum, quantile);
}

static int compare(const void *a, const void *b)
{
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

#define SAMPLES 20000

// Each told quantile must be the sample of that rank, as far as the bound says.
static void assert_quantiles(uint64_t *samples)
{
  static const double quantiles[] = {-1, 0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1, 2};
  sliding_quantiles *s = calloc(1, sizeof(*s));
  for (size_t i = 0; i < SAMPLES; i++)
    sliding_quantiles_add(s, 7 * SECOND, samples[i]);
  qsort(samples, SAMPLES, sizeof(*samples), compare);
  for (size_t q = 0; q < sizeof(quantiles) / sizeof(quantiles[0]); q++) {
    double rank = fmin(fmax(ceil(quantiles[q] * SAMPLES), 1), SAMPLES);
    double exact = (double)samples[(size_t)rank - 1];
    double error = fabs(find(s, 7 * SECOND, quantiles[q]) - exact);
    assert_true(exact < 128 ? error == 0 : error <= exact * SLIDING_QUANTILES_ERROR);
  }
  sliding_quantiles_fini(s);
  free(s);
}

static void test_quantiles_are_near_the_sample_of_their_rank(void **state)
{
  (void)state;
  static uint64_t samples[SAMPLES];
  srand(14);
  for (size_t i = 0; i < SAMPLES; i++) // uniform, exact
    samples[i] = (uint64_t)rand() % 128;
  assert_quantiles(samples);
  for (size_t i = 0; i < SAMPLES; i++) // uniform
    samples[i] = (uint64_t)rand() % 1000000;
  assert_quantiles(samples);
  for (size_t i = 0; i < SAMPLES; i++) // exponential, over many powers of two
    samples[i] = (uint64_t)(1000 * -log((rand() + 1.0) / (RAND_MAX + 1.0)));
  assert_quantiles(samples);
  for (size_t i = 0; i < SAMPLES; i++) // two humps, one rare and far
    samples[i] = i % 500 == 0 ? 3000000000u + (uint64_t)rand() % 1000 : 200 + (uint64_t)rand() % 9;
  assert_quantiles(samples);
}

static void test_nothing_and_the_largest(void **state)
{
  (void)state;
  sliding_quantiles *s = calloc(1, sizeof(*s));
  assert_true(isnan(find(s, 0, 0.5)));
  sliding_quantiles_add(s, 0, 0);
  assert_true(find(s, 0, 0.5) == 0);
  sliding_quantiles_add(s, 0, UINT64_MAX);
  double largest = (double)(UINT64_C(1) << 40);
  assert_true(fabs(find(s, 0, 1) - largest) <= largest * SLIDING_QUANTILES_ERROR);
  sliding_quantiles_fini(s);
  free(s);
}

// What is 48 seconds old counts, what is 60 seconds old does not, and the ring goes round.
static void test_what_is_old_is_forgotten(void **state)
{
  (void)state;
  sliding_quantiles *s = calloc(1, sizeof(*s));
  for (uint64_t round = 0; round < 3; round++) {
    uint64_t begin = (round + 1) * 600 * SECOND;
    sliding_quantiles_add(s, begin, 10);
    assert_true(find(s, begin + 48 * SECOND, 0.5) == 10);
    sliding_quantiles_add(s, begin + 13 * SECOND, 100);
    assert_true(find(s, begin + 48 * SECOND, 0.25) == 10);
    assert_true(find(s, begin + 48 * SECOND, 0.75) == 100);
    assert_true(find(s, begin + 60 * SECOND, 0.25) == 100);
    assert_true(isnan(find(s, begin + 73 * SECOND, 0.5)));
  }
  sliding_quantiles_add(s, 10 * SECOND, 5); // from a thread that slept long: lost
  assert_true(isnan(find(s, 10000 * SECOND, 0.5)));
  sliding_quantiles_fini(s);
  free(s);
}

// ---- threads: no lock, so ThreadSanitizer has something to say ----

#define THREADS 4
#define ROUNDS  20000

typedef struct adder {
  pthread_t thread;
  sliding_quantiles *estimator;
  uint64_t value;
} adder;

// Time passes quickly, so that slices are cleared while others add to them.
static void *add_many(void *adder_pointer)
{
  adder *a = adder_pointer;
  for (uint64_t i = 0; i < ROUNDS; i++)
    sliding_quantiles_add(a->estimator, i * SECOND / 10, a->value);
  return NULL;
}

static void test_threads_add_while_one_reads(void **state)
{
  (void)state;
  static quantile_counts sum;
  sliding_quantiles *s = calloc(1, sizeof(*s));
  adder adders[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    adders[i] = (adder){.estimator = s, .value = 100 << i};
    assert_int_equal(pthread_create(&adders[i].thread, NULL, add_many, &adders[i]), 0);
  }
  for (uint64_t i = 0; i < 200; i++) {
    double median = find(s, i * 10 * SECOND, 0.5);
    assert_true(isnan(median) || (median >= 100 && median <= 804));
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(adders[i].thread, NULL);
  sum = (quantile_counts){0};
  sliding_quantiles_collect(s, ROUNDS * SECOND / 10 - 1, &sum);
  assert_in_range(sum.total, 1, THREADS * 601); // what threads left behind has gone round
  sliding_quantiles_fini(s);
  free(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_labels_are_sorted_and_escaped),
      cmocka_unit_test(test_as_many_labels_as_one_likes),
      cmocka_unit_test(test_one_more_label_comes_where_its_name_belongs),
      cmocka_unit_test(test_a_summary_is_printed),
      cmocka_unit_test(test_quantiles_are_near_the_sample_of_their_rank),
      cmocka_unit_test(test_nothing_and_the_largest),
      cmocka_unit_test(test_what_is_old_is_forgotten),
      cmocka_unit_test(test_threads_add_while_one_reads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
