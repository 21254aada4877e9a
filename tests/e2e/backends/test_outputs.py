# SPDX-License-Identifier: Apache-2.0
"""Outputs that are not what a model's configuration says go to the client as the model made them, as with Triton 2.51.

The first tests run on the three sides of python_sides.py; what nereid tells of such outputs, and how it refuses them when
it is to, is nereid's alone.
"""
import json
import os
import re

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from conftest import TOGETHER, wait_for
from onnx import TensorProto, helper
from prometheus_client.parser import text_string_to_metric_families
from python_models import make_python, together
from python_sides import SIDES, SideStarter, python_backends, side, start_python  # noqa: F401
from test_onnxruntime import save

pytestmark = pytest.mark.slow

# The request's text is Python: it makes the response's array, its tensors, or the response.
TELL = """
def make(self, request):
    T, R = pb_utils.Tensor, pb_utils.InferenceResponse
    made = eval(value(request, "KIND").reshape(-1)[0].decode(), globals(), dict(T=T, R=R))
    if isinstance(made, (np.ndarray, np.generic)):
        made = [T("OUT", np.asarray(made))]
    return R(made) if isinstance(made, list) else made
"""
AT_ONCE = TELL + """
def execute(self, requests):
    return [self.make(request) for request in requests]
"""
DECOUPLED = TELL + """
def execute(self, requests):
    for request in requests:
        request.get_response_sender().send(self.make(request))
        request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
CALLS = """
def execute(self, requests):
    return [answer(np.array([self.call(request)], object)) for request in requests]
def call(self, request):
    kind = pb_utils.get_input_tensor_by_name(request, "KIND")
    called = pb_utils.InferenceRequest(model_name="plain", requested_output_names=["OUT"], inputs=[kind]).exec()
    return json.dumps([(t.name(), list(t.shape()), str(t.as_numpy().dtype)) for t in called.output_tensors()])
"""
OUT = 'output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } '
TWO = 'output { name: "TWO" data_type: TYPE_FP32 dims: [ 2 ] } '


def config(outputs=OUT + TWO, max_batch_size=0, more=""):
    return f"""backend: "python" max_batch_size: {max_batch_size} instance_group {{ kind: KIND_CPU }}
               input {{ name: "KIND" data_type: TYPE_STRING dims: [ 1 ] }} {outputs} {more}"""


def make_models(repository):
    make_python(repository, "plain", AT_ONCE, config=config())
    make_python(repository, "batched", AT_ONCE, config=config(max_batch_size=8))
    labeled = make_python(repository, "labeled", AT_ONCE, config=config(OUT.replace("}", 'label_filename: "labels" }'), 8))
    (labeled / "labels").write_text("a\nb\n")
    reshaped = 'output { name: "OUT" data_type: TYPE_FP32 dims: [ 1, -1 ] reshape { shape: [ -1 ] } }'
    make_python(repository, "reshaped", AT_ONCE, config=config(reshaped, 8))
    decoupled = "model_transaction_policy { decoupled: true }"
    make_python(repository, "decoupled", DECOUPLED, config=config(more=decoupled))
    make_python(repository, "calls", CALLS, config=config(OUT.replace("FP32", "STRING")))
    return repository


def start(side, python_backends, directory, *flags):
    starter = SideStarter(side, python_backends, directory)
    ours = () if side.core.is_relative_to(SIDES["nereid-in-triton"].core.parent) else ("--allow-client-shm=true",)
    (directory / "models").mkdir()
    return starter, starter(make_models(directory / "models"), flags=["--load-model=*", *ours, *flags])


@pytest.fixture(scope="module")
def server(side, python_backends, tmp_path_factory):
    starter, server = start(side, python_backends, tmp_path_factory.mktemp("outputs"))
    yield server
    starter.stop_all()


def ask(server, kind, model="plain", shape=None, **more):
    shape = shape or ([1] if model in ("plain", "calls") else [1, 1])
    tensor = {"name": "KIND", "datatype": "BYTES", "shape": shape, "data": [kind] * int(np.prod(shape))}
    return server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor], **more}).encode())


def outputs(answer):
    """[(name, datatype, shape, data)]"""
    assert answer.status == 200, answer.text
    return [(o["name"], o["datatype"], o["shape"], o["data"]) for o in json.loads(answer.body)["outputs"]]


# What the model makes: what the client of a model gets.
GIVEN = {
    "np.float32(5)": [("OUT", "FP32", [], [5])],
    "np.array([5], np.float32)": [("OUT", "FP32", [1], [5])],
    "np.array([5])": [("OUT", "INT64", [1], [5])],
    "np.array([5.0])": [("OUT", "FP64", [1], [5])],
    "np.array([[5]], np.float32)": [("OUT", "FP32", [1, 1], [5])],
    "np.array([5, 6, 7], np.float32)": [("OUT", "FP32", [3], [5, 6, 7])],
    "np.array(['x', 'yz'], object)": [("OUT", "BYTES", [2], ["x", "yz"])],
    "np.array([True])": [("OUT", "BOOL", [1], [True])],
    "np.zeros((2, 0, 3), np.float32)": [("OUT", "FP32", [2, 0, 3], [])],
    "[T('OUT', np.float32([1])), T('OTHER', np.float32([1]))]": [("OUT", "FP32", [1], [1])],
    "[T('OTHER', np.float32([1]))]": [],
    "[]": [],
    "[T('OUT', np.float32([1])), T('OUT', np.float32([2]))]": [("OUT", "FP32", [1], [1]), ("OUT", "FP32", [1], [2])],
    "[T('TWO', np.float32([1, 2])), T('OUT', np.float32([3]))]": [("TWO", "FP32", [2], [1, 2]), ("OUT", "FP32", [1], [3])],
}


@pytest.mark.parametrize("model", ["plain", "batched"])
def test_outputs_are_sent_as_the_model_made_them(server, model):
    for kind, expected in GIVEN.items():
        assert outputs(ask(server, kind, model)) == expected, kind


def test_outputs_in_binary_form_too(server):
    for kind, expected in GIVEN.items():
        tensor = triton.InferInput("KIND", [1], "BYTES").set_data_from_numpy(np.array([kind], object))
        with triton.InferenceServerClient(server.url) as client:
            answer = client.infer("plain", [tensor])
        assert [(o["name"], o["datatype"], o["shape"]) for o in answer.get_response()["outputs"]] == [e[:3] for e in expected], kind
        for name, _, shape, data in {e[0]: e for e in expected}.values():  # of two of a name this client gives the last
            array = answer.as_numpy(name)
            assert list(array.shape) == shape
            assert [v.decode() if type(v) is bytes else v for v in array.reshape(-1)] == data, kind


@pytest.mark.parametrize("count", [4, 20, 500, 5000])
def test_many_binary_outputs_fit_beside_any_head(server, side, count):
    kind = f"[T('OUT', np.float32([5])), T('TWO', np.float32([6]))] * {count // 2}"
    tensor = {"name": "KIND", "datatype": "BYTES", "shape": [1], "data": [kind]}
    body = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    sizes = (10, 15000, 24000, 30000, 30500, 31000)  # libmicrohttpd has 32 KiB for the head and for what it notes of the reply
    for size in sizes if side is not SIDES["nereid-in-triton"] else sizes[:1]:
        reply = server.ask("/v2/models/plain/infer", body, headers={"Mine": "x" * size})
        assert reply.status == 200
        values = reply.body[int(reply.headers["Inference-Header-Content-Length"]):]
        assert np.array_equal(np.frombuffer(values, np.float32), [5, 6] * (count // 2)), size


def test_outputs_that_were_not_asked_for_are_left_out(server):
    for kind, expected in GIVEN.items():
        assert outputs(ask(server, kind, outputs=[{"name": "TWO"}])) == [e for e in expected if e[0] == "TWO"], kind


def test_the_dimension_of_the_batch_may_be_any(server):
    for rows in (3, 2, 9):
        assert outputs(ask(server, f"np.ones(({rows}, 1), np.float32)", "batched", [3, 1])) == [("OUT", "FP32", [rows, 1], [1] * rows)]


def test_a_reshape_is_undone_where_it_fits(server):
    assert outputs(ask(server, "np.float32([[5, 6]])", "reshaped")) == [("OUT", "FP32", [1, 1, 2], [5, 6])]
    assert outputs(ask(server, "np.array([[5, 6]])", "reshaped")) == [("OUT", "INT64", [1, 1, 2], [5, 6])]
    assert outputs(ask(server, "np.float32([[5, 6], [7, 8]])", "reshaped")) == [("OUT", "FP32", [2, 1, 2], [5, 6, 7, 8])]


# The first k of an output of any shape: a batching model's rows are those of its first dimension.
CLASSES = {
    ("labeled", "np.float32(5)"): ([1], ["5.000000:0:a"]),
    ("labeled", "np.float32([3, 1])"): ([2, 1], ["3.000000:0:a", "1.000000:0:a"]),
    ("labeled", "np.float32([[[3, 1, 2]]])"): ([1, 2], ["3.000000:0:a", "2.000000:2"]),
    ("labeled", "np.array([[1, 5, 3]])"): ([1, 2], ["5:1:b", "3:2"]),
    ("plain", "np.float32(5)"): ([1], ["5.000000:0"]),
    ("plain", "np.float32([[3, 1], [4, 2]])"): ([2], ["4.000000:2", "3.000000:0"]),
}


def test_classes_of_outputs_of_another_shape(server):
    wanted = [{"name": "OUT", "parameters": {"classification": 2}}]
    for (model, kind), (shape, data) in CLASSES.items():
        assert outputs(ask(server, kind, model, outputs=wanted)) == [("OUT", "BYTES", shape, data)], (model, kind)
    refused = ask(server, "np.array([True])", outputs=wanted)
    assert (refused.status, refused.text) == (400, '{"error":"class result not available for output due to unsupported type \'BOOL\'"}')


@pytest.mark.parametrize("model", ["plain", "batched", "decoupled"])
def test_generate_takes_them(server, model):
    for kind, expected in GIVEN.items():
        members = {}
        for name, _, _, data in expected:
            members.setdefault(name, data[0] if len(data) == 1 else data)
        answer = server.ask(f"/v2/models/{model}/generate", json.dumps({"KIND": kind}).encode())
        assert answer.status == 200, (kind, answer.text)
        assert json.loads(answer.body) == {**members, "model_name": model, "model_version": "1"}, kind


def test_models_that_call_get_them(server):
    types = {"FP32": "float32", "FP64": "float64", "INT64": "int64", "BOOL": "bool", "BYTES": "object"}
    for kind, expected in GIVEN.items():
        said = json.loads(outputs(ask(server, kind, "calls"))[0][3][0])
        assert said == [[name, shape, types[datatype]] for name, datatype, shape, _ in expected if name == "OUT"], kind


def test_none_is_no_output(server):
    answer = ask(server, "[None]")
    assert answer.status == 500 and "Output tensor for inference response should not be empty." in answer.text


@pytest.fixture
def region(server):
    """8 bytes of memory, which the server knows."""
    key = f"/nereid_outputs_{os.getpid()}"
    memory = shm.create_shared_memory_region("r", key, 8)
    with triton.InferenceServerClient(server.url) as client:
        client.register_system_shared_memory("r", key, 8)
        yield memory
        client.unregister_system_shared_memory("r")
    shm.destroy_shared_memory_region(memory)


def test_outputs_in_memory_of_the_client(server, region):
    wanted = [{"name": "OUT", "parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 8}}]
    for kind, (datatype, shape, data) in {
        "np.float32(5)": ("FP32", [], np.array(5, np.float32).tobytes()),
        "np.array([5])": ("INT64", [1], np.array(5).tobytes()),
        "np.array(['xyz'], object)": ("BYTES", [1], b"\3\0\0\0xyz"),
    }.items():
        answer = json.loads(ask(server, kind, outputs=wanted).body)["outputs"]
        assert [(o["datatype"], o["shape"]) for o in answer] == [(datatype, shape)], kind
        assert shm.get_contents_as_numpy(region, np.uint8, [8]).tobytes().startswith(data), kind
    refused = ask(server, "np.float32([5, 6, 7])", outputs=wanted)
    assert refused.status == 500
    assert "memory size specified with the request for output 'OUT' (8 bytes) should be at least 12 bytes to hold the results" in refused.text


# ---- models of onnxruntime: nereid's backend, in both servers

in_servers = pytest.mark.parametrize("side", [SIDES["nereid"], SIDES["nereid-in-triton"]], ids=["nereid", "nereid-in-triton"], indirect=True)


def make_onnx(repository):
    """What they give has another first dimension than they say."""
    doubled = [helper.make_node("Concat", ["X", "X"], ["Y"], axis=0)]
    nodes = {
        "doubled": doubled,
        "strings": doubled,
        "scalar": [helper.make_node("ReduceSum", ["X"], ["Y"], keepdims=0)],
        "large": [  # the rows above 3.5
            helper.make_node("ReduceMax", ["X"], ["values"], axes=[1], keepdims=0),
            helper.make_node("Constant", [], ["limit"], value=helper.make_tensor("limit", TensorProto.FLOAT, [], [3.5])),
            helper.make_node("Greater", ["values", "limit"], ["is_large"]),
            helper.make_node("Compress", ["X", "is_large"], ["Y"], axis=0),
        ],
    }
    for name, graph in nodes.items():
        kind, text = (TensorProto.STRING, "STRING") if name == "strings" else (TensorProto.FLOAT, "FP32")
        save(repository, name, graph, [("X", kind, ("batch", 1))], [("Y", kind, () if name == "scalar" else ("rows", 1))], f"""
            backend: "onnxruntime" max_batch_size: 8 {TOGETHER % 2}
            input {{ name: "X" data_type: TYPE_{text} dims: [ 1 ] }} output {{ name: "Y" data_type: TYPE_{text} dims: [ 1 ] }}""")
    return repository


def two_at_once(server, model, values, datatype="FP32"):
    """Two requests that share a batch: what they get, in the order of the batch."""
    def one(i):
        tensor = {"name": "X", "datatype": datatype, "shape": [1, 1], "data": [values[i]]}
        return server.ask(f"/v2/models/{model}/infer", json.dumps({"id": str(values[i]), "inputs": [tensor]}).encode())

    return together(2, one)


def error_of(answer):
    assert answer.status != 200, answer.text
    return answer.status, json.loads(answer.body)["error"]


@in_servers
def test_a_batchs_rows_are_dealt_out_in_order(start_python, tmp_path):
    server = start_python(make_onnx(tmp_path / "models"), flags=["--load-model=*"])
    assert sorted(outputs(a)[0][2:] for a in two_at_once(server, "doubled", [3, 4])) == [([1, 1], [3]), ([1, 1], [4])]
    assert sorted(outputs(a)[0][2:] for a in two_at_once(server, "strings", ["a", "bc"], "BYTES")) == [([1, 1], ["a"]), ([1, 1], ["bc"])]
    for model, given in {"large": ([1, 1], [4]), "scalar": ([1], [7])}.items():
        first, second = sorted(two_at_once(server, model, [3, 4]), key=lambda answer: answer.status)
        assert outputs(first) == [("Y", "FP32", *given)]
        status, text = error_of(second)
        assert status == 501 and re.fullmatch(
            r"\[request id: [34]\] failed to split the output tensor 'Y' in responses: "
            "expected batch size of at least 2 in model output, got 1", text), text


# ---- nereid alone

in_nereid = pytest.mark.parametrize("side", [SIDES["nereid"]], ids=["nereid"], indirect=True)


@in_nereid
def test_outputs_over_grpc_too(server):
    with grpc.InferenceServerClient(f"localhost:{server.grpc_port}") as client:
        for kind, expected in GIVEN.items():
            tensor = grpc.InferInput("KIND", [1], "BYTES").set_data_from_numpy(np.array([kind], object))
            answer = client.infer("plain", [tensor])
            assert [(o.name, o.datatype, list(o.shape)) for o in answer.get_response().outputs] == [e[:3] for e in expected], kind
            for name, _, shape, _ in expected:
                assert list(answer.as_numpy(name).shape) == [e[2] for e in expected if e[0] == name][0], kind


@in_nereid
def test_a_reshape_that_does_not_fit_is_left_alone(server):
    """Triton 2.51 answers 500 to the first two, and ends with the third."""
    assert outputs(ask(server, "np.float32([[[5, 6], [7, 8]]])", "reshaped")) == [("OUT", "FP32", [1, 2, 2], [5, 6, 7, 8])]
    assert outputs(ask(server, "np.float32([])", "reshaped")) == [("OUT", "FP32", [0], [])]
    assert outputs(ask(server, "np.float32(5)", "reshaped")) == [("OUT", "FP32", [], [5])]


def mismatches(server):
    """{(model, output): how many}"""
    families = text_string_to_metric_families(server.ask("/metrics", port=server.metrics_port).text)
    samples = [s for family in families if family.name == "nereid_output_mismatch" for s in family.samples]
    assert all(s.labels["version"] == "1" for s in samples)
    return {(s.labels["model"], s.labels["output"]): s.value for s in samples}


def told(server):
    return re.findall(r'^W.*?\] "(.*?); .*nereid_output_mismatch_total', server.log, re.M)


@in_nereid
def test_what_does_not_fit_is_told_once_for_each_output_and_counted(side, python_backends, tmp_path):
    starter, server = start(side, python_backends, tmp_path)
    try:
        assert outputs(ask(server, "np.float32([5])")) == [("OUT", "FP32", [1], [5])]
        assert mismatches(server) == {} and "nereid_output_mismatch_total" not in server.ask("/metrics", port=server.metrics_port).text
        for kind in ("np.array([5])", "np.float32(5)", "np.array([5])"):
            ask(server, kind)
        for kind in ("[T('TWO', np.float32([5]))]", "[T('OUT', np.float32([5])), T('OUT', np.float32([5]))]"):
            ask(server, kind)
        ask(server, "np.float32([5])", "batched")
        ask(server, "np.array([5])", "calls")
        for name in ("A", "B", "A"):
            ask(server, f"[T({name!r}, np.float32([5]))]", "batched")
        assert mismatches(server) == {("plain", "OUT"): 5, ("plain", "TWO"): 1, ("batched", "OUT"): 1, ("batched", "(not configured)"): 3}
        wait_for("the log", lambda: len(told(server)) == 5)
        assert told(server) == [
            "output 'OUT' of model 'plain' is INT64 [1], the model's configuration says FP32 [1]",
            "output 'TWO' of model 'plain' is FP32 [1], the model's configuration says FP32 [2]",
            "output 'OUT' of model 'batched' is FP32 [1], the model's configuration says FP32 [-1,1]",
            "model 'batched' gave the output 'A', its configuration has none of that name",
            "model 'batched' gave the output 'B', its configuration has none of that name",
        ]
        changed = json.loads(server.ask("/v2/models/plain/config").body) | {"metric_tags": {"a": "b"}}
        server.ask("/v2/repository/models/plain/load", json.dumps({"parameters": {"config": json.dumps(changed)}}).encode())
        ask(server, "np.array([5])")
        wait_for("the log", lambda: len(told(server)) == 6)  # a model that is loaded again is another one
    finally:
        starter.stop_all()


@in_nereid
def test_names_that_a_model_makes_up_are_bounded(server):
    before = len(told(server))
    for i in range(300):
        assert outputs(ask(server, f"[T('made_up_{i}', np.float32([5]))]")) == []
    assert 8 < len(told(server)) - before <= 16
    assert [output for model, output in mismatches(server) if model == "plain" and output not in ("OUT", "TWO")] == ["(not configured)"]


REFUSED = {
    "np.array([5])": "output 'OUT' of model 'plain' is INT64 [1], the model's configuration says FP32 [1]",
    "np.float32([5, 6])": "output 'OUT' of model 'plain' is FP32 [2], the model's configuration says FP32 [1]",
    "np.float32(5)": "output 'OUT' of model 'plain' is FP32 [], the model's configuration says FP32 [1]",
    "[T('OUT', np.float32([1])), T('OUT', np.float32([2]))]": "model 'plain' gave the output 'OUT' twice in one response",
    "[T('OTHER', np.float32([1]))]": "model 'plain' gave the output 'OTHER', its configuration has none of that name",
}


@in_nereid
def test_strict_outputs_refuse_them(side, python_backends, tmp_path):
    starter, server = start(side, python_backends, tmp_path, "--strict-outputs")
    try:
        for kind, reason in REFUSED.items():
            answer = ask(server, kind)
            assert (answer.status, json.loads(answer.body)) == (500, {"error": reason}), kind
        assert outputs(ask(server, "np.float32([5])")) == [("OUT", "FP32", [1], [5])]
        assert mismatches(server) == {("plain", "OUT"): 4, ("plain", "(not configured)"): 1}
        assert told(server) == []
        text = server.ask("/metrics", port=server.metrics_port).text
        assert 'nv_inference_request_failure{model="plain",reason="BACKEND",version="1"} 5' in text
    finally:
        starter.stop_all()


@in_nereid
def test_a_models_parameter_counts_before_the_flag(start_python, tmp_path):
    repository = tmp_path / "models"
    parameter = 'parameters { key: "strict_outputs" value { string_value: "%s" } }'
    for name, value in {"strict": "true", "loose": "false", "odd": "perhaps"}.items():
        make_python(repository, name, AT_ONCE, config=config(more=parameter % value))
    server = start_python(repository, flags=["--load-model=strict", "--load-model=loose", "--strict-outputs=true"])
    assert ask(server, "np.array([5])", "strict", [1]).status == 500
    assert outputs(ask(server, "np.array([5])", "loose", [1])) == [("OUT", "INT64", [1], [5])]
    refused = server.ask("/v2/repository/models/odd/load", b"")
    assert refused.status == 400 and "strict_outputs: invalid value 'perhaps', expected true or false" in refused.text
    server = start_python(repository, flags=["--load-model=strict", "--load-model=loose"])
    assert [ask(server, "np.array([5])", name, [1]).status for name in ("strict", "loose")] == [500, 200]
