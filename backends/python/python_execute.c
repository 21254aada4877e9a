#include "python_execute.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "backend_log.h"
#include "protocol.h"
#include "request_wire.h"
#include "response_fill.h"
#include "worker_calls.h"

#include <stdlib.h>
#include <string.h>

// One call of execute. A request is ours, the instance thread's, from begin to end of its use in
// the table of open requests; what the worker answers by CALL_RESPONSE meanwhile is the listener's.
typedef struct execution {
  worker_keeper *keeper;
  const python_model *model;
  worker_link *link;
  TRITONBACKEND_Request **requests;
  uint32_t count;
  request_facts *facts;
  open_request *open;
  uint64_t *handles;
  TRITONBACKEND_Response **responses; // of requests that are answered at once
  TRITONSERVER_Error **errors;        // to be sent with them
  channel_message work;
  bool started; // an answer is to come; else a worker is to be waited for
  bool opened;  // the requests are in the table
  bool *held;   // then: the request is ours to answer
  uint64_t batch_size;
  uint64_t exec_start_ns;
  uint64_t compute_start_ns;
  uint64_t compute_end_ns;
} execution;

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

// The server's list is copied, since requests that cannot be read are taken out of it.
static TRITONSERVER_Error *allocate(execution *self, TRITONBACKEND_Request **requests)
{
  uint32_t count = self->count;
  self->requests = calloc(count, sizeof(TRITONBACKEND_Request *));
  self->facts = calloc(count, sizeof *self->facts);
  self->open = calloc(count, sizeof *self->open);
  self->handles = calloc(count, sizeof *self->handles);
  self->responses = calloc(count, sizeof(TRITONBACKEND_Response *));
  self->errors = calloc(count, sizeof(TRITONSERVER_Error *));
  self->held = calloc(count, sizeof *self->held);
  if (self->requests == NULL || self->facts == NULL || self->open == NULL ||
      self->handles == NULL || self->responses == NULL || self->errors == NULL ||
      self->held == NULL)
    return backend_error_no_memory("a batch");
  memcpy(self->requests, requests, count * sizeof *requests);
  return NULL;
}

static void free_parts(execution *self)
{
  for (uint32_t i = 0; self->facts != NULL && i < self->count; i++)
    request_facts_fini(&self->facts[i]);
  free(self->requests);
  free(self->facts);
  free(self->open);
  free(self->handles);
  free(self->responses);
  free(self->errors);
  free(self->held);
}

static void delete_factories(execution *self)
{
  for (uint32_t i = 0; i < self->count; i++) {
    if (self->open[i].factory != NULL)
      backend_error_log(TRITONBACKEND_ResponseFactoryDelete(self->open[i].factory),
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
    self->open[i] = (open_request){.exec_start_ns = self->exec_start_ns,
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
  backend_error_log(TRITONBACKEND_ModelInstanceReportStatistics(
                        worker_keeper_instance(self->keeper), self->requests[index], success,
                        self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                        backend_now_ns()),
                    "report request statistics");
}

static void report_batch(execution *self)
{
  if (self->batch_size > 0)
    backend_error_log(TRITONBACKEND_ModelInstanceReportBatchStatistics(
                          worker_keeper_instance(self->keeper), self->batch_size,
                          self->exec_start_ns, self->compute_start_ns, self->compute_end_ns,
                          backend_now_ns()),
                      "report batch statistics");
}

static void release(execution *self, uint32_t index)
{
  backend_error_log(
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

// Answers all requests that are ours to answer with the same error.
static void fail_all(execution *self, TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_Error *error = worker_call_explain(self->keeper, error_owned);
  for (uint32_t i = 0; i < self->count; i++)
    fail_one(self, i, error);
  TRITONSERVER_ErrorDelete(error);
}

// Answers one request with an error and goes on without it.
static void drop(execution *self, uint32_t index, TRITONSERVER_Error *error_owned)
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
  for (uint32_t i = 0; i < self->count;) {
    TRITONSERVER_Error *error = request_facts_read(self->requests[i], &self->facts[i]);
    if (error == NULL)
      i++;
    else
      drop(self, i, error);
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
        response_fill(self->responses[index], self->model, channel, reader, &head);
}

static TRITONSERVER_Error *read_answer(execution *self, wire_reader *reader)
{
  const char *name = worker_keeper_name(self->keeper);
  if (wire_get_u8(reader) == 0) {
    size_t length, trace_length;
    const char *reason = wire_get_text(reader, &length);
    const char *trace = wire_get_text(reader, &trace_length);
    if (trace_length > 0)
      BACKEND_LOG_ERROR("model '%s', instance '%s': %.*s", self->model->name, name,
                        (int)trace_length, trace);
    if (!reader->bad)
      return backend_error(TRITONSERVER_ERROR_INTERNAL, "%.*s", (int)length, reason);
  }
  uint32_t count = wire_get_u32(reader);
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
    backend_error_log(TRITONBACKEND_ResponseSend(self->responses[index],
                                                 TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                                 self->errors[index]),
                      "send a response");
    release(self, index);
  } else {
    worker_call_fail(self->keeper, &self->open[index], self->errors[index]);
  }
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
      end_use(self, i, false); // its responses come later
    if (self->model->decoupled)
      release(self, i);
    TRITONSERVER_ErrorDelete(self->errors[i]);
  }
}

static void take_answer(execution *self, const channel_message *message, uint64_t block)
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
  channel_done(channel, CHANNEL_ANSWERS);
  if ((message->flags & ANSWER_RELEASED) != 0)
    channel_release(channel, block);
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
    TRITONSERVER_Error *error =
        request_wire_write(self->link, self->facts, self->count, work, &culprit);
    if (error == NULL || culprit == self->count)
      return error;
    drop(self, culprit, error);
  }
  return NULL;
}

static TRITONSERVER_Error *send(execution *self, channel_message *work)
{
  work->kind = WORK_EXECUTE;
  work->flags = log_flags() | (self->model->decoupled ? WORK_DECOUPLED : 0u);
  work->value = self->count;
  self->compute_start_ns = backend_now_ns();
  for (uint32_t i = 0; i < self->count; i++)
    end_use(self, i, false);
  if (worker_keeper_send(self->keeper, self->link, work))
    return NULL;
  return worker_keeper_why_gone(self->keeper, self->link);
}

// Begins the work with a worker that is there. True: an answer is to come.
static bool start(execution *self)
{
  TRITONSERVER_Error *error = open_requests(self);
  if (error == NULL) {
    self->opened = true;
    memset(self->held, 1, self->count * sizeof *self->held);
    error = write_requests(self, &self->work);
    if (error == NULL && self->count > 0) {
      error = send(self, &self->work);
      if (error == NULL)
        return true;
      hold_all(self);
    }
  }
  if (error != NULL)
    fail_all(self, error);
  worker_keeper_end_work(self->keeper, self->link);
  return false;
}

// Waits for the answer and deals with it. False: the time is over.
static bool finish(execution *self, int64_t timeout_us)
{
  channel_message answer;
  bool late;
  TRITONSERVER_Error *error =
      worker_keeper_await(self->keeper, self->link, self->work.id, timeout_us, &answer, &late);
  if (late)
    return false;
  self->compute_end_ns = backend_now_ns();
  if (error == NULL) {
    take_answer(self, &answer, self->work.offset);
  } else {
    hold_all(self);
    fail_all(self, error);
  }
  worker_keeper_end_work(self->keeper, self->link);
  return true;
}

// Waits for a worker, and for its answer.
static void run(execution *self)
{
  TRITONSERVER_Error *error = worker_keeper_begin_work(self->keeper, &self->link);
  if (error != NULL)
    fail_all(self, error);
  else if (start(self))
    finish(self, -1);
}

// Reads the requests; none is left when all of them are at fault. After an error nothing is held.
static TRITONSERVER_Error *prepare(execution *self, worker_keeper *keeper,
                                   TRITONBACKEND_Request **requests, uint32_t count)
{
  uint64_t now = backend_now_ns();
  *self = (execution){.keeper = keeper,
                      .model = worker_keeper_model(keeper),
                      .requests = requests,
                      .count = count,
                      .exec_start_ns = now,
                      .compute_start_ns = now,
                      .compute_end_ns = now};
  supervisor_touch(self->model->backend->workers);
  BACKEND_RETURN_IF_ERROR(check_batch(self));
  TRITONSERVER_Error *error = allocate(self, requests);
  if (error != NULL) {
    free_parts(self);
    return error;
  }
  read_facts(self);
  return NULL;
}

TRITONSERVER_Error *python_execute(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                   uint32_t count)
{
  execution self;
  BACKEND_RETURN_IF_ERROR(prepare(&self, keeper, requests, count));
  if (self.count > 0)
    run(&self);
  free_parts(&self);
  return NULL;
}

// ---- in two parts

static void end(execution *self)
{
  *worker_keeper_execution(self->keeper) = NULL;
  free_parts(self);
  free(self);
}

TRITONSERVER_Error *python_execute_begin(worker_keeper *keeper, TRITONBACKEND_Request **requests,
                                         uint32_t count, bool *pending)
{
  *pending = false;
  execution *self = malloc(sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("a batch");
  TRITONSERVER_Error *error = prepare(self, keeper, requests, count);
  if (error != NULL) {
    free(self);
    return error;
  }
  *worker_keeper_execution(keeper) = self;
  if (self->count > 0 && worker_keeper_try_work(keeper, &self->link)) {
    self->started = true;
    *pending = start(self);
  } else {
    *pending = self->count > 0; // the worker is to be waited for
  }
  if (!*pending)
    end(self);
  return NULL;
}

void python_execute_end(worker_keeper *keeper, int64_t timeout_us, bool *pending)
{
  execution *self = *worker_keeper_execution(keeper);
  *pending = false;
  if (self->started)
    *pending = !finish(self, timeout_us);
  else if (timeout_us < 0)
    run(self);
  else
    *pending = true;
  if (!*pending)
    end(self);
}
