# SPDX-License-Identifier: Apache-2.0
"""The access log over gRPC: one line for each call, and one for each request of a stream."""
import grpc
import numpy as np
import pytest
from conftest import make_identity, wait_for
from grpc_sides import DEADLINE, Answers, client_of, tensor
from python_sides import put_model
from test_access_log import KEYS, await_entry, entries_of
from tritonclient.utils import InferenceServerException

SERVICE = "/inference.GRPCInferenceService/"


def ints(*values):
    return [tensor(np.array(values, np.int32))]


@pytest.fixture
def logged(start_server, repository, tmp_path):
    make_identity(repository, "m", "TYPE_INT32")
    for name in ("repeat", "patient"):
        put_model(repository, name)
    server = start_server(repository, flags=["--log-format=json", f"--access-log={tmp_path / 'access.log'}",
                                             "--model-control-mode=explicit", "--load-model=*"])
    server.access = tmp_path / "access.log"
    return server


def test_an_inference_is_told_with_all_that_is_known(logged):
    with client_of(logged) as client:
        result = client.infer("m", [tensor(np.array([[1], [2]], np.int32))], request_id="first")
    entry = await_entry(logged.access, request_id="first")
    assert list(entry) == KEYS
    assert {k: entry[k] for k in ("protocol", "method", "route", "status", "model", "version", "batch", "bytes_out")} == {
        "protocol": "grpc", "method": "", "route": SERVICE + "ModelInfer", "status": 0, "model": "m", "version": 1, "batch": 2,
        "bytes_out": result.get_response().ByteSize()}
    assert 0 < entry["queue_us"] + entry["compute_us"] <= entry["total_us"] and entry["bytes_in"] > 8


def test_what_fails_has_its_status(logged):
    with client_of(logged) as client:
        for model, shape in (("none", ints(1)), ("m", ints(1)), ("repeat", ints(1))):
            with pytest.raises(InferenceServerException):
                client.infer(model, shape, request_id=f"to {model}")
    for model, status in (("none", grpc.StatusCode.NOT_FOUND), ("m", grpc.StatusCode.INVALID_ARGUMENT),
                          ("repeat", grpc.StatusCode.UNIMPLEMENTED)):
        assert await_entry(logged.access, request_id=f"to {model}")["status"] == status.value[0]
    channel = grpc.insecure_channel(f"127.0.0.1:{logged.grpc_port}")
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/none/of\"these")(b"", timeout=DEADLINE)
    assert await_entry(logged.access, route="/none/of\"these")["status"] == grpc.StatusCode.UNIMPLEMENTED.value[0]
    with client_of(logged) as client:
        assert client.is_server_live()
    assert await_entry(logged.access, route=SERVICE + "ServerLive")["status"] == 0


def test_a_call_that_its_client_left_is_told_so(logged):
    answers = Answers()
    with client_of(logged) as client:
        call = client.async_infer("patient", ints(1), answers, request_id="left")
        wait_for("the model's start", lambda: "patient: began left" in logged.log)
        call.cancel()
        assert answers.error() is not None
        entry = await_entry(logged.access, route=SERVICE + "ModelInfer")
    assert (entry["request_id"], entry["status"]) == ("left", grpc.StatusCode.CANCELLED.value[0])


def test_each_request_of_a_stream_is_told_and_the_stream(logged):
    answers = Answers()
    with client_of(logged) as client:
        client.start_stream(answers)
        client.async_stream_infer("repeat", ints(1, 2, 3), request_id="three", enable_empty_final_response=True)
        client.async_stream_infer("m", [tensor(np.array([[1]], np.int32))], request_id="one")
        client.async_stream_infer("none", ints(1), request_id="refused")
        for _ in range(6):
            answers.next()
        client.stop_stream()
    await_entry(logged.access, protocol="grpc", request_id="")  # the call's own
    entries = [e for e in entries_of(logged.access) if e["protocol"] == "grpc"]
    lines = {e["request_id"]: e for e in entries}
    assert len(lines) == len(entries) == 4
    assert {e["route"] for e in lines.values()} == {SERVICE + "ModelStreamInfer"}
    assert {id: (e["model"], e["status"]) for id, e in lines.items()} == {
        "three": ("repeat", 0), "one": ("m", 0), "refused": ("none", grpc.StatusCode.NOT_FOUND.value[0]), "": ("", 0)}
    assert all(lines[id]["bytes_out"] > 0 for id in ("three", "one", ""))
