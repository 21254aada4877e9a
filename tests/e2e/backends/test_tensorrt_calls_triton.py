# SPDX-License-Identifier: Apache-2.0
"""The calls of NVIDIA's tensorrt backend (tests/fakes/tensorrt_backend.c, docs/backends.md), in nereid and in Triton 2.51, line by line."""
import collections
import json
import re

import pytest
from conftest import BUILD, ROOT, wait_for
from grpc_sides import NEREID, TRITON
from python_sides import SideStarter
from state_models import IDLE

BACKEND = BUILD / "test-backends/tensorrt"
CONFIG = """platform: "tensorrt_plan" max_batch_size: 4
    input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }
    output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }
"""
GROUP = 'instance_group { kind: %s profile: [ "0", "2" ] secondary_devices { kind: KIND_NVDLA device_id: 1 } }'
STATE = f"""sequence_batching {{ {IDLE} state {{ input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: [ 2 ] }} }}"""
BODY = {"id": "r", "inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


def make(repository, name, more):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1/model.plan").write_bytes(b"plan")
    (repository / name / "config.pbtxt").write_text(CONFIG + more)


def said(side, directory):
    """What one server answers to each call."""
    backends = side.backends(directory)
    (backends / "tensorrt").symlink_to(BACKEND.resolve())
    make(directory / "models", "plain", GROUP % "KIND_CPU")
    make(directory / "models", "sequence", STATE + "instance_group { kind: KIND_CPU }")
    make(directory / "models", "gpu", GROUP % "KIND_GPU")
    starter = SideStarter(side, backends, directory)
    calls = directory / "calls"
    server = starter(directory / "models", flags=[f"--backend-config=tensorrt,calls={calls}", "--load-model=plain"])

    def await_line(what):
        """One more of them; what follows an answer or ends a model, and what the next one says, would be mixed."""
        lines[what] += 1
        wait_for(what, lambda: calls.read_text().count(f"TRITONBACKEND_{what}\n") == lines[what])

    lines = collections.Counter()
    for name, more in (("plain", {}), ("sequence", {"parameters": {"sequence_id": 1, "sequence_start": True, "sequence_end": True}})):
        assert name == "plain" or server.ask(f"/v2/repository/models/{name}/load", b"").status == 200
        answer = server.ask(f"/v2/models/{name}/infer", json.dumps(BODY | more).encode())
        assert answer.status == 200 and json.loads(answer.body)["outputs"][0]["data"] == [1, 2]
        await_line("ModelInstanceReportBatchStatistics: done")
    gpu = json.loads(server.ask("/v2/repository/models/gpu/load", b"").body)["error"]
    assert json.loads(server.ask("/v2/models/plain/config").body).get("dynamic_batching") is not None
    for name in ("plain", "sequence"):  # at the stop both would end at the same time
        assert server.ask(f"/v2/repository/models/{name}/unload", b"").status == 200
        await_line("ModelState: 1 at the end")
    starter.stop_all()
    return calls.read_text().splitlines(), gpu


def listed():
    """The functions that docs/backends.md says the backend asks for."""
    section = (ROOT / "docs/backends.md").read_text().split("## NVIDIA's TensorRT backend", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"`(TRITON(?:BACKEND|SERVER)_\w+)`", section))


@pytest.mark.skipif(BUILD.name == "tsan", reason="NVIDIA's server has no use for it")
def test_each_call_is_answered_as_by_triton(tmp_path):
    (tmp_path / "nereid").mkdir()
    (tmp_path / "triton").mkdir()
    ours, our_gpu = said(NEREID, tmp_path / "nereid")
    theirs, their_gpu = said(TRITON, tmp_path / "triton")
    # That Triton's library has CUDA in it and finds none; ours says what Triton's says that is built without.
    memory = re.compile(r"^(GPU|CPU_PINNED) TRITONBACKEND_MemoryManagerAllocate: (\w+)")
    assert [line for line in ours if not memory.match(line)] == [line for line in theirs if not memory.match(line)]
    refused = [line.split(": ", 1)[1] for line in ours if memory.match(line)]
    assert set(refused) == {"Unsupported: GPU memory allocation not supported (5)", "Unsupported: Pinned memory allocation not supported (5)"}
    assert len(refused) == sum(memory.match(line) is not None for line in theirs) == 4
    for text in (our_gpu, their_gpu):
        assert "instance group gpu_0 of model gpu has kind KIND_GPU but no GPUs are available" in text


def test_the_fake_makes_all_calls_that_are_listed():
    source = (ROOT / "tests/fakes/tensorrt_backend.c").read_text()
    made = set(re.findall(r"TRITON(?:BACKEND|SERVER)_[A-Z]\w*(?=\()", source))
    assert listed() <= made
    assert len(listed()) > 60
