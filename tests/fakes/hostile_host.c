// SPDX-License-Identifier: Apache-2.0
// A model's own process that lies, for tests/e2e/backends/test_isolated.py: it loads nothing and
// says that all went well; to a batch it answers in the way of the number in HOSTILE. Each way is a
// row of `lies`.
#include "channel_descriptor.h"
#include "channel_layout.h"
#include "isolated/isolated_protocol.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static channel *model;
static channel *ring; // the instance's
static int ring_memory;
static uint64_t number; // of the first request of the batch

static channel *receive_channel(int *descriptor)
{
  channel *received;
  *descriptor = channel_receive_descriptor(3);
  if (*descriptor < 0 || channel_attach(*descriptor, &received) != 0)
    exit(1);
  return received;
}

static _Thread_local uint8_t bytes[4096];
static _Thread_local wire_writer writer;

static void begin(void)
{
  writer = (wire_writer){.to = bytes, .room = sizeof bytes};
}

static void put_text(const char *text)
{
  wire_put_text(&writer, text, strlen(text) + 1);
}

static void say(channel *to, channel_ring where, channel_message message)
{
  if (writer.size > 0 && !channel_allocate(model, writer.size, &message.offset))
    exit(1);
  if (writer.size > 0)
    memcpy(channel_own(model, message.offset), bytes, writer.size);
  message.size = writer.size;
  channel_send(to, where, &message);
}

// ---- what it says of a batch

static void put_response(uint32_t flags, uint32_t outputs)
{
  wire_put_u8(&writer, EVENT_RESPONSE);
  wire_put_u64(&writer, number);
  wire_put_u32(&writer, flags);
  wire_put_u32(&writer, 0);
  put_text("");
  wire_put_u32(&writer, 0);
  wire_put_u32(&writer, outputs);
}

static void put_output(const char *name, uint32_t rank, uint64_t offset, uint64_t size)
{
  put_text(name);
  wire_put_u32(&writer, TRITONSERVER_TYPE_FP32);
  wire_put_u32(&writer, rank);
  for (uint32_t i = 0; i < rank && i < 4; i++)
    wire_put_i64(&writer, -1 - (int64_t)i);
  wire_put_u64(&writer, offset);
  wire_put_u64(&writer, size);
}

static void put_release(void)
{
  wire_put_u8(&writer, EVENT_RELEASE);
  wire_put_u64(&writer, number);
  wire_put_u32(&writer, UINT32_MAX);
}

static void noise(void)
{
  for (size_t i = 0; i < 512; i++)
    wire_put_u8(&writer, (uint8_t)(i * 37 + 11));
}

static void outside(void)
{
  put_response(1, 1);
  put_output("OUTPUT0", 2, UINT64_MAX - 8, 64);
  put_release();
}

static void endless(void)
{
  put_response(1, UINT32_MAX);
  put_output("OUTPUT0", UINT32_MAX, 0, 4);
}

static void no_end_of_text(void)
{
  put_response(1, 1);
  wire_put_text(&writer, "OUTPUT0", 7);
}

static void twice(void)
{
  for (int i = 0; i < 2; i++) {
    put_response(1, 0);
    put_release();
  }
}

static void release_first(void)
{
  put_release();
  wire_put_u8(&writer, EVENT_STATISTICS);
  wire_put_u64(&writer, number);
  wire_put_u8(&writer, 1);
  for (int i = 0; i < 4; i++)
    wire_put_u64(&writer, UINT64_MAX - (uint64_t)i);
  put_response(1, 0);
}

static void foreign_instance(void)
{
  wire_put_u8(&writer, EVENT_BATCH);
  wire_put_u32(&writer, UINT32_MAX);
  for (int i = 0; i < 5; i++)
    wire_put_u64(&writer, UINT64_MAX);
}

static void unknown_numbers(void)
{
  const uint64_t known = number;
  number ^= UINT64_C(1) << 63 | 1;
  twice();
  number = known;
  twice();
}

static void wrong_kinds(void)
{
  wire_put_u8(&writer, EVENT_RESPONSE);
  wire_put_u64(&writer, number);
  wire_put_u32(&writer, 1);
  wire_put_u32(&writer, UINT32_MAX); // an error's code
  put_text("%s%n");
  wire_put_u32(&writer, 1);
  put_text("parameter");
  wire_put_u8(&writer, 200);
  wire_put_u64(&writer, 1);
  wire_put_u32(&writer, 1);
  put_output("OUTPUT0", 0, 0, 0);
  put_release();
}

// Positions that cannot be; who waits is woken.
static void broken_ring(void)
{
  channel_header *header =
      mmap(NULL, CHANNEL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring_memory, 0);
  if (header == MAP_FAILED)
    exit(1);
  atomic_store(&header->rings[CHANNEL_ANSWERS].sent.value, UINT64_MAX / 2);
  channel_position_wake(&header->rings[CHANNEL_ANSWERS].sent);
  for (;;)
    pause();
}

static void call_and_answer(void)
{
  twice();
  say(model, CHANNEL_CALLS, (channel_message){.kind = ISOLATED_EVENTS});
}

static void ends(void)
{
  abort();
}

static void (*const lies[])(void) = {noise,       outside,       endless,          no_end_of_text,
                                     twice,       release_first, foreign_instance, unknown_numbers,
                                     wrong_kinds, broken_ring,   call_and_answer,  ends};

static void *execute(void *unused)
{
  channel_message work;
  (void)unused;
  const char *text = getenv("HOSTILE");
  size_t way = text == NULL ? 0 : strtoul(text, NULL, 10) % (sizeof lies / sizeof *lies);
  while (channel_receive(ring, CHANNEL_WORK, -1, &work) == CHANNEL_MESSAGE) {
    const uint8_t *control = channel_other(model, work.offset, work.size);
    memcpy(&number, control + sizeof(uint32_t), sizeof number);
    begin();
    lies[way]();
    say(ring, CHANNEL_ANSWERS, (channel_message){.kind = work.kind, .id = work.id, .value = 1});
    channel_done(ring, CHANNEL_WORK);
  }
  return NULL;
}

// ---- what it says of itself

static void answer_load(const channel_message *work)
{
  const uint8_t *control = channel_other(model, work->offset, work->size);
  wire_reader reader = {.at = control, .end = control + work->size};
  size_t length;
  wire_get_text(&reader, &length);
  const char *config = wire_get_text(&reader, &length);
  wire_put_u32(&writer, (uint32_t)length + 1);
  wire_put_u8(&writer, '0');
  for (size_t i = 0; i < length; i++)
    wire_put_u8(&writer, (uint8_t)config[i]);
}

int main(void)
{
  channel_message work;
  pthread_t thread;
  int unused;
  model = receive_channel(&unused);
  while (channel_receive(model, CHANNEL_WORK, -1, &work) == CHANNEL_MESSAGE) {
    begin();
    wire_put_u32(&writer, 0);
    put_text("");
    if (work.kind == ISOLATED_LOAD)
      answer_load(&work);
    if (work.kind == ISOLATED_ATTACH) {
      ring = receive_channel(&ring_memory);
      pthread_create(&thread, NULL, execute, NULL);
    }
    say(model, CHANNEL_ANSWERS, (channel_message){.kind = work.kind, .id = work.id, .value = 1});
    channel_done(model, CHANNEL_WORK);
    if (work.kind == ISOLATED_FINALIZE)
      _exit(0);
  }
  return 0;
}
