# SPDX-License-Identifier: Apache-2.0
"""Under load: no request fails and none is answered by what was unloaded before it was sent; memory comes back.

The model adds its generation, a number in its file, to what it is sent, so that each answer says which file made it.
"""
import http.client
import json
import os
import shutil
import threading

import frameworks
import numpy as np
import onnx
import pytest
import small_models as small
from conftest import DEADLINE, make_identity, wait_for
from onnx import TensorProto, helper, numpy_helper
from oracle import MIB, await_resources, check_no_growth, cpu_seconds, resources, settle
from python_models import make_python

pytestmark = pytest.mark.slow

EXPLICIT = ["--model-control-mode=explicit", "--load-model=*"]
POLL = ["--model-control-mode=poll", "--repository-poll-secs=1"]
BODY = b'{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":[0]}]}'
CLIENTS = 3


def write_model(path, generation, count=1):
    """Takes its place at once, as a careful operator has it."""
    weights = numpy_helper.from_array(np.full(count, generation, np.float32), "W")
    graph = helper.make_graph(
        [helper.make_node("Add", ["X", "W"], ["Y"])], "generation",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, (1,))],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, (count,))], [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path.with_suffix(".tmp"))
    os.rename(path.with_suffix(".tmp"), path)


def make_generation(repository, staging, version, generation):
    """A version that appears with its file in it."""
    staging.mkdir()
    write_model(staging / "model.onnx", generation)
    os.rename(staging, repository / "m" / str(version))


class Clients:
    """Ask without a pause. `floor` is the generation that every request sent from now on must at least be answered by."""

    def __init__(self, server, learns):
        self.server, self.learns = server, learns
        self.floor, self.newest, self.count, self.faults = 1, 1, 0, []
        self.over, self.lock = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self.work) for _ in range(CLIENTS)]

    def ask(self, connection):
        floor = self.floor
        connection.request("POST", "/v2/models/m/infer", BODY)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            self.faults.append((answer.status, text))
            return
        generation = int(json.loads(text)["outputs"][0]["data"][0])
        with self.lock:
            self.count += 1
            self.newest = max(self.newest, generation)
            if self.learns:  # what has answered once is what serves from then on
                self.floor = max(self.floor, generation)
        if generation < floor:
            self.faults.append(f"generation {generation} answered what was sent when {floor} served")

    def work(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=DEADLINE)
        try:
            while not self.over.is_set():
                self.ask(connection)
        except Exception as fault:
            self.faults.append(fault)
        connection.close()

    def await_more(self, count):
        until = self.count + count
        wait_for("more answers", lambda: self.faults or self.count >= until)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def change(repository, tmp_path, generation, version):
    """Another file in the version, or the next version with the former one going away. Gives the version that serves then."""
    if generation % 3:
        write_model(repository / "m" / str(version) / "model.onnx", generation)
        return version
    make_generation(repository, tmp_path / "staging", version + 1, generation)
    return version + 1


@pytest.fixture
def model(repository, tmp_path):
    (repository / "m").mkdir(parents=True)
    make_generation(repository, tmp_path / "staging", 1, 1)
    return repository


def test_10000_requests_while_a_model_is_reloaded_50_times(start_server, model, tmp_path):
    server = start_server(model, flags=EXPLICIT)
    version = 1
    with Clients(server, learns=False) as clients:
        for generation in range(2, 52):
            before, version = version, change(model, tmp_path, generation, version)
            assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
            clients.floor = generation
            if version != before:
                shutil.rmtree(model / "m" / str(before))
            clients.await_more(200)
    assert clients.faults == []
    assert clients.count >= 10_000 and clients.newest == 51
    assert server.log.count("successfully loaded 'm'") == 51
    index = json.loads(server.ask("/v2/repository/index", b"").body)
    assert [row["version"] for row in index if row["state"] == "READY"] == [str(version)]


def test_no_request_notices_what_polls_see(start_server, model, tmp_path):
    make_identity(model, "other")
    server = start_server(model, flags=POLL)
    version = 1
    with Clients(server, learns=True) as clients:
        for generation in range(2, 9):
            before, version = version, change(model, tmp_path, generation, version)
            wait_for(f"generation {generation}", lambda: clients.faults or clients.newest == generation)  # noqa: B023
            if version != before:
                shutil.rmtree(model / "m" / str(before))
        make_identity(model, "other", max_batch_size=4)
        clients.await_more(1000)
    assert clients.faults == []
    assert clients.newest == 8 and clients.count >= 1000


def weighty(repository):
    (repository / "m" / "1").mkdir(parents=True)
    write_model(repository / "m" / "1" / "model.onnx", 1, count=4 * MIB)


MAKERS = {
    "identity": (lambda repository: make_identity(repository, "m"), BODY.replace(b'"X","shape":[1]', b'"INPUT0","shape":[1,1]')),
    "onnxruntime": (weighty, BODY.replace(b'"data":[0]}]', b'"data":[0]}],"parameters":{"binary_data_output":true}')),
    "python": (lambda repository: make_python(repository, "m"), BODY.replace(b'"X"', b'"IN"').replace(b"FP32", b"INT32")),
}
OF_FRAMEWORKS = ("fil", "openvino", "pytorch", "tensorflow")


@pytest.mark.parametrize("backend", [*MAKERS, *(pytest.param(backend, marks=frameworks.needs(backend)) for backend in OF_FRAMEWORKS)])
def test_memory_comes_back_after_the_last_unload(start_release, repository, backend):
    """Once the backend's library is there, which stays as in Triton, and whatever it keeps for all models."""
    make, body = MAKERS.get(backend, (lambda repository: small.add(repository, backend, "m"), None))
    make(repository)
    server = start_release(repository, flags=EXPLICIT[:1] + (frameworks.settings(backend) if body is None else []))

    def ask():
        if body is None:
            small.ask(server, backend, "m")
        else:
            assert server.ask("/v2/models/m/infer", body).status == 200

    def cycles(count):
        for _ in range(count):
            assert server.ask("/v2/repository/models/m/load", b"{}").status == 200
            ask()
            assert server.ask("/v2/repository/models/m/unload", b"{}").status == 200
            wait_for("its end", lambda: json.loads(server.ask("/v2/repository/index", b"").body)[0].get("reason") == "unloaded")

    cycles(5)
    settle(server)
    left = resources(server)
    check_no_growth(server, lambda: cycles(20), MIB)  # TensorFlow's heap grows by 3 MiB at first
    await_resources(server, left)


@pytest.mark.alone
def test_the_start_and_the_index_take_time_in_proportion_to_the_models(start_release, tmp_path):
    """Of the processor, so that what else runs does not count."""
    times = []
    for count in (1000, 10_000):
        repository = tmp_path / f"models{count}"
        for i in range(count):
            make_identity(repository, f"m{i}")
        server = start_release(repository)
        loaded = cpu_seconds(server)
        for _ in range(20):
            assert server.ask("/v2/repository/index", b"").status == 200
            assert server.ask("/v2/health/ready").status == 200
        times.append((loaded, (cpu_seconds(server) - loaded) / 20))
        server.stop()
    print(f"seconds of the processor to start, and for the index and readiness: {times}")
    (few_start, few_index), (many_start, many_index) = times
    assert many_start < 2 * 10 * few_start  # what is quadratic is 100 times
    assert many_index < 0.2 and few_index < 0.1
