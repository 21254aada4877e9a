"""Triton's own Python backend in nereid: models that load models, processes that end, processes that are killed."""
import concurrent.futures
import json
import os
import signal

import pytest
from conftest import DEADLINE, make_identity, wait_for
from triton_python import infer, output, put_model, stubs, triton_python, triton_python_backends  # noqa: F401


@pytest.fixture
def server(triton_python, repository):
    for name in ("control", "tell", "bls"):
        put_model(repository, name)
    make_identity(repository, "spare", "TYPE_INT32", max_batch_size=0)
    return triton_python(repository, flags=["--load-model=control"])


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


def test_an_unloaded_models_process_is_gone(server):
    assert server.ask("/v2/repository/models/bls/load", b"").status == 200
    assert len(stubs(server, "bls")) == 3  # one for each instance
    assert len(stubs(server)) == 4
    assert server.ask("/v2/repository/models/bls/unload", b"").status == 200
    wait_for("the end of the processes", lambda: stubs(server, "bls") == [])
    assert len(stubs(server, "control")) == 1


def test_a_killed_process_is_its_models_failure_alone(triton_python, repository):
    for name in ("control", "tell"):
        put_model(repository, name)
    make_identity(repository, "spare", "TYPE_INT32", max_batch_size=0)
    server = triton_python(repository, flags=["--load-model=*", "--exit-timeout-secs=1"])
    (process,) = stubs(server, "tell")
    os.kill(process, signal.SIGKILL)
    answer = infer(server, "tell", [1])
    assert (answer.status, json.loads(answer.body)) == (500, {"error": "Stub process 'tell_0' is not healthy."})
    assert output(infer(server, "spare", [3])) == [3]
    assert tell(server, "spare", "ready") == [1]
    # a model that is loaded anew has a new process
    assert server.ask("/v2/repository/models/tell/unload", b"").status == 200
    wait_for("the unload", lambda: not is_ready(server, "tell"))
    assert server.ask("/v2/repository/models/tell/load", b"").status == 200
    assert infer(server, "tell", [1]).status == 200
    # The library loses the failed request's response factory, which keeps its model: Triton 2.51 itself does not stop in time either.
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(DEADLINE) == 1
    assert "model 'tell' (version 1) has 1 in-flight inferences that are cut off" in server.log
    for region in triton_python.left_in_memory():
        region.unlink()


def test_a_process_that_is_killed_at_work_fails_what_it_does(triton_python, repository):
    for name in ("patient", "tell"):
        put_model(repository, name)
    server = triton_python(repository, flags=["--load-model=*", "--exit-timeout-secs=1"])
    with concurrent.futures.ThreadPoolExecutor(1) as client:
        answer = client.submit(infer, server, "patient", [1], id="doomed")
        wait_for("the model's start", lambda: "patient: began doomed" in server.log)
        (process,) = stubs(server, "patient")
        os.kill(process, signal.SIGKILL)
        assert answer.result().status == 500
        assert "Stub process" in answer.result().text
    assert infer(server, "tell", [1]).status == 200
    server.process.kill()  # see above
    server.process.wait()
    for region in triton_python.left_in_memory():
        region.unlink()
