// SPDX-License-Identifier: Apache-2.0
// Reads and applies placements. Memory policies are set by system calls, which need no libnuma.
#include "core/host_placement.h"

#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- reading

// As Triton reads: leading blanks, and anything after the number, are ignored.
static bool read_integer(const char *text, int *value)
{
  int64_t number;
  const char *rest;
  if (!text_begins_int64(text, &number, &rest) || number < INT32_MIN || number > INT32_MAX)
    return false;
  *value = (int)number;
  return true;
}

static error *cannot_parse(const char *setting, const char *text, size_t size)
{
  return error_new(ERROR_INVALID_ARG, "Parsing '%s' value: Can't parse '%.*s' to integer", setting,
                   (int)size, text);
}

// "<lower>-<upper>[,<lower>-<upper>…]". As in Triton, a range ends with the number behind the next
// '-': "0,2-3" is 0 to 3.
static error *read_cores(const char *text, cpu_set_t *cores)
{
  for (const char *at = text; at != NULL;) {
    const char *comma = strchr(at, ','), *dash = strchr(at, '-');
    size_t size = comma != NULL ? (size_t)(comma - at) : strlen(at);
    int lower, upper;
    if (dash == NULL)
      return error_new(ERROR_INVALID_ARG,
                       "host policy setting 'cpu-cores' format is "
                       "'<lower_cpu_core_id>-<upper_cpu_core_id>'. Got %.*s",
                       (int)size, at);
    if (dash == at || !read_integer(at, &lower))
      return cannot_parse("cpu-cores", at, (size_t)(dash - at));
    if (!read_integer(dash + 1, &upper))
      return cannot_parse("cpu-cores", dash + 1, strcspn(dash + 1, ","));
    for (; lower <= upper && lower < CPU_SETSIZE; lower++)
      CPU_SET(lower, cores);
    at = comma != NULL ? comma + 1 : NULL;
  }
  return NULL;
}

error *host_placement_read(const setting_list *settings, const char *name, host_placement *p)
{
  *p = (host_placement){0};
  const char *cores = setting_list_get(settings, name, "cpu-cores");
  const char *node = setting_list_get(settings, name, "numa-node");
  if (cores != NULL)
    RETURN_IF_ERROR(read_cores(cores, &p->cores));
  if (node != NULL && !read_integer(node, &p->node))
    return cannot_parse("numa-node", node, strlen(node));
  p->has_cores = cores != NULL;
  p->has_node = node != NULL;
  return NULL;
}

bool host_placement_equal(const host_placement *a, const host_placement *b)
{
  return a->has_cores == b->has_cores && a->has_node == b->has_node && a->node == b->node &&
         CPU_EQUAL(&a->cores, &b->cores);
}

// ---- entering

static bool bind_memory(int node)
{
  unsigned long nodes[MAX_HOST_NODES / (8 * sizeof(unsigned long))] = {0};
  const int bits = 8 * sizeof(*nodes);
  if (node < 0 || node >= MAX_HOST_NODES) {
    errno = EINVAL;
    return false;
  }
  nodes[node / bits] = 1UL << (node % bits);
  return syscall(SYS_set_mempolicy, MPOL_BIND, nodes, MAX_HOST_NODES) == 0;
}

static bool get_place(const host_placement *p, host_place *before)
{
  return (!p->has_cores || sched_getaffinity(0, sizeof(before->cores), &before->cores) == 0) &&
         (!p->has_node ||
          syscall(SYS_get_mempolicy, &before->mode, before->nodes, MAX_HOST_NODES, NULL, 0) == 0);
}

static error *refused(const char *what, const char *reason)
{
  int number = errno;
  if (number == EPERM)
    reason = " (system calls for this are not allowed here: in a container it takes CAP_SYS_NICE)";
  return error_new(ERROR_INTERNAL, "Unable to set NUMA %s: %s%s", what, strerror(number),
                   number == EPERM || number == EINVAL ? reason : "");
}

error *host_placement_enter(const host_placement *p, host_place *before)
{
  host_place unused;
  before = before == NULL ? &unused : before;
  if (!host_placement_is_set(p))
    return NULL;
  if (!get_place(p, before))
    return refused("policy", "");
  if (p->has_cores && sched_setaffinity(0, sizeof(p->cores), &p->cores) != 0)
    return refused("thread affinity", " (this process may use none of the policy's cpu-cores)");
  if (!p->has_node || bind_memory(p->node))
    return NULL;
  error *e = refused("memory policy", " (this process has no memory on the policy's numa-node)");
  if (p->has_cores)
    sched_setaffinity(0, sizeof(before->cores), &before->cores);
  return e;
}

void host_placement_leave(const host_placement *p, const host_place *before)
{
  if (p->has_cores && sched_setaffinity(0, sizeof(before->cores), &before->cores) != 0)
    log_warning("failed to set a thread's cores back: %s", strerror(errno));
  if (p->has_node &&
      syscall(SYS_set_mempolicy, before->mode, before->mode == MPOL_DEFAULT ? NULL : before->nodes,
              before->mode == MPOL_DEFAULT ? 0 : MAX_HOST_NODES) != 0)
    log_warning("failed to set a thread's memory policy back: %s", strerror(errno));
}

int host_placement_missing_cores(const host_placement *p)
{
  cpu_set_t allowed, both;
  if (!p->has_cores || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return 0;
  CPU_AND(&both, &p->cores, &allowed);
  return CPU_COUNT(&p->cores) - CPU_COUNT(&both);
}
