// What a worker says of its requests beside the answers to executions: responses that come later,
// logs, memory that it gives back, whether a request is cancelled.
#ifndef NEREID_PYTHON_RESPONSE_CALL_H
#define NEREID_PYTHON_RESPONSE_CALL_H

#include "instance/python_instance.h"

// Does what the call asks; replies where it has a reply. False: it is of another kind. The
// listener's thread, which calls channel_done afterwards.
bool response_call_take(python_instance *instance, worker_link *link, const channel_message *call);

#endif
