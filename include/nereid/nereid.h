// SPDX-License-Identifier: Apache-2.0
// What libtritonserver.so offers beyond Triton's C ABI. A program that uses none of it runs on
// either server.
#ifndef NEREID_NEREID_H
#define NEREID_NEREID_H

#include "triton/core/tritonserver.h"

#ifdef __cplusplus
extern "C" {
#endif

// A flag of TRITONSERVER_InferenceRequestSetFlags: the request may be executed, answered and
// released on the calling thread, before TRITONSERVER_ServerInferAsync returns. The server does so
// when an instance is idle, the request would be a batch of its own at once, and the model has been
// answering within microseconds: then a hand-over to the instance's thread and back costs more than
// the model. The caller must hold no lock that its callbacks take. Backends do not see the flag.
#define NEREID_REQUEST_FLAG_RUN_HERE 0x40000000u

// --- Options

// With `background`, TRITONSERVER_ServerNew loads no model: TRITONSERVER_ServerPollModelRepository
// does, and waits for them, so that whatever else can fail at the start can do so before.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetBackgroundLoad(TRITONSERVER_ServerOptions *options, bool background);

// Under TRITONSERVER_MODEL_CONTROL_POLL the server polls by itself, each `seconds`. 0, the default:
// only when TRITONSERVER_ServerPollModelRepository is called.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetRepositoryPollSeconds(TRITONSERVER_ServerOptions *options, unsigned seconds);

// Links in model repositories are followed only into the repositories, and into `dir` unless it is
// NULL; to be called once for each such directory.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsKeepLinks(TRITONSERVER_ServerOptions *options, const char *dir);

// For libraries that copy from or to memory of GPUs: counts a copy in the server's metrics.
// `direction` is a gpu_direction of src/gpu/copy.h.
TRITONSERVER_DECLSPEC void NEREID_GpuCopied(int direction, uint64_t bytes);

// For libraries that call a GPU's driver: what the server, which hears of Xids, knows of a device.
// A gpu_health_state of src/gpu/health.h; `text` says it where that is not 0.
TRITONSERVER_DECLSPEC int NEREID_GpuHealth(int device, char *text, size_t size);

// Called once for each GPU that fails while models run on it, on a thread of the server's, which it
// must not hold up; `what` says how. The server goes on without that GPU.
typedef void (*NEREID_GpuFailedFn_t)(void *context, int device, const char *what);
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsOnGpuFailure(TRITONSERVER_ServerOptions *options, NEREID_GpuFailedFn_t failed,
                                 void *context);

// --- Errors

// When a request that was refused may be sent again with success, ns from now, as far as the server
// can tell; 0: it cannot.
TRITONSERVER_DECLSPEC uint64_t NEREID_ErrorRetryAfterNs(TRITONSERVER_Error *error);

// --- Loading on demand: a model that is not loaded is loaded for whoever asks for it, and those
// that nobody uses are unloaded when memory is wanted

// Models are controlled explicitly, and besides loaded on demand. They may take so many bytes
// together; 0: any. TRITONSERVER_InferenceRequestNew then loads what is not loaded, and blocks
// meanwhile. Questions about a model that is not loaded fail: NEREID_ServerModelAwait has it
// loaded.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetOnDemand(TRITONSERVER_ServerOptions *options, uint64_t memory_budget_bytes);

TRITONSERVER_DECLSPEC bool NEREID_ServerLoadsOnDemand(TRITONSERVER_Server *server);

// TRITONSERVER_InferenceRequestNew, but never blocks: what is not loaded is an error.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_InferenceRequestTryNew(TRITONSERVER_InferenceRequest **request, TRITONSERVER_Server *server,
                              const char *model_name, int64_t model_version);

// Somebody who waits for a model.
typedef struct NEREID_ModelWait NEREID_ModelWait;
typedef void (*NEREID_ModelAwaitedFn_t)(NEREID_ModelWait *wait, void *context);

// Has a model loaded, without blocking. `*waits`: `awaited` is called once, on any thread and maybe
// before this returns, when the model is there, cannot be had, or the moment `deadline_ns` of
// CLOCK_MONOTONIC has come (UINT64_MAX: never). Else the wait is over, and `awaited` is not called.
// *wait is the caller's; NULL after an error, and where the server does not load on demand.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerModelAwait(TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
                        uint64_t deadline_ns, NEREID_ModelAwaitedFn_t awaited, void *context,
                        NEREID_ModelWait **wait, bool *waits);

// Has `awaited` called, unless it was. Any thread, before NEREID_ModelWaitDelete.
TRITONSERVER_DECLSPEC void NEREID_ModelWaitCancel(NEREID_ModelWait *wait);

// The functions that follow are for a wait that is over. The error is moved out; NULL: the model is
// there, and is not unloaded for want of memory before the wait is deleted.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ModelWaitTakeError(NEREID_ModelWait *wait);
// A request for the model, which keeps it as any request does.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ModelWaitRequestNew(NEREID_ModelWait *wait, TRITONSERVER_InferenceRequest **request);
TRITONSERVER_DECLSPEC void NEREID_ModelWaitDelete(NEREID_ModelWait *wait); // NULL is allowed

// --- Checks: what is wrong with repositories, found without a server. docs/check.md has the JSON.

// Each model is loaded, too, one after another, in a server that nobody can reach.
#define NEREID_CHECK_LOAD 1u

// Checks the repositories, models' directories and configurations at `paths`, or without any the
// repositories of `options`, as a server with these options would read them. The report is the
// caller's; that something is wrong is no error.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_CheckRepositories(TRITONSERVER_ServerOptions *options, const char *const *paths,
                         size_t count, uint32_t flags, TRITONSERVER_Message **report);

// The configuration of a model of the options' repositories, or of the one at the path `model`
// where they have none, as it is served: lines of text with where each value is from, and JSON.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_CheckPrintConfig(TRITONSERVER_ServerOptions *options, const char *model, uint32_t flags,
                        TRITONSERVER_Message **report);

// --- Log

// A third value for TRITONSERVER_ServerOptionsSetLogFormat: each line is one JSON object
// (docs/logging.md).
#define NEREID_LOG_JSON 2

// What is set now. The setters are TRITONSERVER_ServerOptionsSetLog*, with NULL for the options, at
// any time and from any thread.
typedef struct NEREID_LogSettings {
  bool info;
  bool warning;
  bool error;
  uint32_t verbose_level;
  int format;      // TRITONSERVER_LogFormat or NEREID_LOG_JSON
  char file[4096]; // "": standard output and error
} NEREID_LogSettings;

TRITONSERVER_DECLSPEC void NEREID_LogGetSettings(NEREID_LogSettings *settings);

// What a line is about. Keys of their own in JSON; the text formats name the request, its model and
// its instance in front of the text when there is a request.
typedef struct NEREID_LogSubject {
  const char *request_id; // "": the client gave none; NULL: the line is about no one request
  const char *model;      // NULL: unknown
  int64_t version;        // 0: unknown
  const char *instance;   // NULL: unknown
  bool keys_only;         // the text formats leave it out: the text is a model's own
} NEREID_LogSubject;

// TRITONSERVER_LogMessage for a line that is about `about`.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level,
                                                                 const char *filename, int line,
                                                                 const NEREID_LogSubject *about,
                                                                 const char *msg);

// --- What became of a request

typedef struct NEREID_ResponseTimes {
  uint64_t submitted_ns; // CLOCK_MONOTONIC: the request entered the server
  uint64_t started_ns;   // an instance took it; 0: it was answered before
  uint32_t batch_size;   // rows of the execution that it was part of; 0: it was answered before
} NEREID_ResponseTimes;

// When the request of `response` went through the stages before the response was made.
TRITONSERVER_DECLSPEC void NEREID_InferenceResponseTimes(TRITONSERVER_InferenceResponse *response,
                                                         NEREID_ResponseTimes *times);

// Requests that the server holds: submitted, and not released yet. Any thread.
TRITONSERVER_DECLSPEC uint64_t NEREID_ServerInflight(TRITONSERVER_Server *server);

// --- Sequences (docs/sequences.md)

// Says before TRITONSERVER_ServerStop that no request will come any more: each sequence ends with
// those that are there, so that the stop does not wait for it to be idle.
TRITONSERVER_DECLSPEC void NEREID_ServerEndSequences(TRITONSERVER_Server *server);

// --- Pinned memory (docs/internals/gpu.md)

// What clients hold, each with a share of the server's pool: the rest is for the server's own
// copies.
typedef enum NEREID_PinnedUse {
  NEREID_PINNED_BODY,  // what they send
  NEREID_PINNED_REPLY, // what they are sent
  NEREID_PINNED_USES,
} NEREID_PinnedUse;

// Host memory from which and to which GPUs copy at full speed, of the server's pool; NULL when
// there is no pool or no room. A request's way has no call of a driver in it. It is not cleared;
// the core clears an output there for backends that may not fill it. Any thread; to be given back
// before the server is deleted, with what it was taken with.
TRITONSERVER_DECLSPEC void *NEREID_ServerPinnedAllocate(TRITONSERVER_Server *server,
                                                        NEREID_PinnedUse use, size_t byte_size);
TRITONSERVER_DECLSPEC void NEREID_ServerPinnedFree(TRITONSERVER_Server *server,
                                                   NEREID_PinnedUse use, void *memory,
                                                   size_t byte_size);

// Whether large inputs of the model are best in pinned memory: some instance copies them to a GPU.
// False where it is not loaded. Never blocks.
TRITONSERVER_DECLSPEC bool NEREID_ServerModelWantsPinned(TRITONSERVER_Server *server,
                                                         const char *model_name,
                                                         int64_t model_version);

// --- Versions (docs/versions.md)

// The number by which every function that takes a model_version knows the label of a model's
// version: one below -1, which is nobody else's to read, print or keep. NOT_FOUND where the model
// has no such label, INVALID_ARG where it has none at all.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ServerVersionOfLabel(TRITONSERVER_Server *server,
                                                                      const char *model_name,
                                                                      const char *label,
                                                                      int64_t *model_version);

// A model_version that means the version which will serve the request, for questions about it:
// what the request was made with, or, where it names none and the model splits such requests,
// what is chosen by this call; and the TRITONSERVER_TXN_* of that version. The request's
// correlation id is to be set before.
TRITONSERVER_DECLSPEC int64_t NEREID_InferenceRequestVersion(TRITONSERVER_InferenceRequest *request,
                                                             uint32_t *txn_flags);

// A model's labels, split and shadows as JSON, after `change` (JSON of `byte_size` bytes; 0: none)
// was made to them.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerModelRouting(TRITONSERVER_Server *server, const char *model_name, const char *change,
                          size_t byte_size, TRITONSERVER_Message **message);

// --- For backends, which are to declare them weak: other servers do not have them

struct TRITONBACKEND_Backend;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_Response;

// The version of a model that will serve the request. For
// comparing: it lives as long as the request.
TRITONSERVER_DECLSPEC const struct TRITONBACKEND_Model *
NEREID_InferenceRequestModel(TRITONSERVER_InferenceRequest *request);

// Says that the model made an output that its configuration does not have, which the backend leaves
// out: it is told once and counted. An error, which the response is to have then, where the model's
// outputs are strict.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ResponseUnconfiguredOutput(struct TRITONBACKEND_Response *response, const char *name);

// Opens the regular file or the directory `path` below the model's directory ("1/model.onnx") for
// reading: links on the way are followed as far as the operator lets them be, and files that came
// with a request have none. The caller closes *descriptor. Errors: NOT_FOUND when it is absent,
// INVALID_ARG when it leads elsewhere or is of the wrong kind. From TRITONBACKEND_ModelInitialize
// on, any thread.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ModelOpen(struct TRITONBACKEND_Model *model, const char *path, bool is_dir, int *descriptor);

// Called by a backend that has opened a library to run its models on: its name ("ONNX Runtime"),
// its version, where it was found, and how long opening it took. The texts are copied. The server
// tells them in its log, its table of backends and its metrics. Any thread; once for each library.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_BackendSetFramework(struct TRITONBACKEND_Backend *backend, const char *name,
                           const char *version, const char *path, uint64_t open_ns);

// --- For a model in a process of its own (docs/isolation.md)

// What another process needs to load the model as it would be loaded here, for
// NEREID_ModelHostRun; the caller deletes *description.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ModelDescribe(struct TRITONBACKEND_Model *model,
                                                               TRITONSERVER_Message **description);

// Serves one model for the server behind `socket` until that is gone or says that it is enough;
// what a process's main returns.
TRITONSERVER_DECLSPEC int NEREID_ModelHostRun(int socket);

#ifdef __cplusplus
}
#endif

#endif
