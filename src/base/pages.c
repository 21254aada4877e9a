// Hints to the kernel. Called for large blocks, right after they are allocated.
#include "base/pages.h"

#include <stdint.h>
#include <sys/mman.h>

#define LARGE_PAGE_BYTES ((size_t)2 << 20)

void pages_prefer_large(void *memory, size_t size)
{
  uintptr_t begin = ((uintptr_t)memory + LARGE_PAGE_BYTES - 1) & ~(LARGE_PAGE_BYTES - 1);
  uintptr_t end = ((uintptr_t)memory + size) & ~(LARGE_PAGE_BYTES - 1);
  if (size >= 2 * LARGE_PAGE_BYTES && end > begin)
    madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}
