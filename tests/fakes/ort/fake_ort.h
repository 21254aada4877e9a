// SPDX-License-Identifier: Apache-2.0
// An ONNX Runtime that is played, with its CUDA and TensorRT providers, for machines without a GPU:
// the rows of the C API that nereid calls (backends/onnxruntime/ort_api.h), computed on the played
// driver (tests/fakes/gpu). A model is a text:
//
//     input X FP32 batch 4
//     output Y FP32 -1 4        its elements are those of the input at the same place, doubled
//
// and `output Y STRING -1` repeats its strings; `output Y FP32 -1 4 grown` has a row more than its
// input. What it is told is appended to the file that NEREID_FAKE_ORT names, a JSON object a line.
// As the real one: tensors on a device are read and written on the stream of the session, later;
// runs with a gpu_graph_id replay at the addresses of the first one. Compiled without sanitizers.
#ifndef NEREID_FAKE_ORT_H
#define NEREID_FAKE_ORT_H

#include "backends/onnxruntime/ort_api.h"
#include "src/gpu/cuda.h"

#include <stdbool.h>

#define MOST_TENSORS 8
#define MOST_DIMS    8
#define MOST_OPTIONS 32

#define PROTOTYPE(index, name, result, arguments) result name arguments;
ORT_FUNCTIONS(PROTOTYPE)
ORT_GPU_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

// ---- what the handles are ----

typedef struct fake_pairs {
  char keys[MOST_OPTIONS][64], values[MOST_OPTIONS][256];
  size_t count;
} fake_pairs;

void pairs_set(fake_pairs *pairs, const char *key, const char *value);
const char *pairs_get(const fake_pairs *pairs, const char *key); // "" where there is none

struct ort_status {
  char text[512];
};

struct ort_memory_info {
  char name[16];
  int device;
};

struct ort_cuda_options {
  fake_pairs pairs;
  CUstream stream;
};

struct ort_tensorrt_options {
  fake_pairs pairs;
  CUstream stream;
};

struct ort_run_options {
  fake_pairs pairs;
};

struct ort_session_options {
  fake_pairs pairs;
  bool has_cuda, has_tensorrt;
  struct ort_cuda_options cuda; // copies, as they were when they were appended
  struct ort_tensorrt_options tensorrt;
};

typedef struct fake_tensor {
  char name[64];
  ort_element_type type;
  int64_t dims[MOST_DIMS];
  char symbols[MOST_DIMS][16];
  size_t rank;
  bool grown;
} fake_tensor;

struct ort_tensor_info {
  ort_element_type type;
  int64_t dims[MOST_DIMS];
  char symbols[MOST_DIMS][16]; // the model's names of those that are open
  size_t rank;
};

struct ort_type_info {
  struct ort_tensor_info tensor;
};

typedef struct fake_string {
  char *text;
  size_t length;
} fake_string;

struct ort_value {
  struct ort_tensor_info info;
  struct ort_memory_info memory;
  void *data;
  size_t bytes;
  fake_string *strings; // of a tensor of strings
  const void *owner;    // of `data`, NULL: somebody else
};

// ---- the driver ----

typedef struct fake_driver {
#define MEMBER(name, arguments) CUresult(*name) arguments;
  CUDA_FUNCTIONS(MEMBER, MEMBER)
#undef MEMBER
} fake_driver;

const fake_driver *driver(void); // NULL: there is none

// ---- for all ----

struct ort_status *failed(const char *format, ...) __attribute__((format(printf, 1, 2)));
// One line of the file.
void record(const char *format, ...) __attribute__((format(printf, 1, 2)));
void record_pairs(const char *call, const fake_pairs *pairs);
size_t element_size(ort_element_type type);
size_t element_count(const int64_t *dims, size_t rank);
struct ort_value *value_new(const struct ort_tensor_info *info,
                            const struct ort_memory_info *where);

#endif
