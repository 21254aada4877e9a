// SPDX-License-Identifier: Apache-2.0
// A backend that runs models on a framework: ONNX Runtime, OpenVINO, TensorFlow. This directory has
// the common part of such backends: it finds and opens the framework's library, compares a model's
// tensors with its configuration, makes one input from all requests of a batch, and deals the
// outputs to the responses. A backend defines the rest as `framework_definition`. See
// docs/internals/frameworks.md.
//
// Functions of the definition return NULL or an error for the client or the operator. The functions
// of libraries and models run on load threads, several models at once; those of a run on the
// instance's thread. When a function that makes something fails, the function that frees it is
// called too; members not made are zero.
#ifndef NEREID_FRAMEWORK_H
#define NEREID_FRAMEWORK_H

#include "backend_batch_tensors.h"
#include "backend_transfer.h"
#include "base/arena.h"
#include "framework_search.h"

// ---- libraries ----

// An opened library of the framework, shared by all models on it, until the backend ends.
typedef struct framework_library {
  char *path;
  const void *settings; // the backend's
  const char *version;  // set by `open`; valid as long as `state`
  void *state;          // the backend's own
  struct framework_library *next;
} framework_library;

// ---- models ----

// A tensor of the model.
typedef struct framework_tensor {
  char *name;                     // owned
  TRITONSERVER_DataType datatype; // TRITONSERVER_TYPE_INVALID: a type that the server does not have
  int native_type;                // the framework's number for it
  bool any_type;                  // the model does not say; the configured type counts
  bool any_rank; // the model gives no shape: `shape` is empty, or [-1] where the model is known not
                 // to take a scalar
  char *refusal; // owned: why requests cannot have it; NULL: they can
  backend_shape shape; // -1 for any size; includes the batch dimension
  char *rows_name;     // owned: the model's name for its first dimension; NULL: none
  size_t position;     // for the backend
} framework_tensor;

typedef struct framework_tensors {
  framework_tensor *list; // from calloc
  size_t count;
} framework_tensors;

typedef struct framework_signature {
  framework_tensors inputs;
  framework_tensors outputs;
  framework_tensors overridable; // tensors with a default value that a request may replace
  bool open;                     // no input is required: requests may bring any of them
} framework_signature;

// An input from requests.
typedef struct framework_feed {
  const char *name; // the tensor's
  const framework_tensor *tensor;
  TRITONSERVER_DataType datatype;
  bool scalar; // the model takes rank 0, requests bring [1]
  bool optional;
  bool ragged; // the requests' elements one after another, as a one-dimensional tensor
} framework_feed;

// Tensors made from a batch (batch_input).
typedef struct framework_batch_feed {
  backend_batch_input input;
  size_t source; // index of the feed that it describes
} framework_batch_feed;

// An output that requests may ask for, or a state.
typedef struct framework_fetch {
  const char *name; // the tensor's
  const framework_tensor *tensor;
  TRITONSERVER_DataType datatype;
  const char *type_text;               // "TYPE_FP32"
  bool is_state;                       // a state of the request's sequence; may be an output, too
  backend_shape scalar_shape;          // the response's shape for rank 0
  const backend_batch_output *scatter; // one of the model's; NULL: it is cut by rows
  size_t source;                       // for `scatter`: index of the feed
} framework_fetch;

// A version of a model. `load` and `prepare` write it; afterwards all instances read it
// concurrently.
typedef struct framework_model {
  TRITONBACKEND_Model *model;
  char *name;
  json_t *config;
  int64_t max_batch_size;
  int64_t default_max_batch_size; // for batching models without a max_batch_size
  framework_library *library;     // the backend's
  framework_signature signature;  // filled by `load`
  framework_feed *feeds;
  size_t feed_count;
  framework_batch_feed *batch_feeds;
  size_t batch_feed_count;
  size_t batch_tensor_count; // of all batch feeds, each of which may feed several tensors
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
  backend_device *device;     // NULL: not on a GPU
  backend_transfer *transfer; // for an instance on a GPU
  backend_buffer *gathered;   // one for each feed, then one for each batch feed
  void *state;                // the backend's own
} framework_instance;

// ---- runs ----

// One input of the whole batch. The data lives until the run's end and is only read.
typedef struct framework_input {
  const char *name;
  const framework_tensor *tensor; // NULL: a configured batch input that the model does not have
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  size_t rank;
  const void *data; // row-major; strings as in the protocol, each after a length of 4 bytes
  size_t byte_size;
  bool on_device; // `data` is on the instance's device, complete when its stream reaches the run
} framework_input;

// Memory of a response in which an output may be computed directly. There is none where the size is
// unknown before the run, or where the output is for several responses.
typedef struct framework_room {
  backend_output output; // `data` is NULL where there is no room
  backend_room device;   // for an instance on a GPU, memory at any place
  size_t byte_size;
  const int64_t *dims;
  size_t rank;
} framework_room;

// One output of the whole batch. The data lives until the run's end.
typedef struct framework_output {
  TRITONSERVER_DataType datatype;
  backend_shape shape;
  const char *data;      // elements, or the strings' bytes one after another
  const size_t *offsets; // for strings: where each begins in `data`, and the end of the last
  bool on_device;        // as for an input
} framework_output;

// One batch.
typedef struct framework_run {
  framework_instance *instance;
  arena memory;                    // for lists, freed at the run's end
  size_t input_most;               // `add_input` is called at most this often
  const framework_fetch **fetches; // the outputs that the batch wants
  framework_room *rooms;           // one for each of these, before `compute`
  size_t fetch_count;
  uint32_t request_count;
  int64_t rows; // of all requests; without batching one per request
  void *state;  // the backend's own
} framework_run;

// ---- the definition ----

typedef struct framework_functions {
  framework framework;
  const char *library_parameter; // a model's parameter that names another library; NULL: none
  size_t alignment;              // for input data; 0: any
  bool has_room;                 // `compute` uses the rooms
  bool names_first;              // an unknown input is reported before a wrong number of inputs

  // Sets environment variables before the library is opened; in nereid before other threads exist.
  void (*set_environment)(void);

  // Reads --backend-config=NAME,key=value, one flat object of texts. The settings are for free().
  TRITONSERVER_Error *(*read_settings)(const json_t *given, void **settings);

  // Whether the library can run instances on a GPU; the error says what is missing. NULL: this
  // backend has no such instances.
  TRITONSERVER_Error *(*check_gpu)(const framework_library *library);

  // Opens `library->path`, which may be a name for the loader, and sets `version` and `state`. The
  // library stays in the process after `close` (RTLD_NODELETE).
  TRITONSERVER_Error *(*open)(framework_library *library);
  void (*close)(framework_library *library);

  // Reads the model's files and fills the signature; max_batch_size may be 0 if unset.
  TRITONSERVER_Error *(*load)(framework_model *model);
  // Completes the configuration from the signature. NULL: this backend completes nothing.
  TRITONSERVER_Error *(*complete)(framework_model *model, bool *changed);
  // Before the checks, even if nothing was completed: changes the model's tensors as configured and
  // reads the signature again. NULL: tensors stay as loaded.
  TRITONSERVER_Error *(*fit)(framework_model *model);
  // After the checks, with all members set. NULL: nothing to do.
  TRITONSERVER_Error *(*prepare)(framework_model *model);
  void (*unload)(framework_model *model);

  // NULL: instances have no state. `kind` is as configured. An instance of KIND_GPU has its device
  // if the backend has `check_gpu`.
  TRITONSERVER_Error *(*instance_new)(framework_instance *instance);
  void (*instance_free)(framework_instance *instance);

  // A run: begin, add_input for each present input, compute, read_output for each of run->fetches
  // in order, end. After an error only `end` is called, once. On a GPU `compute` enqueues on the
  // instance's stream without waiting, `read_output` may give memory on the device, and `end` is
  // called when the stream has finished.
  TRITONSERVER_Error *(*begin)(framework_run *run);
  TRITONSERVER_Error *(*add_input)(framework_run *run, const framework_input *input);
  TRITONSERVER_Error *(*compute)(framework_run *run);
  TRITONSERVER_Error *(*read_output)(framework_run *run, size_t index, framework_output *output);
  void (*end)(framework_run *run); // NULL: nothing to do
} framework_functions;

extern const framework_functions framework_definition;

// ---- for the definitions ----

// Reads the model's parameter `key`, such as a number of threads. *value is unchanged when it is
// absent.
TRITONSERVER_Error *framework_read_count(const framework_model *model, const char *key,
                                         int64_t most, int64_t *value);
TRITONSERVER_Error *framework_read_switch(const framework_model *model, const char *key,
                                          bool *value);

// Opens the directory `path` below the model's own for a framework that opens its entries by name.
// *proc_path names the directory while *descriptor is open. Each entry is opened once like a
// model's file (backend_file.h), so that what the server does not allow is refused. The caller
// closes and frees; after an error there is nothing to close.
TRITONSERVER_Error *framework_open_folder(const framework_model *model, const char *path,
                                          int *descriptor, char **proc_path);

// Opens the library at `path`; a name without a slash is left to the loader. It stays in the
// process, and its symbols are visible only through the handle. NOT_FOUND in the loader's words.
TRITONSERVER_Error *framework_open_file(const char *path, void **handle);

// A function of a library, and the member of the backend's table for its address.
typedef struct framework_function {
  const char *name;
  void *member;
  bool optional; // may be missing in older libraries: the member is NULL then
} framework_function;

// Fills the members. UNSUPPORTED names the first missing function: "'<path>' is not <wanted>: it
// has no <name>".
TRITONSERVER_Error *framework_find_functions(void *handle, const char *path, const char *wanted,
                                             const framework_function *functions, size_t count);

// Keeps the other opened libraries of this directory in the process: frameworks open libraries of
// their own, and some close them while their threads may still end.
void framework_keep_open(const framework_library *library);

// Frees the list, which may be empty.
void framework_tensors_clear(framework_tensors *tensors);

const framework_tensor *framework_tensor_find(const framework_tensors *tensors, const char *name);

// "TYPE_FP32" and the like; "TYPE_INVALID" for none.
const char *framework_config_type(TRITONSERVER_DataType datatype);

// The next string of a tensor in the protocol's form, from *at on. False when it is cut off.
bool framework_next_string(const char **at, size_t *left, const char **text, size_t *length);

// The number of elements of tensor `name`. INVALID_ARG for an impossible shape.
TRITONSERVER_Error *framework_element_count(const char *name, const int64_t *dims, size_t rank,
                                            size_t *count);

// Steps of completion: Triton's rules differ between frameworks, its steps do not. Each sets
// *changed when it changed something.
bool framework_first_dimension_open(const framework_tensors *tensors);
TRITONSERVER_Error *framework_complete_batching(framework_model *model, bool *changed);
// Completes the entries of list `key`. With `add` it also adds entries for unnamed tensors, except
// inputs that the server makes.
TRITONSERVER_Error *framework_complete_list(framework_model *model, const char *key,
                                            const framework_tensors *tensors, bool add,
                                            bool *changed);
// The same, adding all tensors.
TRITONSERVER_Error *framework_complete_tensors(framework_model *model, const char *key,
                                               const framework_tensors *tensors, bool *changed);

#endif
