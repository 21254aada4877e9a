# SPDX-License-Identifier: Apache-2.0
"""Python models that load models; processes of models that end, processes that are killed."""
import concurrent.futures
import json
import os
import signal

import pytest
from conftest import DEADLINE, make_identity, wait_for
from python_models import make_python
from python_sides import infer, load, output, put_model, python_backends, side, start_python, workers  # noqa: F401

pytestmark = pytest.mark.long


@pytest.fixture
def start(start_python, repository):
    def start(*flags):
        for name in ("control", "tell", "bls", "patient"):
            put_model(repository, name)
        make_identity(repository, "spare", "TYPE_INT32", max_batch_size=0)
        return start_python(repository, flags=["--load-model=control", *flags])

    return start


@pytest.fixture
def server(start):
    return start()


def is_ready(server, model):
    return server.ask(f"/v2/models/{model}/ready").status == 200


def tell(server, model, what):
    return output(infer(server, "control", [1], parameters={"do": what, "model": model}))


def test_a_model_loads_and_unloads_others(server):
    assert tell(server, "spare", "ready") == [0]
    assert tell(server, "spare", "load") == [1]
    assert output(infer(server, "spare", [8])) == [8]
    assert tell(server, "tell", "load") == [1]
    assert infer(server, "tell", [1]).status == 200
    tell(server, "spare", "unload")
    wait_for("the unload", lambda: not is_ready(server, "spare"))
    assert tell(server, "tell", "ready") == [1]


def test_a_model_loads_another_with_a_configuration(server):
    config = json.dumps({
        "backend": "identity", "max_batch_size": 4,
        "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [1]}],
    })
    answer = infer(server, "control", [1], parameters={"do": "load", "model": "spare", "config": config})
    assert output(answer) == [1]
    assert json.loads(server.ask("/v2/models/spare/config").body)["max_batch_size"] == 4


def test_an_unloaded_models_processes_are_gone(server):
    before = workers(server)
    assert len(before) == 1
    assert len(load(server, "bls")) == 3  # one for each instance
    assert server.ask("/v2/repository/models/bls/unload", b"").status == 200
    wait_for("the end of the processes", lambda: workers(server) == before)


def reload(server, model):
    assert server.ask(f"/v2/repository/models/{model}/unload", b"").status == 200
    wait_for("the unload", lambda: not is_ready(server, model))
    return load(server, model)


def exit_timeout(side):
    """For servers that are not going to stop in time: see stop_after_a_death."""
    return [] if side.heals else ["--exit-timeout-secs=1"]


def stop_after_a_death(server, side, start_python):
    """Triton's library loses the response factory of a request that failed with its process, and that keeps the model: Triton 2.51
    itself does not stop in time either."""
    if side.heals:
        return server.stop()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(DEADLINE) == 1
    assert "has 1 in-flight inferences that are cut off" in server.log
    start_python.clear_memory()


def test_a_killed_process_is_its_models_failure_alone(start, side, start_python):
    server = start("--load-model=spare", *exit_timeout(side))
    (process,) = load(server, "tell")
    os.kill(process, signal.SIGKILL)
    if side.heals:
        wait_for("a new process", lambda: len(workers(server) - {process}) == 2)
        wait_for("an answer", lambda: infer(server, "tell", [1]).status == 200)
    else:
        answer = infer(server, "tell", [1])
        assert (answer.status, json.loads(answer.body)) == (500, {"error": "Stub process 'tell_0' is not healthy."})
    assert output(infer(server, "spare", [3])) == [3]
    assert tell(server, "spare", "ready") == [1]
    # a model that is loaded anew has a new process
    assert process not in reload(server, "tell")
    assert infer(server, "tell", [1]).status == 200
    stop_after_a_death(server, side, start_python)


def test_a_process_that_is_killed_at_work_fails_what_it_does(start, side, start_python):
    server = start("--load-model=tell", *exit_timeout(side))
    (process,) = load(server, "patient")
    with concurrent.futures.ThreadPoolExecutor(1) as client:
        answer = client.submit(infer, server, "patient", [1], id="doomed")
        wait_for("the model's start", lambda: "patient: began doomed" in server.log)
        os.kill(process, signal.SIGKILL)
        assert answer.result().status == 500
        assert "Stub process 'patient_0" in answer.result().text
        assert "is not healthy" in answer.result().text
    assert infer(server, "tell", [1]).status == 200
    if side.heals:
        wait_for("the new process", lambda: len(workers(server)) == 3 and process not in workers(server))
    else:
        server.process.kill()  # see stop_after_a_death
        server.process.wait()
        start_python.clear_memory()


def test_a_load_that_fails_says_where(start_python, repository):
    directory = make_python(repository, "broken", "def initialize(self, args):\n    raise ValueError('no weights')")
    server = start_python(repository)
    answer = server.ask("/v2/repository/models/broken/load", b"")
    lines = (directory / "1/model.py").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "no weights" in line)
    assert answer.status != 200
    said = json.loads(answer.body)["error"]
    assert f"ValueError: no weights\n\nAt:\n  {directory}/1/model.py({number}): initialize" in said
    wait_for("the ends of the processes", lambda: workers(server) == set())
    start_python.clear_memory()
