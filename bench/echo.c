// SPDX-License-Identifier: Apache-2.0
// The floor: what libmicrohttpd alone costs. Answers a GET with nothing and a POST with its own
// body. The body is handed to one other thread, which resumes the suspended connection: one hop
// there and back, as a model's thread costs; with --direct the loop answers by itself. Built and
// started by bench/sides.py:
//
//     echo PORT [--direct]
//
// Loops, their number and the memory of a connection are nereid's defaults.
#define _GNU_SOURCE
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOPS                   8u
#define CONNECTION_MEMORY_BYTES ((size_t)32 << 10)
#define CONNECTION_LIMIT        8192u
#define BACKLOG                 1024

// One request. Its loop's thread owns it but for the time between hand_over and
// MHD_resume_connection.
typedef struct exchange {
  struct MHD_Connection *connection;
  char *body; // the response's once it is made
  size_t size, used;
  bool handed_over;
  struct exchange *next; // in the queue
} exchange;

static bool direct;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t filled;
  exchange *first, **end; // guarded by mutex
} queue = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .end = &queue.first};

static void hand_over(exchange *x)
{
  x->handed_over = true;
  MHD_suspend_connection(x->connection);
  pthread_mutex_lock(&queue.mutex);
  *queue.end = x;
  queue.end = &x->next;
  pthread_cond_signal(&queue.filled);
  pthread_mutex_unlock(&queue.mutex);
}

static exchange *take(void)
{
  pthread_mutex_lock(&queue.mutex);
  while (queue.first == NULL)
    pthread_cond_wait(&queue.filled, &queue.mutex);
  exchange *x = queue.first;
  queue.first = x->next;
  if (queue.first == NULL)
    queue.end = &queue.first;
  pthread_mutex_unlock(&queue.mutex);
  return x;
}

static void *work(void *unused)
{
  (void)unused;
  for (;;)
    MHD_resume_connection(take()->connection);
  return NULL;
}

static enum MHD_Result begin(struct MHD_Connection *connection, void **context)
{
  const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
  exchange *x = calloc(1, sizeof(*x));
  if (x == NULL)
    return MHD_NO;
  *context = x;
  x->connection = connection;
  x->size = length != NULL ? strtoull(length, NULL, 10) : 0;
  x->body = malloc(x->size + 1);
  return x->body != NULL ? MHD_YES : MHD_NO;
}

static enum MHD_Result receive(exchange *x, const char *data, size_t *size)
{
  if (*size > x->size - x->used)
    return MHD_NO;
  memcpy(x->body + x->used, data, *size);
  x->used += *size;
  *size = 0;
  return MHD_YES;
}

static enum MHD_Result reply(exchange *x)
{
  struct MHD_Response *response =
      MHD_create_response_from_buffer(x->used, x->body, MHD_RESPMEM_MUST_FREE);
  if (response == NULL)
    return MHD_NO;
  x->body = NULL;
  enum MHD_Result queued = MHD_queue_response(x->connection, MHD_HTTP_OK, response);
  MHD_destroy_response(response);
  return queued;
}

static enum MHD_Result handle(void *unused, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **context)
{
  (void)unused, (void)url, (void)method, (void)version;
  if (*context == NULL)
    return begin(connection, context);
  exchange *x = *context;
  if (*size > 0)
    return receive(x, data, size);
  if (x->size > 0 && !direct && !x->handed_over) {
    hand_over(x);
    return MHD_YES;
  }
  return reply(x);
}

static void completed(void *unused, struct MHD_Connection *connection, void **context,
                      enum MHD_RequestTerminationCode code)
{
  (void)unused, (void)connection, (void)code;
  exchange *x = *context;
  if (x == NULL)
    return;
  free(x->body);
  free(x);
  *context = NULL;
}

static int listen_on(unsigned short port)
{
  struct sockaddr_in where = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd, (struct sockaddr *)&where, sizeof(where)) != 0 || listen(fd, BACKLOG) != 0) {
    perror("echo: cannot listen");
    exit(1);
  }
  return fd;
}

// Connections are added from here, because libmicrohttpd then deals them out to its loops evenly.
static void accept_all(struct MHD_Daemon *daemon, int listen_fd)
{
  for (;;) {
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    int fd = accept4(listen_fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
      MHD_add_connection(daemon, fd, (struct sockaddr *)&peer, size);
  }
}

int main(int count, char **arguments)
{
  if (count < 2 || count > 3 || (count == 3 && strcmp(arguments[2], "--direct") != 0)) {
    fprintf(stderr, "usage: echo PORT [--direct]\n");
    return 2;
  }
  direct = count == 3;
  pthread_t worker;
  if (pthread_create(&worker, NULL, work, NULL) != 0)
    return 1;
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME |
                   MHD_USE_NO_LISTEN_SOCKET | MHD_USE_SUPPRESS_DATE_NO_CLOCK | MHD_USE_ERROR_LOG |
                   MHD_USE_TURBO;
  struct MHD_Daemon *daemon = MHD_start_daemon(
      flags, 0, NULL, NULL, handle, NULL, MHD_OPTION_NOTIFY_COMPLETED, completed, NULL,
      MHD_OPTION_THREAD_POOL_SIZE, LOOPS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      CONNECTION_MEMORY_BYTES, MHD_OPTION_CONNECTION_LIMIT, CONNECTION_LIMIT, MHD_OPTION_END);
  if (daemon == NULL)
    return 1;
  accept_all(daemon, listen_on((unsigned short)atoi(arguments[1])));
}
