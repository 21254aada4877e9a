// SPDX-License-Identifier: Apache-2.0
// The messages between the Python backend (the host) and its worker processes over a channel
// (channel.h): the kinds and their control parts, written and read with wire.h. Included by the
// backend, its launcher and the worker's extension, which share no other header of the backend.
//
// Notation: u8, u32, u64, i64, f64 and text are wire.h's. "tensor" is
//   text name, u32 datatype (TRITONSERVER_DataType), u32 rank, i64 dims[rank], u64 offset, u64 size
// with offset and size in the sender's region. The datatype's bits above the lowest 8 hold 1 + n
// for a tensor on device n: offset is then in the worker's region there. BYTES data is in Triton's
// form: each element a little-endian uint32_t and its bytes. "response" is
//   u8 kind (below), then
//   RESPONSE_ERROR: u32 code (TRITONSERVER_Error_Code), text message
//   RESPONSE_TENSORS: text parameters (a JSON object, or empty), u32 count, tensor[count]
//   RESPONSE_NONE, RESPONSE_RESCHEDULED, RESPONSE_FAILED: nothing
// "correlation" is u8 0, u64 number or u8 1, text.
#ifndef NEREID_PYTHON_PROTOCOL_H
#define NEREID_PYTHON_PROTOCOL_H

#include <stdint.h>

#define PROTOCOL_VERSION 6
// The worker's end of the socket pair. The memfd and protocol_device messages come over it. When
// it closes, the worker exits.
#define PROTOCOL_SOCKET 3
// With this signal the server tells a guard to end its program, and the guard ends by it too.
// Programs do not end by it on their own, and service managers send other signals.
#define PROTOCOL_KILL_SIGNAL  64
#define MAX_PROTOCOL_CONTROL  (64 << 20) // bytes of a control part
#define MAX_PROTOCOL_NAME     255        // bytes of a tensor's name, which contains no NUL
#define PROTOCOL_DEVICE_SHIFT 8          // position of a tensor's device in its datatype

// Host → worker, over the socket, after the memfd.
enum protocol_device_kind {
  DEVICE_PIECE = 1, // with a descriptor: the region's next memory, `size` bytes at `offset`
  DEVICE_GRANT,     // answers CALL_DEVICE_ROOM: this part of the region is the worker's
  DEVICE_REFUSED    // answers CALL_DEVICE_ROOM: there is no room, `text` says why
};

typedef struct protocol_device {
  uint32_t kind;
  int32_t device; // ordinal
  uint64_t offset, size;
  char text[232];
} protocol_device;

enum response_kind {
  RESPONSE_NONE,
  RESPONSE_TENSORS,
  RESPONSE_ERROR,
  RESPONSE_RESCHEDULED, // in an answer to WORK_EXECUTE
  RESPONSE_FAILED       // in an answer to WORK_EXECUTE
};

// CHANNEL_WORK, host → worker. The worker's main thread does one message after another and answers
// each on CHANNEL_ANSWERS with the same `kind` and `id`. An answer's control part begins with u8
// ok. With ok 0, text reason (the exception and its place) and text traceback follow.
enum work_kind {
  // Sent by the worker unasked when it has started: u8 1, u32 PROTOCOL_VERSION, text Python's
  // version, text executable.
  WORK_HELLO = 1,
  // text JSON: {"model_name", "model_version" (text), "instance_name", "model_path" (directory of
  // the model), "model_file" (path of model.py), "module" ("1.model", "src.model", or "model" for a
  // backend of Python), "search" [directories appended to sys.path in order]}. The worker imports
  // the module. Answer: u8 1, u8 has auto_complete_config, u8 is execute a coroutine function, u8
  // has is_ready.
  WORK_LOAD,
  // text model configuration (JSON). Answer: u8 1, text the completed configuration (JSON).
  WORK_AUTO_COMPLETE,
  // text JSON, the args of initialize, all values are texts; text the instance's name from now on.
  // Answer: u8 1.
  WORK_INITIALIZE,
  // value: the number of requests; flags: WORK_LOG_*, the log levels that are on. Control: u32
  // count, then for each: u64 handle, text id, correlation, u32 flags, u64 timeout (µs), text
  // parameters (JSON object or empty), text trace context, u32 count and text[] requested outputs,
  // u32 count and tensor[] inputs. All input data and the control part are in the block at
  // `offset`. The block is the worker's until it sends CALL_RELEASE or sets ANSWER_RELEASED in the
  // answer. Several may be sent before the first is answered. Answer: u8 1, u32 count (as in the
  // work), u64 when the worker took the work (0: unknown), u64 when `execute` returned (ns of
  // CLOCK_MONOTONIC), response[count]. RESPONSE_NONE: the responses come, or came, by CALL_RESPONSE
  // with the request's handle. RESPONSE_RESCHEDULED: the host releases the request with RESCHEDULE,
  // and it comes again with another handle; a decoupled model may still answer with the old handle
  // until it sends RESPONSE_FORGOTTEN. RESPONSE_FAILED: the error comes, or came, by CALL_RESPONSE,
  // after the responses sent before.
  WORK_EXECUTE,
  // Answer: u8 1, u8 ready (the model's is_ready; 1 when it has none).
  WORK_IS_READY,
  // The worker calls finalize, answers u8 1, and exits with status 0.
  WORK_FINALIZE
};

enum work_flags {
  WORK_LOG_INFO = 1,
  WORK_LOG_WARN = 2,
  WORK_LOG_ERROR = 4,
  WORK_LOG_VERBOSE = 8,
  WORK_DECOUPLED = 16, // the model's transaction policy
  WORK_CROWDED = 32 // there is much work: a thread that waits for the next message sleeps at once
};

enum log_flags {
  LOG_OF_WORKER = 16 // the line is the worker's, not the model's
};

enum answer_flags {
  ANSWER_RELEASED = 1, // the work's block is no longer used
  ANSWER_ON_DEVICE = 2 // some of its tensors are on a device
};

// CHANNEL_CALLS, worker → host. Calls marked (reply) have an `id` that the worker chose, unique
// among its open calls, and get exactly one reply on CHANNEL_REPLIES with that id (CALL_INFER: see
// there). The memory of a call's control part and tensors is the worker's again when the host has
// called channel_done for it; the host copies what it needs longer.
enum call_kind {
  // id: the request's handle. flags: RESPONSE_FINAL; RESPONSE_FORGOTTEN (decoupled model): nothing
  // more comes with this handle; RESPONSE_AGAIN: reschedule the request of a model that is not
  // decoupled and had answered RESPONSE_NONE. Control: response, RESPONSE_NONE when there are only
  // flags.
  CALL_RESPONSE = 1,
  // value: the offset of a host's block that the worker no longer uses.
  CALL_RELEASE,
  // flags: one of WORK_LOG_*, and LOG_OF_WORKER. Control: text message, text file, u32 line, u8 1
  // when the line is about requests, text their ids.
  CALL_LOG,
  // (reply) value: the handle of a request. Reply: value 1 when it is cancelled.
  CALL_IS_CANCELLED,
  // (reply) An inference. flags: call_flags; value: with INFER_WAITS or INFER_AWAITS the id of the
  // WORK_EXECUTE that waits for the reply. Control: text model, i64 version (-1 newest), text id,
  // correlation, u32 flags, u64 timeout (µs), u64 priority, text parameters (JSON), u64 parent
  // (handle of the request whose trace it continues, or 0), u32 count and text[] requested outputs,
  // u32 count and tensor[] inputs. A reply's control is a response; the last has REPLY_FINAL and
  // may be RESPONSE_NONE. Without INFER_DECOUPLED there is exactly one reply, and decoupled models
  // are refused.
  CALL_INFER,
  // id: that of an open CALL_INFER. The id of an ended one has no effect.
  CALL_INFER_CANCEL,
  // (reply) Custom metrics; value: the object's number, from the reply of the call that made it.
  CALL_FAMILY_NEW,    // control: text name, text description, u32 kind (TRITONSERVER_MetricKind)
  CALL_FAMILY_DELETE, // value: family
  CALL_METRIC_NEW,    // value: family; control: text labels (JSON object), u32 count, f64[] buckets
  CALL_METRIC_DELETE, // value: metric
  CALL_METRIC_ADD,    // value: metric; control: f64
  CALL_METRIC_SET,
  CALL_METRIC_OBSERVE,
  CALL_METRIC_VALUE, // the reply's control: f64
  // (reply) Model control.
  CALL_MODEL_LOAD,   // control: text model, text config (JSON or empty), u32 count and (text path,
                     // text content)[]
  CALL_MODEL_UNLOAD, // control: text model; flags: UNLOAD_DEPENDENTS
  CALL_MODEL_IS_READY, // control: text model, text version (may be empty). Reply: value 1 when
                       // ready
  // id: that of a CALL_INFER with INFER_DECOUPLED. execute's thread waits for the next reply.
  // flags, value: as in a CALL_INFER with INFER_WAITS. Control: u64 how many replies have come.
  CALL_INFER_WAIT,
  // flags: a device; value: bytes that the worker wants in its region there. The answer comes over
  // the socket. One at a time.
  CALL_DEVICE_ROOM,
  // flags: a device whose region the worker cannot map. Control: text why.
  CALL_DEVICE_UNMAPPED
};

enum call_flags {
  RESPONSE_FINAL = 1, // CALL_RESPONSE
  RESPONSE_FORGOTTEN = 2,
  RESPONSE_AGAIN = 4,
  INFER_DECOUPLED = 1,  // CALL_INFER
  INFER_WAITS = 2,      // CALL_INFER: execute's thread waits for the reply
  INFER_AWAITS = 4,     // CALL_INFER: the coroutine that `execute` returned waits for the reply
  INFER_SHARED = 8,     // with INFER_WAITS: other threads may answer the requests meanwhile
  INFER_ON_CPU = 16,    // CALL_INFER: outputs on the CPU; else where the model puts them
  INFER_ON_DEVICE = 32, // CALL_INFER: outputs on the device in the flags' upper 16 bits
  INFER_LENDS = 64,     // CALL_INFER: the worker keeps the inputs until REPLY_INPUTS_FREE
  INFER_DEVICE_SHIFT = 16,
  UNLOAD_DEPENDENTS = 1, // CALL_MODEL_UNLOAD
};

// CHANNEL_REPLIES, host → worker, with the call's `id` and `kind`. The block at `offset` holds only
// the control part. Each reply tensor with data is a block of its own, at the tensor's offset. Each
// of these blocks is the worker's until it sends CALL_RELEASE with the block's offset. Tensors on a
// device are the worker's as long as the control part's block.
enum reply_flags {
  REPLY_FINAL = 1,
  // control: u32 code, text message. Not for CALL_INFER, whose errors are responses.
  REPLY_FAILED = 2,
  // Sent once after a CALL_INFER with INFER_LENDS, also after a failed one: the server no longer
  // reads the inputs.
  REPLY_INPUTS_FREE = 4
};

#endif
