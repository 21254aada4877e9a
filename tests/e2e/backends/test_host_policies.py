# SPDX-License-Identifier: Apache-2.0
"""Host policies: where instances run and take memory from, with nereid and with Triton 2.51 (python_sides.py)."""
import ctypes
import json
import os
import re
import signal
import subprocess

import numpy as np
import proc
import pytest
import tritonclient.http as triton
from conftest import DEADLINE, environment, make_identity, wait_for
from onnx import TensorProto
from python_models import PID, ask, infer, make_python, worker_of
from python_sides import SIDES, embedding, load, python_backends, side, start_python  # noqa: F401
from test_onnxruntime import identity as make_onnx_identity

FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
ABSENT = max(os.sched_getaffinity(0)) + 1000


def may_bind():
    """Not in every container."""
    libc, nodes = ctypes.CDLL(None), (ctypes.c_ulong * 16)(1)
    bound = libc.syscall(238, 2, nodes, 1024) == 0  # set_mempolicy, MPOL_BIND
    return bound and libc.syscall(238, 0, None, 0) == 0


MEMORY = "bind:0" if may_bind() else "default"
POLICIES = [f"--host-policy=cpu,cpu-cores={LAST}-{LAST}", f"--host-policy=mine,cpu-cores={FIRST}-{FIRST}"]
POLICIES += ["--host-policy=mine,numa-node=0"] * may_bind()
GROUP = 'backend: "python" input { name: "IN" data_type: TYPE_INT32 dims: [-1] } output { name: "OUT" data_type: TYPE_INT32 dims: [-1] } '


def place(task):
    """(cores, memory policy) of a thread or process; None of one that is gone."""
    cores = re.search(r"^Cpus_allowed_list:\s(.*)", proc.read(task, "status"), re.M)
    memory = proc.read(task, "numa_maps").split()
    return (cores[1], memory[1]) if cores and memory else None


def threads(server, name):
    """The server's threads of this name."""
    return [task for task, named in proc.threads(server.process.pid).items() if named == name]


ON_CPU, ON_MINE = (str(LAST), "default"), (str(FIRST), MEMORY)


def test_python_models_run_where_their_policies_say(start_python, tmp_path):
    repository = tmp_path / "models"
    make_python(repository, "usual", PID)
    make_python(repository, "named", PID, config=GROUP + 'instance_group { kind: KIND_CPU host_policy: "mine" }')
    make_python(repository, "two", PID, config=GROUP + 'instance_group [{ kind: KIND_CPU }, { kind: KIND_CPU host_policy: "mine" }]')
    server = start_python(repository, flags=POLICIES)
    for model, places in {"usual": [ON_CPU], "named": [ON_MINE], "two": [ON_MINE, ON_CPU]}.items():
        assert sorted(map(place, load(server, model))) == sorted(places), model
        assert place(worker_of(server, model)) in places


@pytest.mark.parametrize("side", [SIDES["nereid"]], ids=["nereid"], indirect=True)
def test_all_that_belongs_to_an_instance_is_there(start_python, tmp_path):
    """Triton leaves its threads for loading where the last policy put them, and models without a policy with them."""
    repository = tmp_path / "models"
    make_python(repository, "named", PID, config=GROUP + 'instance_group { kind: KIND_CPU host_policy: "mine" }')
    make_python(repository, "free", PID, config=GROUP + "instance_group { kind: KIND_MODEL }")
    server = start_python(repository, flags=["--load-model=*", *POLICIES])
    own = place(server.process.pid)
    for model, expected in {"named": ON_MINE, "free": own}.items():
        assert place(worker_of(server, model)) == expected
        assert [place(task) for task in threads(server, f"{model}_0_0")] == [expected]
    for name in ("py listener", "py process"):
        assert sorted(place(task) for task in threads(server, name)) == sorted([ON_MINE, own])
    before = worker_of(server, "named")
    os.kill(before, signal.SIGKILL)
    wait_for("the next worker", lambda: proc.is_gone(before) and ask(server, "named")[0] == 200)  # what the old one had fails
    assert place(worker_of(server, "named")) == ON_MINE
    assert {place(task) for name in ("http-loop", "nereid") for task in threads(server, name)} == {own}


@pytest.mark.parametrize("side", [SIDES["nereid"]], ids=["nereid"], indirect=True)
def test_threads_of_onnxruntime_are_there_too(start_python, tmp_path):
    repository = tmp_path / "models"
    make_onnx_identity(repository, "m", TensorProto.FLOAT, ("batch", 2), """
        backend: "onnxruntime" max_batch_size: 4 instance_group { kind: KIND_CPU host_policy: "mine" }
        parameters { key: "intra_op_thread_count" value { string_value: "3" } }""")
    server = start_python(repository, flags=POLICIES)
    before = proc.threads(server.process.pid)
    assert server.ask("/v2/repository/models/m/load", b"").status == 200
    data = np.ones((1, 2), np.float32)
    with triton.InferenceServerClient(server.url) as client:
        client.infer("m", [triton.InferInput("X", [1, 2], "FP32").set_data_from_numpy(data)])

    def places():  # of a thread that ends meanwhile: none
        new = (place(task) for task, name in proc.threads(server.process.pid).items() if task not in before and "http" not in name and name != "job")
        return [found for found in new if found]

    # Two of the session, which counts the caller, and the instance's. The one that has loaded the model is on its way out; a job's thread, which comes where
    # others are busy, stays.
    wait_for("the session's threads and no others", lambda: set(found := places()) == {ON_MINE} and len(found) >= 3)


def switches(server, name):
    """How often the thread was off its processor, by itself or not: one that nobody wakes, never."""
    (task,) = threads(server, name)
    return sum(map(int, re.findall(r"voluntary_ctxt_switches:\s(\d+)", proc.read(task, "status"))))


@pytest.mark.parametrize("side", [SIDES["nereid"]], ids=["nereid"], indirect=True)
def test_an_instance_with_a_policy_is_run_by_its_own_thread_alone(start_python, tmp_path):
    """A fast model without one is run by the thread that brings the request."""
    repository = tmp_path / "models"
    make_identity(repository, "m", "TYPE_INT32")
    server = start_python(repository, flags=["--load-model=m", *POLICIES])
    tensor = triton.InferInput("INPUT0", [1, 1], "INT32").set_data_from_numpy(np.ones((1, 1), np.int32))
    with triton.InferenceServerClient(server.url) as client:
        for _ in range(300):  # that it is fast must be known
            client.infer("m", [tensor])
        before = switches(server, "m_0")
        for _ in range(100):
            client.infer("m", [tensor])
    assert [place(task) for task in threads(server, "m_0")] == [ON_CPU]
    assert switches(server, "m_0") - before > 20  # it sleeps between most of them; else it would sleep on


# Settings that cannot be: what a load that needs them says.
REFUSED = {
    "cpu-cores=1": "host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got 1",
    "cpu-cores=0-1,7": "host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got 7",
    "cpu-cores=x-1": "Parsing 'cpu-cores' value: Can't parse 'x' to integer",
    "cpu-cores=0-y": "Parsing 'cpu-cores' value: Can't parse 'y' to integer",
    "cpu-cores=-1": "Parsing 'cpu-cores' value: Can't parse '' to integer",
    f"cpu-cores={ABSENT}-{ABSENT}": "Unable to set NUMA thread affinity: ",
    "cpu-cores=1-0": "Unable to set NUMA thread affinity: ",
    "numa-node=x": "Parsing 'numa-node' value: Can't parse 'x' to integer",
    "numa-node=999": "Unable to set NUMA memory policy: ",
    "numa-node=-1": "Unable to set NUMA memory policy: ",
}


def test_settings_that_cannot_be_fail_the_load(start_python, tmp_path):
    flags = [f"--host-policy=p{i},{setting}" for i, setting in enumerate(REFUSED)]
    for i in range(len(REFUSED)):
        make_python(tmp_path / "models", f"m{i}", config=GROUP + f'instance_group {{ kind: KIND_CPU host_policy: "p{i}" }}')
    server = start_python(tmp_path / "models", flags=flags)
    for i, reason in enumerate(REFUSED.values()):
        answer = server.ask(f"/v2/repository/models/m{i}/load", b"")
        assert answer.status == 400 and reason in json.loads(answer.body)["error"], (reason, answer.text)


# As Triton reads them: blanks, what is behind a number, and a range that ends behind the next dash.
TAKEN = {f"{FIRST}- {FIRST} ": [FIRST], f"{FIRST}-{FIRST}x": [FIRST], f"{FIRST},{LAST}-{LAST}": range(FIRST, LAST + 1),
         f"{FIRST}-{FIRST},{LAST}-{LAST}": [FIRST, LAST], f"{LAST}-{ABSENT}": [LAST]}


def test_settings_are_read_as_triton_reads_them(start_python, tmp_path):
    flags = [f"--host-policy=p{i},cpu-cores={cores}" for i, cores in enumerate(TAKEN)]
    cores = "def execute(self, requests):\n    return [answer(np.array(sorted(os.sched_getaffinity(0)), np.int32)) for r in requests]"
    for i in range(len(TAKEN)):
        make_python(tmp_path / "models", f"m{i}", cores, config=GROUP + f'instance_group {{ kind: KIND_CPU host_policy: "p{i}" }}')
    server = start_python(tmp_path / "models", flags=["--load-model=*", *flags])
    for i, (setting, expected) in enumerate(TAKEN.items()):
        assert infer(server, f"m{i}").tolist() == sorted({core for core in expected if core in os.sched_getaffinity(0)}), setting


@pytest.mark.parametrize("side", [SIDES["nereid"]], ids=["nereid"], indirect=True)
def test_cores_that_the_process_may_not_use_are_told(start_python, tmp_path):
    make_python(tmp_path / "models", "m")
    server = start_python(tmp_path / "models", flags=["--load-model=m", f"--host-policy=cpu,cpu-cores={LAST}-{LAST + 3}"])
    assert "instance 'm_0_0': this process may not use 3 of the cores of host policy 'cpu'" in server.log


# ---- input data for policies, from a program that embeds the server (tests/abi/policy_client.c)

in_servers = pytest.mark.parametrize("side", [SIDES["nereid"], SIDES["nereid-in-triton"]], ids=["nereid", "nereid-in-triton"], indirect=True)
TOO_FEW = "Invalid argument: [request id: <id_unknown>] input byte size mismatch for input 'INPUT0' for model '%s'. Expected 8, got 0"
# (the model, the steps): what it answers. "named" has the policy mine, "usual" cpu. Without a policy's name: the usual data.
READ = {
    ("named", "=1,2 mine=3,4"): "3,4",
    ("usual", "=1,2 mine=3,4"): "1,2",
    ("usual", "=1,2 cpu=5,6"): "5,6",
    ("named", "=1,2 other=3,4"): "1,2",
    ("named", "mine=3 other=9,9 mine=4 =1,2"): "3,4",
    ("named", "=1,2 mine=3,4 remove =7,8"): "7,8",
    ("named", "mine=3,4"): TOO_FEW % "named",
    ("named", "=1,2 mine="): "Invalid argument: input 'INPUT0' has 0 bytes, its shape needs 8",
    ("python", "=1,2 mine=3,4"): "3,4",
}


@in_servers
def test_instances_read_the_data_for_their_policy(side, python_backends, tmp_path):
    mine = 'instance_group { kind: KIND_CPU host_policy: "mine" }'
    for name, more in {"usual": "", "named": mine}.items():
        make_identity(tmp_path / "models", name, "TYPE_INT32", max_batch_size=0, more=more)
    config = GROUP.replace('"IN"', '"INPUT0"') + mine
    make_python(tmp_path / "models", "python", "def execute(self, requests):\n    return [answer(value(r, 'INPUT0')) for r in requests]", config=config)
    program = embedding(side, "policy_client", tmp_path)
    for (model, steps), expected in READ.items():
        run = subprocess.run([program, python_backends, tmp_path / "models", model, "INPUT0", "2", *steps.split()], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=DEADLINE, env=environment() | side.variables)
        assert (run.returncode, run.stdout.strip()) == (0, expected), (model, steps, run.stderr)
