// SPDX-License-Identifier: Apache-2.0
// Executes the batches of an instance's channel, on the instance's thread.
#include "host/host_state.h"

#include "base/log.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>

#define LOOK_US    100        // polling for the next batch, while batches come as fast
#define QUIET_US   2000000    // without work, before idle memory is given back
#define KEPT_BYTES (16 << 20) // of idle memory

// An error concerns the whole batch: then the backend has none of its requests.
static error *execute(host_instance *h, const channel_message *work)
{
  model_host *host = h->host;
  const uint8_t *control = channel_other(host->channel, work->offset, work->size);
  wire_reader reader = {.at = control, .end = control + work->size, .bad = control == NULL};
  uint32_t count;
  h->block = work->value;
  error *e = host_requests_read(h, &reader, &count);
  if (e == NULL) {
    host_events_begin(h);
    e = (error *)h->instance->shared->backend->functions.model_instance_execute(
        h->instance, (TRITONBACKEND_Request **)h->batch, count);
    host_events_end();
  }
  for (uint32_t i = 0; i < count; i++) {
    if (e != NULL)
      host_request_take_back(h->requests[i]);
    host_request_unref(h->requests[i]);
  }
  return e;
}

// Whether the server has finished with all answers and their blocks.
static bool is_read(const host_instance *h)
{
  return channel_finished(h->ring, CHANNEL_ANSWERS) == channel_sent(h->ring, CHANNEL_ANSWERS);
}

static void serve(host_instance *h, const channel_message *work)
{
  channel_message answer = {.kind = work->kind, .id = work->id};
  AUTO_BUFFER buffer failed = BUFFER_EMPTY;
  assert(is_read(h)); // the server sends a batch only after it has read the last answer
  host_release_lent(h->host, &h->lent);
  h->events.size = 0;
  error *e = execute(h, work);
  answer.value = e == NULL;
  if (e != NULL) {
    host_put_failure(&failed, e);
    buffer_append_slice(&failed, buffer_view(&h->events));
  }
  channel_done(h->ring, CHANNEL_WORK);
  if (!host_send(h->host, h->ring, CHANNEL_ANSWERS, &answer, answer.value ? &h->events : &failed,
                 &h->lent))
    host_give_up("an answer cannot be sent");
}

bool host_instance_rest(host_instance *h)
{
  if (!is_read(h))
    return false;
  host_release_lent(h->host, &h->lent);
  host_collect_loans(h->host);
  channel_trim(h->host->channel, KEPT_BYTES);
  return true;
}

static void *run(void *argument)
{
  host_instance *h = argument;
  channel_message work;
  int64_t timeout = -1;
  AUTO_ERROR error *misplaced = host_placement_enter(&h->instance->placement, NULL);
  if (misplaced != NULL)
    log_error("instance '%s': %s", h->instance->name, error_message(misplaced));
  channel_look_for(h->ring, CHANNEL_WORK, LOOK_US);
  for (;;) {
    switch (channel_receive(h->ring, CHANNEL_WORK, timeout, &work)) {
    case CHANNEL_MESSAGE:
      serve(h, &work);
      timeout = QUIET_US;
      break;
    case CHANNEL_TIMEOUT:
      timeout = host_instance_rest(h) ? -1 : QUIET_US;
      break;
    case CHANNEL_CLOSED:
    case CHANNEL_BROKEN:
      return NULL;
    }
  }
}

static host_instance *find(const model_host *host, const char *name)
{
  for (size_t i = 0; i < host->model->instances->count; i++)
    if (strcmp(host->instances[i].instance->name, name) == 0 && host->instances[i].ring == NULL)
      return &host->instances[i];
  return NULL;
}

error *host_instance_start(model_host *host, const char *name, channel *ring)
{
  host_instance *h = find(host, name);
  error *e = h == NULL ? error_new(ERROR_INTERNAL, "the model's process has no instance '%s'", name)
                       : NULL;
  if (e == NULL) {
    h->ring = ring;
    e = thread_start(&h->thread, name, run, h);
  }
  if (e != NULL) {
    channel_free(ring);
    if (h != NULL)
      h->ring = NULL;
  }
  return e;
}

void host_instance_stop(host_instance *h)
{
  if (h->ring != NULL) {
    channel_close(h->ring);
    pthread_join(h->thread, NULL);
    channel_free(h->ring);
  }
  free(h->requests);
  free(h->batch);
  buffer_fini(&h->events);
  buffer_fini(&h->lent);
}
