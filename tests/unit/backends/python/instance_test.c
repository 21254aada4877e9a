// SPDX-License-Identifier: Apache-2.0
// An instance of a Python model (instance/python_instance.c): what its worker's events lead to,
// when it can be waited for, and how the first one completes the configuration. The worker, the
// calls and the server are the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/protocol.h"
#include "instance/python_instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  unsigned workers, calls; // alive
  const worker_events *events;
  void *user;
  char name[32];
  bool does_not_start, is_passive, wants_complete, is_of_model;
  unsigned recorded, read, handled;
  const char *completed;               // by the model; NULL: nothing
  TRITONSERVER_Error_Code set_refused; // 0: no
  char config[64];                     // that the server was given
  char failure[256];                   // of the last response
  unsigned failures, releases;
} seen;

static char worker_made, link_made, calls_made; // their addresses are the objects
static char model_of_server, requests[3];

// ---- the worker

worker *worker_new(const worker_settings *settings, const char *name, const worker_events *events,
                   void *user)
{
  (void)settings;
  snprintf(seen.name, sizeof seen.name, "%s", name);
  seen.events = events;
  seen.user = user;
  seen.workers++;
  return (worker *)&worker_made;
}

TRITONSERVER_Error *worker_start(worker *self)
{
  (void)self;
  return seen.does_not_start ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no start")
                             : NULL;
}

void worker_stop(worker *self)
{
  (void)self;
}

void worker_free(worker *self)
{
  assert_ptr_equal(self, &worker_made);
  assert_true(seen.workers > 0);
  seen.workers--;
}

const char *worker_name(const worker *self)
{
  (void)self;
  return seen.name;
}

NEREID_LogSubject worker_log_subject(const worker *self)
{
  (void)self;
  return (NEREID_LogSubject){0};
}

TRITONSERVER_Error *worker_initialize(worker *self, const char *name, const char *arguments)
{
  const python_instance *instance = seen.user;
  (void)self;
  assert_string_equal(name, "played_0");
  assert_string_equal(arguments, "{}");
  assert_non_null(instance->server_instance); // its calls may need it
  assert_string_equal(instance->host_policy, "cpu");
  return NULL;
}

TRITONSERVER_Error *worker_complete(worker *self, const char *config, char **completed)
{
  (void)self;
  assert_string_equal(config, "{\"before\":1}");
  *completed = seen.completed == NULL ? NULL : strdup(seen.completed);
  return NULL;
}

void worker_record_call(worker *self, bool is_of_model)
{
  (void)self;
  seen.recorded++;
  seen.is_of_model = is_of_model;
}

// ---- its calls

static TRITONSERVER_Error *calls_begin(python_instance *instance, worker_link *link,
                                       struct calls **made)
{
  assert_ptr_equal(instance, seen.user);
  assert_ptr_equal(link, &link_made);
  seen.calls++;
  *made = (struct calls *)&calls_made;
  return NULL;
}

static bool calls_handle(struct calls *calls, const channel_message *message)
{
  assert_ptr_equal(calls, &calls_made);
  seen.handled++;
  return message->kind <= CALL_INFER_WAIT;
}

static bool calls_are_under_way(struct calls *calls)
{
  return calls != NULL;
}

static void calls_end(struct calls *calls)
{
  assert_ptr_equal(calls, &calls_made);
  seen.calls--;
}

static const instance_calls PLAYED = {.begin = calls_begin,
                                      .handle = calls_handle,
                                      .are_under_way = calls_are_under_way,
                                      .end = calls_end};

// ---- the server

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *instance,
                                                          TRITONSERVER_Message **message)
{
  static TRITONSERVER_Message *last; // the server's
  (void)instance;
  if (last != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(last));
  last = NULL;
  if (message == NULL)
    return NULL;
  TRITONSERVER_Error *error =
      TRITONSERVER_MessageNewFromSerializedJson(message, "{\"cpu\":{}}", 10);
  last = *message;
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance *instance,
                                                         bool *is_passive)
{
  (void)instance;
  *is_passive = seen.is_passive;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model, bool *wanted)
{
  (void)model;
  *wanted = seen.wants_complete;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, const uint32_t version,
                                                 TRITONSERVER_Message *message)
{
  const char *text;
  size_t size;
  (void)model, (void)version;
  if (seen.set_refused != 0)
    return TRITONSERVER_ErrorNew(seen.set_refused, "not that");
  assert_null(TRITONSERVER_MessageSerializeToJson(message, &text, &size));
  snprintf(seen.config, sizeof seen.config, "%.*s", (int)size, text);
  return NULL;
}

TRITONSERVER_Error *python_model_read_config(python_model *self)
{
  (void)self;
  seen.read++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response,
                                              TRITONBACKEND_Request *request)
{
  *response = (TRITONBACKEND_Response *)request;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t flags,
                                               TRITONSERVER_Error *error)
{
  (void)response;
  assert_int_equal(flags, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  snprintf(seen.failure, sizeof seen.failure, "%s", TRITONSERVER_ErrorMessage(error));
  seen.failures++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t flags)
{
  (void)request, (void)flags;
  seen.releases++;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request, const bool success,
    const uint64_t exec_start_ns, const uint64_t compute_start_ns, const uint64_t compute_end_ns,
    const uint64_t exec_end_ns)
{
  (void)instance, (void)request, (void)exec_start_ns, (void)compute_start_ns, (void)compute_end_ns,
      (void)exec_end_ns;
  assert_false(success);
  return NULL;
}

// ---- what is tested

static python_model model = {.name = (char *)"played",
                             .version = 1,
                             .server_model = (TRITONBACKEND_Model *)&model_of_server,
                             .config_text = (char *)"{\"before\":1}"};

static int begin(void **state)
{
  (void)state;
  memset(&seen, 0, sizeof seen);
  return 0;
}

static int end(void **state)
{
  (void)state;
  assert_true(seen.workers == 0 && seen.calls == 0);
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceHostPolicy(NULL, NULL));
  return 0;
}

static python_instance *start(void)
{
  python_instance *made = NULL;
  assert_null(python_instance_start(&model, "played_0", &PLAYED, &made));
  return made;
}

static void initialize(python_instance *self)
{
  assert_null(python_instance_initialize(self, (TRITONBACKEND_ModelInstance *)&model_of_server,
                                         "played_0", "{}"));
}

static void one_that_does_not_start_leaves_nothing(void **state)
{
  (void)state;
  python_instance *made = NULL;
  seen.does_not_start = true;
  TRITONSERVER_Error *error = python_instance_start(&model, "played_0", &PLAYED, &made);
  assert_non_null(error);
  assert_null(made);
  TRITONSERVER_ErrorDelete(error);
}

static void what_its_worker_says_goes_to_its_calls(void **state)
{
  (void)state;
  worker_link *link = (worker_link *)&link_made;
  python_instance *self = start();
  assert_null(seen.events->calls_begun(self, link));
  assert_int_equal(seen.calls, 1);
  assert_true(seen.events->has_calls(self));
  seen.events->call(self, link, &(channel_message){.kind = CALL_METRIC_SET});
  assert_true(seen.handled == 1 && seen.recorded == 1 && !seen.is_of_model);
  seen.events->call(self, link, &(channel_message){.kind = CALL_INFER});
  assert_true(seen.recorded == 2 && seen.is_of_model);
  seen.events->call(self, link, &(channel_message){.kind = 1000}); // logged, and no more
  assert_true(seen.handled == 3 && seen.recorded == 2);
  seen.events->calls_ended(self);
  assert_null(self->calls);
  assert_null(seen.events->calls_begun(self, link)); // of the next worker
  seen.events->calls_ended(self);
  python_instance_stop(self);
}

static void its_workers_end_fails_what_is_open_once(void **state)
{
  (void)state;
  python_instance *self = start();
  open_request *open[3];
  assert_true(request_table_add(&self->requests, open, 3));
  const uint64_t executed = open[2]->handle;
  for (int i = 0; i < 3; i++) {
    open[i]->request = (TRITONBACKEND_Request *)&requests[i];
    open[i]->is_answered = i < 2; // the last one is an execution's, which ends it
    request_table_end(&self->requests, open[i]);
  }
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "it ended");
  for (int i = 0; i < 2; i++)
    seen.events->gone(self, error);
  TRITONSERVER_ErrorDelete(error);
  assert_true(seen.failures == 2 && seen.releases == 2 && self->requests.open_count == 1);
  request_table_close(&self->requests, request_table_begin(&self->requests, executed));
  assert_string_equal(seen.failure, "Failed to process the request(s) for model instance "
                                    "'played_0', message: it ended");
  python_instance_stop(self);
}

// A call of it is in the graph, or not.
static bool can_be_waited_for(python_instance *self)
{
  wait_call call = {0};
  wait_graph_open(&call, &self->node, &requests[0], NULL);
  const bool is_in = call.node != NULL;
  assert_false(seen.events->waits(self));
  assert_null(wait_graph_wait(&call, WAIT_THREAD, 1, false, 0));
  assert_int_equal(seen.events->waits(self), is_in);
  wait_graph_released(&call);
  wait_graph_reply(&call, true);
  return is_in;
}

static void only_one_that_gets_requests_is_in_the_graph(void **state)
{
  (void)state;
  python_instance *self = start();
  assert_false(can_be_waited_for(self)); // it only completes a configuration
  initialize(self);
  assert_true(can_be_waited_for(self));
  python_instance_stop(self);
  seen.is_passive = true;
  self = start();
  initialize(self);
  assert_false(can_be_waited_for(self));
  python_instance_stop(self);
}

static void a_configuration_is_completed_where_it_is_wanted(void **state)
{
  (void)state;
  assert_null(python_model_complete(&model, &PLAYED));
  assert_null(python_model_take_spare(&model));
  seen.wants_complete = true;
  seen.completed = "{\"after\": 2}";
  assert_null(python_model_complete(&model, &PLAYED));
  assert_string_equal(seen.config, "{\"after\":2}");
  assert_int_equal(seen.read, 1);
  assert_string_equal(seen.name, "played"); // the model's, until it is an instance
  python_instance *spare = python_model_take_spare(&model);
  assert_ptr_equal(spare, seen.user);
  assert_null(python_model_take_spare(&model));
  python_instance_stop(spare);
}

static void a_model_may_complete_nothing_or_nonsense(void **state)
{
  (void)state;
  seen.wants_complete = true;
  assert_null(python_model_complete(&model, &PLAYED));
  assert_int_equal(seen.read, 0);
  python_instance_stop(python_model_take_spare(&model));
  seen.completed = "{";
  TRITONSERVER_Error *error = python_model_complete(&model, &PLAYED);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), "Failed to parse auto-complete JSON.");
  TRITONSERVER_ErrorDelete(error);
  python_instance_stop(python_model_take_spare(&model));
  seen.completed = "{}";
  seen.set_refused = TRITONSERVER_ERROR_INVALID_ARG; // as in Triton: it is left out
  assert_null(python_model_complete(&model, &PLAYED));
  assert_int_equal(seen.read, 1);
  python_instance_stop(python_model_take_spare(&model));
  seen.set_refused = TRITONSERVER_ERROR_INTERNAL;
  error = python_model_complete(&model, &PLAYED);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), "not that");
  TRITONSERVER_ErrorDelete(error);
  python_instance_stop(python_model_take_spare(&model));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(one_that_does_not_start_leaves_nothing, begin, end),
      cmocka_unit_test_setup_teardown(what_its_worker_says_goes_to_its_calls, begin, end),
      cmocka_unit_test_setup_teardown(its_workers_end_fails_what_is_open_once, begin, end),
      cmocka_unit_test_setup_teardown(only_one_that_gets_requests_is_in_the_graph, begin, end),
      cmocka_unit_test_setup_teardown(a_configuration_is_completed_where_it_is_wanted, begin, end),
      cmocka_unit_test_setup_teardown(a_model_may_complete_nothing_or_nonsense, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
