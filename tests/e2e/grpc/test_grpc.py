# SPDX-License-Identifier: Apache-2.0
"""Inferences over gRPC with Triton's unmodified client, on nereid and on Triton 2.51: the same answers.

The other methods are in test_grpc_control.py, streams in test_grpc_stream.py, refusals in test_grpc_errors.py.
"""
import json
import os
import time

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as client_shm
from conftest import wait_for
from grpc_sides import DEADLINE, NEREID, Answers, client, client_of, grpc_server, grpc_side, tensor  # noqa: F401 - fixtures
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

NUMBERS = ["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"]
TEXTS = np.array([[b"", b"abc", "ü".encode(), b"\0\1\xff", b"x" * 70000]], object)


def sample(datatype):
    """Values whose bytes all differ, the extremes among them."""
    if datatype == "BOOL":
        return np.array([[True, False, True]])
    if datatype == "BYTES":
        return TEXTS
    kind = np.dtype(ml_dtypes.bfloat16 if datatype == "BF16" else triton_to_np_dtype(datatype))
    limits = ml_dtypes.finfo(kind) if datatype in ("FP16", "BF16", "FP32", "FP64") else np.iinfo(kind)
    return np.array([[limits.min, 0, 1, 113, limits.max]], kind)


@pytest.mark.parametrize("datatype", ["BOOL", "BYTES", *NUMBERS])
def test_every_type_comes_back_as_it_went(client, datatype):
    data = sample(datatype)
    result = client.infer(f"t_{datatype.lower()}", [tensor(data, datatype)])
    output = result.get_output("OUTPUT0")
    assert (output.name, output.datatype, list(output.shape)) == ("OUTPUT0", datatype, list(data.shape))
    assert result.as_numpy("OUTPUT0").tolist() == data.tolist()


TYPED = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents_are_as_good_as_raw_ones(grpc_server, datatype):
    """What clients without NumPy send: generated ones, in any language."""
    data = sample(datatype)
    request = service_pb2.ModelInferRequest(model_name=f"t_{datatype.lower()}")
    one = request.inputs.add(name="INPUT0", datatype=datatype, shape=data.shape)
    getattr(one.contents, TYPED[datatype]).extend(data.ravel().tolist())
    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{grpc_server.grpc_port}"))
    reply = stub.ModelInfer(request, timeout=DEADLINE)
    assert not reply.outputs[0].HasField("contents")
    assert triton.InferResult(reply).as_numpy("OUTPUT0").tolist() == data.tolist()


def test_large_tensors(client):
    data = np.arange(4_000_000, dtype=np.float32).reshape(1, -1)
    assert (client.infer("t_fp32", [tensor(data, "FP32")]).as_numpy("OUTPUT0") == data).all()


def test_a_tensor_without_elements(client):
    result = client.infer("t_fp32", [tensor(np.zeros((2, 0), np.float32), "FP32")])
    assert result.as_numpy("OUTPUT0").shape == (2, 0)


def test_the_reply_says_what_answered(client):
    response = client.infer("t_int32", [tensor(np.array([[1]], np.int32))], request_id="seven").get_response()
    assert (response.model_name, response.model_version, response.id) == ("t_int32", "1", "seven")
    assert len(response.raw_output_contents) == 1 and [o.name for o in response.outputs] == ["OUTPUT0"]


@pytest.mark.parametrize("asked, answered", [("", "3"), ("1", "1"), ("3", "3")])
def test_a_version_is_chosen(client, asked, answered):
    result = client.infer("two_versions", [tensor(np.array([[1]], np.float32), "FP32")], model_version=asked)
    assert result.get_response().model_version == answered


def test_results_as_json(client):
    reply = client.infer("t_int32", [tensor(np.array([[1]], np.int32))]).get_response(as_json=True)
    assert reply["outputs"] == [{"name": "OUTPUT0", "datatype": "INT32", "shape": ["1", "1"]}]


def told(client, **options):
    """What the model `tell` says that it was asked."""
    result = client.infer("tell", [tensor(np.array([1], np.int32))], **options)
    return json.loads(result.as_numpy("OUTPUT0")[0])


def test_what_a_request_carries_reaches_the_model(client):
    got = told(client, request_id="an id", timeout=5_000_000, outputs=[triton.InferRequestedOutput("OUTPUT0")],
               parameters={"text": "ü", "number": -7, "truth": True, "fraction": 0.5})
    assert (got["request_id"], got["timeout"], got["requested_output_names"]) == ("an id", 5_000_000, ["OUTPUT0"])
    assert {key: got["parameters"][key] for key in ("text", "number", "truth")} == {"text": "ü", "number": -7, "truth": True}
    assert got["parameters"]["fraction"] == 0.5


def test_sequences_reach_the_model(client):
    got = told(client, sequence_id=42, sequence_start=True, sequence_end=True)
    assert (got["correlation_id"], got["flags"]) == (42, 3)
    got = told(client, sequence_id="forty-two", sequence_start=True)
    assert (got["correlation_id"], got["flags"]) == ("forty-two", 1)


def test_a_priority_is_taken(client):
    assert client.infer("t_int32", [tensor(np.array([[1]], np.int32))], priority=2).as_numpy("OUTPUT0").tolist() == [[1]]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_requests_may_be_compressed(client, algorithm):
    data = np.zeros((1, 300_000), np.int32)
    result = client.infer("t_int32", [tensor(data)], compression_algorithm=algorithm)
    assert (result.as_numpy("OUTPUT0") == data).all()


def test_headers_are_taken(client):
    assert client.infer("t_int32", [tensor(np.array([[1]], np.int32))], headers={"a-header": "x", "bin-bin": b"\0\xff"})
    assert client.is_server_live(headers={"a-header": "x"})


def test_outputs_as_classes(client):
    source = tensor(np.array([[1, 2, 3], [6, 5, 4]], np.float32), "FP32")
    result = client.infer("rows", [source], outputs=[triton.InferRequestedOutput("OUTPUT0", class_count=2)])
    assert result.get_output("OUTPUT0").datatype == "BYTES"
    assert result.as_numpy("OUTPUT0").tolist() == [[b"3.000000:2", b"2.000000:1:one"], [b"6.000000:0:zero", b"5.000000:1:one"]]


def test_tensors_in_the_client_s_memory(client):
    """In and out, by the client's own functions; the reply keeps an empty place for what is in memory."""
    data = np.arange(16, dtype=np.int32).reshape(1, 16)
    keys = {name: f"/nereid_grpc_{name}_{os.getpid()}" for name in ("in", "out")}
    ends = {name: client_shm.create_shared_memory_region(name, key, 64) for name, key in keys.items()}
    try:
        client_shm.set_shared_memory_region(ends["in"], [data])
        for name, key in keys.items():
            client.register_system_shared_memory(name, key, 64)
        source, target = triton.InferInput("INPUT0", data.shape, "INT32"), triton.InferRequestedOutput("OUTPUT0")
        source.set_shared_memory("in", 64)
        target.set_shared_memory("out", 64)
        response = client.infer("t_int32", [source], outputs=[target]).get_response()
        assert list(response.raw_output_contents) == [b""] and list(response.outputs[0].shape) == [1, 16]
        assert (client_shm.get_contents_as_numpy(ends["out"], np.int32, data.shape) == data).all()
        assert (client.infer("t_int32", [source]).as_numpy("OUTPUT0") == data).all()
        client.unregister_system_shared_memory()
        assert not client.get_system_shared_memory_status().regions
    finally:
        for end in ends.values():
            client_shm.destroy_shared_memory_region(end)


# ---- answers later ----

def test_many_at_once(client):
    answers = Answers()
    for i in range(200):
        client.async_infer("t_int32", [tensor(np.array([[i]], np.int32))], answers, request_id=str(i))
    got = [answers.result() for _ in range(200)]
    assert sorted(int(r.get_response().id) for r in got) == list(range(200))
    assert all(r.as_numpy("OUTPUT0").tolist() == [[int(r.get_response().id)]] for r in got)


def test_errors_of_asynchronous_requests(client):
    answers = Answers()
    client.async_infer("tell", [tensor(np.array([1], np.int32))], answers, parameters={"code": "NOT_FOUND"})
    error = answers.error()
    assert (error.status(), error.message()) == ("StatusCode.NOT_FOUND", "as you wish")


def begin_patient(grpc_server, client, name, answers, **options):
    call = client.async_infer("patient", [tensor(np.array([1], np.int32))], answers, request_id=name, **options)
    wait_for("the model's start", lambda: f"patient: began {name}" in grpc_server.log)
    return call


def test_a_request_is_cancelled(grpc_server, client):
    answers = Answers()
    begin_patient(grpc_server, client, "left", answers).cancel()
    assert answers.error().status() == "StatusCode.CANCELLED"
    wait_for("what the model sees", lambda: "patient: cancelled left" in grpc_server.log)


def test_a_client_s_deadline_cancels(grpc_server, client):
    answers = Answers()
    begin_patient(grpc_server, client, "late", answers, client_timeout=8)
    assert answers.error().status() == "StatusCode.DEADLINE_EXCEEDED"
    wait_for("what the model sees", lambda: "patient: cancelled late" in grpc_server.log)


def test_a_deadline_of_a_plain_call(client):
    with pytest.raises(InferenceServerException) as raised:
        client.infer("slow", [tensor(np.array([[1]], np.int32))], client_timeout=0.1)
    assert raised.value.status() == "StatusCode.DEADLINE_EXCEEDED"


def test_a_client_that_goes_cancels(grpc_server):
    with client_of(grpc_server) as leaving:
        begin_patient(grpc_server, leaving, "gone", Answers())
    wait_for("what the model sees", lambda: "patient: cancelled gone" in grpc_server.log)


# ---- connections ----

def test_keepalive_options(grpc_server):
    options = triton.KeepAliveOptions(
        keepalive_time_ms=1000, keepalive_timeout_ms=DEADLINE * 1000, keepalive_permit_without_calls=False,
        http2_max_pings_without_data=1)
    with client_of(grpc_server, keepalive_options=options) as client:
        assert client.infer("slow", [tensor(np.array([[1]], np.int32))]).as_numpy("OUTPUT0").tolist() == [[1]]


def test_statistics_count_what_came_over_grpc(grpc_server, grpc_side, client):
    def successes():
        return client.get_inference_statistics("t_uint8").model_stats[0].inference_stats.success.count

    before = successes()
    for _ in range(3):
        client.infer("t_uint8", [tensor(np.array([[1]], np.uint8), "UINT8")])
    assert successes() == before + 3
    if grpc_side is NEREID:
        text = grpc_server.ask("/metrics", port=grpc_server.metrics_port).text
        assert f'nv_inference_request_success{{model="t_uint8",version="1"}} {before + 3}' in text


def test_the_last_execution_is_told_even_when_it_failed(client):
    """Milliseconds since 1970."""
    def last():
        return client.get_inference_statistics("tell").model_stats[0].last_inference

    before = time.time_ns() // 1_000_000
    with pytest.raises(InferenceServerException, match="as you wish"):
        client.infer("tell", [tensor(np.array([1], np.int32))], parameters={"code": "INTERNAL"})
    wait_for("the count", lambda: last() >= before)
    assert last() <= time.time_ns() // 1_000_000
