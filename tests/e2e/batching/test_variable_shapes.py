# SPDX-License-Identifier: Apache-2.0
"""Requests of different lengths share a batch: padded, their lengths beside them, outputs cut back (docs/variable_shapes.md)."""
import json

import numpy as np
import pytest
import tritonclient.http as triton
from client_memory import inference, place, region, register
from conftest import make_identity
from onnx import TensorProto, helper
from python_models import make_python
from test_check_command import check, report  # noqa: F401 - a fixture
from test_onnxruntime import save

WIDTH = 3


def parameters(**values):
    return " ".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in values.items())


BATCHES = "dynamic_batching { max_queue_delay_microseconds: 300000 }"
SCALED = """
backend: "onnxruntime"
max_batch_size: 16
input [ { name: "X" data_type: TYPE_FP32 dims: [ -1, 3 ] }, { name: "N" data_type: TYPE_INT64 dims: [ 1 ] } ]
output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 3 ] }, { name: "Y" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]
%s
"""


def make_scaled(repository, more):
    """SUM adds up the first N rows of X; Y is each row of X plus that. What X has beyond N does not count."""
    node = helper.make_node
    constants = {"zero": 0, "one": 1}
    nodes = [node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [], [value])) for name, value in constants.items()]
    axes = {"axis1": [1], "axis2": [2]}
    nodes += [node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.INT64, [1], value)) for name, value in axes.items()]
    nodes += [
        node("Shape", ["X"], ["shape"]), node("Gather", ["shape", "one"], ["length"], axis=0), node("Range", ["zero", "length", "one"], ["places"]),
        node("Less", ["places", "N"], ["inside"]), node("Cast", ["inside"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "axis2"], ["weights"]), node("Mul", ["X", "weights"], ["counted"]),
        node("ReduceSum", ["counted", "axis1"], ["SUM"], keepdims=0), node("Unsqueeze", ["SUM", "axis1"], ["sums"]), node("Add", ["X", "sums"], ["Y"]),
    ]
    kind = TensorProto.FLOAT
    inputs = [("X", kind, ("b", "n", WIDTH)), ("N", TensorProto.INT64, ("b", 1))]
    return save(repository, "scaled", nodes, inputs, [("SUM", kind, ("b", WIDTH)), ("Y", kind, ("b", "n", WIDTH))], SCALED % more)


def given(array, name="X", datatype="FP32"):
    return triton.InferInput(name, array.shape, datatype).set_data_from_numpy(array)


def stats(server, model):
    return json.loads(server.ask(f"/v2/models/{model}/stats").body)["model_stats"][0]


def ask_all(server, model, arrays, **options):
    """All at once; the answers in their order."""
    with triton.InferenceServerClient(server.url, concurrency=len(arrays)) as client:
        asked = [client.async_infer(model, [given(array, **options)]) for array in arrays]
        return [answer.get_result() for answer in asked]


def random_arrays(count, longest, seed=7):
    numbers = np.random.default_rng(seed)
    return [numbers.integers(-9, 9, (1 + i % 2, numbers.integers(1, longest + 1), WIDTH)).astype(np.float32) for i in range(count)]


RULES = {"longest": {}, "multiples": {"padding_to": "8"}, "buckets": {"padding_to": "[8, 20, 32]"}}


@pytest.mark.parametrize("rule", RULES)
def test_batches_of_any_lengths_give_the_numbers_of_each_alone(start_server, repository, rule):
    make_scaled(repository, BATCHES + parameters(padding="X=1000", padding_length="N", padding_outputs="Y", **RULES[rule]))
    server = start_server(repository)
    arrays = random_arrays(32, 40)
    for array, answer in zip(arrays, ask_all(server, "scaled", arrays)):
        sums = array.sum(axis=1)
        np.testing.assert_array_equal(answer.as_numpy("SUM"), sums)
        np.testing.assert_array_equal(answer.as_numpy("Y"), array + sums[:, np.newaxis, :])
    found = stats(server, "scaled")
    assert found["inference_count"] == sum(len(array) for array in arrays)
    assert found["execution_count"] < len(arrays)


# Answers, for each row, with the shape that the backend got, and with the lengths.
SHAPES = """
def execute(self, requests):
    rows = [value(request) for request in requests]
    self.alike = getattr(self, "alike", []) + [len({row.shape[1] for row in rows})]
    assert self.alike[-1] == 1
    return [answer(np.array([[*row.shape[1:], *value(request, "L")[i], len(requests), row[i][-1][-1]] for i in range(len(row))], np.int32))
            for row, request in zip(rows, requests)]
"""
SHAPED = """
backend: "python"
max_batch_size: 8
input { name: "IN" data_type: TYPE_INT32 dims: [ -1, -1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 5 ] }
%s
"""


@pytest.mark.parametrize("rule,targets", [("longest", None), ("4", (4, 8, 12)), ("[3, 10]", (3, 10, 11, 12))], ids=["longest", "multiples", "buckets"])
def test_a_batch_has_one_length_and_the_lengths_are_told(start_server, repository, rule, targets):
    config = SHAPED % (BATCHES + parameters(padding="IN:0=-7", padding_to=rule, padding_length="L"))
    make_python(repository, "shapes", SHAPES, config=config)
    server = start_server(repository)
    arrays = [np.ones((1 + i % 2, 1 + i % 12, 2 + i // 12), np.int32) for i in range(36)]
    for array, answer in zip(arrays, ask_all(server, "shapes", arrays, name="IN", datatype="INT32")):
        found = answer.as_numpy("OUT")
        assert len(found) == len(array)
        for length, width, told, together, last in found.tolist():
            assert (told, width) == array.shape[1:]
            assert length in targets if targets else length >= told
            assert last == (1 if length == told else -7)
            assert together > 1 or not targets or length == min(target for target in targets if target >= told)
    assert stats(server, "shapes")["execution_count"] < len(arrays)


def test_without_a_batch_dimension_inputs_are_padded_alone(start_server, repository):
    more = parameters(padding="INPUT0=5", padding_to="[4, 8]")
    make_identity(repository, "flat", "TYPE_INT32", max_batch_size=0, more=more)
    make_identity(repository, "cut", "TYPE_INT32", max_batch_size=0, more=more + parameters(padding_outputs="OUTPUT0"))
    server = start_server(repository)
    array = np.array([1, 2, 3], np.int32)
    whole, = ask_all(server, "flat", [array], name="INPUT0", datatype="INT32")
    assert whole.as_numpy("OUTPUT0").tolist() == [1, 2, 3, 5]
    cut, = ask_all(server, "cut", [array], name="INPUT0", datatype="INT32")
    assert cut.as_numpy("OUTPUT0").tolist() == [1, 2, 3]
    empty, = ask_all(server, "cut", [array[:0]], name="INPUT0", datatype="INT32")
    assert empty.as_numpy("OUTPUT0").tolist() == []


def test_an_output_goes_into_memory_that_just_fits(start_server, repository):
    make_identity(repository, "cut", "TYPE_INT32", more=parameters(padding="INPUT0", padding_to="64", padding_outputs="OUTPUT0"))
    server = start_server(repository, flags=["--allow-client-shm=true"])
    with region(4096) as shared:
        assert register(server, "r", shared.key, 4096).status == 200
        shared.memory[:12] = np.array([5, 6, 7], np.int32).tobytes()
        shared.memory[2012:2016] = b"done"
        reply = server.ask("/v2/models/cut/infer", inference("INT32", [1, 3], place("r", 12), place("r", 12, 2000)))
        assert reply.status == 200, reply.text
        assert np.frombuffer(shared.memory[2000:2012], np.int32).tolist() == [5, 6, 7]
        assert shared.memory[2012:2016] == b"done"
        assert json.loads(reply.body)["outputs"][0]["shape"] == [1, 3]
        small = server.ask("/v2/models/cut/infer", inference("INT32", [1, 3], place("r", 12), place("r", 8, 2000)))
        assert "should be at least 12 bytes" in small.text


def test_a_model_in_a_process_of_its_own_is_padded_too(start_server, repository):
    make_identity(repository, "own", "TYPE_INT32", more=BATCHES + parameters(padding="INPUT0", padding_outputs="OUTPUT0", isolate="process"))
    server = start_server(repository)
    arrays = [np.arange(1 + i, dtype=np.int32).reshape(1, -1) for i in range(12)]
    for array, answer in zip(arrays, ask_all(server, "own", arrays, name="INPUT0", datatype="INT32")):
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), array)
    assert stats(server, "own")["execution_count"] < len(arrays)


def test_requests_that_do_not_fit_are_refused(start_server, repository):
    make_scaled(repository, parameters(padding="X", padding_length="N", padding_outputs="Y"))
    pair = "input { name: \"INPUT1\" data_type: TYPE_FP32 dims: [ -1 ] } output { name: \"OUTPUT1\" data_type: TYPE_FP32 dims: [ -1 ] }"
    make_identity(repository, "pair", more=pair + parameters(padding="INPUT0, INPUT1"))
    server = start_server(repository)
    x = np.ones((1, 2, WIDTH), np.float32)
    with triton.InferenceServerClient(server.url) as client:
        with pytest.raises(triton.InferenceServerException, match="unexpected inference input 'N' for model 'scaled': the lengths are given by the server"):
            client.infer("scaled", [given(x), given(np.array([[2]], np.int64), "N", "INT64")])
        with pytest.raises(triton.InferenceServerException, match="are padded together and have the lengths 2 and 3, expected the same"):
            client.infer("pair", [given(np.ones((1, 2), np.float32), "INPUT0"), given(np.ones((1, 3), np.float32), "INPUT1")])
        assert client.infer("scaled", [given(x)]).as_numpy("SUM").tolist() == [[2.0] * WIDTH]


def test_mistakes_in_parameters_end_the_load_and_are_found_by_check(start_server, repository, check):  # noqa: F811
    make_identity(repository, "wrong", more=parameters(padding="INPUT1"))
    make_identity(repository, "late", more=parameters(padding="INPUT0", padding_to="many"))
    make_identity(repository, "typo", more=parameters(padding="INPUT0", pading_to="8"))
    done = check("--json", repository)
    text = json.dumps(report(done))
    assert "parameter 'padding': invalid value 'INPUT1': 'INPUT1' is no input of the model, expected <input>[:<dim>][=<value>]" in text
    assert "parameter 'padding_to': invalid value 'many': 'many' is no positive number, expected longest, a number" in text
    assert "did you mean 'padding_to'?" in text
    server = start_server(repository, flags=["--model-control-mode=explicit"])
    for model, words in (("wrong", "is no input of the model"), ("late", "is no positive number")):
        failed = server.ask(f"/v2/repository/models/{model}/load", b"{}")
        assert (failed.status, words in failed.text) == (400, True), failed.text
    assert server.ask("/v2/repository/models/typo/load", b"{}").status == 200
