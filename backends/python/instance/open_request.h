// SPDX-License-Identifier: Apache-2.0
// How an open request is answered: response, statistics, release. Of whoever uses it, or has taken
// it out of the table; any thread, unless said otherwise.
#ifndef NEREID_PYTHON_OPEN_REQUEST_H
#define NEREID_PYTHON_OPEN_REQUEST_H

#include "codec/tensor_wire.h"
#include "instance/instance.h"

// Puts Triton's words for requests that failed together before the reason, unless they are there.
TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned);

void open_request_log_error(const python_instance *instance, const open_request *self,
                            TRITONSERVER_Error *error_owned, const char *doing);

// Makes its response of what a worker said; without `response` there is an `error` why. The reader
// is past it afterwards. `devices`: NULL where no tensor may be on one, so that no driver is
// called.
void open_request_fill(const python_instance *instance, open_request *self, const channel *channel,
                       device_share *devices, wire_reader *reader, const wire_response *head);

void open_request_report(const python_instance *instance, const open_request *self, bool success);
void open_request_release(const python_instance *instance, const open_request *self);

// Sends `response`, and `error` with it.
void open_request_send(const python_instance *instance, open_request *self, uint32_t flags);
// Sends what is there for good, after it has been reported, and releases.
void open_request_end(const python_instance *instance, open_request *self);
// The same with an error in place of all that.
void open_request_fail(const python_instance *instance, open_request *self,
                       TRITONSERVER_Error *error);

// Takes a request that the caller uses out of the table, whose worker is gone: the same, where an
// answer is still due.
void open_request_abandon(python_instance *instance, open_request *self, TRITONSERVER_Error *error);

// Has it go again, after it has been reported; answers with the error where it must not. It is out
// of the table.
void open_request_reschedule(const python_instance *instance, open_request *self);

// What a worker says of its requests beside the answers to executions: responses that come later,
// logs, memory that it gives back, whether a request is cancelled. Replies where the call has a
// reply. False: it is of another kind. The listener's thread, which calls channel_done afterwards.
bool open_request_take_call(python_instance *instance, worker_link *link,
                            const channel_message *call);

#endif
