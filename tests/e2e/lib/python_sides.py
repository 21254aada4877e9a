# SPDX-License-Identifier: Apache-2.0
"""One contract, two implementations: nereid's python backend and Triton's (triton_python.py) in nereid, and nereid's in Triton.

A test module takes what it needs of `side`, `python_backends`, `start_python`, `server`; each of its tests then runs once for
each side.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT, Starter, link_backends, wait_for
from ports import free_port
from python_models import children, is_lone_guard
from triton_python import PYTHON_BUILD, TRITON, VARIABLES, lay_out

MODELS = ROOT / "tests/python_models"


class Nereid:
    """The python backend of this repository."""

    build = BUILD
    variables = {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}"}
    heals = True  # a worker that ends is started again
    opens_late = False

    @property
    def core(self):
        """The library that must be the server."""
        return self.build / "lib/libtritonserver.so"

    def backends(self, directory):
        return link_backends(directory, self.build)

    def command(self, command):
        return command

    def flags(self, mark):
        return []

    def left_in_memory(self, mark):
        return []


class Triton(Nereid):
    """The python backend of Triton 2.51, compiled by NVIDIA."""

    build, variables = PYTHON_BUILD, VARIABLES
    heals = False

    def backends(self, directory):
        return link_backends(lay_out(directory), self.build)

    def flags(self, mark):
        # One load at a time: on a busy machine the library takes a process for dead that has not begun after a second.
        return [f"--backend-config=python,shm-region-prefix-name={mark}", "--model-load-thread-count=1"]

    def left_in_memory(self, mark):
        return list(pathlib.Path("/dev/shm").glob(f"{mark}*"))


class NereidInTriton(Nereid):
    """The python backend of this repository, in NVIDIA's server of 2.51. That one is not made for sanitizers' libraries."""

    build = ROOT / "build/release"
    # An instance's thread takes the instance out of a list while it warms it up, or lets it execute, and puts it back after it has
    # told that it is done. A model that goes meanwhile asks the empty list for the instance: SIGSEGV in StopBackendThread, about
    # once in 500 stops right behind a load on a busy machine. So programs that embed it (tests/abi) leave it as it is.
    variables = {**Nereid.variables, "LD_LIBRARY_PATH": str(TRITON / "nvidia_pytriton.libs"), "LEAVE_SERVER": "1"}
    server = TRITON / "pytriton/tritonserver/bin/tritonserver"
    opens_late = True  # "Started Metrics Service at" is in its log before the port is open

    @property
    def core(self):
        return next((TRITON / "nvidia_pytriton.libs").glob("libtritonserver-*"))

    def command(self, command):
        return [str(self.server), f"--http-port={free_port()}", f"--metrics-port={free_port()}", "--allow-grpc=false", *command[4:]]


class SideStarter(Starter):
    def __init__(self, side, backends, directory):
        super().__init__(side.build / "bin/nereid", backends, directory)
        self.side, self.opens_late = side, side.opens_late
        self.mark = f"nereid_{os.getpid()}_{id(self)}_"  # how its files in /dev/shm begin

    def command(self, *repositories, flags=()):
        return self.side.command(super().command(*repositories, flags=flags))

    def __call__(self, repository, flags=(), **more):
        flags = ["--model-control-mode=explicit", *self.side.flags(self.mark), *flags]
        server = super().__call__(repository, flags=flags, variables=self.side.variables, ready=False, **more)
        # Triton's library takes half a second and more for each process.
        wait_for("readiness", lambda: server.ask("/v2/health/ready").status == 200)
        return server

    def left_in_memory(self):
        return self.side.left_in_memory(self.mark)

    def clear_memory(self):
        """After what makes Triton's library leave files behind: models that refuse to start, processes that are killed."""
        for region in self.left_in_memory():
            region.unlink()


SIDES = {"nereid": Nereid(), "triton": Triton(), "nereid-in-triton": NereidInTriton()}
# The last is the same whatever NEREID_BUILD says: ThreadSanitizer's run has no use for it.
TESTED = {name: side for name, side in SIDES.items() if name != "nereid-in-triton" or BUILD.name != "tsan"}
# for tests of what NVIDIA's server does otherwise
in_nereid = pytest.mark.parametrize("side", [SIDES["nereid"], SIDES["triton"]], ids=["nereid", "triton"], indirect=True)


@pytest.fixture(scope="module", params=TESTED.values(), ids=TESTED)
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
    try:
        yield starter(MODELS, flags=["--load-model=*", "--log-verbose=1"])
    finally:  # also when it does not get ready
        starter.stop_all()
    assert starter.left_in_memory() == []


def embedding(side, name, directory):
    """A program of tests/abi that embeds the side's server. It is compiled here, against the library that is tested: it needs no more. If that has
    sanitizers, the program has them too, and their defaults."""
    program = directory / name
    sanitizers = {"asan": ["-fsanitize=address,undefined"], "tsan": ["-fsanitize=thread"]}.get(side.build.name, [])
    defaults = [side.build / "CMakeFiles/nereid_sanitizer_options.dir/tests/sanitizer_options.c.o"] if sanitizers else []
    subprocess.run(
        [
            "cc", "-std=c17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", *sanitizers, f"-I{ROOT}/include", ROOT / f"tests/abi/{name}.c", *defaults,
            "-o", program, side.core, f"-Wl,-rpath,{side.core.parent}", "-pthread",
        ],
        check=True,
    )
    return program


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
    """Ids of the processes that run models; a guard whose worker has just ended is none."""
    return {process for process, state in children(server.process.pid).items() if state != "Z" and not is_lone_guard(process, server)}


def load(server, model):
    """Loads a model and gives the processes that it has."""
    before = workers(server)
    answer = server.ask(f"/v2/repository/models/{model}/load", b"")
    assert answer.status == 200, answer.text
    return workers(server) - before
