// The table of members and calls, and the search for circles in it.
#include "instance/circle.h"

#include "codec/protocol.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

enum {
  BUCKETS = 1024
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all that follows
static circle_member *members;
static circle_call *buckets[BUCKETS];
static size_t lent_count;         // of the calls in the table
static _Atomic size_t open_count; // calls in the table; read without the lock to save it

// ---- calls by their request; from here on the lock is held, unless said otherwise

static circle_call **bucket_of(const void *request)
{
  uintptr_t bits = (uintptr_t)request;
  return &buckets[(bits >> 4 ^ bits >> 14) % BUCKETS];
}

// The server's requests and the backend's are the same objects.
static circle_call *find_request(const TRITONBACKEND_Request *request)
{
  circle_call *call = *bucket_of(request);
  while (call != NULL && (const void *)call->request != (const void *)request)
    call = call->next_in_bucket;
  return call;
}

static void enter_bucket(circle_call *self)
{
  circle_call **bucket = bucket_of(self->request);
  self->next_in_bucket = *bucket;
  *bucket = self;
}

static void leave_bucket(circle_call *self)
{
  if (self->request == NULL)
    return;
  circle_call **at = bucket_of(self->request);
  while (*at != self) {
    assert(*at != NULL);
    at = &(*at)->next_in_bucket;
  }
  *at = self->next_in_bucket;
  self->request = NULL;
}

static void leave_work(circle_call *self)
{
  if (self->place != CIRCLE_EXECUTING)
    return;
  *self->from_work = self->next_in_work;
  if (self->next_in_work != NULL)
    self->next_in_work->from_work = self->from_work;
  self->place = CIRCLE_ELSEWHERE;
}

static void end_loan(circle_call *self)
{
  assert(!self->lent || lent_count > 0);
  lent_count -= self->lent;
  self->lent = false;
}

static void drop(circle_call *self)
{
  assert(self->member != NULL);
  leave_bucket(self);
  leave_work(self);
  *self->from = self->next;
  if (self->next != NULL)
    self->next->from = self->from;
  if (self->member->waits_for == self)
    self->member->waits_for = NULL;
  self->member = NULL;
  end_loan(self);
  size_t before = atomic_fetch_sub_explicit(&open_count, 1, memory_order_relaxed);
  assert(before > 0);
  (void)before;
}

// ---- who is stuck: the largest set of which each waits for another

static bool group_is_stuck(const python_model *model)
{
  for (const circle_member *m = members; m != NULL; m = m->next)
    if (m->model == model && !(m->stuck && m->waits_for != NULL)) // who is lent takes work
      return false;
  return true;
}

// Which version the server takes for -1 is its affair, and changes when a model is loaded anew:
// such a call may be for any. So may be wrong towards lending.
static bool is_for(const circle_call *self, const python_model *model)
{
  return (self->version < 0 || self->version == (int64_t)model->version) &&
         self->server == model->server && strcmp(self->model, model->name) == 0;
}

// A model that a queued call may wait for and whose instances are all stuck. While a model is
// loaded anew there are two of the same name and version, and the call may be for either.
static const python_model *stuck_target(const circle_call *self)
{
  for (const circle_member *m = members; m != NULL; m = m->next)
    if (m->stuck && m->waits_for != NULL && is_for(self, m->model) && group_is_stuck(m->model))
      return m->model;
  return NULL;
}

static bool has_stuck_call(const circle_member *self)
{
  for (const circle_call *call = self->calls; call != NULL; call = call->next)
    if (call->stuck)
      return true;
  return false;
}

// What a worker does beside execute is not known: each of its calls may be for the sake of each
// request that it has.
static bool call_is_stuck(const circle_call *self)
{
  if (self->place == CIRCLE_EXECUTING)
    return self->at->stuck;
  if (self->place == CIRCLE_ELSEWHERE)
    return self->at != NULL && has_stuck_call(self->at);
  return self->request != NULL && stuck_target(self) != NULL;
}

// The call for which the last one of a worker's executions waits; NULL: it runs, or there is none.
static const circle_call *last_wait(const circle_member *self)
{
  if (self->waits_for != NULL)
    return self->waits_for;
  for (const circle_call *call = self->calls; call != NULL; call = call->next)
    if (call->lent && (self->works == NULL || self->works->execution == call->execution))
      return call;
  return NULL;
}

static void suppose_all_stuck(void)
{
  for (circle_member *m = members; m != NULL; m = m->next) {
    m->stuck = last_wait(m) != NULL;
    for (circle_call *call = m->calls; call != NULL; call = call->next)
      call->stuck = true;
  }
}

static bool strike_out(circle_member *self)
{
  bool changed = false;
  for (circle_call *call = self->calls; call != NULL; call = call->next)
    if (call->stuck && !call_is_stuck(call)) {
      call->stuck = false;
      changed = true;
    }
  if (self->stuck && !last_wait(self)->stuck) {
    self->stuck = false;
    changed = true;
  }
  return changed;
}

static circle_call *find_stuck_at(circle_place place)
{
  for (circle_member *m = members; m != NULL; m = m->next)
    for (circle_call *call = m->calls; call != NULL; call = call->next)
      if (call->stuck && call->place == place &&
          (place == CIRCLE_QUEUED || call->at->waits_for != NULL))
        return call;
  return NULL;
}

// A call whose instance must be lent; `first` if that is one, else one that is queued: what an
// instance was given may have begun, and then lending is of no use. NULL: nobody needs to be lent.
static circle_call *find_stuck(circle_call *first)
{
  bool changed = true;
  suppose_all_stuck();
  while (changed) {
    changed = false;
    for (circle_member *m = members; m != NULL; m = m->next)
      changed = strike_out(m) || changed;
  }
  if (first != NULL && first->stuck && first->place == CIRCLE_QUEUED)
    return first;
  circle_call *queued = find_stuck_at(CIRCLE_QUEUED);
  return queued != NULL ? queued : find_stuck_at(CIRCLE_EXECUTING);
}

static circle_member *shallowest(const python_model *model)
{
  circle_member *found = NULL;
  for (circle_member *m = members; m != NULL; m = m->next)
    if (m->model == model && (found == NULL || m->depth < found->depth))
      found = m;
  return found;
}

// The word to lend comes before the reply, which circle_reply announces under the same lock.
static bool lend(circle_member *self)
{
  if (self->depth >= MAX_CIRCLE_DEPTH)
    return false;
  circle_call *call = self->waits_for;
  assert(call != NULL && call->member == self && !call->lent);
  channel_message word = {.kind = CALL_INFER, .id = call->id, .flags = REPLY_LEND};
  call->lent = true;
  lent_count++;
  self->waits_for = NULL;
  worker_link_reply(call->link, &word);
  return true;
}

static bool group_waits(const python_model *model)
{
  for (const circle_member *m = members; m != NULL; m = m->next)
    if (m->model == model && m->waits_for == NULL)
      return false;
  return true;
}

static bool somebody_waits(void)
{
  for (const circle_member *m = members; m != NULL; m = m->next)
    if (m->waits_for != NULL)
      return true;
  return false;
}

// A quick look before the long one. False: whoever is to serve the call can do so, and nobody came
// to be stuck by it.
static bool may_be_stuck(const circle_call *self)
{
  if (self->place == CIRCLE_EXECUTING)
    return self->at->waits_for != NULL;
  if (self->place == CIRCLE_ELSEWHERE)
    return self->at != NULL && self->at->calls != NULL && somebody_waits();
  for (const circle_member *m = members; m != NULL; m = m->next)
    if (m->waits_for != NULL && is_for(self, m->model) && group_waits(m->model))
      return true;
  return false;
}

static circle_member *whom_to_lend(const circle_call *stuck)
{
  return stuck->place == CIRCLE_EXECUTING ? stuck->at : shallowest(stuck_target(stuck));
}

// Takes a call back that is with the server. The lock is given up meanwhile: cancelling is a call
// to the server, and `self` may be gone when this returns.
static void refuse(circle_call *self)
{
  assert(self->member != NULL && !self->refused);
  self->refused = true;
  leave_work(self);
  self->place = CIRCLE_ELSEWHERE;
  self->at = NULL;
  const circle_caller *caller = self->caller;
  struct calls *calls = self->calls;
  uint64_t id = self->id;
  caller->hold(calls);
  pthread_mutex_unlock(&lock);
  caller->cancel(calls, id);
  pthread_mutex_lock(&lock);
}

// Lends what must be lent after `changed` (NULL: something) has come to wait, or to be waited for.
// False: it is not submitted yet, and must not be. The lock may be given up meanwhile.
static bool settle(circle_call *changed, bool submitted)
{
  if (changed != NULL && lent_count == 0 && !may_be_stuck(changed))
    return true;
  for (circle_call *call; (call = find_stuck(changed)) != NULL;) {
    if (lend(whom_to_lend(call)))
      continue;
    if (call == changed && !submitted)
      return false;
    refuse(call);
    if (submitted)
      changed = NULL; // it may be gone
  }
  return true;
}

// After something has ended: below it, on a worker that is lent, another may wait.
static void settle_loans(void)
{
  if (lent_count > 0)
    settle(NULL, true);
}

// ---- what is called from outside; the lock is not held

void circle_join(circle_member *self, const python_model *model)
{
  pthread_mutex_lock(&lock);
  self->model = model;
  self->next = members;
  members = self;
  pthread_mutex_unlock(&lock);
}

static void forget(circle_member *self)
{
  while (self->calls != NULL)
    drop(self->calls);
  for (circle_member *m = members; m != NULL; m = m->next)
    for (circle_call *call = m->calls; call != NULL; call = call->next)
      if (call->at == self) {
        leave_work(call);
        call->at = NULL;
      }
}

void circle_forget(circle_member *self)
{
  pthread_mutex_lock(&lock);
  forget(self);
  pthread_mutex_unlock(&lock);
}

void circle_part(circle_member *self)
{
  pthread_mutex_lock(&lock);
  forget(self);
  for (circle_member **at = &members; *at != NULL; at = &(*at)->next)
    if (*at == self) {
      *at = self->next;
      break;
    }
  pthread_mutex_unlock(&lock);
}

bool circle_is_refused(const circle_call *self)
{
  pthread_mutex_lock(&lock);
  bool refused = self->refused;
  pthread_mutex_unlock(&lock);
  return refused;
}

void circle_open(circle_call *self, circle_member *member, bool waits)
{
  pthread_mutex_lock(&lock);
  assert(self->member == NULL);
  self->member = member;
  self->place = CIRCLE_QUEUED;
  self->next = member->calls;
  self->from = &member->calls;
  if (self->next != NULL)
    self->next->from = &self->next;
  member->calls = self;
  if (waits && member->waits_for == NULL)
    member->waits_for = self;
  atomic_fetch_add_explicit(&open_count, 1, memory_order_relaxed);
  pthread_mutex_unlock(&lock);
}

bool circle_submit(circle_call *self, TRITONSERVER_InferenceRequest *request, int64_t version)
{
  bool settled = true;
  self->version = version;
  pthread_mutex_lock(&lock);
  if (self->member != NULL) {
    assert(self->request == NULL && self->place == CIRCLE_QUEUED);
    self->request = request;
    enter_bucket(self);
    settled = settle(self, false);
  }
  pthread_mutex_unlock(&lock);
  return settled;
}

void circle_wait(circle_member *member, uint64_t id, uint64_t seen)
{
  pthread_mutex_lock(&lock);
  circle_call *call = member->calls;
  while (call != NULL && call->id != id)
    call = call->next;
  if (call != NULL && call->replies == seen && !call->lent && member->waits_for == NULL) {
    member->waits_for = call;
    settle(call, true);
  }
  pthread_mutex_unlock(&lock);
}

bool circle_reply(circle_call *self, bool final)
{
  pthread_mutex_lock(&lock);
  bool lent = self->lent;
  end_loan(self);
  self->replies++;
  if (self->member != NULL && self->member->waits_for == self)
    self->member->waits_for = NULL;
  if (self->member != NULL && final)
    drop(self);
  settle_loans();
  pthread_mutex_unlock(&lock);
  return lent;
}

void circle_released(circle_call *self)
{
  pthread_mutex_lock(&lock);
  if (self->member != NULL) {
    leave_bucket(self);
    leave_work(self);
    self->place = CIRCLE_ELSEWHERE;
  }
  pthread_mutex_unlock(&lock);
}

// A call is in the table before its request comes to any execution.
static bool is_empty(void)
{
  return atomic_load_explicit(&open_count, memory_order_relaxed) == 0;
}

bool circle_has_call(TRITONBACKEND_Request *const *requests, uint32_t count)
{
  bool found = false;
  if (is_empty())
    return false;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count && !found; i++)
    found = find_request(requests[i]) != NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

static void enter_work(circle_call *self, circle_work *work, circle_member *by)
{
  self->place = CIRCLE_EXECUTING;
  self->at = by;
  self->next_in_work = work->calls;
  self->from_work = &work->calls;
  if (self->next_in_work != NULL)
    self->next_in_work->from_work = &self->next_in_work;
  work->calls = self;
}

bool circle_executing(circle_work *work, circle_member *by, uint64_t execution,
                      TRITONBACKEND_Request *const *requests, uint32_t count)
{
  work->calls = NULL;
  work->by = NULL;
  if (is_empty())
    return false;
  pthread_mutex_lock(&lock);
  for (uint32_t i = 0; i < count; i++) {
    circle_call *call = find_request(requests[i]);
    if (call == NULL || call->place != CIRCLE_QUEUED)
      continue;
    enter_work(call, work, by);
  }
  bool found = work->calls != NULL;
  if (found) {
    work->by = by;
    work->execution = execution;
    work->below = by->works;
    by->works = work;
    settle(work->calls, true);
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static void leave_member(circle_work *self)
{
  circle_work **at = &self->by->works;
  while (*at != self) {
    assert(*at != NULL);
    at = &(*at)->below;
  }
  *at = self->below;
}

void circle_executed(circle_work *work)
{
  pthread_mutex_lock(&lock);
  leave_member(work);
  while (work->calls != NULL) {
    circle_call *call = work->calls;
    leave_work(call);
    settle(call, true);
  }
  settle_loans();
  pthread_mutex_unlock(&lock);
}

void circle_count(circle_member *self, int difference)
{
  pthread_mutex_lock(&lock);
  assert(difference >= 0 || self->depth > 0);
  self->depth += (unsigned)difference;
  pthread_mutex_unlock(&lock);
}

bool circle_is_waiting(const circle_member *self)
{
  pthread_mutex_lock(&lock);
  bool waiting = self->waits_for != NULL;
  pthread_mutex_unlock(&lock);
  return waiting;
}
