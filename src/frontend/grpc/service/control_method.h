// SPDX-License-Identifier: Apache-2.0
// Control methods: one message, one question to the server, one reply. The method's row says what
// is read, done and replied. The thread that has the call.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_CONTROL_METHOD_H
#define NEREID_FRONTEND_GRPC_SERVICE_CONTROL_METHOD_H

#include <stdint.h>

typedef struct call call;

// What `handle` is for them: run at once on the loop's thread; in a job, as backends are asked and
// may take their time; in a job that may wait for models; in one that asks a GPU's driver.
void control_method_run(call *c);
void control_method_probe(call *c);
void control_method_block(call *c);
void control_method_ask_driver(call *c);

// Replies with a message that has one field, the first: a number, bool or enum.
void control_reply_number(call *c, uint64_t value);

#endif
