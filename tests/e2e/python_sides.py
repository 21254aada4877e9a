"""One contract, two implementations: nereid's own python backend and Triton's (triton_python.py), the same tests for both.

A test module takes what it needs of `side`, `python_backends`, `start_python`; each of its tests then runs once for each side.
"""
import json
import os
import pathlib
import shutil

import pytest
from conftest import BUILD, ROOT, Starter, link_backends
from python_models import children
from triton_python import PYTHON_BUILD, VARIABLES, lay_out

MODELS = ROOT / "tests/python_models"


class Nereid:
    """The python backend of this repository."""

    build, variables = BUILD, {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    heals = True  # a worker that ends is started again

    def backends(self, folder):
        return link_backends(folder, self.build)

    def flags(self, mark):
        return []

    def left_in_memory(self, mark):
        return []


class Triton:
    """The python backend of Triton 2.51, compiled by NVIDIA."""

    build, variables = PYTHON_BUILD, VARIABLES
    heals = False

    def backends(self, folder):
        return link_backends(lay_out(folder), self.build)

    def flags(self, mark):
        return [f"--backend-config=python,shm-region-prefix-name={mark}"]

    def left_in_memory(self, mark):
        return list(pathlib.Path("/dev/shm").glob(f"{mark}*"))


class SideStarter(Starter):
    def __init__(self, side, backends, folder):
        super().__init__(side.build / "bin/nereid", backends, folder)
        self.side = side
        self.mark = f"nereid_{os.getpid()}_{id(self)}_"  # how its files in /dev/shm begin

    def __call__(self, repository, flags=(), **more):
        flags = ["--model-control-mode=explicit", *self.side.flags(self.mark), *flags]
        return super().__call__(repository, flags=flags, variables=self.side.variables, **more)

    def left_in_memory(self):
        return self.side.left_in_memory(self.mark)


@pytest.fixture(scope="module", params=[Nereid(), Triton()], ids=["nereid", "triton"])
def side(request):
    return request.param


@pytest.fixture(scope="module")
def python_backends(side, tmp_path_factory):
    """A backend directory whose `python` is the side's."""
    return side.backends(tmp_path_factory.mktemp("side"))


@pytest.fixture
def start_python(side, python_backends, tmp_path):
    """Starts servers with it."""
    starter = SideStarter(side, python_backends, tmp_path)
    yield starter
    starter.stop_all()
    assert starter.left_in_memory() == []


@pytest.fixture(scope="module")
def server(side, python_backends, tmp_path_factory):
    """One server of all models in tests/python_models, for tests that change nothing."""
    starter = SideStarter(side, python_backends, tmp_path_factory.mktemp("python"))
    yield starter(MODELS, flags=["--load-model=*", "--log-verbose=1"])
    starter.stop_all()
    assert starter.left_in_memory() == []


def put_model(repository, name):
    return shutil.copytree(MODELS / name, repository / name)


def infer(server, model, values=(), datatype="INT32", shape=None, **more):
    """The answer to one request with one input."""
    tensor = {"name": "INPUT0", "datatype": datatype, "shape": shape or [len(values)], "data": list(values)}
    return server.ask(f"/v2/models/{model}/infer", json.dumps({"inputs": [tensor], **more}).encode())


def output(answer, name="OUTPUT0"):
    assert answer.status == 200, answer.text
    return next(o["data"] for o in json.loads(answer.body)["outputs"] if o["name"] == name)


def workers(server):
    """Ids of the processes that run models."""
    return {process for process, state in children(server.process.pid).items() if state != "Z"}


def load(server, model):
    """Loads a model and gives the processes that it has."""
    before = workers(server)
    answer = server.ask(f"/v2/repository/models/{model}/load", b"")
    assert answer.status == 200, answer.text
    return workers(server) - before
