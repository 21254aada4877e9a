// SPDX-License-Identifier: Apache-2.0
// A host whose worker is hostile: random bytes over everything that both map, positions, futexes,
// holes. The host receives, reads what messages name, releases what they say, and is closed at some
// moment. It must not crash nor hang. NEREID_HOSTILE_SECONDS makes it last longer (row 30: 3600).
#include "channel.h"
#include "channel_layout.h"

#include <limits.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum {
  REGION = 1 << 20,
  USUAL_SECONDS = 2,
  CLOSE_MOST_SECONDS = 10, // generous: a loaded machine under a sanitizer
  FOR_EVER = -1
};

typedef struct scene {
  channel *host;
  channel *worker;  // how the peer speaks as a worker would
  uint64_t *shared; // all of the map
  size_t words;
  uint64_t random;
  _Atomic bool over; // the peer is to end
  _Atomic uint64_t sum, calls, answers;
} scene;

static uint64_t random_next(uint64_t *random)
{
  *random ^= *random << 13;
  *random ^= *random >> 7;
  *random ^= *random << 17;
  return *random;
}

// For threads: cmocka's assertions belong to the thread that runs the test.
static void must(bool holds)
{
  if (!holds)
    abort();
}

// ---- the peer ----

static void write_anywhere(scene *self, size_t first, size_t end)
{
  const size_t at = first + random_next(&self->random) % (end - first);
  const uint64_t random = random_next(&self->random);
  const uint64_t value = random % 4 == 0 ? random % 2048 : random_next(&self->random);
  atomic_store_explicit((_Atomic uint64_t *)&self->shared[at], value, memory_order_relaxed);
}

static void send_anything(scene *self)
{
  uint64_t *random = &self->random;
  const bool near = random_next(random) % 2 == 0;
  channel_message message = {.kind = (uint32_t)random_next(random),
                             .id = random_next(random),
                             .value = random_next(random) % 64 * 64,
                             .offset = near ? random_next(random) % REGION : random_next(random),
                             .size =
                                 near ? random_next(random) % (REGION / 8) : random_next(random)};
  channel_try_send(self->worker, random_next(random) % 2 == 0 ? CHANNEL_CALLS : CHANNEL_ANSWERS,
                   &message);
  if (channel_receive(self->worker, CHANNEL_WORK, 0, &message) == CHANNEL_MESSAGE)
    channel_done(self->worker, CHANNEL_WORK);
}

static void touch_futexes(scene *self)
{
  channel_header *header = (channel_header *)self->shared;
  const uint64_t random = random_next(&self->random);
  channel_position *position = random % 2 == 0
                                   ? &header->rings[random / 2 % CHANNEL_RING_COUNT].sent
                                   : &header->rings[random / 2 % CHANNEL_RING_COUNT].done;
  uint32_t *futex = (uint32_t *)&position->value,
           *elsewhere = (uint32_t *)(self->shared + self->words) - 1;
  if (random & 16)
    syscall(SYS_futex, futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  else
    syscall(SYS_futex, futex, FUTEX_CMP_REQUEUE, 0, INT_MAX, elsewhere, (uint32_t)position->value);
  atomic_store(&position->asleep, random & 32 ? 0 : UINT64_MAX);
}

static void punch_holes(scene *self)
{
  const int descriptor = channel_descriptor(self->host);
  const off_t at = (off_t)(random_next(&self->random) % (self->words * 8));
  fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 65536);
  must(ftruncate(descriptor, at) == -1); // sealed: no read ever faults
}

// One way to attack in each scene; in some, a worker that keeps to the positions and lies in the
// rest.
static void *attack(void *context)
{
  scene *self = context;
  const size_t header = CHANNEL_HEADER_BYTES / 8;
  const uint64_t way = random_next(&self->random) % 5;
  while (!atomic_load(&self->over)) {
    if (way <= 2)
      send_anything(self);
    if (way == 0)
      write_anywhere(self, header, self->words); // slots and regions
    else if (way == 1)
      touch_futexes(self);
    else if (way == 3)
      write_anywhere(self, 0, random_next(&self->random) % 2 == 0 ? header : self->words);
    else if (way == 4 && random_next(&self->random) % 64 == 0)
      punch_holes(self);
  }
  return NULL;
}

// ---- the host ----

// Reads all of what the message names.
static void look_at(scene *self, const channel_message *message)
{
  const uint8_t *bytes = channel_other(self->host, message->offset, message->size);
  if (bytes == NULL)
    return;
  must(message->offset <= REGION && message->size <= REGION - message->offset);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < message->size; i += 61)
    sum += bytes[i];
  atomic_fetch_add(&self->sum, sum);
}

static void *listen(void *context)
{
  scene *self = context;
  channel_message message;
  while (channel_receive(self->host, CHANNEL_CALLS, FOR_EVER, &message) == CHANNEL_MESSAGE) {
    look_at(self, &message);
    channel_release(self->host, message.value);
    channel_done(self->host, CHANNEL_CALLS);
    atomic_fetch_add(&self->calls, 1);
  }
  return NULL;
}

static void *work(void *context)
{
  scene *self = context;
  channel *host = self->host;
  channel_message message = {.kind = 1};
  for (uint64_t i = 0; channel_send(host, CHANNEL_WORK, &message); i++) {
    uint64_t block;
    size_t used, kept;
    if (channel_allocate(host, i * 977 % 70000, &block)) {
      memset(channel_own(host, block), 1, 64);
      if (i % 3 != 0)
        channel_release(host, block);
    }
    const uint64_t finished = channel_finished(host, CHANNEL_WORK);
    must(finished <= channel_sent(host, CHANNEL_WORK));
    if (channel_receive(host, CHANNEL_ANSWERS, i % 2 == 0 ? 50 : 0, &message) == CHANNEL_MESSAGE) {
      look_at(self, &message);
      channel_done(host, CHANNEL_ANSWERS);
      atomic_fetch_add(&self->answers, 1);
    }
    if (i % 64 == 0) {
      channel_trim(host, i % 128);
      channel_await_finished(host, CHANNEL_WORK, finished);
    }
    channel_memory(host, &used, &kept);
    must(used <= REGION && kept <= REGION);
  }
  return NULL;
}

static pthread_t start(void *(*run)(void *), void *context)
{
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
  return thread;
}

// Returns how long closing took, in ns.
static int64_t play(scene *self)
{
  struct stat status;
  assert_int_equal(channel_new(REGION, &self->host), 0);
  assert_int_equal(channel_attach(channel_descriptor(self->host), &self->worker), 0);
  assert_int_equal(fstat(channel_descriptor(self->host), &status), 0);
  const size_t size = (size_t)status.st_size;
  self->words = size / sizeof(self->shared[0]);
  self->shared =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, channel_descriptor(self->host), 0);
  assert_true(self->shared != MAP_FAILED);
  atomic_store(&self->over, false);
  const useconds_t moment = (useconds_t)(random_next(&self->random) % 20000);

  const pthread_t listener = start(listen, self), worker = start(work, self),
                  peer = start(attack, self);
  usleep(moment);
  const int64_t began = channel_now_ns();
  channel_close(self->host);
  pthread_join(listener, NULL);
  pthread_join(worker, NULL);
  const int64_t took = channel_now_ns() - began;
  atomic_store(&self->over, true);
  pthread_join(peer, NULL);
  munmap(self->shared, size);
  channel_free(self->worker);
  channel_free(self->host);
  return took;
}

static void a_hostile_worker_cannot_crash_or_hold_the_host(void **state)
{
  (void)state;
  const char *asked = getenv("NEREID_HOSTILE_SECONDS");
  const int seconds = asked != NULL ? atoi(asked) : USUAL_SECONDS;
  scene self = {.random = 88172645463325252 ^ (asked != NULL ? (uint64_t)channel_now_ns() : 0)};
  alarm((unsigned)seconds + 10 * CLOSE_MOST_SECONDS); // a host that hangs ends the test
  int64_t longest = 0;
  int scenes = 0;
  for (const int64_t end = channel_now_ns() + seconds * INT64_C(1000000000); channel_now_ns() < end;
       scenes++) {
    const int64_t took = play(&self);
    longest = took > longest ? took : longest;
  }
  alarm(0);
  print_message("%d scenes, %llu calls, %llu answers, the longest close took %lld us\n", scenes,
                (unsigned long long)self.calls, (unsigned long long)self.answers,
                (long long)longest / 1000);
  assert_true(longest < CLOSE_MOST_SECONDS * INT64_C(1000000000));
  assert_true(self.calls > 0 && self.answers > 0); // it was not only broken at once
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hostile_worker_cannot_crash_or_hold_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
