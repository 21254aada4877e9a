# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a request for an inference is said in Triton's words and with its status: asked of both.

grpc_bad_requests.py has the requests; here are the answers. Triton's client reads the same from a stream.
"""
import grpc
import pytest
from grpc_bad_requests import BAD, request
from grpc_sides import DEADLINE, NEREID, grpc_server, grpc_side  # noqa: F401 - fixtures
from tritonclient.grpc import service_pb2_grpc

ID = "[request id: <id_unknown>] "
RAW = "input byte size mismatch for input 'INPUT0' for model 't_int32'. Expected 8, got "
DATATYPE = "inference input 'INPUT0' data-type is '{}', but model 't_int32' expects 'INT32'"
SHAPE = (
    "unexpected shape for input 'INPUT0' for model 't_int32'. Expected [-1,-1], got {}. NOTE: Setting a non-zero max_batch_size in "
    "the model config requires a batch dimension to be prepended to each input shape. If you want to specify the full shape "
    "including the batch dim in your input dims config, try setting max_batch_size to zero. See the model configuration docs for "
    "more info on max_batch_size."
)
EXPLICIT = "unexpected explicit tensor data for input tensor 'INPUT0' for model '{}', binary data was already supplied."
ANOTHER = "unexpected explicit tensor data for input tensor 'INPUT0' for model '{0}' of type 'FP32', expected datatype '{1}'"
INDICATOR = (
    "incomplete string length indicator for inference input 'INPUT0' for model 't_bytes', expecting 4 bytes but only {} bytes "
    "available. Please make sure the string length indicator is in one buffer."
)
NO_VERSION = (
    "failed to get model version from specified version string '{}' (details: stol), version should be an integral value > 0"
)
INVALID = {
    "no version": NO_VERSION.format("x"),
    "a version below 0": "invalid model version specified '-2' , version should be an integral value > 0",
    "no inputs": ID + "expected 1 inputs but got 0 inputs for model 't_int32'. Got input(s) [], but missing required input(s) "
                      "['INPUT0']. Please provide all required input(s).",
    "an unknown input": "unexpected inference input 'WHAT' for model 't_int32'",
    "an input twice": ID + "input 'INPUT0' already exists in request",
    "an input of no name": "unexpected inference input '' for model 't_int32'",
    "another type": ID + DATATYPE.format("FP32"),
    "an unknown type": ID + DATATYPE.format("<invalid>"),
    "no type": ID + DATATYPE.format("<invalid>"),
    "a small type": ID + DATATYPE.format("<invalid>"),
    "too few dimensions": ID + SHAPE.format("[2]"),
    "too many dimensions": ID + SHAPE.format("[1,2,1]"),
    "no dimensions": ID + "input 'INPUT0' has no shape but model requires batch dimension for 't_int32'",
    "a dimension of -1": ID + "All input dimensions should be specified for input 'INPUT0' for model 't_int32', got [1,-1]",
    "an element count beyond 64 bits": ID + SHAPE.format("[1,4611686018427387904,8]"),
    "a byte too few": ID + RAW + "7",
    "a byte too many": ID + RAW + "9",
    "no bytes": ID + RAW + "0",
    "no data": "unable to find data for input tensor 'INPUT0' for model 't_int32' in request.",
    "raw and typed": "contents field must not be specified when using raw_input_contents for 'INPUT0' for model 't_int32'",
    "typed, too few": ID + RAW + "4",
    "typed, too many": ID + RAW + "12",
    "typed, of another type": ANOTHER.format("t_int32", "INT32"),
    "typed, of two types": EXPLICIT.format("t_int32"),
    "typed FP16": ANOTHER.format("t_fp16", "FP16"),
    "typed BF16": ANOTHER.format("t_bf16", "BF16"),
    "a string of too many bytes": ID + INDICATOR.format(1),
    "fewer strings than elements": ID + "expected 2 string elements for inference input 'INPUT0' for model 't_bytes', got 1",
    "a length cut off": ID + INDICATOR.format(3),
    "an unknown output": "unexpected inference output 'WHAT' for model 't_int32'",
    "a reserved parameter": "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting "
                            "with 'triton_' are allowed: triton_enable_empty_final_response",
    "an empty final response of text": "invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param.",
    "a sequence id of a boolean": "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
    "a sequence's start of a number": "invalid value type for 'sequence_start' parameter, expected bool_param.",
    "a sequence's end of a number": "invalid value type for 'sequence_end' parameter, expected bool_param.",
    "a priority of text": "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
    "a priority below 0": "invalid value for 'priority', expected value >= 0.",
    "a timeout of text": "invalid value type for 'timeout' parameter, expected int64_param.",
    "a region without its size": "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor "
                                 "'INPUT0'",
    "a region of a number": "invalid value type for 'shared_memory_region' parameter for tensor 'INPUT0', expected string_param.",
    "a size without its region": "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor "
                                 "'INPUT0'",
    "a region's size of text": "invalid value type for 'shared_memory_byte_size' parameter for tensor 'INPUT0', expected int64_param.",
    "classes in memory": "output can't set both 'shared_memory_region' and 'classification'",
    "classes of text": "invalid value type for 'classification' parameter, expected int64_param",
    "classes below 0": "invalid value for 'classification' parameter, expected >= 0",
}
ANSWERS = {name: ("INVALID_ARGUMENT", text) for name, text in INVALID.items()} | {
    "an unknown model": ("NOT_FOUND", "Request for unknown model: 'none' is not found"),
    "no model": ("NOT_FOUND", "Request for unknown model: '' is not found"),
    "an unknown version": ("NOT_FOUND", "Request for unknown model: 't_int32' version 7 is not found"),
    "a decoupled model": ("UNIMPLEMENTED", "ModelInfer RPC doesn't support models with decoupled transaction policy"),
    "a sequence id too long": ("UNIMPLEMENTED", "string correlation ID cannot be longer than 128 characters"),
    "an unknown region": ("NOT_FOUND", "Unable to find shared memory region: 'r'"),
    "an unknown region for an output": ("NOT_FOUND", "Unable to find shared memory region: 'r'"),
}

# Where the two differ: nereid's answer, Triton's.
KINDS = "invalid value type for 'mine' parameter, expected int64_param, bool_param, or string_param."
NO_STRINGS = "expected 2 string elements for inference input 'INPUT0' for model 't_bytes', got 0"
BATCH = ID + "inference request batch-size must be <= 8 for 't_int32'"
OTHERWISE = {
    "a dimension below 0": (  # Triton multiplies it
        ID + "All input dimensions should be specified for input 'INPUT0' for model 't_int32', got [1,-2]", ID + RAW.replace("8", "-8") + "8"),
    "a batch too large": (BATCH + ", got 9", BATCH),
    "strings of too few bytes": (  # Triton hands them to the model
        ID + "element 0 of inference input 'INPUT0' for model 't_bytes' claims 3 bytes, more than the tensor holds: before the bytes of each element "
        "stands their number, 4 bytes, little-endian", None),
    "no rows": (ID + RAW + "0: its batch dimension is 0, expected at least 1", ID + RAW + "0"),
    "no rows of strings": (ID + NO_STRINGS + ": its batch dimension is 0, expected at least 1", ID + NO_STRINGS),
    "no rows, and bytes": (ID + "inference request batch-size must be >= 1 for 't_int32', got 0 for input 'INPUT0'", None),
    "no rows, nothing in them": (ID + "inference request batch-size must be >= 1 for 't_int32', got 0 for input 'INPUT0'", None),
    "an unsigned parameter": (KINDS + " A double_param is taken too.", KINDS),  # both take doubles
    "a parameter of nothing": (KINDS + " A double_param is taken too.", KINDS),
}
TAKEN = {
    "more raw than inputs", "a version and more", "a version with a dot", "a version behind a blank", "an output twice",
    "a timeout below 0", "no elements", "no elements, not batched",
}


def test_each_bad_request_has_its_answer():
    assert ANSWERS.keys() | OTHERWISE.keys() | TAKEN == BAD.keys()


def answer(server, name):
    """Status and text."""
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}"))
    try:
        stub.ModelInfer(BAD[name], timeout=DEADLINE)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", None


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_wrong_is_said_as_triton_does(grpc_server, name):
    assert answer(grpc_server, name) == ANSWERS[name]


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_said_otherwise(grpc_server, grpc_side, name):
    ours, theirs = OTHERWISE[name]
    text = ours if grpc_side is NEREID else theirs
    assert theirs is None or ours.startswith(theirs) or name == "a dimension below 0"
    assert answer(grpc_server, name) == ("OK" if text is None else "INVALID_ARGUMENT", text)


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_what_triton_takes_is_taken(grpc_server, name):
    assert answer(grpc_server, name) == ("OK", None)


def test_a_stream_says_the_same(grpc_server):
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{grpc_server.grpc_port}"))
    names = [name for name in ANSWERS if name != "a decoupled model"]
    replies = stub.ModelStreamInfer(iter([*(BAD[name] for name in names), request(id="last")]), timeout=DEADLINE)
    replies = list(replies)
    assert [reply.error_message for reply in replies] == [*(ANSWERS[name][1] for name in names), ""]
    assert replies[-1].infer_response.id == "last"
