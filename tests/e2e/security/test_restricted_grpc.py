# SPDX-License-Identifier: Apache-2.0
"""Keys and forwarded metadata over gRPC (rows 54 and 21): the same categories and rules as over HTTP."""
import json

import grpc
import numpy as np
import pytest
from conftest import DEADLINE, make_identity
from http2 import INFER, INVALID_ARGUMENT, Connection, infer_request, message
from python_models import make_python
from test_forwarded_headers import PARAMETERS
from test_restricted import CATEGORIES, KEY
from tritonclient.grpc import InferInput, InferenceServerClient, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

FIELD = "triton-grpc-protocol-the-key"
CLOSED = f"This protocol is restricted, expecting header '{FIELD}'"
METHODS = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods
# What clients without the key send instead of it.
ATTEMPTS = {
    "no key": (),
    "another key": ((FIELD, "wrong"),),
    "its beginning": ((FIELD, "Secret-"),),
    "more than it": ((FIELD, "Secret-12"),),
    "other case": ((FIELD, "secret-1"),),
    "with blanks": ((FIELD, f" {KEY} "),),
    "key twice": ((FIELD, KEY), (FIELD, KEY)),
    "key and another": ((FIELD, KEY), (FIELD, "wrong")),
    "another and key": ((FIELD, "wrong"), (FIELD, KEY)),
    "HTTP's field": (("the-key", KEY),),
    "as bytes": ((FIELD + "-bin", KEY.encode()),),
}


@pytest.fixture
def channel(start_server, repository):
    make_identity(repository, "identity")
    flags = [f"--restricted-api={CATEGORIES}:the-key={KEY}", "--model-control-mode=explicit", "--load-model=*"]
    server = start_server(repository, flags=flags, ready=False)
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield channel


def answer(channel, method, metadata):
    """(code, details) of a call with an empty request."""
    stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
    request = getattr(service_pb2, method.input_type.name)()
    try:
        if method.name == "ModelStreamInfer":
            list(stub.ModelStreamInfer(iter([request]), metadata=metadata, timeout=DEADLINE))
        else:
            getattr(stub, method.name)(request, metadata=metadata, timeout=DEADLINE)
    except grpc.RpcError as failure:
        return failure.code(), failure.details()
    return grpc.StatusCode.OK, ""


def test_no_method_opens_without_the_whole_key(channel):
    for method in METHODS:
        for name, metadata in ATTEMPTS.items():
            assert answer(channel, method, metadata) == (grpc.StatusCode.UNAVAILABLE, CLOSED), f"{method.name}, {name}"


def test_every_method_opens_with_the_key(channel):
    for method in METHODS:
        assert "restricted" not in answer(channel, method, ((FIELD, KEY),))[1], method.name


def test_health_checks_want_the_key_too(channel):
    check = channel.unary_unary("/grpc.health.v1.Health/Check")
    with pytest.raises(grpc.RpcError) as failure:
        check(b"", timeout=DEADLINE)
    assert (failure.value.code(), failure.value.details()) == (grpc.StatusCode.UNAVAILABLE, CLOSED)
    assert check(b"", metadata=((FIELD, KEY),), timeout=DEADLINE)[:1] == b"\x08"  # a status


def test_matching_metadata_become_parameters(start_server, repository):
    make_python(repository, "parameters", PARAMETERS, kind="TYPE_STRING")
    server = start_server(repository, flags=["--grpc-header-forward-pattern=MY_HEADER.*|^timeout$"])
    tensor = InferInput("IN", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([b"x"], np.object_))
    with InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        seen = client.infer("parameters", [tensor], headers={"my_header_1": "one", "other": "no"}, parameters={"mine": "2"})
        assert json.loads(seen.as_numpy("OUT")[0]) == {"my_header_1": "one", "mine": "2"}
        with pytest.raises(InferenceServerException, match="Header 'timeout' is reserved for Triton usage and cannot be forwarded"):
            client.infer("parameters", [tensor], headers={"timeout": "1"})


def test_metadata_become_parameters_as_their_client_gave_them(start_server, repository):
    """All of its own and nothing of gRPC's; with the blanks around them; binary ones without their base64."""
    make_python(repository, "parameters", PARAMETERS, kind="TYPE_STRING")
    server = start_server(repository, flags=["--grpc-header-forward-pattern=."])
    tensor = InferInput("IN", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([b"x"], np.object_))
    sent = {"x-blanks": "  a b ", "x-empty": "", "x-text-bin": "tëxt".encode(), "x-zero-bin": b"one\0two"}
    with InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
        seen = json.loads(client.infer("parameters", [tensor], headers=sent).as_numpy("OUT")[0])
    assert seen.pop("user-agent").startswith("grpc-python")
    assert seen == {"x-blanks": "  a b ", "x-empty": "", "x-text-bin": "tëxt", "x-zero-bin": "one"}
    with Connection(server) as connection:
        refused = connection.ask(INFER, [message(infer_request("parameters"))], [("x-bin", "?")])
        assert (refused.status, refused.text) == (INVALID_ARGUMENT, "metadata 'x-bin' is not base64")
