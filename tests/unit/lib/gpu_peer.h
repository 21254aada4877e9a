// SPDX-License-Identifier: Apache-2.0
// A process beside the test's (gpu_share_test.c) or the probe's (bench/gpu_probe.c): the same
// program again, with messages and descriptors over a socket that is its standard input.
#ifndef NEREID_TESTS_GPU_PEER_H
#define NEREID_TESTS_GPU_PEER_H

#include "channel_descriptor.h"

#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct peer {
  pid_t pid;
  int socket;
} peer;

static inline bool send_message(int to, const void *data, size_t size, int fd)
{
  return channel_send_with_descriptor(to, data, size, fd, 0) == 0;
}

// False: the other side has gone. *fd -1: none came; NULL: not wanted.
static inline bool receive_message(int from, void *data, size_t size, int *fd)
{
  int unwanted;
  return channel_receive_with_descriptor(from, data, size, fd != NULL ? fd : &unwanted, 0) ==
         (ssize_t)size;
}

static inline bool peer_start(peer *p, char *const *command)
{
  int pair[2];
  posix_spawn_file_actions_t actions;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    return false;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], STDIN_FILENO);
  bool started = posix_spawn(&p->pid, command[0], &actions, NULL, command, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (!started)
    close(pair[0]);
  p->socket = pair[0];
  return started;
}

// Lets it see the end of its messages. Whether it ended well.
static inline bool peer_end(peer *p)
{
  int status;
  shutdown(p->socket, SHUT_RDWR);
  close(p->socket);
  return waitpid(p->pid, &status, 0) == p->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif
