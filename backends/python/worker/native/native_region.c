// SPDX-License-Identifier: Apache-2.0
// The open loans of each ring.
#include "native_region.h"

#include "block.h"

#include <stdlib.h>

// The loans of one ring, oldest first: a ring buffer that grows.
typedef struct loan_queue {
  struct lent {
    region_loan loan;
    uint64_t count; // the loan ends when so many messages are finished
  } * lent;
  size_t first;
  size_t length;
  size_t room; // a power of two
} loan_queue;

static loan_queue queues[CHANNEL_RING_COUNT];

static bool queue_reserve(loan_queue *queue)
{
  if (queue->length < queue->room)
    return true;
  size_t room = queue->room == 0 ? 64 : queue->room * 2;
  struct lent *grown = calloc(room, sizeof(*grown));
  if (grown == NULL)
    return false;
  for (size_t i = 0; i < queue->length; i++)
    grown[i] = queue->lent[(queue->first + i) & (queue->room - 1)];
  free(queue->lent);
  *queue = (loan_queue){.lent = grown, .length = queue->length, .room = room};
  return true;
}

void region_end_loan(region_loan loan)
{
  if (loan.offset != UINT64_MAX)
    channel_release(native_channel, loan.offset);
  Py_XDECREF(loan.keeps);
}

static void reclaim(channel_ring ring)
{
  loan_queue *queue = &queues[ring];
  if (queue->length == 0)
    return;
  uint64_t finished = channel_finished(native_channel, ring);
  // Freeing an array may run any code and re-enter here, so the entry is removed first.
  while (queue->length > 0 && queue->lent[queue->first].count <= finished) {
    region_loan loan = queue->lent[queue->first].loan;
    queue->first = (queue->first + 1) & (queue->room - 1);
    queue->length--;
    region_end_loan(loan);
  }
}

void region_reclaim(void)
{
  block_flush();
  reclaim(CHANNEL_ANSWERS);
  reclaim(CHANNEL_CALLS);
}

bool region_has_loans(void)
{
  return queues[CHANNEL_ANSWERS].length > 0 || queues[CHANNEL_CALLS].length > 0;
}

bool region_allocate(size_t size, uint64_t *offset)
{
  region_reclaim();
  if (channel_allocate(native_channel, size, offset))
    return true;
  PyErr_Format(PyExc_MemoryError, "no room for %zu bytes in the memory shared with the server",
               size);
  return false;
}

bool region_send_plain(channel_ring ring, const channel_message *message)
{
  if (channel_try_send(native_channel, ring, message))
    return true;
  bool is_sent;
  Py_BEGIN_ALLOW_THREADS is_sent = channel_send(native_channel, ring, message);
  Py_END_ALLOW_THREADS if (!is_sent)
      PyErr_SetString(PyExc_ConnectionError, "the channel to the server is closed");
  return is_sent;
}

bool region_send(channel_ring ring, const channel_message *message, region_loan loan,
                 uint64_t *count)
{
  if (!region_send_plain(ring, message)) {
    region_end_loan(loan);
    return false;
  }
  // While the GIL was released other threads may have sent too: then the loan ends a little late.
  *count = channel_sent(native_channel, ring);
  loan_queue *queue = &queues[ring];
  if (!queue_reserve(queue)) {
    region_await(ring, *count);
    region_end_loan(loan);
    return true;
  }
  queue->lent[(queue->first + queue->length++) & (queue->room - 1)] =
      (struct lent){.loan = loan, .count = *count};
  return true;
}

void region_await(channel_ring ring, uint64_t count)
{
  Py_BEGIN_ALLOW_THREADS channel_await_finished(native_channel, ring, count);
  Py_END_ALLOW_THREADS
}
