// SPDX-License-Identifier: Apache-2.0
// Control methods: one message, one question to the server, one reply, as the method's row says.
// Called on the thread that has the call.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_CONTROL_METHOD_H
#define NEREID_FRONTEND_GRPC_SERVICE_CONTROL_METHOD_H

#include <stdint.h>

typedef struct call call;

// Values of `handle` for control methods: run on the loop's thread; in a job, because backends are
// asked; in a job that may wait for models; in a job that asks a GPU's driver.
void control_method_run(call *c);
void control_method_probe(call *c);
void control_method_block(call *c);
void control_method_ask_driver(call *c);

// Replies with a message whose first field is a number, bool or enum.
void control_reply_number(call *c, uint64_t value);

#endif
