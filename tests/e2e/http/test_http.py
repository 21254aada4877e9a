# SPDX-License-Identifier: Apache-2.0
"""The base protocol with unmodified clients: tritonclient.http, its asyncio twin, and plain requests."""
import asyncio
import gzip
import json
import zlib

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from conftest import make_identity

pytestmark = pytest.mark.gpu_host

NUMPY_TYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_,
}


@pytest.fixture(scope="module")
def client(server):
    with triton.InferenceServerClient(server.url) as client:
        yield client


def identity_body(data, shape=None, **more):
    return json.dumps(
        {"inputs": [{"name": "INPUT0", "shape": shape or [1, len(data)], "datatype": "FP32", "data": data}], **more}
    ).encode()


def test_the_client_sees_a_live_and_ready_server_with_its_models(client):
    assert client.is_server_live() and client.is_server_ready()
    for name in ("identity", "digits", "add_sub"):
        assert client.is_model_ready(name) and client.is_model_ready(name, "1")
    assert not client.is_model_ready("nope")
    metadata = client.get_server_metadata()
    assert metadata["name"] == "triton" and "binary_tensor_data" in metadata["extensions"]
    assert client.get_model_metadata("add_sub") == {
        "name": "add_sub", "versions": ["1"], "platform": "onnxruntime_onnx",
        "inputs": [{"name": f"INPUT{i}", "datatype": "FP32", "shape": [-1, 16]} for i in range(2)],
        "outputs": [{"name": f"OUTPUT{i}", "datatype": "FP32", "shape": [-1, 16]} for i in range(2)],
    }
    config = client.get_model_config("add_sub")
    assert config["max_batch_size"] == 64 and config["instance_group"][0]["kind"] == "KIND_CPU"
    assert {m["name"]: m["state"] for m in client.get_model_repository_index()} == {
        name: "READY" for name in ("add_sub", "batch_add", "digits", "identity", "preprocess", "read_digit")
    }


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_the_client_infers_with_binary_and_json_tensors(client, binary_in, binary_out):
    a = np.arange(32, dtype=np.float32).reshape(2, 16)
    b = np.full((2, 16), 0.1, np.float32)
    inputs = [triton.InferInput(f"INPUT{i}", x.shape, "FP32") for i, x in enumerate((a, b))]
    for tensor, data in zip(inputs, (a, b)):
        tensor.set_data_from_numpy(data, binary_data=binary_in)
    outputs = [triton.InferRequestedOutput(f"OUTPUT{i}", binary_data=binary_out) for i in range(2)]
    result = client.infer("add_sub", inputs, outputs=outputs, request_id="seven")
    assert result.get_response()["id"] == "seven"
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), a + b)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)


def test_only_the_outputs_asked_for_come_back(client):
    data = np.zeros((1, 16), np.float32)
    inputs = [triton.InferInput(f"INPUT{i}", data.shape, "FP32").set_data_from_numpy(data) for i in range(2)]
    result = client.infer("add_sub", inputs, outputs=[triton.InferRequestedOutput("OUTPUT1")])
    assert [o["name"] for o in result.get_response()["outputs"]] == ["OUTPUT1"]


def test_the_asyncio_client_works_too(server):
    async def ask():
        async with triton_aio.InferenceServerClient(server.url) as client:
            tensor = triton.InferInput("INPUT0", [1, 3], "FP32")
            tensor.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
            results = await asyncio.gather(*(client.infer("identity", [tensor]) for _ in range(20)))
            return [r.as_numpy("OUTPUT0").tolist() for r in results]

    assert asyncio.run(ask()) == [[[1, 2, 3]]] * 20


def values_of(datatype):
    kind = NUMPY_TYPES[datatype]
    if datatype == "BOOL":
        return np.array([[True, False, True]])
    if datatype == "BYTES":
        return np.array([["", "ä\"\\", "line\nbreak"]], dtype=np.object_)
    if datatype.startswith("FP"):
        return np.array([[0, -1.5, np.finfo(kind).max, np.finfo(kind).tiny, 0.1]], kind)
    return np.array([[np.iinfo(kind).min, np.iinfo(kind).max, 1]], kind)


@pytest.mark.parametrize("datatype", NUMPY_TYPES)
def test_every_datatype_goes_through_unchanged(start_server, repository, datatype):
    config_type = "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"
    make_identity(repository, "m", config_type)
    server = start_server(repository)
    data = values_of(datatype)
    with triton.InferenceServerClient(server.url) as client:
        for binary_in in (True, False):
            for binary_out in (True, False):
                if datatype == "FP16" and not binary_in:
                    continue  # the client cannot; see the next test
                tensor = triton.InferInput("INPUT0", data.shape, datatype)
                tensor.set_data_from_numpy(data, binary_data=binary_in)
                output = triton.InferRequestedOutput("OUTPUT0", binary_data=binary_out)
                result = client.infer("m", [tensor], outputs=[output])
                if datatype == "FP16" and not binary_out:
                    got = np.array(result.get_output("OUTPUT0")["data"], np.float16).reshape(data.shape)
                else:
                    got = result.as_numpy("OUTPUT0")
                if datatype == "BYTES":
                    got = np.array([[v.decode() if isinstance(v, bytes) else v for v in got[0]]], dtype=np.object_)
                np.testing.assert_array_equal(got, data)


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_floats_have_a_json_form(start_server, repository, datatype):
    make_identity(repository, "m", f"TYPE_{datatype}")
    server = start_server(repository)
    body = {"inputs": [{"name": "INPUT0", "shape": [1, 3], "datatype": datatype, "data": [1.5, -0.25, 1000]}]}
    answer = server.ask("/v2/models/m/infer", json.dumps(body).encode())
    assert answer.status == 200, answer.text
    assert json.loads(answer.body)["outputs"][0]["data"] == [1.5, -0.25, 1000]


def test_json_data_may_be_flat_or_nested_and_numbers_are_short(server):
    for data in ([0.1, 1, 2, 3], [[0.1, 1], [2, 3]], [[[0.1], [1]], [[2], [3]]]):
        body = {"inputs": [{"name": "INPUT0", "shape": [2, 2], "datatype": "FP32", "data": data}]}
        answer = server.ask("/v2/models/identity/infer", json.dumps(body).encode())
        assert answer.status == 200 and '"data":[0.1,1.0,2.0,3.0]' in answer.text
    members_in_any_order = b'{"inputs":[{"data":[1,2],"shape":[1,2],"parameters":{},"datatype":"FP32","name":"INPUT0"}]}'
    assert json.loads(server.ask("/v2/models/identity/infer", members_in_any_order).body)["outputs"][0]["data"] == [1, 2]


def test_nan_and_infinities_go_in_and_out(server):
    body = b'{"inputs":[{"name":"INPUT0","shape":[1,3],"datatype":"FP32","data":[NaN,Infinity,-Infinity]}]}'
    answer = server.ask("/v2/models/identity/infer", body)
    assert '"data":[NaN,Infinity,-Infinity]' in answer.text


def test_a_version_can_be_named(server):
    assert server.ask("/v2/models/identity/versions/1/infer", identity_body([1])).status == 200
    answer = server.ask("/v2/models/identity/versions/9/infer", identity_body([1]))
    assert (answer.status, json.loads(answer.body)) == (
        404, {"error": "Request for unknown model: 'identity' version 9 is not found"}
    )


def test_ids_and_parameters_come_back(server):
    answer = server.ask("/v2/models/identity/infer", identity_body([1], id="an id", parameters={"mine": 1, "x": "y"}))
    reply = json.loads(answer.body)
    assert reply["id"] == "an id" and reply["parameters"]["param1"] == 42
    assert answer.headers["Content-Type"] == "application/json"


def test_a_raw_request_is_one_tensor_and_its_answer_is_binary(start_server, repository):
    make_identity(repository, "m", "TYPE_FP32")
    server = start_server(repository)
    data = np.arange(5, dtype=np.float32).tobytes()
    answer = server.ask("/v2/models/m/infer", data, headers={"Inference-Header-Content-Length": "0"})
    assert answer.status == 200, answer.text
    size = int(answer.headers["Inference-Header-Content-Length"])
    assert json.loads(answer.body[:size])["outputs"][0]["shape"] == [1, 5]
    assert answer.body[size:] == data


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_bodies_may_be_compressed_both_ways(server, coding):
    pack = gzip.compress if coding == "gzip" else zlib.compress
    unpack = gzip.decompress if coding == "gzip" else zlib.decompress
    answer = server.ask(
        "/v2/models/identity/infer", pack(identity_body(list(range(1000)))),
        headers={"Content-Encoding": coding, "Accept-Encoding": coding},
    )
    assert answer.status == 200 and answer.headers["Content-Encoding"] == coding
    assert json.loads(unpack(answer.body))["outputs"][0]["data"] == list(range(1000))


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_the_client_compresses_binary_tensors(client, coding):
    data = np.random.default_rng(1).random((4, 500), np.float32)
    tensor = triton.InferInput("INPUT0", data.shape, "FP32").set_data_from_numpy(data)
    result = client.infer(
        "identity", [tensor], request_compression_algorithm=coding, response_compression_algorithm=coding
    )
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), data)


def test_statistics_count_what_happened(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository)
    for _ in range(3):
        assert server.ask("/v2/models/m/infer", identity_body([1, 2], shape=[2, 1])).status == 200
    assert server.ask("/v2/models/m/infer", identity_body([1, 2], shape=[1, 2], outputs=[{"name": "no"}])).status == 400
    with triton.InferenceServerClient(server.url) as client:
        stats = client.get_inference_statistics("m")["model_stats"][0]
    assert (stats["name"], stats["version"], stats["inference_count"], stats["execution_count"]) == ("m", "1", 6, 3)
    assert stats["inference_stats"]["success"]["count"] == 3 and stats["inference_stats"]["fail"]["count"] == 0
    assert [(b["batch_size"], b["compute_infer"]["count"]) for b in stats["batch_stats"]] == [(2, 3)]
    assert stats["last_inference"] > 0
    assert server.ask("/v2/models/nope/stats").status == 400


def test_a_large_tensor_goes_through_in_both_forms(start_server, repository):
    make_identity(repository, "m", max_batch_size=600)
    server = start_server(repository)
    data = np.random.default_rng(2).standard_normal((600, 5000), np.float32)
    with triton.InferenceServerClient(server.url) as client:
        tensor = triton.InferInput("INPUT0", data.shape, "FP32").set_data_from_numpy(data)
        for binary in (True, False):
            result = client.infer("m", [tensor], outputs=[triton.InferRequestedOutput("OUTPUT0", binary_data=binary)])
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0").reshape(data.shape), data)


def test_models_are_loaded_and_unloaded_by_the_client(start_server, repository):
    make_identity(repository, "m")
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    with triton.InferenceServerClient(server.url) as client:
        assert client.get_model_repository_index() == [{"name": "m"}]
        client.load_model("m")
        assert client.is_model_ready("m")
        config = {"backend": "identity", "max_batch_size": 3}
        config["input"] = [{"name": "INPUT0", "data_type": "TYPE_INT8", "dims": [-1]}]
        config["output"] = [{"name": "OUTPUT0", "data_type": "TYPE_INT8", "dims": [-1]}]
        client.load_model("m", config=json.dumps(config))
        assert client.get_model_config("m")["max_batch_size"] == 3
        client.load_model("m", config=json.dumps(config | {"max_batch_size": 5}), files={"file:2/x": b"abc"})
        assert client.get_model_config("m")["max_batch_size"] == 5 and client.is_model_ready("m", "2")
        client.unload_model("m")
        assert not client.is_model_ready("m")
        with pytest.raises(Exception, match="failed to poll from model repository"):
            client.load_model("absent")
