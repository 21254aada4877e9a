// SPDX-License-Identifier: Apache-2.0
// The functions of libtritonserver.so beyond Triton's C ABI. A program that uses none of them runs
// on either server.
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

// With NEREID_REQUEST_FLAG_RUN_HERE: the calling thread has no other client at the moment. The
// server then also executes models on it that take up to half a millisecond.
#define NEREID_REQUEST_FLAG_ALONE 0x20000000u

// --- Options

// With `background`, TRITONSERVER_ServerNew loads no models: TRITONSERVER_ServerPollModelRepository
// loads them and waits for them. So all other errors of the start can appear first.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetBackgroundLoad(TRITONSERVER_ServerOptions *options, bool background);

// Under TRITONSERVER_MODEL_CONTROL_POLL the server polls every `seconds`. 0, the default: only when
// TRITONSERVER_ServerPollModelRepository is called.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetRepositoryPollSeconds(TRITONSERVER_ServerOptions *options, unsigned seconds);

// Links in model repositories are followed only into the repositories, and into `dir` unless it is
// NULL. Call it once for each such directory.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsKeepLinks(TRITONSERVER_ServerOptions *options, const char *dir);

// For libraries that copy from or to memory of GPUs: counts a copy in the server's metrics.
// `direction` is a gpu_direction of src/gpu/copy.h.
TRITONSERVER_DECLSPEC void NEREID_GpuCopied(int direction, uint64_t bytes);

// For libraries that call a GPU's driver: the server's knowledge of a device, as it receives Xids.
// Returns a gpu_health_state of src/gpu/health.h; if that is not 0, `text` explains it.
TRITONSERVER_DECLSPEC int NEREID_GpuHealth(int device, char *text, size_t size);

// Called once for each GPU that fails while models run on it, on a server thread; must not block.
// `what` describes the failure. The server continues without that GPU.
typedef void (*NEREID_GpuFailedFn_t)(void *context, int device, const char *what);
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsOnGpuFailure(TRITONSERVER_ServerOptions *options, NEREID_GpuFailedFn_t failed,
                                 void *context);

// --- Errors

// The server's estimate when a refused request may succeed, in ns from now; 0: unknown.
TRITONSERVER_DECLSPEC uint64_t NEREID_ErrorRetryAfterNs(TRITONSERVER_Error *error);

// For a watchdog: asks the thread that fires all deadlines and timeouts for a sign of life. False:
// it has not answered the question before. One thread at a time, until TRITONSERVER_ServerDelete.
TRITONSERVER_DECLSPEC bool NEREID_ServerAnswers(TRITONSERVER_Server *server);

// --- Loading on demand: a request for a model loads it, and unused models are unloaded when memory
// is needed

// Models are controlled explicitly and also loaded on demand. All together may use
// `memory_budget_bytes`; 0: no limit. TRITONSERVER_InferenceRequestNew then loads a model that is
// not loaded, and blocks meanwhile. Questions about a model that is not loaded fail;
// NEREID_ServerModelAwait loads it.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsSetOnDemand(TRITONSERVER_ServerOptions *options, uint64_t memory_budget_bytes);

TRITONSERVER_DECLSPEC bool NEREID_ServerLoadsOnDemand(TRITONSERVER_Server *server);

// TRITONSERVER_InferenceRequestNew, but never blocks: an error if the model is not loaded.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_InferenceRequestTryNew(TRITONSERVER_InferenceRequest **request, TRITONSERVER_Server *server,
                              const char *model_name, int64_t model_version);

// One wait for a model.
typedef struct NEREID_ModelWait NEREID_ModelWait;
typedef void (*NEREID_ModelAwaitedFn_t)(NEREID_ModelWait *wait, void *context);

// Loads a model without blocking. If *waits, `awaited` is called once, on any thread and maybe
// before this returns: when the model is loaded, when it cannot be, or at `deadline_ns` of
// CLOCK_MONOTONIC (UINT64_MAX: never). Else the wait is over, and `awaited` is not called. *wait is
// the caller's; NULL after an error, and if the server does not load on demand.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerModelAwait(TRITONSERVER_Server *server, const char *model_name, int64_t model_version,
                        uint64_t deadline_ns, NEREID_ModelAwaitedFn_t awaited, void *context,
                        NEREID_ModelWait **wait, bool *waits);

// Ends the wait: `awaited` is called, unless it was. Any thread, before NEREID_ModelWaitDelete.
TRITONSERVER_DECLSPEC void NEREID_ModelWaitCancel(NEREID_ModelWait *wait);

// The following functions need a wait that is over. Moves the error out; NULL: the model is loaded,
// and is not unloaded for memory before the wait is deleted.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ModelWaitTakeError(NEREID_ModelWait *wait);
// Makes a request for the model, which stays loaded as for any request.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ModelWaitRequestNew(NEREID_ModelWait *wait, TRITONSERVER_InferenceRequest **request);
TRITONSERVER_DECLSPEC void NEREID_ModelWaitDelete(NEREID_ModelWait *wait); // NULL is allowed

// --- Checks: find mistakes of repositories without a server. docs/check.md has the JSON.

// Also loads each model, one after another, in a server without listeners.
#define NEREID_CHECK_LOAD 1u

// Checks the repositories, models' directories and configurations at `paths`, or without any the
// repositories of `options`, as a server with these options would read them. The report is the
// caller's; mistakes found are no error.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_CheckRepositories(TRITONSERVER_ServerOptions *options, const char *const *paths,
                         size_t count, uint32_t flags, TRITONSERVER_Message **report);

// The configuration of a model as it is served: lines of text with the source of each value, and
// JSON. `model` is a name in the options' repositories or, if there are none, a path.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_CheckPrintConfig(TRITONSERVER_ServerOptions *options, const char *model, uint32_t flags,
                        TRITONSERVER_Message **report);

// --- Log

// A third value for TRITONSERVER_ServerOptionsSetLogFormat: each line is one JSON object
// (docs/logging.md).
#define NEREID_LOG_JSON 2

// The present settings. Set them with TRITONSERVER_ServerOptionsSetLog*, with NULL for the options,
// at any time and from any thread.
typedef struct NEREID_LogSettings {
  bool info;
  bool warning;
  bool error;
  uint32_t verbose_level;
  int format;      // TRITONSERVER_LogFormat or NEREID_LOG_JSON
  char file[4096]; // "": standard output and error
} NEREID_LogSettings;

TRITONSERVER_DECLSPEC void NEREID_LogGetSettings(NEREID_LogSettings *settings);

// The subject of a line. JSON has a key for each member. The text formats put request, model and
// instance before the text if there is a request.
typedef struct NEREID_LogSubject {
  const char *request_id; // "": the client gave none; NULL: not about one request
  const char *model;      // NULL: unknown
  int64_t version;        // 0: unknown
  const char *instance;   // NULL: unknown
  bool keys_only;         // the text formats leave the subject out: the text is a model's
} NEREID_LogSubject;

// TRITONSERVER_LogMessage for a line with the subject `about`.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_LogMessageAbout(TRITONSERVER_LogLevel level,
                                                                 const char *filename, int line,
                                                                 const NEREID_LogSubject *about,
                                                                 const char *msg);

// --- Times of a request

typedef struct NEREID_ResponseTimes {
  uint64_t submitted_ns; // CLOCK_MONOTONIC: the request entered the server
  uint64_t started_ns;   // an instance took it; 0: answered before
  uint32_t batch_size;   // rows of its execution; 0: answered before
} NEREID_ResponseTimes;

// The times at which the request of `response` reached these stages.
TRITONSERVER_DECLSPEC void NEREID_InferenceResponseTimes(TRITONSERVER_InferenceResponse *response,
                                                         NEREID_ResponseTimes *times);

// Requests that the server holds: submitted, and not released yet. Any thread.
TRITONSERVER_DECLSPEC uint64_t NEREID_ServerInflight(TRITONSERVER_Server *server);

// --- Sequences (docs/sequences.md)

// Call it before TRITONSERVER_ServerStop when no further requests will come: each sequence ends
// with its present requests, so that the stop does not wait for idle limits.
TRITONSERVER_DECLSPEC void NEREID_ServerEndSequences(TRITONSERVER_Server *server);

// --- Pinned memory (docs/internals/gpu.md)

// Uses of pinned memory for clients, each with a share of the server's pool. The rest is for the
// server's own copies.
typedef enum NEREID_PinnedUse {
  NEREID_PINNED_BODY,  // received data
  NEREID_PINNED_REPLY, // data to send
  NEREID_PINNED_USES,
} NEREID_PinnedUse;

// Takes host memory from the server's pool, which GPUs copy at full speed; NULL when there is no
// pool or no room. Calls no driver. The memory is not cleared; the core clears outputs there for
// backends that may not fill them. Any thread. Give it back with the same arguments before the
// server is deleted.
TRITONSERVER_DECLSPEC void *NEREID_ServerPinnedAllocate(TRITONSERVER_Server *server,
                                                        NEREID_PinnedUse use, size_t byte_size);
TRITONSERVER_DECLSPEC void NEREID_ServerPinnedFree(TRITONSERVER_Server *server,
                                                   NEREID_PinnedUse use, void *memory,
                                                   size_t byte_size);

// Whether large inputs of the model are best in pinned memory, as an instance copies them to a GPU.
// False if it is not loaded. Never blocks.
TRITONSERVER_DECLSPEC bool NEREID_ServerModelWantsPinned(TRITONSERVER_Server *server,
                                                         const char *model_name,
                                                         int64_t model_version);

// --- Versions (docs/versions.md)

// A number that stands for the label in every function that takes a model_version. It is below -1;
// callers must not interpret, print or store it. NOT_FOUND if the model lacks this label,
// INVALID_ARG if it has no labels at all.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ServerVersionOfLabel(TRITONSERVER_Server *server,
                                                                      const char *model_name,
                                                                      const char *label,
                                                                      int64_t *model_version);

// A model_version for questions about the version that will serve the request: the one that the
// request was made with or, if it names none and the model splits its requests, one that this call
// chooses. *txn_flags: that version's TRITONSERVER_TXN_*. Set the request's correlation id before.
TRITONSERVER_DECLSPEC int64_t NEREID_InferenceRequestVersion(TRITONSERVER_InferenceRequest *request,
                                                             uint32_t *txn_flags);

// Applies `change` (JSON of `byte_size` bytes; 0: none) to a model's labels, split and shadows, and
// returns them as JSON.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerModelRouting(TRITONSERVER_Server *server, const char *model_name, const char *change,
                          size_t byte_size, TRITONSERVER_Message **message);

// --- For backends, which must declare these functions weak: other servers do not have them

struct TRITONBACKEND_Backend;
struct TRITONBACKEND_Model;
struct TRITONBACKEND_Response;

// The model version that will serve the request. Only for comparisons; valid as long as the
// request.
TRITONSERVER_DECLSPEC const struct TRITONBACKEND_Model *
NEREID_InferenceRequestModel(TRITONSERVER_InferenceRequest *request);

// Reports an output of the model that its configuration does not have and that the backend drops;
// it is logged once and counted. If the model's outputs are strict, returns an error, which the
// backend must put into the response.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ResponseUnconfiguredOutput(struct TRITONBACKEND_Response *response, const char *name);

// Opens the regular file or the directory `path` below the model's directory ("1/model.onnx") for
// reading: links on the way are followed as far as the operator permits, in files that came with a
// request never. The caller closes *descriptor. Errors: NOT_FOUND when it is absent, INVALID_ARG
// when it leads elsewhere or is of the wrong kind. From TRITONBACKEND_ModelInitialize on, any
// thread.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ModelOpen(struct TRITONBACKEND_Model *model, const char *path, bool is_dir, int *descriptor);

// A backend that opened a library to run its models reports it: name ("ONNX Runtime"), version,
// path, and how long opening took. The texts are copied. The server shows them in its log, its
// table of backends and its metrics. Any thread; once for each library.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_BackendSetFramework(struct TRITONBACKEND_Backend *backend, const char *name,
                           const char *version, const char *path, uint64_t open_ns);

// --- For a model in a process of its own (docs/isolation.md)

// Describes the model so that NEREID_ModelHostRun in another process loads it as this process
// would. The caller deletes *description.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *NEREID_ModelDescribe(struct TRITONBACKEND_Model *model,
                                                               TRITONSERVER_Message **description);

// Serves one model for the server behind `socket` until the server closes it or asks for the end.
// Returns the process's exit status.
TRITONSERVER_DECLSPEC int NEREID_ModelHostRun(int socket);

#ifdef __cplusplus
}
#endif

#endif
