// SPDX-License-Identifier: Apache-2.0
// How long a message takes to another process and back over backends/common/channel, and the same
// over a pair of sockets: bench/channel [round trips]. Both sides look when waits are short, and
// sleep when a pause before each message makes them long, or when there is one processor for both.
// To build:
//   C=backends/common/channel
//   cc -O2 -D_GNU_SOURCE -I$C bench/channel.c $C/*.c -pthread
#include "channel.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  USUAL_TRIPS = 100000,
  FOR_EVER = -1,
  LAST = 9
};

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void need(int holds, const char *what)
{
  if (holds)
    return;
  perror(what);
  exit(1);
}

// -1: any processor.
static void run_on(int processor)
{
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (processor < 0 || i == processor)
      CPU_SET(i, &set);
  need(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static int compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *name, double *times, int count)
{
  qsort(times, (size_t)count, sizeof(times[0]), compare);
  printf("%-34s median %7.2f us   99%% %7.2f us\n", name, times[count / 2],
         times[count / 100 * 99]);
}

static void answer_channel(int descriptor, int run_on_processor)
{
  channel *worker;
  channel_message message = {.kind = 0};
  need(channel_attach(descriptor, &worker) == 0, "channel_attach");
  run_on(run_on_processor);
  while (message.kind != LAST &&
         channel_receive(worker, CHANNEL_WORK, FOR_EVER, &message) == CHANNEL_MESSAGE) {
    channel_send(worker, CHANNEL_ANSWERS, &message);
    channel_done(worker, CHANNEL_WORK);
  }
  _exit(0);
}

static void channel_trips(const char *name, int host_on, int worker_on, unsigned pause_us,
                          int count)
{
  channel *host;
  double *times = calloc((size_t)count, sizeof(times[0]));
  const bool together = host_on >= 0 && host_on == worker_on;
  run_on(together ? host_on : -1); // before: a side that is made with one processor never looks
  need(times != NULL && channel_new(0, &host) == 0, "channel_new");
  const pid_t worker = fork();
  if (worker == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    answer_channel(channel_descriptor(host), worker_on);
  }
  run_on(host_on);
  for (int i = -100; i < count; i++) {
    channel_message message = {.kind = i == count - 1 ? LAST : 1};
    if (pause_us > 0)
      usleep(pause_us);
    const double began = now_us();
    channel_send(host, CHANNEL_WORK, &message);
    channel_receive(host, CHANNEL_ANSWERS, FOR_EVER, &message);
    channel_done(host, CHANNEL_ANSWERS);
    if (i >= 0)
      times[i] = now_us() - began;
  }
  report(name, times, count);
  waitpid(worker, NULL, 0);
  channel_free(host);
  free(times);
}

static void socket_trips(const char *name, int count)
{
  int ends[2];
  char message[40] = {0};
  double *times = calloc((size_t)count, sizeof(times[0]));
  need(times != NULL && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  const pid_t worker = fork();
  if (worker == 0) {
    close(ends[0]);
    while (read(ends[1], message, sizeof(message)) == (ssize_t)sizeof(message))
      need(write(ends[1], message, sizeof(message)) > 0, "write");
    _exit(0);
  }
  close(ends[1]);
  for (int i = 0; i < count; i++) {
    const double began = now_us();
    need(write(ends[0], message, sizeof(message)) > 0, "write");
    need(read(ends[0], message, sizeof(message)) > 0, "read");
    times[i] = now_us() - began;
  }
  report(name, times, count);
  close(ends[0]);
  waitpid(worker, NULL, 0);
  free(times);
}

int main(int argc, char **argv)
{
  const int trips = argc > 1 ? (int)strtol(argv[1], NULL, 10) : USUAL_TRIPS;
  channel_trips("channel, a processor each", 0, 1, 0, trips);
  channel_trips("channel, as the system places them", -1, -1, 0, trips);
  channel_trips("channel, each, 1 ms apart", 0, 1, 1000, trips / 50);
  socket_trips("pair of sockets", trips / 5);
  channel_trips("channel, one processor", 0, 0, 0, trips / 5);
}
