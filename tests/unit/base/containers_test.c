// SPDX-License-Identifier: Apache-2.0
// What links things without allocating: base/list.h, base/mpsc.h, base/heap.h.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/mpsc.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct item {
  int number;
  list_node node;
  mpsc_node queued;
  heap_node due;
} item;

// Whether `action` ends the process by an assert.
static bool aborts(void (*action)(void))
{
  int status = 0;
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    action();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

// --- Lists

static void assert_numbers(const list *l, const char *expected)
{
  char forward[32] = "";
  char backward[32] = "";
  size_t length = strlen(expected);
  size_t count = 0;
  list_foreach (item, i, node, l)
    forward[count++] = (char)('0' + i->number);
  for (list_node *n = list_last(l); n != NULL; n = list_previous(l, n))
    backward[--count] = (char)('0' + container_of(n, item, node)->number);
  assert_int_equal(count, 0);
  assert_string_equal(forward, expected);
  assert_memory_equal(backward, expected, length);
  assert_int_equal(list_is_empty(l), length == 0);
}

static void a_list_keeps_its_order(void **state)
{
  (void)state;
  item items[5] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
  list l;
  list_init(&l);
  assert_numbers(&l, "");
  list_append(&l, &items[2].node);
  list_append(&l, &items[4].node);
  list_prepend(&l, &items[0].node);
  list_insert_before(&items[4].node, &items[3].node);
  list_insert_before(&items[2].node, &items[1].node);
  assert_numbers(&l, "01234");
  assert_ptr_equal(list_first(&l), &items[0].node);
  assert_ptr_equal(list_next(&l, &items[3].node), &items[4].node);
  assert_null(list_next(&l, &items[4].node));
  assert_null(list_previous(&l, &items[0].node));
  list_remove(&items[2].node);
  assert_false(list_is_linked(&items[2].node));
  assert_true(list_is_linked(&items[3].node));
  assert_numbers(&l, "0134");
  assert_ptr_equal(container_of(list_take_first(&l), item, node), &items[0]);
  assert_numbers(&l, "134");
}

static void what_is_visited_may_leave_the_list(void **state)
{
  (void)state;
  item *items[4];
  list l;
  list_init(&l);
  for (int i = 0; i < 4; i++) {
    items[i] = calloc(1, sizeof(item));
    items[i]->number = i;
    list_append(&l, &items[i]->node);
  }
  list_foreach_safe (item, i, node, &l) {
    if (i->number % 2 == 1)
      continue;
    list_remove(&i->node);
    free(i);
  }
  assert_numbers(&l, "13");
  list_foreach_safe (item, i, node, &l) {
    list_remove(&i->node);
    free(i);
  }
  assert_numbers(&l, "");
  assert_null(list_take_first(&l));
  assert_null(container_of(list_first(&l), item, node));
}

static void a_list_is_appended_to_another(void **state)
{
  (void)state;
  item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
  list a, b;
  list_init(&a);
  list_init(&b);
  list_append_all(&a, &b);
  assert_numbers(&a, "");
  list_append(&b, &items[0].node);
  list_append(&b, &items[1].node);
  list_append_all(&a, &b);
  assert_numbers(&a, "01");
  assert_numbers(&b, "");
  list_append(&b, &items[2].node);
  list_append(&b, &items[3].node);
  list_append_all(&a, &b);
  list_append_all(&a, &b);
  assert_numbers(&a, "0123");
  list_remove(&items[3].node);
  list_remove(&items[0].node);
  assert_numbers(&a, "12");
}

static void remove_twice(void)
{
  list l;
  item i = {0};
  list_init(&l);
  list_append(&l, &i.node);
  list_remove(&i.node);
  list_remove(&i.node);
}

static void append_twice(void)
{
  list l;
  item i = {0};
  list_init(&l);
  list_append(&l, &i.node);
  list_append(&l, &i.node);
}

static void append_to_zeroes(void)
{
  list l = {0};
  item i = {0};
  list_append(&l, &i.node);
}

// --- Queues of many producers

enum {
  PRODUCERS = 4,
  PUSHES = 5000
};

typedef struct producer {
  mpsc *queue;
  item items[PUSHES];
} producer;

static void *produce(void *producer_pointer)
{
  producer *p = producer_pointer;
  for (int i = 0; i < PUSHES; i++) {
    p->items[i].number = i;
    mpsc_push(p->queue, &p->items[i].queued);
  }
  return NULL;
}

static void each_producers_items_are_taken_once_and_in_order(void **state)
{
  (void)state;
  static producer producers[PRODUCERS];
  pthread_t threads[PRODUCERS];
  int next[PRODUCERS] = {0};
  mpsc q = {0};
  assert_true(mpsc_is_empty(&q));
  assert_null(mpsc_take_all(&q));
  for (int i = 0; i < PRODUCERS; i++) {
    producers[i].queue = &q;
    assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
  }
  for (int taken = 0; taken < PRODUCERS * PUSHES;) {
    for (mpsc_node *n = mpsc_take_all(&q); n != NULL; n = n->next, taken++) {
      const item *i = container_of(n, item, queued);
      int from = 0;
      while (i < producers[from].items || i >= producers[from].items + PUSHES)
        from++;
      assert_int_equal(i->number, next[from]++);
    }
  }
  for (int i = 0; i < PRODUCERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_true(mpsc_is_empty(&q));
}

// --- Heaps

static void any_order_of_inserting_and_removing_keeps_the_heap_in_order(void **state)
{
  (void)state;
  enum {
    NODES = 200
  };
  static heap_node nodes[NODES];
  heap h = {0};
  srand(7);
  for (int step = 0; step < 50000; step++) {
    int i = rand() % NODES;
    if (heap_is_linked(&nodes[i])) {
      heap_remove(&h, &nodes[i]);
    } else {
      nodes[i].when_ns = (uint64_t)(rand() % 50);
      heap_insert(&h, &nodes[i]);
    }
    const heap_node *expected = NULL;
    for (int j = 0; j < NODES; j++)
      if (heap_is_linked(&nodes[j]) &&
          (expected == NULL || nodes[j].when_ns < expected->when_ns ||
           (nodes[j].when_ns == expected->when_ns && nodes[j].sequence < expected->sequence)))
        expected = &nodes[j];
    assert_ptr_equal(heap_first(&h), expected);
  }
}

static void equal_moments_come_in_the_order_in_which_they_were_inserted(void **state)
{
  (void)state;
  item items[9] = {0};
  heap h = {0};
  assert_null(heap_first(&h));
  for (int i = 0; i < 9; i++) {
    items[i].due.when_ns = i % 2 == 0 ? 5 : 4;
    heap_insert(&h, &items[i].due);
  }
  static const int order[9] = {1, 3, 5, 7, 0, 2, 4, 6, 8};
  for (int i = 0; i < 9; i++) {
    assert_ptr_equal(container_of(heap_first(&h), item, due), &items[order[i]]);
    heap_remove(&h, heap_first(&h));
    assert_false(heap_is_linked(&items[order[i]].due));
  }
  assert_null(heap_first(&h));
}

static void remove_from_another_heap(void)
{
  item i = {0};
  heap a = {0}, b = {0};
  heap_insert(&a, &i.due);
  heap_remove(&b, &i.due);
}

static void insert_twice(void)
{
  item i = {0};
  heap h = {0};
  heap_insert(&h, &i.due);
  heap_insert(&h, &i.due);
}

// --- What asserts catch

static void nothing_wrong(void)
{
}

static void what_is_linked_or_removed_twice_is_caught(void **state)
{
  (void)state;
  assert_false(aborts(nothing_wrong));
  assert_true(aborts(remove_twice));
  assert_true(aborts(append_twice));
  assert_true(aborts(append_to_zeroes));
  assert_true(aborts(remove_from_another_heap));
  assert_true(aborts(insert_twice));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_keeps_its_order),
      cmocka_unit_test(what_is_visited_may_leave_the_list),
      cmocka_unit_test(a_list_is_appended_to_another),
      cmocka_unit_test(each_producers_items_are_taken_once_and_in_order),
      cmocka_unit_test(any_order_of_inserting_and_removing_keeps_the_heap_in_order),
      cmocka_unit_test(equal_moments_come_in_the_order_in_which_they_were_inserted),
      cmocka_unit_test(what_is_linked_or_removed_twice_is_caught),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
