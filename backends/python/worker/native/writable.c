// SPDX-License-Identifier: Apache-2.0
// The private mapping, and which of its pages were written to.
#include "writable.h"

#include "native.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  COPIES_AFTER_WRITING = 64, // a page that is written to costs more than a copy of it
  STEP = 4 << 20,            // by so much more becomes writable at a time
  ENTRIES = 512,             // of the page table that are looked at together
  ENTRY_IS_SHARED = 61       // bits of an entry: 62 and 63 say that there is a page
};

static uint8_t *map; // NULL: there is none, or this is a child process
static size_t map_size;
static size_t writable_end; // as much of it, from its beginning, may be written to
static size_t page;
static unsigned copies;     // so many tensors are not given, as the model may write to them
static int page_table = -1; // /proc/self/pagemap; -1: it cannot be read

// A child has the pages as they are, and never more of the host's.
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

// What is writable counts as private memory, so it is no more than tensors have needed.
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

// Whether one of the pages has become this process's own; also when that cannot be told.
static bool is_written(const uint8_t *taken, size_t count)
{
  uint64_t entries[ENTRIES];
  off_t at = (off_t)((uintptr_t)taken / page * sizeof *entries);
  while (count > 0) {
    size_t some = count < ENTRIES ? count : ENTRIES, bytes = some * sizeof *entries;
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
  // Old contents would be seen in place of the next tensor's.
  if (madvise(taken, count * page, MADV_DONTNEED) != 0) {
    perror("cannot forget what a model has written to an input");
    abort();
  }
}
