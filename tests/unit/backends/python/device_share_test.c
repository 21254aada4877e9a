// SPDX-License-Identifier: Apache-2.0
// Device memory that a worker shares with the host (codec/device_share.c): what the worker is told
// over the socket, what is taken, lent and granted. The driver is the played one; the test is the
// worker.
#include "gpu_testing.h"

#include "channel_descriptor.h"
#include "codec/device_share.h"
#include "codec/protocol.h"
#include "gpu/ipc.h"

#include "nereid/nereid.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int ends[2];
static device_share *share;
static char logged[512];

TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename,
                                            const int line, const char *msg)
{
  (void)level, (void)filename, (void)line;
  snprintf(logged, sizeof logged, "%s", msg);
  return NULL;
}

TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level, const char *filename,
                                           int line, const NEREID_LogSubject *about,
                                           const char *msg)
{
  (void)about;
  return TRITONSERVER_LogMessage(level, filename, line, msg);
}

static int begin(void **state)
{
  (void)state;
  logged[0] = '\0';
  find_devices();
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return 1;
  share = device_share_new(ends[0]);
  return share == NULL;
}

static int end(void **state)
{
  (void)state;
  device_share_free(share);
  assert_false(gpu_context_is_active(0)); // with the region the context has gone
  close(ends[0]);
  close(ends[1]);
  return 0;
}

// What the worker hears next, and the descriptor with it; -1: none.
static protocol_device hear(int *descriptor)
{
  protocol_device said = {0};
  assert_int_equal(
      channel_receive_with_descriptor(ends[1], &said, sizeof said, descriptor, MSG_DONTWAIT),
      sizeof said);
  return said;
}

static void assert_quiet(void)
{
  char byte;
  assert_int_equal(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
}

// The next piece, mapped behind those before, as a worker does it.
static uint64_t map_piece(gpu_region *region)
{
  int descriptor;
  const protocol_device said = hear(&descriptor);
  assert_int_equal(said.kind, DEVICE_PIECE);
  assert_int_equal(said.device, 0);
  assert_int_equal(said.offset, gpu_region_bytes(region));
  assert_good(gpu_region_import(region, descriptor, said.size));
  close(descriptor);
  return said.size;
}

static gpu_region *new_mirror(void)
{
  gpu_region *made;
  assert_good(gpu_region_new(0, (size_t)1 << 30, &made));
  return made;
}

static void what_is_written_is_what_the_worker_maps(void **state)
{
  (void)state;
  unsigned char sent[1000], got[1000];
  device_range range, further;
  assert_null(device_share_at(share, 0, 0, 1)); // nothing is there yet
  assert_true(device_share_take(share, 0, sizeof sent, &range));
  gpu_region *worker = new_mirror();
  const uint64_t size = map_piece(worker);
  assert_quiet();
  fill_bytes(sent, sizeof sent, 1);
  TRITONSERVER_Error *error =
      device_share_copy(range.memory, ON(0), sent, HOST, sizeof sent, "input", "IN");
  assert_null(error);
  const char *theirs = (const char *)gpu_region_base(worker) + range.offset;
  assert_good(gpu_copy_now(got, HOST, theirs, ON(0), sizeof got, "the worker"));
  assert_memory_equal(got, sent, sizeof got);
  assert_ptr_equal(device_share_at(share, 0, range.offset, 1000), range.memory);
  // what a worker may not name
  assert_null(device_share_at(share, 0, 1, size));
  assert_null(device_share_at(share, 0, UINT64_MAX, 2));
  assert_null(device_share_at(share, 1, 0, 1));
  assert_null(device_share_at(share, -1, 0, 1));
  assert_null(device_share_at(share, 1 << 20, 0, 1));
  // it grows for what is larger, and what was there stays
  assert_true(device_share_take(share, 0, 3 * size, &further));
  assert_true(map_piece(worker) >= 3 * size);
  assert_good(gpu_copy_now(got, HOST, theirs, ON(0), sizeof got, "the worker"));
  assert_memory_equal(got, sent, sizeof got);
  device_share_give_back(share, &range);
  device_share_give_back(share, &further);
  gpu_region_free(worker);
}

static void what_is_lent_is_free_with_its_block(void **state)
{
  (void)state;
  device_range first, second, again;
  assert_true(device_share_take(share, 0, 4096, &first));
  assert_true(device_share_lend(share, 640, &first));
  assert_true(device_share_take(share, 0, 4096, &second));
  assert_true(device_share_lend(share, 64, &second));
  assert_int_not_equal(first.offset, second.offset);
  device_share_release(share, 128); // of no block
  device_share_release(share, 640);
  device_share_release(share, 640);
  assert_true(device_share_take(share, 0, 4096, &again));
  assert_int_equal(again.offset, first.offset);
  device_share_give_back(share, &again);
}

static void a_worker_is_granted_room_or_told_why_not(void **state)
{
  (void)state;
  int descriptor;
  device_range range;
  gpu_region *worker = new_mirror();
  device_share_grant(share, "m_0", 0, 1);
  const uint64_t size = map_piece(worker);
  protocol_device said = hear(&descriptor);
  assert_true(said.kind == DEVICE_GRANT && descriptor == -1);
  assert_true(said.offset + said.size <= size && said.size >= 1);
  assert_true(device_share_take(share, 0, 4096, &range)); // beside the worker's
  assert_true(range.offset >= said.offset + said.size || range.offset + 4096 <= said.offset);
  device_share_give_back(share, &range);
  map_piece(worker);
  static const struct {
    int device;
    uint64_t bytes;
  } impossible[] = {{99, 1}, {-1, 1}, {0, UINT64_MAX}, {0, (uint64_t)1 << 40}};
  for (size_t i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    device_share_grant(share, "m_0", impossible[i].device, impossible[i].bytes);
    said = hear(&descriptor);
    assert_int_equal(said.kind, DEVICE_REFUSED);
    assert_int_equal(said.device, impossible[i].device);
    assert_true(strncmp(said.text, "'m_0' wants ", 12) == 0 && descriptor == -1);
  }
  assert_non_null(strstr(said.text, " wants 1099511627776 bytes, "));
  assert_null(strstr(said.text, ", 0 are left"));
  assert_quiet();
  gpu_region_free(worker);
}

static void where_nothing_can_be_mapped_nothing_is_taken(void **state)
{
  (void)state;
  device_range range;
  assert_true(device_share_take(share, 0, 4096, &range));
  device_share_give_back(share, &range);
  device_share_refuse(share, 0, "its worker cannot map it");
  device_share_refuse(share, 99, "there is none");
  assert_false(device_share_take(share, 0, 4096, &range));
}

static void a_worker_that_does_not_read_is_not_waited_for(void **state)
{
  (void)state;
  device_range range;
  char bytes[4096] = {0};
  while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
    ;
  assert_false(device_share_take(share, 0, 4096, &range));
  while (recv(ends[1], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
    ;
  assert_false(device_share_take(share, 0, 4096, &range)); // it lacks the first piece
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(what_is_written_is_what_the_worker_maps),
      TEST(what_is_lent_is_free_with_its_block),
      TEST(a_worker_is_granted_room_or_told_why_not),
      TEST(where_nothing_can_be_mapped_nothing_is_taken),
      TEST(a_worker_that_does_not_read_is_not_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
