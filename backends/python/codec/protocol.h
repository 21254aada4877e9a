// SPDX-License-Identifier: Apache-2.0
// What the Python backend (the host) and its worker processes say to each other over a channel
// (channel.h): the kinds of messages and what their control parts hold, written and read with
// wire.h. Included by the backend, its launcher and the worker's extension; nothing else is shared
// by them.
//
// Notation: u8, u32, u64, i64, f64 and text are wire.h's. "tensor" is
//   text name, u32 datatype (TRITONSERVER_DataType), u32 rank, i64 dims[rank], u64 offset, u64 size
// with offset and size in the region of the side that sends it. Above the datatype's lowest 8 bits
// stands 1 + n for a tensor on device n: offset is in the worker's region there. BYTES data is
// Triton's form: each element a little-endian uint32_t and its bytes. "response" is
//   u8 kind (below), then
//   RESPONSE_ERROR: u32 code (TRITONSERVER_Error_Code), text message
//   RESPONSE_TENSORS: text parameters (a JSON object, or empty), u32 count, tensor[count]
//   RESPONSE_NONE, RESPONSE_RESCHEDULED, RESPONSE_FAILED: nothing
// "correlation" is u8 0, u64 number or u8 1, text.
#ifndef NEREID_PYTHON_PROTOCOL_H
#define NEREID_PYTHON_PROTOCOL_H

#include <stdint.h>

enum {
  PROTOCOL_VERSION = 6,
  // The worker's end of the socket pair: the memfd comes over it, and protocol_device; its end
  // means exit.
  PROTOCOL_SOCKET = 3,
  // By which the server tells a guard to end its program, and by which the guard ends then; no
  // program ends so by itself, and whoever ends servers sends others.
  PROTOCOL_KILL_SIGNAL = 64,
  MAX_PROTOCOL_CONTROL = 64 << 20, // bytes of a control part
  MAX_PROTOCOL_NAME = 255,         // bytes of a tensor's name, which has no NUL
  PROTOCOL_DEVICE_SHIFT = 8        // of a tensor's device, in its datatype
};

// Host → worker, over the socket behind the memfd.
enum protocol_device_kind {
  DEVICE_PIECE =
      1,         // with a descriptor: memory that follows in the region, `size` bytes at `offset`
  DEVICE_GRANT,  // the answer to CALL_DEVICE_ROOM: that part of the region is the worker's
  DEVICE_REFUSED // the same: there is none, `text` says why
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
  RESPONSE_FAILED       // the same
};

// CHANNEL_WORK, host → worker. The worker's main thread does one after the other and answers each
// on CHANNEL_ANSWERS with the same `kind` and `id`. An answer's control begins with u8 ok. When it
// is 0, what follows is text reason (the exception and where), text traceback.
enum work_kind {
  // The answer that the worker gives unasked when it has started: u8 1, u32 PROTOCOL_VERSION, text
  // Python's version, text executable.
  WORK_HELLO = 1,
  // text JSON: {"model_name", "model_version" (text), "instance_name", "model_path" (directory of
  // the model), "model_file" (path of model.py), "module" ("1.model", "src.model", or "model" for a
  // backend of Python), "search" [directories appended to sys.path in order]}. The worker imports
  // the module. Answer: u8 1, u8 has auto_complete_config, u8 is execute a coroutine function, u8
  // has is_ready.
  WORK_LOAD,
  // text model configuration (JSON). Answer: u8 1, text the completed configuration (JSON).
  WORK_AUTO_COMPLETE,
  // text JSON, the args of initialize: every value is a text; text the instance's name, from here
  // on. Answer: u8 1.
  WORK_INITIALIZE,
  // value: the number of requests; flags: WORK_LOG_*, which log levels are on. Control:
  // u32 count, then for each: u64 handle, text id, correlation, u32 flags, u64 timeout (µs), text
  // parameters (JSON object or empty), text trace context, u32 count and text[] requested outputs,
  // u32 count and tensor[] inputs. All input data is in the block at `offset`, where the control
  // part is too. The block is the worker's until it says CALL_RELEASE or sets ANSWER_RELEASED in
  // the answer. Several may be sent before the first is answered. Answer: u8 1, u32 count (that of
  // the requests), u64 when the worker took the work (0: it does not know), u64 when `execute` had
  // returned (ns of CLOCK_MONOTONIC), response[count]. RESPONSE_NONE: its responses come, or came,
  // by CALL_RESPONSE with the request's handle. RESPONSE_RESCHEDULED: the request is to be released
  // with RESCHEDULE, and comes again with another handle; a decoupled model may go on to answer
  // with this one until it says RESPONSE_FORGOTTEN. RESPONSE_FAILED: its error comes, or came, by
  // CALL_RESPONSE, behind the responses that it had sent before.
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
  WORK_CROWDED = 32    // there are many: who waits for the next one sleeps
};

enum log_flags {
  LOG_OF_WORKER = 16 // the line is not the model's own
};

enum answer_flags {
  ANSWER_RELEASED = 1, // the work's block is no longer used
  ANSWER_ON_DEVICE = 2 // some of its tensors are on a device
};

// CHANNEL_CALLS, worker → host. Calls marked (reply) have an `id` that the worker chose, unique
// among those under way, and get exactly one reply on CHANNEL_REPLIES with that id (CALL_INFER: see
// there). Memory of a call's control and tensors is the worker's again when the host has called
// channel_done for it; the host copies what it needs longer.
enum call_kind {
  // id: the request's handle; flags: RESPONSE_FINAL, or RESPONSE_FORGOTTEN of a decoupled model:
  // no more comes with this handle; RESPONSE_AGAIN: it is to go again, of a model that is not
  // decoupled and had answered RESPONSE_NONE. Control: response, RESPONSE_NONE when only flags.
  CALL_RESPONSE = 1,
  // value: the offset of a block of the host's that the worker no longer uses.
  CALL_RELEASE,
  // flags: one of WORK_LOG_*, and LOG_OF_WORKER. Control: text message, text file, u32 line, u8 1
  // when it is about requests, text their ids.
  CALL_LOG,
  // (reply) value: the handle of a request. Reply: value 1 when it is cancelled.
  CALL_IS_CANCELLED,
  // (reply) An inference. flags: of call_flags; value: the id of the WORK_EXECUTE that waits for
  // the reply, with INFER_WAITS or INFER_AWAITS. Control: text model, i64 version (-1 newest), text
  // id, correlation, u32 flags, u64 timeout (µs), u64 priority, text parameters (JSON), u64 parent
  // (handle of the request whose trace it continues, or 0), u32 count and text[] requested outputs,
  // u32 count and tensor[] inputs. Replies: control is a response; REPLY_FINAL is set in the last,
  // and in it RESPONSE_NONE may stand. Without INFER_DECOUPLED there is exactly one; a decoupled
  // model is then refused.
  CALL_INFER,
  // id: that of a CALL_INFER under way, or one that has ended (nothing happens).
  CALL_INFER_CANCEL,
  // (reply) Custom metrics; value: the object's number, given by the reply of the one that makes
  // it.
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
  // id: that of a CALL_INFER with INFER_DECOUPLED. The thread of execute waits for the next reply.
  // flags, value: as of a CALL_INFER that it waits for. Control: u64 how many replies have come.
  CALL_INFER_WAIT,
  // flags: a device; value: bytes that the worker wants of its region there. The answer comes over
  // the socket; one at a time.
  CALL_DEVICE_ROOM,
  // flags: a device whose region the worker cannot map. Control: text why.
  CALL_DEVICE_UNMAPPED
};

enum call_flags {
  RESPONSE_FINAL = 1, // CALL_RESPONSE
  RESPONSE_FORGOTTEN = 2,
  RESPONSE_AGAIN = 4,
  INFER_DECOUPLED = 1,  // CALL_INFER
  INFER_WAITS = 2,      // CALL_INFER: the thread of execute waits for the reply
  INFER_AWAITS = 4,     // the coroutine that `execute` returned does
  INFER_SHARED = 8,     // with INFER_WAITS: other threads may answer the requests meanwhile
  INFER_ON_CPU = 16,    // CALL_INFER: where its outputs are to be; else where the model puts them
  INFER_ON_DEVICE = 32, // the same: on the device whose number is in the flags' upper 16 bits
  INFER_LENDS = 64,     // the worker keeps inputs until it is told REPLY_INPUTS_FREE
  INFER_DEVICE_SHIFT = 16,
  UNLOAD_DEPENDENTS = 1, // CALL_MODEL_UNLOAD
};

// CHANNEL_REPLIES, host → worker: `id` is the call's, `kind` the call's. The block at `offset`
// holds the control part alone; each tensor of a reply that has bytes is a block of its own, at the
// tensor's offset. Each of these blocks is the worker's until it says CALL_RELEASE with the block's
// offset. Tensors on a device are the worker's as long as the control part's block.
enum reply_flags {
  REPLY_FINAL = 1,
  // control: u32 code, text message. Not for CALL_INFER, whose errors are responses.
  REPLY_FAILED = 2,
  // After a CALL_INFER with INFER_LENDS, whatever became of it, alone: the server does not read the
  // inputs any more.
  REPLY_INPUTS_FREE = 4
};

#endif
