# SPDX-License-Identifier: Apache-2.0
"""The openvino backend: formats, types, batches, parameters and bad files. The answers are ONNX Runtime's, to 1e-5."""
import json
import struct
import threading

import frameworks
import numpy as np
import onnx
import onnxruntime
import proc
import pytest
import tritonclient.http as triton
from client_memory import region
from conftest import TOGETHER, wait_for
from onnx import TensorProto, helper, numpy_helper
from state_models import IDLE
from test_ragged import give, in_order, make_sums
from tritonclient.utils import InferenceServerException

pytestmark = frameworks.needs("openvino")
FLAGS = frameworks.settings("openvino")
OLD = {version: frameworks.others("openvino", version) for version in ("2024.4.0", "2025.0.0")}


def in_place(version):
    return version is None or tuple(map(int, version.split(".")[:2])) >= (2025, 4)


def make(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def save(repository, name, nodes, inputs, outputs, config="", initializers=()):
    make(repository / name / "1/model.onnx", nodes, inputs, outputs, initializers)
    (repository / name / "config.pbtxt").write_text('backend: "openvino"\n' + config)
    return repository / name


def double(repository, name, shape=("batch", 4), config="", kind=TensorProto.FLOAT):
    """Y = X + X, Z = X * X"""
    nodes = [helper.make_node("Add", ["X", "X"], ["Y"]), helper.make_node("Mul", ["X", "X"], ["Z"])]
    return save(repository, name, nodes, [("X", kind, shape)], [("Y", kind, shape), ("Z", kind, shape)], config)


def network(repository, name, config="", width=64):
    """Three layers, so that the order of additions and the number of bits show."""
    random = np.random.default_rng(7)
    nodes, last = [], "X"
    weights = [(f"w{i}", (random.standard_normal((width, width)) / 8).astype(np.float32)) for i in range(3)]
    for i in range(3):
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh", [f"m{i}"], [f"t{i}"])]
        last = f"t{i}"
    nodes.append(helper.make_node("Softmax", [last], ["Y"]))
    return save(repository, name, nodes, [("X", TensorProto.FLOAT, ("b", width))], [("Y", TensorProto.FLOAT, ("b", width))], config, weights)


def parameters(**values):
    return "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in values.items())


def infer(client, model, data, datatype="FP32", name="X", **options):
    return client.infer(model, [triton.InferInput(name, data.shape, datatype).set_data_from_numpy(data)], **options)


def start(start_server, repository, *flags, **more):
    return start_server(repository, flags=[*FLAGS, *flags], **more)


@pytest.fixture
def client(start_server, repository):
    """A server of the models that are in the repository by then."""
    clients = []

    def connect(*flags):
        clients.append(triton.InferenceServerClient(start(start_server, repository, *flags).url, concurrency=8))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def load(start_server, repository, *flags):
    server = start(start_server, repository, "--model-control-mode=explicit", *flags, variables=frameworks.variables())
    return lambda name: server.ask(f"/v2/repository/models/{name}/load", b""), server


def test_answers_are_those_of_onnx_runtime(client, repository):
    path = network(repository, "m", "max_batch_size: 8\n") / "1/model.onnx"
    network(repository, "coarse", "max_batch_size: 8\n" + parameters(HINT_BF16="YES"))
    session = onnxruntime.InferenceSession(path)
    client = client()
    for rows in (1, 3, 8, 2):
        data = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
        expected = session.run(None, {"X": data})[0]
        np.testing.assert_allclose(infer(client, "m", data).as_numpy("Y"), expected, atol=1e-5)
        np.testing.assert_allclose(infer(client, "coarse", data).as_numpy("Y"), expected, atol=1e-2)


TYPES = {
    "BOOL": (TensorProto.BOOL, np.array([[True, False]])),
    "UINT8": (TensorProto.UINT8, np.array([[0, 255]], np.uint8)),
    "UINT16": (TensorProto.UINT16, np.array([[0, 65535]], np.uint16)),
    "UINT32": (TensorProto.UINT32, np.array([[0, 2**31 - 1]], np.uint32)),
    "INT8": (TensorProto.INT8, np.array([[-128, 127]], np.int8)),
    "INT16": (TensorProto.INT16, np.array([[-(2**15), 1]], np.int16)),
    "INT32": (TensorProto.INT32, np.array([[-(2**31), 1]], np.int32)),
    "INT64": (TensorProto.INT64, np.array([[-(2**31), 1]], np.int64)),
    "FP16": (TensorProto.FLOAT16, np.array([[1.5, -2]], np.float16)),
    "FP32": (TensorProto.FLOAT, np.array([[0.1, -2]], np.float32)),
    "FP64": (TensorProto.DOUBLE, np.array([[0.5, -2]], np.float64)),
}


@pytest.mark.parametrize("library", ["newest", *(f"two years old: {version}" for version in OLD)])
def test_every_type_and_shape_goes_through_every_version(start_server, repository, library):
    flags = FLAGS
    if library != "newest":
        found = OLD[library.rpartition(" ")[2]]
        if not found:
            pytest.skip("that version is not installed")
        flags = [f"--backend-config=openvino,library={found[0]}"]
    for name, (kind, _) in TYPES.items():
        save(repository, name.lower(), [helper.make_node("Identity", ["X"], ["Y"])], [("X", kind, ("b", "n"))], [("Y", kind, ("b", "n"))])
    double(repository, "sums", config="max_batch_size: 8\n")
    server = start_server(repository, flags=flags)
    assert "openvino: using OpenVINO" in server.log
    with triton.InferenceServerClient(server.url) as client:
        for name, (_, data) in TYPES.items():
            metadata = client.get_model_metadata(name.lower())
            assert metadata["inputs"] == [{"name": "X", "datatype": name, "shape": [-1, -1]}]
            output = metadata["outputs"][0]["name"]  # what is handed through has two names, and older versions say the first
            for copies in (1, 3, 2):
                many = np.repeat(data, copies, axis=0)
                np.testing.assert_array_equal(infer(client, name.lower(), many, name).as_numpy(output), many)
        for rows in (3, 1, 8, 2):
            data = np.random.default_rng(rows).random((rows, 4), np.float32)
            answer = infer(client, "sums", data)
            np.testing.assert_allclose(answer.as_numpy("Y"), data + data, rtol=1e-6)
            wanted = infer(client, "sums", data, outputs=[triton.InferRequestedOutput("Z")])
            np.testing.assert_allclose(wanted.as_numpy("Z"), data * data, rtol=1e-6)
        many = np.ones((8, 4), np.float32)  # more than the last answer's memory held for the output that nobody wants now
        assert infer(client, "sums", many, outputs=[triton.InferRequestedOutput("Z")]).as_numpy("Z").tolist() == many.tolist()
        with pytest.raises(InferenceServerException, match="openvino error in setting tensor data : .*incompatible|unexpected shape"):
            infer(client, "sums", np.zeros((1, 5), np.float32))
        np.testing.assert_array_equal(infer(client, "sums", np.ones((2, 4), np.float32)).as_numpy("Y"), np.full((2, 4), 2, np.float32))


def test_strings_are_refused(start_server, repository):
    save(repository, "m", [helper.make_node("Identity", ["X"], ["Y"])], [("X", TensorProto.STRING, ("b", 2))], [("Y", TensorProto.STRING, ("b", 2))])
    tensors = 'input { name: "X" data_type: TYPE_STRING dims: [ 2 ] } output { name: "Y" data_type: TYPE_STRING dims: [ 2 ] }'
    save(repository, "told", [helper.make_node("Identity", ["X"], ["Y"])], [("X", TensorProto.STRING, ("b", 2))],
         [("Y", TensorProto.STRING, ("b", 2))], "max_batch_size: 2\n" + tensors)
    answer, _ = load(start_server, repository)
    assert "unsupported datatype TYPE_STRING for 'X' for model 'm'" in answer("m").text
    assert "unsupported datatype TYPE_STRING for input 'X' for model 'told'" in answer("told").text


def test_requests_share_a_batch_of_any_size(client, repository):
    double(repository, "m", (1, 4), "max_batch_size: 8\n" + TOGETHER % 5)
    client = client()
    data = [np.random.default_rng(i).random((rows, 4), np.float32) for i, rows in enumerate((1, 2, 1, 1))]
    pending = [client.async_infer("m", [triton.InferInput("X", d.shape, "FP32").set_data_from_numpy(d)]) for d in data]
    for request, expected in zip(pending, data):
        np.testing.assert_allclose(request.get_result().as_numpy("Y"), expected + expected, rtol=1e-6)
    stats = client.get_inference_statistics("m")["model_stats"][0]
    assert (stats["inference_count"], stats["execution_count"]) == (5, 1)


def test_a_model_of_one_batch_size_wants_it_or_padding(client, repository):
    node, shape = [helper.make_node("Reshape", ["X", "s"], ["Y"])], [("s", np.array([4, 2], np.int64))]
    for name, config in (("strict", ""), ("padded", parameters(ENABLE_BATCH_PADDING="YES"))):
        save(repository, name, node, [("X", TensorProto.FLOAT, (4, 2))], [("Y", TensorProto.FLOAT, (4, 2))],
             "max_batch_size: 4\n" + config, shape)
    client = client()
    for rows in (4, 1, 3):
        data = np.random.default_rng(rows).random((rows, 2), np.float32)
        np.testing.assert_array_equal(infer(client, "padded", data).as_numpy("Y"), data)
        if rows == 4:
            np.testing.assert_array_equal(infer(client, "strict", data).as_numpy("Y"), data)
            continue
        with pytest.raises(InferenceServerException, match=f"expected requests with batch size '4', got '{rows}'.*'ENABLE_BATCH_PADDING'"):
            infer(client, "strict", data)


def status_mib(server, key):
    return proc.status(server.process.pid, key) / 1024


@pytest.mark.skipif(not in_place(frameworks.version("openvino")), reason="before 2025.4 outputs are copied once (docs/openvino.md)")
def test_a_request_of_one_batch_is_computed_where_it_lies_and_where_it_goes(start_server, repository):
    """From a client's memory into a client's memory: what is used meanwhile is less than one tensor."""
    mib, shape = 64, (1, 16 << 20)
    save(repository, "m", [helper.make_node("Add", ["X", "X"], ["Y"])], [("X", TensorProto.FLOAT, ("b", "n"))], [("Y", TensorProto.FLOAT, ("b", "n"))], "max_batch_size: 4\n")
    server = start(start_server, repository, "--allow-client-shm=true")
    data = np.arange(shape[1], dtype=np.float32)
    with region(mib << 20) as source, region(mib << 20) as target, triton.InferenceServerClient(server.url) as client:
        source.memory[:] = data.tobytes()
        given, wanted = triton.InferInput("X", shape, "FP32"), triton.InferRequestedOutput("Y")
        for made, memory, tensor in (("source", source, given), ("target", target, wanted)):
            client.register_system_shared_memory(made, memory.key, mib << 20)
            tensor.set_shared_memory(made, mib << 20)
        client.infer("m", [given], outputs=[wanted])  # the pages of both become the server's, too
        proc.reset_peak(server.process.pid)
        before = status_mib(server, "VmRSS")
        client.infer("m", [given], outputs=[wanted])
        assert status_mib(server, "VmHWM") - before < mib / 2
        np.testing.assert_array_equal(np.frombuffer(target.memory, np.float32), data + data)
        client.unregister_system_shared_memory()


def test_a_scalar_is_one_element_to_clients(client, repository):
    both = [("X", TensorProto.FLOAT, ())], [("Y", TensorProto.FLOAT, ())]
    tensors = 'input { name: "X" data_type: TYPE_FP32 dims: [ %s ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }'
    save(repository, "scalar", [helper.make_node("Add", ["X", "X"], ["Y"])], *both, tensors % 1)
    save(repository, "sum", [helper.make_node("ReduceSum", ["X"], ["Y"], keepdims=0)], [("X", TensorProto.FLOAT, ("n",))], both[1], tensors % -1)
    client = client()
    for _ in range(2):
        assert infer(client, "scalar", np.array([3], np.float32)).as_numpy("Y").tolist() == [6]
        assert infer(client, "sum", np.arange(5, dtype=np.float32)).as_numpy("Y").tolist() == [10]


def test_padding_of_an_input_that_has_no_rows(client, repository):
    """One that is ragged: zeros for as many elements as rows are missing, and the answer is OpenVINO's."""
    nodes = [helper.make_node("Reshape", ["X", "s"], ["same"]), helper.make_node("ReduceSum", ["R"], ["sum"], keepdims=0), helper.make_node("Add", ["same", "sum"], ["Y"])]
    save(repository, "m", nodes, [("X", TensorProto.FLOAT, (4, 2)), ("R", TensorProto.FLOAT, (4,))], [("Y", TensorProto.FLOAT, (4, 2))],
         """max_batch_size: 4 input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }
            input { name: "R" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }\n""" + parameters(ENABLE_BATCH_PADDING="YES"),
         [("s", np.array([4, 2], np.int64))])
    client = client()

    def ask(count):
        tensors = {"X": np.ones((1, 2), np.float32), "R": np.full((1, count), 3, np.float32)}
        return client.infer("m", [triton.InferInput(name, data.shape, "FP32").set_data_from_numpy(data) for name, data in tensors.items()]).as_numpy("Y")

    with pytest.raises(InferenceServerException, match="openvino error in setting tensor data : "):
        ask(10000)
    assert ask(1).tolist() == [[4, 4]]


def test_ragged_requests_share_a_batch(start_server, repository):
    make_sums(repository, together=3, more='backend: "openvino"')
    server = start(start_server, repository)
    data = [np.arange(count, dtype=np.float32).reshape(1, -1) + 10 * count for count in (3, 4, 5)]
    answers, executions = in_order(server, "sums", [give(("X", values)) for values in data])
    assert executions == 1
    for number, values in enumerate(data):
        assert answers[number].as_numpy("SUM").tolist() == [[values.sum()]]
        np.testing.assert_array_equal(answers[number].as_numpy("TWICE"), 2 * values)


def test_types_and_shapes_are_converted_to_the_configured_ones(client, repository):
    double(repository, "types", config="""max_batch_size: 4
        input { name: "X" data_type: TYPE_INT32 dims: [ 4 ] } output { name: "Y" data_type: TYPE_INT64 dims: [ 4 ] }\n""")
    double(repository, "shapes", (1, 4), """input { name: "X" data_type: TYPE_FP32 dims: [ -1, 2 ] }
        output { name: "Y" data_type: TYPE_FP32 dims: [ -1, 2 ] }\n""" + parameters(RESHAPE_IO_LAYERS="yes"))
    client = client()
    answer = infer(client, "types", np.array([[1, 2, 3, 4]], np.int32), "INT32").as_numpy("Y")
    assert answer.dtype == np.int64 and answer.tolist() == [[2, 4, 6, 8]]
    assert infer(client, "shapes", np.ones((3, 2), np.float32)).as_numpy("Y").tolist() == [[2, 2]] * 3


IR = """<?xml version="1.0"?><net name="m" version="11"><layers>
<layer id="0" name="X" type="Parameter" version="opset1"><data shape="{shape}" element_type="f32"/><output><port id="0" precision="FP32" names="X">
{dims}{layout}</port></output></layer>
<layer id="1" name="w" type="Const" version="opset1"><data element_type="f32" shape="4" offset="0" size="16"/><output><port id="0" precision="FP32">
<dim>4</dim></port></output></layer>
<layer id="2" name="Y" type="Add" version="opset1"><data auto_broadcast="numpy"/><input><port id="0" precision="FP32">{dims}</port>
<port id="1" precision="FP32"><dim>4</dim></port></input><output><port id="2" precision="FP32" names="other,Y">{dims}{layout}</port></output></layer>
<layer id="3" name="r" type="Result" version="opset1" output_names="Y"><input><port id="0" precision="FP32">{dims}</port></input></layer></layers>
<edges><edge from-layer="0" from-port="0" to-layer="2" to-port="0"/><edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>
<edge from-layer="2" from-port="2" to-layer="3" to-port="0"/></edges></net>"""


def ir(repository, name, rows, layout, config='backend: "openvino"'):
    """Y = X + [0, 1, 2, 3], the weights in the file beside it."""
    (repository / name / "1").mkdir(parents=True)
    said = f'<rt_info><attribute name="layout" version="0" layout="{layout}"/></rt_info>' if layout else ""
    text = IR.format(shape=f"{rows},4".replace("-1", "?"), dims=f"<dim>{rows}</dim><dim>4</dim>", layout=said)
    (repository / name / "1/model.xml").write_text(text)
    (repository / name / "1/model.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (repository / name / "config.pbtxt").write_text(config)


def test_a_configuration_is_completed_by_the_rules_of_triton(client, repository):
    ir(repository, "layouts", 1, "[N,C]")
    ir(repository, "open", -1, "[N,C]")
    ir(repository, "plain", 1, "")
    ir(repository, "given", 1, "", "max_batch_size: 6")  # found by its file
    client = client("--backend-config=openvino,default-max-batch-size=3")
    configs = {name: client.get_model_config(name) for name in ("layouts", "open", "plain", "given")}
    assert {name: c["max_batch_size"] for name, c in configs.items()} == {"layouts": 3, "open": 3, "plain": 0, "given": 6}
    assert {name: c["input"][0]["dims"] for name, c in configs.items()} == {"layouts": [4], "open": [4], "plain": [1, 4], "given": [4]}
    assert {name for name, c in configs.items() if "dynamic_batching" in c} == {"layouts", "open"}
    for name, rows in (("layouts", 3), ("open", 2), ("plain", 1), ("given", 5)):
        assert infer(client, name, np.ones((rows, 4), np.float32)).as_numpy(client.get_model_metadata(name)["outputs"][0]["name"]).tolist() == \
            [[1, 2, 3, 4]] * rows


# ---- PaddlePaddle: its files, written by hand (framework.proto) ----


def field(number, value):
    """Of a message: a number, or bytes."""
    def varint(n):
        return bytes([n & 0x7F | 0x80]) + varint(n >> 7) if n > 0x7F else bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


PADDLE_FP32, PADDLE_TENSOR, PADDLE_FEED, PADDLE_FETCH, PADDLE_INT = 5, 7, 9, 10, 0


def paddle_type(*dims):
    return field(1, PADDLE_FP32) + b"".join(field(2, dim) for dim in dims)


def paddle_variable(name, *dims, persistable=0, kind=PADDLE_TENSOR):
    tensor = field(3, field(1, paddle_type(*dims)) + field(2, 0)) if kind == PADDLE_TENSOR else b""
    return field(3, field(1, name) + field(2, field(1, kind) + tensor) + field(3, persistable))


def paddle_operation(kind, inputs, outputs, **numbers):
    def variables(number, named):
        return b"".join(field(number, field(1, parameter) + field(2, name)) for parameter, name in named.items())

    attributes = (field(4, field(1, name) + field(2, PADDLE_INT) + field(3, value)) for name, value in numbers.items())
    return field(4, variables(1, inputs) + variables(2, outputs) + field(3, kind) + b"".join(attributes))


def test_a_paddle_model_answers(client, repository):
    """Y = X + w, with w in the file of parameters."""
    weights = np.array([1, 2, 3, 4], np.float32)
    block = field(1, 0) + field(2, 0) + b"".join([
        paddle_variable("feed", kind=PADDLE_FEED, persistable=1), paddle_variable("fetch", kind=PADDLE_FETCH, persistable=1),
        paddle_variable("X", -1, 4), paddle_variable("w", 4, persistable=1), paddle_variable("Y", -1, 4),
        paddle_operation("feed", {"X": "feed"}, {"Out": "X"}, col=0), paddle_operation("elementwise_add", {"X": "X", "Y": "w"}, {"Out": "Y"}, axis=-1),
        paddle_operation("fetch", {"X": "Y"}, {"Out": "fetch"}, col=0)])
    (repository / "m/1").mkdir(parents=True)
    (repository / "m/1/model.pdmodel").write_bytes(field(1, block) + field(4, field(1, 2000000)))
    described = paddle_type(4)
    (repository / "m/1/model.pdiparams").write_bytes(struct.pack("<IQIi", 0, 0, 0, len(described)) + described + weights.tobytes())
    (repository / "m/config.pbtxt").write_text("max_batch_size: 8\n")  # it is found by its file
    client = client()
    assert client.get_model_config("m")["backend"] == "openvino"
    (output,) = client.get_model_metadata("m")["outputs"]
    for rows in (1, 3):
        data = np.random.default_rng(rows).random((rows, 4), np.float32)
        np.testing.assert_allclose(infer(client, "m", data).as_numpy(output["name"]), data + weights, rtol=1e-6)


def test_properties_are_passed_through(start_server, repository, tmp_path):
    cache = tmp_path / "cache"
    double(repository, "m", config="max_batch_size: 4\ninstance_group { count: 2 }\n" + parameters(
        INFERENCE_NUM_THREADS=1, COMPILATION_NUM_THREADS=1, NUM_STREAMS="auto", PERFORMANCE_HINT="throughput", SKIP_OV_DYNAMIC_BATCHSIZE="YES",
        TARGET_DEVICE="cpu", ENABLE_CPU_PINNING="NO", CACHE_DIR=cache, SOMETHING_ELSE=1, other="x"))
    network(repository, "coarse", parameters(INFERENCE_PRECISION_HINT="bf16"))
    server = start(start_server, repository, "--log-verbose=1")
    for line in ("INFERENCE_NUM_THREADS of CPU is 1", "NUM_STREAMS of CPU is AUTO", "PERFORMANCE_HINT of CPU is THROUGHPUT", "ENABLE_CPU_PINNING of CPU is NO"):
        assert f"model 'm': {line}" in server.log
    assert "parameter 'SOMETHING_ELSE' is no property of OpenVINO's device CPU and not used" in server.log
    assert "'other' is no property" not in server.log
    assert list(cache.iterdir())
    with triton.InferenceServerClient(server.url) as client:
        assert infer(client, "m", np.ones((2, 4), np.float32)).as_numpy("Y").tolist() == [[2] * 4] * 2


PARAMETERS = {
    "PERFORMANCE_HINT": ("Fast", "expected the parameter 'PERFORMANCE_HINT' to be LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got fast"),
    "INFERENCE_NUM_THREADS": ("-1", "expected the parameter 'INFERENCE_NUM_THREADS' to be a non-negative number, got -1"),
    "COMPILATION_NUM_THREADS": ("x", "expected the parameter 'COMPILATION_NUM_THREADS' to be a non-negative number, got x"),
    "NUM_STREAMS": ("Many", "expected the parameter 'NUM_STREAMS' to be either AUTO/NUMA/<int_value>, got many"),
    "HINT_BF16": ("NO", "expected the parameter 'HINT_BF16' to be YES, got no"),
    "TARGET_DEVICE": ("TPU", "openvino error in "),
    "CPU_EXTENSION_PATH": ("/nowhere/libx.so", "openvino error in loading custom CPU extensions : "),
    "ENABLE_CPU_PINNING": ("perhaps", "openvino error in "),
}
TENSORS = 'input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }'
CONFIGS = {
    "kind": ("instance_group { kind: KIND_MODEL }", "unable to load model 'kind', Triton OpenVINO backend supports only Kind CPU and AUTO"),
    "count": (TENSORS + 'input { name: "W" data_type: TYPE_FP32 dims: [ 4 ] }', "unable to load model 'count', configuration expects 2 inputs, model provides 1"),
    "name": (TENSORS.replace('"X"', '"W"'), "unexpected inference input 'W', allowed inputs are: X"),
    "output": (TENSORS.replace('"Y"', '"W"'), "unexpected inference output 'W', allowed outputs are: Y, Z"),
    "size": (TENSORS.replace("4", "5"), "model 'size', tensor 'X': the model expects 2 dimensions (shape [-1,4]) but the model configuration specifies 2 dimensions"),
    "file": ('default_model_filename: "other.onnx"', "other.onnx"),
    "outside": ('default_model_filename: "../../../etc/passwd"', "etc/passwd"),
}


def test_wrong_configurations_are_refused_with_the_words_of_triton(start_server, repository):
    for key, (value, _) in PARAMETERS.items():
        double(repository, key, config="max_batch_size: 4\n" + parameters(**{key: value}))
    for name, (config, _) in CONFIGS.items():
        double(repository, name, config="max_batch_size: 4\n" + config)
    answer, _ = load(start_server, repository)
    for name, (_, words) in {**PARAMETERS, **CONFIGS}.items():
        reply = answer(name)
        assert reply.status >= 400 and words in json.loads(reply.text)["error"], (name, reply.text)


BAD = {
    "truncated": ("model.onnx", lambda data: data[: len(data) // 2], "openvino error in reading model : "),
    "empty": ("model.onnx", lambda data: b"", "openvino error in reading model : "),
    "foreign": ("model.xml", lambda data: b"this is no model" * 100, "openvino error in reading model : "),
    "directory": ("model.savedmodel/other", lambda data: data, "model.savedmodel/saved_model.pb"),
    "saved": ("model.savedmodel/saved_model.pb", lambda data: data, "openvino error in reading model : "),
    "lite": ("model.tflite", lambda data: b"TFL3" * 100, "openvino error in reading model : "),
    "paddle": ("model.pdmodel", lambda data: b"no model" * 100, "openvino error in reading model : "),
    "operator": ("model.onnx", lambda data: data.replace(b"Mul", b"Nul"), "Nul"),
    "absent": (None, None, "unable to find '"),
}


def test_bad_files_fail_with_the_reason_and_nothing_else_suffers(start_server, repository):
    good = (double(repository, "good") / "1/model.onnx").read_bytes()
    for name, (file, change, _) in BAD.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text('backend: "openvino"')
        if file:
            (repository / name / "1" / file).parent.mkdir(exist_ok=True)
            (repository / name / "1" / file).write_bytes(change(good))
    answer, server = load(start_server, repository, "--load-model=good")
    for name, (_, _, words) in BAD.items():
        reply = answer(name)
        error = json.loads(reply.text)["error"].strip()
        assert reply.status >= 400 and words in error and "\n" not in error and "/proc/self" not in error, (name, error)
    with triton.InferenceServerClient(server.url) as client:
        assert infer(client, "good", np.ones((2, 4), np.float32)).as_numpy("Y").tolist() == [[2] * 4] * 2


def test_sequences_have_controls_and_states(client, repository):
    nodes = [helper.make_node("Where", ["begins", "zero", "state"], ["last"]), helper.make_node("Add", ["last", "X"], ["next"]),
             helper.make_node("Identity", ["next"], ["Y"])]
    one = ("b", 1)
    save(repository, "m", [helper.make_node("Cast", ["START"], ["begins"], to=TensorProto.BOOL), *nodes],
         [("X", TensorProto.FLOAT, one), ("START", TensorProto.INT32, one), ("state", TensorProto.FLOAT, one)],
         [("Y", TensorProto.FLOAT, one), ("next", TensorProto.FLOAT, one)], f"""max_batch_size: 4
        input {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }} output {{ name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }}
        sequence_batching {{ {IDLE}
          control_input {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }}
          state {{ input_name: "state" output_name: "next" data_type: TYPE_FP32 dims: [ 1 ] }}
        }}\n""", [("zero", np.zeros((1, 1), np.float32))])
    client, sums = client(), {1: 0, 2: 0}
    for step in range(3):
        for sequence in sums:
            data = np.array([[step * 10 + sequence]], np.float32)
            sums[sequence] += data.item()
            answer = infer(client, "m", data, sequence_id=sequence, sequence_start=step == 0, sequence_end=step == 2)
            assert answer.as_numpy("Y").tolist() == [[sums[sequence]]]


@pytest.mark.parametrize("own_process", [False, True], ids=["in the server", "in a process of its own"])
def test_instances_share_a_model_and_answer_each_for_itself(start_server, repository, own_process):
    network(repository, "m", "max_batch_size: 4\ninstance_group { count: 3 }\n" + (parameters(isolate="process") if own_process else ""))
    session = onnxruntime.InferenceSession(repository / "m/1/model.onnx")
    server = start(start_server, repository)
    failures = []

    def ask(seed):
        with triton.InferenceServerClient(server.url) as client:
            for step in range(20):
                data = np.random.default_rng([seed, step]).standard_normal((1 + seed % 3, 64)).astype(np.float32)
                if not np.allclose(infer(client, "m", data).as_numpy("Y"), session.run(None, {"X": data})[0], atol=1e-5):
                    failures.append((seed, step))

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_links_out_of_the_repository_are_refused_under_secure(start_server, repository, tmp_path):
    outside = make(tmp_path / "outside/model.onnx", [helper.make_node("Identity", ["X"], ["Y"])], [("X", TensorProto.FLOAT, ("b", 2))], [("Y", TensorProto.FLOAT, ("b", 2))])
    double(repository, "file")
    (repository / "file/1/model.onnx").unlink()
    (repository / "file/1/model.onnx").symlink_to(outside)
    double(repository, "beside")
    (repository / "beside/1/weights").symlink_to(outside)
    double(repository, "inside")
    (repository / "inside/1/model.onnx").rename(repository / "inside/other.onnx")
    (repository / "inside/1/model.onnx").symlink_to("../other.onnx")
    server = start(start_server, repository, "--secure", "--allow-root", "--exit-on-error=false", ready=False)
    wait_for("the other model", lambda: server.ask("/v2/models/inside/ready").status == 200)
    wait_for("the failures", lambda: all(f"failed to load '{name}' version 1: " in server.log for name in ("file", "beside")))
    reasons = {name: server.log.split(f"failed to load '{name}' version 1: ")[1].splitlines()[0] for name in ("file", "beside")}
    assert "unable to find" in reasons["file"] and "weights" in reasons["beside"], reasons
