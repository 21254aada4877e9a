# SPDX-License-Identifier: Apache-2.0
"""Ragged batches: requests of different shapes in one execution, in nereid and in NVIDIA's server of 2.51, with our onnxruntime backend in both."""
import json
import queue

import numpy
import pytest
import tritonclient.grpc as triton
from conftest import BUILD, PATIENCE, TOGETHER
from grpc_sides import NEREID, TRITON, client_of
from onnx import TensorProto, helper
from python_sides import SideStarter
from test_onnxruntime import save

KINDS = ("ELEMENT_COUNT", "ACCUMULATED_ELEMENT_COUNT", "ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "MAX_ELEMENT_COUNT_AS_SHAPE", "ITEM_SHAPE",
         "ITEM_SHAPE_FLATTEN")


def ragged(dims):
    return f'input {{ name: "X" data_type: TYPE_FP32 dims: {dims} allow_ragged_batch: true }}'


def tensors(*outputs):
    return "\n".join(f'output {{ name: "{name}" data_type: {kind} dims: {dims} }}' for name, kind, dims in outputs)


def batch_input(kind, target, datatype="TYPE_INT32", source="X"):
    return f'batch_input {{ kind: BATCH_{kind} target_name: {target} data_type: {datatype} source_input: "{source}" }}'


def make_sums(repository, name="sums", together=4, more=""):
    """SUM of each request's X, by the place where it ends, and TWICE all of X, which has no batch dimension."""
    zero = helper.make_tensor("", TensorProto.FLOAT, [1], [0.0])
    nodes = [
        helper.make_node("Constant", [], ["zero"], value=zero),
        helper.make_node("Constant", [], ["first"], value=helper.make_tensor("", TensorProto.INT32, [1], [0])),
        helper.make_node("Constant", [], ["axis"], value=helper.make_tensor("", TensorProto.INT64, [], [0])),
        helper.make_node("Constant", [], ["from"], value=helper.make_tensor("", TensorProto.INT64, [1], [0])),
        helper.make_node("Constant", [], ["to"], value=helper.make_tensor("", TensorProto.INT64, [1], [-1])),
        helper.make_node("Constant", [], ["column"], value=helper.make_tensor("", TensorProto.INT64, [2], [-1, 1])),
        helper.make_node("CumSum", ["X", "axis"], ["running"]),
        helper.make_node("Concat", ["zero", "running"], ["totals"], axis=0),
        helper.make_node("Slice", ["ENDS", "from", "to"], ["but_last"]),
        helper.make_node("Concat", ["first", "but_last"], ["begins"], axis=0),
        helper.make_node("Gather", ["totals", "ENDS"], ["at_end"]),
        helper.make_node("Gather", ["totals", "begins"], ["at_begin"]),
        helper.make_node("Sub", ["at_end", "at_begin"], ["flat"]),
        helper.make_node("Reshape", ["flat", "column"], ["SUM"]),
        helper.make_node("Add", ["X", "X"], ["TWICE"]),
    ]
    save(repository, name, nodes, [("X", TensorProto.FLOAT, ("n",)), ("ENDS", TensorProto.INT32, ("requests",))],
         [("SUM", TensorProto.FLOAT, ("requests", 1)), ("TWICE", TensorProto.FLOAT, ("n",))], "\n".join([
             "max_batch_size: 16", ragged("[ -1 ]"), tensors(("SUM", "TYPE_FP32", "[ 1 ]"), ("TWICE", "TYPE_FP32", "[ -1 ]")),
             batch_input("ACCUMULATED_ELEMENT_COUNT", '"ENDS"'),
             'batch_output { target_name: "TWICE" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }', TOGETHER % together, more]))


def make_kinds(repository, datatype):
    """Each output shows to every request a whole batch input."""
    kind = {"TYPE_INT32": TensorProto.INT32, "TYPE_FP32": TensorProto.FLOAT}[datatype]
    nodes = [
        helper.make_node("Constant", [], ["row"], value=helper.make_tensor("", TensorProto.INT64, [2], [1, -1])),
        helper.make_node("Constant", [], ["one"], value=helper.make_tensor("", TensorProto.INT64, [1], [1])),
        helper.make_node("Shape", ["ELEMENT_COUNT"], ["requests"]),
        helper.make_node("Concat", ["requests", "one"], ["rows"], axis=0),
    ]
    for target in (*KINDS, "AGAIN"):
        nodes.append(helper.make_node("Reshape", [target, "row"], [f"{target}_flat"]))
        nodes.append(helper.make_node("Expand", [f"{target}_flat", "rows"], [f"OUT_{target}"]))
    nodes.append(helper.make_node("Reshape", ["X", "row"], ["X_flat"]))
    nodes.append(helper.make_node("Expand", ["X_flat", "rows"], ["OUT_X"]))
    shapes = {"ITEM_SHAPE": ("rows", 2)}
    name = f"kinds_{datatype[5:].lower()}"
    save(repository, name, nodes,
         [("X", TensorProto.FLOAT, ("n",)), *((target, kind, shapes.get(target, (f"n_{target}",))) for target in (*KINDS, "AGAIN"))],
         [(f"OUT_{target}", kind, ("requests", f"o_{target}")) for target in (*KINDS, "AGAIN")] + [("OUT_X", TensorProto.FLOAT, ("requests", "o"))],
         "\n".join([
             "max_batch_size: 16", ragged("[ -1, -1 ]"), tensors(*((f"OUT_{target}", datatype, "[ -1 ]") for target in (*KINDS, "AGAIN"))),
             tensors(("OUT_X", "TYPE_FP32", "[ -1 ]")),
             *(batch_input(kind, f'[ "{kind}", "AGAIN" ]' if kind == "ELEMENT_COUNT" else f'"{kind}"', datatype) for kind in KINDS), TOGETHER % 3]))


def make_items(repository):
    """The rows of each request see their own shapes: what BATCH_ITEM_SHAPE makes has the batch's dimension."""
    nodes = [helper.make_node("Identity", ["SHAPES"], ["OUT"]), helper.make_node("ReduceSum", ["X"], ["unused"])]
    save(repository, "items", nodes, [("X", TensorProto.FLOAT, ("n",)), ("SHAPES", TensorProto.FLOAT, ("rows", 2))],
         [("OUT", TensorProto.FLOAT, ("rows", 2))],
         "\n".join(["max_batch_size: 16", ragged("[ -1, -1 ]"), tensors(("OUT", "TYPE_FP32", "[ 2 ]")),
                    batch_input("ITEM_SHAPE", '"SHAPES"', "TYPE_FP32"), TOGETHER % 4]))


def make_mixed(repository):
    """A ragged input beside one that must be equal in a batch, and strings that are ragged."""
    nodes = [helper.make_node("Identity", ["NAMES"], ["ALL"]), helper.make_node("Identity", ["Z"], ["SAME"])]
    save(repository, "mixed", nodes, [("NAMES", TensorProto.STRING, ("n",)), ("Z", TensorProto.INT32, ("b", "m"))],
         [("ALL", TensorProto.STRING, ("n",)), ("SAME", TensorProto.INT32, ("b", "m"))], "\n".join([
             "max_batch_size: 8", 'input { name: "NAMES" data_type: TYPE_STRING dims: [ -1 ] allow_ragged_batch: true }',
             'input { name: "Z" data_type: TYPE_INT32 dims: [ -1 ] }', tensors(("ALL", "TYPE_STRING", "[ -1 ]"), ("SAME", "TYPE_INT32", "[ -1 ]")),
             'batch_output { target_name: "ALL" source_input: "NAMES" }', TOGETHER % 2]))


def make(repository):
    repository.mkdir()
    make_sums(repository)
    for datatype in ("TYPE_INT32", "TYPE_FP32"):
        make_kinds(repository, datatype)
    make_items(repository)
    make_mixed(repository)
    return repository


@pytest.fixture(scope="module", params=[NEREID] if BUILD.name == "tsan" else [NEREID, TRITON], ids=lambda side: side.name)
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ragged")
    starter = SideStarter(request.param, request.param.backends(tmp_path_factory.mktemp("backends")), directory)
    yield starter(make(directory / "models"), flags=["--load-model=*"])
    starter.stop_all()


def give(*inputs):
    return [triton.InferInput(name, data.shape, {"f": "FP32", "i": "INT32", "O": "BYTES"}[data.dtype.kind]).set_data_from_numpy(data)
            for name, data in inputs]


def in_order(server, model, requests):
    """The answers to requests that are sent one after the other, without waiting."""
    answers = queue.Queue()
    with client_of(server) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        for number, inputs in enumerate(requests):
            client.async_stream_infer(model, inputs, request_id=str(number))
        found = [answers.get(timeout=PATIENCE) for _ in requests]
        executions = client.get_inference_statistics(model, as_json=True)["model_stats"][0].get("execution_count", 0)
    for answer in found:
        if isinstance(answer, Exception):
            raise answer
    return {int(answer.get_response().id): answer for answer in found}, int(executions)


def test_answers_are_those_of_each_request_alone(server):
    data = [numpy.arange(count, dtype=numpy.float32).reshape(1, -1) + 10 * count for count in (3, 4, 0, 5)]
    answers, executions = in_order(server, "sums", [give(("X", values)) for values in data])
    assert executions == 1
    for number, values in enumerate(data):
        assert answers[number].as_numpy("SUM").tolist() == [[values.sum()]]
        numpy.testing.assert_array_equal(answers[number].as_numpy("TWICE"), 2 * values)


@pytest.mark.parametrize("datatype", ["int32", "fp32"])
def test_each_kind_of_batch_input_is_as_documented(server, datatype):
    shapes = [(1, 1, 3), (1, 4, 1), (1, 2, 1)]
    data = [numpy.full(shape, number, numpy.float32) for number, shape in enumerate(shapes)]
    answers, executions = in_order(server, f"kinds_{datatype}", [give(("X", values)) for values in data])
    expected = {
        "ELEMENT_COUNT": [3, 4, 2], "AGAIN": [3, 4, 2], "ACCUMULATED_ELEMENT_COUNT": [3, 7, 9],
        "ACCUMULATED_ELEMENT_COUNT_WITH_ZERO": [0, 3, 7, 9], "ITEM_SHAPE": [1, 3, 4, 1, 2, 1], "ITEM_SHAPE_FLATTEN": [1, 3, 4, 1, 2, 1],
    }
    assert executions == 1
    for number in range(3):
        for kind, values in expected.items():
            assert answers[number].as_numpy(f"OUT_{kind}").tolist() == [values]
        assert answers[number].as_numpy("OUT_MAX_ELEMENT_COUNT_AS_SHAPE").shape == (1, 4)
        assert answers[number].as_numpy("OUT_X").tolist() == [[0] * 3 + [1] * 4 + [2] * 2]


def test_rows_of_a_request_have_its_shape(server):
    data = [numpy.zeros(shape, numpy.float32) for shape in ((2, 1, 2), (1, 5, 1), (1, 2, 2))]
    answers, executions = in_order(server, "items", [give(("X", values)) for values in data])
    assert executions == 1
    assert [answers[n].as_numpy("OUT").tolist() for n in range(3)] == [[[1, 2], [1, 2]], [[5, 1]], [[2, 2]]]


def test_other_inputs_must_still_be_equal_and_strings_may_be_ragged(server):
    names = [["a"], ["bb", "", "größer"], ["c", "d"], []]
    widths = [1, 1, 2, 2]  # the third closes the batch of the first two
    requests = [give(("NAMES", numpy.array([row], numpy.object_).reshape(1, -1)), ("Z", numpy.full((1, width), width, numpy.int32)))
                for row, width in zip(names, widths)]
    answers, executions = in_order(server, "mixed", requests)
    assert executions == 2
    for number, (row, width) in enumerate(zip(names, widths)):
        assert [name.decode() for name in answers[number].as_numpy("ALL").reshape(-1)] == row
        assert answers[number].as_numpy("ALL").shape == (1, len(row))
        assert answers[number].as_numpy("SAME").tolist() == [[width] * width]


def make_short(repository):
    """Its output to be scattered has two elements, whatever comes."""
    node = helper.make_node("Constant", [], ["Y"], value=helper.make_tensor("", TensorProto.FLOAT, [2], [1.0, 2.0]))
    save(repository, "short", [node, helper.make_node("Identity", ["X"], ["unused"])], [("X", TensorProto.FLOAT, ("n",))],
         [("Y", TensorProto.FLOAT, (2,))], "\n".join([
             "max_batch_size: 8", ragged("[ -1 ]"), tensors(("Y", "TYPE_FP32", "[ -1 ]")),
             'batch_output { target_name: "Y" source_input: "X" }', TOGETHER % 2]))


def make_refused(repository):
    for name, shape, more in (("fixed", (3,), ""), ("matrix", ("b", "n"), ""), ("optional", ("n",), " optional: true")):
        save(repository, name, [helper.make_node("Identity", ["X"], ["Y"])], [("X", TensorProto.FLOAT, shape)], [("Y", TensorProto.FLOAT, shape)],
             f"max_batch_size: 8 input {{ name: 'X' data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true{more} }}"
             f"output {{ name: 'Y' data_type: TYPE_FP32 dims: [ -1 ] }}")
    make_sums(repository, "no_ends", more="")
    config = repository / "no_ends/config.pbtxt"
    config.write_text(config.read_text().replace(batch_input("ACCUMULATED_ELEMENT_COUNT", '"ENDS"'), ""))
    make_sums(repository, "other_type", together=1)
    config = repository / "other_type/config.pbtxt"
    config.write_text(config.read_text().replace("TYPE_INT32", "TYPE_FP32"))


def test_a_model_that_cannot_be_ragged_is_refused_in_tritons_words(start_server, repository):
    make_refused(repository)
    make_short(repository)
    server = start_server(repository, flags=["--model-control-mode=explicit", "--load-model=short", "--load-model=other_type"])
    ragged_words = "configuration expects model provides input with shape [-1]"
    for model, words in {
        "fixed": f"unable to load model 'fixed', {ragged_words}  for ragged input 'X', model provides [3]",
        "matrix": f"unable to load model 'matrix', {ragged_words}  for ragged input 'X', model provides [-1,-1]",
        "optional": f"{ragged_words} for ragged input 'X', which is not supported for optional input",
        "no_ends": "configuration expects 1 inputs, model provides 2\n  input 'ENDS' is not configured",
    }.items():
        answer = server.ask(f"/v2/repository/models/{model}/load", b"{}")
        assert answer.status == 400 and words in json.loads(answer.body)["error"]
    # As Triton, loads what the model refuses once it is executed; nobody else is harmed.
    assert "model 'other_type': batch input 'ENDS' is made of TYPE_FP32, the model wants TYPE_INT32" in server.log
    with pytest.raises(Exception, match="Unexpected input data type"):
        in_order(server, "other_type", [give(("X", numpy.ones((1, 2), numpy.float32)))])


def test_an_output_that_has_too_little_for_all_is_nobodys(start_server, repository):
    make_short(repository)
    server = start_server(repository)
    answers, executions = in_order(server, "short", [give(("X", numpy.zeros((1, 1), numpy.float32)))] * 2)
    assert [answers[n].as_numpy("Y").tolist() for n in range(2)] == [[[1]], [[2]]] and executions == 1
    with pytest.raises(Exception, match="failed to scatter the output tensor 'Y': expected at least 3 elements in model output, got 2"):
        in_order(server, "short", [give(("X", numpy.zeros((1, n), numpy.float32))) for n in (1, 2)])
