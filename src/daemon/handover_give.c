// SPDX-License-Identifier: Apache-2.0
// One new server at a time: a table of what it may say next.
#include "daemon/handover_give.h"

#include "daemon/notify.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/shared_memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_MODE 0600

error *handover_giver_open(handover_giver *g, ports *p, handover_sockets *handed)
{
  listen_options options = {.address = p->options->upgrade_address, .unix_mode = SOCKET_MODE};
  *g = HANDOVER_NO_GIVER;
  g->ports = p;
  if (options.address[0] == '\0')
    return NULL;
  handover_socket *s = handed == NULL ? NULL : handover_find(handed, HANDOVER_SOCKET_NAME);
  if (s != NULL && listen_is_at(&options, s->fd, s->device, s->file)) {
    options.given = s->fd;
    options.given_device = s->device;
    options.given_file = s->file;
    s->fd = -1;
  }
  error *e = listen_open(&options, &g->socket);
  return e == NULL ? NULL : error_wrap(e, "--upgrade-address");
}

void handover_giver_watch(const handover_giver *g, struct pollfd watched[HANDOVER_WATCHED])
{
  watched[0] = (struct pollfd){.fd = g->socket.socket_fd, .events = POLLIN};
  watched[1] = (struct pollfd){.fd = g->link.fd, .events = POLLIN};
}

// ---- a new server comes ----

static void refuse(handover_link *link, const char *text)
{
  frontend_log_warning("an upgrade by process %d is refused: %s", (int)link->peer, text);
  error_free(handover_link_send(link, json_pack("{s:s}", "refused", text), NULL, 0));
  handover_link_close(link);
}

static void greet(handover_giver *g, const char *busy)
{
  char text[128];
  handover_link link;
  int fd = accept4(g->socket.socket_fd, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0)
    return;
  error *e = handover_link_open(&link, fd);
  if (e != NULL) {
    frontend_log_warning("at the upgrade address: %s", error_message(e));
    error_free(e);
  } else if (busy != NULL) {
    snprintf(text, sizeof(text), "the running server (process %d) %s", (int)getpid(), busy);
    refuse(&link, text);
  } else if (g->stage != HANDOVER_NONE) {
    snprintf(text, sizeof(text), "an upgrade by process %d is under way", (int)g->link.peer);
    refuse(&link, text);
  } else {
    g->link = link;
    g->stage = HANDOVER_ASKED;
  }
}

// ---- what it says ----

static error *send_sockets(handover_giver *g, const json_t *message)
{
  (void)message;
  int fds[HANDOVER_SOCKETS];
  handover_sockets sockets = {0};
  ports_list(g->ports, &sockets);
  handover_socket *own = &sockets.of[sockets.count++];
  *own = (handover_socket){.name = HANDOVER_SOCKET_NAME,
                           .device = g->socket.device,
                           .file = g->socket.file,
                           .fd = g->socket.socket_fd};
  for (size_t i = 0; i < sockets.count; i++)
    fds[i] = sockets.of[i].fd;
  frontend_log_info("an upgrade begins: process %d gets the listening sockets and loads its models",
                    (int)g->link.peer);
  return handover_link_send(&g->link, handover_print_sockets(&sockets), fds, sockets.count);
}

// What clients have registered; regions of GPUs cannot be opened without their handle.
static error *send_registered(handover_giver *g, const json_t *message)
{
  (void)message;
  AUTO_BUFFER buffer system = BUFFER_EMPTY, cuda = BUFFER_EMPTY;
  shared_memory *memory = g->ports->shared_memory;
  RETURN_IF_ERROR(shared_memory_print(memory, TRITONSERVER_MEMORY_CPU, NULL, false, &system));
  RETURN_IF_ERROR(shared_memory_print(memory, TRITONSERVER_MEMORY_GPU, NULL, false, &cuda));
  return handover_link_send(&g->link,
                            json_pack("{s:b,s:o,s:o}", "go", true, "regions",
                                      json_loadb(system.data, system.size, 0, NULL), "gpu_regions",
                                      json_loadb(cuda.data, cuda.size, 0, NULL)),
                            NULL, 0);
}

// The new server serves at the sockets that it names, and owns their files from now on.
static error *hand_over(handover_giver *g, const json_t *message)
{
  char state[48];
  size_t i;
  json_t *name;
  if (!handover_link_is_alive(&g->link))
    return error_new(ERROR_UNAVAILABLE, "process %d is gone", (int)g->link.peer);
  json_array_foreach(json_object_get(message, "serving"), i, name)
  {
    ports_lend(g->ports, json_string_value(name));
    if (json_is_string(name) && strcmp(json_string_value(name), HANDOVER_SOCKET_NAME) == 0)
      listen_lend(&g->socket);
  }
  snprintf(state, sizeof(state), "MAINPID=%d", (int)g->link.peer);
  notify_service_manager(state);
  error_free(handover_link_send(&g->link, json_pack("{s:b}", "done", true), NULL, 0));
  return NULL;
}

typedef struct handover_step {
  const char *kind; // of the message that is expected
  error *(*answer)(handover_giver *g, const json_t *message);
  handover_stage next;
} handover_step;

static const handover_step steps[] = {
    [HANDOVER_ASKED] = {"take", send_sockets, HANDOVER_LOADING},
    [HANDOVER_LOADING] = {"ready", send_registered, HANDOVER_BEGINS},
    [HANDOVER_BEGINS] = {"serving", hand_over, HANDOVER_DONE},
};

static error *check_protocol(const handover_giver *g, const json_t *message)
{
  json_int_t protocol = json_integer_value(json_object_get(message, "take"));
  if (g->stage != HANDOVER_ASKED || protocol == HANDOVER_PROTOCOL)
    return NULL;
  return error_new(ERROR_UNAVAILABLE,
                   "it speaks protocol %lld of an upgrade, this server speaks %d: restart instead",
                   (long long)protocol, HANDOVER_PROTOCOL);
}

static error *answer(handover_giver *g, const json_t *message)
{
  const handover_step *step = &steps[g->stage];
  RETURN_IF_ERROR(handover_message_expect(message, step->kind));
  RETURN_IF_ERROR(check_protocol(g, message));
  RETURN_IF_ERROR(step->answer(g, message));
  g->stage = step->next;
  return NULL;
}

static error *listen_to(handover_giver *g)
{
  json_t *message;
  RETURN_IF_ERROR(handover_link_read(&g->link));
  RETURN_IF_ERROR(handover_link_take(&g->link, &message));
  if (message == NULL)
    return NULL;
  error *e = answer(g, message);
  json_decref(message);
  return e;
}

static void give_up(handover_giver *g, error *e_owned)
{
  const char *text = error_message(e_owned);
  frontend_log_warning("the upgrade by process %d is over, this server serves on: %s",
                       (int)g->link.peer, text);
  if (!g->link.ended)
    error_free(handover_link_send(&g->link, json_pack("{s:s}", "refused", text), NULL, 0));
  handover_link_close(&g->link);
  g->stage = HANDOVER_NONE;
  error_free(e_owned);
}

bool handover_giver_hear(handover_giver *g, const struct pollfd watched[HANDOVER_WATCHED],
                         const char *busy)
{
  if (watched[1].revents != 0 && g->stage != HANDOVER_NONE && g->stage != HANDOVER_DONE) {
    error *e = listen_to(g);
    if (e != NULL)
      give_up(g, e);
  }
  if ((watched[0].revents & POLLIN) != 0 && g->stage != HANDOVER_DONE)
    greet(g, busy);
  return g->stage == HANDOVER_DONE;
}

void handover_giver_stop(handover_giver *g)
{
  if (g->stage == HANDOVER_LOADING || g->stage == HANDOVER_BEGINS) {
    frontend_log_warning("process %d has the listening sockets, and will serve when it is ready",
                         (int)g->link.peer);
    ports_lend_all(g->ports);
    listen_lend(&g->socket);
  }
  handover_link_close(&g->link);
  listen_fini(&g->socket);
  g->socket = (listen_socket){.socket_fd = -1};
}
