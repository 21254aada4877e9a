// What a worker asks of the host on CHANNEL_CALLS, and the answers of requests that come that way.
// The listener's thread.
#ifndef NEREID_PYTHON_WORKER_CALLS_H
#define NEREID_PYTHON_WORKER_CALLS_H

#include "calls/calls.h"
#include "instance/request_table.h"
#include "process/worker_keeper.h"

// Does what the call asks; replies where it has a reply. The caller calls channel_done.
// `of_model` takes the kinds that are no business of requests.
void worker_call_take(worker_keeper *keeper, calls *of_model, worker_link *link,
                      const channel_message *call);

// Puts Triton's words for requests that failed together before the reason, unless they are there.
TRITONSERVER_Error *worker_call_explain(const worker_keeper *keeper,
                                        TRITONSERVER_Error *error_owned);

// Answers for good, with an error, a request that was taken out of the table. Any thread.
void worker_call_fail(worker_keeper *keeper, const open_request *request,
                      TRITONSERVER_Error *error);

#endif
