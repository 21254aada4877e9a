// SPDX-License-Identifier: Apache-2.0
// Counters of responses by position. Backends' threads write, the statistics endpoint reads.
#include "request/response_statistics.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void response_statistics_init(response_statistics *s)
{
  *s = (response_statistics){0};
  pthread_mutex_init(&s->mutex, NULL);
}

void response_statistics_fini(response_statistics *s)
{
  free(s->rows);
  pthread_mutex_destroy(&s->mutex);
}

static void add(response_duration *d, uint64_t ns)
{
  d->count++;
  d->ns += ns;
}

// NULL when memory is short.
static response_counters *find_row(response_statistics *s, uint64_t index)
{
  assert(lock_is_held(&s->mutex));
  size_t row = index < RESPONSE_STATISTICS_ROWS ? (size_t)index : RESPONSE_STATISTICS_ROWS - 1;
  if (row >= s->row_capacity) {
    size_t capacity = row < 4 ? 4 : 2 * row;
    response_counters *rows = reallocarray(s->rows, capacity, sizeof(*rows));
    if (rows == NULL)
      return NULL;
    memset(rows + s->row_capacity, 0, (capacity - s->row_capacity) * sizeof(*rows));
    s->rows = rows;
    s->row_capacity = capacity;
  }
  if (row >= s->row_count)
    s->row_count = row + 1;
  return &s->rows[row];
}

static error *check_order(const response_times *t)
{
  bool has_output = t->output_start > 0;
  if (has_output && t->start > t->output_start)
    return error_new(ERROR_INVALID_ARG, "Response start cannot happen after compute output start");
  if (has_output && t->output_start > t->end)
    return error_new(ERROR_INVALID_ARG, "Compute output start cannot happen after response end");
  if (t->start > t->end)
    return error_new(ERROR_INVALID_ARG, "Response start cannot happen after response end");
  return NULL;
}

static void count(response_counters *row, response_outcome outcome, const response_times *t)
{
  response_duration *const whole[] = {[RESPONSE_SUCCESS] = &row->success,
                                      [RESPONSE_EMPTY] = &row->empty_response,
                                      [RESPONSE_FAIL] = &row->fail,
                                      [RESPONSE_CANCEL] = &row->cancel};
  add(whole[outcome], t->end - t->start);
  if (outcome == RESPONSE_CANCEL)
    return;
  bool has_output = t->output_start > 0;
  add(&row->compute_infer, (has_output ? t->output_start : t->end) - t->start);
  if (has_output)
    add(&row->compute_output, t->end - t->output_start);
}

error *response_statistics_count(response_statistics *s, uint64_t index, response_outcome outcome,
                                 const response_times *times)
{
  RETURN_IF_ERROR(check_order(times));
  LOCK_SCOPE(&s->mutex);
  response_counters *row = find_row(s, index);
  if (row == NULL)
    return error_no_memory();
  count(row, outcome, times);
  return NULL;
}

response_counters *response_statistics_copy(response_statistics *s, size_t *row_count)
{
  LOCK_SCOPE(&s->mutex);
  *row_count = 0;
  response_counters *copy = s->row_count == 0 ? NULL : calloc(s->row_count, sizeof(*copy));
  if (copy == NULL)
    return NULL;
  memcpy(copy, s->rows, s->row_count * sizeof(*copy));
  *row_count = s->row_count;
  return copy;
}
