// SPDX-License-Identifier: Apache-2.0
// A backend that runs models on a framework: ONNX Runtime, OpenVINO, TensorFlow. What such backends
// have alike is in this directory, once: the framework's library is found and opened, a model's
// tensors are compared with its configuration, the requests of a batch become one input each and
// the outputs are dealt to the responses. A backend defines the rest as `framework_definition`.
// docs/internals/frameworks.md has the shape.
//
// Functions of the definition return an error that the client or the operator sees, or NULL. Those
// of libraries and models run on load threads, several models at once; those of a run on the
// instance's thread. Where one that makes something fails, the one that frees it is called too, and
// finds what is not made as zeros.
#ifndef NEREID_FRAMEWORK_H
#define NEREID_FRAMEWORK_H

#include "backend_batch_tensors.h"
#include "backend_transfer.h"
#include "base/arena.h"
#include "framework_search.h"

// ---- libraries ----

// An opened library of the framework, for all models that run on it, until the backend ends.
typedef struct framework_library {
  char *path;
  const void *settings; // of the backend
  const char *version;  // set by `open`; lives as long as `state`
  void *state;          // the backend's own
  struct framework_library *next;
} framework_library;

// ---- models ----

// A tensor that the model has.
typedef struct framework_tensor {
  char *name;                     // owned
  TRITONSERVER_DataType datatype; // TRITONSERVER_TYPE_INVALID: none that the server has
  int native_type;                // the framework's number for it
  bool any_type;                  // the model does not say: what is configured holds
  bool any_rank;                  // the model names no shape: `shape` is empty, or [-1] where the
                                  // model is known not to want a scalar
  char *refusal;                  // owned: why no request can bring or get it; NULL: it can
  backend_shape shape;            // -1 where any size is allowed; with the batch's dimension
  char *rows_name;                // owned: what the model calls its first dimension; NULL: nothing
  size_t position;                // for the backend's use
} framework_tensor;

typedef struct framework_tensors {
  framework_tensor *list; // from calloc
  size_t count;
} framework_tensors;

typedef struct framework_signature {
  framework_tensors inputs;
  framework_tensors outputs;
  framework_tensors overridable; // what has a value that a request may replace
  bool open;                     // no input is needed: each is one that a request could bring
} framework_signature;

// An input that requests bring.
typedef struct framework_feed {
  const char *name; // the tensor's
  const framework_tensor *tensor;
  TRITONSERVER_DataType datatype;
  bool scalar; // the model wants rank 0, requests bring [1]
  bool optional;
  bool ragged; // the requests' elements one after the other, as a tensor of one dimension
} framework_feed;

// Tensors that are made of a batch (batch_input).
typedef struct framework_batch_feed {
  backend_batch_input input;
  size_t source; // which feed it is about
} framework_batch_feed;

// An output that requests may ask for, or a state.
typedef struct framework_fetch {
  const char *name; // the tensor's
  const framework_tensor *tensor;
  TRITONSERVER_DataType datatype;
  const char *type_text;               // "TYPE_FP32"
  bool is_state;                       // of the request's sequence; it may be an output, too
  backend_shape scalar_shape;          // what to answer for rank 0
  const backend_batch_output *scatter; // one of the model's; NULL: it has rows
  size_t source;                       // of that: which feed
} framework_fetch;

// A version of a model. `load` and `prepare` write it; afterwards all instances read it at once.
typedef struct framework_model {
  TRITONBACKEND_Model *model;
  char *name;
  json_t *config;
  int64_t max_batch_size;
  int64_t default_max_batch_size; // for models that batch and do not say how much
  framework_library *library;     // the backend's
  framework_signature signature;  // filled by `load`
  framework_feed *feeds;
  size_t feed_count;
  framework_batch_feed *batch_feeds;
  size_t batch_feed_count;
  size_t batch_tensor_count; // of all batch feeds: one may feed several
  backend_batch_output *batch_outputs;
  size_t batch_output_count;
  framework_fetch *fetches;
  size_t fetch_count;
  void *state; // the backend's own
} framework_model;

typedef struct framework_instance {
  framework_model *model;
  TRITONBACKEND_ModelInstance *instance;
  TRITONSERVER_InstanceGroupKind kind;
  char *host_policy;
  backend_device *device;     // NULL: it is not on a GPU
  backend_transfer *transfer; // of an instance on a GPU
  backend_buffer *gathered;   // one for each feed, then for each batch feed
  void *state;                // the backend's own
} framework_instance;

// ---- runs ----

// One input of the whole batch. The data lives until the run's end and is only read.
typedef struct framework_input {
  const char *name;
  const framework_tensor *tensor; // NULL: configured as a batch input, and not the model's
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  size_t rank;
  const void *data; // row-major; strings as in the protocol: 4 bytes of length before each
  size_t byte_size;
  bool on_device; // `data` is memory of the instance's device, complete when its stream gets there
} framework_input;

// Where an output may be put at once. There is none where its size is not known before the run,
// or it is for more than one response.
typedef struct framework_room {
  backend_output output; // `data` is NULL where there is none
  backend_room device;   // the same of an instance on a GPU, wherever it is
  size_t byte_size;
  const int64_t *dims;
  size_t rank;
} framework_room;

// One output of the whole batch. The data lives until the run's end.
typedef struct framework_output {
  TRITONSERVER_DataType datatype;
  backend_shape shape;
  const char *data;      // elements, or the strings' bytes one after the other
  const size_t *offsets; // of strings: where each begins in `data`, and where the last one ends
  bool on_device;        // as of an input
} framework_output;

// One batch.
typedef struct framework_run {
  framework_instance *instance;
  arena memory;                    // for lists, until the run's end
  size_t input_most;               // so many times `add_input` is called at most
  const framework_fetch **fetches; // which the batch wants
  framework_room *rooms;           // for each of them, from `compute` on
  size_t fetch_count;
  uint32_t request_count;
  int64_t rows; // of all requests; without batching, one each
  void *state;  // the backend's own
} framework_run;

// ---- the definition ----

typedef struct framework_functions {
  framework framework;
  const char
      *library_parameter; // a model's parameter that names another library; NULL: none has it
  size_t alignment;       // of input data; 0: any
  bool has_room;          // `compute` uses rooms
  bool names_first;       // an input that is not the model's is said before a wrong number of them

  // The environment, before the library is opened and, in nereid, before there are threads.
  void (*set_environment)(void);

  // --backend-config=NAME,key=value as one flat object of texts. The settings are for free().
  TRITONSERVER_Error *(*read_settings)(const json_t *given, void **settings);

  // Whether the library can run instances on a GPU; an error says what is missing. NULL: this
  // backend has no such instances.
  TRITONSERVER_Error *(*check_gpu)(const framework_library *library);

  // Opens `library->path`, which may be a name for the loader; sets `version` and `state`. The
  // library stays in the process after `close` (RTLD_NODELETE).
  TRITONSERVER_Error *(*open)(framework_library *library);
  void (*close)(framework_library *library);

  // Reads the model's files and fills in the signature; max_batch_size may be 0 for "not said".
  TRITONSERVER_Error *(*load)(framework_model *model);
  // Completes the configuration by the signature. NULL: this backend completes nothing.
  TRITONSERVER_Error *(*complete)(framework_model *model, bool *changed);
  // Before the checks, whether something was completed or not: makes of the model's tensors what
  // the configuration wants, and reads the signature anew. NULL: they are as they were loaded.
  TRITONSERVER_Error *(*fit)(framework_model *model);
  // After the checks, with all members known. NULL: nothing is left to do.
  TRITONSERVER_Error *(*prepare)(framework_model *model);
  void (*unload)(framework_model *model);

  // NULL: instances have no state. `kind` is whatever the configuration says; one of KIND_GPU has
  // its device where the backend has `check_gpu`.
  TRITONSERVER_Error *(*instance_new)(framework_instance *instance);
  void (*instance_free)(framework_instance *instance);

  // A run on a GPU: `compute` enqueues it on the instance's stream and waits for nothing; what
  // `read_output` gives may be on the device. `end` comes when the stream is through.
  // A run: begin, add_input for each input that is present, compute, read_output for each of
  // run->fetches in order, end. After an error only `end` is called, once.
  TRITONSERVER_Error *(*begin)(framework_run *run);
  TRITONSERVER_Error *(*add_input)(framework_run *run, const framework_input *input);
  TRITONSERVER_Error *(*compute)(framework_run *run);
  TRITONSERVER_Error *(*read_output)(framework_run *run, size_t index, framework_output *output);
  void (*end)(framework_run *run); // NULL: nothing is left to do
} framework_functions;

extern const framework_functions framework_definition;

// ---- for the definitions ----

// A number of threads or the like: parameter `key` of the model, which stays as it is when there is
// none.
TRITONSERVER_Error *framework_read_count(const framework_model *model, const char *key,
                                         int64_t most, int64_t *value);
TRITONSERVER_Error *framework_read_switch(const framework_model *model, const char *key,
                                          bool *value);

// Opens the directory `path`, below the model's own, for a framework that opens by name what is in
// it: *proc_path names it while *descriptor is open. Each entry below it is opened once as files of
// a model are (backend_file.h), so what the server does not allow is refused. The caller closes and
// frees; after an error there is nothing to close.
TRITONSERVER_Error *framework_open_folder(const framework_model *model, const char *path,
                                          int *descriptor, char **proc_path);

// Opens the library at `path`, or what the loader finds by a name without a slash. It stays in the
// process, and only who has the handle sees its names. NOT_FOUND in the loader's words.
TRITONSERVER_Error *framework_open_file(const char *path, void **handle);

// A function of a library, and the member of the backend's table where its address goes.
typedef struct framework_function {
  const char *name;
  void *member;
  bool optional; // older libraries lack it: the member is NULL then
} framework_function;

// Fills the members. UNSUPPORTED where another one is missing, which is named: "'<path>' is not
// <wanted>: it has no <name>".
TRITONSERVER_Error *framework_find_functions(void *handle, const char *path, const char *wanted,
                                             const framework_function *functions, size_t count);

// Lets what is open beside the library stay in the process: frameworks open libraries of their own,
// and some close them while threads may be on their way out.
void framework_keep_open(const framework_library *library);

// Frees the list, which may be empty.
void framework_tensors_clear(framework_tensors *tensors);

const framework_tensor *framework_tensor_find(const framework_tensors *tensors, const char *name);

// "TYPE_FP32" of a datatype, "TYPE_INVALID" for none.
const char *framework_config_type(TRITONSERVER_DataType datatype);

// The next string of a tensor as the protocol has it, from *at on. False where it is cut off.
bool framework_next_string(const char **at, size_t *left, const char **text, size_t *length);

// Elements of `index`-th input or output `name`: INVALID_ARG when the shape is impossible.
TRITONSERVER_Error *framework_element_count(const char *name, const int64_t *dims, size_t rank,
                                            size_t *count);

// Completion: Triton's rules are not the same for all frameworks, its steps are. Each sets *changed
// when it did something.
bool framework_first_dimension_open(const framework_tensors *tensors);
TRITONSERVER_Error *framework_complete_batching(framework_model *model, bool *changed);
// What entries of the list `key` do not say; with `add` also entries for the tensors that it does
// not name, but for inputs that the server makes.
TRITONSERVER_Error *framework_complete_list(framework_model *model, const char *key,
                                            const framework_tensors *tensors, bool add,
                                            bool *changed);
// The same with all tensors.
TRITONSERVER_Error *framework_complete_tensors(framework_model *model, const char *key,
                                               const framework_tensors *tensors, bool *changed);

#endif
