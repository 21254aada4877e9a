// SPDX-License-Identifier: Apache-2.0
// Answers open requests: response, statistics, release. The caller uses the request, or has taken
// it out of the table; any thread, unless said otherwise.
#ifndef NEREID_PYTHON_OPEN_REQUEST_H
#define NEREID_PYTHON_OPEN_REQUEST_H

#include "codec/tensor_wire.h"
#include "instance/python_instance.h"

// Prepends Triton's words for requests that failed together, unless they are there already.
TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned);

// Makes the request's response from the worker's; on failure `response` is NULL and `error` set.
// The reader ends up after the response. `devices`: NULL where no tensor may be on a device, so
// that no driver is called.
void open_request_fill(const python_instance *instance, open_request *self, const channel *channel,
                       device_share *devices, wire_reader *reader, const wire_response *head);

void open_request_report(const python_instance *instance, const open_request *self, bool success);
void open_request_release(const python_instance *instance, const open_request *self);

// Sends the final response, reports statistics and releases the request.
void open_request_end(const python_instance *instance, open_request *self);
// The same with an error as the response.
void open_request_fail(const python_instance *instance, open_request *self,
                       TRITONSERVER_Error *error);

// Takes a request that the caller uses out of the table, because its worker is gone. Fails it if an
// answer is still due.
void open_request_abandon(python_instance *instance, open_request *self, TRITONSERVER_Error *error);

// Reports the request and reschedules it; answers with the error where that is not allowed. The
// request is already out of the table.
void open_request_reschedule(const python_instance *instance, open_request *self);

// Handles the calls of a worker about its requests: later responses, logs, released memory, whether
// a request is cancelled. Replies where the call has a reply. False: another kind of call. The
// listener's thread, which calls channel_done afterwards.
bool open_request_take_call(python_instance *instance, worker_link *link,
                            const channel_message *call);

#endif
