// SPDX-License-Identifier: Apache-2.0
// Streams, events and copies (src/gpu/stream.h, copy.h), and pools (pool.h).
#include "gpu_testing.h"

#include "base/clock.h"
#include "gpu/pool.h"

#include <pthread.h>
#include <stdlib.h>

#define LARGE ((size_t)4 << 20)

static const size_t sizes[] = {1, 255, 256, 4096, 65537, LARGE};

typedef struct fixture {
  gpu_pool *device, *pinned;
  gpu_stream *stream;
  gpu_event *event;
} fixture;

static int set_up(void **state)
{
  static fixture f;
  find_devices();
  assert_good(gpu_pool_new(ON(0), 4 * LARGE, &f.device));
  assert_good(gpu_pool_new(PINNED(0), 4 * LARGE, &f.pinned));
  assert_good(gpu_stream_new(0, 1, &f.stream));
  assert_good(gpu_event_new(0, &f.event));
  *state = &f;
  return 0;
}

static int tear_down(void **state)
{
  fixture *f = *state;
  gpu_event_free(f->event);
  gpu_stream_free(f->stream);
  gpu_pool_free(f->pinned);
  gpu_pool_free(f->device);
  assert_null(gpu_context_of(0)); // nobody is left
  return 0;
}

static void *take(gpu_pool *pool, size_t bytes)
{
  void *memory;
  assert_good(gpu_pool_take(pool, bytes, &memory));
  assert_non_null(memory);
  return memory;
}

static void wait_for(fixture *f)
{
  bool done;
  assert_good(gpu_event_record(f->event, f->stream));
  assert_good(gpu_event_wait(f->event, -1, &done));
  assert_true(done);
}

static void copy(fixture *f, void *to, gpu_place to_place, const void *from, gpu_place from_place,
                 size_t bytes)
{
  bool done;
  assert_good(gpu_copy(to, to_place, from, from_place, bytes, f->stream, "x", &done));
  assert_false(done);
}

static void bytes_come_back_as_they_went(void **state)
{
  fixture *f = *state;
  unsigned char *pageable = malloc(LARGE), *wanted = malloc(LARGE);
  unsigned char *pinned = take(f->pinned, LARGE);
  void *a = take(f->device, LARGE), *b = take(f->device, LARGE);
  for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
    fill_bytes(wanted, sizes[i], (unsigned)i);
    memcpy(pinned, wanted, sizes[i]);
    copy(f, a, ON(0), pinned, PINNED(0), sizes[i]);
    copy(f, b, ON(0), a, ON(0), sizes[i]);
    copy(f, pageable, HOST, b, ON(0), sizes[i]);
    wait_for(f);
    assert_memory_equal(pageable, wanted, sizes[i]);
    fill_bytes(pageable, sizes[i], (unsigned)i + 100);
    memcpy(wanted, pageable, sizes[i]);
    copy(f, a, ON(0), pageable, HOST, sizes[i]);
    copy(f, pinned, PINNED(0), a, ON(0), sizes[i]);
    wait_for(f);
    assert_memory_equal(pinned, wanted, sizes[i]);
  }
  gpu_pool_give_back(f->pinned, pinned);
  gpu_pool_give_back(f->device, a);
  gpu_pool_give_back(f->device, b);
  free(pageable);
  free(wanted);
}

static void copies_on_the_host_need_no_device(void **state)
{
  (void)state;
  char from[] = "abc", to[4] = "";
  bool done = false;
  assert_good(gpu_copy(to, HOST, from, PINNED(0), 4, NULL, "x", &done));
  assert_true(done);
  assert_string_equal(to, "abc");
  done = false;
  assert_good(gpu_copy(NULL, ON(0), NULL, HOST, 0, NULL, "x", &done)); // nothing
  assert_true(done);
  assert_good(gpu_copy_now(from, HOST, "xyz", HOST, 4, "x"));
  assert_string_equal(from, "xyz");
}

static void copies_are_counted_by_direction(void **state)
{
  fixture *f = *state;
  gpu_copy_counts before, after;
  unsigned char host[100] = {0};
  void *a = take(f->device, 200);
  gpu_copy_count(&before);
  copy(f, a, ON(0), host, HOST, 100);
  copy(f, (char *)a + 100, ON(0), a, ON(0), 50);
  copy(f, host, HOST, a, ON(0), 30);
  copy(f, host, HOST, a, ON(0), 3);
  wait_for(f);
  gpu_copy_count(&after);
  const uint64_t copies[] = {1, 2, 1, 0}, bytes[] = {100, 33, 50, 0};
  for (int i = 0; i < GPU_COPY_DIRECTIONS; i++) {
    assert_int_equal(after.copies[i] - before.copies[i], copies[i]);
    assert_int_equal(after.bytes[i] - before.bytes[i], bytes[i]);
  }
  gpu_pool_give_back(f->device, a);
}

static void filled_memory_reads_so(void **state)
{
  fixture *f = *state;
  unsigned char host[300];
  unsigned char *a = take(f->device, 300);
  memset(host, 0, sizeof(host));
  assert_good(gpu_fill(a, 0, 7, 300, f->stream));
  assert_good(gpu_fill(a + 100, 0, 9, 100, f->stream));
  assert_good(gpu_fill(a, 0, 1, 0, f->stream)); // nothing
  copy(f, host, HOST, a, ON(0), 300);
  wait_for(f);
  for (size_t i = 0; i < 300; i++)
    assert_int_equal(host[i], i >= 100 && i < 200 ? 9 : 7);
  assert_good(gpu_clear_now(a + 50, ON(0), 100, "a"));
  assert_good(gpu_clear_now(host + 250, HOST, 10, "host"));
  copy(f, host, HOST, a, ON(0), 200);
  wait_for(f);
  for (size_t i = 0; i < 300; i++)
    assert_int_equal(host[i], i / 50 == 1 || i / 50 == 2 || i / 10 == 25 ? 0
                              : i >= 150 && i < 200                      ? 9
                                                                         : 7);
  gpu_pool_give_back(f->device, a);
}

static void a_stream_goes_on_behind_anothers_event(void **state)
{
  fixture *f = *state;
  gpu_stream *second;
  unsigned char *pinned = take(f->pinned, LARGE), *back = take(f->pinned, LARGE);
  void *a = take(f->device, LARGE);
  bool done;
  assert_good(gpu_stream_new(0, -1, &second));
  for (unsigned round = 0; round < 4; round++) {
    fill_bytes(pinned, LARGE, round);
    copy(f, a, ON(0), pinned, PINNED(0), LARGE);
    assert_good(gpu_event_record(f->event, f->stream));
    assert_good(gpu_stream_await(second, f->event));
    assert_good(gpu_copy(back, PINNED(0), a, ON(0), LARGE, second, "x", &done));
    assert_good(gpu_stream_synchronize(second));
    assert_memory_equal(back, pinned, LARGE);
  }
  gpu_stream_free(second);
  gpu_pool_give_back(f->pinned, pinned);
  gpu_pool_give_back(f->pinned, back);
  gpu_pool_give_back(f->device, a);
}

static void an_event_is_waited_for_no_longer_than_asked(void **state)
{
  fixture *f = *state;
  unsigned char *pinned = take(f->pinned, LARGE);
  void *a = take(f->device, LARGE);
  bool done = true;
  memset(pinned, 1, LARGE);
  for (int i = 0; i < 8; i++)
    copy(f, a, ON(0), pinned, PINNED(0), LARGE);
  assert_good(gpu_event_record(f->event, f->stream));
  assert_good(gpu_event_wait(f->event, 0, &done)); // true or false: no error, and no wait
  assert_good(gpu_event_query(f->event, &done));
  assert_good(gpu_event_wait(f->event, INT64_C(1000000) * 600, &done));
  assert_true(done);
  assert_good(gpu_event_wait(f->event, INT64_MAX, &done));
  assert_true(done);
  assert_good(gpu_event_query(f->event, &done));
  assert_true(done);
  gpu_pool_give_back(f->pinned, pinned);
  gpu_pool_give_back(f->device, a);
}

#define THREADS 4

static void *copy_now(void *argument)
{
  fixture *f = argument;
  unsigned char host[5000], back[5000];
  for (unsigned i = 0; i < 20; i++) {
    void *memory = take(f->device, sizeof(host));
    fill_bytes(host, sizeof(host), i);
    assert_good(gpu_copy_now(memory, ON(0), host, HOST, sizeof(host), "x"));
    assert_good(gpu_copy_now(back, HOST, memory, ON(0), sizeof(back), "x"));
    assert_memory_equal(host, back, sizeof(host));
    gpu_pool_give_back(f->device, memory);
  }
  return NULL;
}

static void threads_without_a_stream_copy_at_once(void **state)
{
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, copy_now, *state), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

static void bytes_go_from_one_device_to_another(void **state)
{
  fixture *f = *state;
  if (find_devices()->count < 2) {
    assert_error(gpu_context_hold(1), ERROR_INVALID_ARG, "there is no GPU 1");
    return;
  }
  gpu_pool *other;
  gpu_copy_counts before, after;
  unsigned char host[3000], back[3000];
  void *a = take(f->device, sizeof(host));
  fill_bytes(host, sizeof(host), 3);
  bool done;
  assert_error(gpu_copy(a, ON(0), a, ON(1), 1, f->stream, "x", &done), ERROR_INTERNAL,
               "x: failed to perform CUDA copy: "); // nobody holds GPU 1
  assert_good(gpu_pool_new(ON(1), LARGE, &other));
  void *b = take(other, sizeof(host));
  gpu_copy_count(&before);
  copy(f, a, ON(0), host, HOST, sizeof(host));
  copy(f, b, ON(1), a, ON(0), sizeof(host));
  wait_for(f);
  assert_good(gpu_copy_now(back, HOST, b, ON(1), sizeof(back), "x"));
  assert_memory_equal(host, back, sizeof(host));
  gpu_copy_count(&after);
  assert_int_equal(after.copies[GPU_COPY_BETWEEN_DEVICES] - before.copies[GPU_COPY_BETWEEN_DEVICES],
                   1);
  gpu_pool_give_back(other, b);
  gpu_pool_free(other);
  gpu_pool_give_back(f->device, a);
}

static void a_pool_hands_out_what_it_has_and_says_when_it_is_full(void **state)
{
  (void)state;
  gpu_pool *pool;
  gpu_pool_counts counts;
  void *a, *b, *c;
  assert_good(gpu_pool_new(PINNED(0), 1000, &pool)); // 1024
  assert_good(gpu_pool_take(pool, 1024, &a));
  assert_non_null(a);
  memset(a, 1, 1024); // it is the host's
  assert_good(gpu_pool_take(pool, 1, &b));
  assert_null(b);
  assert_true(gpu_pool_owns(pool, (char *)a + 1023));
  assert_false(gpu_pool_owns(pool, (char *)a + 1024));
  assert_good(gpu_pool_grow(pool, 512));
  assert_good(gpu_pool_take(pool, 512, &c));
  assert_non_null(c);
  assert_true(gpu_pool_owns(pool, c));
  gpu_pool_count(pool, &counts);
  assert_int_equal(counts.total_bytes, 1536);
  assert_int_equal(counts.used_bytes, 1536);
  assert_int_equal(counts.largest_free_bytes, 0);
  assert_int_equal(counts.takes, 2);
  assert_int_equal(counts.misses, 1);
  gpu_pool_give_back(pool, a);
  gpu_pool_give_back(pool, c);
  gpu_pool_count(pool, &counts);
  assert_int_equal(counts.largest_free_bytes, 1024);
  gpu_pool_free(pool);
}

static void a_pool_of_nothing_holds_no_context(void **state)
{
  (void)state;
  int last = (int)find_devices()->count - 1;
  gpu_pool *pool;
  void *memory = &pool;
  assert_good(gpu_pool_new(ON(last), 0, &pool));
  assert_int_equal(gpu_context_of(last) != NULL, last == 0); // the fixture's device is 0
  assert_good(gpu_pool_take(pool, 1, &memory));
  assert_null(memory);
  gpu_pool_free(pool);
  gpu_pool_free(NULL);
}

static void what_no_device_has_cannot_be_a_pool(void **state)
{
  fixture *f = *state;
  gpu_pool *pool;
  const size_t too_much = (size_t)1 << 50;
  assert_error(gpu_pool_new(ON(0), too_much, &pool), ERROR_UNAVAILABLE, "CUDA_ERROR_OUT_OF_MEMORY");
  assert_error(gpu_pool_new(ON(0), SIZE_MAX, &pool), ERROR_INVALID_ARG, "a pool cannot have");
  assert_error(gpu_pool_new(ON(99), 1, &pool), ERROR_INVALID_ARG, "there is no GPU 99");
  assert_error(gpu_pool_grow(f->device, too_much), ERROR_UNAVAILABLE, "no 1125899906842624 bytes");
  gpu_pool_give_back(f->device, take(f->device, LARGE)); // it goes on
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_come_back_as_they_went),
      cmocka_unit_test(copies_on_the_host_need_no_device),
      cmocka_unit_test(copies_are_counted_by_direction),
      cmocka_unit_test(filled_memory_reads_so),
      cmocka_unit_test(a_stream_goes_on_behind_anothers_event),
      cmocka_unit_test(an_event_is_waited_for_no_longer_than_asked),
      cmocka_unit_test(threads_without_a_stream_copy_at_once),
      cmocka_unit_test(bytes_go_from_one_device_to_another),
      cmocka_unit_test(a_pool_hands_out_what_it_has_and_says_when_it_is_full),
      cmocka_unit_test(a_pool_of_nothing_holds_no_context),
      cmocka_unit_test(what_no_device_has_cannot_be_a_pool),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
