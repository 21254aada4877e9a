# SPDX-License-Identifier: Apache-2.0
"""Instances on GPUs, which are played (gpus.py): on which devices they are, what each brings and takes away, limits, the texts of refusals, and that
models that need no GPU are served as on a machine without one."""
import collections
import json
import os
import re
import subprocess

import numpy as np
import pytest
import tritonclient.http as triton
from conftest import WITHOUT_GPUS, environment, make_identity, wait_for
from gpus import fake_gpus

CPU, GPU = 1, 2  # TRITONSERVER_InstanceGroupKind
EXPLICIT = ["--model-control-mode=explicit"]
Facts = collections.namedtuple("Facts", "handle device kind number thread overlap core instances")  # tests/fakes/placed_backend.c


def facts_of(answer):
    *facts, = map(int, answer.as_numpy("OUTPUT0"))
    return Facts(*facts[:7], instances=sorted(zip(facts[7::2], facts[8::2])))


def make_placed(repository, groups="", name="m", more=""):
    """Somebody else's backend, which answers with where it is run."""
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(f"""
        backend: "placed" {groups} {more}
        input {{ name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }}
        output {{ name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }}""")


def ask(server, *values, model="m"):
    given = triton.InferInput("INPUT0", [len(values)], "INT32")
    given.set_data_from_numpy(np.array(values, np.int32))
    with triton.InferenceServerClient(server.url) as client:
        return facts_of(client.infer(model, [given]))


def ask_for_memory(server, type, device, size):
    with pytest.raises(triton.InferenceServerException) as refused:
        ask(server, type, device, size)
    return refused.value.message()


def load(server, model="m", what="load", config=None):
    body = {"parameters": {"config": json.dumps(config)}} if config else {}
    return server.ask(f"/v2/repository/models/{model}/{what}", json.dumps(body).encode())


def groups_of(server, model="m"):
    return [{key: group[key] for key in ("name", "kind", "count", "gpus")} for group in
            json.loads(server.ask(f"/v2/models/{model}/config").text)["instance_group"]]


def await_nothing(gpus, devices=1):
    """What is unloaded goes behind the answer."""
    wait_for("memory and contexts given back", lambda: not any(
        gpus.counters()[f"{what}.{device}"] for what in ("used", "contexts") for device in range(devices)))


def ask_many(server, requests=16, model="m"):
    given = triton.InferInput("INPUT0", [1], "INT32")
    given.set_data_from_numpy(np.array([1], np.int32))
    with triton.InferenceServerClient(server.url, concurrency=8) as client:
        asked = [client.async_infer(model, [given]) for _ in range(requests)]
        return [facts_of(each.get_result()) for each in asked]


# ---- where instances are ----

def test_a_group_has_its_instances_on_each_gpu_that_is_good_enough(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{"capability": "9.0"}, {"capability": "5.2"}, {"capability": "7.5"}])
    make_placed(repository, "instance_group { kind: KIND_GPU count: 2 }")
    server = start_server(repository, flags=EXPLICIT, variables=gpus.variables)
    assert not gpus.counters()["contexts.0"] and "memory pool" not in server.log
    assert load(server).status == 200
    assert groups_of(server) == [{"name": "m_0", "kind": "KIND_GPU", "count": 2, "gpus": [0, 2]}]
    answer = ask(server, 1)
    assert answer.kind == GPU and answer.device in (0, 2)
    assert answer.instances == [(0, 0), (0, 1), (2, 0), (2, 1)]  # device, and number in the name
    assert {device for device in range(3) if gpus.counters()[f"contexts.{device}"]} == {0, 2}
    pools = re.findall(r"CUDA memory pool is created on device (\d) with size 67108864\b", server.log)
    assert sorted(pools) == ["0", "2"]
    assert re.search(r"Pinned memory pool is created at '0x[0-9a-f]+' with size 268435456", server.log)
    load(server, what="unload")
    await_nothing(gpus, devices=3)
    server.stop()
    assert gpus.counters()["host_bytes"] == 0


def test_models_that_use_no_gpu_leave_them_alone(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_identity(repository, "free", more="")
    make_identity(repository, "bound", more="instance_group { kind: KIND_CPU count: 2 }")
    make_placed(repository, "instance_group { kind: KIND_MODEL }", name="own")
    server = start_server(repository, variables=gpus.variables)
    assert [group["kind"] for model in ("free", "bound", "own") for group in groups_of(server, model)] == ["KIND_CPU", "KIND_CPU", "KIND_MODEL"]
    assert gpus.counters()["allocations"] == gpus.counters()["cuDevicePrimaryCtxRetain"] == 0
    assert "memory pool" not in server.log and server.log.count("| not used ") == 2


def test_a_group_without_a_kind_is_on_the_gpus_that_it_names_or_on_all(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{}, {}, {"capability": "6.1"}])
    make_placed(repository, name="none")
    make_placed(repository, "instance_group { count: 2 }", name="free")
    make_placed(repository, "instance_group { gpus: [ 1 ] }", name="named")
    make_placed(repository, "instance_group { gpus: [ 1, 2 ] }", name="partly")
    server = start_server(repository, flags=["--exit-on-error=false"], ready=False, variables=gpus.variables)
    wait_for("the models", lambda: "Serving" in server.log)
    assert groups_of(server, "none") == [{"name": "none", "kind": "KIND_GPU", "count": 1, "gpus": [0, 1]}]
    assert groups_of(server, "free") == [{"name": "free_0", "kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}]
    assert groups_of(server, "named") == [{"name": "named_0", "kind": "KIND_GPU", "count": 1, "gpus": [1]}]
    assert ask(server, 1, model="named").device == 1
    assert "instance group partly_0 of model partly has kind KIND_CPU but specifies one or more GPUs" in server.log


@pytest.mark.parametrize("minimum, used", [("1.0", [0, 1]), ("7.5", [0]), ("7.505", [0]), ("100.0", [])])
def test_the_least_capability_says_which_gpus_there_are(start_server, repository, tmp_path, minimum, used):
    gpus = fake_gpus(tmp_path, [{"capability": "7.5"}, {"capability": "5.2"}])
    make_placed(repository, "instance_group { kind: KIND_GPU }", name="all")
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 1 ] }", name="second")
    server = start_server(repository, flags=["--exit-on-error=false", f"--min-supported-compute-capability={minimum}"], ready=False,
                          variables=gpus.variables)
    wait_for("the models", lambda: "Serving" in server.log)
    if used:
        assert groups_of(server, "all")[0]["gpus"] == used
    else:
        assert "instance group all_0 of model all has kind KIND_GPU but no GPUs are available" in server.log
    if 1 not in used:
        ids = ", ".join(map(str, used))
        assert ("instance group second_0 of model second specifies invalid or unsupported gpu id 1. GPUs with at least the minimum required CUDA "
                f"compute compatibility of {float(minimum):.6f} are: {ids}") in server.log
    assert f'"min-compute-capability":"{float(minimum):.6f}"' in re.sub(r"[\\|\s]", "", server.log) or not used  # the table breaks lines


def test_counts_change_in_place_on_each_gpu(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=m"], variables=gpus.variables)
    make_placed(repository, "instance_group { kind: KIND_GPU count: 3 }")
    assert load(server).status == 200
    assert "model 'm' version 1: 4 instances came, 0 went" in server.log
    assert groups_of(server)[0] == {"name": "m_0", "kind": "KIND_GPU", "count": 3, "gpus": [0, 1]}
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 1 ] }")
    assert load(server).status == 200
    wait_for("GPU 0 given back", lambda: gpus.counters()["used.0"] == 0)
    assert ask(server, 1).device == 1 and ask(server, 1).instances == [(1, 0)]
    load(server, what="unload")
    await_nothing(gpus, devices=2)


def test_instances_of_one_device_share_a_thread_where_the_backend_wants_it(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU count: 3 }")
    make_placed(repository, "instance_group { kind: KIND_CPU count: 2 }", name="cpu")
    server = start_server(repository, flags=["--backend-config=placed,policy=device"], variables=gpus.variables)
    by_device = collections.defaultdict(list)
    for answer in ask_many(server, 64):
        by_device[answer.device].append(answer)
    for executions in by_device.values():
        assert len({each.thread for each in executions}) == 1  # of all instances there
        assert not any(each.overlap for each in executions)
        if len(executions) >= 3:
            assert len({each.number for each in executions}) == 3  # each in its turn
    assert ask(server, 1, model="cpu").kind == CPU


def test_a_gpus_host_policy_places_the_threads_of_its_instances(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 1 ] count: 2 }")
    core = min(os.sched_getaffinity(0))
    server = start_server(repository, flags=[f"--host-policy=gpu_1,cpu-cores={core}-{core}"], variables=gpus.variables)
    assert {(answer.device, answer.core) for answer in ask_many(server, 64)} == {(1, core)}


def test_an_isolated_models_gpus_are_its_own_processs(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU }", more='parameters { key: "isolate" value { string_value: "process" } }')
    make_placed(repository, name="free", more='parameters { key: "isolate" value { string_value: "process" } }')
    server = start_server(repository, variables=gpus.variables)
    assert ask(server, 1).instances == [(0, 0), (1, 0)]
    assert groups_of(server, "free") == [{"name": "free", "kind": "KIND_CPU", "count": 1, "gpus": []}]  # nobody asked its backend
    assert not any(gpus.counters(server.process.pid)[f"contexts.{device}"] for device in range(2))


# ---- memory ----

def test_the_memory_manager_has_what_the_pools_have(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 0 ] }")
    server = start_server(repository, flags=["--cuda-memory-pool-byte-size=0:1048576", "--pinned-memory-pool-byte-size=1048576"],
                          variables=gpus.variables)
    before = gpus.counters()
    for type in (0, 1, 2):  # CPU, pinned, GPU
        assert ask(server, type, 0, 4096).device == 0
    assert ask_for_memory(server, 2, 0, 1048577).startswith(
        "Failed to allocate CUDA memory with byte size 1048577 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY")
    assert ask_for_memory(server, 1, 0, 1048577).startswith("failed to allocate pinned system memory")
    assert ask_for_memory(server, 2, 1, 64).startswith("CudaMemoryManager has no preallocated CUDA memory")
    assert ask_for_memory(server, 2, 2, 64) == "Failed to set device: invalid device ordinal: GPU 2 of 2"
    assert ask_for_memory(server, 7, 0, 64) == "unknown memory type '7'"
    assert gpus.counters().since(before)["allocations"] == 0
    assert re.search(r"cuda_memory_pool_byte_size\{0\} +\| 1048576 .*\n.*cuda_memory_pool_byte_size\{1\} +\| 67108864", server.log)


def test_pools_of_no_size_are_said_to_be_disabled(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path)
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    server = start_server(repository, flags=["--cuda-memory-pool-byte-size=0:0", "--pinned-memory-pool-byte-size=0"], variables=gpus.variables)
    assert "Pinned memory pool disabled" in server.log and "CUDA memory pool disabled" in server.log
    assert ask_for_memory(server, 1, 0, 64) == "failed to allocate pinned system memory: no pinned memory pool"
    assert gpus.counters()["allocations"] == 0


@pytest.mark.parametrize("function, text", [
    ("cuMemHostAlloc", "Unable to allocate pinned system memory, pinned memory pool will not be available: "),
    ("cuMemAlloc_v2", "Unable to allocate CUDA memory pool on device 0"),
])
def test_a_pool_that_cannot_be_made_is_a_warning(start_server, repository, tmp_path, function, text):
    gpus = fake_gpus(tmp_path)
    gpus.fault(function, 2, times=0)
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    server = start_server(repository, variables=gpus.variables)
    assert text in server.log and "out of memory" in server.log
    assert ask(server, 1).kind == GPU


@pytest.mark.parametrize("limit, loads", [("0", False), ("0.5", False), ("0.6", True), ("1", True)])
def test_a_load_ends_where_a_gpus_memory_is_above_the_limit(start_server, repository, tmp_path, limit, loads):
    gpus = fake_gpus(tmp_path, [{"memory": 1 << 30, "memory_used": 1 << 29}])  # half of it is other processes'
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    server = start_server(repository, flags=[*EXPLICIT, f"--model-load-gpu-limit=0:{limit}"], variables=gpus.variables)
    answer = load(server)
    if loads:
        assert answer.status == 200 and ask(server, 1).device == 0
    else:
        assert "can not create model 'm_0_0': memory limit set for GPU 0 has exceeded, model loading is rejected." in answer.text
        await_nothing(gpus)


def test_resources_are_there_for_each_device(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, 'instance_group { kind: KIND_GPU count: 2 rate_limiter { resources { name: "r" count: 3 } } }')
    make_placed(repository, 'instance_group { kind: KIND_GPU gpus: [ 1 ] rate_limiter { resources { name: "r" count: 5 } } }', name="more")
    flags = [*EXPLICIT, "--load-model=m", "--rate-limit=execution_count", "--rate-limit-resource=r:3:0", "--rate-limit-resource=r:4:1"]
    server = start_server(repository, flags=flags, variables=gpus.variables)
    text = server.ask("/metrics", port=server.metrics_port).text
    there = {device: count for device, count in re.findall(r'^nereid_rate_limiter_resource_count{.*?device="(\d)".*} (\d+)$', text, re.M)}
    assert there == {"0": "3", "1": "4"}
    assert ask(server, 1).instances == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert ('Resource count for \\"r\\" is limited to 4 which will prevent scheduling of one or more model instances, the minimum required count is 5'
            in load(server, "more").text)


@pytest.mark.parametrize("peers, flag, told, calls", [([1], "true", 0, 2), ([], "true", 1, 0), ([1], "false", 0, 0)])
def test_gpus_that_are_used_reach_each_other(start_server, repository, tmp_path, peers, flag, told, calls):
    gpus = fake_gpus(tmp_path, [{"peers": peers}, {"peers": [0] if peers else []}])
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 0 ] }", name="first")
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 1 ] }", name="second")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=first", f"--enable-peer-access={flag}"], variables=gpus.variables)
    assert gpus.counters()["cuCtxEnablePeerAccess"] == 0 and "peer access" not in server.log
    for _ in range(2):
        assert load(server, "second").status == 200
        load(server, "second", what="unload")
        wait_for("GPU 1 given back", lambda: gpus.counters()["used.1"] == 0)
    assert server.log.count("failed to enable peer access for some device pairs") == told
    assert gpus.counters()["cuCtxEnablePeerAccess"] == 2 * calls


# ---- the start ----

def test_the_start_lists_the_gpus_and_why_one_is_not_used(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{"name": "NVIDIA H200", "memory": 2 << 30}, {"capability": "7.0", "pci": "0000:af:00.0"}])
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    log = start_server(repository, variables=gpus.variables | {"COLUMNS": "300"}).log
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in log[log.index("| GPU |"):].splitlines()[2:6] if line.startswith("| ")]
    first, *rest = rows
    assert first[:2] == ["0", "NVIDIA H200"] and first[4:] == ["9.0", "2048 MiB", "in use by 1"]
    assert rest[-1][0] in ("1", "") and "not used: less than the" in log


def test_settings_of_gpus_that_are_not_there_are_named(start_server, repository, tmp_path):
    settings = ("cuda-memory-pool-byte-size={}:1048576", "cuda-virtual-address-size={}:1048576", "model-load-gpu-limit={}:0.5")
    flags = [f"--{setting.format(device)}" for setting in settings for device in (1, 2)]
    make_placed(repository)
    log = start_server(repository, flags=flags, variables=fake_gpus(tmp_path, 2).variables).log
    for setting in settings:
        assert f"--{setting.split('=')[0]} has no effect on GPU 2: CUDA shows 2" in log
    assert "on GPU 1" not in log
    assert "has no effect on GPU" not in start_server(repository, flags=flags, variables=WITHOUT_GPUS).log


BROKEN = {
    "it does not start": (dict(function="cuInit", code=999, times=0), (), "the NVIDIA driver does not start: unknown error"),
    "it does not say what there is": (dict(function="cuDeviceGetCount", code=3, times=0), (), "unable to get number of CUDA devices: "),
    "it is too old": (None, ["cuMemSetAccess", "cuMemHostAlloc"], "the NVIDIA driver is too old: libcuda.so.1 has no cuMemHostAlloc"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_driver_that_does_not_work_stops_nobody(start_server, repository, tmp_path, case):
    fault, missing, text = BROKEN[case]
    gpus = fake_gpus(tmp_path)
    if fault:
        gpus.fault(**fault)
    make_placed(repository)
    server = start_server(repository, variables=gpus.variables_with(missing))
    assert f"Unable to allocate pinned system memory, pinned memory pool will not be available: {text}" in server.log
    assert "CUDA memory pool disabled" in server.log
    assert ask(server, 1).kind == CPU
    assert ask_for_memory(server, 2, 0, 64) == "GPU memory allocation not supported"
    assert ask_for_memory(server, 1, 0, 64) == "Pinned memory allocation not supported"


def test_without_a_driver_nothing_is_said_of_gpus(start_server, repository):
    make_placed(repository)
    server = start_server(repository, flags=["--model-load-gpu-limit=0:0.5"], variables=WITHOUT_GPUS)
    assert "memory pool" not in server.log and "| GPU" not in server.log
    assert "--model-load-gpu-limit has no effect: no GPU is used" in server.log
    assert ask(server, 1).kind == CPU
    assert ask_for_memory(server, 2, 0, 64) == "GPU memory allocation not supported"


def test_a_gpu_that_gives_no_context_fails_the_load_alone(start_server, repository, tmp_path):
    gpus = fake_gpus(tmp_path, 2)
    make_placed(repository, "instance_group { kind: KIND_GPU }")
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 0 ] }", name="first")
    server = start_server(repository, flags=[*EXPLICIT, "--load-model=first"], variables=gpus.variables)
    gpus.fault("cuDevicePrimaryCtxRetain", 2, times=0)
    assert "out of memory" in load(server).text
    assert ask(server, 1, model="first").device == 0
    gpus.heal()
    assert load(server).status == 200
    assert ask(server, 1).instances == [(0, 0), (0, 0), (1, 0)]


def test_check_knows_the_gpus_of_the_machine(nereid, repository, tmp_path):
    gpus = fake_gpus(tmp_path, [{}, {"capability": "5.2"}])
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 0 ] }", name="good")
    make_placed(repository, "instance_group { kind: KIND_GPU gpus: [ 1 ] }", name="bad")

    def check(**variables):
        done = subprocess.run([nereid, "check", repository], env=environment() | variables, capture_output=True, text=True)
        assert done.returncode == 1
        return done.stdout + done.stderr

    with_gpus, without = check(**gpus.variables), check(**WITHOUT_GPUS)
    assert "compute compatibility of 7.500000 are: 0\n" in with_gpus and "1 error" in with_gpus
    assert "2 errors" in without and "compute compatibility of 7.500000 are:" in without and "are: 0" not in without
    assert gpus.counters()["cuDevicePrimaryCtxRetain"] == 0
