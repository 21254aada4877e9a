// SPDX-License-Identifier: Apache-2.0
// The used part of OpenVINO's C API, declared here so that building needs no OpenVINO. Each row is
// a function that libopenvino_c.so exports (docs.openvino.ai, "C API") with the prefix ov_. All
// exist unchanged since 2024.3. Names and numbers in this file are OpenVINO's.
#ifndef NEREID_OV_API_H
#define NEREID_OV_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct ov_core ov_core;
typedef struct ov_model ov_model;
typedef struct ov_compiled_model ov_compiled_model;
typedef struct ov_infer_request ov_infer_request;
typedef struct ov_tensor ov_tensor;
typedef struct ov_port ov_port; // ov_output_const_port_t
typedef struct ov_preprocess ov_preprocess;
typedef struct ov_preprocess_info ov_preprocess_info;     // of an input or an output
typedef struct ov_preprocess_tensor ov_preprocess_tensor; // the same

typedef struct ov_version {
  const char *build_number; // "2026.4.1-22982-e213a147257-releases/2026/4"
  const char *description;
} ov_version;

typedef struct ov_shape {
  int64_t rank;
  int64_t *dims;
} ov_shape;

typedef struct ov_dimension {
  int64_t min, max; // equal for a fixed size; max -1: unlimited
} ov_dimension;

typedef struct ov_partial_shape {
  ov_dimension rank;
  ov_dimension *dims;
} ov_partial_shape;

// ov_element_type_e since 2025.1. Earlier each number was larger by one.
typedef enum ov_element {
  OV_BOOLEAN = 1,
  OV_BF16 = 2,
  OV_F16 = 3,
  OV_F32 = 4,
  OV_F64 = 5,
  OV_I8 = 7,
  OV_I16 = 8,
  OV_I32 = 9,
  OV_I64 = 10,
  OV_U8 = 16,
  OV_U16 = 17,
  OV_U32 = 18,
  OV_U64 = 19,
  OV_STRING = 23,
} ov_element;

// X(name without "ov_", result, arguments). An int is a status: 0 is success.
#define OV_FUNCTIONS(X)                                                                            \
  X(get_openvino_version, int, (ov_version *))                                                     \
  X(version_free, void, (ov_version *))                                                            \
  X(get_last_err_msg, const char *, (void))                                                        \
  X(free, void, (const char *))                                                                    \
  X(core_create, int, (ov_core **))                                                                \
  X(core_free, void, (ov_core *))                                                                  \
  X(core_set_property, int, (const ov_core *, const char *, ...))                                  \
  X(core_get_property, int, (const ov_core *, const char *, const char *, char **))                \
  X(core_read_model, int, (const ov_core *, const char *, const char *, ov_model **))              \
  X(core_compile_model, int,                                                                       \
    (const ov_core *, const ov_model *, const char *, size_t, ov_compiled_model **, ...))          \
  X(model_free, void, (ov_model *))                                                                \
  X(model_inputs_size, int, (const ov_model *, size_t *))                                          \
  X(model_outputs_size, int, (const ov_model *, size_t *))                                         \
  X(model_const_input_by_index, int, (const ov_model *, size_t, ov_port **))                       \
  X(model_const_output_by_index, int, (const ov_model *, size_t, ov_port **))                      \
  X(model_reshape, int, (const ov_model *, const char *const *, const ov_partial_shape *, size_t)) \
  X(port_get_any_name, int, (const ov_port *, char **))                                            \
  X(port_get_partial_shape, int, (const ov_port *, ov_partial_shape *))                            \
  X(port_get_element_type, int, (const ov_port *, int *))                                          \
  X(output_const_port_free, void, (ov_port *))                                                     \
  X(partial_shape_free, void, (ov_partial_shape *))                                                \
  X(preprocess_prepostprocessor_create, int, (const ov_model *, ov_preprocess **))                 \
  X(preprocess_prepostprocessor_free, void, (ov_preprocess *))                                     \
  X(preprocess_prepostprocessor_build, int, (const ov_preprocess *, ov_model **))                  \
  X(preprocess_prepostprocessor_get_input_info_by_index, int,                                      \
    (const ov_preprocess *, size_t, ov_preprocess_info **))                                        \
  X(preprocess_input_info_free, void, (ov_preprocess_info *))                                      \
  X(preprocess_input_info_get_tensor_info, int,                                                    \
    (const ov_preprocess_info *, ov_preprocess_tensor **))                                         \
  X(preprocess_input_tensor_info_free, void, (ov_preprocess_tensor *))                             \
  X(preprocess_input_tensor_info_set_element_type, int, (ov_preprocess_tensor *, int))             \
  X(preprocess_prepostprocessor_get_output_info_by_index, int,                                     \
    (const ov_preprocess *, size_t, ov_preprocess_info **))                                        \
  X(preprocess_output_info_free, void, (ov_preprocess_info *))                                     \
  X(preprocess_output_info_get_tensor_info, int,                                                   \
    (const ov_preprocess_info *, ov_preprocess_tensor **))                                         \
  X(preprocess_output_tensor_info_free, void, (ov_preprocess_tensor *))                            \
  X(preprocess_output_set_element_type, int, (ov_preprocess_tensor *, int))                        \
  X(compiled_model_create_infer_request, int, (const ov_compiled_model *, ov_infer_request **))    \
  X(compiled_model_free, void, (ov_compiled_model *))                                              \
  X(infer_request_set_input_tensor_by_index, int, (ov_infer_request *, size_t, const ov_tensor *)) \
  X(infer_request_set_output_tensor_by_index, int,                                                 \
    (ov_infer_request *, size_t, const ov_tensor *))                                               \
  X(infer_request_get_output_tensor_by_index, int,                                                 \
    (const ov_infer_request *, size_t, ov_tensor **))                                              \
  X(infer_request_start_async, int, (ov_infer_request *))                                          \
  X(infer_request_wait, int, (ov_infer_request *))                                                 \
  X(infer_request_free, void, (ov_infer_request *))                                                \
  X(tensor_create, int, (int, ov_shape, ov_tensor **))                                             \
  X(tensor_create_from_host_ptr, int, (int, ov_shape, void *, ov_tensor **))                       \
  X(tensor_data, int, (const ov_tensor *, void **))                                                \
  X(tensor_get_shape, int, (const ov_tensor *, ov_shape *))                                        \
  X(tensor_get_byte_size, int, (const ov_tensor *, size_t *))                                      \
  X(tensor_free, void, (ov_tensor *))                                                              \
  X(shape_free, int, (ov_shape *))

typedef struct ov_api {
#define OV_MEMBER(name, result, arguments) result(*name) arguments;
  OV_FUNCTIONS(OV_MEMBER)
#undef OV_MEMBER
  int (*core_add_extension)(const ov_core *, const char *); // NULL before 2025.4
} ov_api;

#endif
