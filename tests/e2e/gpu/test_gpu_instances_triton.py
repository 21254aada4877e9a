# SPDX-License-Identifier: Apache-2.0
"""Groups, limits and memory on GPUs that are played, in nereid and in NVIDIA's server of 2.51: where instances are, and the words of what is refused."""
import json

import pytest
import tritonclient.http as triton
from conftest import BUILD, wait_for
from gpu_sides import SIDES
from gpus import fake_gpus
from python_sides import SideStarter
from test_gpu_instances import ask, ask_many, load, make_placed

DEVICES = [{"capability": "9.0"}, {"capability": "7.5"}, {"capability": "5.2"}, {"capability": "8.0", "memory": 1 << 30, "memory_used": 1 << 29}]
GROUPS = {  # (kind, count, gpus) of each group that comes of it; (device, number in the name) of each instance
    "none": ("", [("GPU", 1, [0, 1, 3])], [(0, 0), (1, 0), (3, 0)]),
    "count": ("instance_group { count: 2 }", [("GPU", 2, [0, 1, 3])], [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (3, 1)]),
    "listed": ("instance_group { gpus: [ 3, 0 ] }", [("GPU", 1, [3, 0])], [(0, 0), (3, 0)]),
    "all": ("instance_group { kind: KIND_GPU count: 2 }", [("GPU", 2, [0, 1, 3])], [(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (3, 1)]),
    "mixed": ("instance_group [ { kind: KIND_GPU gpus: [ 0 ] name: 'a' }, { kind: KIND_CPU count: 2 }, { gpus: [ 1 ] } ]",
              [("GPU", 1, [0]), ("CPU", 2, []), ("GPU", 1, [1])], [(0, 0), (0, 0), (0, 1), (1, 0)]),
    "own": ("instance_group { kind: KIND_MODEL }", [("MODEL", 1, [])], [(0, 0)]),
}
ABSENT = "GPUs with at least the minimum required CUDA compute compatibility of 7.500000 are: 0, 1, 3"
REFUSED = {
    "partly": ("instance_group { gpus: [ 0, 2 ] }", "instance group partly_0 of model partly has kind KIND_CPU but specifies one or more GPUs"),
    "old": ("instance_group { kind: KIND_GPU gpus: [ 2 ] }",
            f"instance group old_0 of model old specifies invalid or unsupported gpu id 2. {ABSENT}"),
    "absent": ("instance_group { kind: KIND_GPU gpus: [ 0, 4 ] }",
               f"instance group absent_0 of model absent specifies invalid or unsupported gpu id 4. {ABSENT}"),
    "resource": ("instance_group { kind: KIND_GPU gpus: [ 1 ] rate_limiter { resources { name: 'r' count: 5 } } }",
                 'Resource count for "r" is limited to 4 which will prevent scheduling of one or more model instances, the minimum required count is 5'),
    "limited": ("instance_group { kind: KIND_GPU gpus: [ 3 ] }",
                "can not create model 'limited_0_0': memory limit set for GPU 3 has exceeded, model loading is rejected."),
}
MEMORY = {  # (type, device, bytes) of TRITONBACKEND_MemoryManagerAllocate: how the answer begins; "": there was room
    (0, 0, 4096): "", (1, 0, 1 << 20): "", (2, 0, 1 << 20): "",
    (1, 0, 1 << 27): "failed to allocate pinned system memory",
    (2, 0, 1 << 25): "Failed to allocate CUDA memory with byte size 33554432 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY",
}


def refusal_of_memory(server, wish):
    try:
        ask(server, *wish)
        return ""
    except triton.InferenceServerException as refused:
        return refused.message()


@pytest.fixture(scope="module", params=SIDES.values(), ids=SIDES)
def start(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("side")
    side = request.param(fake_gpus(directory, DEVICES))
    for name, (groups, *_) in (GROUPS | REFUSED).items():
        make_placed(directory / "models", groups, name=name)
    make_placed(directory / "models", GROUPS["all"][0])
    backends = side.backends(directory)
    (backends / "placed").unlink(missing_ok=True)  # of another build
    (backends / "placed").symlink_to((BUILD / "test-backends/placed").resolve())
    flags = ["--min-supported-compute-capability=7.5", "--pinned-memory-pool-byte-size=67108864", "--backend-config=placed,policy=device",
             *(f"--cuda-memory-pool-byte-size={device}:16777216" for device in (0, 1, 3))]
    starter = SideStarter(side, backends, directory)

    def start(*more):
        return starter(directory / "models", flags=[*flags, *more])

    yield start
    starter.stop_all()


def test_groups_have_their_instances_where_triton_has_them(start):
    server = start()
    for name, (_, groups, instances) in GROUPS.items():
        assert load(server, name).status == 200, server.log
        found = json.loads(server.ask(f"/v2/models/{name}/config").text)["instance_group"]
        assert [(group["kind"], group["count"], group["gpus"]) for group in found] == [(f"KIND_{kind}", *rest) for kind, *rest in groups]
        assert ask(server, 1, model=name).instances == instances
        load(server, name, what="unload")
        wait_for("its end", lambda: f"successfully unloaded '{name}' version 1" in server.log)


def test_a_thread_for_each_device_and_memory_of_the_pools(start):
    server = start("--load-model=m")
    answers = ask_many(server, 48)
    assert not any(each.overlap for each in answers)
    assert len({(each.device, each.thread) for each in answers}) == len({each.device for each in answers})
    for wish, text in MEMORY.items():
        said = refusal_of_memory(server, wish)
        assert said.startswith(text) and bool(said) == bool(text), wish  # nereid adds how much is in use


@pytest.mark.parametrize("start", [SIDES["nereid"]], indirect=True, ids=["nereid"])
def test_what_cannot_be_is_refused_in_the_same_words(start):
    """Triton's, which were compared once: it ends without a word in one of eight such runs, and is not asked here any more."""
    server = start("--rate-limit=execution_count", "--rate-limit-resource=r:4", "--model-load-gpu-limit=3:0.4")
    for name, (_, text) in REFUSED.items():
        assert text in json.loads(load(server, name).text)["error"]
