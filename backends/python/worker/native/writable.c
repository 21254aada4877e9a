// SPDX-License-Identifier: Apache-2.0
// The private mapping, and the check which of its pages were written to.
#include "writable.h"

#include "native.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COPIES_AFTER_WRITING 64        // tensors; a written page costs more than a copy of it
#define STEP                 (4 << 20) // bytes that become writable at a time
#define ENTRIES              512       // of the page table, read at a time
#define ENTRY_IS_SHARED      61        // bit of an entry; bits 62 and 63 say that there is a page

static uint8_t *map; // NULL: none, or this is a child process
static size_t map_size;
static size_t writable_end; // the mapping is writable up to here
static size_t page;
static unsigned copies; // this many further tensors are copied, because the model may write to them
static int page_table = -1; // /proc/self/pagemap; -1: not readable

// A child keeps its current pages and gets no more of the host's.
static void forget_map(void)
{
  map = NULL;
}

void writable_attach(int descriptor)
{
  page = (size_t)sysconf(_SC_PAGESIZE);
  void *mapped;
  if (channel_map_privately(native_channel, descriptor, &mapped, &map_size) != 0)
    return;
  if (pthread_atfork(NULL, NULL, forget_map) != 0) {
    munmap(mapped, map_size);
    return;
  }
  map = mapped;
  page_table = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

// Writable memory counts as private memory, so only as much is made writable as tensors have
// needed.
static bool reserve(size_t end)
{
  if (end <= writable_end)
    return true;
  size_t wanted = map_size - end > STEP ? end + STEP : map_size;
  if (mprotect(map + writable_end, wanted - writable_end, PROT_READ | PROT_WRITE) != 0)
    return false;
  writable_end = wanted;
  return true;
}

void *writable_take(const void *address, size_t size)
{
  const uint8_t *region = channel_other(native_channel, 0, 0);
  if (map == NULL || size < CHANNEL_LARGE || (uintptr_t)address % page != 0)
    return NULL;
  if (copies > 0) {
    copies--;
    return NULL;
  }
  size_t offset = (size_t)((const uint8_t *)address - region);
  size_t end = (offset + size + page - 1) / page * page;
  assert(end <= map_size);
  return reserve(end) ? map + offset : NULL;
}

// Whether one of the pages has become private; true also when that is unknown.
static bool is_written(const uint8_t *taken, size_t count)
{
  uint64_t entries[ENTRIES];
  off_t at = (off_t)((uintptr_t)taken / page * sizeof(*entries));
  while (count > 0) {
    size_t some = count < ENTRIES ? count : ENTRIES, bytes = some * sizeof(*entries);
    if (pread(page_table, entries, bytes, at) != (ssize_t)bytes)
      return true;
    for (size_t i = 0; i < some; i++)
      if (entries[i] >> (ENTRY_IS_SHARED + 1) != 0 && (entries[i] >> ENTRY_IS_SHARED & 1) == 0)
        return true;
    at += (off_t)bytes;
    count -= some;
  }
  return false;
}

void writable_give_back(void *taken, size_t size)
{
  if (map == NULL)
    return;
  size_t count = (size + page - 1) / page;
  if (!is_written(taken, count))
    return;
  copies = COPIES_AFTER_WRITING;
  // The old contents would appear in place of the next tensor's.
  if (madvise(taken, count * page, MADV_DONTNEED) != 0) {
    perror("cannot forget what a model has written to an input");
    abort();
  }
}
