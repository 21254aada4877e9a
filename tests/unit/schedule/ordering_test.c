// SPDX-License-Identifier: Apache-2.0
// preserve_ordering: whatever order instances finish in, responses leave in request order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "schedule/ordering.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct response {
  ordering_payload payload; // first
  int request;
  int part;
} response;

static char sent[1000];

static void note(void *context, ordering_payload *payload)
{
  (void)context;
  const response *r = (const response *)payload;
  size_t used = strlen(sent);
  snprintf(sent + used, sizeof(sent) - used, "%d.%d%s ", r->request, r->part,
           payload->final ? "!" : "");
}

static void every_order_of_finishing_gives_the_order_of_requests(void **state)
{
  (void)state;
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (size_t o = 0; o < 6; o++) {
    ordering *order;
    assert_null(ordering_new(note, NULL, &order));
    ordering_slot slots[3] = {0};
    response responses[3];
    sent[0] = '\0';
    for (int i = 0; i < 3; i++)
      ordering_reserve(order, &slots[i]);
    for (int i = 0; i < 3; i++) {
      int request = orders[o][i];
      responses[request] = (response){.request = request};
      ordering_deliver(order, &slots[request], &responses[request].payload, true);
    }
    assert_string_equal(sent, "0.0! 1.0! 2.0! ");
    ordering_free(order);
  }
}

static void responses_of_the_first_request_pass_at_once_and_others_wait(void **state)
{
  (void)state;
  ordering *order;
  assert_null(ordering_new(note, NULL, &order));
  ordering_slot first = {0}, second = {0};
  response a0 = {.request = 0}, a1 = {.request = 0, .part = 1}, b0 = {.request = 1},
           b1 = {.request = 1, .part = 1}, b2 = {.request = 1, .part = 2};
  sent[0] = '\0';
  ordering_reserve(order, &first);
  ordering_reserve(order, &second);
  ordering_deliver(order, &second, &b0.payload, false);
  assert_string_equal(sent, "");
  ordering_deliver(order, &first, &a0.payload, false);
  assert_string_equal(sent, "0.0 ");
  ordering_deliver(order, &second, &b1.payload, false);
  assert_string_equal(sent, "0.0 ");
  ordering_deliver(order, &first, &a1.payload, true);
  assert_string_equal(sent, "0.0 0.1! 1.0 1.1 ");
  ordering_deliver(order, &second, &b2.payload, true);
  assert_string_equal(sent, "0.0 0.1! 1.0 1.1 1.2! ");
  ordering_free(order);
}

// --- A callback that delivers again: the next response of the same model, from inside.

static ordering *nested_order;
static ordering_slot nested_slots[2];
static response nested[3] = {{.request = 0}, {.request = 1}, {.request = 1, .part = 1}};

static void deliver_from_inside(void *context, ordering_payload *payload)
{
  note(context, payload);
  if (payload == &nested[0].payload)
    ordering_deliver(nested_order, &nested_slots[1], &nested[1].payload, false);
  if (payload == &nested[1].payload)
    ordering_deliver(nested_order, &nested_slots[1], &nested[2].payload, true);
}

static void a_callback_may_deliver_itself(void **state)
{
  (void)state;
  assert_null(ordering_new(deliver_from_inside, NULL, &nested_order));
  memset(nested_slots, 0, sizeof(nested_slots));
  sent[0] = '\0';
  ordering_reserve(nested_order, &nested_slots[0]);
  ordering_reserve(nested_order, &nested_slots[1]);
  ordering_deliver(nested_order, &nested_slots[0], &nested[0].payload, true);
  assert_string_equal(sent, "0.0! 1.0 1.1! ");
  ordering_free(nested_order);
}

// --- Many threads

enum {
  REQUESTS = 8000,
  WORKERS = 4,
  PARTS = 3
};

typedef struct request {
  ordering_slot slot;
  response parts[PARTS];
} request;

typedef struct race {
  ordering *order;
  pthread_mutex_t lock; // stands for the scheduler's: numbers and slots are given out together
  int next_number;
  int expected; // request * PARTS + part; plain: the ordering promises one sender at a time
  _Atomic bool inside;
  int failures;
} race;

static void check_order(void *context, ordering_payload *payload)
{
  race *r = context;
  response *part = (response *)payload;
  if (atomic_exchange(&r->inside, true))
    r->failures++;
  if (part->request * PARTS + part->part != r->expected)
    r->failures++;
  r->expected++;
  atomic_store(&r->inside, false);
  if (payload->final)
    free((char *)part - offsetof(request, parts[PARTS - 1])); // frees the slot, too
}

static void *work(void *argument)
{
  race *r = argument;
  request *mine[4];
  unsigned seed = (unsigned)(uintptr_t)&mine;
  for (;;) {
    int count = 0;
    pthread_mutex_lock(&r->lock);
    for (; count < 4 && r->next_number < REQUESTS; count++) {
      mine[count] = calloc(1, sizeof(request));
      for (int p = 0; p < PARTS; p++)
        mine[count]->parts[p] = (response){.request = r->next_number, .part = p};
      ordering_reserve(r->order, &mine[count]->slot);
      r->next_number++;
    }
    pthread_mutex_unlock(&r->lock);
    if (count == 0)
      return NULL;
    for (int i = count; i > 1; i--) { // answers come in any order
      int j = rand_r(&seed) % i;
      request *swap = mine[i - 1];
      mine[i - 1] = mine[j];
      mine[j] = swap;
    }
    for (int i = 0; i < count; i++) {
      request *one = mine[i];
      for (int p = 0; p < PARTS; p++)
        ordering_deliver(r->order, &one->slot, &one->parts[p].payload, p == PARTS - 1);
    }
  }
}

static void threads_that_answer_in_any_order_keep_the_order_of_requests(void **state)
{
  (void)state;
  race r = {.lock = PTHREAD_MUTEX_INITIALIZER};
  assert_null(ordering_new(check_order, &r, &r.order));
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++)
    assert_null(thread_start(&threads[i], "worker", work, &r));
  for (int i = 0; i < WORKERS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(r.failures, 0);
  assert_int_equal(r.expected, REQUESTS * PARTS);
  ordering_free(r.order);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_order_of_finishing_gives_the_order_of_requests),
      cmocka_unit_test(responses_of_the_first_request_pass_at_once_and_others_wait),
      cmocka_unit_test(a_callback_may_deliver_itself),
      cmocka_unit_test(threads_that_answer_in_any_order_keep_the_order_of_requests),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
