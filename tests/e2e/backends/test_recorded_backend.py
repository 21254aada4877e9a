# SPDX-License-Identifier: Apache-2.0
"""What a backend of somebody else is given: ragged batches and passive instances, in nereid and in NVIDIA's server of 2.51."""
import json

import numpy
import pytest
from conftest import BUILD, TOGETHER, wait_for
from grpc_sides import NEREID, TRITON
from python_sides import SideStarter
from test_ragged import give, in_order

RECORDING = BUILD / "test-backends/recording"


def make(repository, name, calls, inputs, more=""):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(f"""
        backend: "recording" max_batch_size: 8 {inputs}
        output {{ name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }}
        parameters {{ key: "CALLS" value: {{ string_value: "{calls}" }} }} {more}""")


def tensor(name, dims, more=""):
    return f'input {{ name: "{name}" data_type: TYPE_FP32 dims: {dims} {more} }}'


@pytest.fixture(params=[NEREID] if BUILD.name == "tsan" else [NEREID, TRITON], ids=lambda side: side.name)
def start(request, tmp_path):
    backends = request.param.backends(tmp_path)
    (backends / "recording").symlink_to(RECORDING.resolve())
    starter = SideStarter(request.param, backends, tmp_path)
    yield starter
    starter.stop_all()


def of(*shapes, **same):
    rest = [(name, numpy.array(value, numpy.float32)) for name, value in same.items()]
    return [give(("X", numpy.zeros(shape, numpy.float32)), *rest) for shape in shapes]


def executions(calls):
    return [line.split(" ", 3)[3] for line in calls.read_text().splitlines() if line.startswith("execute ")]


def test_ragged_requests_come_as_they_are_with_the_configuration(start, tmp_path):
    calls = tmp_path / "calls"
    make(tmp_path / "models", "m", calls, tensor("X", "[ -1, 2 ]", "allow_ragged_batch: true"), TOGETHER % 3 + """
        batch_input { kind: BATCH_ITEM_SHAPE target_name: [ "A", "B" ] data_type: TYPE_FP32 source_input: "X" }
        batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "Y" source_input: "X" }""")
    server = start(tmp_path / "models", flags=["--load-model=m"])
    in_order(server, "m", of((1, 3, 2), (1, 1, 2), (1, 0, 2)))
    assert executions(calls) == ["1,3,2 1,1,2 1,0,2"]
    said = dict(line.split(" ", 1) for line in calls.read_text().splitlines()[:3])
    assert json.loads(said["batch_input"]) == [{"kind": "BATCH_ITEM_SHAPE", "target_name": ["A", "B"], "data_type": "TYPE_FP32",
                                                "source_input": ["X"]}]
    assert json.loads(said["batch_output"]) == [{"kind": "BATCH_SCATTER_WITH_INPUT_SHAPE", "target_name": ["Y"], "source_input": ["X"]}]
    assert said["ragged"] == "1"


def test_optional_inputs_still_close_a_batch_and_ragged_ones_among_them_may_differ(start, tmp_path):
    calls = tmp_path / "calls"
    make(tmp_path / "models", "m", calls, tensor("X", "[ -1 ]", "allow_ragged_batch: true") +
         tensor("Z", "[ -1 ]", "optional: true allow_ragged_batch: true"), TOGETHER % 2)
    server = start(tmp_path / "models", flags=["--load-model=m"])
    in_order(server, "m", [*of((1, 1), (1, 2)), *of((1, 3), Z=[[1, 2]]), *of((1, 4), Z=[[1]])])
    assert executions(calls) == ["1,1 1,2", "1,3 1,4"]
    in_order(server, "m", [*of((1, 5)), *of((1, 6), Z=[[1]]), *of((1, 7), Z=[[1, 2, 3]])])
    assert executions(calls)[2:] == ["1,5", "1,6 1,7"]


def test_passive_instances_are_made_and_get_no_requests(start, tmp_path):
    calls = tmp_path / "calls"
    make(tmp_path / "models", "m", calls, tensor("X", "[ -1 ]"),
         "instance_group [ { name: 'p' count: 2 kind: KIND_CPU passive: true }, { name: 'a' count: 1 kind: KIND_CPU } ]")
    server = start(tmp_path / "models", flags=["--load-model=m"])
    in_order(server, "m", of(*[(1, 1)] * 50))
    assert server.ask("/v2/models/m/ready").status == 200
    assert [group["passive"] for group in json.loads(server.ask("/v2/models/m/config").body)["instance_group"]] == [True, False]
    assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
    wait_for("the end", lambda: calls.read_text().count("finalize ") == 3)
    lines = calls.read_text().splitlines()[3:]
    assert {line.split(" 1,")[0] for line in lines if line.startswith("execute ")} == {"execute a_0 active"}
    assert sorted(line for line in lines if not line.startswith("execute ")) == sorted(
        f"{what} {name}" for what in ("initialize", "finalize") for name in ("p_0 passive", "p_1 passive", "a_0 active"))


def test_a_passive_instance_needs_no_resources(start, tmp_path):
    calls = tmp_path / "calls"
    need = "rate_limiter { resources [ { name: 'R' count: %d } ] }"
    make(tmp_path / "models", "m", calls, tensor("X", "[ -1 ]"), f"""instance_group [
        {{ name: 'p' count: 1 kind: KIND_CPU passive: true {need % 100} }}, {{ name: 'a' count: 1 kind: KIND_CPU {need % 1} }} ]""")
    server = start(tmp_path / "models", flags=["--load-model=m", "--rate-limit=execution_count", "--rate-limit-resource=R:1"])
    in_order(server, "m", of((1, 1), (1, 2)))
    assert executions(calls) == ["1,1", "1,2"]
