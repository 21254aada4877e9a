// SPDX-License-Identifier: Apache-2.0
// Any bytes as an inference request of gRPC. What is accepted must be whole and within its limits,
// and protobuf-c must accept it too and find the same in it.
#include "base/arena.h"
#include "base/error.h"
#include "frontend/common/json/json_tensor.h"
#include "frontend/common/net/request_limits.h"
#include "frontend/grpc/codec/infer_request_proto.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "fuzz.h"

#include <string.h>

#define MAX_TYPED (1u << 20)

// Reads every byte: a sanitizer sees what is not there.
static void touch(const void *data, size_t size)
{
  static volatile unsigned char sum;
  for (size_t i = 0; i < size; i++)
    sum = (unsigned char)(sum + ((const unsigned char *)data)[i]);
}

static size_t check_input(const infer_json_input *input)
{
  touch(input->name, strlen(input->name) + 1);
  touch(input->shape, input->shape_count * sizeof(*input->shape));
  touch(input->data, input->data_size);
  CHECK(input->shape_count <= REQUEST_DIMENSIONS_MAX);
  if (input->shared_memory.region == NULL)
    return input->binary ? 0 : input->data_size;
  touch(input->shared_memory.region, strlen(input->shared_memory.region) + 1);
  CHECK(input->data_size == 0);
  return 0;
}

static void check_parameter(const request_parameter *p)
{
  touch(p->name, strlen(p->name) + 1);
  if (p->type == REQUEST_PARAMETER_STRING)
    touch(p->value.string, strlen(p->value.string) + 1);
}

static void check_request(const infer_request_proto *r)
{
  size_t typed = 0;
  CHECK(r->input_count <= REQUEST_TENSORS_MAX && r->output_count <= REQUEST_TENSORS_MAX);
  CHECK(r->parameter_count <= REQUEST_PARAMETERS_MAX);
  for (size_t i = 0; i < r->input_count; i++)
    typed += check_input(&r->inputs[i]);
  CHECK(r->typed_size <= MAX_TYPED && r->typed_size <= typed);
  for (size_t i = 0; i < r->output_count; i++)
    touch(r->outputs[i].name, strlen(r->outputs[i].name) + 1);
  for (size_t i = 0; i < r->parameter_count; i++)
    check_parameter(&r->parameters[i]);
}

// protobuf-c knows no groups and takes other things for broken, so it may refuse more, not less.
static void check_against_protobuf(const infer_request_proto *r, const uint8_t *data, size_t size)
{
  Inference__ModelInferRequest *m = inference__model_infer_request__unpack(NULL, size, data);
  if (m == NULL)
    return;
  CHECK(strcmp(m->model_name, r->model_name) == 0);
  CHECK(strcmp(m->model_version, r->model_version) == 0);
  CHECK(strcmp(m->id, r->id) == 0);
  CHECK(m->n_inputs == r->input_count);
  CHECK(m->n_outputs == r->output_count);
  CHECK(m->n_parameters >= r->parameter_count);
  for (size_t i = 0; i < r->input_count; i++) {
    CHECK(strcmp(m->inputs[i]->name, r->inputs[i].name) == 0);
    CHECK(datatype_named(slice_of(m->inputs[i]->datatype)) == r->inputs[i].datatype);
    CHECK(m->inputs[i]->n_shape == r->inputs[i].shape_count);
    for (size_t d = 0; d < r->inputs[i].shape_count; d++)
      CHECK(m->inputs[i]->shape[d] == r->inputs[i].shape[d]);
  }
  inference__model_infer_request__free_unpacked(m, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *message = malloc(size > 0 ? size : 1); // of just this size: a sanitizer sees its end
  CHECK(message != NULL);
  if (size > 0)
    memcpy(message, data, size);
  arena a;
  arena_init(&a, NULL, 0);
  infer_request_proto request;
  const typed_room room = {.most = MAX_TYPED};
  error *e = infer_request_proto_read((slice){message, size}, &room, &a, &request);
  touch(request.model_name, strlen(request.model_name) + 1);
  touch(request.id, strlen(request.id) + 1);
  if (e == NULL) {
    check_request(&request);
    check_against_protobuf(&request, data, size);
  } else {
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && error_message(e)[0] != '\0');
  }
  error_free(e);
  arena_fini(&a);
  free(message);
  return 0;
}
