// One list: what was sent (lent, or late) and what waits for its turn. The instance's thread,
// loops of the server and the listener; the lock is held for the list alone, not while requests
// are sent or answered.
#include "instance/aside.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "codec/protocol.h"

#include <assert.h>
#include <stdlib.h>

static aside_list *list_of(const execution *self)
{
  return worker_keeper_aside(self->keeper);
}

void aside_init(aside_list *self)
{
  *self = (aside_list){0};
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->changed, NULL);
}

void aside_fini(aside_list *self)
{
  assert(self->first == NULL && self->held == 0 && self->sent == 0);
  pthread_mutex_destroy(&self->lock);
  pthread_cond_destroy(&self->changed);
}

void aside_open(aside_list *self, worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  assert(self->link == NULL && self->first == NULL); // aside_fail_all has been called
  self->link = link;
  pthread_mutex_unlock(&self->lock);
}

void aside_hold(aside_list *self)
{
  pthread_mutex_lock(&self->lock);
  self->held++;
  pthread_mutex_unlock(&self->lock);
}

static void let_go_locked(aside_list *self)
{
  assert(self->held > 0);
  self->held--;
  pthread_cond_signal(&self->changed); // only the listener waits
}

void aside_let_go(aside_list *self)
{
  pthread_mutex_lock(&self->lock);
  let_go_locked(self);
  pthread_mutex_unlock(&self->lock);
}

// ---- the list; its lock is held

static void append(aside_list *self, execution *item)
{
  execution **end = &self->first;
  assert(item->next == NULL);
  while (*end != NULL) {
    assert(*end != item);
    end = &(*end)->next;
  }
  *end = item;
}

static void take_out(aside_list *self, execution *item)
{
  execution **at = &self->first;
  while (*at != item) {
    assert(*at != NULL);
    at = &(*at)->next;
  }
  *at = item->next;
  item->next = NULL;
  assert(!item->sent || self->sent > 0);
  self->sent -= item->sent;
}

static execution *find_sent(const aside_list *self, uint64_t id)
{
  execution *item = self->first;
  while (item != NULL && !(item->sent && item->work_id == id))
    item = item->next;
  return item;
}

// ---- going in

static bool is_lent(aside_list *self)
{
  pthread_mutex_lock(&self->lock);
  bool lent = self->sent > 0;
  pthread_mutex_unlock(&self->lock);
  return lent;
}

// False: the worker behind `link` is gone.
static bool append_deferred(aside_list *self, execution *item, const worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  bool alive = self->link == link;
  if (alive) {
    item->link = NULL;
    append(self, item);
  }
  pthread_mutex_unlock(&self->lock);
  return alive;
}

bool aside_is_empty(aside_list *self)
{
  pthread_mutex_lock(&self->lock);
  bool empty = self->first == NULL;
  pthread_mutex_unlock(&self->lock);
  return empty;
}

bool aside_defer(execution *owned)
{
  aside_list *self = list_of(owned);
  worker_keeper *keeper = owned->keeper;
  worker_link *link = owned->link;
  if (!is_lent(self))
    return false;
  if (circle_has_call(owned->requests, owned->count)) {
    execution *others = execution_split(owned);
    if (others != NULL && !append_deferred(self, others, link)) {
      execution_fail(others, worker_keeper_why_gone(keeper, link));
      execution_free(others);
    }
    return false;
  }
  if (!append_deferred(self, owned, link))
    return false; // as sending will tell
  worker_keeper_end_work(keeper, link);
  return true;
}

bool aside_put_lent(execution *owned)
{
  aside_list *self = list_of(owned);
  worker_keeper *keeper = owned->keeper;
  worker_link *link = worker_link_ref(owned->link);
  circle_member *member = worker_keeper_member(keeper);
  circle_count(member, 1);
  pthread_mutex_lock(&self->lock);
  bool put = self->link == link;
  if (put) {
    assert(!owned->sent && !owned->lent);
    owned->sent = owned->lent = true;
    self->sent++;
    append(self, owned);
    let_go_locked(self); // from here on the listener may end it
  }
  pthread_mutex_unlock(&self->lock);
  if (put) {
    worker_keeper_end_work(keeper, link);
  } else {
    circle_count(member, -1);
    worker_link_unref(link);
  }
  return put;
}

// ---- going out

// The requests have been answered and it is in no list.
static void end(execution *self)
{
  worker_keeper *keeper = self->keeper;
  if (self->lent)
    circle_count(worker_keeper_member(keeper), -1);
  if (self->has_turn)
    worker_keeper_end_work(keeper, self->link);
  else
    worker_link_unref(self->link);
  execution_free(self);
}

static void drop_cancelled(execution *self)
{
  for (uint32_t i = 0; i < self->count;) {
    bool cancelled = false;
    backend_request_error_log(worker_keeper_instance(self->keeper), self->requests[i],
                              TRITONBACKEND_RequestIsCancelled(self->requests[i], &cancelled),
                              "ask whether a request is cancelled");
    if (cancelled)
      execution_drop(self, i, backend_error(TRITONSERVER_ERROR_CANCELLED, "Request was cancelled"));
    else
      i++;
  }
}

static execution *next_deferred(aside_list *self)
{
  execution *item = self->sent > 0 ? NULL : self->first;
  return item; // none is sent, so all are deferred
}

static bool has_deferred(aside_list *self)
{
  pthread_mutex_lock(&self->lock);
  bool found = next_deferred(self) != NULL;
  pthread_mutex_unlock(&self->lock);
  return found;
}

// Marks the next one as sent, and held: the listener does not touch it.
static execution *hold_deferred(aside_list *self, worker_link *link)
{
  pthread_mutex_lock(&self->lock);
  execution *item = self->link == link ? next_deferred(self) : NULL;
  if (item != NULL) {
    assert(!item->sent && !item->has_turn && item->link == NULL);
    item->link = link;
    item->sent = item->has_turn = true;
    self->sent++;
    self->held++;
  }
  pthread_mutex_unlock(&self->lock);
  return item;
}

// False: all its requests have been answered.
static bool send_late(execution *self)
{
  self->exec_start_ns = backend_now_ns(); // until now it was queued
  drop_cancelled(self);
  return self->count > 0 && execution_send(self, WORK_LATE);
}

void aside_go_on(worker_keeper *keeper)
{
  aside_list *self = worker_keeper_aside(keeper);
  worker_link *link;
  while (has_deferred(self) && worker_keeper_try_begin_work(keeper, &link)) {
    execution *item = hold_deferred(self, link);
    if (item == NULL) {
      worker_keeper_end_work(keeper, link);
      continue;
    }
    bool sent = send_late(item);
    pthread_mutex_lock(&self->lock);
    if (!sent)
      take_out(self, item);
    let_go_locked(self);
    pthread_mutex_unlock(&self->lock);
    if (sent)
      return;
    end(item);
  }
}

// The execution, taken out where it has ended. It may have been put aside a moment after its answer
// has come: the two come by different rings.
static execution *find_answered(aside_list *self, const channel_message *call)
{
  execution *item;
  pthread_mutex_lock(&self->lock);
  while ((item = find_sent(self, call->id)) == NULL && self->held > 0)
    pthread_cond_wait(&self->changed, &self->lock);
  while (self->held > 0 && item != NULL && item->has_turn) // it is still being sent
    pthread_cond_wait(&self->changed, &self->lock);
  if (item != NULL && (call->flags & ANSWER_LENT) == 0)
    take_out(self, item);
  pthread_mutex_unlock(&self->lock);
  return item;
}

// An execution that was sent late, and now waits in a circle.
static void end_turn(execution *self)
{
  if (!self->has_turn)
    return;
  self->has_turn = false;
  self->lent = true;
  circle_count(worker_keeper_member(self->keeper), 1);
  worker_keeper_end_work(self->keeper, worker_link_ref(self->link));
}

void aside_take_answer(worker_keeper *keeper, const channel_message *call)
{
  execution *item = find_answered(worker_keeper_aside(keeper), call);
  if (item == NULL)
    return;
  if ((call->flags & ANSWER_LENT) != 0) {
    end_turn(item);
    return;
  }
  item->compute_end_ns = backend_now_ns();
  execution_take_answer(item, call);
  end(item);
  aside_go_on(keeper);
}

void aside_fail_all(worker_keeper *keeper, const TRITONSERVER_Error *error)
{
  aside_list *self = worker_keeper_aside(keeper);
  pthread_mutex_lock(&self->lock);
  self->link = NULL;
  while (self->held > 0)
    pthread_cond_wait(&self->changed, &self->lock);
  execution *item = self->first;
  self->first = NULL;
  self->sent = 0;
  pthread_mutex_unlock(&self->lock);
  while (item != NULL) {
    execution *next = item->next;
    execution_fail(item,
                   TRITONSERVER_ErrorNew(TRITONSERVER_ErrorCode((TRITONSERVER_Error *)error),
                                         TRITONSERVER_ErrorMessage((TRITONSERVER_Error *)error)));
    end(item);
    item = next;
  }
}
