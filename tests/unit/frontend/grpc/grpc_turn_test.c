// SPDX-License-Identifier: Apache-2.0
// A client that takes whatever it is sent does not have the loop for itself: connections have
// turns. The listener is one without threads (tests/fuzz/grpc_session), the socket one that is
// never full.
#include "../../../fuzz/grpc_session/client.h"
#include "../../../fuzz/grpc_session/core.h"
#include "../../../fuzz/grpc_session/listener.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#define INFER       "/inference.GRPCInferenceService/ModelInfer"
#define MIB         ((size_t)1 << 20)
#define REPLY_BYTES (16 * MIB)
#define TURN_BYTES  (6 * MIB) // at most, in one pass
#define BUDGET      (128 * MIB)

// What the server's end of a connection sends goes nowhere and is counted.
static struct {
  bool on;
  size_t taken; // bytes
} sink;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  if (!sink.on) {
    ssize_t (*next)(int, const struct msghdr *, int);
    *(void **)&next = dlsym(RTLD_NEXT, "sendmsg");
    return next(fd, message, flags);
  }
  size_t size = 0;
  for (size_t i = 0; i < (size_t)message->msg_iovlen; i++)
    size += message->msg_iov[i].iov_len;
  sink.taken += size;
  return (ssize_t)size;
}

static void call_infer(client *c, size_t count)
{
  AUTO_BUFFER buffer request = BUFFER_EMPTY, bytes = BUFFER_EMPTY;
  put_infer(&request, "identity", "id", count, false);
  put_request(&bytes, INFER, 0, 1);
  put_message(&bytes, 1, CLIENT_END_STREAM, 0, buffer_view(&request));
  client_send(c, buffer_view(&bytes));
}

static void a_large_reply_is_sent_in_turns(void **state)
{
  (void)state;
  const listener_options options = {
      .handshake_timeout_ms = 10000, .body_timeout_ms = 30000, .write_timeout_ms = 30000};
  listener_begin(&options, BUDGET, core_get());
  client greedy, other;
  client_open(&greedy, SIZE_MAX, SIZE_MAX);
  client_greet(&greedy, true);
  client_open(&other, SIZE_MAX, SIZE_MAX);
  client_greet(&other, true);
  sink.on = true;
  call_infer(&greedy, REPLY_BYTES / sizeof(int64_t));
  size_t turns = 0;
  for (size_t before = sink.taken; sink.taken < REPLY_BYTES; before = sink.taken) {
    assert_true(turns < 1000);
    if (sink.taken == 0)
      listener_wait();
    listener_pass();
    turns += sink.taken > before;
    assert_true(sink.taken - before <= TURN_BYTES);
  }
  assert_true(turns >= REPLY_BYTES / TURN_BYTES);
  sink.on = false;
  call_infer(&other, 1);
  for (int i = 0; !other.replies.streams[0].ended; i++) {
    assert_true(i < 10000);
    listener_wait();
    client_pass(&other);
  }
  client_leave(&greedy);
  client_end(&other);
  client_end(&greedy);
  listener_end();
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_reply_is_sent_in_turns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
