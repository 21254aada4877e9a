# SPDX-License-Identifier: Apache-2.0
"""The onnxruntime backend: types, shapes, batches, strings, bad files, and two versions of ONNX Runtime."""
import json
import os
import pathlib
import threading

import numpy as np
import onnx
import pytest
import tritonclient.http as triton
from conftest import ROOT, TOGETHER, copy_model
from onnx import TensorProto, helper

pytestmark = pytest.mark.gpu_host

OLD = ROOT / ".deps/onnxruntime-1.20.1/onnxruntime/capi"


def save(repository, name, nodes, inputs, outputs, config=None, opset=13):
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
    )
    directory = repository / name
    (directory / "1").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), directory / "1/model.onnx")
    if config:
        (directory / "config.pbtxt").write_text(config)
    return directory


def identity(repository, name, kind, shape=("batch", "n"), config=None):
    return save(repository, name, [helper.make_node("Identity", ["X"], ["Y"])], [("X", kind, shape)], [("Y", kind, shape)], config)


def infer(client, model, datatype, data, name="X", **options):
    tensor = triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)
    return client.infer(model, [tensor], **options)


TYPES = {
    "BOOL": (TensorProto.BOOL, np.array([[True, False]])),
    "UINT8": (TensorProto.UINT8, np.array([[0, 255]], np.uint8)),
    "UINT16": (TensorProto.UINT16, np.array([[0, 65535]], np.uint16)),
    "UINT32": (TensorProto.UINT32, np.array([[0, 2**32 - 1]], np.uint32)),
    "UINT64": (TensorProto.UINT64, np.array([[0, 2**64 - 1]], np.uint64)),
    "INT8": (TensorProto.INT8, np.array([[-128, 127]], np.int8)),
    "INT16": (TensorProto.INT16, np.array([[-(2**15), 1]], np.int16)),
    "INT32": (TensorProto.INT32, np.array([[-(2**31), 1]], np.int32)),
    "INT64": (TensorProto.INT64, np.array([[-(2**63), 1]], np.int64)),
    "FP16": (TensorProto.FLOAT16, np.array([[1.5, -2]], np.float16)),
    "FP32": (TensorProto.FLOAT, np.array([[0.1, -2]], np.float32)),
    "FP64": (TensorProto.DOUBLE, np.array([[0.1, -2]], np.float64)),
    "BYTES": (TensorProto.STRING, np.array([[b"", "größer".encode()]], dtype=np.object_)),
}


@pytest.mark.parametrize("library", ["newest", "two years old"])
def test_every_type_goes_through_both_libraries(start_server, repository, library):
    for name, (kind, _) in TYPES.items():
        identity(repository, name.lower(), kind)
    flags = []
    if library == "two years old":
        flags = [f"--backend-config=onnxruntime,library={next(OLD.glob('libonnxruntime.so*'))}"]
    server = start_server(repository, flags=flags)
    assert library == "newest" or "ONNX Runtime 1.20.1" in server.log
    with triton.InferenceServerClient(server.url) as client:
        for name, (_, data) in TYPES.items():
            assert client.get_model_metadata(name.lower())["inputs"] == [{"name": "X", "datatype": name, "shape": [-1, -1]}]
            result = infer(client, name.lower(), name, data)
            np.testing.assert_array_equal(result.as_numpy("Y"), data)


def test_brain_floats_go_through(start_server, repository):
    save(repository, "m", [helper.make_node("Cast", ["X"], ["Y"], to=TensorProto.FLOAT)],
         [("X", TensorProto.BFLOAT16, ("b", 2))], [("Y", TensorProto.FLOAT, ("b", 2))])
    server = start_server(repository)
    body = {"inputs": [{"name": "X", "datatype": "BF16", "shape": [1, 2], "data": [1.5, -2]}]}
    answer = server.ask("/v2/models/m/infer", json.dumps(body).encode())
    assert json.loads(answer.body)["outputs"][0]["data"] == [1.5, -2]


def test_strings_of_several_requests_share_a_batch(start_server, repository):
    identity(repository, "m", TensorProto.STRING, ("batch", 2), "max_batch_size: 8 " + TOGETHER % 4)
    server = start_server(repository)
    with triton.InferenceServerClient(server.url, concurrency=4) as client:
        data = [np.array([[f"{i}".encode() * i, "ä".encode() * 50 * i]], dtype=np.object_) for i in range(4)]
        pending = [client.async_infer("m", [triton.InferInput("X", d.shape, "BYTES").set_data_from_numpy(d)]) for d in data]
        for request, expected in zip(pending, data):
            np.testing.assert_array_equal(request.get_result().as_numpy("Y"), expected)
        stats = client.get_inference_statistics("m")["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (4, 1)
    assert [b["batch_size"] for b in stats["batch_stats"]] == [4]


def test_requests_of_one_shape_share_a_batch_and_others_do_not(start_server, repository):
    identity(repository, "m", TensorProto.FLOAT, ("batch", "n"), """
        max_batch_size: 8
        dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 2000000 }
        """)
    server = start_server(repository)
    with triton.InferenceServerClient(server.url, concurrency=8) as client:
        data = [np.random.default_rng(i).random((1, 3 + i // 4), np.float32) for i in range(8)]
        pending = [client.async_infer("m", [triton.InferInput("X", d.shape, "FP32").set_data_from_numpy(d)]) for d in data]
        for request, expected in zip(pending, data):
            np.testing.assert_array_equal(request.get_result().as_numpy("Y"), expected)
        stats = client.get_inference_statistics("m")["model_stats"][0]
    assert stats["inference_count"] == 8 and 2 <= stats["execution_count"] < 8


def test_a_model_without_a_batch_dimension_is_completed_without_batching(start_server, repository):
    identity(repository, "m", TensorProto.FLOAT, (2, 3))
    server = start_server(repository)
    with triton.InferenceServerClient(server.url) as client:
        config = client.get_model_config("m")
        assert config["max_batch_size"] == 0 and config["input"][0]["dims"] == [2, 3]
        data = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(infer(client, "m", "FP32", data).as_numpy("Y"), data)
        with pytest.raises(triton.InferenceServerException if hasattr(triton, "InferenceServerException") else Exception, match="shape"):
            infer(client, "m", "FP32", np.zeros((3, 2), np.float32))


def test_scalars_are_tensors_of_one_element(start_server, repository):
    identity(repository, "m", TensorProto.FLOAT, ())
    server = start_server(repository)
    with triton.InferenceServerClient(server.url) as client:
        assert infer(client, "m", "FP32", np.array([2.5], np.float32)).as_numpy("Y").tolist() == [2.5]


def test_parameters_of_the_documentation_are_taken(start_server, repository):
    identity(repository, "m", TensorProto.FLOAT, ("batch", 2), """
        max_batch_size: 4
        optimization { graph { level: -1 } }
        parameters { key: "intra_op_thread_count" value { string_value: "1" } }
        parameters { key: "inter_op_thread_count" value { string_value: "1" } }
        parameters { key: "execution_mode" value { string_value: "1" } }
        parameters { key: "enable_mem_arena" value { string_value: "0" } }
        parameters { key: "enable_mem_pattern" value { string_value: "0" } }
        """)
    server = start_server(repository)
    with triton.InferenceServerClient(server.url) as client:
        assert infer(client, "m", "FP32", np.array([[1, 2]], np.float32)).as_numpy("Y").tolist() == [[1, 2]]


BAD = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "foreign": lambda data: b"this is no model" * 100,
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_fails_with_the_reason_and_nothing_else_suffers(start_server, repository, case):
    copy_model(repository, "add_sub")
    path = copy_model(repository, "digits") / "1/model.onnx"
    path.write_bytes(BAD[case](path.read_bytes()))
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False)
    from conftest import wait_for

    def row():
        rows = json.loads(server.ask("/v2/repository/index", b"").body)
        found = [r for r in rows if r["name"] == "digits" and r.get("state") == "UNAVAILABLE"]
        return found and found[0]

    assert "onnx runtime error" in wait_for("the failure", row)["reason"]
    wait_for("the other model", lambda: server.ask("/v2/models/add_sub/ready").status == 200)
    assert server.ask("/v2/health/ready").status == 400
    assert "failed to load 'digits' version 1: Internal: onnx runtime error" in server.log


CONFIGS = {
    "wrong type": ('input { name: "X" data_type: TYPE_INT8 dims: [ 2 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }', "configuration expects datatype TYPE_INT8 for input 'X', model provides TYPE_FP32"),
    "wrong rank": ('input { name: "X" data_type: TYPE_FP32 dims: [ 2, 2 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }', "tensor 'X': the model expects 2 dimensions"),
    "wrong name": ('input { name: "Z" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }', "unexpected inference input 'Z', allowed inputs are: X"),
    "wrong size": ('input { name: "X" data_type: TYPE_FP32 dims: [ 3 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }', "model 'm', tensor 'X': the model expects 2 dimensions (shape [-1,2]) but the model configuration specifies 2 dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,3])"),
    "too many inputs": ('input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } input { name: "Z" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }', "unable to load model 'm', configuration expects 2 inputs, model provides 1"),
    "wrong type of an output": ('input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "Y" data_type: TYPE_INT8 dims: [ 2 ] }', "unable to load model 'm', configuration expects datatype TYPE_INT8 for output 'Y', model provides TYPE_FP32"),
    "wrong name of an output": ('input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "Z" data_type: TYPE_FP32 dims: [ 2 ] }', "unexpected inference output 'Z', allowed outputs are: Y"),
    "wrong parameter": ('parameters { key: "execution_mode" value { string_value: "7" } }', "execution_mode are 0 or 1 but got 7"),
    "no such file": ('default_model_filename: "other.onnx"', "other.onnx"),
    "file outside": ('default_model_filename: "../../../etc/passwd"', "models/m/1/../../../etc/passwd': "),
    "absolute file": ('default_model_filename: "/etc/passwd"', "models/m/1//etc/passwd': "),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_configuration_that_does_not_fit_is_refused_by_name(start_server, repository, case):
    config, words = CONFIGS[case]
    identity(repository, "m", TensorProto.FLOAT, ("batch", 2), "backend: 'onnxruntime' max_batch_size: 4 " + config)
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    answer = server.ask("/v2/repository/models/m/load", b"")
    assert answer.status in (400, 500) and words in answer.text


def test_many_clients_at_once_each_get_their_own_answer(server):
    failures = []

    def ask(seed):
        data = np.random.default_rng(seed)
        with triton.InferenceServerClient(server.url) as client:
            for _ in range(20):
                a, b = (data.random((1 + seed % 3, 16), np.float32) for _ in range(2))
                inputs = [triton.InferInput(f"INPUT{i}", x.shape, "FP32").set_data_from_numpy(x) for i, x in enumerate((a, b))]
                if not np.array_equal(client.infer("add_sub", inputs).as_numpy("OUTPUT0"), a + b):
                    failures.append(seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
