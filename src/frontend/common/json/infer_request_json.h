// SPDX-License-Identifier: Apache-2.0
// Reads the JSON part of an inference request (KServe v2) in one pass, without a tree. For front
// ends that speak JSON. Pure functions: memory is from the caller's arena; names and plain strings
// may be views of the text. Any thread.
#ifndef NEREID_FRONTEND_COMMON_JSON_INFER_REQUEST_JSON_H
#define NEREID_FRONTEND_COMMON_JSON_INFER_REQUEST_JSON_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/json_scan.h"
#include "frontend/common/json/request_parameter.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where a tensor is in shared memory; `region` is NULL when it is not.
typedef struct json_shared_memory {
  const char *region;
  uint64_t offset;    // bytes
  uint64_t byte_size; // bytes
} json_shared_memory;

typedef struct infer_json_input {
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *shape;
  size_t shape_count;
  uint64_t element_count; // product of the shape
  bool binary;            // binary_data_size was given: the data follows the JSON part
  size_t binary_size;     // bytes
  const void *data;       // JSON data as the tensor's bytes, in the arena, aligned to 64; after
                          // binary_tensors_split a view of the binary part
  size_t data_size;       // bytes
  json_shared_memory shared_memory;
} infer_json_input;

typedef struct infer_json_output {
  const char *name;
  bool binary;             // binary_data
  uint64_t classification; // 0: the tensor itself
  json_shared_memory shared_memory;
} infer_json_output;

typedef struct infer_request_json {
  const char *id; // "" when absent
  infer_json_input *inputs;
  size_t input_count;
  size_t json_data_size; // bytes of all tensors given as JSON
  size_t max_data_size;  // limit of json_data_size
  infer_json_output *outputs;
  size_t output_count;       // 0: all outputs
  bool binary_output;        // binary_data_output: for all outputs if none is listed
  uint64_t sequence_id;      // 0: none
  const char *sequence_name; // sequence_id given as a string, else NULL
  bool sequence_start, sequence_end;
  uint64_t priority;          // 0: the model's default
  uint64_t timeout_us;        // microseconds, 0: the model's default
  json_parameters parameters; // without the keys that the protocol defines
} infer_request_json;

// Reads `text`. Numbers are read before their end is compared with the text's end, so readable
// memory must follow (the binary part), and end in 16 zeroes (body_finish writes them). All tensors
// given as JSON may have `max_data_size` bytes together, because a text can describe a multiple of
// its size. Errors are INVALID_ARG and name the path, the value and what was expected:
// "inputs[0].data[17]: …"; UNAVAILABLE when memory is short. After an error the arena's content is
// garbage. `host` may be NULL. The core checks for names that stand twice, and counts strings:
// `data` may hold fewer than the shape says, or one more.
error *infer_request_json_read(slice text, size_t max_data_size, const json_host *host, arena *a,
                               infer_request_json *out);

// Only the parameter `timeout` of such a text; 0 if it is absent or unreadable.
uint64_t infer_request_json_timeout(slice text, arena *a);

// Gives each binary input its slice of `binary`, in the order of inputs. INVALID_ARG unless the
// sizes add up to exactly binary.size; the text names the input, the model, the bytes wanted and
// left.
error *binary_tensors_split(infer_request_json *request, const char *model, slice binary);

#endif
