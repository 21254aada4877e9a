// Receives the channel's descriptor; the thread that watches the host.
#include "attach.h"

#include "native.h"
#include "writable.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int receive_descriptor(int socket)
{
  char byte;
  struct iovec bytes = {.iov_base = &byte, .iov_len = 1};
  union {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr aligned;
  } control;
  struct msghdr message = {.msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = control.space,
                           .msg_controllen = sizeof control.space};
  ssize_t count;
  do
    count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count < 0)
    return -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    errno = EPROTO;
    return -1;
  }
  int descriptor;
  memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

// Ends this process, and what it started, once the host's end of the socket pair is gone. Python
// may be deep in a model's code and is not asked.
static void *watch(void *argument)
{
  struct pollfd socket = {.fd = (int)(intptr_t)argument, .events = POLLIN};
  for (;;) {
    char bytes[64];
    if (poll(&socket, 1, -1) < 0)
      continue;
    ssize_t count = recv(socket.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count > 0 || (count < 0 && (errno == EINTR || errno == EAGAIN)))
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

// Who sends these to all processes of a service wants the server to end; it then ends its workers,
// when they have answered. Programs that the model starts have them as usual: that is why there is
// a handler, and why signals are not ignored.
static void leave_signals_to_server(void)
{
  for (size_t i = 0; i < sizeof FOR_THE_SERVER / sizeof *FOR_THE_SERVER; i++)
    set_handler(FOR_THE_SERVER[i], do_nothing);
}

// A child that the model forks can be ended by them, and does not hold the connection: its end
// tells the host that the worker is none any more.
static void become_child(void)
{
  struct sigaction action;
  for (size_t i = 0; i < sizeof FOR_THE_SERVER / sizeof *FOR_THE_SERVER; i++)
    if (sigaction(FOR_THE_SERVER[i], NULL, &action) == 0 && action.sa_handler == do_nothing)
      set_handler(FOR_THE_SERVER[i], SIG_DFL);
  close(connection);
}

static int start_watching(int socket)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // signals are for Python's threads
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
  int memory = receive_descriptor(socket);
  if (memory < 0)
    return "receiving the channel from the server";
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  connection = socket;
  leave_signals_to_server();
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
