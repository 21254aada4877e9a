# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own python backend of 2.51, which is built for GPUs, in nereid: the GPUs are played, its CUDA runtime is ours (tests/fakes/gpu/cudart.c). Its
processes open the pool of nereid's server by one handle, or a client's memory by the handle that came with the input."""
import json

import numpy as np
import pytest
from gpu_sides import RUNTIME
from gpus import fake_gpus
from python_models import infer
from python_sides import SideStarter, Triton
from test_gpu_python import ADD, DATA, ON, make, make_echo, region, through  # noqa: F401: one is a fixture

# Calls the echo with a tensor on the device, and wants the answer there.
CALLS = """
def execute(self, requests):
    responses = []
    for request in requests:
        call = pb_utils.InferenceRequest(model_name="echo", requested_output_names=["OUTPUT0"], preferred_memory=pb_utils.PreferredMemory(
            pb_utils.TRITONSERVER_MEMORY_GPU, 0), inputs=[pb_utils.Tensor.from_dlpack("INPUT0", cuda.Array(value(request)).to_dlpack())])
        answered = call.exec()
        if answered.has_error():
            raise pb_utils.TritonModelException(answered.error().message())
        found = answered.output_tensors()[0]
        assert not found.is_cpu()
        responses.append(answer(cuda.read(found) * 2))
    return responses
"""


class TritonsPython(Triton):
    def __init__(self, gpus):
        path = f"{gpus.variables['LD_LIBRARY_PATH']}:{RUNTIME}"
        self.variables = Triton.variables | gpus.variables | {"LD_LIBRARY_PATH": path}

    def backends(self, directory):
        made = super().backends(directory)
        runtime = next((directory / "nvidia_pytriton.libs").glob("libcudart-*"))
        runtime.unlink()
        runtime.symlink_to(RUNTIME / "libcudart.so.12")
        return made


@pytest.fixture(scope="module")
def gpus(tmp_path_factory):
    return fake_gpus(tmp_path_factory.mktemp("gpus"), 2)


@pytest.fixture(scope="module")
def server(gpus, tmp_path_factory):
    repository, directory, side = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("side"), TritonsPython(gpus)
    make(repository, "add", ADD)
    make(repository, "calls", CALLS, ON)
    make_echo(repository)
    starter = SideStarter(side, side.backends(directory), directory)
    server = starter(repository, flags=("--allow-client-shm=true", "--load-model=*"))
    yield server
    # its process may wait for ever for an answer about the pool that it was given already, and so does who ends it
    server.process.kill()
    server.process.wait()
    starter.stop_all()
    starter.clear_memory()


def test_it_has_the_devices_that_the_server_has(server):
    groups = json.loads(server.ask("/v2/models/add/config").text)["instance_group"]
    assert [(group["kind"], group["gpus"]) for group in groups] == [("KIND_GPU", [0])]
    assert infer(server, "add", DATA, request_id="cpu").tolist() == (DATA + 1).tolist()


@pytest.mark.parametrize("said", ["object", "capsule"])
def test_tensors_in_a_clients_memory_reach_it_there(server, gpus, region, said):
    for _ in range(3):
        before = gpus.counters(server.process.pid)
        assert np.array_equal(through(region, "add", DATA, said), DATA + 1)
        done = gpus.counters(server.process.pid).since(before)
    assert done["copies_to_host"] == done["copies_to_device"] == done["allocations"] == 0, done


def test_large_tensors_come_through(server):
    """They are received into the server's pinned pool."""
    data = np.arange(200_000, dtype=np.int32)
    assert infer(server, "add", data, request_id="cpu").tolist() == (data + 1).tolist()


def test_tensors_of_the_servers_pool_reach_it_there(server, gpus):
    """What another model has answered on the device."""
    for _ in range(2):
        before = gpus.counters(server.process.pid)
        assert infer(server, "calls", DATA).tolist() == (2 * DATA).tolist()
        done = gpus.counters(server.process.pid).since(before)
    assert done["allocations"] == 0, done
