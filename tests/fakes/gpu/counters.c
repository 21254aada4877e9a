// SPDX-License-Identifier: Apache-2.0
// The counters: a file beside NEREID_FAKE_GPU's (its name and ".counters"), with one slot for each
// process, which alone writes it. Its first page names the words of a slot, for who reads it.
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS       1024
#define HEADER      16384
#define FILE_BYTES  (HEADER + SLOTS * sizeof(fake_process))
#define FIRST_WORDS "nereid fake gpu 1\n"

static once_flag once = ONCE_FLAG_INIT;
static char *file; // NULL: there is none, or none can be had (a sandbox)
static fake_process *mine, alone;

static void write_header(int fd)
{
  static char text[HEADER];
  int n = snprintf(text, sizeof(text), FIRST_WORDS "%zu\npid\n", sizeof(fake_process) / 8);
  for (int i = 0; i < FAKE_DEVICES; i++)
    n += snprintf(text + n, sizeof(text) - (size_t)n, "used.%d\n", i);
  for (int i = 0; i < FAKE_DEVICES; i++)
    n += snprintf(text + n, sizeof(text) - (size_t)n, "contexts.%d\n", i);
#define NAME(name) n += snprintf(text + n, sizeof(text) - (size_t)n, #name "\n");
  FAKE_COUNTERS(NAME)
#undef NAME
#define NAME(name, arguments) n += snprintf(text + n, sizeof(text) - (size_t)n, #name "\n");
  CUDA_FUNCTIONS(NAME, NAME)
  NVML_FUNCTIONS(NAME, NAME)
#undef NAME
  if (pwrite(fd, text, sizeof(text), 0) != sizeof(text))
    abort();
}

static void open_file(const char *path)
{
  char name[4096];
  struct stat found;
  snprintf(name, sizeof(name), "%s.counters", path);
  int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return;
  flock(fd, LOCK_EX);
  if (fstat(fd, &found) == 0 && found.st_size < (off_t)FILE_BYTES &&
      ftruncate(fd, (off_t)FILE_BYTES) == 0)
    write_header(fd);
  flock(fd, LOCK_UN);
  void *memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  file = memory == MAP_FAILED ? NULL : memory;
  close(fd);
}

static fake_process *slot(int i)
{
  return (fake_process *)(void *)(file + HEADER) + i;
}

static bool is_alive(uint64_t pid)
{
  return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

// `expected`: 0, or a process that has gone, whose counters are lost then.
static bool take_slot(fake_process *process, uint64_t expected)
{
  if (!__atomic_compare_exchange_n((uint64_t *)&process->pid, &expected, (uint64_t)getpid(), false,
                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return false;
  memset((char *)process + sizeof(process->pid), 0, sizeof(*process) - sizeof(process->pid));
  mine = process;
  return true;
}

static void find_slot(void)
{
  const char *path = fake_path();
  mine = &alone;
  if (path != NULL)
    open_file(path);
  for (int i = 0; file != NULL && i < SLOTS; i++)
    if (take_slot(slot(i), 0))
      return;
  for (int i = 0; file != NULL && i < SLOTS; i++)
    if (!is_alive(slot(i)->pid) && take_slot(slot(i), slot(i)->pid))
      return;
}

fake_process *fake_counters(void)
{
  call_once(&once, find_slot);
  return mine;
}

uint64_t fake_used_by_all(int device)
{
  const fake_process *own = fake_counters();
  uint64_t used = own == &alone ? own->used[device] : 0;
  for (int i = 0; file != NULL && i < SLOTS && slot(i)->pid != 0; i++)
    if (slot(i)->used[device] != 0 && is_alive(slot(i)->pid))
      used += slot(i)->used[device];
  return used;
}
