// SPDX-License-Identifier: Apache-2.0
// The registry of client memory: bounds against arithmetic of 128 bits, keys, life, and memory that
// its owner takes away.
#include "frontend/common/tensor/shared_memory.h"

#include "base/thread.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))

static const slice no_handle = {"................................................................",
                                64};

typedef struct object {
  char key[64];
  char *memory;
  size_t size;
  int descriptor;
} object;

static void object_init(object *o, const char *name, size_t size)
{
  o->size = size;
  snprintf(o->key, sizeof(o->key), "/nereid_unit_%d_%s", (int)getpid(), name);
  o->descriptor = shm_open(o->key, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_true(o->descriptor >= 0);
  assert_int_equal(ftruncate(o->descriptor, (off_t)size), 0);
  o->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, o->descriptor, 0);
  assert_ptr_not_equal(o->memory, MAP_FAILED);
}

static void object_fini(object *o)
{
  munmap(o->memory, o->size);
  close(o->descriptor);
  shm_unlink(o->key);
}

static void assert_error(error *e, error_code code, const char *text)
{
  assert_non_null(e);
  if (error_get_code(e) != code || strstr(error_message(e), text) == NULL)
    fail_msg("%d: %s\nwithout: %s", error_get_code(e), error_message(e), text);
  error_free(e);
}

static void assert_ok(error *e)
{
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
}

static size_t region_count(shared_memory *m)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  size_t count = 0;
  assert_ok(shared_memory_print(m, TRITONSERVER_MEMORY_CPU, NULL, false, &json));
  for (size_t i = 0; i < json.size; i++)
    count += json.data[i] == '{';
  return count;
}

static void expect_print(shared_memory *m, TRITONSERVER_MemoryType kind, const char *name,
                         bool by_name, const char *expected)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  assert_ok(shared_memory_print(m, kind, name, by_name, &json));
  buffer_append_char(&json, '\0');
  assert_string_equal(json.data, expected);
}

// Mappings of this process whose file is the object's.
static size_t mapping_count(const object *o)
{
  char line[512];
  size_t count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof(line), maps) != NULL)
    count += strstr(line, o->key) != NULL;
  fclose(maps);
  return count;
}

// ---- bounds ----

static uint64_t random_u64(void)
{
  uint64_t r = 0;
  for (int i = 0; i < 5; i++)
    r = r << 15 | ((uint64_t)rand() & 0x7fff);
  return r;
}

// Mostly near what decides.
static uint64_t random_size(uint64_t near)
{
  const uint64_t anchors[] = {0, near, near / 2, PAGE, UINT64_MAX, INT64_MAX, UINT32_MAX};
  uint64_t anchor = anchors[(size_t)rand() % (sizeof(anchors) / sizeof(anchors[0]))];
  if (rand() % 8 == 0)
    return random_u64() >> (rand() % 64);
  return anchor + (uint64_t)(rand() % 9) - 4; // wraps around zero
}

static void spans_are_taken_iff_they_are_inside(void **state)
{
  (void)state;
  object o;
  object_init(&o, "spans", 3 * PAGE);
  const uint64_t offset = PAGE + 24, size = PAGE + 100;
  shared_memory *m = shared_memory_new(true, NULL);
  assert_ok(shared_memory_register_system(m, "r", o.key, offset, size));
  size_t taken = 0;
  srand(1);
  for (int i = 0; i < 10000; i++) {
    shared_span span;
    uint64_t at = random_size(size), bytes = random_size(size);
    bool inside = at < size && (unsigned __int128)at + bytes <= size;
    error *e = shared_memory_take(m, "r", at, bytes, &span);
    assert_int_equal(e == NULL, inside);
    error_free(e);
    if (!inside)
      continue;
    taken++;
    assert_int_equal(span.byte_size, bytes);
    if (bytes > 0) { // the very bytes, counted once
      *(char *)span.base = (char)i;
      assert_int_equal(o.memory[offset + at], (char)i);
    }
    assert_null(shared_span_check(&span));
    shared_span_give_back(&span);
  }
  assert_true(taken > 500);
  shared_memory_free(m);
  object_fini(&o);
}

static void regions_are_taken_iff_they_are_inside_the_object(void **state)
{
  (void)state;
  object o;
  object_init(&o, "regions", 3 * PAGE + 10);
  shared_memory *m = shared_memory_new(true, NULL);
  size_t taken = 0;
  srand(2);
  for (int i = 0; i < 10000; i++) {
    uint64_t offset = random_size(o.size), size = random_size(o.size);
    bool inside = size > 0 && (unsigned __int128)offset + size <= o.size;
    error *e = shared_memory_register_system(m, "r", o.key, offset, size);
    assert_int_equal(e == NULL, inside);
    if (inside) {
      taken++;
      assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, "r"));
    } else {
      assert_error(e, ERROR_INVALID_ARG, "failed to register shared memory region 'r'");
    }
  }
  assert_true(taken > 500);
  assert_int_equal(mapping_count(&o), 1); // the test's own
  shared_memory_free(m);
  object_fini(&o);
}

// ---- keys ----

static void only_plain_names_are_keys(void **state)
{
  (void)state;
  char longest[258] = "/";
  shared_memory *m = shared_memory_new(true, NULL);
  memset(longest + 1, 'a', 256);
  const char *const refused[] = {
      "",      "/",    "//",    "///x", "//x",   "x/",        "x/../y", "/../x",  "..",
      "/..",   ".",    "/.",    "/a/b", "a/b",   "/a b",      "/a\nb",  "/a\x7f", "/\xc3\xa9",
      "/a\\b", "/a'b", "/a\"b", "/a*",  longest, longest + 1, "/a\x01", "/proc/", "/dev/mem"};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
    assert_error(shared_memory_register_system(m, "r", refused[i], 0, 1), ERROR_INVALID_ARG,
                 "cannot register shared memory region 'r' - invalid shm key '");
  const char *const reserved[] = {"triton_python_backend_shm_region_1",
                                  "/triton_python_backend_shm_region_",
                                  "///triton_python_backend_shm_region_1"};
  for (size_t i = 0; i < 3; i++)
    assert_error(shared_memory_register_system(m, "r", reserved[i], 0, 1), ERROR_INVALID_ARG,
                 "as the key contains the reserved prefix 'triton_python_backend_shm_region_'");
  longest[256] = '\0'; // 255 and the slash: a name, of nothing
  assert_error(shared_memory_register_system(m, "r", longest, 0, 1), ERROR_INTERNAL,
               "Unable to open shared memory region: '/aaa");
  assert_int_equal(region_count(m), 0);
  shared_memory_free(m);
}

static void a_fifo_or_dir_is_no_object(void **state)
{
  (void)state;
  char path[128];
  shared_memory *m = shared_memory_new(true, NULL);
  snprintf(path, sizeof(path), "/dev/shm/nereid_unit_%d_fifo", (int)getpid());
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_error(shared_memory_register_system(m, "r", path + strlen("/dev/shm"), 0, 1),
               ERROR_INTERNAL, "shared memory region: '");
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_error(shared_memory_register_system(m, "r", path + strlen("/dev/shm"), 0, 1),
               ERROR_INTERNAL, "Unable to open shared memory region: '");
  rmdir(path);
  shared_memory_free(m);
}

// ---- life ----

static void nothing_is_registered_where_clients_may_not(void **state)
{
  (void)state;
  const char *text = "Client shared memory is disabled. Start the server with "
                     "'--allow-client-shm=true' to enable.";
  shared_span span;
  shared_memory *m = shared_memory_new(false, NULL);
  assert_error(shared_memory_register_system(m, "r", "/x", 0, 1), ERROR_UNSUPPORTED, text);
  assert_error(shared_memory_register_cuda(m, "r", no_handle, 0, 1), ERROR_UNSUPPORTED, text);
  assert_error(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, NULL), ERROR_UNSUPPORTED, text);
  assert_error(shared_memory_unregister(m, TRITONSERVER_MEMORY_GPU, "r"), ERROR_UNSUPPORTED, text);
  assert_error(shared_memory_take(m, "r", 0, 1, &span), ERROR_NOT_FOUND,
               "Unable to find shared memory region: 'r'");
  assert_int_equal(region_count(m), 0);
  shared_memory_free(m);
}

static void a_region_in_use_goes_with_its_last_user(void **state)
{
  (void)state;
  object o;
  shared_span one, two;
  object_init(&o, "life", PAGE);
  shared_memory *m = shared_memory_new(true, NULL);
  assert_ok(shared_memory_register_system(m, "r", o.key, 0, PAGE));
  assert_error(shared_memory_register_system(m, "r", o.key, 0, PAGE), ERROR_ALREADY_EXISTS,
               "shared memory region 'r' already in manager");
  assert_ok(shared_memory_take(m, "r", 0, PAGE, &one));
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, NULL));
  assert_int_equal(region_count(m), 1); // and found, as in Triton
  assert_ok(shared_memory_take(m, "r", 1, 1, &two));
  shared_span_give_back(&one);
  *(char *)two.base = 7;
  assert_int_equal(o.memory[1], 7);
  assert_int_equal(region_count(m), 1);
  shared_span_give_back(&two);
  assert_int_equal(region_count(m), 0);
  assert_int_equal(mapping_count(&o), 1);
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, "r")); // of nothing: no error
  shared_memory_free(m);
  object_fini(&o);
}

static void there_is_a_limit_of_regions(void **state)
{
  (void)state;
  char name[SHARED_MEMORY_NAME_MAX_BYTES + 2];
  object o;
  object_init(&o, "many", PAGE);
  shared_memory *m = shared_memory_new(true, NULL);
  for (int i = 0; i < SHARED_MEMORY_MAX_REGIONS; i++) {
    snprintf(name, sizeof(name), "r%d", i);
    assert_ok(shared_memory_register_system(m, name, o.key, 0, 1));
  }
  assert_error(shared_memory_register_system(m, "one more", o.key, 0, 1), ERROR_UNAVAILABLE,
               "there are 4096 already");
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, "r7"));
  memset(name, 'n', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  assert_error(shared_memory_register_system(m, name, o.key, 0, 1), ERROR_INVALID_ARG,
               "at most 255 bytes");
  assert_ok(shared_memory_register_system(m, name + 1, o.key, 0, 1));
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, NULL));
  assert_int_equal(mapping_count(&o), 1);
  shared_memory_free(m);
  object_fini(&o);
}

// Objects may be as large as they like, without memory behind them; addresses are short.
static void there_is_a_limit_of_bytes(void **state)
{
  (void)state;
  object o;
  object_init(&o, "sparse", PAGE);
  assert_int_equal(ftruncate(o.descriptor, INT64_MAX / PAGE * PAGE), 0);
  shared_memory *m = shared_memory_new(true, NULL);
  const uint64_t most = SHARED_MEMORY_MAX_BYTES;
  const char *text = "failed to register shared memory region 'big': too many bytes are registered";
  assert_error(shared_memory_register_system(m, "big", o.key, 0, most + 1), ERROR_UNAVAILABLE,
               text);
  assert_ok(shared_memory_register_system(m, "small", o.key, 0, 1));
  assert_error(shared_memory_register_system(m, "big", o.key, 0, most), ERROR_UNAVAILABLE, text);
  assert_error(shared_memory_register_system(m, "big", o.key, 0, INT64_MAX / 2), ERROR_UNAVAILABLE,
               text);
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, "small"));
  assert_error(shared_memory_register_system(m, "big", o.key, 0, most + 1), ERROR_UNAVAILABLE,
               text);
  assert_int_equal(mapping_count(&o), 1);
  shared_memory_free(m);
  object_fini(&o);
}

static void what_is_no_gpu_memory_is_refused(void **state)
{
  (void)state;
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  object o;
  object_init(&o, "gpu", PAGE);
  shared_memory *m = shared_memory_new(true, NULL);
  assert_ok(shared_memory_register_system(m, "r", o.key, 0, 1));
  // without a GPU or with one: this is a handle of nothing
  assert_error(shared_memory_register_cuda(m, "c", no_handle, 0, 1), ERROR_INVALID_ARG,
               "failed to register ");
  assert_error(shared_memory_print(m, TRITONSERVER_MEMORY_GPU, "c", false, &json), ERROR_NOT_FOUND,
               "Unable to find cuda shared memory region: 'c'");
  assert_error(
      shared_memory_print(m, TRITONSERVER_MEMORY_GPU, "r", false, &json), ERROR_NOT_FOUND,
      "The region named 'r' is registered as system shared memory, not CUDA shared memory");
  expect_print(m, TRITONSERVER_MEMORY_GPU, NULL, false, "[]");
  expect_print(m, TRITONSERVER_MEMORY_GPU, NULL, true, "{}");
  char row[256];
  snprintf(row, sizeof(row), "{\"r\":{\"name\":\"r\",\"key\":\"%s\",\"offset\":0,\"byte_size\":1}}",
           o.key);
  expect_print(m, TRITONSERVER_MEMORY_CPU, "r", true, row);
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_GPU, "r")); // of the other kind
  assert_int_equal(region_count(m), 1);
  shared_memory_free(m);
  object_fini(&o);
}

// ---- memory that is taken away ----

static struct sigaction guard; // the handler, as the first region left it

// cmocka has a handler of its own while a test runs.
static void use_guard(void)
{
  assert_int_equal(sigaction(SIGBUS, &guard, NULL), 0);
}

static int find_guard(void **state)
{
  (void)state;
  object o;
  object_init(&o, "guard", PAGE);
  shared_memory *m = shared_memory_new(true, NULL);
  assert_ok(shared_memory_register_system(m, "r", o.key, 0, 1));
  assert_int_equal(sigaction(SIGBUS, NULL, &guard), 0);
  shared_memory_free(m);
  object_fini(&o);
  return 0;
}

static void what_is_gone_reads_as_zeroes_and_is_told(void **state)
{
  (void)state;
  object o;
  shared_span span, again;
  use_guard();
  object_init(&o, "gone", 4 * PAGE);
  memset(o.memory, 'x', o.size);
  shared_memory *m = shared_memory_new(true, NULL);
  assert_ok(shared_memory_register_system(m, "r", o.key, 10, 4 * PAGE - 10));
  assert_ok(shared_memory_take(m, "r", 0, 4 * PAGE - 10, &span));
  assert_int_equal(ftruncate(o.descriptor, (off_t)PAGE), 0);
  char *copy = malloc(span.byte_size);
  assert_null(shared_span_check(&span)); // nobody has touched it
  memcpy(copy, span.base, span.byte_size);
  assert_int_equal(copy[0], 'x');
  assert_int_equal(copy[PAGE - 10 - 1], 'x');
  for (size_t i = PAGE - 10; i < span.byte_size; i++)
    assert_int_equal(copy[i], 0);
  free(copy);
  memset(span.base, 'y', span.byte_size); // the rest is the server's now
  assert_int_equal(o.memory[10], 'y');
  assert_error(shared_span_check(&span), ERROR_INVALID_ARG, "region 'r' is unregistered");
  shared_span_give_back(&span);
  assert_error(shared_memory_take(m, "r", 0, 1, &again), ERROR_NOT_FOUND, "'r'");
  assert_int_equal(ftruncate(o.descriptor, (off_t)(4 * PAGE)), 0);
  assert_ok(shared_memory_register_system(m, "r", o.key, 0, PAGE));
  shared_memory_free(m);
  object_fini(&o);
}

#define ROUNDS 1000

typedef struct shrinker {
  object o;
  shared_memory *m;
  _Atomic bool done;
} shrinker;

static void *shrink_and_grow(void *pointer)
{
  shrinker *s = pointer;
  while (!s->done) {
    (void)!ftruncate(s->o.descriptor, 0);
    (void)!ftruncate(s->o.descriptor, (off_t)s->o.size);
  }
  return NULL;
}

static void readers_survive_an_object_that_comes_and_goes(void **state)
{
  (void)state;
  shrinker s = {.m = shared_memory_new(true, NULL)};
  pthread_t thread;
  use_guard();
  object_init(&s.o, "comes_and_goes", 8 * PAGE);
  char *copy = malloc(s.o.size);
  assert_null(thread_start(&thread, "shrink", shrink_and_grow, &s));
  size_t broken = 0;
  for (int i = 0; i < ROUNDS || broken == 0; i++) {
    shared_span span;
    error *e = shared_memory_register_system(s.m, "r", s.o.key, 0, s.o.size);
    bool there = e == NULL || error_get_code(e) == ERROR_ALREADY_EXISTS;
    error_free(e);
    if (!there)
      continue;
    assert_ok(shared_memory_take(s.m, "r", 0, s.o.size, &span));
    memcpy(copy, span.base, s.o.size);
    memset(span.base, i, s.o.size);
    error *told = shared_span_check(&span);
    broken += told != NULL;
    error_free(told);
    shared_span_give_back(&span);
  }
  s.done = true;
  pthread_join(thread, NULL);
  free(copy);
  shared_memory_free(s.m);
  assert_int_equal(mapping_count(&s.o), 1);
  object_fini(&s.o);
}

#define THREADS 4

typedef struct racer {
  shared_memory *m;
  const char *key;
  int number;
  size_t taken;
} racer;

// Registers, uses and unregisters one name that all threads share.
static void *race(void *pointer)
{
  racer *r = pointer;
  for (int i = 0; i < 2500 || r->taken == 0; i++) {
    shared_span span;
    error_free(shared_memory_register_system(r->m, "r", r->key, 0, PAGE));
    error *e = shared_memory_take(r->m, "r", (uint64_t)r->number * 64, 64, &span);
    if (e == NULL) {
      memset(span.base, r->number, 64); // each its own bytes
      r->taken++;
      error_free(shared_memory_unregister(r->m, TRITONSERVER_MEMORY_CPU, i % 2 ? NULL : "r"));
      shared_span_give_back(&span);
    }
    error_free(e);
  }
  return NULL;
}

static void threads_register_use_and_unregister_one_name(void **state)
{
  (void)state;
  object o;
  pthread_t threads[THREADS];
  racer racers[THREADS];
  object_init(&o, "race", PAGE);
  shared_memory *m = shared_memory_new(true, NULL);
  for (int i = 0; i < THREADS; i++) {
    racers[i] = (racer){m, o.key, i, 0};
    assert_null(thread_start(&threads[i], "racer", race, &racers[i]));
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_true(racers[i].taken > 0);
  }
  assert_ok(shared_memory_unregister(m, TRITONSERVER_MEMORY_CPU, NULL));
  assert_int_equal(region_count(m), 0);
  assert_int_equal(mapping_count(&o), 1);
  shared_memory_free(m);
  object_fini(&o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spans_are_taken_iff_they_are_inside),
      cmocka_unit_test(regions_are_taken_iff_they_are_inside_the_object),
      cmocka_unit_test(only_plain_names_are_keys),
      cmocka_unit_test(a_fifo_or_dir_is_no_object),
      cmocka_unit_test(nothing_is_registered_where_clients_may_not),
      cmocka_unit_test(a_region_in_use_goes_with_its_last_user),
      cmocka_unit_test(there_is_a_limit_of_regions),
      cmocka_unit_test(there_is_a_limit_of_bytes),
      cmocka_unit_test(what_is_no_gpu_memory_is_refused),
      cmocka_unit_test(what_is_gone_reads_as_zeroes_and_is_told),
      cmocka_unit_test(readers_survive_an_object_that_comes_and_goes),
      cmocka_unit_test(threads_register_use_and_unregister_one_name),
  };
  return cmocka_run_group_tests(tests, find_guard, NULL);
}
