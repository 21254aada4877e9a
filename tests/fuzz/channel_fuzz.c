// SPDX-License-Identifier: Apache-2.0
// A host's side of a channel against a peer whose every step is the input's: words of the shared
// header, slots and bytes of the region are written between what the host does. Nothing waits.
#include "channel.h"
#include "channel_layout.h"
#include "fuzz.h"
#include "wire.h"

#include <sys/mman.h>

enum {
  REGION = 16 * 4096,
  MAX_STEPS = 4000
};

typedef struct host {
  channel *self;
  channel_header *shared;
  channel_slot *slots;
  uint8_t *map;
  size_t map_size;
  uint64_t pending[CHANNEL_RING_COUNT];  // received and not done
  uint64_t finished[CHANNEL_RING_COUNT]; // when last looked at
} host;

static uint64_t take_number(fuzz_input *input)
{
  uint64_t value = 0;
  const slice bytes = fuzz_take(input, (fuzz_byte(input) & 3) == 0 ? 8 : 1);
  if (bytes.size > 0)
    memcpy(&value, bytes.data, bytes.size);
  return value;
}

// What the peer may do: anything.
static void write_shared(host *at, fuzz_input *input)
{
  const uint8_t what = fuzz_byte(input), ring = what % CHANNEL_RING_COUNT;
  const uint64_t number = take_number(input);
  channel_position *sent = &at->shared->rings[ring].sent, *done = &at->shared->rings[ring].done;
  switch (what / CHANNEL_RING_COUNT % 7) {
  case 0:
    atomic_store(&sent->value, number);
    break;
  case 1:
    atomic_fetch_add(&sent->value, 1);
    break;
  case 2:
    atomic_store(&done->value, number);
    break;
  case 3:
    atomic_fetch_add(&done->value, 1);
    break;
  case 4:
    atomic_store(&sent->asleep, number);
    atomic_store(&done->asleep, number);
    break;
  case 5:
    atomic_store(&at->slots[number % (CHANNEL_RING_SLOTS * CHANNEL_RING_COUNT)]
                      .words[what % CHANNEL_SLOT_WORDS],
                 take_number(input));
    break;
  default:
    at->map[number % at->map_size] = fuzz_byte(input);
  }
}

static void read_values(const uint8_t *bytes, uint64_t size)
{
  wire_reader reader = {.at = bytes, .end = bytes + size};
  while (!reader.bad) {
    size_t length;
    const uint32_t count = wire_get_count(&reader, 5);
    CHECK(count <= size / 5);
    const char *text = wire_get_text(&reader, &length);
    CHECK(text == NULL ? length == 0 : length <= (size_t)((const char *)reader.end - text));
    wire_get_u8(&reader);
    CHECK(reader.at >= bytes && reader.at <= reader.end);
  }
}

static void receive(host *at, channel_ring ring)
{
  channel_message message;
  const channel_result result = channel_receive(at->self, ring, 0, &message);
  if (result != CHANNEL_MESSAGE)
    return;
  CHECK(ring == CHANNEL_ANSWERS || ring == CHANNEL_CALLS);
  CHECK(++at->pending[ring] <= CHANNEL_RING_SLOTS);
  channel_release(at->self, message.value);
  const uint8_t *bytes = channel_other(at->self, message.offset, message.size);
  if (bytes == NULL)
    return;
  CHECK(message.offset <= REGION && message.size <= REGION - message.offset);
  uint8_t *copy = malloc(message.size + 1); // the sanitizer sees its end
  CHECK(copy != NULL);
  memcpy(copy, bytes, message.size);
  read_values(copy, message.size);
  free(copy);
}

static void send(host *at, channel_ring ring, uint64_t number)
{
  const channel_message message = {.id = number};
  const uint64_t sent = channel_sent(at->self, ring);
  const bool done = channel_try_send(at->self, ring, &message);
  CHECK(channel_sent(at->self, ring) == sent + done);
  const uint64_t finished = channel_finished(at->self, ring);
  CHECK(finished >= at->finished[ring] && finished <= sent + done);
  CHECK(sent + done - finished <= CHANNEL_RING_SLOTS);
  at->finished[ring] = finished;
}

static void use_memory(host *at, fuzz_input *input)
{
  uint64_t offset;
  size_t used, kept;
  const uint8_t what = fuzz_byte(input);
  const uint64_t number = take_number(input);
  if (what % 4 == 0)
    channel_trim(at->self, number);
  else if (what % 4 == 1)
    channel_release(at->self, number * CHANNEL_ALIGNMENT);
  else if (channel_allocate(at->self, number * what, &offset))
    CHECK(number * what <= REGION && offset <= REGION - number * what);
  channel_memory(at->self, &used, &kept);
  CHECK(used <= REGION && kept <= REGION);
}

static void step(host *at, fuzz_input *input)
{
  const uint8_t what = fuzz_byte(input);
  const channel_ring ring = what / 8 % CHANNEL_RING_COUNT;
  switch (what % 8) {
  case 0:
    send(at, ring, what);
    break;
  case 1:
  case 2:
    receive(at, ring);
    break;
  case 3:
    channel_done(at->self, ring);
    at->pending[ring] -= at->pending[ring] > 0;
    break;
  case 4:
    use_memory(at, input);
    break;
  case 5:
    if (what == 255) {
      channel_close(at->self);
      break;
    }
    write_shared(at, input);
    break;
  default:
    write_shared(at, input);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  host at = {.self = NULL};
  read_values(data, size);
  CHECK(channel_new(REGION, &at.self) == 0);
  at.map_size = CHANNEL_HEADER_BYTES +
                sizeof(channel_slot) * CHANNEL_RING_SLOTS * CHANNEL_RING_COUNT + 2 * REGION;
  at.map =
      mmap(NULL, at.map_size, PROT_READ | PROT_WRITE, MAP_SHARED, channel_descriptor(at.self), 0);
  CHECK(at.map != MAP_FAILED);
  at.shared = (channel_header *)at.map;
  at.slots = (channel_slot *)(at.map + CHANNEL_HEADER_BYTES);
  for (int steps = 0; input.size > 0 && steps < MAX_STEPS; steps++)
    step(&at, &input);
  channel_close(at.self);
  munmap(at.map, at.map_size);
  channel_free(at.self);
  return 0;
}
