// SPDX-License-Identifier: Apache-2.0
// A message of another server: the first byte says how many descriptors came with it. What is taken
// is printed the same again.
#include "daemon/handover_message.h"
#include "fuzz.h"

static void check_sockets(const json_t *message, size_t fd_count)
{
  int fds[16] = {0};
  handover_sockets sockets, again;
  error *e = handover_read_sockets(message, fds, fd_count, &sockets);
  if (e == NULL) {
    CHECK(sockets.count == fd_count && fd_count <= HANDOVER_SOCKETS);
    json_t *printed = handover_print_sockets(&sockets);
    CHECK(printed != NULL);
    CHECK(handover_read_sockets(printed, fds, fd_count, &again) == NULL);
    CHECK(memcmp(&sockets, &again, sizeof(sockets)) == 0);
    json_decref(printed);
  }
  error_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  const size_t fd_count = fuzz_byte(&input) % 16;
  json_t *message = NULL;
  error *e = handover_message_read(fuzz_take(&input, input.size), &message);
  CHECK((e == NULL) == (message != NULL));
  error_free(e);
  if (message != NULL) {
    error_free(handover_message_expect(message, "sockets"));
    check_sockets(message, fd_count);
  }
  json_decref(message);
  return 0;
}
