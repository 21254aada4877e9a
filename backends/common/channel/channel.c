// SPDX-License-Identifier: Apache-2.0
// Rings and regions, on both sides. Each side keeps in private memory what it relies on: the
// positions that it writes, the last valid ones that it read, its blocks. Values in the shared
// memory are compared with these at each use.
#include "channel.h"

#include "channel_layout.h"
#include "channel_memory.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define MESSAGE_WORDS (sizeof(channel_message) / sizeof(uint64_t))

// ---- what is private ----

typedef struct ring {
  channel_position *shared_sent;
  channel_position *shared_done;
  channel_slot *slots;
  bool sender; // this side sends
  _Atomic bool broken;

  // The sender's.
  pthread_mutex_t lock; // guards the next free slot: only its holder moves `sent`
  _Atomic uint64_t sent;
  _Atomic uint64_t finished; // the last valid `done`; only grows
  channel_waits room;

  // The receiver's, one thread at a time.
  uint64_t seen;  // the last valid `sent`
  uint64_t taken; // messages that channel_receive returned
  uint64_t done;
  bool closing; // `seen` is final
  channel_waits arrival;
} ring;

struct channel {
  uint8_t *map;
  size_t map_size;
  uint64_t region_size;
  uint8_t *own;
  const uint8_t *other;
  int descriptor;
  unsigned generation; // of the process that made it
  channel_end end;
  ring *rings;
  channel_memory_map *memory;
};

// ---- forks ----

// A forked child has copies of the private state: parent and child would use the same blocks and
// slots. A child therefore cannot use the channel.
static _Atomic unsigned generation;

static void count_fork(void)
{
  atomic_fetch_add_explicit(&generation, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
  pthread_atfork(NULL, NULL, count_fork);
}

static bool is_child(const channel *self)
{
  return self->generation != atomic_load_explicit(&generation, memory_order_relaxed);
}

// ---- making ----

static size_t page_size(void)
{
  return (size_t)sysconf(_SC_PAGESIZE);
}

// The bytes of header and rings; the regions follow.
static size_t rings_size(void)
{
  const size_t page = page_size(), size = CHANNEL_HEADER_BYTES + sizeof(channel_slot) *
                                                                     CHANNEL_RING_SLOTS *
                                                                     CHANNEL_RING_COUNT;
  return (size + page - 1) / page * page;
}

static void init_ring(channel *self, channel_ring number, bool host)
{
  ring *at = &self->rings[number];
  channel_header *shared = (channel_header *)self->map;
  at->shared_sent = &shared->rings[number].sent;
  at->shared_done = &shared->rings[number].done;
  at->slots =
      (channel_slot *)(self->map + CHANNEL_HEADER_BYTES) + (size_t)number * CHANNEL_RING_SLOTS;
  at->sender = host == (number == CHANNEL_WORK || number == CHANNEL_REPLIES);
  pthread_mutex_init(&at->lock, NULL);
  channel_waits_init(&at->room);
  channel_waits_init(&at->arrival);
}

static bool has_one_processor(void)
{
  cpu_set_t *usable = CPU_ALLOC(CPU_SETSIZE * 8);
  bool one = false;
  if (usable != NULL && sched_getaffinity(0, CPU_ALLOC_SIZE(CPU_SETSIZE * 8), usable) == 0)
    one = CPU_COUNT_S(CPU_ALLOC_SIZE(CPU_SETSIZE * 8), usable) == 1;
  CPU_FREE(usable);
  return one;
}

// Maps the memfd. This side can write only its own region. That protects against mistakes; against
// malice neither region is trusted.
static int map_channel(channel *self, int descriptor, bool host)
{
  const size_t before = rings_size();
  self->map_size = before + 2 * self->region_size;
  self->map =
      mmap(NULL, self->map_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (self->map == MAP_FAILED) {
    self->map = NULL;
    return errno;
  }
  self->own = self->map + before + (host ? 0 : self->region_size);
  uint8_t *other = self->map + before + (host ? self->region_size : 0);
  self->other = other;
  if (self->region_size > 0 && mprotect(other, self->region_size, PROT_READ) != 0)
    return errno;
  // Clients' inputs and outputs must not be in a core file.
  madvise(self->map, self->map_size, MADV_DONTDUMP);
  return 0;
}

static int make(uint64_t region_size, int descriptor, bool host, channel **made)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  channel *self = calloc(1, sizeof(*self));
  if (self == NULL)
    return ENOMEM;
  self->descriptor = -1;
  self->region_size = region_size;
  self->generation = atomic_load(&generation);
  self->end.alone = has_one_processor();
  int problem = map_channel(self, descriptor, host);
  if (problem == 0) {
    self->rings = calloc(CHANNEL_RING_COUNT, sizeof(*self->rings));
    self->memory = malloc(sizeof(*self->memory));
    problem = self->rings == NULL || self->memory == NULL
                  ? ENOMEM
                  : channel_memory_init(self->memory, self->own, region_size);
  }
  if (problem != 0) {
    free(self->memory);
    self->memory = NULL;
    channel_free(self);
    return problem;
  }
  for (channel_ring number = 0; number < CHANNEL_RING_COUNT; number++)
    init_ring(self, number, host);
  *made = self;
  return 0;
}

// Anonymous memory behind a descriptor. It needs no /dev/shm and no writable file system.
static int new_memfd(size_t size, int *made)
{
  int descriptor =
      memfd_create("nereid-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (descriptor < 0 && errno == EINVAL) // before Linux 6.3
    descriptor = memfd_create("nereid-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0)
    return errno;
  if (ftruncate(descriptor, (off_t)size) != 0 ||
      fcntl(descriptor, F_ADD_SEALS, CHANNEL_SEALS) != 0) {
    const int problem = errno;
    close(descriptor);
    return problem;
  }
  *made = descriptor;
  return 0;
}

int channel_new(size_t region_size, channel **made)
{
  const size_t page = page_size();
  if (region_size > (SIZE_MAX >> 3))
    return ENOMEM;
  const size_t rounded = (region_size + page - 1) / page * page;
  int descriptor = -1;
  int problem = new_memfd(rings_size() + 2 * rounded, &descriptor);
  if (problem != 0)
    return problem;
  problem = make(rounded, descriptor, true, made);
  if (problem != 0) {
    close(descriptor);
    return problem;
  }
  (*made)->descriptor = descriptor;
  channel_header *shared = (channel_header *)(*made)->map;
  shared->magic = CHANNEL_MAGIC;
  shared->version = CHANNEL_VERSION;
  shared->region_size = rounded;
  return 0;
}

// Reads the header and compares it with the descriptor's size and seals.
static int read_header(int descriptor, uint64_t *region_size)
{
  uint64_t found[3];
  struct stat status;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & CHANNEL_SEALS) != CHANNEL_SEALS || fstat(descriptor, &status) != 0)
    return errno == EBADF ? EBADF : EPROTO;
  if (pread(descriptor, found, sizeof(found), 0) != (ssize_t)sizeof(found) ||
      found[0] != CHANNEL_MAGIC || found[1] != CHANNEL_VERSION)
    return EPROTO;
  if (found[2] % page_size() != 0 || found[2] > (SIZE_MAX >> 3) ||
      (uint64_t)status.st_size != rings_size() + 2 * found[2])
    return EPROTO;
  *region_size = found[2];
  return 0;
}

size_t channel_place(size_t at, size_t size)
{
  const size_t unit = size < CHANNEL_LARGE ? CHANNEL_ALIGNMENT : page_size();
  return (at + unit - 1) & ~(unit - 1);
}

int channel_map_privately(const channel *self, int descriptor, void **mapped, size_t *size)
{
  *size = self->region_size;
  *mapped = mmap(NULL, self->region_size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, descriptor,
                 self->other - self->map);
  if (*mapped == MAP_FAILED)
    return errno;
  madvise(*mapped, self->region_size, MADV_DONTDUMP);
  return 0;
}

int channel_attach(int descriptor, channel **made)
{
  uint64_t region_size;
  errno = 0;
  const int problem = read_header(descriptor, &region_size);
  return problem != 0 ? problem : make(region_size, descriptor, false, made);
}

void channel_free(channel *ended)
{
  if (ended == NULL)
    return;
  if (ended->memory != NULL)
    channel_memory_fini(ended->memory);
  free(ended->memory);
  free(ended->rings);
  if (ended->map != NULL)
    munmap(ended->map, ended->map_size);
  if (ended->descriptor >= 0)
    close(ended->descriptor);
  free(ended);
}

int channel_descriptor(const channel *self)
{
  return self->descriptor;
}

void channel_close(channel *self)
{
  channel_end_close(&self->end);
}

static bool is_closed(const channel *self)
{
  return atomic_load_explicit(&self->end.closed, memory_order_acquire) != 0;
}

static void mark_broken(ring *at)
{
  atomic_store_explicit(&at->broken, true, memory_order_relaxed);
}

static bool is_broken(const ring *at)
{
  return atomic_load_explicit(&at->broken, memory_order_relaxed);
}

// ---- sending ----

static bool can_send(const channel *self, const ring *at)
{
  return at->sender && !is_child(self) && !is_closed(self) && !is_broken(at);
}

// How many messages the receiver has finished with. Its claim counts if it is between the previous
// one and `sent`.
static uint64_t look_at_finished(ring *at)
{
  const uint64_t last = atomic_load(&at->finished); // first: the others may grow meanwhile
  const uint64_t said = atomic_load(&at->shared_done->value);
  const uint64_t sent = atomic_load(&at->sent);
  if (said < last || said > sent) {
    mark_broken(at);
    return last;
  }
  uint64_t known = last;
  while (known < said && !atomic_compare_exchange_weak(&at->finished, &known, said))
    ;
  return known < said ? said : known;
}

static void write_slot(ring *at, uint64_t position, const channel_message *message)
{
  uint64_t words[MESSAGE_WORDS];
  memcpy(words, message, sizeof(words));
  channel_slot *to = &at->slots[position % CHANNEL_RING_SLOTS];
  for (size_t i = 0; i < MESSAGE_WORDS; i++)
    atomic_store_explicit(&to->words[i], words[i], memory_order_relaxed);
}

// Sends if there is room. Otherwise `*full_at` is how many messages the receiver has finished with.
static bool send_now(channel *self, ring *at, const channel_message *message, uint64_t *full_at)
{
  if (!can_send(self, at))
    return false;
  pthread_mutex_lock(&at->lock);
  const uint64_t sent = atomic_load_explicit(&at->sent, memory_order_relaxed);
  *full_at = atomic_load(&at->finished);
  if (sent - *full_at >= CHANNEL_RING_SLOTS)
    *full_at = look_at_finished(at);
  assert(*full_at <= sent && sent - *full_at <= CHANNEL_RING_SLOTS);
  const bool room = sent - *full_at < CHANNEL_RING_SLOTS;
  bool asleep = false;
  if (room) {
    write_slot(at, sent, message);
    atomic_store(&at->sent,
                 sent + 1); // before the next line, during which the receiver may already finish
    asleep = channel_position_move(at->shared_sent, sent, sent + 1);
  }
  pthread_mutex_unlock(&at->lock);
  if (asleep)
    channel_position_wake(at->shared_sent);
  return room;
}

bool channel_try_send(channel *self, channel_ring number, const channel_message *message)
{
  uint64_t full_at;
  return send_now(self, &self->rings[number], message, &full_at);
}

bool channel_send(channel *self, channel_ring number, const channel_message *message)
{
  ring *at = &self->rings[number];
  uint64_t full_at;
  while (!send_now(self, at, message, &full_at)) {
    if (!can_send(self, at))
      return false;
    channel_wait(&self->end, at->shared_done, &at->room, full_at, CHANNEL_WAIT_FOR_EVER);
  }
  return true;
}

uint64_t channel_sent(const channel *self, channel_ring number)
{
  return atomic_load(&self->rings[number].sent);
}

uint64_t channel_finished(const channel *self, channel_ring number)
{
  return look_at_finished(&self->rings[number]);
}

bool channel_await_finished(channel *self, channel_ring number, uint64_t count)
{
  ring *at = &self->rings[number];
  for (;;) {
    const uint64_t finished = look_at_finished(at);
    if (finished >= count)
      return true;
    if (!can_send(self, at))
      return false;
    channel_wait(&self->end, at->shared_done, &at->room, finished, CHANNEL_WAIT_FOR_EVER);
  }
}

// ---- receiving ----

// CHANNEL_TIMEOUT: no message now.
static channel_result look_at_arrived(const channel *self, ring *at)
{
  if (is_broken(at))
    return CHANNEL_BROKEN;
  const bool closed = is_closed(self); // read before the last message is looked for
  if (!at->closing) {
    const uint64_t said = atomic_load(&at->shared_sent->value);
    if (said < at->seen || said - at->done > CHANNEL_RING_SLOTS) {
      mark_broken(at);
      return CHANNEL_BROKEN;
    }
    at->seen = said;
    at->closing = closed;
  }
  if (at->taken < at->seen)
    return CHANNEL_MESSAGE;
  return closed ? CHANNEL_CLOSED : CHANNEL_TIMEOUT;
}

static void take(ring *at, channel_message *message)
{
  assert(!at->sender && at->done <= at->taken && at->taken < at->seen);
  const channel_slot *from = &at->slots[at->taken++ % CHANNEL_RING_SLOTS];
  uint64_t words[MESSAGE_WORDS];
  for (size_t i = 0; i < MESSAGE_WORDS; i++)
    words[i] = atomic_load_explicit(&from->words[i], memory_order_relaxed);
  memcpy(message, words, sizeof(words));
}

channel_result channel_receive(channel *self, channel_ring number, int64_t timeout_us,
                               channel_message *message)
{
  ring *at = &self->rings[number];
  if (at->sender || is_child(self))
    return CHANNEL_CLOSED;
  channel_result result = look_at_arrived(self, at);
  if (result == CHANNEL_TIMEOUT && timeout_us != 0) {
    int64_t deadline_ns = CHANNEL_WAIT_FOR_EVER;
    if (timeout_us > 0 && (__builtin_mul_overflow(timeout_us, 1000, &deadline_ns) ||
                           __builtin_add_overflow(deadline_ns, channel_now_ns(), &deadline_ns)))
      deadline_ns = CHANNEL_WAIT_FOR_EVER;
    while (result == CHANNEL_TIMEOUT &&
           channel_wait(&self->end, at->shared_sent, &at->arrival, at->seen, deadline_ns))
      result = look_at_arrived(self, at);
  }
  if (result == CHANNEL_MESSAGE)
    take(at, message);
  return result;
}

void channel_look(channel *self, channel_ring number, bool may_look)
{
  atomic_store_explicit(&self->rings[number].arrival.never_look, !may_look, memory_order_relaxed);
}

void channel_look_for(channel *self, channel_ring number, int64_t most_us)
{
  channel_waits *arrival = &self->rings[number].arrival;
  atomic_store_explicit(&arrival->look_ns, most_us * 1000, memory_order_relaxed);
  atomic_store_explicit(&arrival->ewma_ns, 2 * most_us * 1000, memory_order_relaxed);
}

void channel_done(channel *self, channel_ring number)
{
  ring *at = &self->rings[number];
  if (at->sender || is_child(self) || at->done == at->taken)
    return;
  assert(at->done < at->taken);
  at->done++;
  if (channel_position_move(at->shared_done, at->done - 1, at->done))
    channel_position_wake(at->shared_done);
}

// ---- memory ----

bool channel_allocate(channel *self, size_t size, uint64_t *offset)
{
  return !is_child(self) && channel_memory_allocate(self->memory, size, offset);
}

void channel_limit(channel *self, size_t most)
{
  channel_memory_limit(self->memory, most);
}

// The block's next user must be ordered after the threads that wrote it and sent its message. The
// peer's answer orders them, but ThreadSanitizer does not see another process.
static void come_after_senders(const channel *self)
{
  for (channel_ring number = 0; number < CHANNEL_RING_COUNT; number++)
    (void)atomic_load_explicit(&self->rings[number].sent, memory_order_acquire);
}

bool channel_release(channel *self, uint64_t offset)
{
  if (is_child(self))
    return false;
  come_after_senders(self);
  return channel_memory_release(self->memory, offset);
}

void *channel_own(const channel *self, uint64_t offset)
{
  return self->own + offset;
}

bool channel_is_own(const channel *self, const void *address, uint64_t *offset)
{
  const uintptr_t at = (uintptr_t)address, region = (uintptr_t)self->own;
  if (at < region || at - region >= self->region_size)
    return false;
  *offset = at - region;
  return true;
}

const void *channel_other(const channel *self, uint64_t offset, uint64_t size)
{
  if (offset > self->region_size || size > self->region_size - offset)
    return NULL;
  return self->other + offset;
}

size_t channel_trim(channel *self, size_t keep)
{
  return is_child(self) ? 0 : channel_memory_trim(self->memory, keep);
}

void channel_memory(const channel *self, size_t *used, size_t *kept)
{
  *used = *kept = 0;
  if (!is_child(self))
    channel_memory_count(self->memory, used, kept);
}
