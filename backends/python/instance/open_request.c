// What the server is told of one request. See open_request.h.
#include "instance/open_request.h"

#include "backend_error.h"
#include "base/clock.h"
#include "codec/response_fill.h"

#include <string.h>

TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned)
{
  static const char start[] = "Failed to process the request(s) for model instance '";
  const char *text = TRITONSERVER_ErrorMessage(error_owned);
  if (strncmp(text, start, sizeof start - 1) == 0)
    return error_owned;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(error_owned), "%s%s', message: %s", start,
                    worker_name(instance->worker), text);
  TRITONSERVER_ErrorDelete(error_owned);
  return error;
}

void open_request_log_error(const python_instance *instance, const open_request *self,
                            TRITONSERVER_Error *error_owned, const char *doing)
{
  backend_request_error_log(instance->server_instance, self->request, error_owned, doing);
}

static TRITONSERVER_Error *make_response(open_request *self)
{
  TRITONSERVER_Error *error =
      self->factory != NULL ? TRITONBACKEND_ResponseNewFromFactory(&self->response, self->factory)
                            : TRITONBACKEND_ResponseNew(&self->response, self->request);
  if (error != NULL)
    self->response = NULL;
  return error;
}

void open_request_fill(const python_instance *instance, open_request *self, const channel *channel,
                       wire_reader *reader, const wire_response *head)
{
  self->error = make_response(self);
  if (self->error != NULL)
    response_skip(channel, reader, head);
  else
    self->error = response_fill(self->response, &instance->model->signature, channel, reader, head);
}

void open_request_report(const python_instance *instance, const open_request *self, bool success)
{
  const uint64_t now = clock_monotonic_ns();
  const uint64_t computed = self->compute_end_ns == 0 ? now : self->compute_end_ns;
  open_request_log_error(instance, self,
                         TRITONBACKEND_ModelInstanceReportStatistics(
                             instance->server_instance, self->request, success, self->exec_start_ns,
                             self->compute_start_ns, computed, now),
                         "report request statistics");
}

void open_request_release(const python_instance *instance, const open_request *self)
{
  if (self->factory != NULL)
    open_request_log_error(instance, self, TRITONBACKEND_ResponseFactoryDelete(self->factory),
                           "delete a response factory");
  if (self->request != NULL)
    open_request_log_error(
        instance, self,
        TRITONBACKEND_RequestRelease(self->request, TRITONSERVER_REQUEST_RELEASE_ALL),
        "release a request");
}

static void send(const python_instance *instance, open_request *self, uint32_t flags,
                 TRITONSERVER_Error *error)
{
  open_request_log_error(instance, self, TRITONBACKEND_ResponseSend(self->response, flags, error),
                         "send a response");
  self->response = NULL;
}

void open_request_send(const python_instance *instance, open_request *self, uint32_t flags)
{
  if (self->response != NULL) {
    send(instance, self, flags, self->error);
    TRITONSERVER_ErrorDelete(self->error);
  } else {
    open_request_log_error(instance, self, self->error, "make a response");
  }
  self->error = NULL;
}

void open_request_end(const python_instance *instance, open_request *self)
{
  if (self->response == NULL) {
    TRITONSERVER_Error *error = self->error;
    open_request_fail(instance, self, error);
    TRITONSERVER_ErrorDelete(error);
    return;
  }
  open_request_send(instance, self, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  open_request_release(instance, self);
}

void open_request_fail(const python_instance *instance, open_request *self,
                       TRITONSERVER_Error *error)
{
  TRITONSERVER_Error *failure = make_response(self);
  self->compute_end_ns = 0;
  if (self->request != NULL)
    open_request_report(instance, self, false);
  if (failure == NULL)
    send(instance, self, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  open_request_log_error(instance, self, failure, "make an error response");
  open_request_release(instance, self);
}
