// SPDX-License-Identifier: Apache-2.0
// Rings between two sides: both in this process, or one in a forked one.
#include "channel.h"
#include "channel_descriptor.h"
#include "channel_layout.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
  REGION = 1 << 20,
  SENDERS = 4,
  MESSAGES_EACH = 5000,
  FOR_EVER = -1
};

typedef struct sides {
  channel *host;
  channel *worker;
  channel_header *shared; // as a hostile worker sees it
} sides;

static int make_sides(void **state)
{
  sides *made = calloc(1, sizeof(*made));
  assert_int_equal(channel_new(REGION, &made->host), 0);
  assert_int_equal(channel_attach(channel_descriptor(made->host), &made->worker), 0);
  made->shared = mmap(NULL, CHANNEL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                      channel_descriptor(made->host), 0);
  assert_true(made->shared != MAP_FAILED);
  *state = made;
  return 0;
}

static int free_sides(void **state)
{
  sides *ended = *state;
  munmap(ended->shared, CHANNEL_HEADER_BYTES);
  channel_free(ended->worker);
  channel_free(ended->host);
  free(ended);
  return 0;
}

static pthread_t start(void *(*run)(void *), void *context)
{
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
  return thread;
}

static void *join(pthread_t thread)
{
  void *result;
  assert_int_equal(pthread_join(thread, &result), 0);
  return result;
}

static void fill(channel *sender, channel_ring ring)
{
  const channel_message message = {.kind = 1};
  for (int i = 0; i < CHANNEL_RING_SLOTS; i++)
    assert_true(channel_try_send(sender, ring, &message));
}

// Until somebody sleeps on the position, or is about to.
static void await_sleeper(channel_position *position)
{
  while (atomic_load(&position->asleep) <= atomic_load(&position->value))
    sched_yield();
}

// ---- sending and receiving ----

static void a_message_arrives_as_sent(void **state)
{
  sides *both = *state;
  const channel_message sent = {
      .kind = 1, .flags = 2, .id = UINT64_MAX, .value = 4, .offset = 5, .size = 6};
  channel_message received = {.kind = 0};
  for (channel_ring ring = 0; ring < CHANNEL_RING_COUNT; ring++) {
    const bool from_host = ring == CHANNEL_WORK || ring == CHANNEL_REPLIES;
    channel *from = from_host ? both->host : both->worker,
            *to = from_host ? both->worker : both->host;
    assert_true(channel_send(from, ring, &sent));
    assert_int_equal(channel_receive(to, ring, FOR_EVER, &received), CHANNEL_MESSAGE);
    assert_memory_equal(&sent, &received, sizeof(sent));
    assert_int_equal(channel_sent(from, ring), 1);
    assert_int_equal(channel_finished(from, ring), 0);
    channel_done(to, ring);
    channel_done(to, ring); // once too often
    assert_int_equal(channel_finished(from, ring), 1);
    assert_true(channel_await_finished(from, ring, 1));
    assert_false(channel_send(to, ring, &sent)); // the other direction
  }
}

static void a_wait_ends_in_time(void **state)
{
  sides *both = *state;
  channel_message received;
  const int64_t began = channel_now_ns();
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, 0, &received), CHANNEL_TIMEOUT);
  for (int i = 0; i < 10; i++)
    assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, 1000, &received),
                     CHANNEL_TIMEOUT);
  assert_true(channel_now_ns() - began >= 10000000);
}

static void an_idle_receiver_uses_no_processor(void **state)
{
  sides *both = *state;
  channel_message received;
  struct timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, 300000, &received),
                   CHANNEL_TIMEOUT);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  const int64_t used = (after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
  assert_true(used < 30000000);
}

static void *echo(void *context)
{
  channel *worker = context;
  channel_message message;
  while (channel_receive(worker, CHANNEL_WORK, FOR_EVER, &message) == CHANNEL_MESSAGE) {
    channel_done(worker, CHANNEL_WORK);
    if (!channel_send(worker, CHANNEL_ANSWERS, &message))
      break;
  }
  return NULL;
}

static void ask(channel *host, uint64_t count)
{
  for (uint64_t i = 0; i < count; i++) {
    const channel_message sent = {.id = i};
    channel_message received;
    assert_true(channel_send(host, CHANNEL_WORK, &sent));
    assert_int_equal(channel_receive(host, CHANNEL_ANSWERS, FOR_EVER, &received), CHANNEL_MESSAGE);
    assert_int_equal(received.id, i);
    channel_done(host, CHANNEL_ANSWERS);
    if (i % 100 == 0)
      usleep(300); // now and then both sides sleep
  }
}

static void answers_come_one_for_one(void **state)
{
  sides *both = *state;
  const pthread_t thread = start(echo, both->worker);
  ask(both->host, 10000);
  channel_close(both->worker);
  join(thread);
}

static void answers_come_one_for_one_whoever_may_look(void **state)
{
  sides *both = *state;
  const pthread_t thread = start(echo, both->worker);
  for (int i = 0; i < 4; i++) {
    channel_look(both->host, CHANNEL_ANSWERS, i % 2 != 0);
    channel_look(both->worker, CHANNEL_WORK, i / 2 != 0);
    ask(both->host, 2000);
  }
  channel_close(both->worker);
  join(thread);
}

typedef struct sender {
  channel *side;
  uint64_t number;
} sender;

static void *send_many(void *context)
{
  const sender *self = context;
  for (uint64_t i = 0; i < MESSAGES_EACH; i++) {
    const channel_message message = {.id = self->number, .value = i};
    if (!channel_send(self->side, CHANNEL_CALLS, &message))
      return NULL;
    if (i % 1000 == 0 && !channel_await_finished(self->side, CHANNEL_CALLS, i))
      return NULL;
  }
  return context;
}

// More messages than slots, so senders wait for room.
static void many_threads_can_send(void **state)
{
  sides *both = *state;
  sender senders[SENDERS];
  pthread_t threads[SENDERS];
  uint64_t next[SENDERS] = {0};
  for (uint64_t i = 0; i < SENDERS; i++) {
    senders[i] = (sender){both->worker, i};
    threads[i] = start(send_many, &senders[i]);
  }
  for (int i = 0; i < SENDERS * MESSAGES_EACH; i++) {
    channel_message message;
    assert_int_equal(channel_receive(both->host, CHANNEL_CALLS, FOR_EVER, &message),
                     CHANNEL_MESSAGE);
    assert_true(message.id < SENDERS);
    assert_int_equal(message.value, next[message.id]++);
    if (i % 3000 == 0)
      usleep(2000); // the ring becomes full
    channel_done(both->host, CHANNEL_CALLS);
  }
  for (int i = 0; i < SENDERS; i++)
    assert_ptr_equal(join(threads[i]), &senders[i]);
  assert_int_equal(channel_finished(both->worker, CHANNEL_CALLS), SENDERS * MESSAGES_EACH);
}

static void *send_one(void *context)
{
  const channel_message message = {.kind = 2};
  return channel_send(context, CHANNEL_WORK, &message) ? context : NULL;
}

static void a_full_ring_refuses_or_waits(void **state)
{
  sides *both = *state;
  channel_message message = {.kind = 3};
  fill(both->host, CHANNEL_WORK);
  assert_false(channel_try_send(both->host, CHANNEL_WORK, &message));
  const pthread_t thread = start(send_one, both->host);
  await_sleeper(&both->shared->rings[CHANNEL_WORK].done);
  assert_int_equal(channel_receive(both->worker, CHANNEL_WORK, 0, &message), CHANNEL_MESSAGE);
  assert_false(channel_try_send(both->host, CHANNEL_WORK, &message)); // taken, and not yet done
  channel_done(both->worker, CHANNEL_WORK);
  assert_ptr_equal(join(thread), both->host);
  for (int i = 0; i < CHANNEL_RING_SLOTS; i++)
    assert_int_equal(channel_receive(both->worker, CHANNEL_WORK, 0, &message), CHANNEL_MESSAGE);
  assert_int_equal(message.kind, 2);
}

// ---- closing ----

static void *receive_one(void *context)
{
  channel_message message;
  const channel_result result = channel_receive(context, CHANNEL_ANSWERS, FOR_EVER, &message);
  return result == CHANNEL_CLOSED ? context : NULL;
}

static void *await_ten(void *context)
{
  return channel_await_finished(context, CHANNEL_REPLIES, 10) ? NULL : context;
}

static void close_ends_all_waits(void **state)
{
  sides *both = *state;
  fill(both->host, CHANNEL_WORK);
  void *(*const waits[])(void *) = {receive_one, send_one, send_one, await_ten, await_ten};
  enum {
    WAITS = sizeof(waits) / sizeof(waits[0])
  };
  pthread_t threads[WAITS];
  for (int i = 0; i < WAITS; i++)
    threads[i] = start(waits[i], both->host);
  await_sleeper(&both->shared->rings[CHANNEL_ANSWERS].sent);
  await_sleeper(&both->shared->rings[CHANNEL_WORK].done);
  await_sleeper(&both->shared->rings[CHANNEL_REPLIES].done);
  channel_close(both->host);
  channel_close(both->host);
  for (int i = 0; i < WAITS; i++)
    assert_ptr_equal(join(threads[i]), i == 1 || i == 2 ? NULL : both->host);
}

// No moment between looking and sleeping is one in which closing goes unheard.
static void close_at_any_moment_is_heard(void **state)
{
  (void)state;
  for (int i = 0; i < 500; i++) {
    channel *host;
    assert_int_equal(channel_new(0, &host), 0);
    const pthread_t thread = start(receive_one, host);
    for (volatile int spin = 0; spin < i * 50; spin++)
      ;
    channel_close(host);
    assert_ptr_equal(join(thread), host);
    channel_free(host);
  }
}

static void what_came_before_the_close_is_received(void **state)
{
  sides *both = *state;
  channel_message message = {.kind = 1};
  for (int i = 0; i < 3; i++)
    assert_true(channel_send(both->worker, CHANNEL_ANSWERS, &message));
  channel_close(both->host);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, FOR_EVER, &message),
                     CHANNEL_MESSAGE);
    channel_done(both->host, CHANNEL_ANSWERS);
    assert_true(channel_send(both->worker, CHANNEL_ANSWERS, &message)); // what comes later is not
  }
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, FOR_EVER, &message),
                   CHANNEL_CLOSED);
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, 0, &message), CHANNEL_CLOSED);
  assert_false(channel_send(both->host, CHANNEL_WORK, &message));
  assert_false(channel_try_send(both->host, CHANNEL_WORK, &message));
}

// ---- a hostile peer ----

static void positions_that_cannot_be_are_noticed(void **state)
{
  sides *both = *state;
  channel_message message = {.kind = 1};
  channel_position *answers = &both->shared->rings[CHANNEL_ANSWERS].sent;
  atomic_store(&answers->value, CHANNEL_RING_SLOTS + 1);
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, FOR_EVER, &message),
                   CHANNEL_BROKEN);
  atomic_store(&answers->value, 1); // too late
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, FOR_EVER, &message),
                   CHANNEL_BROKEN);

  channel_position *calls = &both->shared->rings[CHANNEL_CALLS].sent;
  atomic_store(&calls->value, 2);
  assert_int_equal(channel_receive(both->host, CHANNEL_CALLS, 0, &message), CHANNEL_MESSAGE);
  atomic_store(&calls->value, 1); // backwards
  assert_int_equal(channel_receive(both->host, CHANNEL_CALLS, 0, &message), CHANNEL_BROKEN);

  atomic_store(&both->shared->rings[CHANNEL_WORK].done.value, 1); // nothing was sent
  assert_int_equal(channel_finished(both->host, CHANNEL_WORK), 0);
  assert_false(channel_send(both->host, CHANNEL_WORK, &message));
  assert_false(channel_await_finished(both->host, CHANNEL_WORK, 1));

  assert_true(channel_send(both->host, CHANNEL_REPLIES, &message));
  channel_position *done = &both->shared->rings[CHANNEL_REPLIES].done;
  atomic_store(&done->value, 1);
  assert_int_equal(channel_finished(both->host, CHANNEL_REPLIES), 1);
  atomic_store(&done->value, 0);
  assert_int_equal(channel_finished(both->host, CHANNEL_REPLIES), 1);
  assert_false(channel_try_send(both->host, CHANNEL_REPLIES, &message));
}

static void names_outside_the_region_are_refused(void **state)
{
  sides *both = *state;
  uint64_t offset;
  assert_non_null(channel_other(both->host, 0, REGION));
  assert_non_null(channel_other(both->host, REGION - 1, 1));
  assert_null(channel_other(both->host, REGION, 1));
  assert_null(channel_other(both->host, 1, REGION));
  assert_null(channel_other(both->host, UINT64_MAX, 1));
  assert_null(channel_other(both->host, 1, UINT64_MAX));
  assert_true(channel_is_own(both->host, channel_own(both->host, REGION - 1), &offset));
  assert_int_equal(offset, REGION - 1);
  assert_false(channel_is_own(both->host, channel_own(both->host, REGION), &offset));
  assert_false(channel_is_own(both->host, &offset, &offset));
}

// A peer can move our sleepers to a futex of its own, where waking the position does not find them.
static void a_sleeper_that_was_moved_away_hears_the_close(void **state)
{
  sides *both = *state;
  channel_position *sent = &both->shared->rings[CHANNEL_ANSWERS].sent;
  uint32_t *futex = (uint32_t *)&sent->value, *elsewhere = (uint32_t *)&both->shared->version;
  const pthread_t thread = start(receive_one, both->host);
  while (syscall(SYS_futex, futex, FUTEX_CMP_REQUEUE, 0, INT_MAX, elsewhere, 0) < 1)
    sched_yield();
  channel_close(both->host);
  assert_ptr_equal(join(thread), both->host);
}

// ---- processes ----

static void await_success(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_forked_process_answers(void **state)
{
  sides *both = *state;
  const pid_t child = fork();
  if (child == 0) {
    channel *worker;
    channel_message message = {.kind = 0};
    if (channel_attach(channel_descriptor(both->host), &worker) != 0)
      _exit(1);
    while (channel_receive(worker, CHANNEL_WORK, FOR_EVER, &message) == CHANNEL_MESSAGE &&
           message.kind != 9) {
      channel_done(worker, CHANNEL_WORK);
      if (!channel_send(worker, CHANNEL_ANSWERS, &message))
        _exit(2);
    }
    _exit(message.kind == 9 ? 0 : 3);
  }
  ask(both->host, 10000);
  const channel_message last = {.kind = 9};
  assert_true(channel_send(both->host, CHANNEL_WORK, &last));
  await_success(child);
}

// What a child changed would be the parent's too: slots, blocks, pages.
static void a_child_of_a_side_can_do_nothing(void **state)
{
  sides *both = *state;
  channel_message message = {.kind = 1};
  uint64_t block, other;
  assert_true(channel_allocate(both->worker, 8192, &block));
  assert_true(channel_send(both->host, CHANNEL_WORK, &message));
  const pid_t child = fork();
  if (child == 0) {
    channel *worker = both->worker;
    int failed = 0;
    failed += channel_allocate(worker, 1, &other);
    failed += channel_release(worker, block);
    failed += channel_try_send(worker, CHANNEL_ANSWERS, &message);
    failed += channel_send(worker, CHANNEL_ANSWERS, &message);
    failed += channel_await_finished(worker, CHANNEL_ANSWERS, 1);
    failed += channel_trim(worker, 0) != 0;
    failed += channel_receive(worker, CHANNEL_WORK, FOR_EVER, &message) != CHANNEL_CLOSED;
    channel_done(worker, CHANNEL_WORK);
    channel_close(worker);
    channel_free(worker);
    _exit(failed);
  }
  await_success(child);
  assert_int_equal(channel_receive(both->worker, CHANNEL_WORK, 0, &message), CHANNEL_MESSAGE);
  assert_int_equal(channel_finished(both->host, CHANNEL_WORK), 0);
  assert_int_equal(channel_receive(both->host, CHANNEL_ANSWERS, 0, &message), CHANNEL_TIMEOUT);
  assert_true(channel_release(both->worker, block));
}

// From here on futex_waitv is a call that the system does not have.
static void forbid_waitv(void)
{
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(4);
}

static void older_systems_will_do(void **state)
{
  sides *both = *state;
  const pid_t child = fork();
  if (child == 0) {
    channel *worker;
    channel_message message;
    pthread_t closer;
    forbid_waitv();
    if (channel_attach(channel_descriptor(both->host), &worker) != 0)
      _exit(1);
    for (int i = 0; i < 1000; i++)
      if (channel_receive(worker, CHANNEL_WORK, FOR_EVER, &message) != CHANNEL_MESSAGE ||
          !channel_send(worker, CHANNEL_ANSWERS, &message))
        _exit(2);
    if (channel_receive(worker, CHANNEL_WORK, 1000, &message) != CHANNEL_TIMEOUT)
      _exit(3);
    if (pthread_create(&closer, NULL, echo, worker) != 0)
      _exit(5);
    await_sleeper(&both->shared->rings[CHANNEL_WORK].sent);
    channel_close(worker);
    pthread_join(closer, NULL);
    _exit(0);
  }
  ask(both->host, 1000);
  await_success(child);
}

static void only_a_channel_can_be_attached(void **state)
{
  sides *both = *state;
  const int descriptor = channel_descriptor(both->host),
            plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  channel *attached;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(channel_attach(-1, &attached), EBADF);
  assert_int_equal(channel_attach(ends[0], &attached), EPROTO);
  assert_int_equal(channel_attach(plain, &attached), EPROTO);
  assert_int_equal(ftruncate(plain, 1 << 20), 0);
  assert_int_equal(fcntl(plain, F_ADD_SEALS, CHANNEL_SEALS), 0);
  assert_int_equal(channel_attach(plain, &attached), EPROTO);
  both->shared->version++;
  assert_int_equal(channel_attach(descriptor, &attached), EPROTO);
  both->shared->version--;
  both->shared->region_size += 4096;
  assert_int_equal(channel_attach(descriptor, &attached), EPROTO);
  close(plain), close(ends[0]), close(ends[1]);

  assert_int_equal(ftruncate(descriptor, 4096), -1); // sealed
  assert_int_equal(ftruncate(descriptor, (off_t)1 << 40), -1);
  assert_true((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  assert_int_equal(channel_descriptor(both->worker), -1);
}

static bool is_same_file(int one, int other)
{
  struct stat first, second;
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_ino == second.st_ino;
}

static void descriptors_come_beside_bytes(void **state)
{
  const int sent = channel_descriptor(((sides *)*state)->host);
  int ends[2], got, next;
  char bytes[8];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  assert_int_equal(channel_send_with_descriptor(ends[0], "abc", 3, sent, 0), 0);
  assert_int_equal(channel_receive_with_descriptor(ends[1], bytes, sizeof(bytes), &got, 0), 3);
  assert_memory_equal(bytes, "abc", 3);
  assert_true(is_same_file(got, sent));
  assert_true((fcntl(got, F_GETFD) & FD_CLOEXEC) != 0);
  close(got);

  assert_int_equal(channel_send_with_descriptor(ends[0], "d", 1, -1, 0), 0);
  assert_int_equal(channel_receive_with_descriptor(ends[1], bytes, sizeof(bytes), &got, 0), 1);
  assert_int_equal(got, -1);
  assert_int_equal(channel_send_with_descriptor(ends[0], "d", 1, -1, 0), 0);
  assert_int_equal(channel_receive_descriptor(ends[1]), -1);
  assert_int_equal(errno, EPROTO);
  assert_int_equal(
      channel_receive_with_descriptor(ends[1], bytes, sizeof(bytes), &got, MSG_DONTWAIT), -1);
  assert_int_equal(errno, EAGAIN);

  assert_int_equal(channel_send_descriptor(ends[0], sent), 0);
  got = channel_receive_descriptor(ends[1]);
  assert_true(is_same_file(got, sent));
  close(got);
  next = dup(sent);
  assert_int_equal(next, got); // nothing else was left open
  close(next), close(ends[1]);
  assert_int_equal(channel_send_descriptor(ends[0], sent), EPIPE); // and no signal
  assert_int_equal(channel_send_descriptor(-1, sent), EBADF);
  close(ends[0]);
}

static void of_several_descriptors_one_is_taken(void **state)
{
  const int sent = channel_descriptor(((sides *)*state)->host);
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(2 * sizeof(int))];
  } control = {.header = {.cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS,
                          .cmsg_len = CMSG_LEN(2 * sizeof(int))}};
  char byte = 0;
  struct iovec part = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control.space)};
  int ends[2], got, next;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  memcpy(CMSG_DATA(&control.header), (int[]){sent, sent}, 2 * sizeof(int));
  assert_int_equal(sendmsg(ends[0], &message, 0), 1);
  got = channel_receive_descriptor(ends[1]);
  assert_true(is_same_file(got, sent));
  close(got);
  next = dup(sent);
  assert_int_equal(next, got);
  close(next), close(ends[0]), close(ends[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_sides, free_sides)
  const struct CMUnitTest tests[] = {
      TEST(a_message_arrives_as_sent),
      TEST(a_wait_ends_in_time),
      TEST(an_idle_receiver_uses_no_processor),
      TEST(answers_come_one_for_one),
      TEST(answers_come_one_for_one_whoever_may_look),
      TEST(many_threads_can_send),
      TEST(a_full_ring_refuses_or_waits),
      TEST(close_ends_all_waits),
      cmocka_unit_test(close_at_any_moment_is_heard),
      TEST(what_came_before_the_close_is_received),
      TEST(positions_that_cannot_be_are_noticed),
      TEST(names_outside_the_region_are_refused),
      TEST(a_sleeper_that_was_moved_away_hears_the_close),
      TEST(a_forked_process_answers),
      TEST(a_child_of_a_side_can_do_nothing),
      TEST(older_systems_will_do),
      TEST(only_a_channel_can_be_attached),
      TEST(descriptors_come_beside_bytes),
      TEST(of_several_descriptors_one_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
