// SPDX-License-Identifier: Apache-2.0
// The SIGBUS handler and its list of ranges. The handler may interrupt any thread anywhere, so it
// only reads atomics and makes one system call. Entries are reused and never freed, so that it can
// walk the list at any time.
#include "frontend/common/tensor/memory_guard.h"

#include "base/cleanup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct guarded_range {
  _Atomic uintptr_t begin; // 0: free
  _Atomic uintptr_t end;
  _Atomic bool broken;
  guarded_range *next; // constant once the entry is in the list
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // taken by threads that change the list
static _Atomic(guarded_range *) ranges;
static struct sigaction before; // set once, before the first range is in the list
static uintptr_t page_size;
static int install_failure; // errno

// Another thread may reuse an entry meanwhile, but not the one that the interrupted thread is in.
// `begin` is read again to detect that `end` belongs to a later range.
static guarded_range *find(uintptr_t address, uintptr_t *end)
{
  for (guarded_range *r = atomic_load(&ranges); r != NULL; r = r->next) {
    uintptr_t begin = atomic_load(&r->begin);
    *end = atomic_load(&r->end);
    if (begin != 0 && begin <= address && address < *end && atomic_load(&r->begin) == begin)
      return r;
  }
  return NULL;
}

// Replaces all pages from here to the range's end: a file that ends before this page ends before
// them too.
static bool replace_pages(uintptr_t address)
{
  uintptr_t end;
  guarded_range *r = find(address, &end);
  if (r == NULL)
    return false;
  atomic_store(&r->broken, true);
  uintptr_t page = address - address % page_size;
  // The system call, because sanitizers intercept mmap().
  long mapped = syscall(SYS_mmap, page, end - page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return mapped == (long)page;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    signal(number, SIG_DFL);
    raise(number); // takes effect when this handler returns
  }
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
  int kept = errno;
  bool from_kernel = info->si_code > 0;
  if (!from_kernel || !replace_pages((uintptr_t)info->si_addr))
    pass_on(number, info, context);
  errno = kept;
}

static void install(void)
{
  struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (sigaction(SIGBUS, NULL, &before) != 0 || sigaction(SIGBUS, &action, NULL) != 0)
    install_failure = errno;
}

// An unused entry, in the list; NULL when memory is short. `lock` is held.
static guarded_range *take_entry(void)
{
  for (guarded_range *r = atomic_load(&ranges); r != NULL; r = r->next)
    if (atomic_load(&r->begin) == 0)
      return r;
  guarded_range *r = calloc(1, sizeof(*r));
  if (r == NULL)
    return NULL;
  r->next = atomic_load(&ranges);
  atomic_store(&ranges, r);
  return r;
}

error *memory_guard_watch(void *begin, size_t size, guarded_range **range)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  if (install_failure != 0)
    return error_new(ERROR_INTERNAL, "failed to handle SIGBUS: %s", strerror(install_failure));
  LOCK_SCOPE(&lock);
  guarded_range *r = take_entry();
  if (r == NULL)
    return error_no_memory();
  atomic_store(&r->broken, false);
  atomic_store(&r->end, (uintptr_t)begin + size);
  atomic_store(&r->begin, (uintptr_t)begin);
  *range = r;
  return NULL;
}

bool guarded_range_is_broken(const guarded_range *range)
{
  return atomic_load(&range->broken);
}

void memory_guard_forget(guarded_range *range)
{
  if (range == NULL)
    return;
  LOCK_SCOPE(&lock);
  atomic_store(&range->begin, 0);
}
