# SPDX-License-Identifier: Apache-2.0
"""A backend for GPUs of somebody else (tests/fakes/gpu_backend.c): what nereid answers to it, and NVIDIA's server of 2.51, line by line."""
import re

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import BUILD, DEADLINE, make_identity
from gpu_sides import SIDES
from gpus import fake_gpus
from python_sides import SideStarter
from state_models import IDLE

CONFIG = """backend: "gpu" max_batch_size: 4
    input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
STATE = f'sequence_batching {{ {IDLE} state {{ input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: [ 4 ] }} }}'
MODELS = {
    "preferred": "",  # the backend prefers two instances on GPUs
    "one": "instance_group { kind: KIND_GPU gpus: [ 1 ] name: 'g' }",
    "auto": "instance_group { kind: KIND_AUTO }",
    "policy": "instance_group { kind: KIND_GPU gpus: [ 0 ] host_policy: 'p' }",
    "secondary": "instance_group { kind: KIND_GPU gpus: [ 0 ] secondary_devices [ { kind: KIND_NVDLA device_id: 1 }, "
                 "{ kind: KIND_NVDLA device_id: 9007199254740993 } ] }",
    "sequence": STATE + "instance_group { kind: KIND_GPU gpus: [ 0 ] }",
}
REFUSED = {
    "absent": "instance_group { kind: KIND_GPU gpus: [ 3 ] }",
    "old": "instance_group { kind: KIND_GPU gpus: [ 2 ] }",
    "cpu": "instance_group { kind: KIND_CPU gpus: [ 0 ] }",
    "model": "instance_group { kind: KIND_MODEL gpus: [ 0 ] }",
}
DEVICES = [{"capability": "9.0"}, {"capability": "8.0"}, {"capability": "5.2"}]


def make(repository, name, more):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(CONFIG + more)


def error_of(client, name):
    with pytest.raises(triton.InferenceServerException) as found:
        client.load_model(name)
    return re.sub(r"^.*failed to load '\w+', (failed to poll from model repository)?", "", found.value.message())


def run(side, directory):
    """The lines of each model's calls, its groups, and the errors of those that are refused."""
    for name, more in (MODELS | REFUSED).items():
        make(directory / "models", name, more)
    backends = side.backends(directory)
    (backends / "gpu").symlink_to((BUILD / "test-backends/gpu").resolve())
    calls, said, groups = directory / "calls", {}, {}
    starter = SideStarter(side, backends, directory)
    flags = [f"--backend-config=gpu,calls={calls}", "--min-supported-compute-capability=7.5", "--cuda-memory-pool-byte-size=0:33554432",
             "--cuda-memory-pool-byte-size=1:33554432", "--model-load-thread-count=1"]
    server = starter(directory / "models", flags=flags)
    data = np.arange(100, dtype=np.float32).reshape(1, 100)
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        for name in MODELS:
            before = len(calls.read_text()) if calls.exists() else 0
            client.load_model(name)
            more = {"sequence_id": 1, "sequence_start": True, "sequence_end": True} if name == "sequence" else {}
            tensor = triton.InferInput("INPUT0", data.shape, "FP32").set_data_from_numpy(data)
            assert np.array_equal(client.infer(name, [tensor], **more).as_numpy("OUTPUT0"), data)
            said[name] = calls.read_text()[before:].splitlines()
            groups[name] = client.get_model_config(name)["instance_group"]
        refused = {name: error_of(client, name) for name in REFUSED}
    starter.stop_all()
    return said, groups, refused


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    found = {}
    for name, side in SIDES.items():
        directory = tmp_path_factory.mktemp(name)
        found[name] = run(side(fake_gpus(directory, DEVICES)), directory)
    return found


def without_ours(lines):
    """nereid says more of what there is."""
    return [re.sub(r"(CNMEM_STATUS_OUT_OF_MEMORY|invalid device ordinal): .*", r"\1", line) for line in lines]


@pytest.mark.parametrize("model", MODELS)
def test_each_call_is_answered_as_by_triton(answers, model):
    said, groups, _ = answers["nereid"]
    devices = {"preferred": ["0", "1", "0", "1"], "auto": ["0", "1", "0", "1"], "one": ["1", "1"]}.get(model, ["0", "0"])
    assert [line.split(": ")[1] for line in said[model] if line.startswith("TRITONBACKEND_ModelInstanceDeviceId")] == devices
    assert said[model].count("it is kept") == 3 * len(devices)  # memory of the device, pinned, plain
    for other, other_groups, _ in list(answers.values())[1:]:
        assert without_ours(said[model]) == other[model]
        assert groups[model] == other_groups[model]


def test_secondary_devices_are_handed_on(answers):
    said, groups, _ = answers["nereid"]
    lines = [line.split(": ", 1)[1] for line in said["secondary"] if line.startswith("TRITONBACKEND_ModelInstanceSecondaryDevice")][:4]
    assert lines[:3] == ["2", "KIND_NVDLA 1", "KIND_NVDLA 9007199254740993"] and lines[3].startswith("Invalid argument: ")
    assert [device["device_id"] for device in groups["secondary"][0]["secondary_devices"]] == ["1", "9007199254740993"]


@pytest.mark.parametrize("model", REFUSED)
def test_a_group_that_cannot_be_is_refused_as_by_triton(answers, model):
    first, refused = answers["nereid"][2][model].split("\n")[0], answers["nereid"][2][model]
    assert f"instance group {model}_0 of model {model} " in first and "at config.pbtxt:4:" in refused
    for _, _, other in list(answers.values())[1:]:
        assert first == other[model].rstrip(";\n")


@pytest.mark.parametrize("name", SIDES)
def test_our_identity_runs_on_the_gpus_of_either(name, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    side = SIDES[name](gpus)
    make_identity(tmp_path / "models", "m", "TYPE_UINT8", more="instance_group [ { kind: KIND_GPU } ]")
    starter = SideStarter(side, side.backends(tmp_path), tmp_path)
    server = starter(tmp_path / "models", flags=["--load-model=m"])
    data = np.random.default_rng(1).integers(0, 256, (1, 5 << 20), np.uint8)
    with triton.InferenceServerClient(server.url, network_timeout=DEADLINE) as client:
        for _ in range(3):
            before = gpus.counters()
            tensor = triton.InferInput("INPUT0", data.shape, "UINT8").set_data_from_numpy(data)
            assert np.array_equal(client.infer("m", [tensor]).as_numpy("OUTPUT0"), data)
            asked = gpus.counters().since(before)
            assert asked["bytes_to_device"] == asked["bytes_to_host"] == data.size
            assert asked["allocations"] == asked["pageable_copies"] == 0
    starter.stop_all()
