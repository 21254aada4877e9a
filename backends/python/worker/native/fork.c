// SPDX-License-Identifier: Apache-2.0
// Handlers around fork(), and the pieces of memory that a child gets copies of.
#include "fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all below; held while forking
static fork_piece pieces = {.next = &pieces, .previous = &pieces};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int copied[2] = {-1, -1}; // a pipe that the child closes when it has its copies

// Replaces the piece's pages by private copies. Parts of other pieces in the same pages become
// private, too, with their current contents.
static void make_private(const fork_piece *piece, size_t page)
{
  uintptr_t start = (uintptr_t)piece->address & ~(page - 1);
  uintptr_t end = ((uintptr_t)piece->address + piece->size + page - 1) & ~(page - 1);
  void *copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return;
  memcpy(copy, (void *)start, end - start);
  if (mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
      MAP_FAILED)
    munmap(copy, end - start);
}

static void before_fork(void)
{
  pthread_mutex_lock(&lock);
  if (pieces.next != &pieces && pipe2(copied, O_CLOEXEC) != 0)
    copied[0] = copied[1] = -1;
}

static void in_parent(void)
{
  if (copied[0] >= 0) {
    char byte;
    close(copied[1]);
    // Ends when the child has closed its descriptor: it has its copies, or is gone.
    while (read(copied[0], &byte, 1) > 0) {
    }
    close(copied[0]);
    copied[0] = copied[1] = -1;
  }
  pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (fork_piece *piece = pieces.next; piece != &pieces; piece = piece->next)
    make_private(piece, page);
  if (copied[0] >= 0) {
    close(copied[0]);
    close(copied[1]);
    copied[0] = copied[1] = -1;
  }
  pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
  pthread_atfork(before_fork, in_parent, in_child);
}

void fork_track(fork_piece *piece, void *address, size_t size)
{
  pthread_once(&once, prepare);
  pthread_mutex_lock(&lock);
  *piece = (fork_piece){.next = pieces.next, .previous = &pieces, .address = address, .size = size};
  pieces.next->previous = piece;
  pieces.next = piece;
  pthread_mutex_unlock(&lock);
}

void fork_untrack(fork_piece *piece)
{
  pthread_mutex_lock(&lock);
  piece->previous->next = piece->next;
  piece->next->previous = piece->previous;
  pthread_mutex_unlock(&lock);
}
