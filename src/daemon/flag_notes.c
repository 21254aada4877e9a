// SPDX-License-Identifier: Apache-2.0
// The notes, in the order of docs/compatibility.md.
#include "daemon/flag_notes.h"

#include <string.h>
#include <strings.h>

#define OBJECT_STORES "s3://|gs://|as://"
#define NO_STORES     "copy the models of an object store into a directory, or mount the bucket"
#define OTHER_PLACES  "http://|https://|hdfs://|file://"
#define NO_PLACES     "give the path of a directory, into which the models are copied"
#define NOT_NEEDED    "not needed"
#define OF_SAGEMAKER  "without effect while --allow-sagemaker is false"
#define OF_VERTEX_AI  "without effect while --allow-vertex-ai is false"
#define OWN_POOL                                                                                   \
  "a pool is made with the first instance on a GPU and goes with the last, Triton's at the start " \
  "on every GPU"

const flag_note flag_notes[] = {
    {"help", NULL, FLAG_DIFFERS, "goes to standard output, and the exit status is 0"},
    {"model-repository", OBJECT_STORES, FLAG_REFUSED, NO_STORES},
    {"model-store", OBJECT_STORES, FLAG_REFUSED, NO_STORES},
    {"model-repository", OTHER_PLACES, FLAG_REFUSED, NO_PLACES},
    {"model-store", OTHER_PLACES, FLAG_REFUSED, NO_PLACES},
    {"exit-on-error", "false", FLAG_DIFFERS,
     "a repository that is not there ends the start all the same"},
    {"listen", NULL, FLAG_NOT_GIVEN,
     "ports open before the start-up models load; --listen=ready opens them after, as Triton"},
    {"model-control-mode", "poll", FLAG_DIFFERS,
     "under poll a change is acted on when two looks agree, 2 s apart"},
    {"enable-peer-access", "true", FLAG_DIFFERS,
     "between GPUs that are used; Triton makes a context on each for it"},
    {"http-thread-count", NULL, FLAG_NOT_GIVEN,
     "one for each processor, 2 to 8, where Triton has 8"},
    {"http-max-input-size", NULL, FLAG_NOT_GIVEN,
     "67108864, as in newer versions of Triton; 2.51 has no limit"},
    {"grpc-infer-thread-count", NULL, FLAG_NOT_GIVEN,
     "one for each processor, 2 to 8, where Triton has 2"},
    {"grpc-infer-allocation-pool-size", NULL, FLAG_UNUSED, NOT_NEEDED},
    {"grpc-max-response-pool-size", NULL, FLAG_UNUSED, NOT_NEEDED},
    {"grpc-http2-max-pings-without-data", NULL, FLAG_UNUSED,
     "not needed: the server asks once, and waits"},
    {"allow-sagemaker", "true", FLAG_REFUSED,
     "leave it out, and have a proxy send /ping to /v2/health/ready and /invocations to "
     "/v2/models/<model>/infer"},
    {"sagemaker-port", NULL, FLAG_UNUSED, OF_SAGEMAKER},
    {"sagemaker-safe-port-range", NULL, FLAG_UNUSED, OF_SAGEMAKER},
    {"sagemaker-thread-count", NULL, FLAG_UNUSED, OF_SAGEMAKER},
    {"allow-vertex-ai", "true", FLAG_REFUSED,
     "give --allow-vertex-ai=false --allow-http=true --http-port=<that of AIP_HTTP_PORT>, as "
     "AIP_MODE=PREDICTION says otherwise, and as routes /v2/health/ready and "
     "/v2/models/<model>/infer"},
    {"vertex-ai-port", NULL, FLAG_UNUSED, OF_VERTEX_AI},
    {"vertex-ai-thread-count", NULL, FLAG_UNUSED, OF_VERTEX_AI},
    {"vertex-ai-default-model", NULL, FLAG_UNUSED, OF_VERTEX_AI},
    {"allow-gpu-metrics", "false", FLAG_DIFFERS, "metrics of models keep the label gpu_uuid"},
    {"metrics-config", NULL, FLAG_NOT_GIVEN,
     "models have histograms from their first request on; --metrics-config=nereid_histograms=none "
     "takes them away"},
    {"backend-directory", NULL, FLAG_DIFFERS,
     "backends of that directory alone; left out, nereid's own"},
    {"repoagent-directory", NULL, FLAG_DIFFERS,
     "agents of that directory alone; left out, nereid's own"},
    {"cache-directory", NULL, FLAG_DIFFERS,
     "caches of that directory alone; left out, nereid's own"},
    {"backend-config", "tensorflow,version=", FLAG_UNUSED,
     "TensorFlow is the one that pip installed, 2.16 or newer"},
    {"backend-config", "python,shm-|python,shm_|python,thread-pool-size=", FLAG_UNUSED,
     "checked and not needed"},
    {"pinned-memory-pool-byte-size", NULL, FLAG_DIFFERS, OWN_POOL},
    {"cuda-memory-pool-byte-size", NULL, FLAG_DIFFERS, OWN_POOL},
    {"min-supported-compute-capability", NULL, FLAG_NOT_GIVEN,
     "7.5, as in newer versions of Triton; 6.0 in 2.51"},
    {"buffer-manager-thread-count", NULL, FLAG_UNUSED,
     "inputs are copied on the instance's thread"},
    {"allow-client-shm", NULL, FLAG_NOT_GIVEN,
     "clients' shared memory is refused, as in newer versions of Triton; 2.51 allows it"},
};

const size_t flag_note_count = sizeof(flag_notes) / sizeof(flag_notes[0]);

// Whether the note is about this value. A boolean is "true" or "false"; a choice is spelled as in
// the table.
static bool fits(const flag_note *note, const char *value)
{
  const char *begin = note->values;
  while (begin != NULL) {
    size_t size = strcspn(begin, "|");
    if (strncasecmp(value, begin, size) == 0)
      return true;
    begin = begin[size] == '|' ? begin + size + 1 : NULL;
  }
  return note->values == NULL;
}

const flag_note *flag_note_find(const option *o, const char *value)
{
  for (size_t i = 0; i < flag_note_count; i++) {
    const flag_note *note = &flag_notes[i];
    if (note->effect != FLAG_NOT_GIVEN && strcmp(note->flag, o->name) == 0 && fits(note, value))
      return note;
  }
  return NULL;
}

// ---- what is refused ----

static error *refuse(const flag_note *note, const char *value)
{
  return error_new(ERROR_UNSUPPORTED, "--%s=%s is not supported by nereid yet: %s", note->flag,
                   value, note->text);
}

// Only booleans and lists have values that are refused.
static error *check_one(const daemon_options *options, const flag_note *note)
{
  const option *o = option_find(note->flag);
  const void *field = (const char *)options + o->field;
  if (o->kind == OPTION_BOOL) {
    const char *value = *(const bool *)field ? "true" : "false";
    return fits(note, value) ? refuse(note, value) : NULL;
  }
  const string_list *values = field;
  for (size_t i = 0; i < values->count; i++)
    if (fits(note, values->items[i]))
      return refuse(note, values->items[i]);
  return NULL;
}

error *flag_notes_check(const daemon_options *options)
{
  for (size_t i = 0; i < flag_note_count; i++)
    if (flag_notes[i].effect == FLAG_REFUSED)
      RETURN_IF_ERROR(check_one(options, &flag_notes[i]));
  return NULL;
}
