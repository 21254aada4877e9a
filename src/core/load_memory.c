// SPDX-License-Identifier: Apache-2.0
// Divides the heap's growth. Called by load threads, and by threads that destroy models.
#include "core/load_memory.h"

#include "base/cleanup.h"

#include <assert.h>
#include <malloc.h>
#include <stddef.h>

// Sanitizers have their own allocator, which malloc's statistics do not count.
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static int64_t heap_in_use(void)
{
  if (__sanitizer_get_current_allocated_bytes != NULL)
    return (int64_t)__sanitizer_get_current_allocated_bytes();
  struct mallinfo2 info = mallinfo2();
  return (int64_t)(info.uordblks + info.hblkhd);
}

load_memory *load_memory_process(void)
{
  static load_memory process = {
      .lock = PTHREAD_MUTEX_INITIALIZER,
      .running = {{&process.running.ends, &process.running.ends}},
      .heap = heap_in_use,
  };
  return &process;
}

void load_memory_init(load_memory *account, int64_t (*heap)(void))
{
  *account = (load_memory){.lock = PTHREAD_MUTEX_INITIALIZER, .heap = heap};
  list_init(&account->running);
}

static uint64_t weight_of(const load_share *load)
{
  return load->file_bytes / 1024 + 1;
}

// The lock is held.
static void look(load_memory *account)
{
  int64_t now = account->heap();
  double growth = (double)(now - account->last);
  account->last = now;
  list_foreach (load_share, load, node, &account->running)
    load->bytes += growth * (double)weight_of(load) / (double)account->weights;
}

void load_memory_begin(load_memory *account, load_share *load, uint64_t file_bytes)
{
  LOCK_SCOPE(&account->lock);
  look(account);
  *load = (load_share){.file_bytes = file_bytes};
  list_append(&account->running, &load->node);
  account->weights += weight_of(load);
}

uint64_t load_memory_end(load_memory *account, load_share *load)
{
  LOCK_SCOPE(&account->lock);
  look(account);
  list_remove(&load->node);
  account->weights -= weight_of(load);
  if (account->frees > 0 && load->bytes < (double)load->file_bytes)
    return load->file_bytes;
  return load->bytes > 0 ? (uint64_t)load->bytes : 0;
}

void load_memory_begin_free(load_memory *account)
{
  LOCK_SCOPE(&account->lock);
  account->frees++;
}

void load_memory_end_free(load_memory *account, uint64_t bytes)
{
  LOCK_SCOPE(&account->lock);
  assert(account->frees > 0);
  account->frees--;
  account->last -= (int64_t)bytes;
}
