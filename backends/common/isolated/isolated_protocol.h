// SPDX-License-Identifier: Apache-2.0
// The messages between the server (backends/isolated) and a model's own process (src/host) over
// channels (docs/internals/isolation.md). Both are of one build. The process trusts the server; the
// server trusts nothing that it reads.
#ifndef NEREID_ISOLATED_ISOLATED_PROTOCOL_H
#define NEREID_ISOLATED_ISOLATED_PROTOCOL_H

#include "wire.h"

#include <stdint.h>

#define MAX_ISOLATED_CONTROL (64 << 20) // bytes of a control part that the server reads

// On CHANNEL_WORK of the model's channel. Each is answered on CHANNEL_ANSWERS by a message of the
// same kind with `value` 1 (success) or 0 (an error: code, text). A text includes its NUL.
//   LOAD      description, configuration      answer: '1' when READY may be asked, else '0', and
//             the completed configuration behind it
//   ATTACH    an instance's name; its channel comes over the socket
//   READY     `value`: an instance's index    answer: whether it is ready
//   FINALIZE  nothing; then it exits
//   CANCEL    id: a request's number; has no answer
// On an instance's channel, whose regions are empty: all blocks are in the model's channel.
typedef enum isolated_kind {
  ISOLATED_LOAD = 1,
  ISOLATED_ATTACH,
  ISOLATED_READY,
  ISOLATED_CANCEL,
  ISOLATED_FINALIZE,
  ISOLATED_EXECUTE,
  ISOLATED_EVENTS
} isolated_kind;

// A batch is one block that begins at `value`: the inputs, then a control part. The control part:
// count (u32), then for each request: its number (u64), id (text), flags (u32), correlation id
// (u64, text; empty: the number counts), timeout (u64), parameters, names of outputs, inputs. Each
// list is a count (u32) and its entries. A parameter: name, type (u8), value. An input: name,
// datatype (u32), dims, offset in the block and size (u64). Dims are i64. An event is a kind (u8),
// then:
typedef enum isolated_event {
  // request (u64), flags (u32), error code + 1 or 0 (u32), error's text, parameters (the value of
  // a number or boolean is 8 bytes), outputs as inputs above; an offset is in the process's region
  EVENT_RESPONSE = 1,
  EVENT_FLAGS,               // request, flags (u32): no response
  EVENT_STATISTICS,          // request, success (u8), four times (u64)
  EVENT_RESPONSE_STATISTICS, // request, outcome (u8), three times
  EVENT_RELEASE,             // request, flags (u32)
  EVENT_BATCH                // the instance's index (u32), rows (u64), four times
} isolated_event;

#endif
