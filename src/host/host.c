// SPDX-License-Identifier: Apache-2.0
// A model's own process: its main thread loads the model as the server's message says, and answers
// questions about it until it is told to end. The process ends when the server ends.
#include "host/host.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "channel_descriptor.h"
#include "core/server.h"
#include "host/description.h"
#include "host/host_gpus.h"
#include "host/host_state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define REFERENCES_WAIT_NS UINT64_C(300000000)

static error *receive_channel(int socket, channel **result)
{
  AUTO_CLOSE int memory = channel_receive_descriptor(socket);
  int failure = memory < 0 ? errno : channel_attach(memory, result);
  return failure == 0 ? NULL
                      : error_new(ERROR_INTERNAL, "cannot attach to the server's channel: %s",
                                  strerror(failure));
}

// ---- the model

// This process's host, for callbacks that get only the server.
static model_host *the_host;

static void model_unreferenced(server *s, model *m)
{
  (void)s;
  (void)m;
  LOCK_SCOPE(&the_host->lock);
  the_host->unreferenced = true;
  pthread_cond_signal(&the_host->changed);
}

static error *make_instances(model_host *host)
{
  size_t count = host->model->instances->count;
  host->instances = calloc(count + 1, sizeof(*host->instances));
  if (host->instances == NULL)
    return error_no_memory();
  for (size_t i = 0; i < count; i++)
    host->instances[i] = (host_instance){
        .host = host, .instance = host->model->instances->items[i], .index = (uint32_t)i};
  host->model->shared.reports = &host->reports;
  return NULL;
}

// The server has already applied the reshape when it reads the answer, so shapes stay as the
// backend gives them.
static void keep_shapes(model_signature *s)
{
  for (size_t i = 0; i < s->output_count; i++)
    s->outputs[i].has_reshape = false;
}

static error *load(model_host *host, const host_description *description, const char *config)
{
  model_source source = {0};
  RETURN_IF_ERROR(server_new_host(&description->options, &host->server));
  model_environment environment = *server_model_environment(host->server);
  environment.unreferenced = model_unreferenced;
  error *e = host_description_source(description, config, &source);
  if (e == NULL)
    e = host_gpus_new(source.config_owned, &host->gpus);
  environment.gpu_watch = host_gpus_watch(host->gpus);
  if (e == NULL)
    e = model_load(&environment, &source, &host->model);
  config_free(source.config_owned);
  RETURN_IF_ERROR(e);
  keep_shapes(&host->model->target.signature);
  return make_instances(host);
}

// ---- what the server says

typedef struct question {
  channel_message message;
  wire_reader reader;
  buffer answer; // follows the success code and empty text
} question;

static const char *get_text(question *q)
{
  size_t length;
  const char *text = wire_get_text(&q->reader, &length);
  return text != NULL && length > 0 ? text : "";
}

static error *on_load(model_host *host, question *q, host_description *description)
{
  const char *text = get_text(q), *config = get_text(q);
  AUTO_BUFFER buffer completed = BUFFER_EMPTY;
  RETURN_IF_ERROR(host_description_read(description, text));
  RETURN_IF_ERROR(load(host, description, config));
  bool asks_ready = host->model->shared.backend->functions.model_instance_ready != NULL;
  buffer_append_char(&completed, asks_ready ? '1' : '0');
  RETURN_IF_ERROR(config_print_json(host->model->config, &completed));
  buffer_append_char(&completed, '\0');
  if (completed.failed)
    return error_no_memory();
  put_text(&q->answer, completed.data);
  return NULL;
}

static error *on_attach(model_host *host, question *q)
{
  channel *ring;
  RETURN_IF_ERROR(receive_channel(host->socket, &ring));
  return host_instance_start(host, get_text(q), ring);
}

static error *on_ready(const model_host *host, uint64_t index)
{
  const model *m = host->model;
  return index < m->instances->count ? instance_ready(m->instances->items[index]) : NULL;
}

// A thread that frees an answer may have the last reference. False: references are left.
static bool await_references(model_host *host)
{
  uint64_t deadline = clock_monotonic_ns() + REFERENCES_WAIT_NS;
  LOCK_SCOPE(&host->lock);
  while (!host->unreferenced && thread_wait(&host->changed, &host->lock, deadline))
    ;
  return host->unreferenced;
}

static void unload(model_host *host)
{
  for (size_t i = 0;
       host->model != NULL && host->instances != NULL && i < host->model->instances->count; i++)
    host_instance_stop(&host->instances[i]);
  if (host->model != NULL) {
    model *m = host->model;
    model_unref(m);
    if (!await_references(host)) {
      log_warning(
          "the backend keeps requests or responses: the process ends without finalizing it");
      return;
    }
    model_destroy(m);
  }
  host->model = NULL;
  free(host->instances);
  host->instances = NULL;
  host_gpus_free(host->gpus);
  host->gpus = NULL;
  log_enable(LOG_LEVEL_INFO, false); // only the server logs the end
  server_free(host->server);
  host->server = NULL;
}

static error *dispatch(model_host *host, question *q, host_description *description)
{
  switch (q->message.kind) {
  case ISOLATED_LOAD:
    return on_load(host, q, description);
  case ISOLATED_ATTACH:
    return on_attach(host, q);
  case ISOLATED_READY:
    return on_ready(host, q->message.value);
  case ISOLATED_FINALIZE:
    unload(host);
    return NULL;
  default:
    return error_new(ERROR_INTERNAL, "a model's process was told something unknown");
  }
}

// False: that was the last message.
static bool answer(model_host *host, const channel_message *message, host_description *description)
{
  const uint8_t *control = channel_other(host->channel, message->offset, message->size);
  question q = {.message = *message};
  AUTO_BUFFER buffer content = BUFFER_EMPTY, lent = BUFFER_EMPTY;
  q.reader = (wire_reader){.at = control,
                           .end = control + (control == NULL ? 0 : message->size),
                           .bad = control == NULL};
  if (message->kind == ISOLATED_CANCEL) {
    host_request_cancel(host, message->id);
    channel_done(host->channel, CHANNEL_WORK);
    return true;
  }
  error *e = dispatch(host, &q, description);
  channel_message reply = {.kind = message->kind, .id = message->id, .value = e == NULL};
  host_put_failure(&content, e);
  buffer_append_slice(&content, buffer_view(&q.answer));
  buffer_fini(&q.answer);
  channel_done(host->channel, CHANNEL_WORK);
  uint64_t sent = channel_sent(host->channel, CHANNEL_ANSWERS) + 1;
  if (!host_send(host, host->channel, CHANNEL_ANSWERS, &reply, &content, &lent) ||
      !channel_await_finished(host->channel, CHANNEL_ANSWERS, sent))
    return false;
  host_release_lent(host, &lent);
  return message->kind != ISOLATED_FINALIZE;
}

// ---- the process

// Ends the process with the server: the kernel's own signal depends on the thread that started it.
static void *watch_server(void *argument)
{
  const model_host *host = argument;
  struct pollfd socket = {.fd = host->socket, .events = POLLRDHUP};
  while (poll(&socket, 1, -1) < 0 || (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
    ;
  _exit(1);
}

static error *attach(model_host *host)
{
  pthread_t watcher;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN); // these are for the server, which ends its models after their answers
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  RETURN_IF_ERROR(receive_channel(host->socket, &host->channel));
  RETURN_IF_ERROR(thread_start(&watcher, "server-watch", watch_server, host));
  pthread_detach(watcher);
  return NULL;
}

static void serve(model_host *host)
{
  channel_message message;
  host_description description = {0};
  while (channel_receive(host->channel, CHANNEL_WORK, -1, &message) == CHANNEL_MESSAGE &&
         answer(host, &message, &description))
    ;
  host_description_fini(&description);
}

int host_run(int socket)
{
  model_host *host = calloc(1, sizeof(*host));
  if (host == NULL)
    return 1;
  the_host = host;
  setenv("TRITON_SERVER_ESCAPE_LOG_MESSAGES", "0", 1); // the server does, once
  host->socket = socket;
  host->reports = host_reports;
  host->allocator = host_allocator;
  pthread_mutex_init(&host->lock, NULL);
  pthread_cond_init(&host->changed, NULL);
  list_init(&host->requests);
  list_init(&host->loans);
  AUTO_ERROR error *e = attach(host);
  if (e != NULL) {
    log_error("%s", error_message(e));
    return 1;
  }
  serve(host); // the process's end frees the rest; the server sees its exit
  return 0;
}
