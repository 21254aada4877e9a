// SPDX-License-Identifier: Apache-2.0
// The used part of TensorFlow's C interface. Building needs no TensorFlow: its functions are looked
// up in libtensorflow_cc.so.2, and these types are unchanged since 2.16.
#ifndef NEREID_TF_API_H
#define NEREID_TF_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct tf_api_status tf_api_status;
typedef struct tf_api_graph tf_api_graph;
typedef struct tf_api_operation tf_api_operation;
typedef struct tf_api_session tf_api_session;
typedef struct tf_api_session_options tf_api_session_options;
typedef struct tf_api_import_options tf_api_import_options;
typedef struct tf_api_library tf_api_library;
typedef struct tf_api_tensor tf_api_tensor;

typedef struct tf_api_buffer {
  const void *data;
  size_t length;
  void (*release)(void *data, size_t length);
} tf_api_buffer;

typedef struct tf_api_output {
  tf_api_operation *operation;
  int index;
} tf_api_output;

// An element of a tensor of strings. Only the library reads and writes its bytes.
typedef struct tf_api_string {
  uint64_t opaque[3];
} tf_api_string;

typedef void (*tf_api_release)(void *data, size_t length, void *context);

#define TF_API_OK 0

// TF_API_FUNCTIONS(X) calls X(name without TF_, result, arguments) for each function.
#define TF_API_FUNCTIONS(X)                                                                        \
  X(Version, const char *, (void))                                                                 \
  X(NewStatus, tf_api_status *, (void))                                                            \
  X(DeleteStatus, void, (tf_api_status *))                                                         \
  X(GetCode, int, (const tf_api_status *))                                                         \
  X(Message, const char *, (const tf_api_status *))                                                \
  X(NewBufferFromString, tf_api_buffer *, (const void *, size_t))                                  \
  X(DeleteBuffer, void, (tf_api_buffer *))                                                         \
  X(NewGraph, tf_api_graph *, (void))                                                              \
  X(DeleteGraph, void, (tf_api_graph *))                                                           \
  X(GraphOperationByName, tf_api_operation *, (tf_api_graph *, const char *))                      \
  X(OperationNumOutputs, int, (tf_api_operation *))                                                \
  X(NewImportGraphDefOptions, tf_api_import_options *, (void))                                     \
  X(DeleteImportGraphDefOptions, void, (tf_api_import_options *))                                  \
  X(ImportGraphDefOptionsSetDefaultDevice, void, (tf_api_import_options *, const char *))          \
  X(GraphImportGraphDef, void,                                                                     \
    (tf_api_graph *, const tf_api_buffer *, const tf_api_import_options *, tf_api_status *))       \
  X(NewSessionOptions, tf_api_session_options *, (void))                                           \
  X(DeleteSessionOptions, void, (tf_api_session_options *))                                        \
  X(SetConfig, void, (tf_api_session_options *, const void *, size_t, tf_api_status *))            \
  X(NewSession, tf_api_session *,                                                                  \
    (tf_api_graph *, const tf_api_session_options *, tf_api_status *))                             \
  X(LoadSessionFromSavedModel, tf_api_session *,                                                   \
    (const tf_api_session_options *, const tf_api_buffer *, const char *, const char *const *,     \
     int, tf_api_graph *, tf_api_buffer *, tf_api_status *))                                       \
  X(CloseSession, void, (tf_api_session *, tf_api_status *))                                       \
  X(DeleteSession, void, (tf_api_session *, tf_api_status *))                                      \
  X(SessionRun, void,                                                                              \
    (tf_api_session *, const tf_api_buffer *, const tf_api_output *, tf_api_tensor *const *, int,  \
     const tf_api_output *, tf_api_tensor **, int, const tf_api_operation *const *, int,           \
     tf_api_buffer *, tf_api_status *))                                                            \
  X(LoadLibrary, tf_api_library *, (const char *, tf_api_status *))                                \
  X(DeleteLibraryHandle, void, (tf_api_library *))                                                 \
  X(NewTensor, tf_api_tensor *,                                                                    \
    (int, const int64_t *, int, void *, size_t, tf_api_release, void *))                           \
  X(AllocateTensor, tf_api_tensor *, (int, const int64_t *, int, size_t))                          \
  X(DeleteTensor, void, (tf_api_tensor *))                                                         \
  X(TensorType, int, (const tf_api_tensor *))                                                      \
  X(NumDims, int, (const tf_api_tensor *))                                                         \
  X(Dim, int64_t, (const tf_api_tensor *, int))                                                    \
  X(TensorData, void *, (const tf_api_tensor *))                                                   \
  X(StringInit, void, (tf_api_string *))                                                           \
  X(StringCopy, void, (tf_api_string *, const char *, size_t))                                     \
  X(StringGetDataPointer, const char *, (const tf_api_string *))                                   \
  X(StringGetSize, size_t, (const tf_api_string *))                                                \
  X(StringDealloc, void, (tf_api_string *))

typedef struct tf_api {
#define TF_API_MEMBER(name, result, arguments) result(*name) arguments;
  TF_API_FUNCTIONS(TF_API_MEMBER)
#undef TF_API_MEMBER
} tf_api;

#endif
