// What a worker says of its requests beside the answers to executions: responses that come later,
// logs, memory that it gives back, whether a request is cancelled. And how a request fails.
#ifndef NEREID_PYTHON_RESPONSE_CALL_H
#define NEREID_PYTHON_RESPONSE_CALL_H

#include "instance/python_instance.h"

// Does what the call asks; replies where it has a reply. False: it is of another kind. The
// listener's thread, which calls channel_done afterwards.
bool response_call_take(python_instance *instance, worker_link *link, const channel_message *call);

// Puts Triton's words for requests that failed together before the reason, unless they are there.
TRITONSERVER_Error *python_instance_explain(const python_instance *instance,
                                            TRITONSERVER_Error *error_owned);

// Answers for good, with an error, a request that is not in the table (any more). Any thread.
void open_request_fail(python_instance *instance, const open_request *request,
                       TRITONSERVER_Error *error);

#endif
