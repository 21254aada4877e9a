// By system calls: libnuma is not needed for that.
#include "process/placement.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void worker_placement_get(worker_placement *placement)
{
  worker_placement now = {.mode = MPOL_DEFAULT}, memory = {0};
  // A container may not be allowed to ask; then nobody there has set another one.
  if (syscall(SYS_get_mempolicy, &memory.mode, memory.nodes, MAX_PLACEMENT_NODES, NULL, 0) == 0)
    now = memory;
  now.known = sched_getaffinity(0, sizeof now.cores, &now.cores) == 0;
  *placement = now;
}

static bool same_memory(const worker_placement *a, const worker_placement *b)
{
  return a->mode == b->mode && memcmp(a->nodes, b->nodes, sizeof a->nodes) == 0;
}

bool worker_placement_equal(const worker_placement *a, const worker_placement *b)
{
  return !a->known || !b->known || (CPU_EQUAL(&a->cores, &b->cores) && same_memory(a, b));
}

static int set_memory(const worker_placement *placement)
{
  bool usual = placement->mode == MPOL_DEFAULT;
  return (int)syscall(SYS_set_mempolicy, placement->mode, usual ? NULL : placement->nodes,
                      usual ? 0 : MAX_PLACEMENT_NODES);
}

int worker_placement_enter(const worker_placement *placement)
{
  worker_placement now;
  worker_placement_get(&now);
  if (worker_placement_equal(placement, &now))
    return 0;
  if (!CPU_EQUAL(&placement->cores, &now.cores) &&
      sched_setaffinity(0, sizeof placement->cores, &placement->cores) != 0)
    return errno;
  return same_memory(placement, &now) || set_memory(placement) == 0 ? 0 : errno;
}
