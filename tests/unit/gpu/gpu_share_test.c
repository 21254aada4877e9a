// SPDX-License-Identifier: Apache-2.0
// Memory that processes share (src/gpu/ipc.h). The other process is this program again, told by its
// arguments what to do, over a socket that is its standard input.
#include "gpu_peer.h"
#include "gpu_testing.h"

#include "gpu/ipc.h"
#include "gpu/pool.h"

#include <stdlib.h>
#include <unistd.h>

#define BYTES ((size_t)3 << 20)

static char exporter[] = "exporter", importer[] = "importer"; // arguments

typedef struct offer {
  unsigned char handle[64];
  size_t offset, bytes;
} offer;

static peer start(char *role)
{
  peer p;
  char program[] = "/proc/self/exe", *const command[] = {program, role, NULL};
  assert_true(peer_start(&p, command));
  return p;
}

static void end(peer p)
{
  assert_true(peer_end(&p));
}

static void ask(peer p, char what)
{
  char answer;
  assert_true(send_message(p.socket, &what, 1, -1));
  assert_true(receive_message(p.socket, &answer, 1, NULL));
  assert_int_equal(answer, what);
}

static void assert_bytes_on(const void *memory, size_t size, unsigned seed)
{
  unsigned char *wanted = malloc(size), *there = malloc(size);
  fill_bytes(wanted, size, seed);
  assert_good(gpu_copy_now(there, HOST, memory, ON(0), size, "x"));
  assert_memory_equal(wanted, there, size);
  free(wanted);
  free(there);
}

static void write_bytes(void *memory, size_t size, unsigned seed)
{
  unsigned char *bytes = malloc(size);
  fill_bytes(bytes, size, seed);
  assert_good(gpu_copy_now(memory, ON(0), bytes, HOST, size, "x"));
  free(bytes);
}

// ---- the other process ----

// Offers memory that has bytes of seed 1; 'c': checks that they are of seed 2 now.
static int run_exporter(void)
{
  gpu_pool *pool;
  void *first, *memory;
  offer o = {.bytes = BYTES};
  char what;
  assert_good(gpu_pool_new(ON(0), 2 * BYTES, &pool));
  assert_good(gpu_pool_take(pool, 1000, &first)); // so that there is an offset
  assert_good(gpu_pool_take(pool, BYTES, &memory));
  write_bytes(memory, BYTES, 1);
  assert_good(gpu_ipc_export(0, memory, o.handle, &o.offset));
  send_message(STDIN_FILENO, &o, sizeof(o), -1);
  while (receive_message(STDIN_FILENO, &what, 1, NULL)) {
    if (what == 'c')
      assert_bytes_on(memory, BYTES, 2);
    send_message(STDIN_FILENO, &what, 1, -1);
  }
  gpu_pool_give_back(pool, first);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
  return 0;
}

// Takes pieces of a region; after each checks the bytes of seed 3 and leaves such of seed 4.
static int run_importer(void)
{
  gpu_region *region;
  size_t bytes;
  int fd;
  assert_good(gpu_region_new(0, (size_t)1 << 30, &region));
  while (receive_message(STDIN_FILENO, &bytes, sizeof(bytes), &fd)) {
    assert_error(gpu_region_import(region, fd, bytes + 1), ERROR_INVALID_ARG, "does not fit");
    assert_good(gpu_region_import(region, fd, bytes));
    close(fd);
    assert_bytes_on(gpu_region_base(region), gpu_region_bytes(region), 3);
    write_bytes(gpu_region_base(region), gpu_region_bytes(region), 4);
    send_message(STDIN_FILENO, "i", 1, -1);
  }
  gpu_region_free(region);
  return 0;
}

// ---- the tests ----

static void a_handle_opens_the_memory_of_another_process(void **state)
{
  (void)state;
  peer p = start(exporter);
  offer o;
  gpu_mapping mapping, again;
  find_devices();
  assert_true(receive_message(p.socket, &o, sizeof(o), NULL));
  assert_good(gpu_ipc_open(0, o.handle, &mapping));
  assert_int_equal(mapping.device, 0);
  assert_true(mapping.bytes >= o.offset + o.bytes);
  assert_good(gpu_ipc_open(0, o.handle, &again)); // is counted
  assert_good(gpu_ipc_close(&again));
  assert_bytes_on((char *)mapping.base + o.offset, o.bytes, 1);
  write_bytes((char *)mapping.base + o.offset, o.bytes, 2);
  ask(p, 'c');
  assert_good(gpu_ipc_close(&mapping));
  assert_null(gpu_context_of(0));
  assert_good(gpu_ipc_open(0, o.handle, &mapping)); // and once more
  assert_good(gpu_ipc_close(&mapping));
  end(p);
}

static void a_handle_of_a_process_that_has_gone_opens_nothing(void **state)
{
  (void)state;
  peer p = start(exporter);
  offer o;
  gpu_mapping mapping;
  assert_true(receive_message(p.socket, &o, sizeof(o), NULL));
  end(p);
  error *e = gpu_ipc_open(0, o.handle, &mapping);
  assert_non_null(e);
  assert_non_null(strstr(error_message(e), "failed to open CUDA IPC handle: "));
  error_free(e);
  memset(o.handle, 0x5a, sizeof(o.handle)); // never was one
  e = gpu_ipc_open(0, o.handle, &mapping);
  assert_non_null(e);
  error_free(e);
  assert_null(gpu_context_of(0));
}

static void a_process_cannot_open_its_own_handle(void **state)
{
  (void)state;
  gpu_pool *pool;
  void *memory;
  gpu_mapping mapping;
  unsigned char handle[64];
  size_t offset;
  assert_good(gpu_pool_new(ON(0), BYTES, &pool));
  assert_good(gpu_pool_take(pool, BYTES, &memory));
  assert_good(gpu_ipc_export(0, (char *)memory + 700, handle, &offset));
  assert_int_equal(offset, 700);
  assert_error(gpu_ipc_open(0, handle, &mapping), ERROR_INTERNAL, "of this same process");
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

static void memory_of_another_device_is_refused_by_name(void **state)
{
  (void)state;
  offer o = {0};
  gpu_mapping mapping;
  if (find_devices()->count < 2) {
    assert_error(gpu_ipc_open(1, o.handle, &mapping), ERROR_INVALID_ARG, "there is no GPU 1");
    return;
  }
  peer p = start(exporter);
  assert_true(receive_message(p.socket, &o, sizeof(o), NULL));
  error *e = gpu_ipc_open(1, o.handle, &mapping); // the driver itself may refuse it
  assert_non_null(e);
  assert_non_null(strstr(error_message(e), "failed to open CUDA IPC handle: "));
  error_free(e);
  assert_null(gpu_context_of(1));
  end(p);
}

static void what_is_no_device_memory_is_not_exported(void **state)
{
  (void)state;
  unsigned char handle[64] = {0};
  size_t offset;
  assert_error(gpu_ipc_export(0, handle, handle, &offset), ERROR_INTERNAL, "not in use");
  assert_good(gpu_context_hold(0));
  error *e = gpu_ipc_export(0, handle, handle, &offset);
  assert_non_null(e);
  assert_non_null(strstr(error_message(e), "GPU 0: its memory cannot be exported: "));
  error_free(e);
  gpu_context_release(0);
}

// Devices that cannot say so; the rest of the region's tests has nothing to test then.
static bool no_descriptors(void)
{
  gpu_region *region;
  size_t added;
  int fd;
  const gpu_device *device = &find_devices()->items[0];
  if (device->exports_fds)
    return false;
  error *e = gpu_region_new(0, 1, &region);
  if (e == NULL) {
    assert_error(gpu_region_grow(region, 1, &fd, &added), ERROR_UNSUPPORTED, "file descriptor");
    assert_int_equal(fd, -1);
    gpu_region_free(region);
  } else
    assert_error(e, ERROR_UNSUPPORTED, "GPU 0: no regions of virtual memory: ");
  return true;
}

static void a_region_grows_in_both_processes(void **state)
{
  (void)state;
  gpu_region *region;
  size_t added, filled = 0;
  if (no_descriptors())
    return;
  peer p = start(importer);
  assert_good(gpu_region_new(0, (size_t)1 << 30, &region));
  const uintptr_t base = (uintptr_t)gpu_region_base(region);
  for (int i = 0; i < 3; i++) {
    int fd;
    char answer;
    assert_good(gpu_region_grow(region, filled + BYTES, &fd, &added));
    assert_true(added >= BYTES && fd >= 0);
    if (filled > 0)
      assert_bytes_on(gpu_region_base(region), filled, 4); // what was there stays
    filled += added;
    assert_int_equal(gpu_region_bytes(region), filled);
    assert_int_equal(gpu_region_base(region), base);
    write_bytes(gpu_region_base(region), filled, 3);
    send_message(p.socket, &added, sizeof(added), fd);
    close(fd);
    assert_true(receive_message(p.socket, &answer, 1, NULL));
    assert_bytes_on(gpu_region_base(region), filled, 4);
  }
  gpu_region_free(region);
  end(p);
}

static void a_region_grows_no_further_than_was_reserved(void **state)
{
  (void)state;
  gpu_region *region;
  size_t added;
  int fd;
  if (no_descriptors())
    return;
  assert_good(gpu_region_new(0, 2 * BYTES, &region));
  assert_int_equal(gpu_region_bytes(region), 0);
  assert_good(gpu_region_grow(region, 0, NULL, &added));
  assert_int_equal(added, 0);
  assert_good(gpu_region_grow(region, BYTES, NULL, &added)); // nobody else's
  assert_good(gpu_region_grow(region, BYTES, &fd, &added));  // is so already
  assert_int_equal(added, 0);
  assert_int_equal(fd, -1);
  assert_error(gpu_region_grow(region, 64 * BYTES, &fd, &added), ERROR_INVALID_ARG, "do not fit");
  assert_error(gpu_region_grow(region, SIZE_MAX, &fd, &added), ERROR_INVALID_ARG, "do not fit");
  assert_int_equal(fd, -1);
  assert_error(gpu_region_import(region, STDOUT_FILENO, 0), ERROR_INVALID_ARG, "does not fit");
  size_t filled = gpu_region_bytes(region);
  error *e = gpu_region_import(region, STDOUT_FILENO, filled); // no memory's descriptor
  assert_non_null(e);
  error_free(e);
  assert_int_equal(gpu_region_bytes(region), filled);
  gpu_region_free(region);
  gpu_region_free(NULL);
  assert_error(gpu_region_new(99, 1, &region), ERROR_INVALID_ARG, "there is no GPU 99");
  assert_null(gpu_context_of(0));
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_handle_opens_the_memory_of_another_process),
      cmocka_unit_test(a_handle_of_a_process_that_has_gone_opens_nothing),
      cmocka_unit_test(a_process_cannot_open_its_own_handle),
      cmocka_unit_test(memory_of_another_device_is_refused_by_name),
      cmocka_unit_test(what_is_no_device_memory_is_not_exported),
      cmocka_unit_test(a_region_grows_in_both_processes),
      cmocka_unit_test(a_region_grows_no_further_than_was_reserved),
  };
  if (argc > 1)
    return strcmp(argv[1], exporter) == 0 ? run_exporter() : run_importer();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
