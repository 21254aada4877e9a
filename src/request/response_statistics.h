// SPDX-License-Identifier: Apache-2.0
// Counters of a model version by position of the response: the first responses of all requests, the
// second ones, and so on, as backends of decoupled models report them. Thread-safe.
#ifndef NEREID_REQUEST_RESPONSE_STATISTICS_H
#define NEREID_REQUEST_RESPONSE_STATISTICS_H

#include "base/error.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

// Rows for the responses 0, 1, 2 …; the last row counts all later ones too.
#define RESPONSE_STATISTICS_ROWS 4096

typedef struct response_duration {
  uint64_t count;
  uint64_t ns;
} response_duration;

typedef struct response_counters {
  response_duration compute_infer;
  response_duration compute_output;
  response_duration success;
  response_duration fail;
  response_duration empty_response;
  response_duration cancel;
} response_counters;

typedef struct response_statistics {
  pthread_mutex_t mutex; // guards the rest
  response_counters *rows;
  size_t row_count; // rows in use, without gaps
  size_t row_capacity;
} response_statistics;

typedef enum response_outcome {
  RESPONSE_SUCCESS,
  RESPONSE_EMPTY, // no error and no output
  RESPONSE_FAIL,
  RESPONSE_CANCEL,
} response_outcome;

// Moments of one response, nanoseconds. `output_start` is 0 when there was no output.
typedef struct response_times {
  uint64_t start;
  uint64_t output_start;
  uint64_t end;
} response_times;

void response_statistics_init(response_statistics *s);
void response_statistics_fini(response_statistics *s);

// Counts the response number `index` of its request. INVALID_ARG when the moments are not in order.
error *response_statistics_count(response_statistics *s, uint64_t index, response_outcome outcome,
                                 const response_times *times);

// A copy of the rows that the caller frees; NULL with *count 0 when there are none or memory is
// short.
response_counters *response_statistics_copy(response_statistics *s, size_t *count);

#endif
