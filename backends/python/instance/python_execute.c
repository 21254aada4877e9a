// The life of an execution: made of a batch, sent to the worker, ended by its answer or its
// death. The instance's thread, or a loop of the server for its first part; what was put aside
// goes on on the listener's (aside.c).
#include "instance/python_execute.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "codec/protocol.h"
#include "codec/response_fill.h"
#include "instance/aside.h"
#include "instance/worker_calls.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_IDS_BYTES 256 // in a line of the log

enum {
  MAX_EXECUTIONS = 8, // that a worker is given, with the one that it runs
  CROWDED_FOR = 16    // executions, after one that was some of many
};

// ---- setting up

static TRITONSERVER_Error *request_rows(TRITONBACKEND_Request *request, uint64_t *rows)
{
  TRITONBACKEND_Input *input;
  const int64_t *dims;
  uint32_t rank = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
  *rows = rank > 0 ? (uint64_t)dims[0] : 1;
  return NULL;
}

// Triton's checks of a batch.
static TRITONSERVER_Error *check_batch(execution *self)
{
  const char *name = worker_keeper_name(self->keeper);
  for (uint32_t i = 0; i < self->count; i++)
    if (self->requests[i] == NULL)
      return backend_error(TRITONSERVER_ERROR_INTERNAL,
                           "null request given to Python backend for '%s'", name);
  for (uint32_t i = 0; i < self->count; i++) {
    uint64_t rows = 1;
    if (self->model->max_batch_size > 0)
      BACKEND_RETURN_IF_ERROR(request_rows(self->requests[i], &rows));
    self->batch_size += rows;
  }
  if (self->batch_size > 1 && self->batch_size > (uint64_t)self->model->max_batch_size)
    return backend_error(
        TRITONSERVER_ERROR_INTERNAL, "batch size %llu for '%s', max allowed is %lld",
        (unsigned long long)self->batch_size, name, (long long)self->model->max_batch_size);
  return NULL;
}

// A copy of `batch` with its lists, in one piece. The server's list of requests is copied too,
// since those that cannot be read are taken out of it. NULL: no memory.
static execution *allocate(const execution *batch)
{
  size_t count = batch->count;
  const size_t each = sizeof(request_facts) + sizeof(open_request) + sizeof(uint64_t) +
                      sizeof(TRITONBACKEND_Request *) + sizeof(TRITONBACKEND_Response *) +
                      sizeof(TRITONSERVER_Error *) + sizeof(bool);
  size_t size;
  if (__builtin_mul_overflow(count, each, &size) ||
      __builtin_add_overflow(size, sizeof(execution), &size))
    return NULL;
  execution *self = calloc(1, size);
  if (self == NULL)
    return NULL;
  *self = *batch;
  self->facts = (request_facts *)(self + 1);
  self->open = (open_request *)(self->facts + count);
  self->handles = (uint64_t *)(self->open + count);
  self->requests = (TRITONBACKEND_Request **)(self->handles + count);
  self->responses = (TRITONBACKEND_Response **)(self->requests + count);
  self->errors = (TRITONSERVER_Error **)(self->responses + count);
  self->held = (bool *)(self->errors + count);
  memcpy(self->requests, batch->requests, count * sizeof(TRITONBACKEND_Request *));
  return self;
}

void execution_free(execution *self)
{
  if (self->has_calls)
    circle_executed(&self->work);
  for (uint32_t i = 0; i < self->count; i++)
    request_facts_fini(&self->facts[i]);
  free(self);
}

static void log_error_of(const execution *self, uint32_t index, TRITONSERVER_Error *error_owned,
                         const char *doing)
{
  backend_request_error_log(worker_keeper_instance(self->keeper), self->requests[index],
                            error_owned, doing);
}

static void move_request(execution *from, uint32_t index, execution *to, uint32_t place)
{
  request_facts facts = from->facts[index];
  from->facts[index] = (request_facts){0};
  to->requests[place] = from->requests[index];
  to->facts[place] = facts;
}

static void count_rows(execution *self)
{
  self->batch_size = 0;
  for (uint32_t i = 0; i < self->count; i++) {
    uint64_t rows = 1;
    if (self->model->max_batch_size > 0)
      log_error_of(self, i, request_rows(self->requests[i], &rows), "read the rows of a request");
    self->batch_size += rows;
  }
}

execution *execution_split(execution *self)
{
  const execution batch = {.keeper = self->keeper,
                           .model = self->model,
                           .requests = self->requests,
                           .count = self->count,
                           .work_id = worker_keeper_number(self->keeper)};
  uint32_t kept = 0;
  for (uint32_t i = 0; i < self->count; i++)
    kept += circle_has_call(&self->requests[i], 1);
  execution *others = kept == self->count ? NULL : allocate(&batch);
  if (others == NULL)
    return NULL;
  kept = others->count = 0;
  for (uint32_t i = 0; i < batch.count; i++)
    if (circle_has_call(&self->requests[i], 1))
      move_request(self, i, self, kept++);
    else
      move_request(self, i, others, others->count++);
  self->count = kept;
  count_rows(self);
  count_rows(others);
  return others;
}

static void delete_factories(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->open[i].factory != NULL)
      log_error_of(self, i, TRITONBACKEND_ResponseFactoryDelete(self->open[i].factory),
                   "delete a response factory");
    self->open[i].factory = NULL;
  }
}

// Decoupled: the request is released when execute returns, its factory lives until the final
// response. Else the request stays until its response.
static TRITONSERVER_Error *open_requests(execution *self)
{
  TRITONSERVER_Error *error = NULL;
  for (uint32_t i = 0; i < self->count && error == NULL; i++) {
    self->open[i] = (open_request){.trace = self->facts[i].traced_by,
                                   .exec_start_ns = self->exec_start_ns,
                                   .compute_start_ns = self->exec_start_ns};
    if (self->model->decoupled)
      error = TRITONBACKEND_ResponseFactoryNew(&self->open[i].factory, self->requests[i]);
    else
      self->open[i].request = self->requests[i];
  }
  if (error == NULL && !request_table_add(worker_keeper_requests(self->keeper), self->open,
                                          self->count, self->handles))
    error = backend_error_no_memory("a batch");
  if (error != NULL)
    delete_factories(self);
  for (uint32_t i = 0; error == NULL && i < self->count; i++)
    self->facts[i].handle = self->handles[i];
  return error;
}

// ---- who answers

static void end_use(execution *self, uint32_t index, bool close)
{
  request_table_end(worker_keeper_requests(self->keeper), self->handles[index], close);
}

// Begins to use all that are still open.
static void hold_all(execution *self)
{
  request_table *table = worker_keeper_requests(self->keeper);
  for (uint32_t i = 0; i < self->count; i++)
    self->held[i] = request_table_begin(table, self->handles[i], &self->open[i]);
}

static void report(execution *self, uint32_t index, bool success)
{
  log_error_of(self, index,
               TRITONBACKEND_ModelInstanceReportStatistics(
                   worker_keeper_instance(self->keeper), self->requests[index], success,
                   self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                   backend_now_ns()),
               "report request statistics");
}

static void report_batch(execution *self)
{
  if (self->batch_size > 0)
    backend_request_error_log(worker_keeper_instance(self->keeper), NULL,
                              TRITONBACKEND_ModelInstanceReportBatchStatistics(
                                  worker_keeper_instance(self->keeper), self->batch_size,
                                  self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                                  backend_now_ns()),
                              "report batch statistics");
}

static void release(execution *self, uint32_t index)
{
  log_error_of(
      self, index,
      TRITONBACKEND_RequestRelease(self->requests[index], TRITONSERVER_REQUEST_RELEASE_ALL),
      "release a request");
}

static void fail_one(execution *self, uint32_t index, TRITONSERVER_Error *error)
{
  open_request unopened = {.request = self->requests[index],
                           .exec_start_ns = self->exec_start_ns,
                           .compute_start_ns = self->exec_start_ns};
  bool decoupled = self->opened && self->model->decoupled;
  if (decoupled)
    report(self, index, false);
  if (!self->opened) {
    worker_call_fail(self->keeper, &unopened, error);
  } else if (self->held[index]) {
    end_use(self, index, true);
    worker_call_fail(self->keeper, &self->open[index], error);
  }
  if (decoupled)
    release(self, index);
}

static void fail_all(execution *self, TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_Error *error = worker_call_explain(self->keeper, error_owned);
  for (uint32_t i = 0; i < self->count; i++)
    fail_one(self, i, error);
  TRITONSERVER_ErrorDelete(error);
}

void execution_fail(execution *self, TRITONSERVER_Error *error_owned)
{
  if (self->opened)
    hold_all(self);
  fail_all(self, error_owned);
}

void execution_drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
{
  fail_one(self, index, error_owned);
  TRITONSERVER_ErrorDelete(error_owned);
  request_facts_fini(&self->facts[index]);
  self->count--;
  uint32_t after = self->count - index;
  memmove(&self->requests[index], &self->requests[index + 1], after * sizeof *self->requests);
  memmove(&self->facts[index], &self->facts[index + 1], after * sizeof *self->facts);
  memmove(&self->open[index], &self->open[index + 1], after * sizeof *self->open);
  memmove(&self->handles[index], &self->handles[index + 1], after * sizeof *self->handles);
  self->facts[self->count] = (request_facts){0};
}

static void read_facts(execution *self)
{
  const char *host_policy = worker_keeper_host_policy(self->keeper);
  for (uint32_t i = 0; i < self->count;) {
    TRITONSERVER_Error *error = request_facts_read(self->requests[i], host_policy, &self->facts[i]);
    if (error == NULL)
      i++;
    else
      execution_drop(self, i, error);
  }
}

// ---- the answer

static TRITONSERVER_Error *decoupled_error(const execution *self, const wire_reader *reader,
                                           const wire_response *head)
{
  if (head->kind == RESPONSE_ERROR && !reader->bad)
    return backend_error(head->code, "%.*s", (int)head->text_length, head->text);
  return backend_error(
      TRITONSERVER_ERROR_INTERNAL,
      "Python model '%s' is using the decoupled mode and the execute function must return None.",
      worker_keeper_name(self->keeper));
}

static void read_response(execution *self, uint32_t index, wire_reader *reader)
{
  const channel *channel = worker_link_channel(self->link);
  wire_response head;
  wire_response_read(reader, &head);
  if (!self->held[index]) {
    response_skip(channel, reader, &head);
    return;
  }
  if (head.kind == RESPONSE_NONE && !reader->bad)
    return;
  if (self->model->decoupled) { // only an error, which ends the request
    response_skip(channel, reader, &head);
    self->errors[index] = decoupled_error(self, reader, &head);
    return;
  }
  self->errors[index] = TRITONBACKEND_ResponseNew(&self->responses[index], self->requests[index]);
  if (self->errors[index] != NULL)
    self->responses[index] = NULL;
  else
    self->errors[index] =
        response_fill(self->responses[index], &self->model->signature, channel, reader, &head);
}

// When `execute` began and ended, by the worker's word, as far as it is possible. One that was sent
// behind others was queued until then. Without a word it is what this side has seen.
static void take_times(execution *self, uint64_t begun_ns, uint64_t ended_ns)
{
  const bool is_known = begun_ns >= self->compute_start_ns && ended_ns >= begun_ns &&
                        ended_ns <= self->compute_end_ns;
  if (!is_known)
    return;
  if (self->is_behind) {
    self->exec_start_ns += begun_ns - self->compute_start_ns;
    self->compute_start_ns = begun_ns;
  }
  self->compute_end_ns = ended_ns;
  _Atomic uint64_t *usual = worker_keeper_ewma_ns(self->keeper);
  const uint64_t before = atomic_load_explicit(usual, memory_order_relaxed);
  const uint64_t took = ended_ns - begun_ns;
  // One that is slow is believed at once.
  const uint64_t now = before < took ? took : before - before / 8 + took / 8;
  atomic_store_explicit(usual, now, memory_order_relaxed);
}

// Of the whole batch; of its requests as many ids as a line takes.
static void log_trace(const execution *self, const char *trace, size_t length)
{
  char ids[REQUEST_IDS_BYTES] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < self->count && used < sizeof ids - 1; i++) {
    const char *id = "";
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(self->requests[i], &id));
    snprintf(ids + used, sizeof ids - used, "%s%s", i > 0 ? ", " : "", id);
    used += strlen(ids + used);
  }
  NEREID_LogSubject about = worker_keeper_log_subject(self->keeper);
  about.request_id = ids;
  BACKEND_LOG_ERROR_ABOUT(&about, "%.*s", (int)length, trace);
}

static TRITONSERVER_Error *read_answer(execution *self, wire_reader *reader)
{
  if (wire_get_u8(reader) == 0) {
    size_t length, trace_length;
    const char *reason = wire_get_text(reader, &length);
    const char *trace = wire_get_text(reader, &trace_length);
    if (trace_length > 0)
      log_trace(self, trace, trace_length);
    if (!reader->bad)
      return backend_error(TRITONSERVER_ERROR_INTERNAL, "%.*s", (int)length, reason);
  }
  uint32_t count = wire_get_u32(reader);
  uint64_t begun_ns = wire_get_u64(reader);
  uint64_t ended_ns = wire_get_u64(reader);
  if (!reader->bad)
    take_times(self, begun_ns, ended_ns);
  if (!reader->bad && count == self->count)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_INTERNAL,
                       "the Python worker answered %u requests, %u were given", count, self->count);
}

// One that is answered now, at once.
static void send_one(execution *self, uint32_t index)
{
  end_use(self, index, true);
  if (self->responses[index] != NULL) {
    log_error_of(self, index,
                 TRITONBACKEND_ResponseSend(self->responses[index],
                                            TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                            self->errors[index]),
                 "send a response");
    release(self, index);
  } else {
    worker_call_fail(self->keeper, &self->open[index], self->errors[index]);
  }
}

// The request's responses come later, if not from here: they are counted with the times that are
// known now. A decoupled model's request is released meanwhile, and its trace with it.
static void answer_later(execution *self, uint32_t index)
{
  open_request *open = &self->open[index];
  open->exec_start_ns = self->exec_start_ns;
  open->compute_start_ns = self->compute_start_ns;
  if (self->model->decoupled)
    open->trace = NULL;
  request_table_change(worker_keeper_requests(self->keeper), self->handles[index], open);
  end_use(self, index, false);
}

// Statistics come before responses, so that who has a response finds it counted.
static void send_answers(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++)
    if (self->model->decoupled || self->responses[i] != NULL)
      report(self, i, self->errors[i] == NULL);
  report_batch(self);
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->held[i] && (self->responses[i] != NULL || self->errors[i] != NULL))
      send_one(self, i);
    else if (self->held[i])
      answer_later(self, i);
    if (self->model->decoupled)
      release(self, i);
    TRITONSERVER_ErrorDelete(self->errors[i]);
  }
}

void execution_take_answer(execution *self, const channel_message *message)
{
  channel *channel = worker_link_channel(self->link);
  control_part answer;
  TRITONSERVER_Error *error = control_part_copy(&answer, self->link, message)
                                  ? read_answer(self, &answer.reader)
                                  : backend_error_no_memory("a Python worker's answer");
  hold_all(self);
  for (uint32_t i = 0; i < self->count && error == NULL; i++)
    read_response(self, i, &answer.reader);
  control_part_fini(&answer);
  if ((message->flags & ANSWER_RELEASED) != 0)
    channel_release(channel, self->block);
  if (error == NULL)
    send_answers(self);
  else
    fail_all(self, error);
}

// ---- the run

static uint32_t log_flags(void)
{
  return (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_INFO) ? WORK_LOG_INFO : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_WARN) ? WORK_LOG_WARN : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_ERROR) ? WORK_LOG_ERROR : 0u) |
         (TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE) ? WORK_LOG_VERBOSE : 0u);
}

// Writes the requests; those whose inputs are at fault are answered, and left out.
static TRITONSERVER_Error *write_requests(execution *self, channel_message *work)
{
  while (self->count > 0) {
    uint32_t culprit;
    TRITONSERVER_Error *error = request_wire_write(worker_link_channel(self->link), self->facts,
                                                   self->count, work, &culprit);
    if (error == NULL || culprit == self->count)
      return error;
    execution_drop(self, culprit, error);
  }
  return NULL;
}

// A worker that cannot be sent to is gone; who waits for its answer is told why.
static void send(execution *self, channel_message *work, uint32_t flags)
{
  work->kind = WORK_EXECUTE;
  work->flags = flags | log_flags() | (self->model->decoupled ? WORK_DECOUPLED : 0u) |
                (self->is_crowded ? WORK_CROWDED : 0u);
  work->value = self->count;
  self->compute_start_ns = backend_now_ns();
  for (uint32_t i = 0; i < self->count; i++)
    request_table_start(worker_keeper_requests(self->keeper), self->handles[i],
                        self->compute_start_ns);
  self->block = work->offset;
  work->id = self->work_id;
  if (!worker_keeper_send(self->link, work))
    channel_close(worker_link_channel(self->link));
}

bool execution_send(execution *self, uint32_t flags)
{
  channel_message work = {0};
  TRITONSERVER_Error *error = open_requests(self);
  if (error == NULL) {
    self->opened = true;
    memset(self->held, 1, self->count * sizeof *self->held);
    error = write_requests(self, &work);
    if (error == NULL && self->count == 0)
      return false;
  }
  if (error == NULL)
    send(self, &work, flags);
  else
    fail_all(self, error);
  return error == NULL;
}

typedef enum progress {
  ENDED,   // all requests have been answered, or will be by CALL_RESPONSE
  PENDING, // the worker is at work
  ASIDE    // it is not ours any more
} progress;

// Waits for the worker's answer and deals with it.
static progress await_answer(execution *self, int64_t timeout_us)
{
  channel_message answer;
  TRITONSERVER_Error *error;
  channel_look(worker_link_channel(self->link), CHANNEL_ANSWERS, !self->is_crowded);
  if (!worker_keeper_poll(self->keeper, self->link, self->work_id, timeout_us, &answer, &error))
    return PENDING;
  self->compute_end_ns = backend_now_ns();
  if (error != NULL) {
    execution_fail(self, error);
  } else if ((answer.flags & ANSWER_LENT) != 0) {
    channel_done(worker_link_channel(self->link), CHANNEL_ANSWERS);
    if (aside_put_lent(self))
      return ASIDE;
    channel_close(worker_link_channel(self->link)); // its end has begun already
    return await_answer(self, timeout_us);
  } else {
    execution_take_answer(self, &answer);
    channel_done(worker_link_channel(self->link), CHANNEL_ANSWERS);
  }
  aside_let_go(worker_keeper_aside(self->keeper));
  return ENDED;
}

static void end_work(execution *self)
{
  worker_keeper_end_work(self->keeper, self->link);
  self->link = NULL;
}

// When it has its turn to work.
static progress begin(execution *self)
{
  aside_list *aside = worker_keeper_aside(self->keeper);
  if (aside_defer(self))
    return ASIDE;
  aside_hold(aside);
  if (execution_send(self, 0))
    return PENDING;
  aside_let_go(aside);
  return ENDED;
}

// From the beginning, waiting for whatever it takes.
static progress run(execution *self)
{
  TRITONSERVER_Error *error = worker_keeper_begin_work(self->keeper, &self->link);
  if (error != NULL) {
    fail_all(self, error);
    return ENDED;
  }
  self->exec_start_ns = backend_now_ns(); // until now it was queued
  progress reached = begin(self);
  return reached == PENDING ? await_answer(self, -1) : reached;
}

// After the turn, whose it was gives it to who waits aside.
static void finish(worker_keeper *keeper, execution *self, progress reached)
{
  if (reached == ENDED && self->link != NULL)
    end_work(self);
  if (reached == ENDED)
    execution_free(self);
  aside_go_on(keeper);
}

// An execution of requests that can be read. An error means that none was touched; `*made` NULL
// without one, that all have been answered.
static TRITONSERVER_Error *execution_new(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                         uint32_t count, execution **made)
{
  execution batch = {
      .keeper = keeper, .model = worker_keeper_model(keeper), .requests = requests, .count = count};
  *made = NULL;
  supervisor_touch(batch.model->backend->workers);
  batch.exec_start_ns = batch.compute_start_ns = batch.compute_end_ns = backend_now_ns();
  BACKEND_RETURN_IF_ERROR(check_batch(&batch));
  execution *self = allocate(&batch);
  if (self == NULL)
    return backend_error_no_memory("a batch");
  self->work_id = worker_keeper_number(keeper);
  self->has_calls = circle_executing(&self->work, worker_keeper_member(keeper), self->work_id,
                                     self->requests, self->count);
  read_facts(self);
  if (self->count > 0)
    *made = self;
  else
    execution_free(self);
  return NULL;
}

TRITONSERVER_Error *python_execute(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                   uint32_t count)
{
  execution *self;
  BACKEND_RETURN_IF_ERROR(execution_new(keeper, requests, count, &self));
  if (self != NULL)
    finish(keeper, self, run(self));
  return NULL;
}

// ---- in two parts

static void append_begun(execution_queue *begun, execution *self)
{
  if (begun->first == NULL)
    begun->first = self;
  else
    begun->last->after = self;
  begun->last = self;
}

static void take_begun(execution_queue *begun, execution *after)
{
  begun->first = after;
  if (after == NULL)
    begun->last = NULL;
}

// The turn to work, or a part in that of the executions before.
static bool try_begin(worker_keeper *keeper, const execution *before, execution *self)
{
  if (before == NULL)
    return worker_keeper_try_begin_work(keeper, &self->link);
  if (before->link == NULL || !aside_is_empty(worker_keeper_aside(keeper)) ||
      !worker_keeper_join_work(keeper, before->link))
    return false; // it comes after those before, and is sent when they have ended
  self->link = before->link;
  self->is_behind = true;
  return true;
}

static void note_crowd(execution_queue *begun, execution *self)
{
  if (self->is_behind || self->count > 1)
    begun->crowded = CROWDED_FOR;
  else if (begun->crowded > 0)
    begun->crowded--;
  self->is_crowded = begun->crowded > 0;
}

TRITONSERVER_Error *python_execute_begin(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                         uint32_t count, bool *pending)
{
  execution_queue *begun = worker_keeper_begun(keeper);
  execution *self;
  *pending = false;
  BACKEND_RETURN_IF_ERROR(execution_new(keeper, requests, count, &self));
  if (self == NULL)
    return NULL;
  progress reached = PENDING;
  bool has_turn = try_begin(keeper, begun->last, self);
  note_crowd(begun, self);
  if (has_turn)
    reached = begin(self);
  *pending = reached == PENDING;
  if (*pending)
    append_begun(begun, self);
  else
    finish(keeper, self, reached);
  return NULL;
}

uint32_t python_executions_most(worker_keeper *keeper)
{
  const execution *before = worker_keeper_begun(keeper)->last;
  const uint64_t usual = atomic_load_explicit(worker_keeper_ewma_ns(keeper), memory_order_relaxed);
  const uint64_t most_us = (uint64_t)worker_keeper_model(keeper)->backend->hand_ahead_us;
  if (before == NULL || before->link == NULL || usual == 0 || usual / 1000 > most_us ||
      !worker_keeper_may_join(keeper, before->link))
    return 1;
  return MAX_EXECUTIONS;
}

void python_execute_end(worker_keeper *keeper, int64_t timeout_us, bool *pending)
{
  execution_queue *begun = worker_keeper_begun(keeper);
  execution *self = begun->first;
  execution *after = self->after; // it may be gone when it has been put aside
  *pending = true;
  if (self->link == NULL && timeout_us >= 0)
    return; // the worker was not free, and this thread must not wait
  progress reached = self->link == NULL ? run(self) : await_answer(self, timeout_us);
  if (reached == PENDING)
    return;
  take_begun(begun, after);
  *pending = false;
  finish(keeper, self, reached);
}
