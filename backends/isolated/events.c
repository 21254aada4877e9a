// SPDX-License-Identifier: Apache-2.0
// One function for each kind of event. Events of unknown requests are skipped: the request may have
// been answered for the process already.
#include "events.h"

#include "backend_copy.h"
#include "backend_error.h"
#include "base/cleanup.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

bool events_copy_take(events_copy *self, const isolated_child *child,
                      const channel_message *message)
{
  self->reader = (wire_reader){0};
  if (message->size == 0)
    return true;
  const void *theirs = message->size > MAX_ISOLATED_CONTROL
                           ? NULL
                           : channel_other(child->channel, message->offset, message->size);
  if (theirs == NULL)
    return false;
  if (message->size > self->room) {
    uint8_t *grown = realloc(self->bytes, message->size);
    if (grown == NULL)
      return false;
    self->bytes = grown;
    self->room = message->size;
  }
  memcpy(self->bytes, theirs, message->size);
  self->reader = (wire_reader){.at = self->bytes, .end = self->bytes + message->size};
  return true;
}

void events_copy_fini(events_copy *self)
{
  free(self->bytes);
}

// A text including its NUL; otherwise the reader becomes bad.
static const char *get_text(wire_reader *reader)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  if (text == NULL || length == 0 || text[length - 1] != '\0') {
    reader->bad = true;
    return "";
  }
  return text;
}

static void keep_first(TRITONSERVER_Error **first, TRITONSERVER_Error *error)
{
  if (*first == NULL)
    *first = error;
  else
    TRITONSERVER_ErrorDelete(error);
}

// ---- responses

// A response in the making. When it could not be made, its parts are read and dropped.
typedef struct reply {
  isolated_child *child;
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *error; // the first
  int64_t *dims;             // of the current output, for free()
  uint32_t dims_room;
} reply;

static TRITONSERVER_Error *set_parameter(TRITONBACKEND_Response *response, const char *name,
                                         uint8_t type, const char *text, uint64_t bits)
{
  double real;
  memcpy(&real, &bits, sizeof(real));
  switch (type) {
  case TRITONSERVER_PARAMETER_STRING:
    return TRITONBACKEND_ResponseSetStringParameter(response, name, text);
  case TRITONSERVER_PARAMETER_INT:
    return TRITONBACKEND_ResponseSetIntParameter(response, name, (int64_t)bits);
  case TRITONSERVER_PARAMETER_BOOL:
    return TRITONBACKEND_ResponseSetBoolParameter(response, name, bits != 0);
  case TRITONSERVER_PARAMETER_DOUBLE:
    return TRITONBACKEND_ResponseSetDoubleParameter(response, name, real);
  }
  return backend_error_internal("the response's parameter '%s' has an unknown type", name);
}

static void read_parameters(reply *self, wire_reader *reader)
{
  uint32_t count = wire_get_count(reader, sizeof(uint32_t));
  for (uint32_t i = 0; i < count && !reader->bad; i++) {
    const char *name = get_text(reader);
    uint8_t type = wire_get_u8(reader);
    bool is_text = type == TRITONSERVER_PARAMETER_STRING;
    const char *text = is_text ? get_text(reader) : "";
    uint64_t bits = is_text ? 0 : wire_get_u64(reader);
    if (self->response != NULL && !reader->bad)
      keep_first(&self->error, set_parameter(self->response, name, type, text, bits));
  }
}

typedef struct reply_output {
  const char *name;
  TRITONSERVER_DataType datatype;
  uint32_t rank;
  const int64_t *dims;
  uint64_t offset;
  uint64_t size;
} reply_output;

static TRITONSERVER_Error *add_output(const reply *self, const reply_output *o)
{
  TRITONBACKEND_Output *output;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t type_id = 0;
  void *to;
  const void *from = o->size > 0 ? channel_other(self->child->channel, o->offset, o->size) : NULL;
  if (o->size > 0 && from == NULL)
    return backend_error_internal("output '%s' lies outside of the channel", o->name);
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ResponseOutput(self->response, &output, o->name,
                                                       o->datatype, o->dims, o->rank));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_OutputBuffer(output, &to, o->size, &type, &type_id));
  const gpu_place host = {.kind = GPU_MEMORY_HOST};
  const gpu_place device = {.kind = GPU_MEMORY_DEVICE, .device = (int)type_id};
  if (type == TRITONSERVER_MEMORY_GPU)
    return backend_copy_now(to, device, from, host, o->size, o->name);
  if (o->size > 0)
    memcpy(to, from, o->size);
  return NULL;
}

// An aligned private copy. False: no memory, or invalid.
static bool read_dims(reply *self, wire_reader *reader, reply_output *o)
{
  o->rank = wire_get_count(reader, sizeof(int64_t));
  if (o->rank > self->dims_room) {
    int64_t *grown = reallocarray(self->dims, o->rank, sizeof(*grown));
    if (grown == NULL)
      return false;
    self->dims = grown;
    self->dims_room = o->rank;
  }
  for (uint32_t d = 0; d < o->rank; d++)
    self->dims[d] = wire_get_i64(reader);
  o->dims = self->dims;
  return true;
}

static void read_outputs(reply *self, wire_reader *reader)
{
  uint32_t count = wire_get_count(reader, sizeof(uint32_t));
  for (uint32_t i = 0; i < count && !reader->bad; i++) {
    reply_output o = {0};
    o.name = get_text(reader);
    o.datatype = (TRITONSERVER_DataType)wire_get_u32(reader);
    if (!read_dims(self, reader, &o))
      reader->bad = true;
    o.offset = wire_get_u64(reader);
    o.size = wire_get_u64(reader);
    if (self->response != NULL && self->error == NULL && !reader->bad)
      self->error = add_output(self, &o);
  }
}

static TRITONSERVER_Error *error_of(uint32_t code, const char *text)
{
  return code == 0 ? NULL : backend_error((TRITONSERVER_Error_Code)(code - 1), "%s", text);
}

static void answered_in_full(open_request *r)
{
  TRITONBACKEND_ResponseFactoryDelete(r->factory);
  r->factory = NULL;
}

// Sends the response; if there was no memory for it, only the end.
static void send(open_request *r, TRITONBACKEND_Response *response, uint32_t flags,
                 TRITONSERVER_Error *error)
{
  TRITONSERVER_Error *failure = response != NULL
                                    ? TRITONBACKEND_ResponseSend(response, flags, error)
                                    : TRITONBACKEND_ResponseFactorySendFlags(r->factory, flags);
  backend_error_log(failure, "send a response of a model's process");
  if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
    answered_in_full(r);
}

static void read_response(isolated_child *child, wire_reader *reader, open_request *r)
{
  reply self = {.child = child};
  uint32_t flags = wire_get_u32(reader) & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  uint32_t code = wire_get_u32(reader);
  const char *text = get_text(reader);
  if (r != NULL && r->factory != NULL && !reader->bad)
    self.error = TRITONBACKEND_ResponseNewFromFactory(&self.response, r->factory);
  bool made = self.response != NULL;
  if (self.error == NULL)
    self.error = error_of(code, text);
  read_parameters(&self, reader);
  read_outputs(&self, reader);
  if (made && reader->bad)
    TRITONBACKEND_ResponseDelete(self.response); // the process is killed, which answers the request
  else if (r != NULL && r->factory != NULL && !reader->bad)
    send(r, self.response, flags, self.error);
  TRITONSERVER_ErrorDelete(self.error);
  free(self.dims);
}

static void read_flags(wire_reader *reader, open_request *r)
{
  uint32_t flags = wire_get_u32(reader) & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  if (r != NULL && r->factory != NULL && !reader->bad)
    send(r, NULL, flags, NULL);
}

// ---- other events

static void read_statistics(wire_reader *reader, const open_request *r)
{
  bool success = wire_get_u8(reader) != 0;
  uint64_t moments[4];
  for (size_t i = 0; i < 4; i++)
    moments[i] = wire_get_u64(reader);
  if (r != NULL && r->request != NULL && !reader->bad)
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(
        r->instance, r->request, success, moments[0], moments[1], moments[2], moments[3]));
}

static TRITONSERVER_Error *
report_response(TRITONBACKEND_ModelInstanceResponseStatistics *statistics, const open_request *r,
                const uint64_t moments[3], TRITONSERVER_Error *failure)
{
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(statistics, r->instance));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(statistics, r->factory));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(statistics, moments[0]));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(statistics, moments[1]));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(statistics, moments[2]));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ModelInstanceResponseStatisticsSetError(statistics, failure));
  return TRITONBACKEND_ModelInstanceReportResponseStatistics(statistics);
}

// The server's response_outcome.
#define OUTCOME_FAIL   2
#define OUTCOME_CANCEL 3

static void read_response_statistics(wire_reader *reader, const open_request *r)
{
  uint8_t outcome = wire_get_u8(reader);
  uint64_t moments[3];
  TRITONBACKEND_ModelInstanceResponseStatistics *statistics;
  for (size_t i = 0; i < 3; i++)
    moments[i] = wire_get_u64(reader);
  if (r == NULL || r->factory == NULL || reader->bad)
    return;
  TRITONSERVER_Error *error = TRITONBACKEND_ModelInstanceResponseStatisticsNew(&statistics);
  if (error == NULL) {
    TRITONSERVER_Error *failure = outcome == OUTCOME_CANCEL
                                      ? backend_error(TRITONSERVER_ERROR_CANCELLED, "-")
                                  : outcome == OUTCOME_FAIL ? backend_error_internal("-")
                                                            : NULL;
    error = report_response(statistics, r, moments, failure);
    TRITONSERVER_ErrorDelete(failure);
    TRITONBACKEND_ModelInstanceResponseStatisticsDelete(statistics);
  }
  TRITONSERVER_ErrorDelete(error); // for times in a wrong order
}

static void release(isolated_child *child, open_request *r, uint32_t flags)
{
  TRITONBACKEND_Request *request = r->request;
  input_block *block = r->block;
  r->request = NULL;
  r->block = NULL;
  if (open_requests_leave_block(&child->requests, block)) {
    channel_release(child->channel, block->offset);
    free(block);
  }
  backend_error_log(TRITONBACKEND_RequestRelease(request, flags), "release a request");
}

static void read_release(isolated_child *child, wire_reader *reader, open_request *r)
{
  uint32_t flags = wire_get_u32(reader) & TRITONSERVER_REQUEST_RELEASE_ALL;
  if (r != NULL && r->request != NULL && !reader->bad)
    release(child, r, flags);
}

static void read_batch(isolated_child *child, wire_reader *reader)
{
  uint32_t index = wire_get_u32(reader);
  uint64_t rows = wire_get_u64(reader), moments[4];
  for (size_t i = 0; i < 4; i++)
    moments[i] = wire_get_u64(reader);
  LOCK_SCOPE(&child->lock); // keeps the instance alive meanwhile
  reader->bad |= index >= child->instance_count;
  TRITONBACKEND_ModelInstance *instance = reader->bad ? NULL : child->instances[index].instance;
  if (instance != NULL)
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportBatchStatistics(
        instance, rows, moments[0], moments[1], moments[2], moments[3]));
}

// ---- dispatch

static void apply(isolated_child *child, uint8_t kind, wire_reader *reader, open_request *r)
{
  switch (kind) {
  case EVENT_RESPONSE:
    read_response(child, reader, r);
    break;
  case EVENT_FLAGS:
    read_flags(reader, r);
    break;
  case EVENT_STATISTICS:
    read_statistics(reader, r);
    break;
  case EVENT_RESPONSE_STATISTICS:
    read_response_statistics(reader, r);
    break;
  case EVENT_RELEASE:
    read_release(child, reader, r);
    break;
  default:
    reader->bad = true;
  }
}

bool events_apply(isolated_child *child, wire_reader *reader)
{
  while (!reader->bad && reader->at < reader->end) {
    uint8_t kind = wire_get_u8(reader);
    if (kind == EVENT_BATCH) {
      read_batch(child, reader);
      continue;
    }
    open_request *r = open_requests_take(&child->requests, wire_get_u64(reader));
    apply(child, kind, reader, r);
    if (r != NULL)
      child_give_back(child, r);
  }
  return !reader->bad;
}

void events_fail_request(isolated_child *child, open_request *r, TRITONSERVER_Error *error)
{
  TRITONBACKEND_Response *response = NULL;
  if (r->factory != NULL) {
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseNewFromFactory(&response, r->factory));
    send(r, response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
  }
  if (r->request == NULL)
    return;
  uint64_t now = clock_monotonic_ns();
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(
      r->instance, r->request, false, r->begun_ns, r->begun_ns, now, now));
  release(child, r, TRITONSERVER_REQUEST_RELEASE_ALL);
}
