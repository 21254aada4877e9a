# SPDX-License-Identifier: Apache-2.0
"""Server reflection with gRPC's own client of it: what grpcurl and its kin do."""
import grpc
import pytest
from conftest import make_identity
from google.protobuf import descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from tritonclient.grpc import service_pb2

SERVICES = {"inference.GRPCInferenceService", "grpc.health.v1.Health"}


@pytest.fixture
def channel(start_server, repository):
    make_identity(repository, "identity")
    server = start_server(repository)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield channel


def ask(channel, *requests, service="v1alpha"):
    method = f"/grpc.reflection.{service}.ServerReflection/ServerReflectionInfo"
    call = channel.stream_stream(method, request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
                                 response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
    return list(call(iter(requests)))


def test_a_client_that_knows_nothing_finds_the_services_and_calls_one(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert set(database.get_services()) == SERVICES
    pool = descriptor_pool.DescriptorPool(database)
    service = pool.FindServiceByName("inference.GRPCInferenceService")
    assert {m.name for m in service.methods} == {m.name for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods}
    method = service.methods_by_name["ModelReady"]
    request = message_factory.GetMessageClass(method.input_type)(name="identity")
    answer = channel.unary_unary(f"/{service.full_name}/{method.name}", request_serializer=type(request).SerializeToString,
                                 response_deserializer=message_factory.GetMessageClass(method.output_type).FromString)(request)
    assert answer.ready is True


def test_each_question_is_answered_in_turn_and_with_itself(channel):
    questions = [
        reflection_pb2.ServerReflectionRequest(host="here", list_services=""),
        reflection_pb2.ServerReflectionRequest(file_by_filename="config/model_config.proto"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.ModelInferRequest.InferInputTensor"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.GRPCInferenceService.ModelInfer"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="inference.GRPCInferenceServiceX"),
        reflection_pb2.ServerReflectionRequest(file_by_filename="no/such.proto"),
        reflection_pb2.ServerReflectionRequest(all_extension_numbers_of_type="inference.ModelInferRequest"),
    ]
    answers = ask(channel, *questions)
    assert [answer.original_request for answer in answers] == questions
    assert answers[0].valid_host == "here"
    assert {service.name for service in answers[0].list_services_response.service} == SERVICES
    for answer in answers[1:4]:
        assert len(answer.file_descriptor_response.file_descriptor_proto) == 1
    for answer in answers[4:]:
        assert answer.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert answers[5].error_response.error_message == "not found: no/such.proto"


def test_both_versions_of_the_service_are_there(channel):
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    assert ask(channel, question, service="v1") == ask(channel, question)


def test_what_is_no_question_ends_the_stream(channel):
    call = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")(iter([b"\xff\xff\xff"]))
    with pytest.raises(grpc.RpcError) as refused:
        list(call)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
