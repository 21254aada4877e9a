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

// Links in model repositories are followed only into the repositories, and into `dir` unless it is
// NULL; to be called once for each such directory.
TRITONSERVER_DECLSPEC TRITONSERVER_Error *
NEREID_ServerOptionsKeepLinks(TRITONSERVER_ServerOptions *options, const char *dir);

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

// --- For backends, which are to declare them weak: other servers do not have them

struct TRITONBACKEND_Model;
struct TRITONBACKEND_Response;

// The version of a model that will serve the request, which was chosen when it was made. For
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

#ifdef __cplusplus
}
#endif

#endif
