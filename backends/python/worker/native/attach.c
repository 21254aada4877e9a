// SPDX-License-Identifier: Apache-2.0
// Receives the channel's descriptor, and runs the thread that watches the host.
#include "attach.h"

#include "channel/channel_descriptor.h"
#include "device_region.h"
#include "writable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

// Handles a message about devices, if there is one. False: the host's end is closed.
static bool hear(int socket)
{
  protocol_device said;
  int descriptor;
  ssize_t count =
      channel_receive_with_descriptor(socket, &said, sizeof(said), &descriptor, MSG_DONTWAIT);
  if (count <= 0)
    return count < 0 && errno == EAGAIN;
  if (count == sizeof(said)) // a message is sent in one piece
    device_hear(&said, descriptor);
  else if (descriptor >= 0)
    close(descriptor);
  return true;
}

// Ends this process and its process group when the host's end of the socket pair closes. Does not
// wait for Python, which may be deep in a model's code.
static void *watch(void *argument)
{
  struct pollfd socket = {.fd = (int)(intptr_t)argument, .events = POLLIN};
  for (;;) {
    if (poll(&socket, 1, -1) < 0 || hear(socket.fd))
      continue;
    if (getpgrp() == getpid())
      kill(0, SIGKILL);
    _exit(1);
  }
  return NULL;
}

static int connection;

static const int FOR_THE_SERVER[] = {SIGINT, SIGTERM};

static void do_nothing(int number)
{
  (void)number;
}

static void set_handler(int number, void (*handler)(int))
{
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, NULL);
}

// A service manager that sends these signals to all processes wants the server to end; the server
// then ends its workers after their answers. Handlers are used instead of ignoring the signals,
// because programs that the model starts would inherit ignored signals.
static void leave_signals_to_server(void)
{
  for (size_t i = 0; i < sizeof(FOR_THE_SERVER) / sizeof(*FOR_THE_SERVER); i++)
    set_handler(FOR_THE_SERVER[i], do_nothing);
}

// In a child that the model forks the signals work as usual. The child closes the connection, so
// that the host notices when the worker itself lets go of it.
static void become_child(void)
{
  struct sigaction action;
  for (size_t i = 0; i < sizeof(FOR_THE_SERVER) / sizeof(*FOR_THE_SERVER); i++)
    if (sigaction(FOR_THE_SERVER[i], NULL, &action) == 0 && action.sa_handler == do_nothing)
      set_handler(FOR_THE_SERVER[i], SIG_DFL);
  close(connection);
}

static int start_watching(int socket)
{
  sigset_t blocked, before;
  sigfillset(&blocked);
  sigdelset(&blocked, SIGSEGV); // faults of this thread must reach their handlers
  sigdelset(&blocked, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &blocked, &before); // the other signals are for Python's threads
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  int failed = pthread_create(&thread, &small, watch, (void *)(intptr_t)socket);
  pthread_attr_destroy(&small);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    pthread_setname_np(thread, "host-watch");
  return failed;
}

const char *attach_to_host(int socket)
{
  int memory = channel_receive_descriptor(socket);
  if (memory < 0)
    return "receiving the channel from the server";
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  connection = socket;
  leave_signals_to_server();
  device_keep_visible();
  pthread_atfork(NULL, NULL, become_child);
  int failed = channel_attach(memory, &native_channel);
  if (failed == 0)
    writable_attach(memory);
  close(memory);
  if (failed != 0) {
    errno = failed;
    return "attaching to the server's channel";
  }
  failed = start_watching(socket);
  if (failed != 0) {
    errno = failed;
    return "starting the thread that watches the server";
  }
  return NULL;
}
